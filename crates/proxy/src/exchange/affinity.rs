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
        HashKey::Header(name) => head.fields.get(name).map(maglev::hash),
        HashKey::Cookie(name) => cookie(head, name.as_bytes()).map(maglev::hash),
        HashKey::Path(name) => {
            let index = admitted.route().config.path.parameters().position(|parameter| parameter == name)?;
            admitted.params().value(head.path(), index).map(maglev::hash)
        }
    }
}

/// The sticky session that a request belongs to.
pub(super) fn session(group: &Group, head: &RequestHead) -> Session {
    group.session(group.sticky.as_ref().and_then(|sticky| cookie(head, sticky.cookie().as_bytes())))
}

/// The value of the first cookie by this name (RFC 6265 §4.2).
pub(super) fn cookie<'h>(head: &'h RequestHead, name: &[u8]) -> Option<&'h [u8]> {
    let pairs = head.fields.get_all("cookie").flat_map(|field| field.split(|byte| *byte == b';'));
    pairs.map(<[u8]>::trim_ascii).find_map(|pair| pair.strip_prefix(name)?.strip_prefix(b"="))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
    use super::*;

    #[test]
    fn the_first_cookie_of_a_name_counts() {
        for (fields, expected) in [
            (&["sid=a; sid=b"][..], Some("a")),
            (&["x=1;sid=\"q\"", "sid=b"], Some("\"q\"")),
            (&["xsid=1; sid2=2; sid"], None),
            (&["a=sid=1", "  sid=2 "], Some("2")),
            (&["sid="], Some("")),
            (&[], None),
        ] {
            let mut head = RequestHead::default();
            fields.iter().for_each(|field| head.fields.push(b"cookie", field.as_bytes()));
            assert_eq!(cookie(&head, b"sid"), expected.map(str::as_bytes), "{fields:?}");
        }
    }
}
