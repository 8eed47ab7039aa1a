//! What is measured, as data: the contenders, and the rows in the order of the report.

use std::fs;

use crate::results::Case;

/// The page in `jobs/docs`, and the file of figures beside it.
pub(crate) const REPORT: &str = "performance";
/// How the names of its drawings begin.
pub(crate) const PLOT_PREFIX: &str = "";
/// The rows that are drawn as bars.
pub(crate) const BARS: [&str; 4] = ["life", "insert-64", "insert-1", "insert-random"];
/// The drawings of lateness: each file, its row, its heading, and the only contender if there is one.
pub(crate) const LATENESS: [(&str, &str, &str, Option<&str>); 2] =
    [("late", "late", LATE, None), ("late-ours", "late", LATE, Some(OURS))];
const LATE: &str = "1,000 jobs a second, a million pending: the share that has started";
/// The level whose lines have dots.
pub(crate) const DOTTED: &str = WRITTEN;

/// Who is measured.
pub(crate) struct Contender {
    pub(crate) name: &'static str,
    pub(crate) levels: &'static [&'static str],
    /// The crate whose version stands in the report.
    pub(crate) package: &'static str,
    /// How many jobs its producer may be ahead of its runs, at most.
    pub(crate) ahead: f64,
}

pub(crate) const OURS: &str = "ours";
/// What the disk gives without a queue.
pub(crate) const DISK: &str = "disk";
pub(crate) const SYNCED: &str = "synced";
pub(crate) const WRITTEN: &str = "written";
const BOTH: &[&str] = &[SYNCED, WRITTEN];

pub(crate) const CONTENDERS: &[Contender] = &[
    Contender { name: OURS, levels: BOTH, package: "tickwheel-jobs", ahead: f64::INFINITY },
    Contender { name: "effectum", levels: BOTH, package: "effectum", ahead: f64::INFINITY },
    Contender { name: "apalis", levels: BOTH, package: "apalis-sqlite", ahead: 2_000.0 },
    Contender { name: "rustqueue", levels: &[SYNCED], package: "rustqueue", ahead: f64::INFINITY },
    Contender { name: "honker", levels: BOTH, package: "honker", ahead: f64::INFINITY },
    Contender { name: DISK, levels: &[SYNCED], package: "", ahead: f64::INFINITY },
];

/// A size that the driver gives to a contender: in the full run, and in the short one.
pub(crate) struct Size(pub(crate) &'static str, pub(crate) f64, pub(crate) f64);

/// A row.
pub(crate) struct Row {
    /// On the command line and in the file of figures.
    pub(crate) name: &'static str,
    pub(crate) title: &'static str,
    /// What the contender is told to do.
    pub(crate) work: &'static str,
    pub(crate) levels: &'static [&'static str],
    /// Who does it; nobody named: everybody but the disk.
    pub(crate) only: &'static [&'static str],
    pub(crate) sizes: &'static [Size],
    /// How many jobs are in the file at the start, in the full run and in the short one.
    pub(crate) filled: Option<(usize, usize)>,
    pub(crate) rounds: usize,
    /// Only in the long run.
    pub(crate) long: bool,
    /// The figures of the table, each with the heading of its column.
    pub(crate) columns: &'static [(&'static str, &'static str)],
}

const ROW: Row = Row {
    name: "",
    title: "",
    work: "",
    levels: BOTH,
    only: &[],
    sizes: &[],
    filled: None,
    rounds: 3,
    long: false,
    columns: &[],
};

const MILLION: Option<(usize, usize)> = Some((1_000_000, 2_000));
const TEN_MILLION: Option<(usize, usize)> = Some((10_000_000, 5_000));
const KILL_COLUMNS: &[(&str, &str)] = &[
    ("open_ms", "opened (ms)"),
    ("first_run_ms", "first overdue run (ms)"),
    ("last_run_ms", "last of 1000 (ms)"),
    ("lost", "lost"),
];
const KILL_SIZES: &[Size] = &[Size("jobs", 1000.0, 50.0), Size("notice", 4.0, 1.3)];
const MEMORY_COLUMNS: &[(&str, &str)] = &[("rss_mb", "resident (MB)"), ("peak_mb", "peak (MB)")];
const MEMORY_SIZES: &[Size] = &[Size("jobs", 10_000.0, 500.0), Size("batch", 1000.0, 100.0)];
const FILE_COLUMNS: &[(&str, &str)] = &[
    ("jobs", "jobs"),
    ("live", "alive at most"),
    ("needed_mb", "a new file with as many (MB)"),
    ("passed_mb", "after all had passed (MB)"),
    ("largest_mb", "largest (MB)"),
    ("drained_mb", "3 s after the last (MB)"),
    ("closed_mb", "closed (MB)"),
];

pub(crate) const ROWS: &[Row] = &[
    Row {
        name: "life",
        title: "the whole life of a job that is due at once",
        work: "life",
        sizes: &[
            Size("batch", 1000.0, 200.0),
            Size("ahead", 20_000.0, 1000.0),
            Size("seconds", 6.0, 0.2),
        ],
        columns: &[
            ("jobs_per_s", "jobs/s"),
            ("cpu_us_per_job", "µs of processor a job"),
            ("syncs_per_job", "fsyncs a job"),
            ("written_per_job", "bytes written a job"),
            ("dirtied_per_job", "bytes of dirty pages a job"),
            ("lost", "lost"),
        ],
        ..ROW
    },
    Row {
        name: "life-random",
        title: "the whole life at random delays of three days, a million pending",
        work: "life-random",
        only: &[OURS, "rustqueue", "honker"],
        sizes: &[
            Size("pending", 1_000_000.0, 2_000.0),
            Size("batch", 1000.0, 100.0),
            Size("ahead", 20_000.0, 1000.0),
            Size("seconds", 8.0, 0.3),
        ],
        filled: MILLION,
        columns: &[
            ("jobs_per_s", "jobs/s"),
            ("cpu_us_per_job", "µs of processor a job"),
            ("syncs_per_job", "fsyncs a job"),
            ("written_per_job", "bytes written a job"),
            ("dirtied_per_job", "bytes of dirty pages a job"),
            ("longest_insert_ms", "longest insert of 1000 (ms)"),
        ],
        ..ROW
    },
    Row {
        name: "insert-64",
        title: "inserts of 64 callers",
        work: "insert",
        levels: &[SYNCED],
        sizes: &[Size("callers", 64.0, 64.0), Size("seconds", 4.0, 0.2)],
        columns: &[
            ("jobs_per_s", "jobs/s"),
            ("syncs_per_job", "fsyncs an insert"),
            ("sync_us", "µs an fsync"),
        ],
        ..ROW
    },
    Row {
        name: "insert-1",
        title: "inserts of one caller",
        work: "insert",
        only: &[OURS, "effectum", "apalis", "rustqueue", "honker", DISK],
        sizes: &[Size("callers", 1.0, 1.0), Size("seconds", 3.0, 0.2)],
        columns: &[
            ("jobs_per_s", "jobs/s"),
            ("syncs_per_job", "fsyncs an insert"),
            ("sync_us", "µs an fsync"),
        ],
        ..ROW
    },
    Row {
        name: "late",
        title: "how late 1,000 scheduled jobs a second start, a million pending",
        work: "late",
        sizes: &[
            Size("per_second", 1000.0, 200.0),
            Size("notice", 2.0, 0.3),
            Size("seconds", 20.0, 0.5),
        ],
        filled: MILLION,
        rounds: 2,
        columns: &[
            ("early", "early"),
            ("q0.5", "p50 (ms)"),
            ("q0.99", "p99 (ms)"),
            ("q0.999", "p99.9 (ms)"),
            ("q1", "worst (ms)"),
            ("lost", "not run"),
        ],
        ..ROW
    },
    Row {
        name: "start",
        title: "from the insert of a job for now to its start",
        work: "start",
        sizes: &[Size("jobs", 300.0, 10.0)],
        columns: &[
            ("start_p50_ms", "p50 (ms)"),
            ("start_p99_ms", "p99 (ms)"),
            ("start_max_ms", "worst (ms)"),
            ("answer_p50_ms", "until the answer, p50 (ms)"),
            ("sync_us", "µs an fsync"),
        ],
        ..ROW
    },
    Row {
        name: "instant",
        title: "10,000 jobs for one instant",
        work: "instant",
        sizes: &[Size("jobs", 10_000.0, 200.0), Size("notice", 2.0, 0.3)],
        columns: &[
            ("first_to_last_ms", "first start to last (ms)"),
            ("first_ms", "first (ms)"),
            ("last_ms", "last (ms)"),
            ("early", "early"),
            ("lost", "not run"),
        ],
        ..ROW
    },
    Row {
        name: "kill",
        title: "after `kill -9`, a million pending",
        work: "after-kill",
        levels: &[SYNCED],
        sizes: KILL_SIZES,
        filled: MILLION,
        columns: KILL_COLUMNS,
        ..ROW
    },
    Row {
        name: "kill-10m",
        title: "after `kill -9`, ten million pending",
        work: "after-kill",
        levels: &[SYNCED],
        only: &[OURS],
        sizes: KILL_SIZES,
        filled: TEN_MILLION,
        long: true,
        columns: KILL_COLUMNS,
        ..ROW
    },
    Row {
        name: "memory",
        title: "memory, a million pending, 10,000 run",
        work: "memory",
        levels: &[SYNCED],
        sizes: MEMORY_SIZES,
        filled: MILLION,
        rounds: 1,
        columns: MEMORY_COLUMNS,
        ..ROW
    },
    Row {
        name: "memory-10m",
        title: "memory, ten million pending, 10,000 run",
        work: "memory",
        levels: &[SYNCED],
        only: &[OURS],
        sizes: MEMORY_SIZES,
        filled: TEN_MILLION,
        rounds: 1,
        long: true,
        columns: MEMORY_COLUMNS,
    },
    Row {
        name: "idle",
        title: "idle, a million pending",
        work: "idle",
        levels: &[SYNCED],
        sizes: &[Size("settle", 2.0, 0.2), Size("seconds", 10.0, 0.5)],
        filled: MILLION,
        rounds: 1,
        columns: &[
            ("wakeups_per_s", "wake-ups a second"),
            ("cpu_ms_per_s", "ms of processor a second"),
            ("written", "bytes written in 10 s"),
            ("syncs", "fsyncs in 10 s"),
            ("commits", "commits in 10 s"),
        ],
        ..ROW
    },
    Row {
        name: "insert-random",
        title: "inserts at random times of three days, in batches of 1000, a million pending",
        work: "insert-random",
        sizes: &[Size("jobs", 100_000.0, 1000.0), Size("batch", 1000.0, 100.0)],
        filled: MILLION,
        columns: &[
            ("jobs_per_s", "jobs/s"),
            ("written_per_job", "bytes written a job"),
            ("dirtied_per_job", "bytes of dirty pages a job"),
        ],
        ..ROW
    },
    Row {
        name: "file",
        title: "the file, when many jobs pass through 100,000 live ones",
        work: "file",
        sizes: &[
            Size("jobs", 2_000_000.0, 2000.0),
            Size("live", 100_000.0, 1000.0),
            Size("batch", 1000.0, 100.0),
            Size("delay", 3.0, 0.4),
            Size("seconds", 45.0, 0.5),
            Size("settle", 3.0, 0.2),
        ],
        rounds: 1,
        columns: FILE_COLUMNS,
        ..ROW
    },
    Row {
        name: "file-10m",
        title: "the file, when ten million jobs pass through 100,000 live ones",
        work: "file",
        only: &[OURS],
        sizes: &[
            Size("jobs", 10_000_000.0, 2000.0),
            Size("live", 100_000.0, 1000.0),
            Size("batch", 1000.0, 100.0),
            Size("delay", 1.5, 0.4),
            Size("seconds", 600.0, 0.5),
            Size("settle", 3.0, 0.2),
        ],
        rounds: 1,
        long: true,
        columns: FILE_COLUMNS,
        ..ROW
    },
];

impl Row {
    /// Whether somebody does this row at a level.
    pub(crate) fn is_for(&self, contender: &Contender, level: &str) -> bool {
        let chosen = match self.only {
            [] => contender.name != DISK,
            only => only.contains(&contender.name),
        };
        chosen && self.levels.contains(&level) && contender.levels.contains(&level)
    }
}

/// The place of a case in the report.
pub(crate) fn order(case: &Case) -> (usize, usize, usize) {
    let row = ROWS.iter().position(|row| row.name == case.row);
    let contender = CONTENDERS.iter().position(|contender| contender.name == case.contender);
    let level = BOTH.iter().position(|level| *level == case.level);
    let last = usize::MAX;
    (row.unwrap_or(last), level.unwrap_or(last), contender.unwrap_or(last))
}

/// The version of a crate that a contender was built with.
pub(crate) fn version_of(contender: &str, package: &str) -> Option<String> {
    let lock = format!("{}/{contender}/Cargo.lock", env!("CARGO_MANIFEST_DIR"));
    let lock = fs::read_to_string(lock).ok()?;
    let name = format!("name = \"{package}\"");
    let line = lock.lines().skip_while(|line| *line != name).nth(1)?;
    Some(line.strip_prefix("version = \"")?.strip_suffix('"')?.to_owned())
}
