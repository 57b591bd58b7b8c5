//! `ssl_*` of servers, as the TLS settings of listeners and names, and the keystore that they share.

use std::collections::BTreeSet;

use super::listen::{Listener, Names};
use super::scope::Scope;
use super::site::Making;
use crate::certificates::{Pair, Version, keystore, put_policy};
use crate::conditions::is_in;
use crate::migration::absolute;
use crate::native::{Map, Value};

/// Suites of TLS 1.2 that ours offers.
const SUITES: [&str; 6] = [
    "ECDHE-ECDSA-AES128-GCM-SHA256",
    "ECDHE-RSA-AES128-GCM-SHA256",
    "ECDHE-ECDSA-CHACHA20-POLY1305",
    "ECDHE-RSA-CHACHA20-POLY1305",
    "ECDHE-ECDSA-AES256-GCM-SHA384",
    "ECDHE-RSA-AES256-GCM-SHA384",
];

impl<'d> Making<'d> {
    /// The `tls` of a listener; an error if it cannot be served.
    pub(crate) fn listener_tls(&mut self, listener: &Listener, servers: &[(Scope<'d>, Names)]) -> Result<Map, String> {
        let of = |at: &usize| servers.get(*at);
        let default = of(&listener.socket.default).ok_or("no server")?;
        let mut pairs: Vec<Pair> = Vec::new();
        // The default server's certificate is for whoever asks for no other.
        let order = [listener.socket.default].into_iter().chain(listener.socket.servers.iter().copied());
        for (scope, _) in order.filter_map(|at| of(&at)) {
            for pair in self.pairs(scope)? {
                if !pairs.iter().any(|other| other.certificate == pair.certificate) {
                    pairs.push(pair);
                }
            }
        }
        let is_strict = default.0.is_on("ssl_reject_handshake");
        if pairs.is_empty() {
            return Err("no certificate is named".to_owned());
        }
        let wanted = default.1.hosts.iter().find(|host| !host.starts_with("*.")).cloned();
        let store = keystore(&pairs, wanted.as_deref(), &mut self.files, &mut self.links, self.report);
        let name = self.draft.keystores.intern("main", store);
        let mut tls = Map::of([("keystore", Value::text(name))]);
        if !listener.socket.http2 {
            tls.set("alpn", "http/1.1");
        }
        if is_strict {
            tls.set("strict_sni", Value::plain(true));
            tls.set("require_sni", Value::plain(true));
        }
        let general = self.settings(&default.0)?;
        general.comments().iter().for_each(|comment| tls.comment(comment.as_str()));
        general.entries().for_each(|(key, value)| tls.set(key, value.clone()));
        // Of a name that two servers have the first counts.
        let mut taken = BTreeSet::new();
        let mut all = Vec::new();
        for at in &listener.socket.servers {
            let Some((scope, names)) = of(at) else { continue };
            let hosts: Vec<String> = names.hosts.iter().filter(|host| taken.insert((*host).clone())).cloned().collect();
            all.push((self.settings(scope)?, hosts));
        }
        let wildcards: Vec<String> = all
            .iter()
            .filter(|(own, _)| *own != general)
            .flat_map(|(_, hosts)| hosts.iter().filter(|host| host.starts_with("*.")).cloned())
            .collect();
        for (own, hosts) in all {
            let is_covered = hosts.iter().any(|host| wildcards.iter().any(|wider| host != wider && is_in(host, wider)));
            if !hosts.is_empty() && (own != general || is_covered) {
                tls.push("names", self.of_names(&own, &general, hosts));
            }
        }
        Ok(tls)
    }

    /// The settings of a name, where they are others than those of the listener.
    fn of_names(&self, own: &Map, general: &Map, hosts: Vec<String>) -> Map {
        let mut out = Map::of([("host", Value::texts(hosts))]);
        own.comments().iter().for_each(|comment| out.comment(comment.as_str()));
        for (key, value) in own.entries() {
            out.set(key, value.clone());
        }
        for (key, _) in general.entries().filter(|(key, _)| own.get(key).is_none()) {
            // What the listener says would hold for the name, too.
            out.set(key, if key == "policy" { "intermediate" } else { "none" });
        }
        if out.entries().count() == 1 {
            out.set("client_certificate", "none");
        }
        out
    }

    /// The certificates of a server.
    fn pairs(&self, scope: &Scope<'_>) -> Result<Vec<Pair>, String> {
        let certificates = scope.all(&["ssl_certificate"]);
        let keys = scope.all(&["ssl_certificate_key"]);
        let mut out = Vec::new();
        for (at, certificate) in certificates.iter().enumerate() {
            if certificate.arg(0).contains('$') || certificate.arg(0).starts_with("data:") {
                return Err("certificates are chosen by a variable".to_owned());
            }
            let key = keys.get(at).map(|key| key.arg(0));
            if key.is_some_and(|key| key.contains(['$', ':'])) {
                return Err("a key is chosen by a variable, or is none of a file".to_owned());
            }
            let file = self.root.join(certificate.arg(0));
            out.push(Pair::new(file, key.map(|key| self.root.join(key)), &certificate.place));
        }
        Ok(out)
    }

    /// Versions and client certificates.
    fn settings(&self, scope: &Scope<'_>) -> Result<Map, String> {
        let mut out = Map::default();
        if let Some(directive) = scope.one("ssl_protocols") {
            let versions: Vec<Version> = directive
                .args
                .iter()
                .map(|arg| match arg.as_str() {
                    "TLSv1.3" => Version::Tls13,
                    "TLSv1.2" => Version::Tls12,
                    _ => Version::Old,
                })
                .collect();
            put_policy(&mut out, &versions, (&directive.place, &directive.shown()), self.report);
        }
        if let Some(directive) = scope.one("ssl_ciphers") {
            let list = directive.arg(0);
            let is_general = ["HIGH", "DEFAULT", "ALL", "EECDH", "ECDHE+"].iter().any(|word| list.contains(word));
            if !is_general && !SUITES.iter().all(|suite| list.split(':').any(|one| one == *suite)) {
                let why = "suites are those of a policy, and this list lacks some of them";
                out.comment(self.report.left_out(&directive.place, "ssl_ciphers", why));
            }
        }
        for command in scope.all(&["ssl_conf_command"]) {
            if command.arg(0).starts_with("Verify") || command.arg(0).starts_with("Client") {
                return Err(format!("`{}` verifies clients ({})", command.shown(), command.place));
            }
            out.comment(self.report.left_out(
                &command.place,
                &command.shown(),
                "a command of OpenSSL's has no counterpart",
            ));
        }
        if let Some(client) = self.client_certificate(scope, &mut out)? {
            out.set("client_certificate", client);
        }
        Ok(out)
    }

    fn client_certificate(&self, scope: &Scope<'_>, out: &mut Map) -> Result<Option<Map>, String> {
        let Some(directive) = scope.one("ssl_verify_client") else { return Ok(None) };
        let mode = match directive.arg(0).to_ascii_lowercase().as_str() {
            "on" => "required",
            "optional" => "optional",
            "off" => return Ok(None),
            _ => {
                let why = "nobody is asked for a certificate, since none would be verified";
                out.comment(self.report.left_out(&directive.place, &directive.shown(), why));
                return Ok(None);
            }
        };
        if let Some(ocsp) = scope.one("ssl_ocsp").filter(|ocsp| ocsp.arg(0) != "off") {
            return Err(format!("whether client certificates are revoked is not asked by OCSP ({})", ocsp.place));
        }
        let ca = scope.one("ssl_client_certificate").or(scope.one("ssl_trusted_certificate"));
        let ca = self.root.join(ca.ok_or("client certificates are to be verified, and no authority is named")?.arg(0));
        let crl = scope.one("ssl_crl").map(|crl| self.root.join(crl.arg(0)));
        self.report.expect(&self.files, [Some(&ca), crl.as_ref()].into_iter().flatten(), &directive.place);
        let mut rule = Map::of([("mode", Value::text(mode)), ("ca", Value::text(absolute(&ca)))]);
        if let Some(crl) = crl {
            rule.set("crl", absolute(&crl));
        }
        Ok(Some(rule))
    }
}
