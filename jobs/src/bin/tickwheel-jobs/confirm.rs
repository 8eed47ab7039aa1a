//! Asks before many jobs are lost.

use std::error::Error;
use std::io::{self, BufRead, IsTerminal};

/// Says whether the jobs are to be lost: one of them in any case, more if the user says so, by `--yes` or when asked.
/// Without a terminal nobody can be asked, so nothing is done then.
pub(crate) fn confirm(jobs: usize, done: &str, yes: bool) -> Result<bool, Box<dyn Error>> {
    if jobs < 2 || yes {
        return Ok(true);
    }
    let stdin = io::stdin();
    if !stdin.is_terminal() {
        let cure = "--yes does it, and --dry-run lists them";
        return Err(format!("{jobs} jobs would be {done}, and nobody can be asked: {cure}").into());
    }
    eprint!("{jobs} jobs will be {done}, and cannot be had back. Go on? [y/N] ");
    is_yes(&mut stdin.lock()).map_err(Into::into)
}

/// Reads an answer. An empty line, and no line at all, is a no.
fn is_yes(answers: &mut impl BufRead) -> io::Result<bool> {
    let mut answer = String::new();
    answers.read_line(&mut answer)?;
    Ok(["y", "yes"].iter().any(|yes| answer.trim().eq_ignore_ascii_case(yes)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn yes_alone_is_yes() {
        let answer = |text: &str| is_yes(&mut text.as_bytes()).unwrap();
        assert!(answer("y\n") && answer("Yes\r\n") && answer(" YES "));
        assert!(!answer("\n") && !answer("") && !answer("n\ny\n") && !answer("yess\n"));
    }

    #[test]
    fn one_job_needs_no_question() {
        assert!(confirm(1, "deleted", false).unwrap());
        assert!(confirm(2, "deleted", true).unwrap());
    }
}
