//! The contenders, and the rows in the order of the report, as data.

use std::path::Path;

use harness::queues::{DISK, OURS, Size};
use harness::{queues, versions};

pub(crate) type Row = queues::Row<Work>;
pub(crate) type Contender = queues::Contender<Ahead>;
pub(crate) type Setting = queues::Setting<Work, Ahead>;

/// How a row is measured.
pub(crate) struct Work {
    /// The name of the row for the contender.
    pub(crate) name: &'static str,
    /// How many jobs are in the file at the start, in the full run and in the short one.
    pub(crate) filled: Option<(usize, usize)>,
}

/// How many jobs a contender's producer may be ahead of its runs, at most.
pub(crate) struct Ahead(pub(crate) f64);

/// The folder of the source, in which the contenders lie.
pub(crate) const HOME: &str = env!("CARGO_MANIFEST_DIR");

pub(crate) const SYNCED: &str = "synced";
pub(crate) const WRITTEN: &str = "written";
/// In the order of the report.
pub(crate) const BOTH: &[&str] = &[SYNCED, WRITTEN];

pub(crate) const CONTENDERS: &[Contender] = &[
    contender(OURS, BOTH, "tickwheel-jobs"),
    contender("effectum", BOTH, "effectum"),
    Contender { own: Ahead(2_000.0), ..contender("apalis", BOTH, "apalis-sqlite") },
    contender("rustqueue", &[SYNCED], "rustqueue"),
    contender("honker", BOTH, "honker"),
    contender(DISK, &[SYNCED], ""),
];

const fn contender(
    name: &'static str,
    levels: &'static [&'static str],
    package: &'static str,
) -> Contender {
    Contender { name, levels, package, own: Ahead(f64::INFINITY) }
}

/// A row that every contender does at both levels, beginning with an empty file.
const fn row(name: &'static str, title: &'static str, work: &'static str) -> Row {
    Row {
        name,
        title,
        levels: BOTH,
        only: &[],
        sizes: &[],
        rounds: 3,
        long: false,
        columns: &[],
        own: Work { name: work, filled: None },
    }
}

/// The same, beginning with a filled file.
const fn on_filled(
    name: &'static str,
    title: &'static str,
    work: &'static str,
    filled: (usize, usize),
) -> Row {
    Row { own: Work { name: work, filled: Some(filled) }, ..row(name, title, work) }
}

const MILLION: (usize, usize) = (1_000_000, 2_000);
const TEN_MILLION: (usize, usize) = (10_000_000, 5_000);
const KILL_COLUMNS: &[(&str, &str)] =
    &[("open_ms", "opened (ms)"), ("first_run_ms", "first overdue run (ms)"), ("lost", "lost")];
const KILL_SIZES: &[Size] = &[Size("jobs", 1000.0, 50.0), Size("notice", 4.0, 1.3)];
const MEMORY_COLUMNS: &[(&str, &str)] = &[("peak_mb", "resident at its peak (MB)")];
const MEMORY_SIZES: &[Size] = &[Size("jobs", 10_000.0, 500.0), Size("batch", 1000.0, 100.0)];
const FILE_COLUMNS: &[(&str, &str)] = &[
    ("jobs", "jobs"),
    ("needed_mb", "a new file with as many (MB)"),
    ("passed_mb", "after all had passed (MB)"),
    ("closed_mb", "closed (MB)"),
];

pub(crate) const ROWS: &[Row] = &[
    Row {
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
            ("lost", "lost"),
        ],
        ..row("life", "the whole life of a job that is due at once", "life")
    },
    Row {
        only: &[OURS, "rustqueue", "honker"],
        sizes: &[
            Size("pending", 1_000_000.0, 2_000.0),
            Size("batch", 1000.0, 100.0),
            Size("ahead", 20_000.0, 1000.0),
            Size("seconds", 8.0, 0.3),
        ],
        columns: &[
            ("jobs_per_s", "jobs/s"),
            ("cpu_us_per_job", "µs of processor a job"),
            ("written_per_job", "bytes written a job"),
            ("dirtied_per_job", "bytes of dirty pages a job"),
            ("longest_insert_ms", "longest insert of 1000 (ms)"),
        ],
        ..on_filled(
            "life-random",
            "the whole life at random delays of three days, a million pending",
            "life-random",
            MILLION,
        )
    },
    Row {
        levels: &[SYNCED],
        sizes: &[Size("callers", 64.0, 64.0), Size("seconds", 4.0, 0.2)],
        columns: &[
            ("jobs_per_s", "jobs/s"),
            ("syncs_per_job", "fsyncs an insert"),
            ("sync_us", "µs an fsync"),
        ],
        ..row("insert-64", "inserts of 64 callers", "insert")
    },
    Row {
        only: &[OURS, "effectum", "apalis", "rustqueue", "honker", DISK],
        sizes: &[Size("callers", 1.0, 1.0), Size("seconds", 3.0, 0.2)],
        columns: &[
            ("jobs_per_s", "jobs/s"),
            ("syncs_per_job", "fsyncs an insert"),
            ("sync_us", "µs an fsync"),
        ],
        ..row("insert-1", "inserts of one caller", "insert")
    },
    Row {
        sizes: &[
            Size("per_second", 1000.0, 200.0),
            Size("notice", 2.0, 0.3),
            Size("seconds", 20.0, 0.5),
        ],
        rounds: 2,
        columns: &[
            ("early", "early"),
            ("q0.5", "p50 (ms)"),
            ("q0.99", "p99 (ms)"),
            ("q1", "worst (ms)"),
            ("lost", "not run"),
        ],
        ..on_filled(
            "late",
            "how late 1,000 scheduled jobs a second start, a million pending",
            "late",
            MILLION,
        )
    },
    Row {
        sizes: &[Size("jobs", 300.0, 10.0)],
        columns: &[
            ("start_p50_ms", "p50 (ms)"),
            ("start_p99_ms", "p99 (ms)"),
            ("start_max_ms", "worst (ms)"),
            ("answer_p50_ms", "until the answer, p50 (ms)"),
            ("sync_us", "µs an fsync"),
        ],
        ..row("start", "from the insert of a job for now to its start", "start")
    },
    Row {
        sizes: &[Size("jobs", 10_000.0, 200.0), Size("notice", 2.0, 0.3)],
        columns: &[
            ("first_to_last_ms", "first start to last (ms)"),
            ("first_ms", "first (ms)"),
            ("early", "early"),
            ("lost", "not run"),
        ],
        ..row("instant", "10,000 jobs for one instant", "instant")
    },
    Row {
        levels: &[SYNCED],
        sizes: KILL_SIZES,
        columns: KILL_COLUMNS,
        ..on_filled("kill", "after `kill -9`, a million pending", "after-kill", MILLION)
    },
    Row {
        levels: &[SYNCED],
        only: &[OURS],
        sizes: KILL_SIZES,
        long: true,
        columns: KILL_COLUMNS,
        ..on_filled("kill-10m", "after `kill -9`, ten million pending", "after-kill", TEN_MILLION)
    },
    Row {
        levels: &[SYNCED],
        sizes: MEMORY_SIZES,
        rounds: 1,
        columns: MEMORY_COLUMNS,
        ..on_filled("memory", "memory, a million pending, 10,000 run", "memory", MILLION)
    },
    Row {
        levels: &[SYNCED],
        only: &[OURS],
        sizes: MEMORY_SIZES,
        rounds: 1,
        long: true,
        columns: MEMORY_COLUMNS,
        ..on_filled("memory-10m", "memory, ten million pending, 10,000 run", "memory", TEN_MILLION)
    },
    Row {
        levels: &[SYNCED],
        sizes: &[Size("settle", 2.0, 0.2), Size("seconds", 10.0, 0.5)],
        rounds: 1,
        columns: &[
            ("wakeups_per_s", "wake-ups a second"),
            ("cpu_ms_per_s", "ms of processor a second"),
            ("written", "bytes written in 10 s"),
            ("syncs", "fsyncs in 10 s"),
            ("commits", "commits in 10 s"),
        ],
        ..on_filled("idle", "idle, a million pending", "idle", MILLION)
    },
    Row {
        sizes: &[Size("jobs", 100_000.0, 1000.0), Size("batch", 1000.0, 100.0)],
        columns: &[
            ("jobs_per_s", "jobs/s"),
            ("written_per_job", "bytes written a job"),
            ("dirtied_per_job", "bytes of dirty pages a job"),
        ],
        ..on_filled(
            "insert-random",
            "inserts at random times of three days, in batches of 1000, a million pending",
            "insert-random",
            MILLION,
        )
    },
    Row {
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
        ..row("file", "the file, when many jobs pass through 100,000 live ones", "file")
    },
    Row {
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
        ..row("file-10m", "the file, when ten million jobs pass through 100,000 live ones", "file")
    },
];

/// The version that a contender was built with.
pub(crate) fn version_of(contender: &Contender) -> Option<String> {
    versions::locked(&Path::new(HOME).join(contender.name), contender.package)
}
