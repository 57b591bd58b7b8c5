//! Replays the fuzz corpora, and many small changes of them, through the invariants that the fuzz targets check.

use crate::invariants;
use crate::replay;

/// What tends to break parsers, to be put where it does not belong.
const SNIPPETS: [&[u8]; 40] = [
    b"\r\n",
    b"\n",
    b"\r",
    b"\0",
    b" ",
    b"\t",
    b":",
    b";",
    b",",
    b"_",
    b"%",
    b"/",
    b".",
    b"..",
    b"%2e",
    b"%2F",
    b"%25",
    b"%5c",
    b"%00",
    b"%c3%a9",
    b"\\",
    b"?",
    b"#",
    b"@",
    b"[::1]",
    b"0",
    b"0\r\n\r\n",
    b"\xff",
    b"\x7f",
    b"\x00\x00",
    b"\x00\x01",
    b"Host: a\r\n",
    b"Content-Length: 1\r\n",
    b"Transfer-Encoding: chunked\r\n",
    b"Connection: close, upgrade\r\n",
    b"Upgrade: websocket\r\n",
    b"Expect: 100-continue\r\n",
    b"HTTP/1.0",
    b"http://a",
    b"xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx",
];

#[test]
fn every_corpus_file_keeps_the_invariants() {
    replay::whole(&invariants::ALL);
}

#[test]
fn changed_corpus_files_keep_the_invariants() {
    replay::changed(&invariants::ALL, &SNIPPETS, 1_500, 600);
}
