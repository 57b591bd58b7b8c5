//! ClientHello: what was read can be written and read again, and nothing may be missing or left over.

use wire::client_hello::ClientHello;

/// Any bytes as the body of a ClientHello.
pub fn client_hello(data: &[u8]) {
    let Ok(hello) = ClientHello::parse(data) else { return };
    assert!(!hello.cipher_suites.is_empty() && hello.alpn.iter().all(|name| !name.is_empty()));
    assert!(hello.server_name.is_none_or(|name| (1..=255).contains(&name.len())));
    let written = write(&hello);
    assert_eq!(ClientHello::parse(&written).as_ref(), Ok(&hello));
    assert!(ClientHello::parse(&[data, &[0]].concat()).is_err());
    // Of the prefixes only one can be a whole message: the one that ends where extensions may be left out.
    assert!(super::cuts(data.len()).filter(|&len| ClientHello::parse(&data[..len]).is_ok()).count() <= 1);
}

fn write(hello: &ClientHello<'_>) -> Vec<u8> {
    let mut extensions = Vec::new();
    let mut extension = |kind: u16, content: Vec<u8>| {
        extensions.extend_from_slice(&kind.to_be_bytes());
        extensions.extend_from_slice(&vector16(&content));
    };
    match hello.server_name {
        Some(name) => extension(0, vector16(&[vec![0], vector16(name)].concat())),
        // A name of another type.
        None if hello.extensions.contains(&0) => extension(0, vector16(&[7, 0, 0])),
        None => {}
    }
    if !hello.groups.is_empty() {
        extension(10, vector16(&numbers(&hello.groups)));
    }
    if !hello.signature_schemes.is_empty() {
        extension(13, vector16(&numbers(&hello.signature_schemes)));
    }
    if !hello.alpn.is_empty() {
        let names: Vec<u8> = hello.alpn.iter().flat_map(|name| vector8(name)).collect();
        extension(16, vector16(&names));
    }
    if !hello.versions.is_empty() {
        extension(43, vector8(&numbers(&hello.versions)));
    }
    if hello.extensions.contains(&51) {
        let share = hello.hybrid_share.map(|share| [vec![0x11, 0xec], vector16(share)].concat());
        extension(51, vector16(&share.unwrap_or_default()));
    }
    for kind in hello.extensions.iter().filter(|kind| ![0, 10, 13, 16, 43, 51].contains(*kind)) {
        extension(*kind, Vec::new());
    }
    [
        &hello.legacy_version.to_be_bytes()[..],
        &[0; 32],
        &vector8(&[]),
        &vector16(&numbers(&hello.cipher_suites)),
        &vector8(&[0]),
        &vector16(&extensions),
    ]
    .concat()
}

fn numbers(list: &[u16]) -> Vec<u8> {
    list.iter().flat_map(|number| number.to_be_bytes()).collect()
}

fn vector8(content: &[u8]) -> Vec<u8> {
    [&[u8::try_from(content.len()).unwrap()], content].concat()
}

fn vector16(content: &[u8]) -> Vec<u8> {
    [&u16::try_from(content.len()).unwrap().to_be_bytes()[..], content].concat()
}
