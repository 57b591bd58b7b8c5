//! A schema and what an endpoint takes, and the check of one request against both. Each step is bounded by the one before: bytes and tokens (`scan`),
//! what fragments unfold to (`measure`), the schema (the library, and `rules` for what it lacks), variables, cost (`weigh`).

use std::rc::Rc;
use std::sync::atomic::{AtomicU64, Ordering};

use apollo_compiler::ast::Definition;
use apollo_compiler::executable::Operation;
use apollo_compiler::parser::Parser;
use apollo_compiler::request::coerce_variable_values;
use apollo_compiler::response::JsonValue;
use apollo_compiler::validation::{DiagnosticList, Valid};
use apollo_compiler::{ExecutableDocument, Schema};
use contract::validate::{Violation, code};

use crate::cache::Cache;
use crate::json;
use crate::measure::{has_duplicates, measure};
use crate::options::{Options, PersistedQueries};
use crate::request::Request;
use crate::rules;
use crate::scan::{MAX_NESTING, Tokens, scan};
use crate::violation::{named, over, violation};
use crate::weigh::{DIRECTIVES, weigh};

/// Problems of a schema that are listed.
const MAX_PROBLEMS: usize = 100;

/// What the name of an operation may have, bytes.
const MAX_NAME_BYTES: usize = 256;

/// A schema, and what may be asked under it. Immutable and shared by all threads.
#[derive(Debug)]
pub struct Endpoint {
    schema: Valid<Schema>,
    options: Options,
    /// Distinguishes it in caches.
    number: u64,
}

/// How a request came.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Way {
    /// With GET.
    Get,
    /// With POST.
    Post,
    /// In a message of a WebSocket.
    WebSocket,
}

impl Endpoint {
    /// Reads and validates a schema. `name` is what it is called in messages.
    ///
    /// # Errors
    /// Every problem, with file, line and column.
    pub fn load(name: &str, schema: &str, options: Options) -> Result<Endpoint, Vec<String>> {
        let mut builder = Schema::builder();
        // Marks of what multiplies, and what the specification has built in, may be used without being defined.
        for (own, definition) in DIRECTIVES.into_iter().chain([rules::ONE_OF_DIRECTIVE]) {
            if schema.contains(&format!("@{own}")) && !defines(schema, own) {
                Parser::new().parse_into_schema_builder(definition, "(built in)", &mut builder);
            }
        }
        Parser::new().parse_into_schema_builder(rules::ONE_OF_INTROSPECTION, "(built in)", &mut builder);
        Parser::new().parse_into_schema_builder(schema, name, &mut builder);
        let built = builder.build().map_err(|error| problems(name, &error.errors))?;
        let schema = built.validate().map_err(|error| problems(name, &error.errors))?;
        let wrong = rules::problems(&schema);
        if !wrong.is_empty() {
            return Err(wrong.into_iter().take(MAX_PROBLEMS).map(|problem| format!("{name}: {problem}")).collect());
        }
        if schema.schema_definition.query.is_none() {
            return Err(vec![format!("{name}: the schema has no query type; add `type Query`")]);
        }
        static NUMBER: AtomicU64 = AtomicU64::new(0);
        Ok(Endpoint { schema, options, number: NUMBER.fetch_add(1, Ordering::Relaxed) })
    }

    /// What it takes.
    pub fn options(&self) -> &Options {
        &self.options
    }

    /// The fields of the root types, with the kind of operation before each: `query pet`.
    pub fn root_fields(&self) -> Vec<String> {
        let definition = &self.schema.schema_definition;
        let roots = [
            ("query", &definition.query),
            ("mutation", &definition.mutation),
            ("subscription", &definition.subscription),
        ];
        let fields = |(kind, name): (&str, &Option<apollo_compiler::schema::ComponentName>)| {
            let object = name.as_ref().and_then(|name| self.schema.get_object(name.as_str()));
            let names =
                object.map(|object| object.fields.keys().map(|field| format!("{kind} {field}")).collect::<Vec<_>>());
            names.unwrap_or_default()
        };
        roots.into_iter().flat_map(fields).collect()
    }

    /// Validates the body of a POST: a request, or a batch of them.
    ///
    /// # Errors
    /// The first violation.
    pub fn check_body(&self, body: &[u8], cache: &mut Cache) -> Result<(), Violation> {
        if body.len() > self.options.limits.request_bytes {
            return Err(over(
                code::GRAPHQL_QUERY_TOO_LONG,
                "the request has more bytes",
                self.options.limits.request_bytes,
            ));
        }
        match json::read(body).map_err(|error| violation(code::GRAPHQL_REQUEST_MALFORMED, error))? {
            JsonValue::Array(requests) => {
                let limit = self.options.limits.batch;
                if requests.len() > limit || limit <= 1 {
                    return Err(over(code::GRAPHQL_BATCH, "the batch has more requests", limit));
                }
                if requests.is_empty() {
                    return Err(violation(code::GRAPHQL_REQUEST_MALFORMED, "the batch is empty"));
                }
                requests.into_iter().try_for_each(|request| self.check(Request::of(request)?, Way::Post, cache))
            }
            request => self.check(Request::of(request)?, Way::Post, cache),
        }
    }

    /// Validates one request.
    ///
    /// # Errors
    /// The first violation.
    pub(crate) fn check(&self, request: Request, way: Way, cache: &mut Cache) -> Result<(), Violation> {
        let Some(query) = request.query.as_deref().filter(|query| !query.is_empty() || !request.names_a_query) else {
            return match (request.names_a_query, self.options.persisted_queries) {
                (true, PersistedQueries::Pass) if way != Way::Get => Ok(()),
                // Whether it is a mutation is not known.
                (true, _) => Err(violation(code::GRAPHQL_PERSISTED_QUERY, "names a query instead of holding it")),
                (false, _) => Err(violation(code::GRAPHQL_QUERY_MISSING, "has no `query`")),
            };
        };
        let document = match cache.get(self.number, query) {
            Some(document) => document,
            None => {
                let (document, tokens) = self.document(query)?;
                let document = Rc::new(document);
                cache.put(self.number, query, tokens, Rc::clone(&document));
                document
            }
        };
        let operation = chosen(&document, request.operation.as_deref())?;
        self.check_kind(operation, &document, way)?;
        let variables = coerce_variable_values(&self.schema, operation, &request.variables)
            .map_err(|error| violation(code::GRAPHQL_VARIABLES, error.message().to_string()))?;
        rules::check_variables(&self.schema, operation, &request.variables)?;
        weigh(&document, operation, &variables, &self.options)
    }

    /// Reads a document and validates it under the schema. It, and how many tokens it has.
    fn document(&self, query: &str) -> Result<(Valid<ExecutableDocument>, usize), Violation> {
        let limits = &self.options.limits;
        let Tokens { text, count } = scan(query, limits)?;
        // The limits of the library are never reached: tokens and brackets are counted.
        let mut parser = Parser::new().recursion_limit(4 * MAX_NESTING).token_limit(4 * limits.tokens + 100);
        let parsed = parser.parse_ast(text, "query");
        let parsed = parsed.map_err(|error| violation(code::GRAPHQL_MALFORMED, first_of(&error.errors)))?;
        measure(&parsed, limits)?;
        if self.options.rejects_duplicate_fields && has_duplicates(&parsed) {
            return Err(violation(code::GRAPHQL_DUPLICATE_FIELD, "asks for the same field twice"));
        }
        let valid = parsed.to_executable_validate(&self.schema);
        let valid = valid.map_err(|error| violation(code::GRAPHQL_INVALID, first_of(&error.errors)))?;
        rules::check_document(&self.schema, &valid)?;
        Ok((valid, count))
    }

    /// Whether this kind of operation may come this way, and ask for what it asks for.
    fn check_kind(&self, operation: &Operation, document: &ExecutableDocument, way: Way) -> Result<(), Violation> {
        if way == Way::Get && !operation.is_query() {
            return Err(violation(code::GRAPHQL_NO_QUERY_BY_GET, "is no query, and came with GET"));
        }
        if operation.is_subscription() && way == Way::Post && !self.options.http_subscriptions {
            return Err(violation(code::GRAPHQL_SUBSCRIPTION, "is a subscription, and came with POST"));
        }
        let is_introspection = |name: &str| matches!(name, "__schema" | "__type");
        // Wherever the type of queries stands these are fields of it, below a mutation, too.
        let mut fields = operation.all_fields(document);
        if !self.options.introspection
            && let Some(field) = fields.find(|field| is_introspection(field.name.as_str()))
        {
            return Err(named(code::GRAPHQL_INTROSPECTION, field.name.as_str(), "asks for the schema"));
        }
        Ok(())
    }
}

/// Whether a schema defines a directive itself. What cannot be parsed is reported when it is built.
fn defines(schema: &str, name: &str) -> bool {
    let document = Parser::new().parse_ast(schema, "schema").unwrap_or_else(|error| error.partial);
    document.definitions.iter().any(|definition| match definition {
        Definition::DirectiveDefinition(directive) => directive.name == name,
        _ => false,
    })
}

/// The operation that is to be executed.
fn chosen<'d>(document: &'d ExecutableDocument, name: Option<&str>) -> Result<&'d Operation, Violation> {
    // To some servers an empty name is one, to others none.
    if name.is_some_and(|name| name.is_empty() || name.len() > MAX_NAME_BYTES) {
        return Err(violation(code::GRAPHQL_OPERATION_UNKNOWN, "`operationName` is empty or too long"));
    }
    let found = document.operations.get(name);
    found.map(|operation| &**operation).map_err(|error| {
        let what = error.message().to_string();
        match name {
            Some(name) => named(code::GRAPHQL_OPERATION_UNKNOWN, name, what),
            None => violation(code::GRAPHQL_OPERATION_UNKNOWN, what),
        }
    })
}

fn first_of(errors: &DiagnosticList) -> String {
    errors.iter().next().map(|error| error.to_json().message).unwrap_or_default()
}

fn problems(name: &str, errors: &DiagnosticList) -> Vec<String> {
    let problem = |error: apollo_compiler::diagnostic::Diagnostic<'_, _>| {
        let place = error.line_column_range().map(|range| format!(":{}:{}", range.start.line, range.start.column));
        format!("{name}{}: {}", place.unwrap_or_default(), error.to_json().message)
    };
    errors.iter().take(MAX_PROBLEMS).map(problem).collect()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
    use super::*;

    const SCHEMA: &str = "type Query { a(l: [Int], i: In, s: Any): Query b: Int } input In { i: In } scalar Any";

    /// What the bounds let through goes through the library on the stack of a worker.
    #[test]
    fn the_deepest_documents_take_no_more_stack_than_there_is() {
        let endpoint = Endpoint::load("schema.graphql", SCHEMA, Options::default()).unwrap();
        let around =
            |open: &str, within: &str, close: &str, count: usize| open.repeat(count) + within + &close.repeat(count);
        let values = MAX_NESTING - 3;
        for query in [
            format!("{{a(s:{}){{b}}}}", around("[", "1", "]", values)),
            format!("{{a(s:{}){{b}}}}", around("{i:", "1", "}", values)),
            format!("{{a(i:{}){{b}}}}", around("{i:", "null", "}", values)),
            format!("query($v:{}){{b}}", around("[", "Int", "]", values)),
            around("{...on Query", "{b}", "}", 55),
            around("{a", "{b}", "}", 14),
            (0..50).fold("{...F0} fragment F50 on Query{b}".to_owned(), |all, at| {
                format!("{all} fragment F{at} on Query{{...F{}}}", at + 1)
            }),
        ] {
            let body = serde_json::json!({ "query": query }).to_string();
            let outcome = endpoint.check_body(body.as_bytes(), &mut Cache::default());
            let code = outcome.err().map_or("", |violation| violation.code);
            assert!(matches!(code, "" | "graphql_invalid"), "{code}: {query}");
        }
        let variables = format!("{{\"v\":{}}}", around("{\"i\":", "null", "}", 120));
        let body = format!("{{\"query\":\"query($v:In){{a(i:$v){{b}}}}\",\"variables\":{variables}}}");
        assert!(endpoint.check_body(body.as_bytes(), &mut Cache::default()).is_ok());
    }

    #[test]
    fn introspection_is_seen_wherever_the_type_of_queries_stands() {
        let schema = "type Query { a: Query b: Int } type Mutation { m: Query }";
        let endpoint = Endpoint::load("schema.graphql", schema, Options::default()).unwrap();
        for query in [
            "{__schema{types{name}}}",
            "{a{__schema{types{name}}}}",
            "{a{...F}} fragment F on Query{__type(name:\"Query\"){name}}",
            "mutation{m{a{__schema{types{name}}}}}",
        ] {
            let body = serde_json::json!({ "query": query }).to_string();
            let outcome = endpoint.check_body(body.as_bytes(), &mut Cache::default());
            assert_eq!(outcome.err().map(|violation| violation.code), Some("graphql_introspection"), "{query}");
        }
    }

    #[test]
    fn what_is_remembered_is_bounded() {
        let endpoint = Endpoint::load("schema.graphql", SCHEMA, Options::default()).unwrap();
        let mut cache = Cache::default();
        let ask = |cache: &mut Cache, query: String| {
            let body = serde_json::json!({ "query": query }).to_string();
            endpoint.check_body(body.as_bytes(), cache).unwrap();
        };
        for number in 0..1_000 {
            ask(&mut cache, format!("{{b}} # {number}"));
            // The one that is asked for all the time stays.
            ask(&mut cache, "{a{b}}".to_owned());
            assert!(cache.get(endpoint.number, "{a{b}}").is_some() && cache.len() <= 256);
        }
        for number in 0..100 {
            ask(&mut cache, format!("{{a{{{}}}}} # {number}", "b ".repeat(900)));
        }
        assert!(cache.len() <= 72, "{}", cache.len());
    }
}
