//! What metrics call the host of a request: the pattern of its route that it matched. Clients can invent hosts, and labels must not grow with them.

use config::HostPattern;

/// Room for a label: the longest name with `*.` before it.
pub const MAX_LABEL_BYTES: usize = 256;

/// The pattern that an authority falls under, the most specific one; written into `room` where it is a wildcard. None if there is none, as for routes for any host.
pub fn host_label<'l>(
    hosts: &'l [HostPattern],
    authority: &[u8],
    room: &'l mut [u8; MAX_LABEL_BYTES],
) -> Option<&'l str> {
    let pattern = match hosts {
        [] => return None,
        // The route was found by it.
        [only] => only,
        hosts => {
            hosts.iter().filter(|pattern| fits(pattern, name_of(authority))).max_by_key(|pattern| rank(pattern))?
        }
    };
    match pattern {
        HostPattern::Exact(name) => Some(name),
        HostPattern::Wildcard(parent) => {
            let label = room.get_mut(..parent.len() + 2)?;
            label[..2].copy_from_slice(b"*.");
            label[2..].copy_from_slice(parent.as_bytes());
            std::str::from_utf8(label).ok()
        }
    }
}

/// Which of two patterns goes first.
fn rank(pattern: &HostPattern) -> (bool, usize) {
    match pattern {
        HostPattern::Exact(name) => (true, name.len()),
        HostPattern::Wildcard(parent) => (false, parent.len()),
    }
}

fn fits(pattern: &HostPattern, host: &[u8]) -> bool {
    match pattern {
        HostPattern::Exact(name) => name.as_bytes().eq_ignore_ascii_case(host),
        HostPattern::Wildcard(parent) => {
            let below = host.len().checked_sub(parent.len() + 1).filter(|length| *length > 0);
            below.is_some_and(|at| host[at] == b'.' && host[at + 1..].eq_ignore_ascii_case(parent.as_bytes()))
        }
    }
}

/// The host of an authority, without port and final dot.
fn name_of(authority: &[u8]) -> &[u8] {
    let port = authority.iter().rposition(|byte| *byte == b':');
    let is_port = |at: &usize| authority[at + 1..].iter().all(u8::is_ascii_digit);
    let host = port.filter(is_port).map_or(authority, |at| &authority[..at]);
    host.strip_suffix(b".").unwrap_or(host)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_label_is_a_pattern_of_the_configuration() {
        let hosts = ["a.example", "*.example", "*.b.example", "[::1]"].map(HostPattern::of_text);
        for (authority, expected) in [
            ("a.example", Some("a.example")),
            ("A.Example.:8443", Some("a.example")),
            ("c.example:80", Some("*.example")),
            ("x.b.example", Some("*.b.example")),
            ("b.example", Some("*.example")),
            ("[::1]:80", Some("[::1]")),
            ("example", None),
            ("made.up", None),
            ("", None),
            (":", None),
        ] {
            assert_eq!(host_label(&hosts, authority.as_bytes(), &mut [0; MAX_LABEL_BYTES]), expected, "{authority}");
        }
        assert_eq!(host_label(&[], b"a.example", &mut [0; MAX_LABEL_BYTES]), None);
        assert_eq!(host_label(&hosts[1..2], b"any", &mut [0; MAX_LABEL_BYTES]), Some("*.example"));
    }
}
