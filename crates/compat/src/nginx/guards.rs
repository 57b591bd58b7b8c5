//! What keeps somebody out at a place, told before it is carried: where what it guards would be answered otherwise, the place is closed.

use super::scope::Scope;
use super::syntax::Directive;
use super::{known, listen};
use crate::migration::{Problem, Report};

/// Directives that keep somebody out and have no counterpart, by how their names begin.
const KEEPS_OUT: [&str; 8] = [
    "access_by_",
    "app_protect_enable",
    "js_access",
    "modsecurity",
    "oidc",
    "secure_link_",
    "geoip2_proxy_deny",
    "SecRules",
];

/// Directives on who may come in that are carried, or say only how.
const CARRIED: [&str; 3] = ["auth_basic", "auth_request", "auth_delay"];

/// Whether a directive keeps somebody out in a way that is not known here.
pub(crate) fn is_unknown(directive: &Directive) -> bool {
    let name = directive.name.as_str();
    let is_of_others = name.starts_with("auth_") && !CARRIED.iter().any(|known| name.starts_with(known));
    (is_of_others || KEEPS_OUT.iter().any(|start| name.starts_with(start))) && directive.arg(0) != "off"
}

/// The directives that keep somebody out at a place.
pub(crate) fn at<'d>(scope: &Scope<'d>) -> Vec<&'d Directive> {
    let lists = scope.all(&["allow", "deny"]);
    let is_open = lists.first().is_some_and(|first| first.name == "allow" && first.arg(0) == "all");
    let mut found = if is_open { Vec::new() } else { lists };
    let asked = ["auth_basic", "auth_request"].into_iter().filter_map(|name| scope.one(name));
    found.extend(asked.filter(|directive| directive.arg(0) != "off"));
    found.extend(scope.all(&["limit_req"]));
    found.extend(scope.levels().flatten().filter(|directive| is_unknown(directive)));
    found.extend(scope.levels().flatten().filter(|directive| known::is_script(&directive.name)));
    found
}

/// Whether a server keeps somebody out anywhere, or asks for a client certificate.
fn is_guarded(scope: &Scope<'_>) -> bool {
    fn any(level: &[Directive]) -> bool {
        level.iter().any(|directive| {
            let name = directive.name.as_str();
            let rejects = name == "return" && directive.arg(0).parse().is_ok_and(|status: u16| status >= 400);
            matches!(
                name,
                "deny" | "auth_basic" | "auth_request" | "limit_req" | "limit_conn" | "limit_except" | "internal"
            ) || rejects
                || is_unknown(directive)
                || known::is_script(name)
                || any(directive.inner())
        })
    }
    any(scope.own()) || scope.word("ssl_verify_client").is_some_and(|word| word != "off")
}

/// Requests for names that cannot be carried would go to the default server, which may ask for less: that is no configuration to write.
pub(crate) fn names_are_safe(servers: &[&Directive], http: &[Directive]) -> Result<(), Problem> {
    // What is found here is told once, by those who carry it.
    let report = Report::default();
    let mut comments = Vec::new();
    let sockets = listen::sockets(servers, &report, &mut comments);
    for (at, server) in servers.iter().enumerate() {
        let mut lost = Vec::new();
        listen::names(server, &report, &mut lost);
        let goes_elsewhere = sockets.iter().any(|socket| socket.servers.contains(&at) && socket.default != at);
        if lost.is_empty() || !goes_elsewhere || !is_guarded(&Scope::new(http).within(server.inner())) {
            continue;
        }
        let why = "a server that keeps somebody out has names that cannot be carried (an expression, or a wildcard at the end), \
                   and requests for them would go to another one: write its names out";
        let names = server.inner().iter().find(|directive| directive.name == "server_name");
        return Err(Problem::new(&names.unwrap_or(server).place, why));
    }
    Ok(())
}
