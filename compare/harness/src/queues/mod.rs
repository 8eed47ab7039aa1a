//! The common part of the comparisons of job queues: rows, contenders, and their tables and drawings.
//!
//! A comparison is a [`Plan`] and two functions: one builds a contender, the other measures one of its
//! rows. Contenders are folders beside the comparison's source, each a program of its own.
//!
//! | file | what it does |
//! | --- | --- |
//! | `case.rs` | a row, a contender and a level, and their figures |
//! | `musts.rs` | the goals beside the results |
//! | `plan.rs` | rows and contenders, as data |
//! | `options.rs` | reads the command line |
//! | `build.rs` | builds a contender in Rust |
//! | `tables.rs` | makes the tables |
//! | `plots.rs` | draws rates and lateness |

mod case;
mod musts;
mod plan;
mod options;
mod build;
mod tables;
mod plots;

pub use build::{cargo, packages, program, work_directory};
pub use case::{Case, DISK, OURS};
pub use musts::{Must, Reached, best_peer, rate};
pub use plan::{Contender, Lateness, Plan, Row, Setting, Size};

use std::cmp::Ordering;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use crate::case::Figures;
use crate::options::{Action, Words};
use crate::report::Comparison;
use crate::results::Results;
use crate::rounds::{self, Measured};
use crate::{Fallible, versions};
use options::Options;

impl<R, C> Comparison for Plan<R, C> {
    type Case = Case;

    fn page(&self) -> PathBuf {
        Path::new(self.home).join(self.page)
    }

    fn file(&self) -> PathBuf {
        Path::new(self.home).join("figures.csv")
    }

    fn order(&self, a: &Case, b: &Case) -> Ordering {
        self.place(a).cmp(&self.place(b))
    }

    fn tables(&self, results: &Results<Case>) -> Vec<(String, String)> {
        tables::all(self, results)
    }

    fn draw(&self, results: &Results<Case>, folder: &Path) -> Fallible {
        plots::write(self, results, folder)
    }
}

/// Does what the command line says. `build` builds a contender, or returns `false` if a tool that it
/// needs is not installed here.
pub fn main<R, C>(
    plan: &Plan<R, C>,
    build: impl Fn(&Contender<C>) -> Fallible<bool>,
    measure: impl Fn(&Setting<R, C>) -> Fallible<Figures>,
) -> ExitCode {
    match act(plan, build, measure) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{}: {error}", plan.program);
            ExitCode::FAILURE
        }
    }
}

fn act<R, C>(
    plan: &Plan<R, C>,
    build: impl Fn(&Contender<C>) -> Fallible<bool>,
    measure: impl Fn(&Setting<R, C>) -> Fallible<Figures>,
) -> Fallible {
    let options = options::parse(plan, Words::new(std::env::args().skip(1)))?;
    match options.common.action {
        Action::Help => {
            println!("{}", plan.usage);
            Ok(())
        }
        Action::Report => plan.report(&plan.figures()?),
        Action::Measure => run(plan, &options, build, measure),
    }
}

fn run<R, C>(
    plan: &Plan<R, C>,
    options: &Options,
    build: impl Fn(&Contender<C>) -> Fallible<bool>,
    measure: impl Fn(&Setting<R, C>) -> Fallible<Figures>,
) -> Fallible {
    let mut contenders = Vec::new();
    for contender in plan.contenders.iter().filter(|known| options.has_contender(known.name)) {
        if build(contender)? {
            contenders.push(contender);
        }
    }
    let version = versions::locked(&Path::new(plan.home).join(OURS), "tickwheel");
    let version = version.as_deref().unwrap_or("of its own");
    let _ = fs::remove_dir_all(work_directory(plan.home));
    let measured = rounds::all(&cases(plan, options, &contenders), version, |case| {
        measure(&plan.setting(case, options.common.short).ok_or("not in the plan")?)
    });
    let _ = fs::remove_dir_all(work_directory(plan.home));
    print!("{}", tables::plain(plan, &measured.results));
    let faults = faults(&measured);
    if options.common.write {
        plan.keep(measured.results)?;
    }
    if faults.is_empty() { Ok(()) } else { Err(faults.join("\n")) }
}

/// The measurements to make, and their rounds.
fn cases<R, C>(
    plan: &Plan<R, C>,
    options: &Options,
    contenders: &[&Contender<C>],
) -> Vec<(Case, usize)> {
    let mut cases = Vec::new();
    for row in plan.rows.iter().filter(|row| options.has_row(row.name, row.long)) {
        let usual = if options.common.short { 1 } else { row.rounds };
        let rounds = options.common.rounds.unwrap_or(usual);
        for contender in contenders {
            let levels = row.levels.iter().filter(|level| row.is_for(contender, level));
            cases.extend(levels.map(|level| (Case::new(row.name, contender.name, level), rounds)));
        }
    }
    cases
}

/// Failures of our queue: what it must never do, and measurements of it that failed. If a peer does
/// the same, that is only a figure in a table.
fn faults(measured: &Measured<Case>) -> Vec<String> {
    let bad = measured.results.lines().filter(|line| {
        line.case.contender == OURS
            && matches!(line.figure.as_str(), "lost" | "twice" | "early" | "strange")
            && line.value != 0.0
    });
    let bad = bad.map(|line| format!("{:?}: {} {}", line.case, line.figure, line.value));
    let failed = measured.failed.iter().filter(|(case, _)| case.contender == OURS);
    bad.chain(failed.map(|(case, error)| format!("{case:?}: {error}"))).collect()
}
