//! Starts the children, in rounds: a round measures every candidate once, so that what else happens
//! on the machine meets all of them.

use std::collections::BTreeMap;
use std::fs;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use crate::Fallible;
use crate::candidate::{self, Candidate};
use crate::child::MARK;
use crate::report;

/// The parts of the measurement, in their order.
const PARTS: [&str; 7] =
    ["speed", "settings", "schemas", "settings-s4", "reopen", "syncs", "churn"];

struct Options {
    short: bool,
    write: bool,
    report: bool,
    only: Vec<String>,
}

pub(crate) fn run(arguments: &[String]) -> Fallible<()> {
    let mut options = Options { short: false, write: false, report: false, only: Vec::new() };
    let mut arguments = arguments.iter();
    while let Some(argument) = arguments.next() {
        match argument.as_str() {
            "--short" => options.short = true,
            "--write" => options.write = true,
            "--report" => options.report = true,
            "--only" => options.only.push(arguments.next().ok_or("--only what?")?.clone()),
            _ => return Err(format!("not an option: {argument}").into()),
        }
    }
    if let Some(unknown) = options.only.iter().find(|only| !PARTS.contains(&only.as_str())) {
        return Err(format!("not a part: {unknown}; there are {PARTS:?}").into());
    }
    let mut results = if options.short { Results::default() } else { Results::read()? };
    if !options.report {
        for part in PARTS {
            if options.only.is_empty() || options.only.iter().any(|only| only == part) {
                results.forget(part);
                Bench::new(&options, part)?.measure(part, &mut results)?;
                if !options.short {
                    results.write(part)?;
                }
            }
        }
    }
    let text = report::tables(&results);
    if options.write && !options.short {
        return report::write(&text);
    }
    println!("{text}");
    Ok(())
}

/// All values that were ever measured of a metric, in the order of the rounds.
#[derive(Default)]
pub(crate) struct Results {
    values: BTreeMap<[String; 3], Vec<f64>>,
}

impl Results {
    /// A part has a file of its own: two parts can be measured at a time, where time is no figure.
    fn path(part: &str) -> PathBuf {
        Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("results/{part}.csv"))
    }

    fn read() -> Fallible<Self> {
        let mut results = Self::default();
        for part in PARTS {
            let Ok(text) = fs::read_to_string(Self::path(part)) else { continue };
            for line in text.lines().skip(1) {
                let [case, metric, values] = line.split(',').collect::<Vec<_>>()[..] else {
                    return Err(format!("not a line of results: {line}").into());
                };
                let values: Result<_, _> = values.split(' ').map(str::parse).collect();
                results.values.insert([part, case, metric].map(String::from), values?);
            }
        }
        Ok(results)
    }

    fn write(&self, part: &str) -> Fallible<()> {
        let mut text = String::from("case,metric,values of the rounds\n");
        for ([of, case, metric], values) in &self.values {
            if of == part {
                let values: Vec<String> =
                    values.iter().map(|value| format!("{value:.3}")).collect();
                text.push_str(&format!("{case},{metric},{}\n", values.join(" ")));
            }
        }
        Ok(fs::write(Self::path(part), text)?)
    }

    fn forget(&mut self, part: &str) {
        self.values.retain(|[of, ..], _| of != part);
    }

    fn add(&mut self, part: &str, case: &str, metric: &str, value: f64) {
        let key = [part, case, metric].map(String::from);
        self.values.entry(key).or_default().push(value);
    }

    fn add_all(&mut self, part: &str, case: &str, metrics: Vec<(String, f64)>) {
        for (metric, value) in metrics {
            self.add(part, case, &metric, value);
        }
    }

    /// Lowest, median and highest value.
    pub(crate) fn spread(&self, part: &str, case: &str, metric: &str) -> Option<[f64; 3]> {
        let mut values = self.values.get(&[part, case, metric].map(String::from))?.clone();
        values.sort_by(f64::total_cmp);
        Some([values[0], values[values.len() / 2], values[values.len() - 1]])
    }
}

struct Bench {
    directory: PathBuf,
    rounds: u64,
    cell_ms: &'static str,
    live: u64,
    many: u64,
    traced_rounds: &'static str,
    churned: u64,
    churned_live: u64,
}

impl Bench {
    fn new(options: &Options, part: &str) -> Fallible<Self> {
        let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("target/files").join(part);
        if directory.exists() {
            fs::remove_dir_all(&directory)?;
        }
        fs::create_dir_all(&directory)?;
        Ok(if options.short {
            let (live, many, churned, churned_live) = (50_000, 100_000, 100_000, 10_000);
            let (rounds, cell_ms, traced_rounds) = (1, "100", "20");
            Self { directory, rounds, cell_ms, live, many, traced_rounds, churned, churned_live }
        } else {
            let (live, many, churned, churned_live) = (1_000_000, 10_000_000, 10_000_000, 100_000);
            let (rounds, cell_ms, traced_rounds) = (3, "1200", "400");
            Self { directory, rounds, cell_ms, live, many, traced_rounds, churned, churned_live }
        })
    }

    fn measure(&self, part: &str, results: &mut Results) -> Fallible<()> {
        match part {
            "speed" => {
                self.speed(part, &candidate::compared(), &["a", "b"], "1024,256,32,1", results)
            }
            "settings" => {
                self.speed(part, &candidate::settings(), &["b"], "1024,256,32,1", results)
            }
            "schemas" => {
                self.speed(part, &candidate::schemas(), &["a", "b"], "1024,256,32,1", results)
            }
            "settings-s4" => {
                let candidates = candidate::settings_of_two_trees();
                self.speed(part, &candidates, &["b"], "1024,256,32,1", results)
            }
            "syncs" => self.syncs(results),
            "churn" => self.churn(results),
            _ => self.reopen(results),
        }?;
        Ok(fs::remove_dir_all(&self.directory)?)
    }

    fn speed(
        &self,
        part: &str,
        candidates: &[Candidate],
        workloads: &[&str],
        groups: &str,
        results: &mut Results,
    ) -> Fallible<()> {
        for round in 1..=self.rounds {
            for delays in workloads {
                for candidate in candidates {
                    eprintln!("{part}, round {round}, ({delays}): {candidate}");
                    let directory = self.copy(candidate, delays, self.live)?;
                    let live = self.live.to_string();
                    let round = round.to_string();
                    let rest = [delays, live.as_str(), &round, self.cell_ms, groups];
                    let metrics = child("speed", candidate, &directory, &rest)?;
                    results.add_all(part, &format!("{candidate} {delays}"), metrics);
                    fs::remove_dir_all(directory)?;
                }
            }
        }
        Ok(())
    }

    /// Counts the calls of `fsync` and `fdatasync` with strace, where strace is installed.
    fn syncs(&self, results: &mut Results) -> Fallible<()> {
        if Command::new("strace").arg("-V").stdout(Stdio::null()).status().is_err() {
            eprintln!("syncs: strace is not installed");
            return Ok(());
        }
        let mut candidates = candidate::compared();
        candidates.retain(|candidate| !candidate.is_sqlite() || candidate.page_bytes == 4096);
        for delays in ["a", "b"] {
            for candidate in &candidates {
                for group in ["1", "256"] {
                    eprintln!("syncs, ({delays}): {candidate}, groups of {group}");
                    let directory = self.copy(candidate, delays, self.live)?;
                    let trace = self.directory.join("trace");
                    let mut command = Command::new("strace");
                    command.args(["-f", "-qq", "-e"]);
                    command.arg("trace=fsync,fdatasync,sync_file_range,unlink,unlinkat,execve");
                    command.arg("-o").arg(&trace).arg(std::env::current_exe()?);
                    let live = self.live.to_string();
                    let rest = [delays, live.as_str(), group, self.traced_rounds];
                    let metrics =
                        finish(arguments(command, "syncs", candidate, &directory, &rest))?;
                    let jobs = metrics.first().ok_or("no count of jobs")?.1;
                    let text = fs::read_to_string(trace)?;
                    let between = text.split(MARK).nth(1).ok_or("no mark in the trace")?;
                    let syncs = between.matches("sync(").count() as f64;
                    let case = format!("{candidate} {delays}");
                    results.add("syncs", &case, &format!("{group}:syncs"), syncs / jobs);
                    fs::remove_dir_all(directory)?;
                }
            }
        }
        Ok(())
    }

    fn churn(&self, results: &mut Results) -> Fallible<()> {
        for candidate in candidate::files() {
            eprintln!("churn: {candidate}");
            let directory = self.copy(&candidate, "b", self.churned_live)?;
            let (live, jobs) = (self.churned_live.to_string(), self.churned.to_string());
            let metrics = child("churn", &candidate, &directory, &[&live, &jobs])?;
            results.add_all("churn", &candidate.to_string(), metrics);
            fs::remove_dir_all(directory)?;
        }
        Ok(())
    }

    fn reopen(&self, results: &mut Results) -> Fallible<()> {
        for live in [self.live, self.many] {
            for candidate in candidate::files() {
                let template = self.template(&candidate, "a", live)?;
                for round in 1..=self.rounds {
                    eprintln!("reopen, round {round}: {candidate}, {live} jobs");
                    let text = live.to_string();
                    self.kill(&candidate, &template, &["a", &text, &round.to_string()])?;
                    let metrics = child("reopen", &candidate, &template, &[])?;
                    results.add_all("reopen", &format!("{candidate} {live}"), metrics);
                }
                fs::remove_dir_all(template)?;
            }
        }
        Ok(())
    }

    /// Lets a child live jobs and kills it in the middle of that.
    fn kill(&self, candidate: &Candidate, directory: &Path, rest: &[&str]) -> Fallible<()> {
        let command = Command::new(std::env::current_exe()?);
        let mut command = arguments(command, "until-killed", candidate, directory, rest);
        let mut child = command.stdout(Stdio::piped()).spawn()?;
        let mut line = String::new();
        BufReader::new(child.stdout.take().ok_or("no output")?).read_line(&mut line)?;
        std::thread::sleep(Duration::from_millis(100));
        child.kill()?;
        child.wait()?;
        if line.trim() == "ready 1" { Ok(()) } else { Err("the child was not ready".into()) }
    }

    /// A file with `live` jobs, made once and kept.
    fn template(&self, candidate: &Candidate, delays: &str, live: u64) -> Fallible<PathBuf> {
        let path = self.directory.join(format!("{}-{delays}-{live}", candidate.layout()));
        if !path.exists() {
            fs::create_dir(&path)?;
            child("fill", candidate, &path, &[delays, &live.to_string()])?;
        }
        Ok(path)
    }

    fn copy(&self, candidate: &Candidate, delays: &str, live: u64) -> Fallible<PathBuf> {
        let path = self.directory.join("measured");
        copy(&self.template(candidate, delays, live)?, &path)?;
        Ok(path)
    }
}

/// Copies a directory, down to the disk: what is written later is then the candidate's.
fn copy(from: &Path, to: &Path) -> Fallible<()> {
    fs::create_dir(to)?;
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        let target = to.join(entry.file_name());
        if entry.metadata()?.is_dir() {
            copy(&entry.path(), &target)?;
        } else {
            fs::copy(entry.path(), &target)?;
            fs::File::options().append(true).open(target)?.sync_all()?;
        }
    }
    Ok(())
}

fn child(
    task: &str,
    candidate: &Candidate,
    directory: &Path,
    rest: &[&str],
) -> Fallible<Vec<(String, f64)>> {
    let command = Command::new(std::env::current_exe()?);
    finish(arguments(command, task, candidate, directory, rest))
}

fn arguments(
    mut command: Command,
    task: &str,
    candidate: &Candidate,
    directory: &Path,
    rest: &[&str],
) -> Command {
    command.args(["child", task, &candidate.to_string()]).arg(directory).args(rest);
    command
}

fn finish(mut command: Command) -> Fallible<Vec<(String, f64)>> {
    let output = command.stderr(Stdio::inherit()).output()?;
    if !output.status.success() {
        return Err(format!("{command:?} failed: {}", output.status).into());
    }
    let mut metrics = Vec::new();
    for line in String::from_utf8(output.stdout)?.lines() {
        let (metric, value) = line.split_once(' ').ok_or("not a metric")?;
        metrics.push((metric.to_owned(), value.parse()?));
    }
    Ok(metrics)
}
