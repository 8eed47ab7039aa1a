//! What the system knows of this process.

use std::fs;
use std::path::Path;
use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};

use crate::Fallible;

/// Counters since the start of the process.
#[derive(Clone, Copy)]
pub(crate) struct Usage {
    /// User and system, of all threads.
    pub(crate) cpu: Duration,
    /// Bytes given to `write` and its kin.
    pub(crate) written: u64,
    /// Bytes of pages that were made dirty: what goes to the disk, if every page goes once.
    pub(crate) dirtied: u64,
}

pub(crate) fn usage() -> Fallible<Usage> {
    let cpu = clock_gettime(ClockId::ProcessCPUTime);
    let io = fs::read_to_string("/proc/self/io")?;
    Ok(Usage {
        cpu: Duration::new(cpu.tv_sec as u64, cpu.tv_nsec as u32),
        written: field(&io, "wchar:")?,
        dirtied: field(&io, "write_bytes:")?,
    })
}

/// The most memory that the process ever had, in KiB.
pub(crate) fn peak_rss_kib() -> Fallible<u64> {
    field(&fs::read_to_string("/proc/self/status")?, "VmHWM:")
}

fn field(text: &str, name: &str) -> Fallible<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix(name));
    let number = line.and_then(|line| line.split_whitespace().next());
    Ok(number.ok_or_else(|| format!("{name} is absent"))?.parse()?)
}

/// The bytes of the files below `directory`: the WAL and its like, then all others.
pub(crate) fn sizes(directory: &Path) -> Fallible<(u64, u64)> {
    let (mut log, mut other) = (0, 0);
    for entry in fs::read_dir(directory)? {
        let entry = entry?;
        let path = entry.path();
        let name = entry.file_name().to_string_lossy().into_owned();
        // A compaction may remove a file between the listing and this look.
        let Ok(metadata) = entry.metadata() else { continue };
        if metadata.is_dir() {
            let (inner_log, inner_other) = sizes(&path)?;
            log += inner_log;
            other += inner_other;
        } else if name.ends_with("-wal") || name.ends_with("-shm") || name.ends_with(".jnl") {
            log += metadata.len();
        } else {
            other += metadata.len();
        }
    }
    Ok((log, other))
}
