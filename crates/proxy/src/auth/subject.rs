//! Who a request was verified to come from: the user, the claims of tokens, and the fields that say so to the upstream. Policies fill it in order; it
//! lives as long as the request.

use std::borrow::Cow;

use wire::http::RequestHead;
use wire::http::fields::{is_field_value, trim_blanks};

use super::token::Untellable;
use super::verifiers::Grant;

/// Who a request was verified to come from.
#[derive(Debug, Default)]
pub struct Subject {
    user: Option<Box<str>>,
    /// Of each policy that verified a token.
    grants: Vec<Grant>,
    fields: Vec<(String, Vec<u8>)>,
    /// What an authentication service has the client remember.
    cookies: Vec<Vec<u8>>,
}

/// A text cannot be the value of a field.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NoFieldValue;

impl Subject {
    /// Notes a value of Set-Cookie for the client.
    pub fn remembers(&mut self, cookie: &[u8]) {
        self.cookies.push(cookie.to_vec());
    }

    /// The values of Set-Cookie, once.
    pub fn take_cookies(&mut self) -> Vec<Vec<u8>> {
        std::mem::take(&mut self.cookies)
    }

    /// The user, for the log.
    pub fn user(&self) -> Option<&str> {
        self.user.as_deref()
    }

    /// Notes the user.
    pub fn is_user(&mut self, user: &str) {
        self.user = Some(user.into());
    }

    /// Notes what a token says.
    pub fn holds(&mut self, grant: Grant) {
        if let Ok(Some(user)) = grant.text("sub") {
            self.user = Some(user.into());
        }
        self.grants.push(grant);
    }

    /// A verified claim: that of the policy asked last which has it.
    ///
    /// # Errors
    /// It cannot be told in one text.
    pub fn claim(&self, name: &str) -> Result<Option<Cow<'_, str>>, Untellable> {
        let mut found = self.grants.iter().rev().map(|grant| grant.text(name));
        found.find(|text| !matches!(text, Ok(None))).unwrap_or(Ok(None))
    }

    /// The values of a verified claim, a list being several: those of the policy asked last which has any.
    pub fn claim_values(&self, name: &str) -> impl Iterator<Item = Cow<'_, str>> {
        let grant = self.grants.iter().rev().find(|grant| grant.values(name).next().is_some());
        grant.into_iter().flat_map(move |grant| grant.values(name))
    }

    /// The value of a field (lower case) that a policy has set.
    pub fn field(&self, name: &str) -> Option<&[u8]> {
        self.fields.iter().find(|(other, _)| other == name).map(|(_, value)| value.as_slice())
    }

    /// Sets a field of the request as the upstream gets it.
    ///
    /// # Errors
    /// The value holds controls, or blanks around it.
    pub fn set(&mut self, name: &str, value: &[u8]) -> Result<(), NoFieldValue> {
        if !is_field_value(value) || trim_blanks(value) != value {
            return Err(NoFieldValue);
        }
        self.fields.retain(|(other, _)| other != name);
        self.fields.push((name.to_owned(), value.to_vec()));
        Ok(())
    }

    /// The head with these fields, where there are any. What the client sent under their names ended when the head was read.
    pub fn name_in(&self, head: &RequestHead) -> Option<Box<RequestHead>> {
        if self.fields.is_empty() {
            return None;
        }
        let mut named = Box::new(head.clone());
        self.fields.iter().for_each(|(name, value)| named.fields.set(name, value));
        Some(named)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
    use super::super::json::Object;
    use super::super::token::Claims;
    use super::*;

    fn grant(json: &str) -> Grant {
        Grant::Claims(Box::new(Claims(Object::read(json.as_bytes()).unwrap())))
    }

    #[test]
    fn claims_are_told_in_one_way_or_not_at_all() {
        let mut subject = Subject::default();
        subject.holds(grant(
            r#"{"sub":"u1","n":12,"big":12345678901234567890,"flag":true,"roles":["a","b"],"odd":["a,b"],"nested":{"roles":["x"],"y":{"z":1}},
               "a.b":"dotted","none":null,"empty":"","deep":[["a"]],"half":0.5}"#,
        ));
        let text = |name: &str| subject.claim(name).map(|text| text.map(Cow::into_owned));
        for (name, expected) in [
            ("sub", Ok(Some("u1"))),
            ("n", Ok(Some("12"))),
            ("half", Ok(Some("0.5"))),
            ("flag", Ok(Some("true"))),
            ("roles", Ok(Some("a,b"))),
            ("nested.roles", Ok(Some("x"))),
            ("nested.y.z", Ok(Some("1"))),
            ("a.b", Ok(Some("dotted"))),
            ("none", Ok(None)),
            ("empty", Ok(None)),
            ("missing", Ok(None)),
            ("nested.missing", Ok(None)),
            ("sub.x", Ok(None)),
            ("big", Err(Untellable)),
            ("odd", Err(Untellable)),
            ("deep", Err(Untellable)),
            ("nested", Err(Untellable)),
        ] {
            assert_eq!(text(name), expected.map(|text| text.map(str::to_owned)), "{name}");
        }
        assert_eq!(subject.user(), Some("u1"));
        let claims = grant(r#"{"role":"admin","groups":["a","b"],"level":3}"#);
        let is = |name: &str, values: &[&str]| {
            claims.is_any(name, &values.iter().map(ToString::to_string).collect::<Vec<_>>())
        };
        assert!(is("role", &["x", "admin"]) && is("groups", &["b"]) && is("level", &["3"]));
        assert!(!is("role", &["Admin"]) && !is("groups", &["a,b"]) && !is("missing", &["", "null"]));
    }

    #[test]
    fn fields_hold_no_line_ends_and_replace_what_is_there() {
        let mut subject = Subject::default();
        assert!(subject.name_in(&RequestHead::default()).is_none());
        for bad in ["a\r\nX: y", "a\0", " a", "a "] {
            assert_eq!(subject.set("x-user", bad.as_bytes()), Err(NoFieldValue), "{bad:?}");
        }
        subject.set("x-user", b"one").unwrap();
        subject.set("x-user", "J\u{f6}rg".as_bytes()).unwrap();
        let mut head = RequestHead::default();
        head.fields.push(b"X-User", b"spoofed");
        let named = subject.name_in(&head).unwrap();
        assert_eq!(named.fields.get_all("x-user").collect::<Vec<_>>(), ["J\u{f6}rg".as_bytes()]);
    }
}
