//! The vectors of RFC 9001 appendix A.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use super::*;

fn bytes(text: &str) -> Vec<u8> {
    let digits: Vec<u8> = text.bytes().filter(|byte| !byte.is_ascii_whitespace()).collect();
    digits.chunks(2).map(|pair| u8::from_str_radix(std::str::from_utf8(pair).unwrap(), 16).unwrap()).collect()
}

fn expanded<const N: usize>(secret: &Secret, label: &str) -> [u8; N] {
    let mut out = [0; N];
    secret.expand(label.as_bytes(), &mut out);
    out
}

const CLIENT_ID: &str = "8394c8f03e515708";

#[test]
fn initial_secrets_come_from_the_connection_id() {
    let (client, server) = initial_secrets(&bytes(CLIENT_ID));
    for (secret, value, key, iv, hp) in [
        (
            client,
            "c00cf151ca5be075ed0ebfb5c80323c42d6b7db67881289af4008f1f6c357aea",
            "1f369613dd76d5467730efcbe3b1a22d",
            "fa044b2f42a3fd3b46fb255c",
            "9f50449e04a0e810283a1e9933adedd2",
        ),
        (
            server,
            "3c199828fd139efd216c155ad844cc81fb82fa8d7446fa7d78be803acdda951b",
            "cf3a5331653c364c88f0f379b6067e37",
            "0ac1493ca1905853b0bba03e",
            "c206b8d9b9f0f37644430b490eeaa314",
        ),
    ] {
        assert_eq!(secret.bytes[..secret.len], bytes(value));
        assert_eq!(expanded::<16>(&secret, "quic key")[..], bytes(key));
        assert_eq!(expanded::<12>(&secret, "quic iv")[..], bytes(iv));
        assert_eq!(expanded::<16>(&secret, "quic hp")[..], bytes(hp));
    }
}

#[test]
fn the_header_of_the_client_initial_is_masked() {
    let (client, _) = initial_secrets(&bytes(CLIENT_ID));
    // The sample stands where the ciphertext of the vector has it.
    let mut packet = bytes("c300000001088394c8f03e5157080000449e00000002 d1b1c98dd7689fb8ec11d242b123dc9b");
    let clear = packet.clone();
    client.header_key().mask(&mut packet, 18, true);
    assert_eq!(packet[..22], bytes("c000000001088394c8f03e5157080000449e7b9aec34"));
    client.header_key().mask(&mut packet, 18, false);
    assert_eq!(packet, clear);
}

#[test]
fn the_server_initial_is_sealed_and_opened() {
    let (_, server) = initial_secrets(&bytes(CLIENT_ID));
    let header = bytes("c1000000010008f067a5502a4262b50040750001");
    let payload = bytes(
        "02000000000600405a020000560303eefce7f7b37ba1d1632e96677825ddf73988cfc79825df566dc5430b9a045a1200130100002e00330024001d0020
         9d3c940d89690b84d08a60993c144eca684d1081287c834d5311bcf32bb9da1a002b00020304",
    );
    let sealed = bytes(
        "cf000000010008f067a5502a4262b5004075c0d95a482cd0991cd25b0aac406a5816b6394100f37a1c69797554780bb38cc5a99f5ede4cf73c3ec2493a18
         39b3dbcba3f6ea46c5b7684df3548e7ddeb9c3bf9c73cc3f3bded74b562bfb19fb84022f8ef4cdd93795d77d06edbb7aaf2f58891850abbdca3d20398c27
         6456cbc42158407dd074ee",
    );
    let mut packet = [&header[..], &payload, &[0; TAG_BYTES]].concat();
    server.packet_key().seal(1, &mut packet, header.len());
    server.header_key().mask(&mut packet, header.len() - 2, true);
    assert_eq!(packet, sealed);

    server.header_key().mask(&mut packet, header.len() - 2, false);
    assert_eq!(packet[..header.len()], header);
    let key = server.packet_key();
    let (head, body) = packet.split_at_mut(header.len());
    for at in 0..body.len() {
        let mut changed = body.to_vec();
        changed[at] ^= 1;
        assert_eq!(key.open(1, head, &mut changed), None, "{at}");
    }
    assert_eq!(key.open(2, head, &mut body.to_vec()), None);
    assert_eq!(key.open(1, b"", &mut body.to_vec()), None);
    assert_eq!(key.open(1, head, &mut []), None);
    assert_eq!(key.open(1, head, body), Some(payload.len()));
    assert_eq!(body[..payload.len()], payload);
}

#[test]
fn the_tag_of_a_retry_names_the_first_connection_id() {
    let packet = bytes("ff000000010008f067a5502a4262b5746f6b656e");
    assert_eq!(retry_tag(&bytes(CLIENT_ID), &packet)[..], bytes("04a265ba2eff4d829058fb3f0f2496ba"));
    assert_ne!(retry_tag(b"", &packet)[..], bytes("04a265ba2eff4d829058fb3f0f2496ba"));
}

#[test]
fn chacha20_poly1305_protects_a_short_header() {
    let secret = bytes("9ac312a7f877468ebe69422748ad00a15443f18203a07d6060f688f30f21632b");
    let secret = Secret::new(Suite::ChaCha20Poly1305, &secret).unwrap();
    let mut packet = [&bytes("4200bff4")[..], &[1], &[0; TAG_BYTES]].concat();
    secret.packet_key().seal(654_360_564, &mut packet, 4);
    secret.header_key().mask(&mut packet, 1, true);
    assert_eq!(packet, bytes("4cfe4189655e5cd55c41f69080575d7999c25a5bfb"));
    let next = secret.next();
    assert_eq!(next.bytes[..next.len], bytes("1223504755036d556342ee9361d253421a826c9ecdf3c7148684b36b714881f9"));
}

#[test]
fn aes_256_seals_and_opens_under_each_next_secret() {
    let mut secret = Secret::new(Suite::Aes256Gcm, &[7; 48]).unwrap();
    for number in 0..3 {
        let mut packet = [&[0x43, 0, 0, 0, number][..], &[9; 40], &[0; TAG_BYTES]].concat();
        secret.packet_key().seal(number.into(), &mut packet, 5);
        let (head, body) = packet.split_at_mut(5);
        let other = secret.next();
        assert_eq!(other.packet_key().open(number.into(), head, &mut body.to_vec()), None);
        assert_eq!(secret.packet_key().open(number.into(), head, body), Some(40));
        assert_eq!(body[..40], [9; 40]);
        secret = other;
    }
}

#[test]
fn packets_that_are_too_short_stay_as_they_are() {
    let (client, _) = initial_secrets(b"");
    for length in 0..22 {
        let mut packet = vec![0xc3; length];
        client.header_key().mask(&mut packet, 3, false);
        client.packet_key().seal(0, &mut packet, 30);
        assert_eq!(packet, vec![0xc3; length]);
    }
}
