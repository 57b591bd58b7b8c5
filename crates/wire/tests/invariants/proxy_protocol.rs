//! PROXY headers: no cut changes a decision, `ppp` agrees on what is accepted, and what was read can be written and read again.

use std::net::{IpAddr, SocketAddr};

use wire::proxy_protocol::{Extras, Found, Header, MAX_HEADER_BYTES, Origin, Transport, Version, kind, read};
use wire::proxy_protocol::{write_v1, write_v2};

/// Any bytes as the beginning of a stream.
pub fn proxy_protocol(data: &[u8]) {
    let found = read(data, MAX_HEADER_BYTES);
    for len in super::cuts(data.len()) {
        match (read(&data[..len], MAX_HEADER_BYTES), found) {
            (Ok(Found::Partial), _) => {}
            (part, whole) => assert_eq!(part, whole, "cut to {len} bytes"),
        }
    }
    let Ok(Found::Whole(header)) = found else { return };
    assert!((15..=MAX_HEADER_BYTES).contains(&header.len) && header.len <= data.len());
    assert_eq!(read(&data[..header.len], MAX_HEADER_BYTES), found, "what follows a header does not matter");
    agrees_with_ppp(&data[..header.len], &header);
    survives_writing(&header);
}

/// What we accept, `ppp` must accept and read alike; we reject more.
fn agrees_with_ppp(bytes: &[u8], header: &Header<'_>) {
    match header.version {
        // `ppp` splits what follows UNKNOWN into words and stumbles over some; it is to be ignored.
        Version::V1 if header.origin == Origin::Unspecified => {}
        Version::V1 => {
            let theirs = ppp::v1::Header::try_from(bytes).expect("ppp accepts it");
            assert_eq!(inet(header), v1_pair(theirs.addresses));
        }
        // Of LOCAL headers we read nothing, as the standard says, so the rest need not make sense.
        Version::V2 if header.origin == Origin::Local => {}
        Version::V2 => {
            let theirs = ppp::v2::Header::try_from(bytes).expect("ppp accepts it");
            assert_eq!(inet(header), v2_pair(theirs.addresses));
            if header.origin != Origin::Unspecified {
                let theirs: Vec<_> = theirs
                    .tlvs()
                    .map(|tlv| {
                        let tlv = tlv.expect("ppp reads it");
                        (tlv.kind, tlv.value.to_vec())
                    })
                    .collect();
                let ours: Vec<_> = header.tlvs.iter().map(|tlv| (tlv.kind, tlv.value.to_vec())).collect();
                assert_eq!(ours, theirs);
            }
        }
    }
}

type Pair = (SocketAddr, SocketAddr);

fn v1_pair(addresses: ppp::v1::Addresses) -> Option<Pair> {
    use ppp::v1::Addresses::{Tcp4, Tcp6, Unknown};
    match addresses {
        Tcp4(v4) => Some(pair((v4.source_address, v4.source_port), (v4.destination_address, v4.destination_port))),
        Tcp6(v6) => Some(pair((v6.source_address, v6.source_port), (v6.destination_address, v6.destination_port))),
        Unknown => None,
    }
}

fn v2_pair(addresses: ppp::v2::Addresses) -> Option<Pair> {
    use ppp::v2::Addresses::{IPv4, IPv6, Unix, Unspecified};
    match addresses {
        IPv4(v4) => Some(pair((v4.source_address, v4.source_port), (v4.destination_address, v4.destination_port))),
        IPv6(v6) => Some(pair((v6.source_address, v6.source_port), (v6.destination_address, v6.destination_port))),
        Unix(_) | Unspecified => None,
    }
}

fn pair(source: (impl Into<IpAddr>, u16), destination: (impl Into<IpAddr>, u16)) -> Pair {
    (SocketAddr::new(source.0.into(), source.1), SocketAddr::new(destination.0.into(), destination.1))
}

fn inet(header: &Header<'_>) -> Option<Pair> {
    match header.origin {
        Origin::Inet { source, destination, .. } => Some((source, destination)),
        _ => None,
    }
}

fn survives_writing(header: &Header<'_>) {
    let mut out = Vec::new();
    write_v2(&mut out, &header.origin, &Extras { received: header.tlvs, crc32c: true, ..Extras::default() });
    let Ok(Found::Whole(again)) = read(&out, usize::MAX) else { panic!("written, but not readable: {out:02x?}") };
    assert_eq!(again.len, out.len());
    assert_eq!(undressed(again.origin), undressed(header.origin));
    let kept = |header: &Header<'_>| -> Vec<_> {
        let tlvs = header.tlvs.iter().filter(|tlv| !matches!(tlv.kind, kind::CRC32C | kind::NOOP));
        tlvs.map(|tlv| (tlv.kind, tlv.value.to_vec())).collect()
    };
    assert_eq!(kept(&again), kept(header));

    out.clear();
    write_v1(&mut out, &header.origin);
    let Ok(Found::Whole(line)) = read(&out, MAX_HEADER_BYTES) else { panic!("written, but not readable: {out:?}") };
    match header.origin {
        Origin::Inet { transport: Transport::Stream, .. } => {
            assert_eq!(undressed(line.origin), undressed(header.origin))
        }
        _ => assert_eq!(line.origin, Origin::Unspecified),
    }
}

/// A mapped IPv4 address and the address itself mean the same.
fn undressed(origin: Origin<'_>) -> Origin<'_> {
    let canonical = |address: SocketAddr| SocketAddr::new(address.ip().to_canonical(), address.port());
    match origin {
        Origin::Inet { transport, source, destination } => {
            Origin::Inet { transport, source: canonical(source), destination: canonical(destination) }
        }
        other => other,
    }
}
