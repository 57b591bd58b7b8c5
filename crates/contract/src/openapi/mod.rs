//! What an OpenAPI document says: paths, operations, parameters, bodies, responses, security. Made once, validated with many times.

mod model;
mod read;
mod router;
mod security;
mod shape;
mod template;

pub use model::Operation;
pub(crate) use model::{Body, Coding, Content, FieldKind, FormField, FormFields, Parameter, Response, Style, XmlRoot};
pub(crate) use read::{Class, METHODS, dialect, is_of_bytes, read};
pub(crate) use router::{Leaf, Router};
pub use security::{Demand, Requirement, Scheme, SchemeKind};
pub(crate) use shape::{Shape, ShapeId, Shapes, Xml};
pub use template::PathValues;
