//! Front doors: the arguments and files of other programs, translated into the one `Config`. Nothing else in the program knows of them.
#![forbid(unsafe_code)]

pub mod sillyproxy;
pub mod go_mmproxy;
mod go_flags;
pub mod gokeyless;
pub mod api_firewall;
mod go_duration;
pub mod proof;
pub mod haproxy;
pub mod ingress;
pub mod hitch;
pub mod stunnel;
pub mod mmproxy;
pub mod nginx;
mod certificates;
mod draft;
mod sites;
mod conditions;
mod cells;
mod migration;
mod files;
mod native;
mod header_fields;
mod expressions;
mod addresses;
mod stripped;

use config::Config;

/// What a front door made of its arguments.
#[derive(Debug)]
pub enum Front {
    /// Serve this.
    Run {
        /// What to serve.
        config: Box<Config>,
        /// What to tell the operator first, one line each.
        warnings: Vec<String>,
    },
    /// It cannot be done; exit code 1.
    Rejected {
        /// Why, one line each.
        problems: Vec<String>,
        /// How the other program writes one of them to its standard output.
        line: fn(&str) -> String,
    },
    /// All is done, or cannot be done.
    Exit {
        /// Exit code of the process.
        code: u8,
        /// For standard output.
        output: String,
        /// For standard error.
        errors: String,
    },
}
