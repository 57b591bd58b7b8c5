//! `portunus top` in a terminal of its own (tmux): its tables, keys, another size, and the terminal as it was once it ends.

use std::process::Command;

use super::operate::Site;
use crate::harness::{PORTUNUS, wait_until};

/// A terminal with a shell in it, and nothing of the machine's own tmux.
struct Terminal {
    dir: tempfile::TempDir,
}

impl Drop for Terminal {
    fn drop(&mut self) {
        self.tmux(&["kill-server"]);
    }
}

impl Terminal {
    fn start() -> Terminal {
        let terminal = Terminal { dir: tempfile::tempdir().unwrap() };
        terminal.tmux(&["-f", "/dev/null", "new-session", "-d", "-x", "110", "-y", "30", "sh"]);
        terminal
    }

    fn tmux(&self, arguments: &[&str]) -> String {
        let mut command = Command::new("tmux");
        command.arg("-S").arg(self.dir.path().join("tmux")).args(arguments).env_remove("TMUX");
        let output = command.output().unwrap();
        assert!(output.status.success(), "{arguments:?}: {output:?}");
        String::from_utf8(output.stdout).unwrap()
    }

    fn screen(&self) -> String {
        self.tmux(&["capture-pane", "-p"])
    }

    fn press(&self, keys: &[&str]) {
        self.tmux(&[&["send-keys"], keys].concat());
    }

    /// Whether a program has the screen for itself.
    fn is_taken(&self) -> bool {
        self.tmux(&["display-message", "-p", "#{alternate_on}"]) == "1\n"
    }

    fn shows(&self, text: &str) {
        wait_until(text, || self.screen().contains(text));
    }

    /// Runs `portunus top`, and then says its exit status.
    fn top(&self, site: &Site) {
        let control = site.gate.dir.path().join("control.sock");
        let command = format!("{PORTUNUS} top --control {}; echo status $?", control.display());
        self.press(&[&command, "Enter"]);
        wait_until("the screen to be taken", || self.is_taken());
        self.shows("ready");
    }

    /// The shell reads keys, shows them and does what they say.
    fn is_given_back(&self) {
        wait_until("the screen to be given back", || !self.is_taken());
        self.shows("status 0");
        self.press(&["echo back$((40 + 2))", "Enter"]);
        self.shows("back42");
        self.shows("echo back$((40 + 2))");
    }
}

#[test]
fn a_terminal_shows_tables_follows_keys_and_is_given_back() {
    let site = Site::start();
    site.send(3);
    let terminal = Terminal::start();
    terminal.top(&site);
    terminal.shows(&site.name(0));
    terminal.shows("UPSTREAM");
    // By the number of a table, by the next one, and sorted.
    terminal.press(&["2"]);
    terminal.shows("BYTES OUT");
    terminal.press(&["s"]);
    terminal.shows("LISTENER ^");
    terminal.press(&["r"]);
    terminal.shows("LISTENER v");
    super::ask(site.gate.address("web"), "GET /\u{0}", "Host: a.test\r\n");
    terminal.press(&["Tab"]);
    terminal.shows("REASON");
    terminal.shows("client");
    terminal.press(&["5"]);
    terminal.shows("planned");
    // Another size is drawn anew.
    terminal.tmux(&["resize-window", "-x", "70", "-y", "12"]);
    wait_until("the other size", || {
        let screen = terminal.screen();
        screen.lines().count() == 12 && screen.contains("q quit") && screen.contains("planned")
    });
    terminal.press(&["q"]);
    terminal.is_given_back();
}

#[test]
fn a_signal_gives_the_terminal_back() {
    let site = Site::start();
    let terminal = Terminal::start();
    terminal.top(&site);
    let shell = terminal.tmux(&["display-message", "-p", "#{pane_pid}"]);
    let killed = Command::new("pkill").args(["-TERM", "--parent", shell.trim()]).status().unwrap();
    assert!(killed.success());
    terminal.is_given_back();
}
