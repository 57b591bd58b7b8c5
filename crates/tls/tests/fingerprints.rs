//! JA4 fingerprints over SHA-256: the published one, and those that another implementation computes of what real clients sent.

use std::path::Path;

use tls::crypto::digest::sha256;
use wire::client_hello::ClientHello;
use wire::ja4::{Ja4, Over};

#[test]
fn a_browser_has_the_fingerprint_that_is_published_for_it() {
    let hello = ClientHello {
        legacy_version: 0x0303,
        cipher_suites: vec![
            0x5a5a, 0x1301, 0x1302, 0x1303, 0xc02b, 0xc02f, 0xc02c, 0xc030, 0xcca9, 0xcca8, 0xc013, 0xc014, 0x009c,
            0x009d, 0x002f, 0x0035,
        ],
        alpn: vec![b"h2", b"http/1.1"],
        signature_schemes: vec![0x0403, 0x0804, 0x0401, 0x0503, 0x0805, 0x0501, 0x0806, 0x0601],
        versions: vec![0xcaca, 0x0304, 0x0303],
        extensions: vec![
            0x0000, 0x0005, 0x000a, 0x000b, 0x000d, 0x0010, 0x0012, 0x0015, 0x0017, 0x001b, 0x0023, 0x002b, 0x002d,
            0x0033, 0x2a2a, 0x4469, 0xdada, 0xff01,
        ],
        ..ClientHello::default()
    };
    assert_eq!(Ja4::of(&hello, Over::Tcp, sha256).as_str(), "t13d1516h2_8daaf6152771_e5627efa2ab1");
}

/// What `huginn-net-tls` 2.2.1 says of the same bytes.
#[test]
fn real_clients_have_the_fingerprints_that_others_compute() {
    for (client, expected) in [
        ("curl", "t13d3112h2_e8f1e7e78f70_b26ce05bbdd6"),
        ("curl_http1", "t13d3112h1_e8f1e7e78f70_b26ce05bbdd6"),
        ("openssl_s_client", "t13d311000_e8f1e7e78f70_1f22a2ca17c4"),
        ("openssl_s_client_tls12", "t12i280600_d943125447b4_e7e480e5a997"),
        ("python", "t13d181100_85036bcba153_d41ae481755e"),
        ("go", "t13d1312h2_f57a46bbacb6_ab7e3b40a677"),
        // It sends its extensions in another order each time.
        ("chromium", "t13d1517h2_8daaf6152771_cb7bf5808d99"),
        ("chromium_again", "t13d1517h2_8daaf6152771_cb7bf5808d99"),
    ] {
        let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus/ja4").join(client);
        let body = std::fs::read(file).unwrap();
        let hello = ClientHello::parse(&body).unwrap();
        assert_eq!(Ja4::of(&hello, Over::Tcp, sha256).as_str(), expected, "{client}");
    }
}
