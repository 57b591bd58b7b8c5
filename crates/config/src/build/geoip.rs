//! `geoip`: the databases, and what is asked of them.

use super::{Build, Fault, address};
use crate::model::{Country, GeoipConfig, Networks, Origins, Template, Variable};
use crate::problem::{Span, shown};
use crate::yaml::{Node, Value};

/// What stands for those of whom a database knows nothing.
const UNKNOWN: &str = "unknown";

/// Which databases a file names.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Databases {
    country: bool,
    asn: bool,
}

impl Databases {
    /// Those of a file.
    pub(super) fn of(root: &Node) -> Databases {
        let has = |key: &str| root.get("geoip").is_some_and(|node| node.entry(key).is_some());
        Databases { country: has("country"), asn: has("asn") }
    }
}

/// An item of a list of clients.
#[derive(PartialEq)]
enum Listed {
    Network(ipnet::IpNet),
    Country(Option<Country>),
    Asn(Option<u32>),
}

impl Build<'_> {
    /// The databases.
    pub(super) fn geoip(&mut self, root: &Node) -> GeoipConfig {
        let Some(node) = root.get("geoip") else { return GeoipConfig::default() };
        if node.entries().is_empty() && matches!(node.value, Value::Map(_)) {
            self.problems.add(node.span, "`geoip` names no database", "add `country` or `asn`, or remove it");
        }
        GeoipConfig { country: self.file(node, "country"), asn: self.file(node, "asn") }
    }

    /// The countries and autonomous systems of a `when`.
    pub(super) fn origins(&mut self, node: &Node) -> Origins {
        let origins =
            Origins { countries: self.parsed_list(node, "country", country), asns: self.parsed_list(node, "asn", asn) };
        for (key, is_used) in [("country", !origins.countries.is_empty()), ("asn", !origins.asns.is_empty())] {
            if let Some(entry) = node.entry(key).filter(|_| is_used) {
                self.needs_database(entry.key_span, key);
            }
        }
        origins
    }

    /// The clients of a list: networks, countries, autonomous systems. `is_allowed`: these may pass.
    pub(super) fn clients(&mut self, node: &Node, list: &str, is_allowed: bool) -> Networks {
        let items = self.parsed_list(node, list, |text| listed(text, is_allowed));
        let span = node.get(list).map_or(node.span, |list| list.span);
        let mut networks = Networks::default();
        for item in items {
            match item {
                Listed::Network(network) => networks.listed.push(network),
                Listed::Country(country) => networks.origins.countries.push(country),
                Listed::Asn(asn) => networks.origins.asns.push(asn),
            }
        }
        for (key, is_used) in
            [("country", !networks.origins.countries.is_empty()), ("asn", !networks.origins.asns.is_empty())]
        {
            if is_used {
                self.needs_database(span, key);
            }
        }
        networks
    }

    fn needs_database(&mut self, span: Span, key: &str) {
        let has = if key == "country" { self.databases.country } else { self.databases.asn };
        if !has {
            let what = format!(
                "no database says which {} a client is in",
                if key == "asn" { "autonomous system" } else { key }
            );
            self.problems.add(span, what, format!("name one: `geoip: {{ {key}: FILE.mmdb }}`"));
        }
    }

    /// Notes the variables in templates for which there is no database.
    pub(super) fn variables_have_databases<'t>(&mut self, root: &Node, templates: impl Iterator<Item = &'t Template>) {
        let mut missing = [
            (Variable::ClientCountry, "country", "{client.country}", !self.databases.country, false),
            (Variable::ClientAsn, "asn", "{client.asn}", !self.databases.asn, false),
        ];
        for variable in templates.flat_map(Template::variables) {
            for (wanted, _, _, is_missing, is_used) in &mut missing {
                *is_used |= *is_missing && variable == wanted;
            }
        }
        for (_, key, text, _, is_used) in missing {
            if is_used {
                let place = ["log", "routes"].into_iter().filter_map(|key| find(root.get(key)?, text)).next();
                self.needs_database(place.unwrap_or(root.span), key);
            }
        }
    }
}

/// The first scalar below a node that holds this text.
fn find(node: &Node, text: &str) -> Option<Span> {
    match &node.value {
        Value::Map(entries) => entries.iter().find_map(|entry| find(&entry.value, text)),
        Value::List(items) => items.iter().find_map(|item| find(item, text)),
        _ => node.text().filter(|found| found.contains(text)).map(|_| node.span),
    }
}

fn listed(text: &str, is_allowed: bool) -> Result<Listed, Fault> {
    let item = match text.split_once(':') {
        Some(("country", code)) => Listed::Country(country(code)?),
        Some(("asn", number)) => Listed::Asn(asn(number)?),
        _ => Listed::Network(address::network(text)?),
    };
    match item {
        Listed::Country(None) | Listed::Asn(None) if is_allowed => Err(Fault::new(
            format!("{} may be anybody, so it cannot be let in", shown(text)),
            "list the networks of those who are meant",
        )),
        item => Ok(item),
    }
}

fn country(text: &str) -> Result<Option<Country>, Fault> {
    if text == UNKNOWN {
        return Ok(None);
    }
    let fault = || {
        let fix = "write its two letters in capitals, as in ISO 3166-1: `DE`; or `unknown`";
        Fault::new(format!("{} is no country", shown(text)), fix)
    };
    Country::of(text).map(Some).ok_or_else(fault)
}

fn asn(text: &str) -> Result<Option<u32>, Fault> {
    if text == UNKNOWN {
        return Ok(None);
    }
    let is_number = !text.starts_with('0') && text.bytes().all(|byte| byte.is_ascii_digit());
    let fault = || {
        let fix = "write its digits alone, 1 to 4294967295: `64500`; or `unknown`";
        Fault::new(format!("{} is no number of an autonomous system", shown(text)), fix)
    };
    text.parse().ok().filter(|_| is_number).map(Some).ok_or_else(fault)
}
