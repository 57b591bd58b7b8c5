//! Arguments in, exit code out.
#![forbid(unsafe_code)]

use clap::Parser;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> std::process::ExitCode {
    portunus::cli::run(portunus::cli::Arguments::parse())
}
