//! Scalars of a tree that passed the structural check. What did not pass is none here, and was reported there.

use std::time::Duration;

use crate::units;
use crate::yaml::{Node, Value};

/// The duration under `key`.
pub(super) fn duration(node: &Node, key: &str) -> Option<Duration> {
    units::duration(node.get(key)?.text()?)
}

/// The size under `key`, in bytes.
pub(super) fn size(node: &Node, key: &str) -> Option<u64> {
    units::size(node.get(key)?.text()?)
}

/// The size under `key`, in bytes of memory.
pub(super) fn memory_size(node: &Node, key: &str) -> Option<usize> {
    size(node, key).and_then(|bytes| usize::try_from(bytes).ok())
}

/// The whole number under `key`.
pub(super) fn int<T: TryFrom<u64>>(node: &Node, key: &str) -> Option<T> {
    T::try_from(units::whole(node.get(key)?.text()?)?).ok()
}

/// The boolean under `key`.
pub(super) fn boolean(node: &Node, key: &str) -> Option<bool> {
    as_bool(node.get(key)?)
}

/// The node as a boolean.
pub(super) fn as_bool(node: &Node) -> Option<bool> {
    match &node.value {
        Value::Scalar(scalar) if scalar.is_bool() => Some(scalar.text.eq_ignore_ascii_case("true")),
        _ => None,
    }
}

/// The text under `key`.
pub(super) fn text<'a>(node: &'a Node, key: &str) -> Option<&'a str> {
    node.get(key)?.text()
}

/// The mapping under `key`.
pub(super) fn mapping<'a>(node: &'a Node, key: &str) -> Option<&'a Node> {
    node.get(key).filter(|node| matches!(node.value, Value::Map(_)))
}
