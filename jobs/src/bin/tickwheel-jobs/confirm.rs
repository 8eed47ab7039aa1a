//! Asks before more than one job is changed.

use std::error::Error;
use std::io::{self, BufRead, IsTerminal};

/// Says whether the command may go on. One job needs no consent. For more, the user consents with `--yes` or is
/// asked. Without a terminal to ask on, this is an error. `loses`: the jobs are lost.
pub(crate) fn confirm(
    jobs: usize,
    done: &str,
    loses: bool,
    yes: bool,
) -> Result<bool, Box<dyn Error>> {
    if jobs < 2 || yes {
        return Ok(true);
    }
    let stdin = io::stdin();
    if !stdin.is_terminal() {
        let cure = "--yes does it, and --dry-run lists them";
        return Err(format!(
            "{jobs} jobs would be {done}, and there is no terminal to ask: {cure}"
        )
        .into());
    }
    let lost = if loses { ", and cannot be had back" } else { "" };
    eprint!("{jobs} jobs will be {done}{lost}. Go on? [y/N] ");
    is_yes(&mut stdin.lock()).map_err(Into::into)
}

/// Reads an answer. An empty line means no, and so does the end of the input.
fn is_yes(answers: &mut impl BufRead) -> io::Result<bool> {
    let mut answer = String::new();
    answers.read_line(&mut answer)?;
    Ok(["y", "yes"].iter().any(|yes| answer.trim().eq_ignore_ascii_case(yes)))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An answer means yes if its first line is `y` or `yes`, in any case. Every other answer means no.
    #[test]
    fn answer_is_yes_only_for_y_and_yes() {
        let answer = |text: &str| is_yes(&mut text.as_bytes()).unwrap();
        assert!(answer("y\n") && answer("Yes\r\n") && answer(" YES "));
        assert!(!answer("\n") && !answer("") && !answer("n\ny\n") && !answer("yess\n"));
    }

    /// `confirm` asks nothing for one job, or for several jobs with `--yes`.
    #[test]
    fn confirm_asks_nothing_for_one_job_or_with_yes() {
        assert!(confirm(1, "deleted", true, false).unwrap());
        assert!(confirm(2, "deleted", true, true).unwrap());
    }
}
