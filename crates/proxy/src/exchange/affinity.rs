//! What of a request decides on its server, where a group balances by a hash or has sticky sessions.

use config::{Balance, HashKey};
use wire::http::RequestHead;

use crate::client::RequestClient;
use crate::guard::Admitted;
use crate::upstream::{Group, Session, maglev};

/// The hash of a request's value; none where the group has no hash, or the request no such value.
pub(super) fn hash_of(group: &Group, client: &RequestClient, admitted: &Admitted<'_>) -> Option<u64> {
    let Balance::Hash { key, .. } = &group.config.balance else { return None };
    let head = admitted.head();
    match key {
        HashKey::Client => group.hash_of_client(client.address),
        HashKey::WholePath => Some(maglev::hash(head.path())),
        HashKey::Target => Some(maglev::hash(&head.target)),
        HashKey::Header(name) => head.values(name).next().map(maglev::hash),
        HashKey::Cookie(name) => head.fields.cookie(name.as_bytes()).map(maglev::hash),
        HashKey::Path(name) => {
            let index = admitted.route().config.path.parameters().position(|parameter| parameter == name)?;
            admitted.params().value(head.path(), index).map(maglev::hash)
        }
    }
}

/// The sticky session that a request belongs to.
pub(super) fn session(group: &Group, head: &RequestHead) -> Session {
    group.session(group.sticky.as_ref().and_then(|sticky| head.fields.cookie(sticky.cookie().as_bytes())))
}
