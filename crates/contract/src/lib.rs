//! The contract: an OpenAPI document becomes an immutable program that validates a message as its bytes arrive.
//!
//! Owns the JSON scanner, the schema compiler and validator, and what a document says of operations, parameters and bodies. Reads files only
//! while it loads a document, keeps no clock, spawns nothing, and never panics on input: whatever it cannot validate is a violation with a reason of its own.
//! Ruled by RFC 8259, JSON Schema 2020-12 and OpenAPI 3.0 and 3.1.
//!
//! ```
//! use contract::{Contract, Found, options::Options};
//!
//! let document = r##"
//! openapi: 3.1.0
//! info: { title: Pets, version: "1" }
//! paths:
//!   /pets/{id}:
//!     get:
//!       parameters: [{ name: id, in: path, required: true, schema: { type: integer } }]
//!       responses: { "200": { description: A pet } }
//! "##;
//! let contract = Contract::from_text("pets.yaml", document, &Options::default()).unwrap();
//! assert!(matches!(contract.find("GET", b"/pets/7"), Found::Operation(..)));
//! assert!(matches!(contract.find("PUT", b"/pets/7"), Found::UnknownMethod { allow: "GET" }));
//! assert!(matches!(contract.find("GET", b"/cats"), Found::UnknownPath));
//! ```
#![deny(unsafe_code)]

pub mod lint;
pub mod learn;
pub mod validate;
mod contract;
mod parameter;
mod body;
pub mod openapi;
pub mod document;
pub mod schema;
mod node;
mod problem;
mod message;
mod media_type;
pub mod format;
pub mod pattern;
pub mod options;
pub mod json;
pub mod number;
pub mod limits;
pub mod reason;
mod escape;
mod spelling;
mod turn;

pub use contract::{Contract, Found, Matched};
pub use problem::Problem;
