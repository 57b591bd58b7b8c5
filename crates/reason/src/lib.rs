//! Reason codes: why a request, connection, tunnel or flow ended as it did, for the access log, metrics, rejections and documentation alike.
//!
//! Owns the one table of codes with side, status, meaning and remedy. A code is written nowhere else: code names a [`Reason`], and only what
//! leaves the program is text. What an API document says of a message is coded by the crate `contract` ([`Reason::Violation`]).
//!
//! ```
//! use reason::{Reason, Side};
//!
//! let reason = Reason::UpstreamConnectTimeout;
//! assert_eq!((reason.code(), reason.side(), reason.status()), ("upstream_connect_timeout", Side::Upstream, 504));
//! assert!(reason.facts().meaning.contains("connect_timeout"));
//! ```
#![forbid(unsafe_code)]

mod table;
mod declare;

pub use declare::{Facts, Side};
pub use table::Reason;

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn every_reason_is_documented_once() {
        let mut codes = BTreeSet::new();
        for reason in Reason::ALL {
            let Facts { code, side, status, group, meaning, remedy } = reason.facts();
            assert!(codes.insert(code), "{code} stands twice");
            let is_word =
                |word: &str| !word.is_empty() && word.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit());
            assert!(code.split('_').all(is_word), "{code} is not made of lower-case words");
            assert_eq!((code, side, status), (reason.code(), reason.side(), reason.status()));
            assert!(status == 0 || (400..=599).contains(&status), "{code}: {status} is no status of an error");
            for text in [group, meaning, remedy] {
                assert!(!text.is_empty() && text.is_ascii() && !text.contains('|'), "{code}: {text:?}");
            }
            for sentence in [meaning, remedy] {
                assert!(
                    sentence.ends_with('.') && sentence.starts_with(|c: char| c.is_ascii_uppercase() || c == '`'),
                    "{code}: {sentence}"
                );
            }
            assert_eq!(Reason::of_code(code), *reason);
        }
    }

    /// The vocabulary of operators: words that were given up do not come back.
    #[test]
    fn no_code_uses_a_retired_word() {
        let retired = [
            "ours",
            "broke",
            "broken",
            "gone",
            "slow",
            "cut",
            "unasked",
            "unaskable",
            "refusal",
            "judge",
            "circle",
            "stalled",
        ];
        for reason in Reason::ALL {
            let word = reason.code().split('_').find(|word| retired.contains(word));
            assert_eq!(word, None, "{}", reason.code());
        }
    }

    #[test]
    fn a_code_of_a_contract_stays_what_it_is() {
        let reason = Reason::of_code("schema_type");
        assert_eq!(
            (reason, reason.code(), reason.side()),
            (Reason::Violation("schema_type"), "schema_type", Side::Sender)
        );
    }
}
