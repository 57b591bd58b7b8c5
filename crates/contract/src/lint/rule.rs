//! The rules by name: code, severity, meaning and fix. Looks at nothing.

/// What is known of a rule.
struct Facts {
    code: &'static str,
    is_error: bool,
    meaning: &'static str,
    fix: &'static str,
}

/// Makes [`Rule`] from rows of `Variant "code" error|warning "meaning" "fix";`.
macro_rules! rules {
    (@error error) => { true };
    (@error warning) => { false };
    ($($variant:ident $code:literal $severity:ident $meaning:literal $fix:literal;)*) => {
        /// What is looked for in a document.
        #[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
        pub enum Rule {
            $(#[doc = $meaning] $variant,)*
        }

        impl Rule {
            /// Every rule.
            pub const ALL: &[Rule] = &[$(Rule::$variant,)*];

            const fn facts(self) -> Facts {
                match self {
                    $(Rule::$variant => Facts { code: $code, is_error: rules!(@error $severity), meaning: $meaning, fix: $fix },)*
                }
            }
        }
    };
}

rules! {
    Unsupported "unsupported" error
        "A part of the document cannot be enforced; the operations that it concerns are answered 501."
        "write it as the message says";
    WithoutEffect "without_effect" warning
        "A part of the document has no effect, can never hold, or is not read as its author may mean it."
        "correct or remove it";
    ExampleInvalid "example_invalid" error
        "An example or default does not fit the schema it belongs to, so one of the two is wrong."
        "correct the example or the schema";
    SecurityUndeclared "security_undeclared" warning
        "Nothing says whether the operation needs credentials, so none are asked for."
        "declare `security`; `security: []` says that the operation is public";
    SecurityOptional "security_optional" warning
        "An empty alternative of `security` lets requests without credentials pass."
        "remove `{}` from `security`, or declare the operation public with `security: []`";
    KeyInQuery "key_in_query" warning
        "A key in the query stands in logs and histories."
        "move the key into a header field";
    ResponseUndescribed "response_undescribed" warning
        "No successful response declares a body, so one passes unvalidated, and is listed (`undeclared.response_body`)."
        "declare `content` with a schema, or the status 204";
    ResponseUnchecked "response_unchecked" warning
        "A response body has no schema, so any passes."
        "add a `schema`";
    AnyStatus "any_status" warning
        "`default` declares every status that is not listed."
        "list the statuses that the operation responds with";
    BodyOptional "body_optional" warning
        "The request passes without its body."
        "add `required: true` to `requestBody`";
    BodyUnchecked "body_unchecked" warning
        "A request body has no schema, or is declared as bytes, and passes unread."
        "add a `schema`, or bound the operation with `max_body`";
    MediaRange "media_range" warning
        "A media range takes bodies of every type that it covers."
        "list the media types that the API reads";
    SameShape "same_shape" warning
        "Two paths match the same requests, and only methods distinguish them."
        "use one name for the expression and put the methods under one path";
    AnyValue "any_value" warning
        "A schema that says nothing allows every value."
        "describe the value with `type` and its keywords";
    TypeMissing "type_missing" warning
        "Keywords for one type do not apply to values of other types, which pass."
        "add `type`";
    ObjectOpen "object_open" warning
        "The object may have members that the document does not name."
        "list them under `properties` and remove `additionalProperties`, or set it to false";
    ObjectUnbounded "object_unbounded" warning
        "The object may have any number of members."
        "add `maxProperties`";
    ArrayUnbounded "array_unbounded" warning
        "The array may have any number of elements."
        "add `maxItems`";
    StringUnbounded "string_unbounded" warning
        "The string may be of any length."
        "add `maxLength`, `enum` or a `format` of bounded length";
    PatternUnanchored "pattern_unanchored" warning
        "The pattern holds wherever it is found in the text, whatever stands around it."
        "begin it with `^` and end it with `$`";
    FormatUnknown "format_unknown" warning
        "Nothing is asserted under this format."
        "use a format that is asserted, or a `pattern`";
}

impl Rule {
    /// Its code, stable.
    pub const fn code(self) -> &'static str {
        self.facts().code
    }

    /// Something cannot be enforced or contradicts itself; otherwise it is a hole or an ambiguity.
    pub const fn is_error(self) -> bool {
        self.facts().is_error
    }

    /// What it means, one sentence.
    pub const fn meaning(self) -> &'static str {
        self.facts().meaning
    }

    /// What to do about it.
    pub const fn fix(self) -> &'static str {
        self.facts().fix
    }
}
