//! A routes file of SillyProxy, any bytes: is read or rejected with a place, and what is read can be compiled and asked.

use compat::sillyproxy::{UpstreamOptions, read_routes};
use config::{Action, ForwardTo};
use proxy::route::{RouteTable, Routed, Values, build_authority, build_target};
use wire::http::RequestHead;
use wire::http::target::{canonical_authority, canonical_path};

/// Checks one input.
pub fn check(text: &[u8]) {
    let options = UpstreamOptions::default();
    let file = match read_routes(text, "routes.json", &options) {
        Ok(file) => file,
        Err(problems) => {
            assert!(!problems.is_empty(), "rejected without a reason");
            assert!(problems.iter().all(|problem| has_place(problem)), "{problems:?}");
            return;
        }
    };
    assert!(file.warnings.iter().all(|warning| has_place(warning)), "{:?}", file.warnings);
    // What follows the first value is not read.
    let longer = [text, b" ]}\"garbage\xff"].concat();
    let again = read_routes(&longer, "routes.json", &options).expect("what follows is ignored");
    assert_eq!(file.routes.len(), again.routes.len());

    let mut config = super::empty_config();
    config.routes = file.routes;
    config.upstreams = file.upstreams;
    let Ok(table) = RouteTable::compile(&config) else { return };
    for route in &config.routes {
        let Action::Forward(forward) = &route.action else { panic!("a routes file only forwards") };
        if let ForwardTo::Group(name) = &forward.to {
            assert!(config.upstreams.contains_key(name), "no group {name}");
        }
        ask_after_pattern(&table, route);
    }
}

/// `routes.json:LINE:COLUMN: …`
fn has_place(text: &str) -> bool {
    let mut parts = text.splitn(4, ':');
    let number = |part: Option<&str>| part.is_some_and(|part| part.parse::<usize>().is_ok_and(|number| number > 0));
    parts.next() == Some("routes.json") && number(parts.next()) && number(parts.next())
}

/// A request made after the pattern of a route finds a route (this one or a more specific one), and what goes upstream is well-formed.
fn ask_after_pattern(table: &RouteTable, route: &config::RouteConfig) {
    let path = super::route::sample_path(&route.path);
    let Some(config::HostPattern::Exact(host)) = route.hosts.first() else { panic!("always one host") };
    let mut head = RequestHead {
        method: route.methods[0].clone(),
        authority: host.clone().into_bytes(),
        ..RequestHead::default()
    };
    let Ok(false) = canonical_path(path.as_bytes(), &mut head.target) else { return };
    head.path_len = head.target.len();
    head.target.extend_from_slice(b"?k=v");
    match table.find("web", &head) {
        Routed::Found(found, params) => {
            let Action::Forward(forward) = &found.config.action else { panic!("a routes file only forwards") };
            let mut out = Vec::new();
            if let ForwardTo::Authority { authority, allow, .. } = &forward.to
                && build_authority(authority, allow, &head, &params, &mut out).is_ok()
            {
                let mut canonical = Vec::new();
                canonical_authority(&out, &mut canonical).expect("what goes upstream is an authority");
                assert_eq!(out, canonical);
            }
            out.clear();
            if build_target(forward, &head, || Values::of(&head, &params), &mut out).is_ok() {
                super::route::assert_is_target(&out);
            }
        }
        other => panic!("{path} after {:?}: {other:?}", route.path),
    }
}
