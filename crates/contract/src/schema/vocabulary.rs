//! Which vocabularies a metaschema declares (JSON Schema 2020-12 core §8.1), and which keywords are whose. Reads no keyword.

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

/// Keywords of the validation vocabulary (2020-12 validation §6).
const VALIDATION_KEYWORDS: &[&str] = &[
    "type",
    "enum",
    "const",
    "multipleOf",
    "maximum",
    "exclusiveMaximum",
    "minimum",
    "exclusiveMinimum",
    "maxLength",
    "minLength",
    "pattern",
    "maxItems",
    "minItems",
    "uniqueItems",
    "maxContains",
    "minContains",
    "maxProperties",
    "minProperties",
    "required",
    "dependentRequired",
];

/// What else says something about validity, in either dialect.
const APPLICATORS: &[&str] = &[
    "format",
    "properties",
    "items",
    "allOf",
    "anyOf",
    "oneOf",
    "not",
    "additionalProperties",
    "readOnly",
    "writeOnly",
    "$ref",
    "const",
    "if",
    "then",
    "else",
    "contains",
    "minContains",
    "maxContains",
    "prefixItems",
    "patternProperties",
    "propertyNames",
    "dependentSchemas",
    "dependentRequired",
    "unevaluatedItems",
    "unevaluatedProperties",
    "$dynamicRef",
];

/// What JSON Schema 2020-12 has of these, and OpenAPI 3.0 has not.
const BEYOND_30: &[&str] = &[
    "const",
    "if",
    "then",
    "else",
    "contains",
    "minContains",
    "maxContains",
    "prefixItems",
    "patternProperties",
    "propertyNames",
    "dependentSchemas",
    "dependentRequired",
    "unevaluatedItems",
    "unevaluatedProperties",
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
    BEYOND_30.contains(&keyword)
}

/// Whether a keyword says something about validity.
pub(crate) fn validates(keyword: &str) -> bool {
    VALIDATION_KEYWORDS.contains(&keyword) || APPLICATORS.contains(&keyword)
}

/// The keyword that a name nobody knows must have been meant to be: one that validates, written a little otherwise, or one that it has become.
pub(super) fn meant(name: &str) -> Option<&'static str> {
    let retired = RETIRED.iter().find(|(retired, _)| *retired == name).map(|(_, now)| *now);
    let validating = || VALIDATION_KEYWORDS.iter().chain(APPLICATORS).copied();
    retired.or_else(|| crate::spelling::meant(name, validating()))
}

/// Whether `$schema` names a metaschema that needs not be looked at.
pub(super) fn is_built_in(uri: &str) -> bool {
    BUILT_IN.contains(&uri)
}

/// Whether the keyword asks nothing where the validation vocabulary is not declared.
pub(super) fn is_validation(keyword: &str) -> bool {
    VALIDATION_KEYWORDS.contains(&keyword)
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
