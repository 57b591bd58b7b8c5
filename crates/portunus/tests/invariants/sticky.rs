//! The cookie of a sticky session, of any bytes: none panics, and none that somebody else made leads anywhere.

use std::sync::OnceLock;

use config::{SameSite, ServerAddress, ServerConfig, StickyConfig, UpstreamConfig};
use proxy::upstream::{Group, Session};

fn group() -> &'static (Group, Vec<u8>) {
    static GROUP: OnceLock<(Group, Vec<u8>)> = OnceLock::new();
    GROUP.get_or_init(|| {
        let address = "192.0.2.1:80";
        let sticky = StickyConfig { cookie: "sid".into(), lifetime: None, same_site: SameSite::Lax, key: None };
        let config = UpstreamConfig {
            servers: vec![ServerConfig::at(ServerAddress::Ip(address.parse().unwrap()))],
            sticky: Some(sticky),
            ..UpstreamConfig::new("app")
        };
        let group = Group::new(&config.into()).unwrap();
        let field = group.sticky.as_ref().unwrap().set_cookie(address, false).unwrap();
        let value = field.strip_prefix(b"sid=").unwrap().split(|byte| *byte == b';').next().unwrap().to_vec();
        (group, value)
    })
}

/// Anything but the one cookie that was given begins a new session. The first byte says what becomes of that one.
pub fn check(data: &[u8]) {
    let (group, own) = group();
    assert!(matches!(group.session(Some(own)), Session::At(_)));
    assert_eq!(group.session(Some(data)), Session::New);
    let Some((&way, rest)) = data.split_first() else { return };
    let at = rest.first().map_or(0, |byte| usize::from(*byte) % own.len());
    let mut changed = own.clone();
    match way % 3 {
        0 => changed.truncate(at),
        1 => changed.extend_from_slice(rest),
        _ => changed.splice(at..at, rest.iter().copied()).for_each(drop),
    }
    if changed != *own {
        assert_eq!(group.session(Some(&changed)), Session::New);
    }
}
