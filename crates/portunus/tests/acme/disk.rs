//! A gate whose store is on a small disk of its own, which can be filled.

use std::process::Command;

use super::edge;
use crate::harness::{Gate, PORTUNUS};

/// The disk, which only the gate sees.
pub struct SmallDisk;

impl SmallDisk {
    /// Starts a gate with one; none, said, where that takes more rights than there are.
    pub fn start(yaml: &str) -> Option<(Gate, SmallDisk)> {
        if !Command::new("unshare").args(["--mount", "true"]).status().is_ok_and(|status| status.success()) {
            eprintln!("skipped: a disk of one's own needs root");
            return None;
        }
        let dir = edge::folder();
        std::fs::create_dir(dir.path().join("store")).unwrap();
        let mut command = Command::new("unshare");
        let script = "mount -t tmpfs -o size=256k,mode=0700 none store && exec \"$@\"";
        command.args(["--mount", "--", "sh", "-c", script, "sh", PORTUNUS]).current_dir(dir.path());
        Some((Gate::start_by(dir, yaml, command), SmallDisk))
    }

    /// What a shell prints that sees the disk, under `$STORE`.
    pub fn run(&self, gate: &Gate, script: &str) -> String {
        let output = Command::new("nsenter")
            .args(["--mount", "--target", &gate.pid().to_string(), "--", "sh", "-c", script])
            .current_dir("/")
            .env("STORE", gate.dir.path().join("store"))
            .output()
            .unwrap();
        String::from_utf8(output.stdout).unwrap()
    }

    /// Leaves no room.
    pub fn fill(&self, gate: &Gate) {
        self.run(gate, "dd if=/dev/zero of=\"$STORE/filler\" bs=4k 2>/dev/null");
    }

    /// Leaves room again.
    pub fn free(&self, gate: &Gate) {
        self.run(gate, "rm \"$STORE/filler\"");
    }
}
