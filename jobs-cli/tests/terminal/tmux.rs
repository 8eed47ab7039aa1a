//! A real terminal: a pane of a `tmux` server that belongs to the test.

use std::process::{Command, Output};
use std::thread;
use std::time::{Duration, Instant};

/// Longer than anything takes on a loaded machine.
const LONG: Duration = Duration::from_secs(60);

/// A terminal of 80 columns and 24 rows, with a shell in it. Its server ends with it.
pub(crate) struct Tmux {
    /// The name of the server's socket.
    name: String,
}

impl Tmux {
    /// Starts a terminal. Returns `None`, and says so, where `tmux` is not installed.
    pub(crate) fn start(name: &str) -> Option<Tmux> {
        if Command::new("tmux").arg("-V").output().is_err() {
            eprintln!(
                "skipped: it needs a terminal, and `tmux` is not installed: on Debian it is in the package tmux"
            );
            return None;
        }
        let tmux = Tmux { name: format!("tickwheel-{name}-{}", std::process::id()) };
        tmux.tmux(&["new-session", "-d", "-x", "80", "-y", "24", "sh"]);
        // The typed commands are no part of what is compared.
        tmux.type_line("PS1='$ '; stty -echo; clear; echo before");
        tmux.wait_for("before");
        Some(tmux)
    }

    fn tmux(&self, args: &[&str]) -> Output {
        let mut tmux = Command::new("tmux");
        tmux.args(["-L", &self.name, "-f", "/dev/null"]).args(args);
        // A backtrace is longer than the terminal.
        tmux.env("RUST_BACKTRACE", "0").output().unwrap()
    }

    /// Types a line into the shell.
    pub(crate) fn type_line(&self, line: &str) {
        self.tmux(&["send-keys", "-l", line]);
        self.press("Enter");
    }

    /// Presses a key: a character, or a name that tmux has for it.
    pub(crate) fn press(&self, key: &str) {
        self.tmux(&["send-keys", key]);
    }

    pub(crate) fn resize(&self, width: u16, height: u16) {
        self.tmux(&["resize-window", "-x", &width.to_string(), "-y", &height.to_string()]);
    }

    /// Returns what the terminal shows.
    pub(crate) fn screen(&self) -> String {
        String::from_utf8(self.tmux(&["capture-pane", "-p"]).stdout).unwrap()
    }

    /// Waits until the terminal shows a text, and returns all that it shows.
    pub(crate) fn wait_for(&self, text: &str) -> String {
        self.wait_until(text, |screen| screen.contains(text))
    }

    pub(crate) fn wait_until(&self, what: &str, holds: impl Fn(&str) -> bool) -> String {
        let started = Instant::now();
        loop {
            let screen = self.screen();
            if holds(&screen) {
                return screen;
            }
            assert!(started.elapsed() < LONG, "{what:?} never came:\n{screen}");
            thread::sleep(Duration::from_millis(20));
        }
    }

    /// Says whether a program has taken the other screen.
    pub(crate) fn is_taken(&self) -> bool {
        self.flag("#{alternate_on}") == "1"
    }

    fn flag(&self, flag: &str) -> String {
        let output = self.tmux(&["display-message", "-p", flag]);
        String::from_utf8(output.stdout).unwrap().trim().to_owned()
    }

    /// Asserts that the terminal is as it was before a program took it, and that it shows `said`.
    pub(crate) fn assert_given_back(&self, said: &str) {
        self.wait_for(said);
        let screen = self.screen();
        assert!(screen.contains("before"), "the screen was not given back:\n{screen}");
        assert!(!self.is_taken(), "the other screen is still there:\n{screen}");
        assert_eq!(self.flag("#{cursor_flag}"), "1", "the cursor is hidden");
        self.type_line("stty -a | tr ' ' '\\n' | grep -c -x icanon | sed 's/^/lines: /'");
        self.wait_for("lines: 1");
    }
}

impl Drop for Tmux {
    fn drop(&mut self) {
        self.tmux(&["kill-server"]);
    }
}
