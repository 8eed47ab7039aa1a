//! Builds the contenders, and starts a process for each measurement.
//!
//! Ground rules:
//!
//! - A measurement has a process and a directory of its own. Where a row begins with a filled file, the
//!   contender fills it once, in an orderly way, and each measurement has a copy.
//! - Repetitions are interleaved: a first round of all contenders, then a second.
//! - A measurement that fails is reported, and the others go on.

use std::env;
use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use crate::options::Options;
use crate::plan::{CONTENDERS, Contender, DISK, OURS, ROWS, Row};
use crate::results::{Case, Results};
use crate::{Fallible, machine};

const HOME: &str = env!("CARGO_MANIFEST_DIR");
/// How long a measurement may take: one that hangs is a failure like any other.
const PATIENCE: Duration = Duration::from_secs(150);
/// The same for ten million jobs, and for filling a file.
const PATIENCE_LONG: Duration = Duration::from_secs(900);
const PATIENCE_SHORT: Duration = Duration::from_secs(40);
/// How long a process inserts before it is killed.
const BEFORE_KILL: Duration = Duration::from_secs(1);
const BEFORE_KILL_SHORT: Duration = Duration::from_millis(100);

/// Where files of jobs are written: beside the programs, so on a disk and not in memory.
pub(crate) fn work_directory() -> PathBuf {
    target_directory().join("run")
}

/// Where programs are built: where cargo is told to, or beside this program's source.
fn target_directory() -> PathBuf {
    env::var_os("CARGO_TARGET_DIR").map_or_else(|| Path::new(HOME).join("target"), PathBuf::from)
}

/// Measures every chosen row. Returns the figures, and what ours did that it must never do.
pub(crate) fn all(options: &Options) -> Fallible<(Results, Vec<String>)> {
    let contenders: Vec<&Contender> =
        CONTENDERS.iter().filter(|contender| options.has_contender(contender.name)).collect();
    for contender in contenders.iter().filter(|contender| contender.name != DISK) {
        build(contender)?;
    }
    let _ = fs::remove_dir_all(work_directory());
    let rows: Vec<&Row> = ROWS.iter().filter(|row| options.has_row(row.name, row.long)).collect();
    let (mut results, mut faults) = (Results::default(), Vec::new());
    let start = Instant::now();
    for row in rows {
        let rounds = options.rounds.unwrap_or(if options.short { 1 } else { row.rounds });
        results.measured(row.name, machine::describe());
        for round in 1..=rounds {
            for contender in &contenders {
                for level in row.levels.iter().filter(|level| row.is_for(contender, level)) {
                    let names = (row.name, contender.name, *level);
                    eprintln!("[{} s] {names:?}, round {round}", start.elapsed().as_secs());
                    let case = Case {
                        row: row.name.to_owned(),
                        contender: contender.name.to_owned(),
                        level: (*level).to_owned(),
                    };
                    match measure(row, contender, level, options.short) {
                        Ok(figures) => {
                            faults.extend(faults_of(&case, &figures));
                            results.add(&case, &figures);
                        }
                        Err(error) => {
                            eprintln!("failed: {error}");
                            if contender.name == OURS {
                                faults.push(format!("{names:?}: {error}"));
                            }
                        }
                    }
                }
            }
        }
    }
    let _ = fs::remove_dir_all(work_directory());
    Ok((results, faults))
}

/// What ours must never do. A peer that does it is a figure in a table.
fn faults_of(case: &Case, figures: &[(String, f64)]) -> Vec<String> {
    let bad = |(name, value): &&(String, f64)| {
        case.contender == OURS
            && matches!(name.as_str(), "lost" | "twice" | "early" | "strange")
            && *value != 0.0
    };
    figures.iter().filter(bad).map(|(name, value)| format!("{case:?}: {name} {value}")).collect()
}

fn build(contender: &Contender) -> Fallible {
    let home = Path::new(HOME);
    eprintln!("building {}", contender.name);
    let status = Command::new(env::var_os("CARGO").unwrap_or_else(|| "cargo".into()))
        .args(["build", "--release", "--locked", "--quiet", "--manifest-path"])
        .arg(home.join(contender.name).join("Cargo.toml"))
        .arg("--target-dir")
        .arg(target_directory())
        .status()
        .map_err(|error| format!("cargo: {error}"))?;
    if status.success() { Ok(()) } else { Err(format!("{} does not build", contender.name)) }
}

fn measure(
    row: &Row,
    contender: &Contender,
    level: &str,
    short: bool,
) -> Fallible<Vec<(String, f64)>> {
    if contender.name == DISK {
        let seconds = if short { "0.1" } else { "3" };
        let program = env::current_exe().map_err(|error| error.to_string())?;
        return figures(Command::new(program).args(["disk", seconds]), PATIENCE);
    }
    let directory = work_directory().join("measured");
    let made = in_directory(&directory, row, contender, level, short);
    let _ = fs::remove_dir_all(&directory);
    made
}

fn in_directory(
    directory: &Path,
    row: &Row,
    contender: &Contender,
    level: &str,
    short: bool,
) -> Fallible<Vec<(String, f64)>> {
    let _ = fs::remove_dir_all(directory);
    if let Some((jobs, jobs_short)) = row.filled {
        let jobs = if short { jobs_short } else { jobs };
        copy(&filled(contender, jobs, short)?, directory)?;
    } else {
        fs::create_dir_all(directory).map_err(|error| error.to_string())?;
    }
    let sizes: Vec<String> = row
        .sizes
        .iter()
        .map(|size| {
            let value = if short { size.2 } else { size.1 };
            let most = if size.0 == "ahead" { contender.ahead } else { f64::INFINITY };
            format!("{}={}", size.0, value.min(most))
        })
        .collect();
    if row.work == "after-kill" {
        kill_while_inserting(contender, directory, level, &sizes, short)?;
    }
    let mut command = command(contender, row.work, directory, level);
    command.args(&sizes);
    if row.work == "after-kill" {
        command.arg(format!("spawned={}", since_1970().as_secs_f64() * 1e3));
    }
    figures(
        &mut command,
        match (short, row.long) {
            (true, _) => PATIENCE_SHORT,
            (false, true) => PATIENCE_LONG,
            (false, false) => PATIENCE,
        },
    )
}

/// Returns the directory with a file of so many jobs, which is made if it is not there.
fn filled(contender: &Contender, jobs: usize, short: bool) -> Fallible<PathBuf> {
    let directory = work_directory().join(format!("{}-{jobs}", contender.name));
    if !directory.exists() {
        eprintln!("    filling {}", directory.display());
        let patience = if short { PATIENCE_SHORT } else { PATIENCE_LONG };
        let mut command = command(contender, "fill", &directory, crate::plan::SYNCED);
        let figures = figures(command.arg(format!("jobs={jobs}")), patience).inspect_err(|_| {
            let _ = fs::remove_dir_all(&directory);
        })?;
        eprintln!("    {figures:?}");
    }
    Ok(directory)
}

fn copy(from: &Path, to: &Path) -> Fallible {
    let copied = || -> std::io::Result<()> {
        fs::create_dir_all(to)?;
        for entry in fs::read_dir(from)? {
            let entry = entry?;
            fs::copy(entry.path(), to.join(entry.file_name()))?;
        }
        // What the copy has left to write is not the measurement's.
        Command::new("sync").status()?;
        Ok(())
    };
    copied().map_err(|error| format!("copying {}: {error}", from.display()))
}

/// Starts a process that inserts jobs, kills it, and waits until the jobs are due.
fn kill_while_inserting(
    contender: &Contender,
    directory: &Path,
    level: &str,
    sizes: &[String],
    short: bool,
) -> Fallible {
    let mut command = command(contender, "before-kill", directory, level);
    let spawned = command.args(sizes).stdout(Stdio::piped()).spawn();
    let mut child = spawned.map_err(|error| format!("{command:?}: {error}"))?;
    let mut line = String::new();
    let output = child.stdout.take().ok_or("no output")?;
    let read = BufReader::new(output).read_line(&mut line).map_err(|error| error.to_string());
    let due = line.trim().strip_prefix("ready ").and_then(|second| second.parse::<u64>().ok());
    if due.is_some() {
        thread::sleep(if short { BEFORE_KILL_SHORT } else { BEFORE_KILL });
    }
    // SIGKILL.
    let _ = child.kill();
    let _ = child.wait();
    read?;
    let due = Duration::from_secs(due.ok_or_else(|| format!("`{line}` instead of ready"))?);
    let left = due.checked_sub(since_1970());
    thread::sleep(left.ok_or("the jobs were due before the process was killed")?);
    Ok(())
}

fn since_1970() -> Duration {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default()
}

fn command(contender: &Contender, work: &str, directory: &Path, level: &str) -> Command {
    let program = format!("release/contender-{}", contender.name);
    let mut command = Command::new(target_directory().join(program));
    command.arg(work);
    command.arg(format!("path={}", directory.join("jobs.db").display()));
    command.arg(format!("level={level}"));
    command
}

/// Runs a program and reads its figures. Its complaints go where ours go.
fn figures(command: &mut Command, patience: Duration) -> Fallible<Vec<(String, f64)>> {
    let spawned = command.stdout(Stdio::piped()).spawn();
    let mut child = spawned.map_err(|error| format!("{command:?}: {error}"))?;
    let mut output = child.stdout.take().ok_or("no output")?;
    let reader = thread::spawn(move || {
        let mut text = String::new();
        output.read_to_string(&mut text).map(|_| text)
    });
    wait(&mut child, patience)?;
    let text = reader.join().map_err(|_| "the reader panicked")?.map_err(|e| e.to_string())?;
    text.lines().map(figure).collect()
}

fn wait(child: &mut Child, patience: Duration) -> Fallible {
    let start = Instant::now();
    loop {
        match child.try_wait().map_err(|error| error.to_string())? {
            Some(status) if status.success() => return Ok(()),
            Some(status) => return Err(status.to_string()),
            None if start.elapsed() > patience => {
                let _ = child.kill();
                let _ = child.wait();
                return Err(format!("not done after {patience:?}"));
            }
            None => thread::sleep(Duration::from_millis(20)),
        }
    }
}

fn figure(line: &str) -> Fallible<(String, f64)> {
    let parsed = line
        .split_once(' ')
        .and_then(|(name, value)| Some((name.to_owned(), value.trim().parse().ok()?)));
    parsed.ok_or_else(|| format!("`{line}` is no figure"))
}
