//! Stub.
use super::Arguments;
use crate::compat::Front;

pub(super) fn run(_: &Arguments) -> Front {
    super::failure(&["not yet".to_string()])
}
