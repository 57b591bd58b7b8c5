//! One authority: our account with it, made when it is first needed, and what can be asked of it.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use base64::Engine as _;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use config::AuthorityConfig;
use instant_acme::{Account, CertificateIdentifier, Error, ExternalAccountKey, NewAccount, Problem};
use tokio::sync::Mutex;

use crate::client::Client;
use crate::foreign::shown;
use crate::schedule::Window;
use crate::storage::Storage;

/// How often a request is signed anew because its nonce was not accepted. One in twenty is not, at authorities that test their clients.
pub const MOST_NONCES: u32 = 20;

/// The error of an authority that does not know our account (RFC 8555 §6.7).
const UNKNOWN_ACCOUNT: &str = "urn:ietf:params:acme:error:accountDoesNotExist";

/// Does a request again for as long as its nonce is not accepted. The library tries three times by itself.
macro_rules! patiently {
    ($call:expr) => {{
        let mut tries = 0;
        loop {
            match $call.await {
                Err(error) if tries < $crate::authority::MOST_NONCES && $crate::authority::is_bad_nonce(&error) => {
                    tries += 1;
                }
                done => break done,
            }
        }
    }};
}
pub(crate) use patiently;

/// An authority that is asked.
pub struct Authority {
    /// As configured.
    pub config: Arc<AuthorityConfig>,
    client: Client,
    storage: Storage,
    contact: Vec<String>,
    account: Mutex<Option<Account>>,
}

impl Authority {
    /// Nothing is asked yet.
    pub fn new(config: Arc<AuthorityConfig>, client: Client, storage: Storage, contact: Vec<String>) -> Authority {
        Authority { config, client, storage, contact, account: Mutex::new(None) }
    }

    /// What it is called in records that stand for good: what is configured, else what its directory says.
    pub fn issuers(&self) -> Vec<String> {
        self.config.issuer.clone().map_or_else(|| self.client.issuers(), |issuer| vec![issuer])
    }

    /// Until when it wants to be left alone, if that is not over.
    pub fn pause(&self, now: SystemTime) -> Option<SystemTime> {
        self.client.pause().filter(|until| *until > now)
    }

    /// Our account.
    ///
    /// # Errors
    /// There is none, and it cannot be made.
    pub async fn account(&self) -> Result<Account, String> {
        let mut account = self.account.lock().await;
        if let Some(account) = &*account {
            return Ok(account.clone());
        }
        let made = match self.kept().await? {
            Some(kept) => kept,
            None => self.make().await?,
        };
        *account = Some(made.clone());
        Ok(made)
    }

    /// The authority does not know our account, or its directory may have changed: both are asked for anew.
    pub async fn forget(&self, error: &Error) {
        *self.account.lock().await = None;
        if is_unknown_account(error) {
            let (storage, url) = (self.storage.clone(), self.config.url.clone());
            tracing::warn!(authority = self.config.host, "the authority does not know our account; a new one is made");
            let _ = tokio::task::spawn_blocking(move || storage.forget_account(&url)).await;
        }
    }

    /// When a certificate should be renewed (RFC 9773), and how long that holds; none if the authority does not say such things.
    ///
    /// # Errors
    /// It cannot be asked, or what it says is malformed.
    pub async fn renewal_window(
        &self,
        certificate: &CertificateIdentifier<'_>,
    ) -> Result<Option<(Window, Duration)>, String> {
        let account = self.account().await?;
        let (info, holds_for) = match account.renewal_info(certificate).await {
            Ok(told) => told,
            Err(Error::Unsupported(_)) => return Ok(None),
            Err(error) => return Err(explain(&error)),
        };
        let (start, end) = (SystemTime::from(info.suggested_window.start), SystemTime::from(info.suggested_window.end));
        if start >= end {
            return Err("the window ends before it begins".to_owned());
        }
        Ok(Some((Window { start, end, explanation: info.explanation_url.as_deref().map(shown) }, holds_for)))
    }

    async fn kept(&self) -> Result<Option<Account>, String> {
        let (storage, url) = (self.storage.clone(), self.config.url.clone());
        let kept = tokio::task::spawn_blocking(move || storage.account(&url)).await.unwrap_or_default();
        let Some((credentials, contact)) = kept else { return Ok(None) };
        let account = self.builder().from_credentials(credentials).await.map_err(|error| explain(&error))?;
        if contact != self.contact {
            let contact: Vec<&str> = self.contact.iter().map(String::as_str).collect();
            match patiently!(account.update_contacts(&contact)) {
                Ok(()) => self.keep_contact().await?,
                Err(error) if is_unknown_account(&error) => {
                    let (storage, url) = (self.storage.clone(), self.config.url.clone());
                    let _ = tokio::task::spawn_blocking(move || storage.forget_account(&url)).await;
                    return Ok(None);
                }
                Err(error) => return Err(format!("the contact was not accepted: {}", explain(&error))),
            }
        }
        Ok(Some(account))
    }

    async fn keep_contact(&self) -> Result<(), String> {
        let (storage, url, contact) = (self.storage.clone(), self.config.url.clone(), self.contact.clone());
        let issuers = self.client.issuers();
        let kept = tokio::task::spawn_blocking(move || match storage.account(&url) {
            Some((credentials, _)) => storage.keep_account(&url, &credentials, &contact, &issuers),
            None => Ok(()),
        });
        kept.await.unwrap_or_else(|error| Err(error.to_string()))
    }

    async fn make(&self) -> Result<Account, String> {
        let contact: Vec<&str> = self.contact.iter().map(String::as_str).collect();
        let new = NewAccount { contact: &contact, terms_of_service_agreed: true, only_return_existing: false };
        let external = self.external_account()?;
        let url = &self.config.url;
        let made = patiently!(self.builder().create(&new, url.clone(), external.as_ref()));
        let (account, credentials) = made.map_err(|error| format!("no account: {}", explain(&error)))?;
        tracing::info!(authority = self.config.host, account = shown(account.id()), "account made");
        let (storage, url, contact) = (self.storage.clone(), url.clone(), self.contact.clone());
        let issuers = self.client.issuers();
        let kept = tokio::task::spawn_blocking(move || storage.keep_account(&url, &credentials, &contact, &issuers));
        kept.await.unwrap_or_else(|error| Err(error.to_string()))?;
        Ok(account)
    }

    fn builder(&self) -> instant_acme::AccountBuilder {
        Account::builder_with_http(Box::new(self.client.clone()))
    }

    fn external_account(&self) -> Result<Option<ExternalAccountKey>, String> {
        let Some(external) = &self.config.external_account else { return Ok(None) };
        let key = external.hmac_key.read()?;
        let key = BASE64_URL_SAFE_NO_PAD.decode(key.trim_end_matches('='));
        let key = key.map_err(|_| "`external_account`: the key is not base64url".to_owned())?;
        Ok(Some(ExternalAccountKey::new(external.key_id.clone(), &key)))
    }
}

/// Whether a request was rejected for its nonce alone, so that it was not looked at.
pub fn is_bad_nonce(error: &Error) -> bool {
    matches!(error, Error::Api(problem) if problem.r#type.as_deref() == Some("urn:ietf:params:acme:error:badNonce"))
}

fn is_unknown_account(error: &Error) -> bool {
    matches!(error, Error::Api(problem) if problem.r#type.as_deref() == Some(UNKNOWN_ACCOUNT))
}

/// An error in words for the log. What the authority wrote is cut to size.
pub fn explain(error: &Error) -> String {
    match error {
        Error::Api(problem) => explain_problem(problem),
        Error::Timeout(_) => "the authority did not come to an end in time".to_owned(),
        Error::Json(error) => shown(&format!("the response is not what it should be: {error}")),
        other => shown(&other.to_string()),
    }
}

/// What an authority says is wrong.
pub fn explain_problem(problem: &Problem) -> String {
    let kind = problem.r#type.as_deref().unwrap_or("an error without a type");
    let kind = kind.strip_prefix("urn:ietf:params:acme:error:").unwrap_or(kind);
    let detail = problem.detail.as_deref().unwrap_or_default();
    let further = problem.subproblems.iter().filter_map(|sub| sub.detail.as_deref());
    let details: Vec<&str> =
        std::iter::once(detail).chain(further).filter(|detail| !detail.is_empty()).take(5).collect();
    shown(&format!("{kind}: {}", details.join("; ")))
}
