//! What the system allows, and what it charged. Linux tells both under `/proc`; elsewhere the limit
//! is guessed and the time is unknown.

use std::fs;
use std::time::Duration;

/// Taken where the system does not say.
const USUAL_LIMIT: usize = 1024;

/// Open files that are not connections.
const MARGIN: usize = 100;

/// How many of `wanted` connections the limit on open files leaves, both ends being in this program.
/// Says so when they are fewer.
pub(crate) fn affordable(wanted: usize) -> usize {
    let limit = open_files().unwrap_or_else(|| {
        println!("the limit on open files is unknown: assuming {USUAL_LIMIT}");
        USUAL_LIMIT
    });
    let room = limit.saturating_sub(MARGIN) / 2;
    let count = wanted.min(room.max(1));
    if count < wanted {
        println!("{count} connections instead of {wanted}: {limit} files may be open (ulimit -n)");
    }
    count
}

/// The soft limit on open files.
fn open_files() -> Option<usize> {
    let limits = fs::read_to_string("/proc/self/limits").ok()?;
    let line = limits.lines().find_map(|line| line.strip_prefix("Max open files"))?;
    match line.split_whitespace().next()? {
        "unlimited" => Some(usize::MAX),
        number => number.parse().ok(),
    }
}

/// The processor time that this program has taken, in user and system mode.
pub(crate) fn cpu_time() -> Option<Duration> {
    let stat = fs::read_to_string("/proc/self/stat").ok()?;
    // The second field is the program's name in brackets, which may hold anything. Of those after
    // it, the twelfth and the thirteenth are wanted, in the hundredths of a second that Linux
    // promises to user programs.
    let (_, fields) = stat.rsplit_once(')')?;
    let mut times = fields.split_whitespace().skip(11).map(str::parse::<u64>);
    let (user, system) = (times.next()?.ok()?, times.next()?.ok()?);
    Some(Duration::from_millis((user + system) * 10))
}
