//! Rules of the specification that the library behind this crate does not have: what stands in an input value, wherever it stands (September 2025,
//! sections 5.6.3, 5.6.5, 5.8.3 and 5.8.5), and `@oneOf` (section 3.10.1), on literals, on variables and in the schema.
//!
//! Values are walked with the type of their place, from every argument of a field or directive, from defaults of variables, and through fragments once
//! for each operation: variables are those of the operation that reaches them.

use std::collections::{HashMap, HashSet};

use apollo_compiler::Schema;
use apollo_compiler::ast::{Argument, Directive, InputValueDefinition, Type, Value, VariableDefinition};
use apollo_compiler::executable::{ExecutableDocument, Operation, Selection, SelectionSet};
use apollo_compiler::response::{JsonMap, JsonValue};
use apollo_compiler::schema::{ExtendedType, InputObjectType};
use apollo_compiler::{Name, Node};
use contract::validate::{Violation, code};

use crate::violation::named;

/// Marks an input object of which exactly one field is given.
const ONE_OF: &str = "oneOf";

/// Its definition, which schemas need not have.
pub(crate) const ONE_OF_DIRECTIVE: (&str, &str) = (ONE_OF, "directive @oneOf on INPUT_OBJECT\n");

/// What introspection says of it (section 4.1).
pub(crate) const ONE_OF_INTROSPECTION: &str = "extend type __Type { isOneOf: Boolean }\n";

/// What is wrong with the input objects of a schema: fields of those under `@oneOf` may be null and have no default.
pub(crate) fn problems(schema: &Schema) -> Vec<String> {
    let one_ofs = schema.types.values().filter_map(|ty| match ty {
        ExtendedType::InputObject(object) if is_one_of(object) => Some(object),
        _ => None,
    });
    let of = |object: &Node<InputObjectType>| {
        let fields = object.fields.values().filter(|field| field.ty.is_non_null() || field.default_value.is_some());
        let problem = |name: &Name| {
            format!("the field {}.{name} under `@oneOf` must be nullable, without a default", object.name)
        };
        fields.map(|field| problem(&field.name)).collect::<Vec<_>>()
    };
    one_ofs.flat_map(of).collect()
}

/// Checks every input value of a document that is valid by the rules of the library.
///
/// # Errors
/// The first that breaks a rule.
pub(crate) fn check_document(schema: &Schema, document: &ExecutableDocument) -> Result<(), Violation> {
    document.operations.iter().try_for_each(|operation| check_operation(schema, document, operation))
}

fn check_operation(schema: &Schema, document: &ExecutableDocument, operation: &Operation) -> Result<(), Violation> {
    let none = Values { schema, variables: HashMap::new() };
    for variable in &operation.variables {
        // Constants: no variable may stand in them.
        none.directives(&variable.directives)?;
        if let Some(default) = &variable.default_value {
            none.value(default, Place { ty: Some(&variable.ty), has_default: false, is_of_one: false })?;
        }
    }
    let variables = operation.variables.iter().map(|variable| (variable.name.as_str(), &**variable)).collect();
    let mut walk = Walk { values: Values { schema, variables }, document, seen: HashSet::new() };
    walk.values.directives(&operation.directives)?;
    walk.selections(&operation.selection_set)
}

/// The selections that an operation reaches.
struct Walk<'d> {
    values: Values<'d>,
    document: &'d ExecutableDocument,
    /// Fragments that were walked.
    seen: HashSet<&'d str>,
}

impl<'d> Walk<'d> {
    fn selections(&mut self, set: &'d SelectionSet) -> Result<(), Violation> {
        for selection in &set.selections {
            match selection {
                Selection::Field(field) => {
                    self.values.arguments(&field.arguments, &field.definition.arguments)?;
                    self.values.directives(&field.directives)?;
                    self.selections(&field.selection_set)?;
                }
                Selection::InlineFragment(inline) => {
                    self.values.directives(&inline.directives)?;
                    self.selections(&inline.selection_set)?;
                }
                Selection::FragmentSpread(spread) => {
                    self.values.directives(&spread.directives)?;
                    let name = spread.fragment_name.as_str();
                    let document = self.document;
                    if let Some(fragment) = document.fragments.get(name)
                        && self.seen.insert(name)
                    {
                        self.values.directives(&fragment.directives)?;
                        self.selections(&fragment.selection_set)?;
                    }
                }
            }
        }
        Ok(())
    }
}

/// Where a value stands.
#[derive(Debug, Clone, Copy)]
struct Place<'a> {
    /// None within a custom scalar, which takes anything.
    ty: Option<&'a Type>,
    /// Whether the argument or field has a value where none is given.
    has_default: bool,
    /// Whether it is the field of an input object under `@oneOf`.
    is_of_one: bool,
}

struct Values<'d> {
    schema: &'d Schema,
    variables: HashMap<&'d str, &'d VariableDefinition>,
}

impl Values<'_> {
    fn directives<T: std::ops::Deref<Target = Directive>>(&self, directives: &[T]) -> Result<(), Violation> {
        directives.iter().try_for_each(|directive| {
            let definition = self.schema.directive_definitions.get(&directive.name);
            let arguments = definition.map(|definition| definition.arguments.as_slice());
            self.arguments(&directive.arguments, arguments.unwrap_or_default())
        })
    }

    fn arguments(
        &self,
        arguments: &[Node<Argument>],
        definitions: &[Node<InputValueDefinition>],
    ) -> Result<(), Violation> {
        let mut names = HashSet::new();
        for argument in arguments {
            if !names.insert(argument.name.as_str()) {
                return Err(invalid(&argument.name, "is given twice"));
            }
            let definition = definitions.iter().find(|definition| definition.name == argument.name);
            let Some(definition) = definition else {
                return Err(invalid(&argument.name, "is no argument here"));
            };
            self.value(&argument.value, Place::of(definition))?;
        }
        Ok(())
    }

    /// What stands in a value is nested no deeper than the brackets of a document.
    fn value(&self, value: &Value, place: Place<'_>) -> Result<(), Violation> {
        match value {
            Value::Variable(name) => self.variable(name, place),
            Value::List(items) => {
                // The elements of a list that stands for one value of a scalar are of that scalar.
                let item = place.ty.map(|ty| match ty {
                    Type::List(item) | Type::NonNullList(item) => (**item).clone(),
                    Type::Named(_) | Type::NonNullNamed(_) => ty.clone().nullable(),
                });
                let place = Place { ty: item.as_ref(), has_default: false, is_of_one: false };
                items.iter().try_for_each(|item| self.value(item, place))
            }
            Value::Object(members) => self.object(members, place),
            Value::Null if place.is_of_one => Err(invalid(ONE_OF, "is demanded here: its one field may not be null")),
            _ => Ok(()),
        }
    }

    fn object(&self, members: &[(Name, Node<Value>)], place: Place<'_>) -> Result<(), Violation> {
        let mut names = HashSet::new();
        if let Some((name, _)) = members.iter().find(|(name, _)| !names.insert(name.as_str())) {
            return Err(invalid(name, "is a field that is given twice"));
        }
        // One object may stand for a list of it.
        let definition = place.ty.and_then(|ty| self.schema.get_input_object(ty.inner_named_type()));
        if let Some(definition) = definition {
            check_count(definition, members.len())?;
        }
        members.iter().try_for_each(|(name, value)| {
            let field = definition.and_then(|definition| definition.fields.get(name));
            let is_of_one = definition.is_some_and(|definition| is_one_of(definition));
            let within = match field {
                Some(field) => Place { is_of_one, ..Place::of(field) },
                None => Place { ty: None, has_default: false, is_of_one },
            };
            self.value(value, within)
        })
    }

    fn variable(&self, name: &Name, place: Place<'_>) -> Result<(), Violation> {
        let Some(variable) = self.variables.get(name.as_str()) else {
            return Err(invalid(name, "is a variable that is not defined here"));
        };
        let Some(ty) = place.ty else { return Ok(()) };
        let fits = if place.is_of_one {
            // A default does not help: the client may say null.
            variable.ty.is_assignable_to(&ty.clone().non_null())
        } else if ty.is_non_null() && !variable.ty.is_non_null() {
            let has_value = variable.default_value.as_ref().is_some_and(|default| !default.is_null());
            (has_value || place.has_default) && variable.ty.is_assignable_to(&ty.clone().nullable())
        } else {
            variable.ty.is_assignable_to(ty)
        };
        if fits {
            return Ok(());
        }
        let demanded = if place.is_of_one { ty.clone().non_null() } else { ty.clone() };
        Err(invalid(name, &format!("is a variable of the type {}, where {demanded} is demanded", variable.ty)))
    }
}

impl<'a> Place<'a> {
    fn of(definition: &'a InputValueDefinition) -> Place<'a> {
        Place { ty: Some(&definition.ty), has_default: definition.default_value.is_some(), is_of_one: false }
    }
}

/// Checks the values of the variables of an operation, as the client sent them: those under `@oneOf`. They are of their types by the library.
///
/// # Errors
/// The first that breaks the rule.
pub(crate) fn check_variables(schema: &Schema, operation: &Operation, values: &JsonMap) -> Result<(), Violation> {
    operation.variables.iter().try_for_each(|variable| match values.get(variable.name.as_str()) {
        Some(value) => check_json(schema, &variable.ty, value),
        None => Ok(()),
    })
}

fn check_json(schema: &Schema, ty: &Type, value: &JsonValue) -> Result<(), Violation> {
    match value {
        JsonValue::Array(items) if ty.is_list() => {
            items.iter().try_for_each(|item| check_json(schema, ty.item_type(), item))
        }
        JsonValue::Object(members) => {
            let Some(definition) = schema.get_input_object(ty.inner_named_type()) else { return Ok(()) };
            let of_variables = |violation: Violation| Violation { code: code::GRAPHQL_VARIABLES, ..violation };
            check_count(definition, members.len()).map_err(of_variables)?;
            if is_one_of(definition) && members.iter().any(|(_, value)| value.is_null()) {
                return Err(of_variables(invalid(&definition.name, "takes one field that is not null")));
            }
            members.iter().try_for_each(|(name, value)| match definition.fields.get(name.as_str()) {
                Some(field) => check_json(schema, &field.ty, value),
                None => Ok(()),
            })
        }
        _ => Ok(()),
    }
}

fn is_one_of(object: &InputObjectType) -> bool {
    object.directives.get(ONE_OF).is_some()
}

fn check_count(object: &InputObjectType, given: usize) -> Result<(), Violation> {
    if is_one_of(object) && given != 1 {
        return Err(invalid(&object.name, &format!("takes exactly one field (`@oneOf`), and has {given}")));
    }
    Ok(())
}

fn invalid(name: &str, what: &str) -> Violation {
    named(code::GRAPHQL_INVALID, name, what)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
    use serde_json::{Value, json};

    use crate::{Cache, Endpoint, Options};

    const SCHEMA: &str = "directive @note(in: In, at: Int!, any: Any) repeatable on FIELD | QUERY | FRAGMENT_SPREAD | INLINE_FRAGMENT | FRAGMENT_DEFINITION | VARIABLE_DEFINITION
        scalar Any
        input In { one: One  ones: [One!]  need: Int! = 3  must: ID  ids: [ID!]  in: In  any: Any  grid: [[Int!]!] }
        input One @oneOf { id: ID  name: String  ids: [ID!]  in: In  one: One }
        type Query { a(in: In, ids: [ID!], need: Int! = 1, any: Any, one: One, ones: [One], n: Int!): Query  b: Int  c(any: Any!, anys: [Any!]): Int
            d(in: In, ids: [ID!], grid: [[Int!]!], one: One, ones: [One], any: Any): Int  n(n: Int!, m: Int! = 1): Int }";

    fn outcome(query: &str, variables: Value) -> &'static str {
        let endpoint = Endpoint::load("schema.graphql", SCHEMA, Options::default()).unwrap();
        let body = json!({ "query": query, "variables": variables }).to_string();
        endpoint.check_body(body.as_bytes(), &mut Cache::default()).err().map_or("", |violation| violation.code)
    }

    fn check(rows: &[(&str, bool)]) {
        for (query, passes) in rows {
            // Variables are given where they are demanded, so that nothing else is wrong.
            let given = json!({"i": "1", "n": 1, "l": ["1"], "x": "a", "o": {"id": 1}, "f": {"id": 1}});
            let outcome = outcome(query, given);
            // The grammar has no variables in constants.
            assert_eq!(
                if outcome == "graphql_malformed" { "graphql_invalid" } else { outcome },
                if *passes { "" } else { "graphql_invalid" },
                "{query}"
            );
        }
    }

    #[test]
    fn fields_of_an_input_object_are_given_once() {
        check(&[
            ("{d(in:{must:1 need:2})}", true),
            ("{d(in:{must:1 must:1})}", false),
            ("{d(in:{in:{must:1 must:2}})}", false),
            ("{d(in:{ones:[{id:1 id:1}]})}", false),
            ("{d(any:{a:1 b:{a:1}})}", true),
            ("{d(any:{a:1 a:1})}", false),
            ("{d(any:[{b:[{a:1 a:2}]}])}", false),
            ("query($x:Any={a:1 a:1}){d(any:$x)}", false),
            ("query($x:In={must:1 must:1}){d(in:$x)}", false),
            ("{b @note(at:1 any:{a:1 a:1})}", false),
            ("query @note(at:1 in:{must:1 must:1}) {b}", false),
            ("{...F} fragment F on Query @note(at:1 any:{a:1 a:1}) {b}", false),
            ("{...F @note(at:1 any:{a:1 a:1})} fragment F on Query {b}", false),
            ("{...on Query @note(at:1 any:{a:1 a:1}) {b}}", false),
            ("query($x:Any @note(at:1 any:{a:1 a:1})){d(any:$x)}", false),
            ("{b @note(at:1 at:1)}", false),
        ]);
    }

    #[test]
    fn variables_stand_where_their_type_may() {
        check(&[
            ("query($i:ID!){d(ids:[$i])}", true),
            ("query($i:ID){d(ids:[$i])}", false),
            ("query($i:ID=\"a\"){d(ids:[$i])}", true),
            ("query($i:ID=null){d(ids:[$i])}", false),
            ("query($i:[ID!]){d(ids:[$i])}", false),
            ("query($i:ID!){d(ids:$i)}", false),
            ("query($l:[ID!]){d(ids:$l)}", true),
            ("query($l:[ID]){d(ids:$l)}", false),
            ("query($n:Int){d(grid:[[1 $n]])}", false),
            ("query($n:Int!){d(grid:[[1 $n]])}", true),
            ("query($n:Int!){d(grid:[$n])}", false),
            ("query($n:Int){d(in:{need:$n})}", true),
            ("query($i:ID){d(in:{ids:[$i]})}", false),
            ("query($i:ID){d(in:{in:{ids:[\"1\" $i]}})}", false),
            ("query($n:Int){d(in:{must:$n})}", false),
            ("query($n:Int){n(n:$n)}", false),
            ("query($n:Int=null){n(n:$n)}", false),
            ("query($n:Int=1){n(n:$n)}", true),
            ("query($n:Int=null){n(n:1 m:$n)}", true),
            ("query($n:Int!=null){n(n:$n)}", false),
            ("query($n:Int){b @note(at:$n)}", false),
            ("query($n:Int=null){b @note(at:$n)}", false),
            ("query($n:Int!){b @note(at:$n)}", true),
            ("query($n:Int=null) @note(at:$n) {b}", false),
            ("query($i:ID){...F} fragment F on Query{d(ids:[$i])}", false),
            ("query($i:ID!){...F} fragment F on Query{d(ids:[$i])}", true),
            // Of two operations that reach a fragment each has variables of its own, and each is checked.
            ("query A($i:ID!){...F} query B($i:ID){...F} fragment F on Query{d(ids:[$i])}", false),
            ("query($i:ID){c(any:[$i])}", false),
            ("query($x:Any){c(any:[$x])}", true),
            ("query($x:Any){c(any:{a:$x})}", true),
            ("query($i:ID){c(any:{a:[$i]})}", true),
        ]);
    }

    #[test]
    fn variables_are_defined_wherever_they_stand() {
        check(&[
            ("{d(any:$x)}", false),
            ("{d(any:{a:$x})}", false),
            ("{d(any:[1 {b:[$x]}])}", false),
            ("{c(any:1 anys:[{a:$x}])}", false),
            ("{d(in:{any:{a:$x}})}", false),
            ("{b @note(at:1 any:{a:$x})}", false),
            ("query @note(at:1 any:{a:$x}) {b}", false),
            ("{...F} fragment F on Query{d(any:{a:$x})}", false),
            ("{...F} fragment F on Query @note(at:1 any:{a:$x}) {b}", false),
            ("query($x:Any){...F} fragment F on Query{d(any:{a:$x})}", true),
            ("query A($x:Any){...F} query B{...F} fragment F on Query{d(any:{a:$x})}", false),
            ("query($i:ID $x:Any={a:$i}){d(any:$x) c(any:{a:$i})}", false),
            ("query($i:ID $x:Any @note(at:1 any:{a:$i})){d(any:$x) c(any:{a:$i})}", false),
        ]);
    }

    #[test]
    fn one_of_is_exactly_one_that_is_not_null() {
        check(&[
            ("{d(one:{id:1})}", true),
            ("{d(one:{})}", false),
            ("{d(one:{id:1 name:\"a\"})}", false),
            ("{d(one:{id:null})}", false),
            ("{d(one:{id:1 name:null})}", false),
            ("{d(one:null)}", true),
            ("{d(one:{one:{id:1}})}", true),
            ("{d(one:{one:{}})}", false),
            ("{d(ones:[{id:1} {name:\"a\"}])}", true),
            ("{d(ones:[{id:1} {}])}", false),
            // One object for a list of it.
            ("{d(ones:{id:1})}", true),
            ("{d(ones:{id:1 name:\"a\"})}", false),
            ("{d(in:{one:{}})}", false),
            ("query($x:String!){d(one:{name:$x})}", true),
            ("query($x:String){d(one:{name:$x})}", false),
            ("query($x:String=\"a\"){d(one:{name:$x})}", false),
            ("query($i:ID!){d(one:{ids:[$i]})}", true),
            ("query($i:ID){d(one:{ids:[$i]})}", false),
            ("query($o:One={}){d(one:$o)}", false),
            ("query($o:One={id:1 name:\"a\"}){d(one:$o)}", false),
            ("query($o:One={id:1}){d(one:$o)}", true),
        ]);
        for (variable, value, passes) in [
            ("One", json!({"id": 1}), true),
            ("One", json!(null), true),
            ("One", json!({}), false),
            ("One", json!({"id": null}), false),
            ("One", json!({"id": 1, "name": null}), false),
            ("One", json!({"id": 1, "name": "a"}), false),
            ("One", json!({"one": {"id": 1}}), true),
            ("One", json!({"one": {"id": 1, "name": "a"}}), false),
            ("One", json!({"in": {"ones": [{"id": 1}, {}]}}), false),
            ("[One]", json!([{"id": 1}, {"id": 2}]), true),
            ("[One]", json!([{"id": 1}, {}]), false),
            ("[One]", json!({}), false),
            ("In", json!({"one": {}}), false),
            ("In", json!({"in": {"ones": [{"id": null}]}}), false),
            ("Any", json!({"one": {}}), true),
        ] {
            let argument = match variable {
                "One" => "one",
                "[One]" => "ones",
                "In" => "in",
                _ => "any",
            };
            let query = format!("query($v:{variable}){{d({argument}:$v)}}");
            let expected = if passes { "" } else { "graphql_variables" };
            assert_eq!(outcome(&query, json!({ "v": value })), expected, "{query} {value}");
        }
    }

    #[test]
    fn one_of_needs_no_definition_and_its_fields_no_value() {
        for (schema, loads) in [
            ("type Query { a(o: O): Int } input O @oneOf { a: Int b: Int }", true),
            ("directive @oneOf on INPUT_OBJECT type Query { a(o: O): Int } input O @oneOf { a: Int b: Int }", true),
            ("directive  @oneOf on INPUT_OBJECT type Query { a(o: O): Int } input O @oneOf { a: Int b: Int }", true),
            ("\"no directive @oneOf here\" type Query { a(o: O): Int } input O @oneOf { a: Int b: Int }", true),
            ("type Query { a(o: O): Int } input O { a: Int } extend input O @oneOf { b: Int }", true),
            ("type Query { a(o: O): Int } input O @oneOf { a: Int! b: Int }", false),
            ("type Query { a(o: O): Int } input O @oneOf { a: Int = 1 b: Int }", false),
            ("type Query { a(o: O): Int } input O { a: Int! } extend input O @oneOf { b: Int }", false),
        ] {
            let loaded = Endpoint::load("schema.graphql", schema, Options::default());
            assert_eq!(loaded.is_ok(), loads, "{schema}: {:?}", loaded.err());
            let Ok(endpoint) = loaded else { continue };
            let asked = endpoint.check_body(br#"{"query":"{a(o:{a:1 b:1})}"}"#, &mut Cache::default());
            assert_eq!(asked.err().map(|violation| violation.code), Some("graphql_invalid"), "{schema}");
        }
        let options = Options { introspection: true, ..Options::default() };
        let endpoint = Endpoint::load("schema.graphql", SCHEMA, options).unwrap();
        let query = br#"{"query":"{__type(name:\"One\"){isOneOf}}"}"#;
        assert!(endpoint.check_body(query, &mut Cache::default()).is_ok());
    }
}
