//! TXT records that stand for good and name our account with an authority, so that nothing has to be set for an order (dns-persist-01,
//! draft-ietf-acme-dns-persist): what one must say, and whether there is one that does.

use std::time::{SystemTime, UNIX_EPOCH};

use hickory_resolver::proto::rr::{Name, RData, RecordType};

use super::{records_to_end, resolver};

/// What stands before the name in that of its record.
const PREFIX: &str = "_validation-persist.";

/// The record that proves a name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StandingRecord {
    /// The host, without `*.`.
    pub host: String,
    /// What the authority may be called, one at least.
    pub issuers: Vec<String>,
    /// The URL of our account.
    pub account: String,
    /// It must hold for all names below, too.
    pub wildcard: bool,
}

impl StandingRecord {
    /// Its name, without a final dot.
    pub fn name(&self) -> String {
        format!("{PREFIX}{}", self.host)
    }

    /// What it may say: an issue-value (RFC 8659 §4.2).
    pub fn value(&self) -> String {
        let issuer = self.issuers.first().map_or("", String::as_str);
        let policy = if self.wildcard { "; policy=wildcard" } else { "" };
        format!("{issuer}; accounturi={}{policy}", self.account)
    }

    /// The record as it stands in a file of a zone.
    pub fn line(&self) -> String {
        format!("{}. IN TXT \"{}\"", self.name(), self.value())
    }

    /// Whether a text proves it. Parameters that are not known are left to the authority; one that occurs twice proves nothing.
    pub fn is_met_by(&self, text: &str, now: SystemTime) -> bool {
        let mut parts = text.split(';').map(str::trim);
        let issuer = parts.next().unwrap_or_default().trim_end_matches('.');
        let (mut account, mut policy, mut until) = (None, None, None);
        for part in parts.filter(|part| !part.is_empty()) {
            let Some((tag, value)) = part.split_once('=') else { return false };
            let place = match tag.trim().to_ascii_lowercase().as_str() {
                "accounturi" => &mut account,
                "policy" => &mut policy,
                "persistuntil" => &mut until,
                _ => continue,
            };
            if place.replace(value.trim()).is_some() {
                return false;
            }
        }
        let seconds = now.duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
        self.issuers.iter().any(|own| own.eq_ignore_ascii_case(issuer))
            && account == Some(self.account.as_str())
            && (!self.wildcard || policy.is_some_and(|policy: &str| policy.eq_ignore_ascii_case("wildcard")))
            && until.is_none_or(|until: &str| until.parse::<u64>().is_ok_and(|until| until > seconds))
    }

    /// Looks whether the record is there.
    ///
    /// # Errors
    /// It is not, with what to set; or nobody can say.
    pub async fn look(&self) -> Result<(), String> {
        let name = Name::from_ascii(format!("{}.", self.name())).map_err(|error| format!("{}: {error}", self.host))?;
        let found = records_to_end(&resolver()?, &name, RecordType::TXT).await?;
        let texts = found.iter().filter_map(|data| match data {
            RData::TXT(text) => Some(String::from_utf8_lossy(&text.txt_data.concat()).into_owned()),
            _ => None,
        });
        let now = SystemTime::now();
        let (mut count, mut is_met) = (0, false);
        for text in texts {
            count += 1;
            is_met |= self.is_met_by(&text, now);
        }
        match (is_met, count) {
            (true, _) => Ok(()),
            (false, 0) => Err(format!("there is no record {}; set `{}`", self.name(), self.line())),
            (false, _) => Err(format!("no record {} is for this account; set `{}`", self.name(), self.line())),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn a_text_is_for_one_authority_and_one_account() {
        let record = |wildcard: bool| StandingRecord {
            host: "www.example.com".to_owned(),
            issuers: vec!["ca.example".to_owned(), "other.example".to_owned()],
            account: "https://ca.example/acct/1".to_owned(),
            wildcard,
        };
        let now = UNIX_EPOCH + Duration::from_secs(1_000);
        for wildcard in [false, true] {
            assert!(record(wildcard).is_met_by(&record(wildcard).value(), now));
        }
        assert_eq!(
            record(true).line(),
            "_validation-persist.www.example.com. IN TXT \"ca.example; accounturi=https://ca.example/acct/1; policy=wildcard\""
        );
        let good = "ca.example; accounturi=https://ca.example/acct/1";
        for (text, plain, wildcard) in [
            (good.to_owned(), true, false),
            (format!("{good}; policy=Wildcard"), true, true),
            (format!("{good}; policy=host"), true, false),
            (format!("{good};policy=wildcard;persistUntil=1001"), true, true),
            (format!("{good}; persistUntil=1000"), false, false),
            (format!("{good}; persistUntil=soon"), false, false),
            (format!("{good}; persistUntil=-1"), false, false),
            (format!("{good}; later=1;"), true, false),
            (format!("{good}; accounturi=https://ca.example/acct/1"), false, false),
            (format!("{good}; policy"), false, false),
            (good.replace("ca.example;", "OTHER.example.;"), true, false),
            (good.replace("ca.example;", "evil.example;"), false, false),
            (good.replace("/1", "/2"), false, false),
            (good.replace("acct", "ACCT"), false, false),
            ("ca.example".to_owned(), false, false),
            (String::new(), false, false),
            (";".to_owned(), false, false),
        ] {
            assert_eq!(record(false).is_met_by(&text, now), plain, "{text}");
            assert_eq!(record(true).is_met_by(&text, now), wildcard, "{text}");
        }
        let nameless = StandingRecord { issuers: Vec::new(), ..record(false) };
        assert!(!nameless.is_met_by(&nameless.value(), now), "an authority without a name");
    }
}
