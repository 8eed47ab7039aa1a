//! The system's counters of this process, and the number of its waits for the disk.
//!
//! Ground rules:
//!
//! - `fsync` and `fdatasync` are defined here, so the linker binds every call of this program to
//!   these, SQLite's C code and the standard library included. They count, and then call the kernel.
//! - Voluntary switches of all threads are the wake-ups: a thread that sleeps once was woken once.

use std::collections::HashMap;
use std::ffi::c_int;
use std::fs;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use crate::{Fallible, figure};

static SYNCS: AtomicU64 = AtomicU64::new(0);
static SYNC_NANOS: AtomicU64 = AtomicU64::new(0);

fn sync(call: libc::c_long, file: c_int) -> c_int {
    let start = Instant::now();
    // SAFETY: both calls take one descriptor, of any value, and no pointer.
    let done = unsafe { libc::syscall(call, file) };
    let nanos = u64::try_from(start.elapsed().as_nanos()).unwrap_or(u64::MAX);
    SYNCS.fetch_add(1, Ordering::Relaxed);
    SYNC_NANOS.fetch_add(nanos, Ordering::Relaxed);
    done as c_int
}

// SAFETY: the signature and the meaning are those of the C library's function of this name.
#[unsafe(no_mangle)]
extern "C" fn fsync(file: c_int) -> c_int {
    sync(libc::SYS_fsync, file)
}

// SAFETY: the signature and the meaning are those of the C library's function of this name.
#[unsafe(no_mangle)]
extern "C" fn fdatasync(file: c_int) -> c_int {
    sync(libc::SYS_fdatasync, file)
}

/// Counters since the start of the process.
#[derive(Clone, Debug)]
pub(crate) struct Usage {
    syncs: u64,
    sync_nanos: u64,
    /// The bytes given to `write` and similar calls.
    written: u64,
    /// The bytes of pages that were made dirty.
    dirtied: u64,
    cpu: Duration,
    sleeps: HashMap<String, u64>,
}

impl Usage {
    pub(crate) fn now() -> Fallible<Usage> {
        let io = fs::read_to_string("/proc/self/io")?;
        Ok(Usage {
            syncs: SYNCS.load(Ordering::Relaxed),
            sync_nanos: SYNC_NANOS.load(Ordering::Relaxed),
            written: field(&io, "wchar:")?,
            dirtied: field(&io, "write_bytes:")?,
            cpu: cpu(),
            sleeps: sleeps()?,
        })
    }
}

/// Prints the difference between two readings, divided by the number of jobs where that makes sense.
pub(crate) fn usage_between(before: &Usage, after: &Usage, jobs: u64) {
    let (jobs, syncs) = (jobs.max(1) as f64, after.syncs - before.syncs);
    figure("syncs", syncs as f64);
    figure("syncs_per_job", syncs as f64 / jobs);
    let micros = (after.sync_nanos - before.sync_nanos) as f64 / 1e3 / syncs.max(1) as f64;
    figure("sync_us", micros);
    figure("written_per_job", (after.written - before.written) as f64 / jobs);
    figure("dirtied_per_job", (after.dirtied - before.dirtied) as f64 / jobs);
    figure("cpu_us_per_job", (after.cpu - before.cpu).as_secs_f64() * 1e6 / jobs);
}

/// Prints the wake-ups, writes and processor time of an idle process.
pub(crate) fn idleness_between(before: &Usage, after: &Usage, seconds: f64) {
    // This thread slept once, for the wait itself. The switches of a thread that has ended
    // meanwhile are not known.
    let since = |(task, sleeps): (&String, &u64)| {
        sleeps.saturating_sub(before.sleeps.get(task).copied().unwrap_or(0))
    };
    let sleeps = after.sleeps.iter().map(since).sum::<u64>().saturating_sub(1);
    figure("wakeups_per_s", sleeps as f64 / seconds);
    figure("syncs", (after.syncs - before.syncs) as f64);
    figure("written", (after.written - before.written) as f64);
    figure("cpu_ms_per_s", (after.cpu - before.cpu).as_secs_f64() * 1e3 / seconds);
}

/// Prints the memory of the process.
pub(crate) fn memory() -> Fallible {
    let status = fs::read_to_string("/proc/self/status")?;
    figure("rss_mb", field(&status, "VmRSS:")? as f64 / 1024.0);
    figure("peak_mb", field(&status, "VmHWM:")? as f64 / 1024.0);
    Ok(())
}

/// Returns the bytes of all files in a directory.
pub(crate) fn bytes_in(directory: &Path) -> Fallible<u64> {
    let mut bytes = 0;
    for entry in fs::read_dir(directory)? {
        // A journal may be deleted between the listing and this call.
        bytes += entry?.metadata().map_or(0, |metadata| metadata.len());
    }
    Ok(bytes)
}

fn cpu() -> Duration {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `time` is a valid place for the answer.
    unsafe { libc::clock_gettime(libc::CLOCK_PROCESS_CPUTIME_ID, &mut time) };
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

fn sleeps() -> Fallible<HashMap<String, u64>> {
    let mut sleeps = HashMap::new();
    for task in fs::read_dir("/proc/self/task")? {
        let task = task?;
        // A thread may end meanwhile.
        let Ok(status) = fs::read_to_string(task.path().join("status")) else { continue };
        let name = task.file_name().to_string_lossy().into_owned();
        sleeps.insert(name, field(&status, "voluntary_ctxt_switches:")?);
    }
    Ok(sleeps)
}

fn field(text: &str, name: &str) -> Fallible<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix(name));
    let number = line.and_then(|line| line.split_whitespace().next());
    Ok(number.ok_or_else(|| format!("{name} is absent"))?.parse()?)
}
