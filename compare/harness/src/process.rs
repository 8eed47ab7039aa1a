//! Runs a program to its end, and reads what it prints: lines of a name and a number.

use std::io::Read;
use std::process::{Command, Stdio};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use crate::Fallible;
use crate::case::{Figures, figure};

/// Runs a program and reads its figures.
pub fn figures(command: &mut Command, patience: Duration) -> Fallible<Figures> {
    parse(&output(command, patience)?)
}

/// Reads a line `NAME VALUE` for each figure.
fn parse(text: &str) -> Fallible<Figures> {
    let parsed = |line: &str| {
        let (name, value) = line.split_once(' ')?;
        Some(figure(name, value.trim().parse().ok()?))
    };
    text.lines().map(|line| parsed(line).ok_or_else(|| format!("`{line}` is no figure"))).collect()
}

/// Runs a program and returns its standard output. Its standard error is that of this process. A
/// program that takes longer than `patience` is killed, and has failed. This process does not poll
/// meanwhile, so it takes no processor time from the one that is measured.
pub fn output(command: &mut Command, patience: Duration) -> Fallible<String> {
    let spawned = command.stdout(Stdio::piped()).spawn();
    let mut child = spawned.map_err(|error| format!("{command:?}: {error}"))?;
    let mut output = child.stdout.take().ok_or("no output")?;
    let (done, text) = mpsc::channel();
    thread::spawn(move || {
        let mut text = String::new();
        // The reader has stopped waiting when its time is over.
        let _ = done.send(output.read_to_string(&mut text).map(|_| text));
    });
    let Ok(text) = text.recv_timeout(patience) else {
        let _ = child.kill();
        let _ = child.wait();
        return Err(format!("not done after {patience:?}"));
    };
    let status = child.wait().map_err(|error| error.to_string())?;
    if !status.success() {
        return Err(status.to_string());
    }
    text.map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shell(script: &str, patience: Duration) -> Fallible<Figures> {
        figures(Command::new("sh").args(["-c", script]), patience)
    }

    #[test]
    fn figures_are_read() {
        let patience = Duration::from_secs(60);
        assert_eq!(
            shell("echo a 1.5; echo b 2", patience),
            Ok(vec![figure("a", 1.5), figure("b", 2.0)])
        );
        assert_eq!(shell("echo a", patience), Err("`a` is no figure".to_owned()));
        assert_eq!(shell("echo a 1; exit 3", patience), Err("exit status: 3".to_owned()));
    }

    #[test]
    fn one_that_hangs_has_failed() {
        let patience = Duration::from_millis(50);
        assert_eq!(shell("exec sleep 60", patience), Err("not done after 50ms".to_owned()));
    }
}
