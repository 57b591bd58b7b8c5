//! Who may speak at all: the address allow-list and the token deny-list, on every request of what they are set on.
//!
//! Judged before the document is looked at, and whatever its modes say.

use wire::http::RequestHead;

use crate::client::RequestClient;
use crate::contracts::InForce;
use crate::generation::Generation;
use crate::message::refusal::Refusal;

/// Refuses a request that the lists of a contract do not let speak.
///
/// # Errors
/// 403, or the contract's one status.
pub fn judge(
    in_force: &InForce,
    head: &RequestHead,
    client: &RequestClient,
    generation: &Generation,
) -> Result<(), Refusal> {
    let refused = |code| Err(Refusal::client(in_force.config.block_status.unwrap_or(403), code));
    if let (Some(allowed), Some(config)) = (&in_force.allowed, &in_force.config.allow_addresses) {
        let client = match config.header.as_deref() {
            None => *client,
            named_by => {
                RequestClient::of(client.peer, &head.fields, named_by, |address| generation.trusts(Some(address)))
            }
        };
        if !client.certain().is_some_and(|client| allowed.contains(client)) {
            return refused("address_not_allowed");
        }
    }
    if in_force.denied.as_ref().is_some_and(|denied| denied.denies(head)) {
        return refused("token_denied");
    }
    Ok(())
}
