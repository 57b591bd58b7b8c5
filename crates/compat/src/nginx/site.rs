//! A server of nginx for one listener: its locations and rules as cells, its handlers as keys of routes.

use std::collections::BTreeSet;
use std::path::PathBuf;

use super::fields::Forwarding;
use super::forward::Proxy;
use super::guards;
use super::known;
use super::listen::Names;
use super::location::{self, Placed, expression_of, is_exact, start_of};
use super::rewrite::{Outcome, Reading, Rule, Whom, is_untouched};
use super::scope::{Scope, milliseconds, size};
use super::syntax::Directive;
use super::values::{Query, Values};
use crate::cells::{Language, Unplanned};
use crate::certificates::Links;
use crate::conditions::When;
use crate::draft::Draft;
use crate::expressions::{Subject, literal, native};
use crate::files::Files;
use crate::migration::Report;
use crate::native::{Map, Value, bytes, duration};
use crate::sites::{Cell, REST, Variant, respond, routes, without_implied};

/// What an import is made with, and where it is.
pub(crate) struct Making<'d> {
    pub(crate) report: &'d Report,
    pub(crate) draft: Draft,
    pub(crate) files: Files,
    pub(crate) links: Links,
    /// Where relative names of files start.
    pub(crate) root: PathBuf,
    pub(crate) http: &'d [Directive],
    /// The server that is looked at.
    pub(crate) server: Option<&'d Directive>,
    pub(crate) server_scope: Scope<'d>,
    pub(crate) forwarding: Forwarding,
    pub(crate) has_trusted: bool,
    /// Why it is not known who the client is.
    pub(crate) unknown_client: Option<String>,
    /// The variables that the configuration defines.
    pub(crate) defined: BTreeSet<String>,
    /// The largest body where a route does not say otherwise.
    pub(crate) max_body: u64,
}

/// Why a stage of a location is not carried to paths of it that an expression tells apart.
const NO_REST: &str = "it replaces the start of its location, of which an expression takes paths";

/// What is known of a server at one listener.
#[derive(Debug, Clone, Default)]
pub(crate) struct Facts {
    pub(crate) tls: bool,
    pub(crate) port: Option<u16>,
    pub(crate) has_certificate: bool,
    pub(crate) is_default: bool,
}

/// Routes of a server: for all of its hosts, and for some that are treated otherwise.
#[derive(Debug, Default)]
pub(crate) struct Site {
    pub(crate) routes: Vec<Map>,
    /// Of a host the first of these counts.
    pub(crate) apart: Vec<(Vec<String>, Vec<Map>)>,
}

/// Stages of a request within a cell: who is told apart, in order, and what is done with all others.
#[derive(Default)]
struct Stages {
    variants: Vec<Variant>,
    /// Methods that come further; none for all.
    methods: Option<Vec<String>>,
    /// What is done with the other methods.
    others: Option<Map>,
}

impl<'d> Making<'d> {
    /// The location of the server for an internal request.
    ///
    /// # Errors
    /// Why it is not known.
    pub(crate) fn location_of(&self, path: &str) -> Result<Option<Vec<&'d Directive>>, String> {
        self.server.map_or(Ok(None), |server| location::of_path(server.inner(), path))
    }

    /// The routes of the server for a listener.
    pub(crate) fn site(&mut self, names: &Names, facts: &Facts) -> Site {
        let Some(server) = self.server else { return Site::default() };
        let scope = self.server_scope.clone();
        let mut values = Values {
            tls: facts.tls,
            port: facts.port,
            server_name: names.first.clone(),
            has_trusted: self.has_trusted,
            unknown: self.defined.clone(),
            ..Values::default()
        };
        let mut comments = vec![format!("{}: server {}", server.place, names.first)];
        known::audit(server.inner(), self.report, &mut comments);
        if let Some(directive) =
            scope.one("ssl_reject_handshake").filter(|directive| directive.arg(0).eq_ignore_ascii_case("on"))
            && facts.tls
            && !facts.is_default
        {
            let mut keys = self.closed(directive, "handshakes for one name are not rejected");
            keys.comment_first(&comments);
            let cell = self.cell(Language::Prefix("/".to_owned()), Vec::new(), keys);
            return Site { routes: routes(&[cell]).unwrap_or_default(), apart: Vec::new() };
        }
        let rules = self.rules(&scope, &mut values, (names, facts, None), &mut comments);
        let mut site = Site::default();
        let mut cells = Vec::new();
        let mut stages: Vec<(Whom, Map)> = Vec::new();
        let mut is_over = false;
        for rule in rules {
            let keys = self.keys_of(&rule.outcome, &scope, &values);
            match rule.whom {
                Whom::Hosts(hosts) => {
                    // Rules before it hold for these hosts, too.
                    let mut all = cells.clone();
                    all.push(self.cell(Language::Prefix("/".to_owned()), stages.clone(), keys));
                    let routes = routes(&all).unwrap_or_else(|unplanned| vec![self.unplanned(server, unplanned)]);
                    site.apart.push((hosts, routes));
                }
                Whom::Paths(text) => {
                    let language = Language::Expression { text, except: Vec::new() };
                    cells.push(self.cell(language, stages.clone(), keys));
                }
                Whom::All => {
                    cells.push(self.cell(Language::Prefix("/".to_owned()), stages.clone(), keys));
                    is_over = true;
                }
                whom => stages.push((whom, keys)),
            }
        }
        if !is_over {
            self.locations(server, &values, (names, facts), &stages, &mut cells, &mut comments);
        }
        site.routes = match routes(&cells) {
            Ok(routes) => routes,
            Err(unplanned) => vec![self.unplanned(server, unplanned)],
        };
        let first = site.routes.first_mut();
        first.into_iter().for_each(|route| route.comment_first(&comments));
        site
    }

    /// A server whose locations cannot be told apart: nobody gets anything.
    fn unplanned(&self, server: &Directive, unplanned: Unplanned) -> Map {
        let why = match unplanned {
            Unplanned::Cell(_) => "the order of its locations cannot be said; all requests to it are answered 501",
            Unplanned::TooMuch => "its expressions are too many to compare; all requests to it are answered 501",
        };
        let mut route = respond(501);
        route.comment(self.report.left_out(&server.place, "server", why));
        route
    }

    fn rules(
        &self,
        scope: &Scope<'d>,
        values: &mut Values,
        (names, facts, language): (&Names, &Facts, Option<&Language>),
        comments: &mut Vec<String>,
    ) -> Vec<Rule<'d>> {
        Reading {
            report: self.report,
            http: self.http,
            values,
            hosts: &names.hosts,
            is_default: facts.is_default,
            has_certificate: facts.has_certificate,
            has_underscores: scope.is_on("underscores_in_headers"),
            is_client_known: self.unknown_client.is_none(),
            extension: language.and_then(|language| match language {
                Language::Exact(path) => path.rsplit_once('.').map(|(_, extension)| extension.to_owned()),
                _ => None,
            }),
            language,
            comments,
        }
        .rules(scope)
    }

    /// The keys for an outcome that needs no handler.
    fn keys_of(&self, outcome: &Outcome<'_>, scope: &Scope<'_>, values: &Values) -> Map {
        match outcome {
            Outcome::Keys(keys) => {
                let mut keys = keys.clone();
                let status = match (keys.get("respond"), keys.get("redirect")) {
                    (Some(Value::Map(inner)), _) | (_, Some(Value::Map(inner))) => status_of(inner),
                    _ => 200,
                };
                self.response_fields(scope, Some(status), values, &mut keys);
                let is_of = |page: &&Directive| page.args.iter().any(|arg| *arg == status.to_string());
                if let Some(page) = scope.all(&["error_page"]).into_iter().find(is_of) {
                    let why = "it is not asked for statuses of `return`; they are the response";
                    keys.comment(self.report.left_out(&page.place, &page.shown(), why));
                }
                keys
            }
            Outcome::Closed(comment) => {
                let mut keys = respond(501);
                keys.comment(comment.clone());
                keys
            }
            // No handler stands at a server.
            Outcome::Handled(directive) | Outcome::Passed(directive) => {
                self.closed(directive, "a handler of no location")
            }
            Outcome::Rewritten(_) => match self.server {
                Some(server) => self.closed(server, "a path is rewritten before locations are looked at"),
                None => respond(501),
            },
        }
    }

    /// A cell with stages before what is done at last.
    fn cell(&self, language: Language, stages: Vec<(Whom, Map)>, last: Map) -> Cell {
        let mut built = Stages::default();
        for (whom, keys) in stages {
            built.add(whom, keys);
        }
        Cell { language, variants: built.finish(last) }
    }

    /// The locations of a server.
    fn locations(
        &mut self,
        server: &'d Directive,
        values: &Values,
        (names, facts): (&Names, &Facts),
        stages: &[(Whom, Map)],
        cells: &mut Vec<Cell>,
        comments: &mut Vec<String>,
    ) {
        let (placed, unread) = location::order(server);
        for (directive, why) in unread {
            comments.push(self.report.left_out(&directive.place, &directive.shown(), &why));
        }
        let mut covers_all = false;
        // What is redirected to a folder stands beside exact ones, before expressions.
        let mut folders = Vec::new();
        let mut rest = Vec::new();
        for one in &placed {
            covers_all |= one.language == Language::Prefix("/".to_owned());
            let made = self.location(one, values.clone(), (names, facts), stages);
            if let (true, Language::Prefix(start) | Language::Exact(start)) =
                (one.is_folder_of && made.forwards && !is_said_otherwise(&placed, one), &one.language)
            {
                let to = Map::of([("to", Value::text(start.clone())), ("status", Value::plain(301))]);
                let keys = if made.is_internal { respond(404) } else { Map::of([("redirect", to.into())]) };
                let path = start.trim_end_matches('/').to_owned();
                folders.push(self.cell(Language::Exact(path), stages.to_vec(), keys));
            }
            match made.cells.as_slice() {
                [Cell { language: Language::Exact(_), .. }, ..] => cells.extend(made.cells),
                _ => rest.extend(made.cells),
            }
        }
        cells.extend(folders);
        cells.extend(rest);
        if !covers_all && self.server_scope.one("root").is_some() {
            let keys = self.beside(server, &self.server_scope);
            cells.push(self.cell(Language::Prefix("/".to_owned()), stages.to_vec(), keys));
        }
    }

    fn location(
        &mut self,
        placed: &Placed<'d>,
        mut values: Values,
        (names, facts): (&Names, &Facts),
        stages: &[(Whom, Map)],
    ) -> Located {
        let Some(directive) = placed.chain.last().copied() else { return Located::default() };
        let mut scope = self.server_scope.clone();
        let mut comments = vec![format!("{}: {}", directive.place, directive.shown())];
        for outer in &placed.chain {
            scope = scope.within(outer.inner());
        }
        known::audit(directive.inner(), self.report, &mut comments);
        if let Some(Ok(text)) = expression_of(directive)
            && let Ok(expression) = config::Expression::new(&text)
        {
            values.groups = expression.groups().to_vec();
        }
        if let Some(why) = &placed.closed {
            let mut keys = respond(501);
            comments.push(self.report.left_out(&directive.place, &directive.shown(), &format!("{why}; answered 501")));
            keys.comment_first(&comments);
            return Located {
                cells: vec![self.cell(placed.language.clone(), stages.to_vec(), keys)],
                ..Located::default()
            };
        }
        // Whoever is believed there says who the client is: to the whole server, or to nobody here.
        let is_of_clients = |inner: &&Directive| {
            matches!(inner.name.as_str(), "set_real_ip_from" | "real_ip_header" | "real_ip_recursive")
        };
        let is_anybody_believed = !scope.all(&["set_real_ip_from"]).is_empty();
        let said = placed.chain.iter().flat_map(|outer| outer.inner()).find(is_of_clients);
        if let Some(inner) = said.filter(|_| is_anybody_believed) {
            let mut keys = self.closed(inner, "clients are named for whole servers");
            keys.comment_first(&comments);
            let cells = vec![self.cell(placed.language.clone(), stages.to_vec(), keys)];
            return Located { cells, ..Located::default() };
        }
        // Who asks for it from outside gets nothing, before any rule.
        if placed.chain.iter().any(|outer| outer.inner().iter().any(|inner| inner.name == "internal")) {
            let mut keys = respond(404);
            keys.comment_first(&comments);
            let cells = vec![self.cell(placed.language.clone(), stages.to_vec(), keys)];
            return Located { cells, forwards: has_handler(directive), is_internal: true, is_over: false };
        }
        let mut stages = stages.to_vec();
        // Methods that it takes meet what stands in it, and no rule of the location.
        self.limited_methods(&scope, directive, &values, &mut stages);
        let rules = self.rules(&scope, &mut values, (names, facts, Some(&placed.language)), &mut comments);
        let mut located = Located { forwards: has_handler(directive), ..Located::default() };
        let last = self.ruled(rules, (&scope, directive, &values), (&placed.language, &mut stages), &mut located);
        // Its rules have all paths: what would be done with others is done with none.
        if last.is_none() && located.is_over {
            let first = located.cells.first_mut().and_then(|cell| cell.variants.first_mut());
            first.into_iter().for_each(|variant| variant.keys.comment_first(&comments));
            return located;
        }
        let mut last = match last {
            Some(last) => last,
            None => self.forwarded_by(&scope, directive, values, None),
        };
        last.comment_first(&comments);
        located.cells.push(self.cell(placed.language.clone(), stages, last));
        located
    }

    /// What the rules of a location do: stages before its handler, cells before its own; or all that is done, where no handler is reached.
    fn ruled(
        &mut self,
        rules: Vec<Rule<'d>>,
        (scope, directive, values): (&Scope<'d>, &'d Directive, &Values),
        (language, stages): (&Language, &mut Vec<(Whom, Map)>),
        located: &mut Located,
    ) -> Option<Map> {
        for rule in rules {
            let keys = match &rule.outcome {
                Outcome::Rewritten(to) => self.forwarded_by(scope, directive, values.clone(), Some(to)),
                Outcome::Handled(inner) => {
                    let within = scope.within(inner.inner());
                    self.forwarded_by(&within, inner, values.clone(), None)
                }
                outcome => self.keys_of(outcome, scope, values),
            };
            match rule.whom {
                Whom::All => return Some(keys),
                Whom::Paths(text) => {
                    located.is_over |= covers(&text, language);
                    located.cells.push(self.narrowed(language, &text, stages, keys, directive));
                }
                Whom::Hosts(_) => {
                    let mut keys = respond(501);
                    keys.comment(self.report.left_out(
                        &directive.place,
                        "if ($host …)",
                        "within a location; answered 501",
                    ));
                    return Some(keys);
                }
                whom => stages.push((whom, keys)),
            }
        }
        None
    }

    /// The paths of a location that an expression matches, too.
    fn narrowed(
        &self,
        language: &Language,
        text: &str,
        stages: &[(Whom, Map)],
        keys: Map,
        directive: &Directive,
    ) -> Cell {
        let apart = || {
            let kept = |keys: &Map| if keys.holds(REST) { self.closed(directive, NO_REST) } else { keys.clone() };
            stages.iter().map(|(whom, keys)| (whom.clone(), kept(keys))).collect()
        };
        let own = written(language);
        let is_within = || -> Option<bool> {
            let (own, text) = (config::Expression::new(&own).ok()?, config::Expression::new(text).ok()?);
            let outside = text.except(&[own]);
            Some(config::Expression::shared(&[&outside], &mut config::Comparison::of_paths()).ok()?.is_none())
        };
        if is_within() == Some(true) {
            let except = match language {
                Language::Expression { except, .. } => except.clone(),
                _ => Vec::new(),
            };
            return self.cell(Language::Expression { text: text.to_owned(), except }, apart(), keys);
        }
        if let Language::Prefix(start) = language
            && let Some(text) = covering(text, start)
        {
            return self.cell(Language::Expression { text, except: Vec::new() }, apart(), keys);
        }
        let mut closed = respond(501);
        let why = "an expression that meets its location in the middle; the location is answered 501";
        closed.comment(self.report.left_out(&directive.place, &directive.shown(), why));
        self.cell(language.clone(), stages.to_vec(), closed)
    }

    /// `limit_except`: other methods meet the rules within.
    fn limited_methods(
        &mut self,
        scope: &Scope<'d>,
        location: &'d Directive,
        values: &Values,
        stages: &mut Vec<(Whom, Map)>,
    ) {
        let Some(directive) = location.inner().iter().find(|directive| directive.name == "limit_except") else {
            return;
        };
        let mut methods: Vec<String> = directive.args.iter().map(|method| method.to_ascii_uppercase()).collect();
        methods.retain(|method| crate::conditions::is_method(method));
        if methods.iter().any(|method| method == "GET") && !methods.iter().any(|method| method == "HEAD") {
            methods.push("HEAD".to_owned());
        }
        let within = scope.within(directive.inner());
        let is_known = |inner: &Directive| {
            let known = ["allow", "deny", "auth_basic", "auth_basic_user_file", "satisfy", "proxy_pass", "grpc_pass"];
            known.contains(&inner.name.as_str())
        };
        let is_pass = |inner: &Directive| matches!(inner.name.as_str(), "proxy_pass" | "grpc_pass");
        let keys = match directive.inner().iter().find(|inner| !is_known(inner)) {
            Some(inner) => self.closed(inner, "within `limit_except`"),
            None if self.denies_all(&within) => respond(403),
            None if directive.inner().iter().any(is_pass) => {
                self.forwarded_by(&within, directive, values.clone(), None)
            }
            // The same handler under other rules.
            None if location.inner().iter().any(is_pass) => self.forwarded_by(&within, location, values.clone(), None),
            None => self.closed(directive, "nothing is forwarded there"),
        };
        stages.push((Whom::NotMethods(methods), keys));
    }

    /// What a location does with requests that came so far.
    pub(crate) fn forwarded_by(
        &mut self,
        scope: &Scope<'d>,
        location: &'d Directive,
        values: Values,
        path: Option<&str>,
    ) -> Map {
        let is_pass = |directive: &&Directive| matches!(directive.name.as_str(), "proxy_pass" | "grpc_pass");
        if let Some(pass) = location.inner().iter().rev().find(is_pass) {
            // What else has a say in what is served: files that are tried first, another handler.
            let beside = |directive: &&Directive| directive.name == "try_files" || known::is_handler(&directive.name);
            if let Some(beside) = location.inner().iter().find(beside) {
                return self.closed(beside, "it stands beside what forwards");
            }
            return self.passed(pass, scope, location, values, path);
        }
        // Who may not come in gets nothing, whatever would be done.
        if self.denies_all(scope) {
            return respond(403);
        }
        if let Some(directive) = location.inner().iter().find(|directive| known::is_handler(&directive.name)) {
            if known::is_for_programs_beside(&directive.name) {
                return self.beside(directive, scope);
            }
            return self.closed(directive, "nothing here does this");
        }
        self.filed(scope, location, values)
    }

    /// The keys for what a program beside has to serve. Not where somebody is kept out: to that program all clients come from here.
    pub(crate) fn beside(&self, directive: &Directive, scope: &Scope<'d>) -> Map {
        if let Some(guard) = guards::at(scope).first() {
            let why = format!("`{}` ({}) guards it, which a program beside cannot do", guard.shown(), guard.place);
            return self.closed(directive, &why);
        }
        let mut keys = respond(501);
        keys.comment(self.report.beside(&directive.place, &directive.shown()));
        keys
    }

    /// The keys for a handler that cannot be carried.
    pub(crate) fn closed(&self, directive: &Directive, why: &str) -> Map {
        let mut keys = respond(501);
        keys.comment(self.report.left_out(&directive.place, &directive.shown(), &format!("{why}; answered 501")));
        keys
    }

    /// `proxy_pass`, and all that goes with it.
    fn passed(
        &mut self,
        pass: &'d Directive,
        scope: &Scope<'d>,
        location: &'d Directive,
        mut values: Values,
        path: Option<&str>,
    ) -> Map {
        let prefix = if pass.name == "grpc_pass" { "grpc" } else { "proxy" };
        let mut route = Map::default();
        if let Some(directive) = known::changes_request(scope) {
            return self
                .closed(pass, &format!("what is forwarded is changed by `{}` ({})", directive.name, directive.place));
        }
        if let Some(directive) = known::unknown(scope) {
            return self.closed(directive, "it is not known here");
        }
        let (upstream, proxy) = match self.proxied(pass, scope, &mut values) {
            Ok(found) => found,
            Err(why) => return self.closed(pass, &why),
        };
        if proxy.is_untouched && path.is_some() {
            return self.closed(pass, "a path is rewritten, and the one before goes on");
        }
        let has_target = location.inner().iter().any(|one| is_untouched(location.inner(), one));
        let is_path = proxy.uri.as_deref() == Some("${uri}");
        if path.is_some() && proxy.has_variables && !(has_target && is_path) {
            return self.closed(pass, "a path is rewritten, and the URI is made of variables");
        }
        route.set("upstream", upstream);
        match Self::rewritten(&proxy, location, &values, path) {
            Ok(Some(rewrite)) => route.set("rewrite", rewrite),
            Ok(None) => {}
            Err(why) => return self.closed(pass, &why),
        }
        // nginx decodes what it puts in place of a path, be it the same: `%2F` would go on as a slash.
        if !has_target && (proxy.uri.is_some() || route.get("rewrite").is_some()) {
            route.set("allow_encoded_slash", Value::plain(false));
        }
        if proxy.has_variables && path.is_none() && drops_query(&proxy, &values) {
            return self.closed(pass, "the query of the request would go on, which it does not");
        }
        if let Err(why) = self.request_fields(prefix, scope, &proxy, &values, &mut route) {
            return self.closed(pass, &why);
        }
        self.response_fields(scope, None, &values, &mut route);
        self.sizes(prefix, scope, &mut route);
        let access = self.access(scope, &values);
        access.comments.iter().for_each(|comment| route.comment(comment.as_str()));
        if !access.policies.is_empty() {
            route.set("policies", Value::List(access.policies.into_iter().map(Value::text).collect()));
        }
        self.pages(scope, &values, &mut route);
        self.compressed(scope, &mut route);
        route
    }

    /// The path that goes upstream, where it is another one.
    fn rewritten(
        proxy: &Proxy,
        location: &Directive,
        values: &Values,
        path: Option<&str>,
    ) -> Result<Option<String>, String> {
        if let Some(path) = path {
            return Ok(Some(path.to_owned()));
        }
        let Some(uri) = proxy.uri.as_deref() else { return Ok(None) };
        if !uri.starts_with('/') {
            return Err("its URI does not begin with a slash".to_owned());
        }
        let (to, _) = values.target(uri)?;
        if to == "{path}" {
            return Ok(None);
        }
        if proxy.has_variables {
            return Ok(Some(to));
        }
        // `if` and expressions have no start that could be replaced.
        if start_of(location).is_none() {
            return Err("a URI behind the server of a location by expression".to_owned());
        }
        if to.contains('?') {
            return Err("a query behind the server".to_owned());
        }
        // The same path, too, is put in: without an empty query.
        Ok(Some(if is_exact(location) { to } else { format!("{to}{REST}") }))
    }

    /// Sizes and times of a location.
    fn sizes(&self, prefix: &str, scope: &Scope<'_>, route: &mut Map) {
        let read = scope.word(&format!("{prefix}_read_timeout")).and_then(milliseconds);
        // A minute there and here.
        if let Some(read) = read.filter(|time| *time > 0 && *time != 60_000) {
            route.set("response_header_timeout", duration(read));
            route.set("stream_idle_timeout", duration(read));
        }
        let max_body = scope.word("client_max_body_size").and_then(size).map_or(self.max_body, native_body);
        if max_body != self.max_body {
            route.set("max_body", bytes(max_body));
        }
        let is_own = |name: &str| scope.own().iter().any(|directive| directive.name == name);
        let time = scope.word("client_body_timeout").filter(|_| is_own("client_body_timeout")).and_then(milliseconds);
        if let Some(time) = time.filter(|time| *time > 0) {
            route.set("client_idle_timeout", duration(time));
        }
    }
}

/// Whether nginx would forward without the query.
fn drops_query(proxy: &Proxy, values: &Values) -> bool {
    let target = proxy.uri.as_deref().map(|uri| values.target(uri));
    matches!(target, Some(Ok((_, Query::Drop))))
}

/// Whether the path of a folder without its last slash has a location of its own, which counts before the redirect. One around the folder does not, nor one
/// that is further within others: nginx redirects before it looks there.
fn is_said_otherwise(placed: &[Placed<'_>], folder: &Placed<'_>) -> bool {
    let (Language::Prefix(start) | Language::Exact(start)) = &folder.language else { return false };
    let path = start.trim_end_matches('/');
    placed.iter().any(|other| {
        let is_around =
            other.chain.last().is_some_and(|outer| folder.chain.iter().any(|own| std::ptr::eq(*own, *outer)));
        let is_further_within = other.chain.len() > folder.chain.len();
        !is_around
            && !is_further_within
            && matches!(&other.language, Language::Exact(text) | Language::Prefix(text) if text == path)
    })
}

/// The largest body natively: 0 is none there.
pub(crate) fn native_body(size: u64) -> u64 {
    if size == 0 { 1 << 40 } else { size.min(1 << 40) }
}

#[derive(Default)]
struct Located {
    cells: Vec<Cell>,
    /// Whether it forwards, so that paths without the last slash are redirected.
    forwards: bool,
    /// Its rules have all of its paths.
    is_over: bool,
    /// Nobody gets anything of it from outside, without the last slash either.
    is_internal: bool,
}

fn has_handler(location: &Directive) -> bool {
    let names = ["proxy_pass", "grpc_pass", "fastcgi_pass", "uwsgi_pass", "scgi_pass", "memcached_pass"];
    location.inner().iter().any(|directive| names.contains(&directive.name.as_str()))
}

fn status_of(keys: &Map) -> u16 {
    match keys.get("status") {
        Some(Value::Plain(status)) => status.parse().unwrap_or(200),
        _ => 308,
    }
}

impl Stages {
    /// Adds what is done with some of those who came so far.
    fn add(&mut self, whom: Whom, keys: Map) {
        match whom {
            Whom::Like(when) => {
                let come = When::of_methods(self.methods.clone().unwrap_or_default());
                let is_nobody = self.methods.as_ref().is_some_and(Vec::is_empty);
                if let Ok(Some(when)) = when.and(&come)
                    && !is_nobody
                {
                    self.variants.push(Variant { when, keys });
                }
            }
            Whom::NotMethods(listed) => {
                let mut listed = listed;
                let has = |listed: &[String], method: &str| listed.iter().any(|one| one == method);
                // HEAD would go where GET is.
                if has(&listed, "GET") && !has(&listed, "HEAD") {
                    self.add(Whom::Like(When::methods(&["HEAD"])), keys.clone());
                }
                match &self.methods {
                    None => self.others = Some(keys),
                    Some(come) => {
                        let stay: Vec<String> =
                            come.iter().filter(|method| !listed.contains(method)).cloned().collect();
                        listed.retain(|method| come.contains(method));
                        if !stay.is_empty() {
                            self.variants.push(Variant { when: When::of_methods(stay), keys });
                        }
                    }
                }
                self.methods = Some(listed);
            }
            Whom::All | Whom::Hosts(_) | Whom::Paths(_) => {}
        }
    }

    fn finish(mut self, last: Map) -> Vec<Variant> {
        let come = self.methods.unwrap_or_default();
        let mut out = Vec::new();
        match self.others {
            None => out.push(Variant { when: When::default(), keys: last }),
            Some(others) => {
                if !come.is_empty() {
                    out.push(Variant { when: When::of_methods(come), keys: last });
                }
                out.push(Variant { when: When::default(), keys: others });
            }
        }
        while let Some(variant) = self.variants.pop() {
            let mut all = without_implied(&variant.when, &out);
            all.push(variant);
            all.append(&mut out);
            out = all;
        }
        out
    }
}

/// The native expression of a language, but for what it leaves out.
fn written(language: &Language) -> String {
    match language {
        Language::Exact(path) => literal(path),
        Language::Prefix(start) => format!("{}.*", literal(start)),
        Language::Below(path) => format!("{}(?:/.*)?", literal(path)),
        Language::Expression { text, .. } => text.clone(),
    }
}

/// Whether an expression matches no path of a language.
pub(super) fn is_apart(text: &str, language: &Language) -> bool {
    let shared = || -> Option<Option<_>> {
        let (own, text) = (config::Expression::new(&written(language)).ok()?, config::Expression::new(text).ok()?);
        config::Expression::shared(&[&own, &text], &mut config::Comparison::of_paths()).ok()
    };
    matches!(shared(), Some(None))
}

/// Whether an expression matches all paths of a language.
fn covers(text: &str, language: &Language) -> bool {
    let outside = || -> Option<Option<_>> {
        let (own, text) = (config::Expression::new(&written(language)).ok()?, config::Expression::new(text).ok()?);
        config::Expression::shared(&[&own.except(&[text])], &mut config::Comparison::of_paths()).ok()
    };
    matches!(outside(), Some(None))
}

/// An expression of a start and a group of all that follows, narrowed to the paths of a location that begins so: `^/a/(.*)` and `/a/b/` are `/a/(b/.*)`.
fn covering(text: &str, location: &str) -> Option<String> {
    // How the native forms of such expressions go on behind their start.
    let all = ["^/(.*)", "^/(.*)$"]
        .into_iter()
        .filter_map(|whole| Some(native(whole, false, Subject::Decoded).ok()?.strip_prefix("/(")?.to_owned()));
    let (start, all) = all.filter_map(|all| Some((text.strip_suffix(all.as_str())?.strip_suffix('(')?, all))).next()?;
    let mut parts = (0..=location.len()).rev().filter_map(|at| location.split_at_checked(at));
    let (_, rest) = parts.find(|(own, _)| literal(own) == start)?;
    Some(format!("{start}({}{all}", literal(rest)))
}
