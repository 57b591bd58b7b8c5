//! What a valid operation may cost its server, with the values of its variables: fields to resolve, and objects in lists within lists.
//!
//! The measure is GitHub's: a field with a selection set counts as often as the lists around it have elements, and yields as many objects as its own
//! arguments ask for. What is in a variable counts as what is written out.

use std::collections::HashMap;

use apollo_compiler::ast::Value;
use apollo_compiler::executable::{ExecutableDocument, Field, Operation, Selection, SelectionSet};
use apollo_compiler::response::{JsonMap, JsonValue};
use contract::validate::{Violation, code};

use crate::options::Options;
use crate::violation::over;

/// Marks an argument of the schema whose value multiplies.
const MULTIPLY: &str = "nodeCountMultiply";

/// Marks a field of the schema that is not counted, nor what is below it.
const SKIP: &str = "nodeCountSkip";

/// What a schema may use without defining it.
pub(crate) const DIRECTIVES: [(&str, &str); 2] = [
    (MULTIPLY, "directive @nodeCountMultiply on ARGUMENT_DEFINITION\n"),
    (SKIP, "directive @nodeCountSkip on FIELD | FIELD_DEFINITION\n"),
];

/// What a selection set weighs within one object.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Weight {
    complexity: u64,
    nodes: u64,
}

/// Weighs an operation of a valid document and holds it to the limits.
///
/// # Errors
/// A limit is exceeded.
pub(crate) fn weigh(
    document: &ExecutableDocument,
    operation: &Operation,
    variables: &JsonMap,
    options: &Options,
) -> Result<(), Violation> {
    let mut weighing = Weighing { document, variables, options, fragments: HashMap::new() };
    let Weight { complexity, nodes } = weighing.set(&operation.selection_set);
    let limits = &options.limits;
    if complexity > limits.complexity {
        return Err(over(code::GRAPHQL_COMPLEXITY, "the complexity is higher", limits.complexity));
    }
    if nodes > limits.nodes {
        return Err(over(code::GRAPHQL_NODES, "the operation may yield more objects", limits.nodes));
    }
    Ok(())
}

struct Weighing<'d> {
    document: &'d ExecutableDocument,
    variables: &'d JsonMap,
    options: &'d Options,
    fragments: HashMap<&'d str, Weight>,
}

impl<'d> Weighing<'d> {
    /// The document is valid: no fragment is spread within itself.
    fn set(&mut self, set: &'d SelectionSet) -> Weight {
        let mut all = Weight::default();
        for selection in &set.selections {
            let weight = match selection {
                Selection::Field(field) => self.field(field),
                Selection::InlineFragment(inline) => self.set(&inline.selection_set),
                Selection::FragmentSpread(spread) => self.fragment(spread.fragment_name.as_str()),
            };
            all.complexity = all.complexity.saturating_add(weight.complexity);
            all.nodes = all.nodes.saturating_add(weight.nodes);
        }
        all
    }

    fn fragment(&mut self, name: &'d str) -> Weight {
        if let Some(weight) = self.fragments.get(name) {
            return *weight;
        }
        let document = self.document;
        let weight = document.fragments.get(name).map(|fragment| self.set(&fragment.selection_set)).unwrap_or_default();
        self.fragments.insert(name, weight);
        weight
    }

    fn field(&mut self, field: &'d Field) -> Weight {
        if field.selection_set.selections.is_empty() || field.definition.directives.get(SKIP).is_some() {
            return Weight::default();
        }
        let times = self.multiplier(field);
        let below = self.set(&field.selection_set);
        Weight {
            complexity: times.saturating_mul(below.complexity).saturating_add(1),
            nodes: times.saturating_mul(below.nodes).saturating_add(times),
        }
    }

    /// How many objects the arguments of a field ask for.
    fn multiplier(&self, field: &Field) -> u64 {
        let mut times = 1_u64;
        for argument in &field.definition.arguments {
            let is_named = field.definition.ty.is_list() || !field.selection_set.selections.is_empty();
            let is_list = argument.directives.get(MULTIPLY).is_some()
                || (is_named && self.options.list_arguments.iter().any(|name| argument.name == name.as_str()));
            if !is_list {
                continue;
            }
            let given = field.arguments.iter().find(|given| given.name == argument.name).map(|given| &*given.value);
            let count = match given {
                Some(Value::Variable(name)) => match self.variables.get(name.as_str()) {
                    Some(value) => count_of_json(value),
                    None => argument.default_value.as_deref().and_then(count_of),
                },
                Some(value) => count_of(value),
                None => argument.default_value.as_deref().and_then(count_of),
            };
            times = times.saturating_mul(count.unwrap_or(1).max(1));
        }
        times
    }
}

/// A whole number that is written out; more than fits is as much as fits.
fn count_of(value: &Value) -> Option<u64> {
    let Value::Int(number) = value else { return None };
    let digits = number.as_str();
    if digits.starts_with('-') { Some(1) } else { Some(digits.parse().unwrap_or(u64::MAX)) }
}

fn count_of_json(value: &JsonValue) -> Option<u64> {
    let JsonValue::Number(number) = value else { return None };
    // As floating-point numbers are written by some clients: `10.0`. The cast saturates.
    number.as_u64().or_else(|| number.as_f64().map(|number| number.ceil() as u64))
}
