//! What becomes of URLs and cookies in responses of upstreams.

use super::{FieldValue, Template};

pub use crate::shape::surface::{CookieFlags, CookieSameSite};

/// Changes to `Location`, `Refresh` and `Set-Cookie` of responses of upstreams.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ResponseRewrites {
    /// Beginnings of URLs; the first that fits counts.
    pub location: Vec<Rewrite>,
    /// Cookies; the first rule that fits one counts for it.
    pub cookies: Vec<CookieRule>,
}

/// What comes in place of a text, or of the beginning of one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rewrite {
    /// What is replaced.
    pub from: String,
    /// By what; none where nothing comes in its place.
    pub to: Option<FieldValue>,
}

/// What becomes of the attributes of some cookies (RFC 6265 §4.1).
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CookieRule {
    /// Their names; empty for all.
    pub names: Vec<String>,
    /// Beginnings of `Path`; the first that fits counts.
    pub path: Vec<Rewrite>,
    /// Values of `Domain`, without a dot at their beginning and whatever their case.
    pub domain: Vec<Rewrite>,
    /// What else it has.
    pub flags: CookieFlags,
}

impl ResponseRewrites {
    /// Its templates.
    pub fn templates(&self) -> impl Iterator<Item = &Template> {
        let of_cookies = self.cookies.iter().flat_map(|rule| rule.path.iter().chain(&rule.domain));
        let values = self.location.iter().chain(of_cookies).filter_map(|rewrite| rewrite.to.as_ref());
        values.filter_map(|value| match value {
            FieldValue::Template(template) => Some(template),
            FieldValue::Text(_) => None,
        })
    }
}
