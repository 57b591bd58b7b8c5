//! Who may speak at all: the address allow-list and the token deny-list, on every request of what they are set on.
//!
//! Validated before the document is looked at, and whatever its modes say.

use reason::Reason;
use wire::http::RequestHead;

use crate::auth::DeniedTokens;
use crate::client::RequestClient;
use crate::contracts::ActiveContract;
use crate::generation::Generation;
use crate::message::rejection::Rejection;

/// Rejects a request that the lists of a contract do not let speak.
///
/// # Errors
/// 403, or the contract's one status.
pub fn validate(
    active: &ActiveContract,
    head: &RequestHead,
    client: &RequestClient,
    generation: &Generation,
) -> Result<(), Rejection> {
    let rejected =
        |reason: Reason| Err(Rejection::with_status(reason, active.config.block_status.unwrap_or(reason.status())));
    if let (Some(allowed), Some(config)) = (&active.allowed, &active.config.allow_addresses) {
        let client = match config.header.as_deref() {
            None => *client,
            named_by => {
                RequestClient::of(client.peer, &head.fields, named_by, |address| generation.trusts(Some(address)))
            }
        };
        if !client.certain().is_some_and(|client| allowed.contains(client)) {
            return rejected(Reason::AddressNotAllowed);
        }
    }
    let denials = generation.policies.denials();
    let is_denied = |denied: &DeniedTokens| {
        denied.denies(head)
            || (denials.is_used() && denied.denies_by(head, |fingerprint| denials.denies_fingerprint(fingerprint)))
    };
    if active.denied.as_ref().is_some_and(is_denied) {
        return rejected(Reason::TokenDenied);
    }
    Ok(())
}
