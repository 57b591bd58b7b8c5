//! Base paths: from `servers`, or from the configuration in their place. Hosts and schemes of servers are not looked at: routes are.

use super::{At, Reader};
use crate::openapi::template::Template;

/// Paths that one list of servers may stand for once its variables are filled in.
const MAX_BASES: usize = 64;

impl<'d> Reader<'d> {
    /// The base paths of a `servers` list; none if there is no list or the configuration has the say.
    pub(super) fn base_paths(&mut self, servers: Option<At<'d>>) -> Option<Vec<Template>> {
        if self.options.base_path.is_some() {
            return None;
        }
        let servers = servers.filter(|servers| !servers.node.elements().is_empty())?;
        let mut bases: Vec<Template> = Vec::new();
        for server in servers.elements() {
            let (found, problems) = self.apart(|reader| reader.bases_of(server));
            for base in found {
                if !bases.contains(&base) && bases.len() < MAX_BASES {
                    bases.push(base);
                }
            }
            // Under a base path that is left out nothing is found, so nothing passes.
            for fault in problems.faults {
                self.warn_at(fault.place, fault.message);
            }
        }
        if bases.is_empty() {
            self.fault(servers, "no server has a base path that can be used, so no path is reached; set `base_path`");
        }
        Some(bases)
    }

    /// The base paths of one server; with problems those that can be used.
    fn bases_of(&mut self, server: At<'d>) -> Vec<Template> {
        self.known(server, "a server", &["url", "description", "variables", "name"]);
        let Some(url) = self.text(server, "url") else {
            self.fault(server, "a server needs its `url`");
            return Vec::new();
        };
        let mut bases = Vec::new();
        for url in self.filled(server, url) {
            let path = path_of(&url);
            match Template::parse(&path) {
                Ok(base) if base.names.is_empty() => bases.push(base),
                Ok(_) => {
                    self.fault(server, format!("the path `{path}` holds a variable that `variables` does not declare"))
                }
                Err(why) => self.fault(server, format!("the path `{path}`: {why}")),
            }
        }
        bases
    }

    /// The base path where no server says any.
    pub(super) fn root_base(&mut self) -> Vec<Template> {
        let path = self.options.base_path.as_deref().unwrap_or("/");
        match Template::parse(path) {
            Ok(base) if base.names.is_empty() => vec![base],
            Ok(_) => self.configured_fault("holds a template expression"),
            Err(why) => self.configured_fault(&why.to_string()),
        }
    }

    fn configured_fault(&mut self, why: &str) -> Vec<Template> {
        self.faults.push(crate::document::Fault::new(Default::default(), format!("the configured base path: {why}")));
        Vec::new()
    }

    /// The URL with every combination of its path's variables filled in: all of `enum`, or `default`.
    fn filled(&mut self, server: At<'d>, url: &str) -> Vec<String> {
        let mut urls = vec![url.to_owned()];
        for (name, variable) in server.get("variables").into_iter().flat_map(At::members) {
            let written = format!("{{{name}}}");
            if !url.contains(&written) {
                continue;
            }
            let text = |at: At<'d>| scalar_text(at);
            let mut values: Vec<String> =
                variable.get("enum").into_iter().flat_map(At::elements).filter_map(text).collect();
            if values.is_empty() || !path_of(url).contains(&written) {
                values = variable.get("default").and_then(text).into_iter().collect();
            }
            if values.is_empty() {
                self.fault(variable, "a variable needs a `default`");
            }
            urls = urls
                .iter()
                .flat_map(|url| values.iter().map(|value| url.replace(&written, value)))
                .take(MAX_BASES + 1)
                .collect();
        }
        if urls.len() > MAX_BASES {
            self.fault(server, format!("stands for more than {MAX_BASES} paths"));
        }
        urls
    }
}

/// Real documents write versions and ports without quotes.
fn scalar_text(at: At<'_>) -> Option<String> {
    use crate::document::Kind;
    match &at.node.kind {
        Kind::String(text) | Kind::Number(text) => Some(text.clone()),
        _ => None,
    }
}

/// The path of a server's URL. A relative one is taken from the root: where the document is served from is not known here.
fn path_of(url: &str) -> String {
    let url = url.split(['?', '#']).next().unwrap_or_default();
    let path = match url.split_once("//") {
        Some((before, rest)) if before.is_empty() || before.ends_with(':') => {
            rest.find('/').and_then(|at| rest.get(at..)).unwrap_or("/")
        }
        _ => url.trim_start_matches('.'),
    };
    // The paths below begin with a slash of their own.
    format!("/{}", path.trim_matches('/'))
}

#[cfg(test)]
mod tests {
    use super::path_of;

    #[test]
    fn paths_of_server_urls() {
        let rows = [
            ("https://api.example.com/v1", "/v1"),
            ("https://api.example.com/v1/", "/v1"),
            ("https://api.example.com", "/"),
            ("//api.example.com/v1", "/v1"),
            ("{scheme}://api.example.com/v1", "/v1"),
            ("/v1", "/v1"),
            ("v1", "/v1"),
            ("./v1", "/v1"),
            ("/", "/"),
            ("", "/"),
            ("https://api.example.com/a?b#c", "/a"),
        ];
        for (url, expected) in rows {
            assert_eq!(path_of(url), expected, "{url}");
        }
    }
}
