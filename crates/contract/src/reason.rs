//! Why a value is rejected: a code for counters and answers, and a JSON Pointer to what broke the contract. Does not phrase answers.

use std::fmt;

/// What is wrong with a value. The code is stable: it is a metric label and may stand in answers.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
#[non_exhaustive]
pub enum Reason {
    /// Not JSON (RFC 8259).
    Syntax,
    /// The bytes are not UTF-8.
    Utf8,
    /// An escaped surrogate without its other half.
    LoneSurrogate,
    /// A byte order mark before the value.
    ByteOrderMark,
    /// Something but white space behind the value.
    TrailingData,
    /// The value ends in its middle.
    Truncated,
    /// A member name occurs twice in one object.
    DuplicateKey,
    /// Nested deeper than the limit.
    Depth,
    /// More values than the limit.
    Values,
    /// More members in one object than the limit.
    Keys,
    /// A member name longer than the limit.
    KeyLength,
    /// A string longer than the limit.
    StringLength,
    /// A number longer than the limit.
    NumberLength,
    /// An exponent beyond the limit.
    Exponent,
    /// The schema took more steps than the limit.
    Budget,
    /// `type`, or `null` where nothing allows it.
    Type,
    /// `enum` or a discriminator's mapping.
    Enum,
    /// `const`.
    Const,
    /// `minimum`, `exclusiveMinimum`, or a format's lower bound.
    Minimum,
    /// `maximum`, `exclusiveMaximum`, or a format's upper bound.
    Maximum,
    /// `multipleOf`.
    MultipleOf,
    /// `minLength`.
    MinLength,
    /// `maxLength`.
    MaxLength,
    /// `pattern`.
    Pattern,
    /// `format`.
    Format,
    /// `minItems`.
    MinItems,
    /// `maxItems`.
    MaxItems,
    /// `uniqueItems`.
    UniqueItems,
    /// `contains`, `minContains`, `maxContains`.
    Contains,
    /// An element that no schema allows.
    UnknownItem,
    /// `minProperties`.
    MinProperties,
    /// `maxProperties`.
    MaxProperties,
    /// `required`, `dependentRequired`.
    Required,
    /// A member that the schema does not know.
    UnknownField,
    /// `propertyNames`.
    PropertyNames,
    /// A member that only answers may carry.
    ReadOnly,
    /// A member that only requests may carry.
    WriteOnly,
    /// A discriminator that is missing or not a string.
    Discriminator,
    /// No branch of `anyOf` holds.
    AnyOf,
    /// No branch of `oneOf` holds, or more than one.
    OneOf,
    /// `not` holds.
    Not,
    /// The schema is `false`.
    False,
    /// Nothing: validation goes on when others have had their turn. Never leaves this crate.
    #[doc(hidden)]
    Paused,
}

impl Reason {
    /// Every reason that a value can be rejected for.
    pub const ALL: &[Reason] = &[
        Self::Syntax,
        Self::Utf8,
        Self::LoneSurrogate,
        Self::ByteOrderMark,
        Self::TrailingData,
        Self::Truncated,
        Self::DuplicateKey,
        Self::Depth,
        Self::Values,
        Self::Keys,
        Self::KeyLength,
        Self::StringLength,
        Self::NumberLength,
        Self::Exponent,
        Self::Budget,
        Self::Type,
        Self::Enum,
        Self::Const,
        Self::Minimum,
        Self::Maximum,
        Self::MultipleOf,
        Self::MinLength,
        Self::MaxLength,
        Self::Pattern,
        Self::Format,
        Self::MinItems,
        Self::MaxItems,
        Self::UniqueItems,
        Self::Contains,
        Self::UnknownItem,
        Self::MinProperties,
        Self::MaxProperties,
        Self::Required,
        Self::UnknownField,
        Self::PropertyNames,
        Self::ReadOnly,
        Self::WriteOnly,
        Self::Discriminator,
        Self::AnyOf,
        Self::OneOf,
        Self::Not,
        Self::False,
    ];

    /// What it means: the keyword of the schema that does not hold, or what is wrong with the text of the value.
    pub const fn meaning(self) -> &'static str {
        match self {
            Self::Syntax => "Not JSON (RFC 8259).",
            Self::Utf8 => "The bytes are not UTF-8.",
            Self::LoneSurrogate => "An escaped surrogate without its other half.",
            Self::ByteOrderMark => "A byte order mark before the value.",
            Self::TrailingData => "Something but white space behind the value.",
            Self::Truncated => "The value ends in its middle.",
            Self::DuplicateKey => "A member name occurs twice in one object.",
            Self::Depth => "Nested deeper than the limit.",
            Self::Values => "More values than the limit.",
            Self::Keys => "More members in one object than the limit.",
            Self::KeyLength => "A member name longer than the limit.",
            Self::StringLength => "A string longer than the limit.",
            Self::NumberLength => "A number longer than the limit.",
            Self::Exponent => "An exponent beyond the limit.",
            Self::Budget => "The schema took more steps than the limit.",
            Self::Type => "`type`, or `null` where nothing allows it.",
            Self::Enum => "`enum` or a discriminator's mapping.",
            Self::Const => "`const`.",
            Self::Minimum => "`minimum`, `exclusiveMinimum`, or a format's lower bound.",
            Self::Maximum => "`maximum`, `exclusiveMaximum`, or a format's upper bound.",
            Self::MultipleOf => "`multipleOf`.",
            Self::MinLength => "`minLength`.",
            Self::MaxLength => "`maxLength`.",
            Self::Pattern => "`pattern`.",
            Self::Format => "`format`.",
            Self::MinItems => "`minItems`.",
            Self::MaxItems => "`maxItems`.",
            Self::UniqueItems => "`uniqueItems`.",
            Self::Contains => "`contains`, `minContains`, `maxContains`.",
            Self::UnknownItem => "An element that no schema allows.",
            Self::MinProperties => "`minProperties`.",
            Self::MaxProperties => "`maxProperties`.",
            Self::Required => "`required`, `dependentRequired`.",
            Self::UnknownField => "A member that the schema does not know.",
            Self::PropertyNames => "`propertyNames`.",
            Self::ReadOnly => "A member that only answers may carry.",
            Self::WriteOnly => "A member that only requests may carry.",
            Self::Discriminator => "A discriminator that is missing or not a string.",
            Self::AnyOf => "No branch of `anyOf` holds.",
            Self::OneOf => "No branch of `oneOf` holds, or more than one.",
            Self::Not => "`not` holds.",
            Self::False => "The schema is `false`.",
            Self::Paused => "",
        }
    }

    /// The same as the end of a sentence about the value: `is required`.
    pub const fn words(self) -> &'static str {
        use Reason as R;
        match self {
            R::Syntax => "is not JSON",
            R::Utf8 => "is not UTF-8",
            R::LoneSurrogate => "holds half a surrogate pair",
            R::ByteOrderMark => "starts with a byte order mark",
            R::TrailingData => "is followed by something",
            R::Truncated => "ends in its middle",
            R::DuplicateKey => "has a name twice",
            R::Depth => "is nested too deeply",
            R::Values => "holds too many values",
            R::Keys => "has too many members",
            R::KeyLength => "has a name that is too long",
            R::StringLength => "holds a string that is too long",
            R::NumberLength | R::Exponent => "holds a number that is too long",
            R::Budget => "takes too many steps to validate",
            R::Type => "has a type that is not allowed",
            R::Enum | R::Const => "is none of the allowed values",
            R::Minimum => "is too small",
            R::Maximum => "is too large",
            R::MultipleOf => "is no multiple as it should be",
            R::MinLength => "is too short",
            R::MaxLength => "is too long",
            R::Pattern => "does not match the pattern",
            R::Format => "does not have the format",
            R::MinItems => "has too few elements",
            R::MaxItems => "has too many elements",
            R::UniqueItems => "has an element twice",
            R::Contains => "has not the elements it must contain",
            R::UnknownItem => "has an element that is not allowed",
            R::MinProperties => "has too few members",
            R::MaxProperties => "has too many members",
            R::Required => "is required",
            R::UnknownField => "is not declared",
            R::PropertyNames => "has a name that is not allowed",
            R::ReadOnly => "may only be read",
            R::WriteOnly => "may only be written",
            R::Discriminator => "does not say which schema it follows",
            R::AnyOf => "follows none of the allowed schemas",
            R::OneOf => "does not follow exactly one of the allowed schemas",
            R::Not => "follows a schema that it must not",
            R::False | R::Paused => "is not allowed",
        }
    }

    /// The code, in `snake_case`.
    pub const fn code(self) -> &'static str {
        match self {
            Self::Syntax => "json_syntax",
            Self::Utf8 => "json_utf8",
            Self::LoneSurrogate => "json_lone_surrogate",
            Self::ByteOrderMark => "json_byte_order_mark",
            Self::TrailingData => "json_trailing_data",
            Self::Truncated => "json_truncated",
            Self::DuplicateKey => "json_duplicate_key",
            Self::Depth => "json_depth_limit",
            Self::Values => "json_values_limit",
            Self::Keys => "json_keys_limit",
            Self::KeyLength => "json_key_length_limit",
            Self::StringLength => "json_string_length_limit",
            Self::NumberLength => "json_number_length_limit",
            Self::Exponent => "json_exponent_limit",
            Self::Budget => "step_budget",
            Self::Type => "type",
            Self::Enum => "enum",
            Self::Const => "const",
            Self::Minimum => "minimum",
            Self::Maximum => "maximum",
            Self::MultipleOf => "multiple_of",
            Self::MinLength => "min_length",
            Self::MaxLength => "max_length",
            Self::Pattern => "pattern",
            Self::Format => "format",
            Self::MinItems => "min_items",
            Self::MaxItems => "max_items",
            Self::UniqueItems => "unique_items",
            Self::Contains => "contains",
            Self::UnknownItem => "unknown_item",
            Self::MinProperties => "min_properties",
            Self::MaxProperties => "max_properties",
            Self::Required => "required",
            Self::UnknownField => "unknown_field",
            Self::PropertyNames => "property_names",
            Self::ReadOnly => "read_only",
            Self::WriteOnly => "write_only",
            Self::Discriminator => "discriminator",
            Self::AnyOf => "any_of",
            Self::OneOf => "one_of",
            Self::Not => "not",
            Self::False => "false_schema",
            Self::Paused => "paused",
        }
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.code())
    }
}

/// The first thing that broke the contract.
#[derive(Clone, Debug)]
pub struct Violation {
    /// What is wrong.
    pub reason: Reason,
    /// Where: an RFC 6901 pointer into the value. For a missing or unknown member it names that member.
    pub pointer: String,
    /// What was expected and what was found, where that can be said: `must be an integer, is a string`.
    pub expected: Option<Box<str>>,
}

impl Violation {
    /// A violation of which nothing else is known.
    pub fn new(reason: Reason, pointer: String) -> Violation {
        Violation { reason, pointer, expected: None }
    }
}

/// What breaks a contract at a place is the same thing, in whatever words.
impl PartialEq for Violation {
    fn eq(&self, other: &Violation) -> bool {
        (self.reason, &self.pointer) == (other.reason, &other.pointer)
    }
}

impl Eq for Violation {}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} at {:?}", self.reason, self.pointer)
    }
}
