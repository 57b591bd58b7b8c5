//! Where those go who have not signed in: `error_page 401` beside `auth_request`, which forward authentication has as `sign_in`.

use super::location::{named, of_path};
use super::scope::Scope;
use super::site::Making;
use super::syntax::Directive;
use super::values::Values;

/// Statuses by which `return` and `error_page` redirect.
const REDIRECTS: [&str; 5] = ["301", "302", "303", "307", "308"];

/// What is different where nginx shows a page in place.
const IN_PLACE: &str = "who is not signed in is redirected there";

/// A page to sign in at.
pub(crate) struct SignIn<'d> {
    /// What names it.
    pub(crate) directive: &'d Directive,
    /// Native `sign_in`.
    pub(crate) page: String,
    /// What is not quite the same.
    pub(crate) differs: Option<&'static str>,
}

impl Making<'_> {
    /// The page that `error_page 401` names for those whom a service does not know; none if it has none, or one that cannot be carried.
    pub(crate) fn sign_in<'d>(&self, scope: &Scope<'d>, values: &Values) -> Option<SignIn<'d>> {
        scope.one("auth_request").filter(|service| service.arg(0) != "off")?;
        // The 401 of an upstream would be answered in the same way.
        if scope.is_on("proxy_intercept_errors") {
            return None;
        }
        let pages = scope.all(&["error_page"]);
        let directive = pages.into_iter().find(|page| page.args.iter().any(|arg| arg == "401"))?;
        let (target, status) = match directive.args.as_slice() {
            [_, target] => (target, ""),
            [_, status, target] => (target, status.strip_prefix('=')?),
            _ => return None,
        };
        if let Some(path) = target.strip_prefix('/') {
            let page = self.shown_in_place(target, path)?;
            return Some(SignIn { directive, page, differs: Some(IN_PLACE) });
        }
        let text = match target.strip_prefix('@') {
            Some(_) => self.redirect_of(target)?,
            None => Some(target.as_str()).filter(|_| status.is_empty() || REDIRECTS.contains(&status))?,
        };
        Some(SignIn { directive, page: values.page(text).ok()?, differs: None })
    }

    /// A page of the server, which nginx sends in place of the response. That of oauth2-proxy is told where to come back to.
    fn shown_in_place(&self, target: &str, path: &str) -> Option<String> {
        let server = self.server?;
        let chain = of_path(server.inner(), target).ok()??;
        let within = chain.iter().fold(self.server_scope.clone(), |scope, outer| scope.within(outer.inner()));
        // It would lead to itself without end.
        let is_open = within.word("auth_request").is_none_or(|word| word == "off");
        let is_plain = target.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"/-_.".contains(&byte));
        if !(is_open && is_plain) {
            return None;
        }
        Some(if path.starts_with("oauth2/") { format!("{target}?rd={{uri}}") } else { target.to_owned() })
    }

    /// Where a named location redirects, if it does nothing else. Cookies of the service's response go with it natively.
    fn redirect_of(&self, name: &str) -> Option<&str> {
        let location = named(self.server?.inner(), name)?;
        let is_cookie = |one: &Directive| one.name == "add_header" && one.arg(0).eq_ignore_ascii_case("set-cookie");
        let mut rest =
            location.inner().iter().filter(|one| !matches!(one.name.as_str(), "internal") && !is_cookie(one));
        match (rest.next(), rest.next()) {
            (Some(only), None) if only.name == "return" => match only.args.as_slice() {
                [status, url] if REDIRECTS.contains(&status.as_str()) => Some(url),
                [url] => Some(url),
                _ => None,
            },
            _ => None,
        }
    }
}
