//! The static table (RFC 9204 Appendix A), and finding a field in it.

/// Names and values by their index.
#[rustfmt::skip]
pub(super) static STATIC: [(&str, &str); 99] = TABLE;

#[rustfmt::skip]
const TABLE: [(&str, &str); 99] = [
    (":authority", ""),
    (":path", "/"),
    ("age", "0"),
    ("content-disposition", ""),
    ("content-length", "0"),
    ("cookie", ""),
    ("date", ""),
    ("etag", ""),
    ("if-modified-since", ""),
    ("if-none-match", ""),
    ("last-modified", ""),
    ("link", ""),
    ("location", ""),
    ("referer", ""),
    ("set-cookie", ""),
    (":method", "CONNECT"),
    (":method", "DELETE"),
    (":method", "GET"),
    (":method", "HEAD"),
    (":method", "OPTIONS"),
    (":method", "POST"),
    (":method", "PUT"),
    (":scheme", "http"),
    (":scheme", "https"),
    (":status", "103"),
    (":status", "200"),
    (":status", "304"),
    (":status", "404"),
    (":status", "503"),
    ("accept", "*/*"),
    ("accept", "application/dns-message"),
    ("accept-encoding", "gzip, deflate, br"),
    ("accept-ranges", "bytes"),
    ("access-control-allow-headers", "cache-control"),
    ("access-control-allow-headers", "content-type"),
    ("access-control-allow-origin", "*"),
    ("cache-control", "max-age=0"),
    ("cache-control", "max-age=2592000"),
    ("cache-control", "max-age=604800"),
    ("cache-control", "no-cache"),
    ("cache-control", "no-store"),
    ("cache-control", "public, max-age=31536000"),
    ("content-encoding", "br"),
    ("content-encoding", "gzip"),
    ("content-type", "application/dns-message"),
    ("content-type", "application/javascript"),
    ("content-type", "application/json"),
    ("content-type", "application/x-www-form-urlencoded"),
    ("content-type", "image/gif"),
    ("content-type", "image/jpeg"),
    ("content-type", "image/png"),
    ("content-type", "text/css"),
    ("content-type", "text/html; charset=utf-8"),
    ("content-type", "text/plain"),
    ("content-type", "text/plain;charset=utf-8"),
    ("range", "bytes=0-"),
    ("strict-transport-security", "max-age=31536000"),
    ("strict-transport-security", "max-age=31536000; includesubdomains"),
    ("strict-transport-security", "max-age=31536000; includesubdomains; preload"),
    ("vary", "accept-encoding"),
    ("vary", "origin"),
    ("x-content-type-options", "nosniff"),
    ("x-xss-protection", "1; mode=block"),
    (":status", "100"),
    (":status", "204"),
    (":status", "206"),
    (":status", "302"),
    (":status", "400"),
    (":status", "403"),
    (":status", "421"),
    (":status", "425"),
    (":status", "500"),
    ("accept-language", ""),
    ("access-control-allow-credentials", "FALSE"),
    ("access-control-allow-credentials", "TRUE"),
    ("access-control-allow-headers", "*"),
    ("access-control-allow-methods", "get"),
    ("access-control-allow-methods", "get, post, options"),
    ("access-control-allow-methods", "options"),
    ("access-control-expose-headers", "content-length"),
    ("access-control-request-headers", "content-type"),
    ("access-control-request-method", "get"),
    ("access-control-request-method", "post"),
    ("alt-svc", "clear"),
    ("authorization", ""),
    ("content-security-policy", "script-src 'none'; object-src 'none'; base-uri 'none'"),
    ("early-data", "1"),
    ("expect-ct", ""),
    ("forwarded", ""),
    ("if-range", ""),
    ("origin", ""),
    ("purpose", "prefetch"),
    ("server", ""),
    ("timing-allow-origin", "*"),
    ("upgrade-insecure-requests", "1"),
    ("user-agent", ""),
    ("x-forwarded-for", ""),
    ("x-frame-options", "deny"),
    ("x-frame-options", "sameorigin"),
];

/// Length of the longest name.
const LONGEST: usize = 32;

/// The most names of one length.
const WIDEST: usize = 8;

/// No entry.
const NONE: u8 = u8::MAX;

/// The first entry of each name, by the length of the name.
static BY_LENGTH: [[u8; WIDEST]; LONGEST + 1] = by_length();

/// The next entry of the same name.
static NEXT: [u8; TABLE.len()] = next();

const fn by_length() -> [[u8; WIDEST]; LONGEST + 1] {
    let mut table = [[NONE; WIDEST]; LONGEST + 1];
    let mut index = 0;
    while index < TABLE.len() {
        if earlier(index) == NONE {
            let len = TABLE[index].0.len();
            let mut place = 0;
            while table[len][place] != NONE {
                place += 1;
            }
            table[len][place] = index as u8;
        }
        index += 1;
    }
    table
}

const fn next() -> [u8; TABLE.len()] {
    let mut table = [NONE; TABLE.len()];
    let mut index = 0;
    while index < TABLE.len() {
        let before = earlier(index);
        if before != NONE {
            table[before as usize] = index as u8;
        }
        index += 1;
    }
    table
}

/// The last entry before this one with the same name.
const fn earlier(index: usize) -> u8 {
    let mut before = index;
    while before > 0 {
        before -= 1;
        if is_same(TABLE[before].0.as_bytes(), TABLE[index].0.as_bytes()) {
            return before as u8;
        }
    }
    NONE
}

const fn is_same(one: &[u8], other: &[u8]) -> bool {
    if one.len() != other.len() {
        return false;
    }
    let mut at = 0;
    while at < one.len() {
        if one[at] != other[at] {
            return false;
        }
        at += 1;
    }
    true
}

/// The entry of a name, in any case, and whether it is of this value, too.
pub(super) fn find(name: &[u8], value: &[u8]) -> Option<(usize, bool)> {
    let row = BY_LENGTH.get(name.len())?;
    let entries = row.iter().map(|index| usize::from(*index));
    let of_name =
        |index: &usize| STATIC.get(*index).is_some_and(|(known, _)| name.eq_ignore_ascii_case(known.as_bytes()));
    let first = entries.take_while(|index| *index < STATIC.len()).find(of_name)?;
    let mut index = first;
    while let Some((_, known)) = STATIC.get(index) {
        if known.as_bytes() == value {
            return Some((index, true));
        }
        index = usize::from(*NEXT.get(index)?);
    }
    Some((first, false))
}
