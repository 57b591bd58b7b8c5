//! What is said of responses, by name: pages for errors, compression. Listeners, hosts and routes choose among them.

use std::path::PathBuf;

pub use crate::shape::surface::{CompressionOptions, Encoding};

/// Error pages under a name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ErrorPagesConfig {
    /// The name.
    pub name: String,
    /// The pages. A status goes before its class.
    pub pages: Vec<ErrorPageConfig>,
    /// Responses of upstreams that are replaced, too.
    pub intercept: Vec<StatusPattern>,
}

impl ErrorPagesConfig {
    /// The files that it names.
    pub fn files(&self) -> impl Iterator<Item = &PathBuf> {
        self.pages.iter().flat_map(|page| [&page.html, &page.text]).flatten()
    }
}

/// A page.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ErrorPageConfig {
    /// The errors that it is for.
    pub statuses: StatusPattern,
    /// A file of HTML.
    pub html: Option<PathBuf>,
    /// A file of plain text.
    pub text: Option<PathBuf>,
}

/// A status of an error, or a class of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StatusPattern {
    /// This one.
    Status(u16),
    /// All that begin with this digit: 4 or 5.
    Class(u16),
}

impl StatusPattern {
    /// Whether a status is meant.
    pub fn matches(self, status: u16) -> bool {
        match self {
            StatusPattern::Status(one) => one == status,
            StatusPattern::Class(class) => class == status / 100,
        }
    }
}

/// Compression under a name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CompressionConfig {
    /// The name.
    pub name: String,
    /// Content codings, the preferred one first. At least one.
    pub encodings: Vec<Encoding>,
    /// Media types of responses that are compressed. At least one.
    pub types: Vec<MediaTypePattern>,
    /// Its other settings.
    pub options: CompressionOptions,
}

/// A media type, or several.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MediaTypePattern {
    /// The type, in lower case.
    pub kind: String,
    /// The subtype, in lower case; its end, with the `+`, if `is_suffix`; empty for any.
    pub subtype: String,
    /// What ends in the subtype is meant.
    pub is_suffix: bool,
}

impl MediaTypePattern {
    /// Whether a media type without parameters is meant.
    pub fn matches(&self, essence: &[u8]) -> bool {
        let Some(at) = essence.iter().position(|byte| *byte == b'/') else { return false };
        let (kind, subtype) = (essence.get(..at).unwrap_or_default(), essence.get(at + 1..).unwrap_or_default());
        let subtype = match self.is_suffix {
            true => subtype.get(subtype.len().saturating_sub(self.subtype.len())..).unwrap_or_default(),
            false => subtype,
        };
        kind.eq_ignore_ascii_case(self.kind.as_bytes())
            && (self.subtype.is_empty() || subtype.eq_ignore_ascii_case(self.subtype.as_bytes()))
    }
}

/// What a listener, host or route says of one of the named settings.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum Choice {
    /// Nothing: a route has that of its host, a host that of the listener.
    #[default]
    Inherited,
    /// None, whatever is said around it.
    None,
    /// This one.
    Named(String),
}

/// What a listener, host or route says of responses.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ResponseRules {
    /// Pages for errors.
    pub error_pages: Choice,
    /// Compression.
    pub compression: Choice,
}
