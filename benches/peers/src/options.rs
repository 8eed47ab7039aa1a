//! The command line.

use crate::case::Case;

pub(crate) const USAGE: &str = "\
usage: peers [options]

  (nothing)              measure everything; write figures, tables and plots
  --short                run every case once, as short as it gets; write nothing
  --verify               only look whether timers fire when they should
  --report               make tables and plots again from the figures there are

  --only SUITE[/WORK]    only a part                  (print it, write nothing)
  --peer NAME            only a peer, repeatable      (print it, write nothing)
  --sizes 1000,100000    only these sizes             (print it, write nothing)
  --delays NAME          only these delays            (print it, write nothing)
  --rounds N             so many repetitions          (print it, write nothing)
  --write                write all the same: what was measured replaces the suite's";

pub(crate) enum Command {
    Help,
    Run(Options),
    Verify(Options),
    Report,
    /// In this process, started by another.
    Measure {
        case: Case,
        short: bool,
    },
    /// In this process, started by another.
    VerifyHere {
        suite: String,
    },
}

/// Which cases, and how.
#[derive(Default)]
pub(crate) struct Options {
    pub(crate) short: bool,
    pub(crate) rounds: Option<usize>,
    suite: Option<String>,
    work: Option<String>,
    peers: Vec<String>,
    sizes: Vec<usize>,
    delays: Option<String>,
    write: bool,
}

impl Options {
    pub(crate) fn has_suite(&self, suite: &str) -> bool {
        self.suite.as_deref().is_none_or(|only| only == suite)
    }

    pub(crate) fn has(&self, case: &Case) -> bool {
        self.has_suite(&case.suite)
            && self.work.as_ref().is_none_or(|only| *only == case.work)
            && (self.peers.is_empty() || self.peers.contains(&case.peer))
            && (self.sizes.is_empty() || self.sizes.contains(&case.size))
            && self.delays.as_ref().is_none_or(|only| *only == case.delays)
    }

    /// Whether files are written: after a full run, or when asked for.
    pub(crate) fn writes(&self) -> bool {
        let partial = self.suite.is_some()
            || !self.peers.is_empty()
            || !self.sizes.is_empty()
            || self.delays.is_some()
            || self.rounds.is_some();
        self.write || !(partial || self.short)
    }
}

pub(crate) fn parse(mut words: impl Iterator<Item = String>) -> Result<Command, String> {
    let mut options = Options::default();
    let (mut verify, mut report) = (false, false);
    while let Some(word) = words.next() {
        let mut value = || words.next().ok_or_else(|| format!("`{word}` wants a value"));
        match word.as_str() {
            "-h" | "--help" => return Ok(Command::Help),
            "--short" => options.short = true,
            "--verify" => verify = true,
            "--report" => report = true,
            "--write" => options.write = true,
            "--peer" => options.peers.push(value()?),
            "--delays" => options.delays = Some(value()?),
            "--rounds" => options.rounds = Some(number(&value()?)?),
            "--sizes" => {
                options.sizes = value()?.split(',').map(number).collect::<Result<_, _>>()?
            }
            "--only" => {
                let only = value()?;
                let (suite, work) =
                    only.split_once('/').map_or((&*only, None), |(s, w)| (s, Some(w)));
                options.suite = Some(suite.to_owned());
                options.work = work.map(str::to_owned);
            }
            "measure" => return measure(&words.collect::<Vec<_>>()),
            "verify" => return Ok(Command::VerifyHere { suite: value()? }),
            _ => return Err(format!("what is `{word}`?\n\n{USAGE}")),
        }
    }
    Ok(match (verify, report) {
        (true, _) => Command::Verify(options),
        (_, true) => Command::Report,
        _ => Command::Run(options),
    })
}

/// The words that follow `measure`, as [`crate::run`] writes them.
fn measure(words: &[String]) -> Result<Command, String> {
    let (case, short) = match words {
        [case @ .., last] if last == "--short" => (case, true),
        case => (case, false),
    };
    let [suite, work, peer, size, delays] = case else {
        return Err("measure wants a suite, a work, a peer, a size and delays".to_owned());
    };
    let case = Case {
        suite: suite.clone(),
        work: work.clone(),
        peer: peer.clone(),
        size: number(size)?,
        delays: delays.clone(),
    };
    Ok(Command::Measure { case, short })
}

fn number(text: &str) -> Result<usize, String> {
    text.replace('_', "").parse().map_err(|_| format!("`{text}` is not a number"))
}
