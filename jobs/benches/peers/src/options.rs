//! The command line.

use crate::Fallible;

pub(crate) const USAGE: &str = "\
usage: peers [options]

  --short            every row of every contender, as briefly as it gets; fails if ours loses a job,
                     runs one twice, or runs one early
  --only NAME,..     only these contenders
  --rows ROW,..      only these rows
  --long             the rows with ten million jobs as well
  --rounds N         so many repetitions
  --write            write figures, tables and plots: what was measured replaces the same rows
  --report           tables and plots again, from the figures there are";

pub(crate) enum Command {
    Help,
    Report,
    /// In this process, started by another.
    Disk {
        seconds: f64,
    },
    Run(Options),
}

/// What is measured, and how.
#[derive(Default)]
pub(crate) struct Options {
    pub(crate) short: bool,
    pub(crate) long: bool,
    pub(crate) write: bool,
    pub(crate) rounds: Option<usize>,
    only: Vec<String>,
    rows: Vec<String>,
}

impl Options {
    pub(crate) fn has_contender(&self, name: &str) -> bool {
        self.only.is_empty() || self.only.iter().any(|only| only == name)
    }

    /// Whether a row is measured. A row of the long run is when it is named, too.
    pub(crate) fn has_row(&self, name: &str, long: bool) -> bool {
        let named = self.rows.iter().any(|row| row == name);
        named || self.rows.is_empty() && (self.long || !long)
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
            "--long" => options.long = true,
            "--write" => options.write = true,
            "--rounds" => options.rounds = Some(number(&value()?)?),
            "--only" => options.only.extend(names(&value()?)),
            "--rows" => options.rows.extend(names(&value()?)),
            "disk" => return Ok(Command::Disk { seconds: number(&value()?)? }),
            _ => return Err(format!("what is `{word}`?\n\n{USAGE}")),
        }
    }
    let known = |row: &String| crate::plan::ROWS.iter().any(|known| known.name == row);
    if let Some(row) = options.rows.iter().find(|row| !known(row)) {
        return Err(format!("no row is called `{row}`"));
    }
    let known = |name: &String| crate::plan::CONTENDERS.iter().any(|known| known.name == name);
    if let Some(name) = options.only.iter().find(|name| !known(name)) {
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
