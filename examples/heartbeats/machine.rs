//! The limit on open files, and the processor time used. Linux reports both under `/proc`; on other
//! systems the limit is guessed and the time is unknown.

use std::fs;
use std::time::Duration;

/// The limit that is assumed if the system does not report one.
const USUAL_LIMIT: usize = 1024;

/// The number of open files that are not connections.
const MARGIN: usize = 100;

/// Returns how many of `wanted` connections the limit on open files allows, with both ends in this
/// program. Prints a line if they are fewer.
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

/// Returns the soft limit on open files.
fn open_files() -> Option<usize> {
    let limits = fs::read_to_string("/proc/self/limits").ok()?;
    let line = limits.lines().find_map(|line| line.strip_prefix("Max open files"))?;
    match line.split_whitespace().next()? {
        "unlimited" => Some(usize::MAX),
        number => number.parse().ok(),
    }
}

/// Returns the processor time that this program has used, in user and system mode.
pub(crate) fn cpu_time() -> Option<Duration> {
    let stat = fs::read_to_string("/proc/self/stat").ok()?;
    // The second field is the program's name in brackets, which may hold anything. The twelfth and
    // the thirteenth field after it are the times, in the hundredths of a second that Linux
    // promises to user programs.
    let (_, fields) = stat.rsplit_once(')')?;
    let mut times = fields.split_whitespace().skip(11).map(str::parse::<u64>);
    let (user, system) = (times.next()?.ok()?, times.next()?.ok()?);
    Some(Duration::from_millis((user + system) * 10))
}
