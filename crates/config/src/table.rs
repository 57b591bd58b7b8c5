//! What a row of the configuration table is, and how a row becomes a setting of the program.
//!
//! A key is declared once: its name, the shape of its value, its default and its meaning. [`settings!`] makes the struct that the program reads, the
//! rows and the reading from one list. Nothing here knows a particular key; those stand in `limits.rs` and `shape/surface/`.

use std::time::Duration;

use super::problem::Span;
use super::units;
use super::yaml::{Entry, Node, Scalar, Value};

/// What a value must look like.
#[derive(Debug)]
pub(crate) enum Shape {
    /// A mapping with known keys.
    Object(&'static Object),
    /// A mapping whose keys the user names; the text says what they are.
    Table(&'static str, &'static Shape),
    /// A list.
    List(&'static Shape),
    /// A list, or one item without the list.
    OneOrMany(&'static Shape),
    /// Text; what it is and an example.
    Text(&'static str),
    /// Any scalar, taken as it is written; what it is.
    Verbatim(&'static str),
    /// One of these words.
    Choice(&'static [&'static str]),
    /// A whole number within bounds.
    Int(u64, u64),
    /// `true` or `false`.
    Bool,
    /// A duration within bounds, in milliseconds.
    Duration(u64, u64),
    /// A size within bounds, in bytes.
    Size(u64, u64),
    /// Any of these; the kind of the value decides which is meant.
    Either(&'static [Shape]),
}

/// A mapping with known keys.
#[derive(Debug)]
pub(crate) struct Object {
    /// Its name in schema and reference.
    pub(crate) name: &'static str,
    /// What it is.
    pub(crate) doc: &'static str,
    /// Its keys, in groups so that objects can share some.
    pub(crate) fields: &'static [&'static [Field]],
    /// Exactly one of these keys must be there; empty = no such rule.
    pub(crate) one_of: &'static [&'static str],
    /// It stands for a secret: plain text in its place is neither accepted nor shown.
    pub(crate) secret: bool,
    /// A key that is not set has the value of the object around it, not its default.
    pub(crate) inherits: bool,
}

/// A key of an object.
#[derive(Debug)]
pub(crate) struct Field {
    pub(crate) name: &'static str,
    pub(crate) shape: Shape,
    /// Whether it must be there.
    pub(crate) required: bool,
    /// What it means.
    pub(crate) doc: &'static str,
    /// What holds without it, as it would be written; or a phrase in parentheses.
    pub(crate) default: &'static str,
    /// A key beside it that it cannot exceed. If it is not set, it follows.
    pub(crate) at_most: Option<&'static str>,
    /// Where it is there, no key beside it has a default: it makes something else of the object.
    pub(crate) is_alone: bool,
}

impl Object {
    /// All its keys.
    pub(crate) fn all_fields(&self) -> impl Iterator<Item = &'static Field> + use<> {
        self.fields.iter().flat_map(|group| group.iter())
    }
}

impl Field {
    /// The default as a value that could be written; none where it is a phrase.
    pub(crate) fn written_default(&self) -> Option<&'static str> {
        (!self.default.is_empty() && !self.default.starts_with('(')).then_some(self.default)
    }

    /// The same key, which cannot exceed the key `whole` beside it.
    pub(crate) const fn at_most(self, whole: &'static str) -> Field {
        Field { at_most: Some(whole), ..self }
    }

    /// The same key, beside which no other has a default.
    pub(crate) const fn alone(self) -> Field {
        Field { is_alone: true, ..self }
    }

    /// The node of its default, at a place.
    pub(crate) fn default_node(&self, span: Span) -> Option<Node> {
        self.written_default().map(|text| node_of(text, span))
    }
}

/// A key that must be there.
pub(crate) const fn required(name: &'static str, shape: Shape, doc: &'static str) -> Field {
    Field { name, shape, required: true, doc, default: "", at_most: None, is_alone: false }
}

/// A key with a default.
pub(crate) const fn optional(name: &'static str, shape: Shape, default: &'static str, doc: &'static str) -> Field {
    Field { name, shape, required: false, doc, default, at_most: None, is_alone: false }
}

/// A mapping without anything special.
pub(crate) const fn object(name: &'static str, doc: &'static str, fields: &'static [&'static [Field]]) -> Object {
    Object { name, doc, fields, one_of: &[], secret: false, inherits: false }
}

pub(crate) const SECOND: u64 = 1_000;
pub(crate) const MINUTE: u64 = 60 * SECOND;
pub(crate) const HOUR: u64 = 60 * MINUTE;
pub(crate) const DAY: u64 = 24 * HOUR;
pub(crate) const KIB: u64 = 1 << 10;
pub(crate) const MIB: u64 = 1 << 20;
pub(crate) const GIB: u64 = 1 << 30;
pub(crate) const TIB: u64 = 1 << 40;
/// Deadlines: long enough for anything a person waits for, and never off by accident.
pub(crate) const TIMEOUT: Shape = Shape::Duration(1, DAY);

/// A default as it is written in the table: a scalar, or a list of scalars in brackets.
fn node_of(text: &str, span: Span) -> Node {
    let scalar =
        |text: &str| Node { span, value: Value::Scalar(Scalar { text: text.to_owned(), plain: true, written: None }) };
    match text.strip_prefix('[').and_then(|text| text.strip_suffix(']')) {
        Some(items) => {
            let items = items.split(',').map(str::trim).filter(|item| !item.is_empty());
            Node { span, value: Value::List(items.map(scalar).collect()) }
        }
        None => scalar(text),
    }
}

/// The mapping of all defaults of some rows, for settings that no file gives.
pub(crate) fn defaults<'a>(rows: impl IntoIterator<Item = &'a Field>) -> Node {
    let span = Span::default();
    let entry = |field: &Field| Some(Entry::at_default(field.name, span, field.default_node(span)?));
    Node { span, value: Value::Map(rows.into_iter().filter_map(entry).collect()) }
}

/// What a setting may be. The shape of its row was checked before: a value that does not fit is none here.
pub(crate) trait Setting: Sized {
    /// Reads the value.
    fn of(node: &Node) -> Option<Self>;
}

impl Setting for bool {
    fn of(node: &Node) -> Option<bool> {
        match &node.value {
            Value::Scalar(scalar) if scalar.is_bool() => Some(scalar.text.eq_ignore_ascii_case("true")),
            _ => None,
        }
    }
}

impl Setting for Duration {
    fn of(node: &Node) -> Option<Duration> {
        units::duration(node.text()?)
    }
}

/// Counts and sizes, the latter in bytes.
macro_rules! numbers {
    ($($number:ty),*) => {$(
        impl Setting for $number {
            fn of(node: &Node) -> Option<$number> {
                <$number>::try_from(units::size(node.text()?)?).ok()
            }
        }
    )*};
}

numbers!(u16, u32, u64, usize);

impl<T: Setting> Setting for Option<T> {
    fn of(node: &Node) -> Option<Option<T>> {
        Some(T::of(node))
    }
}

/// The setting under `key` of a complete tree.
pub(crate) fn setting<T: Setting + Default>(node: &Node, key: &str) -> T {
    node.get(key).and_then(T::of).unwrap_or_default()
}

/// The key of a setting: the name of its field, unless the row says otherwise.
macro_rules! key {
    ($field:ident) => {
        stringify!($field)
    };
    ($field:ident $key:literal) => {
        $key
    };
}

/// Declares settings: of each the name, the type, the shape, the default and the meaning. Makes the struct, its rows, its defaults and its reading.
macro_rules! settings {
    (
        $(#[$meta:meta])*
        pub struct $name:ident, $rows:ident {
            $( $field:ident $(as $key:literal)?: $type:ty = $shape:expr, $default:literal $(<= $whole:literal)?, $doc:literal; )*
        }
    ) => {
        $(#[$meta])*
        #[derive(Debug, Clone, PartialEq, Eq)]
        pub struct $name {
            $( #[doc = $doc] pub $field: $type, )*
        }

        /// The rows of these settings.
        pub(crate) static $rows: &[$crate::table::Field] = &[
            $( $crate::table::optional($crate::table::key!($field $($key)?), $shape, $default, $doc)$(.at_most($whole))?, )*
        ];

        impl $name {
            /// Reads them from a complete tree.
            pub(crate) fn read(node: &$crate::yaml::Node) -> $name {
                $name { $( $field: $crate::table::setting(node, $crate::table::key!($field $($key)?)), )* }
            }
        }

        impl Default for $name {
            fn default() -> $name {
                $name::read(&$crate::table::defaults($rows))
            }
        }

        // As the value of a key: a mapping of these.
        impl $crate::table::Setting for $name {
            fn of(node: &$crate::yaml::Node) -> Option<$name> {
                matches!(node.value, $crate::yaml::Value::Map(_)).then(|| $name::read(node))
            }
        }
    };
}

/// Declares a choice: the enum that the program sees, and the words of the file. The first is for values that are none of them.
macro_rules! words {
    (
        $(#[$meta:meta])*
        pub enum $name:ident { $( $(#[$word_meta:meta])* $variant:ident = $word:literal, )* }
    ) => {
        $(#[$meta])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
        pub enum $name { $( $(#[$word_meta])* $variant, )* }

        impl $name {
            /// Its words in a file.
            pub(crate) const WORDS: &[&str] = &[$($word),*];
        }

        impl $crate::table::Setting for $name {
            fn of(node: &$crate::yaml::Node) -> Option<$name> {
                match node.text()? {
                    $( $word => Some($name::$variant), )*
                    _ => None,
                }
            }
        }
    };
}

pub(crate) use {key, settings, words};

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
    use super::*;
    use crate::problem::Collector;
    use crate::shape::complete::complete;
    use crate::yaml;

    words! {
        /// What to do.
        pub enum Action {
            /// No.
            #[default]
            Reject = "reject",
            /// Later.
            Delay = "delay",
        }
    }

    settings! {
        /// A policy: a mapping with settings of its own.
        pub struct Policy, POLICY_ROWS {
            rate: u32 = Shape::Int(1, 1_000), "100", "Requests per second.";
            burst: u32 = Shape::Int(1, 1_000), "200" <= "rate", "At once.";
            action: Action = Shape::Choice(Action::WORDS), "reject", "What to do.";
        }
    }

    static POLICY: Object = object("policy", "a policy", &[POLICY_ROWS]);

    settings! {
        /// Settings around it.
        pub struct Around, AROUND_ROWS {
            policy: Option<Policy> = Shape::Object(&POLICY), "(none)", "The policy.";
            size_bytes as "size": u64 = Shape::Size(0, TIB), "64KiB", "A size.";
            time: Option<Duration> = Shape::Either(&[Shape::Choice(&["none"]), TIMEOUT]), "none", "A time.";
        }
    }

    static AROUND: Object = object("around", "around", &[AROUND_ROWS]);

    fn read(text: &str) -> Around {
        let mut problems = Collector::default();
        let mut root = yaml::parse(text, &mut problems).unwrap();
        complete(&AROUND, &mut root, &mut problems);
        assert!(problems.is_empty(), "{text}");
        Around::read(&root)
    }

    #[test]
    fn a_row_is_all_that_a_setting_needs() {
        let around = Around { policy: None, size_bytes: 65_536, time: None };
        assert_eq!((read("{}"), Around::default()), (around.clone(), around.clone()));
        assert_eq!(
            read("{ size: 1MiB, time: 5s }"),
            Around { size_bytes: 1 << 20, time: Some(Duration::from_secs(5)), policy: None }
        );
        let policy = Policy { rate: 7, burst: 7, action: Action::Delay };
        assert_eq!(read("policy: { rate: 7, action: delay }"), Around { policy: Some(policy), ..around });
    }
}
