//! Whether examples and defaults satisfy the schemas that they stand beside, by the validators that serve.

use super::Noted;
use super::rule::Rule;
use super::schemas::Example;
use crate::document::References;
use crate::options::{Options, Undeclared};
use crate::reason::Reason;
use crate::schema::{Builder, Dialect, Run, Target};

/// Validates each example.
pub(super) fn look<'d>(
    examples: Vec<(Example<'d>, &str)>,
    references: &'d References<'d>,
    dialect: Dialect,
    options: &Options,
    noted: &mut Noted,
) {
    let schema_options = crate::schema::Options {
        reject_unknown_fields: options.undeclared_body_fields == Undeclared::Reject,
        limits: options.limits.json.clone(),
        formats: options.formats.clone(),
        lenient_times: options.lenient_times,
        nullable_by_intent: options.nullable_by_intent,
        ..crate::schema::Options::default()
    };
    let mut builder = Builder::new(references, schema_options);
    let add = |(example, operation): (Example<'d>, &'_ str)| {
        let target = Target { node: example.schema.node, base: example.schema.base, dialect };
        (builder.add(target, example.direction), example, operation.to_owned())
    };
    let added: Vec<_> = examples.into_iter().map(add).collect();
    let built = builder.finish_usable();
    let (mut run, mut text) = (Run::default(), Vec::new());
    for (id, example, operation) in added {
        if built.unusable(id).is_some() {
            continue;
        }
        text.clear();
        example.value.write_json(&mut text);
        let mut check = built.program.check(id, &mut run);
        let outcome = check.feed(&text).and_then(|()| check.finish());
        let Err(violation) = outcome else { continue };
        // One example serves both directions.
        if matches!(violation.reason, Reason::ReadOnly | Reason::WriteOnly) {
            continue;
        }
        let pointer = format!("`{}`", crate::message::shown(violation.pointer.as_bytes()));
        let place = if violation.pointer.is_empty() { "it" } else { &pointer };
        let why = violation.expected.as_deref().unwrap_or(violation.reason.words());
        noted.add(
            Rule::ExampleInvalid,
            example.value.place,
            format!("the example does not fit its schema ({}): {place} {why}", violation.reason.code()),
            &operation,
        );
    }
}
