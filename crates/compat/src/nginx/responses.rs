//! What is said besides upstreams: error pages, single files, compression.

use std::path::PathBuf;

use super::guards;
use super::location::{is_exact, named, start_of};
use super::scope::{Scope, number, size};
use super::site::Making;
use super::syntax::Directive;
use super::values::Values;
use crate::conditions::When;
use crate::files::Unread;
use crate::migration::{Place, absolute};
use crate::native::{Map, Value, bytes};

/// Largest file of a fixed response, bytes.
const MAX_BODY_BYTES: usize = 1 << 20;

/// Extensions whose media types the reader of configurations knows.
const EXTENSIONS: [&str; 20] = [
    "html",
    "htm",
    "txt",
    "css",
    "js",
    "mjs",
    "csv",
    "md",
    "json",
    "webmanifest",
    "xml",
    "pdf",
    "svg",
    "png",
    "jpg",
    "jpeg",
    "gif",
    "webp",
    "ico",
    "woff2",
];

/// Why an `error_page` is left out.
const NO_PAGE: &str = "a page is a file of HTML for its status, and this is none that could be read";

/// The same, where it sends somebody to sign in whom a service does not know.
const SIGN_IN: &str = "who is not signed in gets what the service responds: in `forward_auth`, write the `path` at which it redirects by itself (oauth2-proxy \
                       `/`, Authelia `/api/authz/forward-auth`), as docs/access.md shows";

/// What a client of ACME proves names by.
const ORDERED: &str = "certificates are ordered here, and what proves names is responded to before any route: write `keystores: { main: { acme: { folder: \
                       /var/lib/portunus/acme, accept_terms: true, names: [NAME] } } }`, and remove this route";

impl<'d> Making<'d> {
    /// A location that serves files: one alone is a fixed response, and with `try_files` the upstream gets what is no file.
    pub(crate) fn filed(&mut self, scope: &Scope<'d>, location: &'d Directive, values: Values) -> Map {
        if let Some(tried) = location.inner().iter().find(|directive| directive.name == "try_files") {
            let last = tried.args.last().map_or("", String::as_str);
            let server = self.server.map(Directive::inner).unwrap_or_default();
            if let Some(target) = named(server, last).filter(|target| *target != location) {
                let within = self.server_scope.within(target.inner());
                let kept = guards::at(&within);
                if let Some(lost) = guards::at(scope).into_iter().find(|guard| !kept.contains(guard)) {
                    return self.closed(tried, &format!("`{}` ({}) guards it", lost.shown(), lost.place));
                }
                let mut keys = self.named(&within, target, values);
                let how = "files are not served; requests for them go to the upstream, too";
                keys.comment(self.report.left_out(&tried.place, &tried.shown(), how));
                return keys;
            }
            return self.beside(tried, scope);
        }
        if let Some(guard) = guards::at(scope).first() {
            let why =
                format!("files are not served where something guards them: `{}` ({})", guard.shown(), guard.place);
            return self.closed(location, &why);
        }
        match self.one_file(scope, location) {
            Some(keys) => keys,
            None if start_of(location).is_some_and(|start| start.starts_with("/.well-known/acme-challenge")) => {
                self.closed(location, ORDERED)
            }
            None => self.beside(location, scope),
        }
    }

    /// A named location, that forwards.
    fn named(&mut self, scope: &Scope<'d>, target: &'d Directive, values: Values) -> Map {
        let forwards =
            target.inner().iter().any(|directive| matches!(directive.name.as_str(), "proxy_pass" | "grpc_pass"));
        let decides = target
            .inner()
            .iter()
            .any(|directive| matches!(directive.name.as_str(), "if" | "rewrite" | "return" | "set" | "limit_except"));
        match forwards && !decides {
            true => self.forwarded_by(scope, target, values, None),
            false => self.closed(target, "it does not simply forward"),
        }
    }

    /// A location for one path, whose file is there.
    fn one_file(&mut self, scope: &Scope<'_>, location: &Directive) -> Option<Map> {
        let path = start_of(location).filter(|_| is_exact(location))?;
        let file = self.file_of(scope, &path)?;
        if !self.files.is_small(&file, MAX_BODY_BYTES as u64) {
            return None;
        }
        let mut body = Map::of([("status", Value::plain(200)), ("body_file", Value::text(absolute(&file)))]);
        let extension =
            file.extension().and_then(|extension| extension.to_str()).unwrap_or_default().to_ascii_lowercase();
        if !EXTENSIONS.contains(&extension.as_str()) {
            body.set("content_type", scope.word("default_type").unwrap_or("text/plain"));
        }
        let mut keys = Map::of([("respond", body.into())]);
        let mut methods = Map::default();
        When::methods(&["GET", "HEAD"]).write(&mut methods);
        methods.entries().for_each(|(key, value)| keys.set(key, value.clone()));
        Some(keys)
    }

    /// The file for a path, by `alias` or `root`.
    fn file_of(&self, scope: &Scope<'_>, path: &str) -> Option<PathBuf> {
        let own = scope.own().iter().find(|directive| directive.name == "alias");
        let file = match own {
            Some(alias) => self.root.join(alias.arg(0)),
            None => self.root.join(scope.word("root")?).join(path.trim_start_matches('/')),
        };
        (!file.to_string_lossy().contains(['$', '\0'])).then_some(file)
    }

    /// `error_page`, where it names files that are there.
    pub(crate) fn pages(&mut self, scope: &Scope<'d>, values: &Values, route: &mut Map) {
        let mut pages = Map::default();
        let mut statuses: Vec<Value> = Vec::new();
        let sign_in = self.sign_in(scope, values);
        for directive in scope.all(&["error_page"]) {
            if let Some(page) = sign_in.as_ref().filter(|page| page.directive == directive) {
                let differs = page.differs.map(|how| self.report.differs(&directive.place, &directive.shown(), how));
                differs.into_iter().for_each(|comment| route.comment(comment));
                continue;
            }
            let Some((target, codes)) = directive.args.split_last() else { continue };
            let codes: Vec<&String> =
                codes.iter().filter(|code| (400..600).contains(&code.parse::<u16>().unwrap_or(0))).collect();
            let is_plain = target.starts_with('/') && codes.len() + 1 == directive.args.len();
            match is_plain.then(|| self.page(target, &directive.place)).flatten() {
                Some(file) => {
                    for code in codes {
                        pages.set(code, absolute(&file));
                        statuses.push(Value::plain(code));
                    }
                }
                None => {
                    let is_asked = scope.one("auth_request").is_some_and(|service| service.arg(0) != "off");
                    let is_sign_in = is_asked && codes.iter().any(|code| matches!(code.as_str(), "401" | "403"));
                    let why = if is_sign_in { SIGN_IN } else { NO_PAGE };
                    route.comment(self.report.left_out(&directive.place, &directive.shown(), why));
                }
            }
        }
        if pages.is_empty() {
            return;
        }
        let mut native = Map::of([("pages", pages.into())]);
        if scope.is_on("proxy_intercept_errors") {
            native.set("intercept", Value::List(statuses));
        }
        let name = self.draft.error_pages.intern("pages", native);
        route.set("error_pages", name);
    }

    /// The file of a page.
    fn page(&mut self, path: &str, place: &Place) -> Option<PathBuf> {
        let chain = self.location_of(path).ok()?.unwrap_or_default();
        let scope = chain.iter().fold(self.server_scope.clone(), |scope, outer| scope.within(outer.inner()));
        let file = self.file_of(&scope, path)?;
        match self.files.read(&file) {
            // What is replaced natively is not meant there.
            Ok(text) => (text.len() <= MAX_BODY_BYTES && !text.contains("{{")).then_some(file),
            Err(Unread::Absent(_)) if self.files.are_known() => {
                self.report.expect(&self.files, [&file], place);
                Some(file)
            }
            Err(_) => None,
        }
    }

    /// `gzip` and `brotli`.
    pub(crate) fn compressed(&mut self, scope: &Scope<'_>, route: &mut Map) {
        let is_on = [("brotli", "br"), ("gzip", "gzip")].into_iter().filter(|(name, _)| scope.is_on(name));
        let encodings: Vec<&str> = is_on.map(|(_, coding)| coding).collect();
        if encodings.is_empty() {
            return;
        }
        let mut native = Map::of([("encodings", Value::texts(encodings.iter().copied()))]);
        let mut types = vec!["text/html".to_owned()];
        let listed = scope.one("gzip_types").or(scope.one("brotli_types"));
        for kind in listed.map(|directive| directive.args.as_slice()).unwrap_or_default() {
            if kind != "*" && !types.contains(kind) && is_media_type(kind) {
                types.push(kind.clone());
            }
        }
        if !listed.is_some_and(|directive| directive.args.iter().any(|kind| kind == "*")) {
            native.set("types", Value::texts(types));
        }
        let least = scope.word("gzip_min_length").and_then(size).unwrap_or(20);
        native.set("min_size", bytes(least.min(1 << 30)));
        if let Some(level) = scope.word("gzip_comp_level").and_then(number).filter(|level| (1..=9).contains(level)) {
            native.set("gzip_level", Value::plain(level));
        }
        native.comment("nginx compresses what is meant for one client alone, too; `with_credentials: true` does (see the page on responses)");
        let name = self.draft.compression.intern("web", native);
        route.set("compression", name);
    }
}

fn is_media_type(text: &str) -> bool {
    let is_token = |text: &str| {
        !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-+._".contains(&byte))
    };
    text.split_once('/').is_some_and(|(kind, subtype)| is_token(kind) && is_token(subtype))
}
