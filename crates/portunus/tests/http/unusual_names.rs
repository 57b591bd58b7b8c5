//! `headers.unusual_names`: what becomes of fields whose names hold `_`, which some servers take for a hyphen.

use crate::harness::{Gate, Upstream, ask_on};

const POLICY: &str = "policies: { tenants: { rate_limit: { rate: 1/h, burst: 1, key: { header: x-tenant } } } }\n";

fn names(setting: &str) -> (u16, Vec<String>) {
    let upstream = Upstream::ok();
    let gate = Gate::start(&format!(
        "{setting}{POLICY}listeners: [{{ name: web, bind: \"127.0.0.1:0\" }}]\nupstreams: {{ app: {{ servers: [\"{}\"] }} }}\n\
         routes: [{{ upstream: app, policies: [tenants] }}]\n",
        upstream.address
    ));
    let fields = "Host: x\r\nx-amz-meta-my_key: 1\r\nX_Tenant: 2\r\nX_Forwarded_For: 3\r\nX.Real.IP: 4\r\napp.x: 5\r\n";
    let (response, _) = ask_on(gate.address("web"), &format!("GET / HTTP/1.1\r\n{fields}\r\n"));
    let seen = upstream.seen().first().map(|seen| seen.head.clone()).unwrap_or_default().to_lowercase();
    let names = ["x-amz-meta-my_key", "x_tenant", "x_forwarded_for", "x.real.ip", "app.x"];
    let names = names.iter().filter(|name| seen.contains(&format!("\r\n{name}:"))).map(|name| (*name).to_owned());
    (response.split(' ').nth(1).unwrap().parse().unwrap(), names.collect())
}

#[test]
fn a_setting_decides_and_what_could_be_taken_for_another_field_never_passes() {
    let (status, seen) = names("headers: { unusual_names: pass }\n");
    assert_eq!((status, seen.join(" ").as_str()), (200, "x-amz-meta-my_key app.x"));
    let (status, seen) = names("headers: { unusual_names: drop }\n");
    assert_eq!((status, seen.len()), (200, 0), "{seen:?}");
    for setting in ["headers: { unusual_names: reject }\n", ""] {
        assert_eq!(names(setting), (400, Vec::new()), "{setting}");
    }
}
