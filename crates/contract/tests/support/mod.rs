//! What the tests of the schema compiler share: documents from JSON text, and references between them. No expectations stand here.
#![allow(dead_code)]

pub mod node;
pub mod registry;

use contract::document::Node;
use contract::reason::Violation;
use contract::schema::{Base, Builder, Dialect, Direction, Options, Problem, Program, Run, SchemaId, Target};

use registry::Registry;

/// The program of one schema that stands for itself.
pub fn compile(
    schema: &Node,
    dialect: Dialect,
    direction: Direction,
    options: Options,
) -> Result<(Program, SchemaId), Vec<Problem>> {
    let mut registry = Registry::default();
    registry.add("test:root", schema, dialect);
    let mut builder = Builder::new(&registry, options);
    let id = builder.add(Target { node: schema, base: Base(0), dialect }, direction);
    builder.finish().map(|program| (program, id))
}

/// The decision on a text that comes in pieces of this size.
pub fn validate(program: &Program, id: SchemaId, run: &mut Run, text: &[u8], piece: usize) -> Result<(), Violation> {
    let mut check = program.check(id, run);
    for chunk in text.chunks(piece.max(1)) {
        check.feed(chunk)?;
    }
    check.finish()
}

/// The decision on a text whose evaluations pause again and again.
pub fn validate_in_turns(
    program: &Program,
    id: SchemaId,
    run: &mut Run,
    text: &[u8],
    steps: u64,
) -> Result<(), Violation> {
    let mut check = program.check(id, run).in_turns_of(steps);
    check.feed(text)?;
    check.finish()
}
