//! Replays the fuzz corpora of the program's own parsers and matchers, and many small changes of them, through their invariants.

use crate::{invariants, replay};

/// Pieces to put where they do not belong.
const SNIPPETS: [&[u8]; 28] = [
    b"\n",
    b"\"",
    b"\\",
    b"{",
    b"}",
    b"[",
    b"]",
    b",",
    b":",
    b"*",
    b"/",
    b"//",
    b"/..",
    b".",
    b"%2F",
    b"%2e",
    b"?",
    b"#",
    b"@",
    b" ",
    b"{x}",
    b"{*y}",
    b"-1",
    b"1e9",
    b"\\u00e9",
    b"\xff",
    b"~",
    b">GET a /",
];

/// Pieces of other programs' configurations.
const DIRECTIVES: [&[u8]; 34] = [
    b";",
    b"{",
    b"}",
    b" ",
    b"\n",
    b"\"",
    b"$uri",
    b"$1",
    b"~ ",
    b"^~ ",
    b"= ",
    b"/",
    b".*",
    b"(",
    b"?",
    b"allow all;",
    b"deny 10.0.0.0/8;",
    b"location /a {",
    b"return 301 /x$request_uri;",
    b"rewrite ^/(.*)$ /$1 break;",
    b"proxy_pass http://a/b;",
    b"server_name *.a.test;",
    b"listen 443 ssl;",
    b"\xff",
    b"if",
    b"!",
    b"||",
    b"%[src]",
    b"frontend x\n",
    b"backend x\n",
    b"\nuse_backend x if { path_beg /a }\n",
    b"\nhttp-request deny unless { src 10.0.0.0/8 }\n",
    b"{ path_reg ^/a(b|c) }",
    b"hdr(host) -i a.test",
];

#[test]
fn every_corpus_file_keeps_the_invariants() {
    replay::whole(&invariants::ALL);
    replay::whole(&invariants::IMPORTS);
}

#[test]
fn changed_configurations_of_others_keep_the_invariants() {
    replay::changed(&invariants::IMPORTS, &DIRECTIVES, 400, 2_000);
}

#[test]
fn changed_corpus_files_keep_the_invariants() {
    replay::changed(&invariants::ALL, &SNIPPETS, 1_500, usize::MAX);
}
