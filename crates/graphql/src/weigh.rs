//! What a valid operation may cost its server, with the values of its variables: fields to resolve, and objects in lists within lists.
//!
//! The measure is GitHub's: a field with a selection set counts as often as the lists around it have elements, and yields as many objects as its own
//! arguments ask for. What is in a variable counts as what is written out.

use std::collections::HashMap;

use apollo_compiler::ast::{Type, Value};
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
            let default = || argument.default_value.as_deref().and_then(|value| self.count(value, &argument.ty));
            let count = match given {
                Some(Value::Variable(name)) if self.variables.get(name.as_str()).is_none() => default(),
                Some(value) => self.count(value, &argument.ty),
                None => default(),
            };
            times = times.saturating_mul(count.unwrap_or(1).max(1));
        }
        times
    }

    /// How many objects a value asks for; none where it is null, as where it is left out. What is no whole number from 0 is as much as there can be: a server
    /// may take `-1` for all, and parse text under a scalar of its own. A list asks for what its elements do, one each where they are names or objects.
    fn count(&self, value: &Value, ty: &Type) -> Option<u64> {
        match value {
            Value::Null => None,
            Value::Int(number) => Some(number.as_str().parse().unwrap_or(MOST)),
            Value::Variable(name) => self.variables.get(name.as_str()).and_then(|value| count_of_json(value, ty)),
            Value::List(items) if ty.is_list() => {
                let counts = items.iter().map(|item| match &**item {
                    Value::String(_) if names_objects(ty) => 1,
                    Value::Enum(_) | Value::Object(_) => 1,
                    item => self.count(item, ty.item_type()).unwrap_or(1),
                });
                Some(counts.fold(0, u64::saturating_add))
            }
            _ => Some(MOST),
        }
    }
}

/// More than any limit.
const MOST: u64 = u64::MAX;

/// Whether the elements of a list are names of objects.
fn names_objects(ty: &Type) -> bool {
    matches!(ty.inner_named_type().as_str(), "ID" | "String")
}

/// As `Weighing::count`, of the value of a variable.
fn count_of_json(value: &JsonValue, ty: &Type) -> Option<u64> {
    match value {
        JsonValue::Null => None,
        // As floating-point numbers are written by some clients: `10.0`. Up to 2^53 they are exact.
        JsonValue::Number(number) => Some(number.as_u64().or_else(|| whole(number.as_f64()?)).unwrap_or(MOST)),
        JsonValue::Array(items) if ty.is_list() => {
            let counts = items.iter().map(|item| match item {
                JsonValue::String(_) if names_objects(ty) => 1,
                JsonValue::Object(_) => 1,
                item => count_of_json(item, ty.item_type()).unwrap_or(1),
            });
            Some(counts.fold(0, u64::saturating_add))
        }
        _ => Some(MOST),
    }
}

/// A number without a fraction, from 0.
fn whole(number: f64) -> Option<u64> {
    let is_exact = number.fract() == 0.0 && (0.0..=MOST_EXACT).contains(&number);
    is_exact.then_some(number as u64)
}

/// Up to here each whole number is one of floating point: 2^53.
const MOST_EXACT: f64 = 9_007_199_254_740_992.0;

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
    use apollo_compiler::Schema;
    use apollo_compiler::request::coerce_variable_values;

    use super::*;

    const SCHEMA: &str = "directive @nodeCountMultiply on ARGUMENT_DEFINITION
        scalar Count
        type Query { a(first: Int): [A!]!  b(first: Count): [A!]!  c(ids: [ID!] @nodeCountMultiply): [A!]!  d(sizes: [Int] @nodeCountMultiply): [A!]!
            e(first: Int = 7): [A!]!  f(first: Float): [A!]! }
        type A { name: String }";

    /// The objects that a field of these arguments may yield.
    fn nodes(field: &str, declared: &str, variables: serde_json::Value) -> u64 {
        let variables = JsonValue::from(variables);
        let schema = Schema::parse_and_validate(SCHEMA, "schema").unwrap();
        let query = format!("query {declared} {{ {field} {{ name }} }}");
        let document = ExecutableDocument::parse_and_validate(&schema, query, "query").unwrap();
        let operation = document.operations.get(None).unwrap();
        let variables = coerce_variable_values(&schema, operation, variables.as_object().unwrap()).unwrap();
        let options = Options { list_arguments: vec!["first".to_owned()], ..Options::default() };
        let mut weighing =
            Weighing { document: &document, variables: &variables, options: &options, fragments: HashMap::new() };
        weighing.set(&operation.selection_set).nodes
    }

    #[test]
    fn what_is_no_plain_count_is_as_much_as_there_can_be() {
        for (field, expected) in [
            ("a(first: 5)", 5),
            ("a(first: 0)", 1),
            ("a(first: null)", 1),
            ("a", 1),
            ("e", 7),
            ("e(first: null)", 1),
            ("a(first: -100000)", MOST),
            ("b(first: 5)", 5),
            ("b(first: \"100000\")", MOST),
            ("b(first: 1e9)", MOST),
            ("b(first: 5.5)", MOST),
            ("b(first: [100000])", MOST),
            ("b(first: {n: 100000})", MOST),
            ("b(first: true)", MOST),
            ("b(first: ALL)", MOST),
            ("f(first: 1e9)", MOST),
            ("b(first: 99999999999999999999999)", MOST),
            ("c(ids: [\"a\", \"b\", \"c\"])", 3),
            ("d(sizes: [100000, 5])", 100_005),
            ("d(sizes: [-1])", MOST),
            ("d(sizes: 9)", 9),
        ] {
            assert_eq!(nodes(field, "", serde_json::json!({})), expected, "{field}");
        }
        for (field, declared, variables, expected) in [
            ("a(first: $n)", "($n: Int)", serde_json::json!({"n": 5}), 5),
            ("a(first: $n)", "($n: Int = 9)", serde_json::json!({}), 9),
            ("e(first: $n)", "($n: Int)", serde_json::json!({}), 7),
            ("a(first: $n)", "($n: Int)", serde_json::json!({"n": -5}), MOST),
            ("b(first: $n)", "($n: Count)", serde_json::json!({"n": "100000"}), MOST),
            ("b(first: $n)", "($n: Count)", serde_json::json!({"n": [100000]}), MOST),
            ("b(first: $n)", "($n: Count)", serde_json::json!({"n": 10.0}), 10),
            ("b(first: $n)", "($n: Count)", serde_json::json!({"n": 0.5}), MOST),
            ("b(first: $n)", "($n: Count)", serde_json::json!({"n": 1e300}), MOST),
            ("d(sizes: [$n, 1])", "($n: Int)", serde_json::json!({"n": 100000}), 100_001),
            ("d(sizes: $n)", "($n: [Int])", serde_json::json!({"n": [100000, 1]}), 100_001),
        ] {
            assert_eq!(nodes(field, declared, variables), expected, "{field} {declared}");
        }
    }
}
