//! An acme-dns server: one request with the account of the host, whose `_acme-challenge` is a CNAME record to it.

use config::AcmeDnsConfig;
use keystore::files;
use proxy::own_request::{Asked, send as ask};
use serde_json::{Value, json};
use transport::Transport;
use wire::http::Method;

use super::TxtRecord;
use crate::foreign::shown;

/// Largest file of accounts.
const MAX_ACCOUNTS_BYTES: u64 = 1024 * 1024;

/// What is quoted of a response.
const MAX_QUOTED_BYTES: usize = 300;

pub(super) async fn send(server: &AcmeDnsConfig, transport: &Transport, record: &TxtRecord) -> Result<(), String> {
    let path = server.accounts.clone();
    let read = tokio::task::spawn_blocking(move || {
        files::text(&path, MAX_ACCOUNTS_BYTES).map_err(|error| format!("{}: {error}", path.display()))
    });
    let text = read.await.unwrap_or_else(|error| Err(error.to_string()))?;
    let account =
        account(&text, &record.host).map_err(|problem| format!("{}: {problem}", server.accounts.display()))?;
    let body = json!({ "subdomain": account.subdomain, "txt": record.value }).to_string();
    let fields = format!(
        "User-Agent: portunus\r\nContent-Type: application/json\r\nX-Api-User: {}\r\nX-Api-Key: {}\r\n",
        account.user, account.key
    );
    let target = format!("{}/update", server.prefix);
    let asked =
        Asked { method: &Method::Post, host: &server.host, target: &target, fields: &fields, body: Some(&body) };
    let got = ask(transport, asked).await?;
    match got.status() {
        200 => Ok(()),
        status => {
            let said = got.start_of_body(MAX_QUOTED_BYTES).await.unwrap_or_default();
            Err(format!("the response was {status}: {}", shown(&String::from_utf8_lossy(&said))))
        }
    }
}

/// An account with the server.
#[derive(Debug, PartialEq, Eq)]
struct Account {
    user: String,
    key: String,
    subdomain: String,
}

/// The account of a host. What goes into the fields of a request must not end them.
fn account(text: &str, host: &str) -> Result<Account, String> {
    let accounts: Value = serde_json::from_str(text).map_err(|error| format!("not JSON: {error}"))?;
    let account = accounts.get(host).ok_or_else(|| format!("there is no account for {host}"))?;
    let member = |name: &str| {
        let value = account.get(name).and_then(Value::as_str).unwrap_or_default();
        let is_plain = !value.is_empty() && value.bytes().all(|byte| byte.is_ascii_graphic());
        if is_plain { Ok(value.to_owned()) } else { Err(format!("the account of {host} has no valid `{name}`")) }
    };
    Ok(Account { user: member("username")?, key: member("password")?, subdomain: member("subdomain")? })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn an_account_belongs_to_a_host() {
        let text = r#"{"www.example.com": {"username": "u", "password": "p", "fulldomain": "s.auth", "subdomain": "s", "allowfrom": []},
            "bad.example": {"username": "u\r\nX-Other: 1", "password": "p", "subdomain": "s"}, "part.example": {"username": "u"}}"#;
        let plain = Account { user: "u".to_owned(), key: "p".to_owned(), subdomain: "s".to_owned() };
        assert_eq!(account(text, "www.example.com").unwrap(), plain);
        for (text, host, problem) in [
            (text, "other.example.com", "no account"),
            (text, "bad.example", "no valid `username`"),
            (text, "part.example", "no valid `password`"),
            ("[]", "www.example.com", "no account"),
            ("", "www.example.com", "not JSON"),
        ] {
            let found = account(text, host).unwrap_err();
            assert!(found.contains(problem), "{found}");
        }
    }
}
