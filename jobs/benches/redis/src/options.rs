//! The command line.

use crate::Fallible;
use crate::plan::{CONTENDERS, ROWS};

pub(crate) const USAGE: &str = "\
usage: redis-peers [options]

  --short            every row of every contender, as briefly as it gets; fails if ours loses a job,
                     runs one twice without a cause, or runs one early
  --only NAME,..     only these contenders
  --rows ROW,..      only these rows
  --rounds N         so many repetitions
  --write            write figures, tables and plots: what was measured replaces the same rows
  --report           tables and plots again, from the figures there are";

pub(crate) enum Command {
    Help,
    Report,
    Run(Options),
}

/// What is measured, and how.
#[derive(Default)]
pub(crate) struct Options {
    pub(crate) short: bool,
    pub(crate) write: bool,
    pub(crate) rounds: Option<usize>,
    only: Vec<String>,
    rows: Vec<String>,
}

impl Options {
    pub(crate) fn has_contender(&self, name: &str) -> bool {
        self.only.is_empty() || self.only.iter().any(|only| only == name)
    }

    pub(crate) fn has_row(&self, name: &str) -> bool {
        self.rows.is_empty() || self.rows.iter().any(|row| row == name)
    }
}

pub(crate) fn parse(mut words: impl Iterator<Item = String>) -> Fallible<Command> {
    let mut options = Options::default();
    while let Some(word) = words.next() {
        let mut value = || words.next().ok_or_else(|| format!("`{word}` wants a value"));
        match word.as_str() {
            "-h" | "--help" => return Ok(Command::Help),
            "--report" => return Ok(Command::Report),
            "--short" => options.short = true,
            "--write" => options.write = true,
            "--rounds" => options.rounds = Some(number(&value()?)?),
            "--only" => options.only.extend(names(&value()?)),
            "--rows" => options.rows.extend(names(&value()?)),
            _ => return Err(format!("what is `{word}`?\n\n{USAGE}")),
        }
    }
    if let Some(row) = options.rows.iter().find(|row| ROWS.iter().all(|known| known.name != **row))
    {
        return Err(format!("no row is called `{row}`"));
    }
    let unknown = |name: &&String| CONTENDERS.iter().all(|known| known.name != **name);
    if let Some(name) = options.only.iter().find(unknown) {
        return Err(format!("no contender is called `{name}`"));
    }
    Ok(Command::Run(options))
}

fn names(list: &str) -> Vec<String> {
    list.split(',').map(str::to_owned).collect()
}

fn number<N: std::str::FromStr>(text: &str) -> Fallible<N> {
    text.parse().map_err(|_| format!("`{text}` is not a number"))
}
