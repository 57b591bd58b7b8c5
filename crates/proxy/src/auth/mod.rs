//! The network side of what a contract demands: who may speak at all, and whether a token is what it says.
//!
//! `deny.rs` is an exact set of tokens; `token.rs` checks JSON Web Tokens
//! with the keys of `keys.rs`, which `background` keeps fresh; `introspection.rs` reads what a server says of an opaque one, and `lookups.rs` keeps that. Everything is closed: what cannot be read at load is a problem, what cannot
//! be decided is a rejection. Decides nothing about routes or operations.

pub mod base64url;
pub mod deny;
pub mod introspection;
mod hashing;
mod jwk;
mod json;
pub mod keys;
pub mod lookups;
pub mod passwords;
pub mod subject;
pub mod token;
pub mod verifiers;

pub use deny::DeniedTokens;
pub use introspection::Introspection;
pub use keys::KeyRing;
pub use passwords::Passwords;
pub use subject::Subject;
pub use token::TokenRule;
pub use verifiers::{Grant, Verifier, Verifiers};
