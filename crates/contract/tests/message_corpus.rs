//! Replays the fuzz corpora of documents and messages, and many small changes of them, through the invariants that the fuzz targets check.

use crate::messages;
use crate::replay;

/// What tends to break readers, to be put where it does not belong.
const SNIPPETS: [&[u8]; 62] = [
    b"\r\n",
    b"\n",
    b"\r",
    b"\0",
    b" ",
    b"\t",
    b":",
    b";",
    b",",
    b"|",
    b"%",
    b"%20",
    b"%2C",
    b"%5B",
    b"[",
    b"]",
    b"[]",
    b"[0]",
    b"[999999999]",
    b"=",
    b"&",
    b"+",
    b"\"",
    b"\\",
    b"{",
    b"}",
    b"--b",
    b"--b--",
    b"\r\n--b\r\n",
    b"null",
    b"true",
    b"-1e9",
    b"\xff",
    b"&a ",
    b"*a",
    b"$ref",
    b"<a>",
    b"</a>",
    b"<a/>",
    b"<!--",
    b"-->",
    b"<![CDATA[",
    b"]]>",
    b"<!DOCTYPE a>",
    b"<?xml version='1.0'?>",
    b"<?x?>",
    b"&amp;",
    b"&#65;",
    b"&x;",
    b" xmlns:p='urn:p'",
    b" xmlns='u'",
    b"p:",
    b" b='1'",
    b"\n---\n",
    b"\n- ",
    b"? ",
    b": ",
    b"!!str ",
    b"yes",
    b"012",
    b"\x1e",
    b"\xe2\x80\xa8",
];

#[test]
fn every_corpus_file_keeps_the_invariants() {
    replay::whole(&messages::ALL);
}

#[test]
fn changed_corpus_files_keep_the_invariants() {
    replay::changed(&messages::ALL, &SNIPPETS, 500, usize::MAX);
}
