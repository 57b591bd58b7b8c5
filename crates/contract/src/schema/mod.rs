//! Schemas: from document nodes to an immutable program, and a value's way through it. Knows nothing of operations or media types.
//!
//! The way in: implement [`Resolver`], `Builder::new(&resolver, options)`, `builder.add(target, direction)` for each schema, `builder.finish()`; then
//! `program.check(id, &mut run)` gives a [`Check`]: `feed` or `event` until `finish`. A [`Run`] is room that is used again.

mod compile;
mod constant;
mod contradictions;
mod evaluate;
mod everything;
mod explain;
mod fast_path;
mod ir;
mod validator;
mod keys;
mod keywords;
mod lower;
mod lower_blocks;
mod memo;
mod program;
mod run;
mod source;
mod tags;
mod tape;
mod types;
mod vocabulary;

pub use compile::{Builder, Built};
pub(crate) use everything::Wanted;
pub use program::{Program, SchemaId};
pub use run::{Check, Event, Run};
pub use source::{Base, Dialect, Direction, Options, Problem, Resolver, Target};
pub(crate) use types::Types;
pub(crate) use vocabulary::validates;
