//! What must hold for every input of a parser or matcher of the program. Shared by the corpus replay (`fuzz_corpus.rs`) and the fuzz targets.

pub mod route;
pub mod routes_json;

use portunus::config::{self, Config};

/// A named target and its check.
pub type Target = (&'static str, fn(&[u8]));

/// The targets that have a corpus.
#[allow(dead_code, reason = "a fuzz target uses one of them alone")]
pub const ALL: [Target; 2] = [("routes_json", routes_json::check), ("route", route::check)];

/// A configuration with one plain listener called `web`, and no routes.
fn empty_config() -> Config {
    let text = "listeners: [{ name: web, bind: \"127.0.0.1:0\" }]";
    config::parse("fuzz.yaml", text, std::path::Path::new("")).expect("a listener is enough")
}
