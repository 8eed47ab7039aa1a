//! The processor time, context switches and memory that the process has used so far, from Linux'
//! files in /proc/self.
//!
//! The processor time is the scheduler's own count, which is exact. (The clock ticks in
//! /proc/self/stat are 10 ms each, too coarse for a sleeping timer.) The system has that count for
//! each thread, and drops it when the thread ends. So no thread may end between two readings.

use std::fs;
use std::path::Path;

/// Processor time and context switches since the process began.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Usage {
    /// User and system time of all threads, in seconds.
    pub(crate) cpu: f64,
    /// How often all threads but the main one went to sleep, and were woken.
    pub(crate) sleeps: f64,
    /// How often they gave way to another thread without going to sleep.
    pub(crate) yields: f64,
}

impl Usage {
    pub(crate) fn now() -> Result<Usage, String> {
        let main = std::process::id().to_string();
        let mut usage = Usage { cpu: 0.0, sleeps: 0.0, yields: 0.0 };
        let threads = fs::read_dir("/proc/self/task").map_err(|error| error.to_string())?;
        for thread in threads {
            let thread = thread.map_err(|error| error.to_string())?;
            usage.cpu += run_time(&thread.path())?;
            if thread.file_name() != main.as_str() {
                let status = read(&thread.path().join("status"))?;
                usage.sleeps += line(&status, "voluntary_ctxt_switches:")?;
                usage.yields += line(&status, "nonvoluntary_ctxt_switches:")?;
            }
        }
        Ok(usage)
    }

    /// The difference from `before`.
    pub(crate) fn since(self, before: Usage) -> Usage {
        Usage {
            cpu: self.cpu - before.cpu,
            sleeps: self.sleeps - before.sleeps,
            yields: self.yields - before.yields,
        }
    }
}

/// How much memory of the process is resident, in bytes.
pub(crate) fn resident() -> Result<f64, String> {
    /// The size of a page on all systems where this runs; the file counts in pages.
    const PAGE: f64 = 4096.0;
    let text = read(Path::new("/proc/self/statm"))?;
    Ok(number(text.split_whitespace().nth(1))? * PAGE)
}

/// How long a thread has run, in seconds.
fn run_time(thread: &Path) -> Result<f64, String> {
    let text = read(&thread.join("schedstat"))?;
    Ok(number(text.split_whitespace().next())? / 1e9)
}

/// The number in the line that begins with `name`.
fn line(status: &str, name: &str) -> Result<f64, String> {
    let rest = status.lines().find_map(|line| line.strip_prefix(name));
    number(rest.map(str::trim))
}

fn read(path: &Path) -> Result<String, String> {
    fs::read_to_string(path).map_err(|error| format!("{}: {error}", path.display()))
}

fn number(field: Option<&str>) -> Result<f64, String> {
    let field = field.ok_or("a field is missing in /proc")?;
    field.parse().map_err(|_| format!("not a number in /proc: {field:?}"))
}
