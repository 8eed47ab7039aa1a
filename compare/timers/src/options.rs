//! The command line.

use harness::Fallible;
use harness::case::Case as _;
use harness::options::{Common, Words};

use crate::case::Case;

pub(crate) const USAGE: &str = "\
usage: timers [options]

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
    Do(Options),
    /// In this process, started by another.
    MeasureHere {
        case: Case,
        short: bool,
    },
    /// In this process, started by another.
    VerifyHere {
        suite: String,
    },
}

/// The choice of cases, and of the way to measure them.
#[derive(Default)]
pub(crate) struct Options {
    pub(crate) common: Common,
    /// Whether the run only checks that timers fire when they should.
    pub(crate) verify: bool,
    suite: Option<String>,
    work: Option<String>,
    peers: Vec<String>,
    sizes: Vec<usize>,
    delays: Option<String>,
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

    /// Whether files are written: after a full run, or if the command line asks for it.
    pub(crate) fn writes(&self) -> bool {
        let partial = self.suite.is_some()
            || !self.peers.is_empty()
            || !self.sizes.is_empty()
            || self.delays.is_some()
            || self.common.rounds.is_some();
        self.common.write || !(partial || self.common.short)
    }
}

pub(crate) fn parse(mut words: Words) -> Fallible<Command> {
    let mut options = Options::default();
    while let Some(word) = words.take() {
        match word.as_str() {
            "--verify" => options.verify = true,
            "--peer" => options.peers.push(words.value()?),
            "--delays" => options.delays = Some(words.value()?),
            "--sizes" => options.sizes = words.numbers()?,
            "--only" => {
                let only = words.value()?;
                let (suite, work) =
                    only.split_once('/').map_or((&*only, None), |(s, w)| (s, Some(w)));
                options.suite = Some(suite.to_owned());
                options.work = work.map(str::to_owned);
            }
            "measure" => return measure_here(words),
            "verify" => return Ok(Command::VerifyHere { suite: words.value()? }),
            word if options.common.heed(word, &mut words)? => {}
            _ => return Err(format!("what is `{word}`?\n\n{USAGE}")),
        }
    }
    Ok(Command::Do(options))
}

/// The fields of a case, as [`crate::run`] gives them.
fn measure_here(mut words: Words) -> Fallible<Command> {
    let words: Vec<String> = std::iter::from_fn(|| words.take()).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let (case, short) = match &words[..] {
        [case @ .., "--short"] => (case, true),
        case => (case, false),
    };
    let case =
        Case::parse(case).ok_or("measure wants a suite, a work, a peer, a size and delays")?;
    Ok(Command::MeasureHere { case, short })
}
