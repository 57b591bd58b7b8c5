//! Which vocabularies a metaschema declares (JSON Schema 2020-12 core §8.1), and which keywords are whose. Reads no keyword.

use self::Since::{From30, From31};
use self::Vocabulary::{Other, Validation};
use crate::node::Node;

/// Metaschemas that are built in.
const BUILT_IN: &[&str] =
    &["https://json-schema.org/draft/2020-12/schema", "https://spec.openapis.org/oas/3.1/dialect/base"];

/// Where the vocabularies of 2020-12 have their names.
const OF_2020: &str = "https://json-schema.org/draft/2020-12/vocab/";

/// Those of them that are known. What they say beyond validation is honoured whether they are declared or not, which only ever rejects more.
const KNOWN: &[&str] =
    &["core", "applicator", "unevaluated", VALIDATION, "meta-data", "format-annotation", "format-assertion", "content"];

/// The one whose absence frees a schema of its keywords.
const VALIDATION: &str = "validation";

/// Whose a keyword is.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Vocabulary {
    /// That of validation (2020-12 validation §6).
    Validation,
    /// Another one that says something about validity.
    Other,
}

/// Which version of OpenAPI has a keyword first.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Since {
    From30,
    From31,
}

/// Every keyword that says something about validity.
const KEYWORDS: &[(&str, Vocabulary, Since)] = &[
    ("type", Validation, From30),
    ("enum", Validation, From30),
    ("const", Validation, From31),
    ("multipleOf", Validation, From30),
    ("maximum", Validation, From30),
    ("exclusiveMaximum", Validation, From30),
    ("minimum", Validation, From30),
    ("exclusiveMinimum", Validation, From30),
    ("maxLength", Validation, From30),
    ("minLength", Validation, From30),
    ("pattern", Validation, From30),
    ("maxItems", Validation, From30),
    ("minItems", Validation, From30),
    ("uniqueItems", Validation, From30),
    ("maxContains", Validation, From31),
    ("minContains", Validation, From31),
    ("maxProperties", Validation, From30),
    ("minProperties", Validation, From30),
    ("required", Validation, From30),
    ("dependentRequired", Validation, From31),
    ("format", Other, From30),
    ("properties", Other, From30),
    ("items", Other, From30),
    ("allOf", Other, From30),
    ("anyOf", Other, From30),
    ("oneOf", Other, From30),
    ("not", Other, From30),
    ("additionalProperties", Other, From30),
    ("readOnly", Other, From30),
    ("writeOnly", Other, From30),
    ("$ref", Other, From30),
    ("if", Other, From31),
    ("then", Other, From31),
    ("else", Other, From31),
    ("contains", Other, From31),
    ("prefixItems", Other, From31),
    ("patternProperties", Other, From31),
    ("propertyNames", Other, From31),
    ("dependentSchemas", Other, From31),
    ("unevaluatedItems", Other, From31),
    ("unevaluatedProperties", Other, From31),
    ("$dynamicRef", Other, From30),
];

/// Keywords of earlier drafts that said something about validity.
const RETIRED: &[(&str, &str)] = &[
    ("dependencies", "dependentRequired or dependentSchemas"),
    ("additionalItems", "items beside prefixItems"),
    ("divisibleBy", "multipleOf"),
    ("disallow", "not"),
    ("extends", "allOf"),
];

/// Whether OpenAPI 3.0 does not have this keyword of 2020-12.
pub(super) fn is_beyond_30(keyword: &str) -> bool {
    KEYWORDS.iter().any(|(name, _, since)| *name == keyword && *since == From31)
}

/// Whether a keyword says something about validity.
pub(crate) fn validates(keyword: &str) -> bool {
    KEYWORDS.iter().any(|(name, ..)| *name == keyword)
}

/// The keyword that a name nobody knows must have been meant to be: one that validates, written a little otherwise, or one that it has become.
pub(super) fn meant(name: &str) -> Option<&'static str> {
    let retired = RETIRED.iter().find(|(retired, _)| *retired == name).map(|(_, now)| *now);
    retired.or_else(|| crate::spelling::meant(name, KEYWORDS.iter().map(|(known, ..)| *known)))
}

/// Whether `$schema` names a metaschema that needs not be looked at.
pub(super) fn is_built_in(uri: &str) -> bool {
    BUILT_IN.contains(&uri)
}

/// Whether the keyword asks nothing where the validation vocabulary is not declared.
pub(super) fn is_validation(keyword: &str) -> bool {
    KEYWORDS.iter().any(|(name, whose, _)| *name == keyword && *whose == Validation)
}

/// Whether schemas of this metaschema use the validation vocabulary. One that declares nothing uses all.
///
/// # Errors
/// A vocabulary that it requires and that is not known: its schemas would mean less here than they say.
pub(super) fn has_validation(metaschema: &Node) -> Result<bool, String> {
    let Some(declared) = metaschema.get("$vocabulary") else { return Ok(true) };
    let mut has_validation = false;
    for (uri, is_required) in declared.members() {
        let known = uri.text.strip_prefix(OF_2020).filter(|name| KNOWN.contains(name));
        if known.is_none() && is_required.as_bool() != Some(false) {
            return Err(format!("its metaschema requires the vocabulary {:?}, which is not known", uri.text));
        }
        has_validation |= known == Some(VALIDATION);
    }
    Ok(has_validation)
}
