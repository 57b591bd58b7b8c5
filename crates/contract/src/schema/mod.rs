//! Schemas: from document nodes to an immutable program, and a value's way through it. Knows nothing of operations or media types.
//!
//! The way in: implement [`Resolver`], `Builder::new(&resolver, options)`, `builder.add(target, direction)` for each schema, `builder.finish()`; then
//! `program.check(id, &mut Run)` per value and `feed` or `event` until `finish`.

mod source;

pub use source::{Base, Dialect, Direction, Options, Problem, Resolver, Target};
