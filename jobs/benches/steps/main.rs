//! How long the dispatcher works at most without looking at what has come, while many jobs are pending.
//!
//! ```sh
//! cargo bench -p tickwheel-jobs --features redis,tokio --bench steps                     # a million jobs
//! cargo bench -p tickwheel-jobs --features redis,tokio --bench steps -- --only hour,purge --level written
//! cargo bench -p tickwheel-jobs --features redis,tokio --bench steps -- --dir /dev/shm   # without a disk
//! cargo bench -p tickwheel-jobs --features redis,tokio --bench steps -- --only pages
//! ```
//!
//! Each line is one phase: the jobs are opened, the phase does something to them, and `Stats` says which
//! step was the longest and how late the runs started. In each phase ten jobs are inserted every ten
//! milliseconds that are due 100 ms later. `--jobs` says how many are pending. `--dir` says where the files
//! are; on a file system in memory an fsync costs nothing, and what is left is the work of the dispatcher.

mod open;
mod pages;
mod phases;

use std::env;
use std::error::Error;
use std::fs;
use std::path::PathBuf;

use open::{Filled, Level, Place};

/// The options of the command line.
pub(crate) struct Options {
    pub(crate) jobs: usize,
    pub(crate) dir: PathBuf,
    only: Vec<String>,
    levels: Vec<Level>,
}

fn main() -> Result<(), Box<dyn Error>> {
    let options = options()?;
    if options.wants("pages") {
        pages::measure(&options)?;
    }
    let filled = Filled::default();
    println!("| | level | longest step (ms) | latest run (ms) | took (s) |");
    println!("| --- | --- | ---: | ---: | ---: |");
    for &level in &options.levels {
        for phase in phases::PHASES.iter().filter(|phase| options.wants(phase.name)) {
            if !(phase.is_for)(level) {
                continue;
            }
            let place = Place::new(&options.dir, level, &filled)?;
            let found = phases::run(phase, &place, options.jobs)?;
            let lateness = found.stats.lateness.max.as_secs_f64() * 1e3;
            let longest = found.stats.longest_step.as_secs_f64() * 1e3;
            let (what, took) = (phase.title, found.took.as_secs_f64());
            println!("| {what} | {level} | {longest:.1} | {lateness:.1} | {took:.1} |");
        }
    }
    if let Some((copy, _)) = filled.into_inner() {
        fs::remove_file(copy)?;
    }
    Ok(())
}

impl Options {
    fn wants(&self, name: &str) -> bool {
        self.only.is_empty() || self.only.iter().any(|only| only == name)
    }

    pub(crate) fn levels(&self) -> &[Level] {
        &self.levels
    }
}

fn options() -> Result<Options, Box<dyn Error>> {
    let mut options = Options {
        jobs: 1_000_000,
        dir: env::temp_dir(),
        only: Vec::new(),
        levels: vec![Level::Written, Level::Synced, Level::Server],
    };
    let mut args = env::args().skip(1);
    while let Some(arg) = args.next() {
        let mut value = || args.next().ok_or_else(|| format!("{arg} needs a value"));
        match arg.as_str() {
            "--jobs" => options.jobs = value()?.parse()?,
            "--dir" => options.dir = value()?.into(),
            "--only" => options.only = value()?.split(',').map(str::to_owned).collect(),
            "--level" => {
                let level =
                    |name: &str| Level::named(name).ok_or_else(|| format!("no level {name}"));
                options.levels = value()?.split(',').map(level).collect::<Result<_, _>>()?;
            }
            // Cargo adds it, and so does the short run of the CI.
            "--bench" => {}
            "--test" => options.jobs = 2_000,
            other => return Err(format!("no option {other}").into()),
        }
    }
    Ok(options)
}
