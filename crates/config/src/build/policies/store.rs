//! `rate_store`: where nodes tell each other what they have counted.

use std::sync::Arc;

use super::super::{Build, Fault, address, read};
use crate::model::{RateScope, RateStoreConfig, RateStoreOptions, ServerConfig, UpstreamConfig, UpstreamProtocol};
use crate::problem::shown;
use crate::table::setting;
use crate::yaml::Node;

/// Name of the way to the store, in logs.
const NAME: &str = "rate-store";
/// Longest beginning of names in the store, bytes.
const MAX_PREFIX_BYTES: usize = 64;

impl Build<'_> {
    pub(in crate::build) fn rate_store(&mut self, root: &Node) -> Option<Arc<RateStoreConfig>> {
        let node = read::mapping(root, "rate_store");
        self.shared_rates_have_a_store(root, node);
        let node = node?;
        let at = node.get("address")?;
        let server = self.server(at.span, at.text()?, address::Service::Counters)?;
        if let (Some(entry), None) = (node.entry("user"), node.entry("password")) {
            self.problems.add(entry.key_span, "`user` without `password`", "add `password`, or remove `user`");
        }
        let options = RateStoreOptions::read(node);
        let upstream = UpstreamConfig {
            tls: self.upstream_tls(node),
            servers: vec![ServerConfig::at(server)],
            protocol: UpstreamProtocol::Tcp,
            connect_timeout: options.timeout,
            ..UpstreamConfig::new(NAME)
        };
        Some(Arc::new(RateStoreConfig {
            upstream: Arc::new(upstream),
            user: read::text(node, "user").map(str::to_owned),
            password: read::mapping(node, "password").and_then(|node| self.secret(node)),
            secret: self.secret(node.get("secret")?)?,
            nodes: read::int(node, "nodes")?,
            prefix: self.parsed(node, "prefix", prefix)?,
            options,
        }))
    }

    /// Notes rates that nodes share with nothing to share them by, and the other way round.
    fn shared_rates_have_a_store(&mut self, root: &Node, store: Option<&Node>) {
        let policies = root.get("policies").map(Node::entries).unwrap_or_default();
        let limits = policies.iter().filter_map(|policy| read::mapping(&policy.value, "rate_limit"));
        let shared: Vec<&Node> =
            limits.filter(|limit| setting::<RateScope>(limit, "scope") == RateScope::Fleet).collect();
        match (store, shared.first()) {
            (None, Some(limit)) => {
                let at = limit.entry("scope").map_or(limit.span, |entry| entry.value.span);
                let what = "`scope: fleet` without a `rate_store` by which nodes could share the rate";
                self.problems.add(at, what, "add `rate_store`, or write `scope: node`");
            }
            (Some(store), None) => {
                let what = "`rate_store` has no effect: no rate has `scope: fleet`";
                self.problems.add(store.span, what, "add `scope: fleet` to a `rate_limit`, or remove it");
            }
            _ => {}
        }
    }
}

/// What names in the store begin with: nothing that a pattern or a separator could be mistaken for.
fn prefix(text: &str) -> Result<String, Fault> {
    let fits = |byte: u8| byte.is_ascii_alphanumeric() || b"._-:{}".contains(&byte);
    if !text.is_empty() && text.len() <= MAX_PREFIX_BYTES && text.bytes().all(fits) {
        return Ok(text.to_owned());
    }
    let fix = format!("write 1 to {MAX_PREFIX_BYTES} letters, digits and `.`, `_`, `-`, `:`, `{{`, `}}`");
    Err(Fault::new(format!("{} cannot be what names begin with", shown(text)), fix))
}
