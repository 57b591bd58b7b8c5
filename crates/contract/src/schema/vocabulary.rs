//! Which vocabularies a metaschema declares (JSON Schema 2020-12 core §8.1). Decides nothing about single keywords but which are validation's.

use crate::document::Node;

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
