//! The table of criteria, read beside HAProxy's manual.
#![allow(clippy::unwrap_used)]
use std::collections::BTreeMap;
use std::path::Path;

use super::*;
use crate::files::Files;
use crate::migration::Report;

fn test_of(text: &str) -> Result<Test, String> {
    let mut files = Files::given(BTreeMap::from([(Path::new("empty").into(), "\n# none\n".to_owned())]));
    let report = Report::default();
    let mut reader = Reader { files: &mut files, root: Path::new(""), report: &report, comments: Vec::new() };
    let words: Vec<String> = text.split(' ').map(str::to_owned).collect();
    Criterion::read(&words, &mut reader)?.test()
}

/// Criteria that decide in HAProxy in a way that is not carried.
const INEXACT: &[&str] = &[
    // Occurrences, delimiters, converters.
    "hdr(x,1) a",
    "hdr(x,-1) a",
    "req.hdr(x),field(1,:) admin",
    "req.hdr(x),word(1,:) admin",
    "req.hdr(x),host_only admin",
    "req.hdr(x),url_dec admin",
    "req.hdr(x),upper ADMIN",
    "req.hdr(x),lower ADMIN",
    "hdr(host),lower A.test",
    "hdr(host),regsub(a,b) a.test",
    "cook(a),url_dec 1",
    "path,field(1,.) /a",
    "path,lower /A",
    "path,url_dec /a:b",
    "path,url_dec -m reg ^/a",
    "src,ipmask(24) 10.0.0.0",
    // Types of `-m`, and numbers that are compared.
    "req.hdr(x) -m int gt 5",
    "req.hdr(x) -m ip 10.0.0.0/8",
    "req.hdr(x) -m bool 1",
    "req.hdr(x) -m len 5",
    "req.hdr(x) -m bin 6162",
    "cook(a) -m int 5",
    "path -m len gt 5",
    "src -m str 10.0.0.1",
    "hdr_cnt(x) 2",
    "hdr_cnt(x) gt 1",
    "hdr_cnt(x) -m str 0",
    "hdr_len(x) 5",
    "hdr_ip(x) 10.0.0.0/8",
    "hdr_val(x) gt 5",
    "hdr_val(content-length) lt 5",
    "dst_port gt 80",
    "dst_port 80:90",
    "req.body_size lt 5",
    // Parts of values.
    "hdr_dom(x) a",
    "hdr_dir(x) a",
    "hdr(x) a,b",
    "hdr_beg(x) \"a",
    "hdr_reg(x) ^a",
    "hdr_reg(x) a.b",
    // What is escaped in a path, or stands behind it.
    "path_sub %2e",
    "path_beg /a<b",
    "path /a?b",
    "url /a",
    "url_sub a",
    "url_end .php",
    "url_reg /a",
    "pathq /a",
    "capture.req.uri -m sub a",
    "url_beg /x?debug",
    "url_beg /a",
    "path -m found",
    "hdr(connection) close",
    "hdr(x) \"\"",
    "urlp(a) 1",
    "urlp(a,;) 1",
    "url_param(a) -m found",
    "query -m found",
    "base_beg a.test/",
    // Fields that end before routes are chosen.
    "hdr(x-forwarded-for) 10.0.0.1",
    "hdr_cnt(x-real-ip) 0",
    "req.fhdr(Forwarded) -m found",
    "hdr(cf-connecting-ip) 10.0.0.1",
    "hdr(x-original-url) /a",
    "hdr(client-cert) -m found",
    // Hosts and names.
    "hdr(host),field(1,:) a.test:8080",
    "hdr_end(host) .a.test b.test",
    "req.ssl_sni",
    "req.ssl_sni -m found",
    "ssl_fc_sni -m end a.test",
    "ssl_fc_sni -m sub a",
    // Methods are compared with their case.
    "method get",
    "method -i get",
    "method -m beg P",
    "method GET CONNECT",
    // Constants that are none.
    "req.ssl_hello_type 1",
    "req_ssl_hello_type 1",
    "req.len gt 0",
    "wait_end",
    "HTTP_1.1",
    "ssl_fc 0",
    "ssl_c_used 2",
    "ssl_c_verify 1",
    "always_true 0",
    "http_auth(users) a",
    "http_auth_group(users)",
    // No counters, and counters that are not carried.
    "src_port 1000",
    "src_is_local",
    "sc_get_gpc0(0) gt 0",
    "sc0_http_err_rate gt 1",
    "sc_http_req_rate(0) lt 3",
    "sc_http_req_rate(0) 3",
    "src_conn_rate(table) -m str gt 3",
    "fe_conn gt 100",
    "be_sess_rate gt 100",
    "queue gt 1",
    // Flags, and no values.
    "hdr(x) -M -f empty",
    "hdr(x) -u 5 a",
    "hdr(x)",
    "path",
    "src",
    "cook(a)",
    "unknown(x) a",
    "hdr(x a",
];

/// None of them is taken for something near to it.
#[test]
fn what_is_not_exact_is_unknown() {
    for text in INEXACT {
        assert!(test_of(text).is_err(), "{text}: {:?}", test_of(text));
    }
}

#[test]
fn what_is_carried() {
    let like = |of: Of, name: &str, any: Vec<Match>| Test::Like(vec![When::value_of(of, name, any)]);
    let exact = |text: &str| Match::Exact(text.to_owned());
    let regex = |text: &str| Match::Regex(text.to_owned());
    let hosts = |names: &str| Test::Hosts(names.split(' ').map(str::to_owned).collect());
    for (text, expected) in [
        ("req.fhdr(X) a,b", like(Of::Header, "x", vec![exact("a,b")])),
        ("hdr(x) -m found", like(Of::Header, "x", vec![Match::Present])),
        ("hdr_sub(user-agent) -i bot", like(Of::Header, "user-agent", vec![regex("(?i).*bot.*")])),
        ("hdr_reg(user-agent) -i bot|spider", like(Of::Header, "user-agent", vec![regex("(?i).*bot.*|.*spider.*")])),
        ("cook(a) 1", like(Of::Cookie, "a", vec![exact("1")])),
        ("hdr_cnt(x) 0", like(Of::Header, "x", vec![Match::Absent])),
        ("hdr_cnt(x) -m int ge 1", like(Of::Header, "x", vec![Match::Present])),
        ("hdr(host) -i A.test", hosts("a.test")),
        ("hdr(host),lower,field(1,:) a.test", hosts("a.test")),
        ("hdr_end(host) .a.test", hosts("*.a.test")),
        ("hdr_end(host) a.test", like(Of::Header, "host", vec![regex(r"(?i).*a\.test")])),
        ("hdr_dom(host) a.test", like(Of::Header, "host", vec![regex(r"(?i)(?:.*[/?.:])?a\.test(?:[/?.:].*)?")])),
        ("path_beg /a", Test::Paths(vec![Language::Prefix("/a".to_owned())])),
        ("path,url_dec -m beg /a", Test::Paths(vec![Language::Prefix("/a".to_owned())])),
        ("pathq -m beg /a", Test::Paths(vec![Language::Prefix("/a".to_owned())])),
        ("path -f empty", Test::Constant(false)),
        ("hdr(x) -f empty", Test::Constant(false)),
        ("method TRACE", Test::Constant(false)),
        ("src 10.0.0.0/8", Test::Like(vec![When::of_clients(vec![network("10.0.0.0/8").unwrap()])])),
        ("src ::/0", Test::Like(vec![When::of_clients(vec![network("::/0").unwrap(), network("0.0.0.0/0").unwrap()])])),
        ("ssl_fc", Test::Tls),
        ("ssl_fc -m bool true", Test::Tls),
        ("ssl_c_verify 0", Test::Constant(true)),
        ("req.proto_http", Test::Requests),
        ("dst_port eq 443", Test::Ports(vec![443])),
    ] {
        assert_eq!(test_of(text).unwrap(), expected, "{text}");
    }
}

/// Items between commas, by HAProxy's own reading of quotes.
#[test]
fn items_of_fields() {
    let holds = |test: &str, field: &str| {
        let Test::Like(whens) = test_of(test).unwrap() else { panic!("{test}") };
        let [when] = whens.as_slice() else { panic!("{test}") };
        when.values[0].any.iter().any(|wanted| match wanted {
            Match::Regex(text) => config::Expression::new(text).unwrap().matches(field.as_bytes()),
            other => panic!("{other:?}"),
        })
    };
    for (test, field, expected) in [
        ("hdr(x) a", "a", true),
        ("hdr(x) a", "b, a", true),
        ("hdr(x) a", "b ,\ta ,c", true),
        ("hdr(x) a", "ab", false),
        ("hdr(x) a", "b a", false),
        ("hdr(x) a", "\"b,a\"", false),
        ("hdr(x) a", "\"b\\\",\",a", true),
        ("hdr(x) a", "\"b,a", false),
        ("hdr(x) a", "A", false),
        ("hdr(x) -i a", "b,A", true),
        ("hdr_beg(x) a", "b,ax", true),
        ("hdr_beg(x) a", "ba", false),
        ("hdr_beg(x) a", "\"b,a\"", false),
        ("hdr_end(x) a", "xa ,b", true),
        ("hdr_end(x) a", "xab", false),
        ("hdr_end(x) a", "\"xa\"", false),
        ("hdr_end(x) a", "\"x,a", true),
        ("hdr_end(x) a", "\"a,\"b", false),
        ("hdr_sub(x) a", "b,xax,c", true),
    ] {
        assert_eq!(holds(test, field), expected, "{test} {field}");
    }
}
