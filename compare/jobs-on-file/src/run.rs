//! Starts a process for each measurement.
//!
//! Ground rules:
//!
//! - A measurement has a process and a directory of its own. Where a row begins with a filled file, the
//!   contender fills it once, in an orderly way, and each measurement has a copy.

use std::fs;
use std::io::{self, BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use harness::case::Figures;
use harness::process::figures;
use harness::{Fallible, queues};

use crate::disk;
use crate::plan::{Contender, HOME, SYNCED, Setting};

/// The time limit of a measurement. One that takes longer has failed.
const PATIENCE: Duration = Duration::from_secs(150);
/// The time limit for ten million jobs, and for filling a file.
const PATIENCE_LONG: Duration = Duration::from_secs(900);
const PATIENCE_SHORT: Duration = Duration::from_secs(40);
/// How long a process inserts before it is killed.
const BEFORE_KILL: Duration = Duration::from_secs(1);
const BEFORE_KILL_SHORT: Duration = Duration::from_millis(100);
/// How long the disk is measured.
const DISK: Duration = Duration::from_secs(3);
const DISK_SHORT: Duration = Duration::from_millis(100);

/// Measures a row of a contender.
pub(crate) fn measure(setting: &Setting) -> Fallible<Figures> {
    let directory = queues::work_directory(HOME).join("measured");
    let _ = fs::remove_dir_all(&directory);
    let measured = in_directory(&directory, setting);
    let _ = fs::remove_dir_all(&directory);
    measured
}

fn in_directory(directory: &Path, setting: &Setting) -> Fallible<Figures> {
    let &Setting { row, contender, level, short } = setting;
    if let Some((jobs, jobs_short)) = row.own.filled {
        copy(&filled(contender, if short { jobs_short } else { jobs }, short)?, directory)?;
    } else {
        fs::create_dir_all(directory).map_err(|error| error.to_string())?;
    }
    if contender.name == queues::DISK {
        return disk::measure(directory, if short { DISK_SHORT } else { DISK });
    }
    let sizes = row.sizes.iter().map(|size| {
        let most = if size.0 == "ahead" { contender.own.0 } else { f64::INFINITY };
        format!("{}={}", size.0, size.value(short).min(most))
    });
    let sizes: Vec<String> = sizes.collect();
    if row.own.name == "after-kill" {
        kill_while_inserting(contender, directory, level, &sizes, short)?;
    }
    let mut command = command(contender, row.own.name, directory, level);
    command.args(&sizes);
    if row.own.name == "after-kill" {
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

/// Returns the directory with a file of a number of jobs. Makes it if it is not there.
fn filled(contender: &Contender, jobs: usize, short: bool) -> Fallible<PathBuf> {
    let directory = queues::work_directory(HOME).join(format!("{}-{jobs}", contender.name));
    if !directory.exists() {
        eprintln!("    filling {}", directory.display());
        let patience = if short { PATIENCE_SHORT } else { PATIENCE_LONG };
        let mut command = command(contender, "fill", &directory, SYNCED);
        let figures = figures(command.arg(format!("jobs={jobs}")), patience).inspect_err(|_| {
            let _ = fs::remove_dir_all(&directory);
        })?;
        eprintln!("    {figures:?}");
    }
    Ok(directory)
}

fn copy(from: &Path, to: &Path) -> Fallible {
    let copied = || -> io::Result<()> {
        fs::create_dir_all(to)?;
        for entry in fs::read_dir(from)? {
            let entry = entry?;
            fs::copy(entry.path(), to.join(entry.file_name()))?;
        }
        // The pages that the copy has still to write must not be counted in the measurement.
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
    let mut command = queues::program(HOME, contender.name);
    command.arg(work);
    command.arg(format!("path={}", directory.join("jobs.db").display()));
    command.arg(format!("level={level}"));
    command
}
