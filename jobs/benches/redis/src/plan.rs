//! What is measured, as data: the contenders, and the rows in the order of the report.

use std::fs;

use crate::results::Case;
use crate::rows::{self, Measure};

/// The page in `jobs/docs`, and the file of figures beside it.
pub(crate) const REPORT: &str = "performance-redis";
/// How the names of its drawings begin.
pub(crate) const PLOT_PREFIX: &str = "redis-";
/// The rows that are drawn as bars.
pub(crate) const BARS: [&str; 2] = ["insert", "life"];
/// The drawings of lateness: each file, its row, its heading, and the only contender if there is one.
pub(crate) const LATENESS: [(&str, &str, &str, Option<&str>); 2] = [
    ("late", "late", "1,000 jobs a second, three nodes: the share that has started", None),
    ("delayed", "delayed", "10,000 jobs over two seconds: the share that has started", None),
];
/// The level whose lines have dots: none here.
pub(crate) const DOTTED: &str = "";

/// Who is measured.
pub(crate) struct Contender {
    pub(crate) name: &'static str,
    /// The package whose version stands in the report.
    pub(crate) package: &'static str,
    pub(crate) kind: Kind,
    /// How many jobs it is given of those that the others are given, where only their number counts: a
    /// slow one would take minutes.
    pub(crate) share: f64,
    /// How long it is given to insert what is due at a fixed time, as a multiple of the row's.
    pub(crate) patience: f64,
}

/// How a contender is built and started.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Rust,
    Node,
    Python,
}

pub(crate) const OURS: &str = "ours";
/// The persistence of the server, the same for all.
pub(crate) const EVERYSEC: &str = "everysec";

const RUST: Contender =
    Contender { name: "", package: "", kind: Kind::Rust, share: 1.0, patience: 1.0 };

pub(crate) const CONTENDERS: &[Contender] = &[
    Contender { name: OURS, package: "tickwheel-jobs", ..RUST },
    Contender { name: "bullmq-official", package: "bullmq-official", ..RUST },
    Contender { name: "apalis", package: "apalis-redis", ..RUST },
    Contender { name: "bullmq", package: "bullmq", kind: Kind::Node, ..RUST },
    Contender { name: "arq", package: "arq", kind: Kind::Python, share: 0.05, patience: 7.0 },
];

/// A size of a row: in the full run, and in the short one.
pub(crate) struct Size(pub(crate) &'static str, pub(crate) f64, pub(crate) f64);

/// A row.
pub(crate) struct Row {
    /// On the command line and in the file of figures.
    pub(crate) name: &'static str,
    pub(crate) title: &'static str,
    pub(crate) measure: Measure,
    /// Who does it; nobody named: everybody.
    pub(crate) only: &'static [&'static str],
    pub(crate) sizes: &'static [Size],
    pub(crate) rounds: usize,
    /// The figures of the table, each with the heading of its column.
    pub(crate) columns: &'static [(&'static str, &'static str)],
}

const LATE_COLUMNS: &[(&str, &str)] = &[
    ("early", "early"),
    ("q0.5", "p50 (ms)"),
    ("q0.99", "p99 (ms)"),
    ("q0.999", "p99.9 (ms)"),
    ("q1", "worst (ms)"),
    ("script_ms", "longest script (ms)"),
    ("twice", "run twice"),
    ("lost", "not run"),
];
const IDLE_COLUMNS: &[(&str, &str)] = &[
    ("jobs", "pending"),
    ("bytes_per_job", "bytes a pending job"),
    ("keys_per_job", "keys a pending job"),
    ("commands_per_s", "commands a second and node, idle"),
    ("inner_per_s", "with those inside of scripts"),
];

pub(crate) const ROWS: &[Row] = &[
    Row {
        name: "insert",
        title: "inserts in bulks of 500, nobody works",
        measure: rows::insert::measure,
        only: &[],
        sizes: &[Size("jobs", 50_000.0, 2_000.0), Size("bulk", 500.0, 500.0)],
        rounds: 3,
        columns: &[
            ("jobs_per_s", "jobs/s"),
            ("trips_per_job", "round trips a job"),
            ("commands_per_job", "commands a job, inside of scripts too"),
            ("server_us_per_job", "µs of the server's processor a job"),
            ("script_ms", "longest script (ms)"),
        ],
    },
    Row {
        name: "life",
        title: "the whole life of a job that is due at once",
        measure: rows::life::measure,
        only: &[],
        sizes: &[
            Size("bulk", 500.0, 500.0),
            Size("ahead", 5000.0, 1000.0),
            Size("seconds", 4.0, 0.3),
        ],
        rounds: 3,
        columns: &[
            ("jobs_per_s", "jobs/s"),
            ("trips_per_job", "round trips a job"),
            ("commands_per_job", "commands a job, inside of scripts too"),
            ("server_us_per_job", "µs of the server's processor a job"),
            ("script_ms", "longest script (ms)"),
            ("twice", "run twice"),
            ("lost", "not run"),
        ],
    },
    Row {
        name: "delayed",
        title: "10,000 jobs over two seconds, one node",
        measure: rows::late::delayed,
        only: &[],
        sizes: &[
            Size("jobs", 10_000.0, 500.0),
            Size("bulk", 500.0, 500.0),
            Size("notice", 1.5, 0.5),
            Size("spread", 2.0, 0.5),
        ],
        rounds: 2,
        columns: LATE_COLUMNS,
    },
    Row {
        name: "late",
        title: "1,000 scheduled jobs a second, three nodes",
        measure: rows::late::steady,
        only: &[],
        sizes: &[
            Size("per_second", 1000.0, 500.0),
            Size("notice", 1.0, 0.5),
            Size("seconds", 20.0, 1.0),
            Size("nodes", 3.0, 3.0),
        ],
        rounds: 1,
        columns: LATE_COLUMNS,
    },
    Row {
        name: "start",
        title: "from the insert of a job for now to its start",
        measure: rows::start::measure,
        only: &[],
        sizes: &[Size("jobs", 400.0, 40.0), Size("pause_ms", 4.0, 4.0)],
        rounds: 3,
        columns: &[
            ("start_p50_ms", "p50 (ms)"),
            ("start_p99_ms", "p99 (ms)"),
            ("start_max_ms", "worst (ms)"),
            ("lost", "not run"),
        ],
    },
    Row {
        name: "instant",
        title: "20,000 jobs for one instant, three nodes",
        measure: rows::instant::measure,
        only: &[],
        sizes: &[
            Size("jobs", 20_000.0, 1000.0),
            Size("bulk", 500.0, 500.0),
            Size("notice", 3.0, 0.5),
            Size("nodes", 3.0, 3.0),
        ],
        rounds: 2,
        columns: &[
            ("first_ms", "first start (ms)"),
            ("last_ms", "last start (ms)"),
            ("script_ms", "longest script (ms)"),
            ("early", "early"),
            ("twice", "run twice"),
            ("lost", "not run"),
        ],
    },
    Row {
        name: "idle",
        title: "pending jobs, three nodes that have nothing to do",
        measure: rows::idle::measure,
        only: &[],
        sizes: &[
            Size("jobs", 100_000.0, 2_000.0),
            Size("bulk", 500.0, 500.0),
            Size("nodes", 3.0, 3.0),
            Size("settle", 2.0, 0.5),
            Size("seconds", 6.0, 2.0),
        ],
        rounds: 1,
        columns: IDLE_COLUMNS,
    },
    Row {
        name: "idle-million",
        title: "a million pending, three nodes that have nothing to do",
        measure: rows::idle::measure,
        only: &[OURS],
        sizes: &[
            Size("jobs", 1_000_000.0, 5_000.0),
            Size("bulk", 500.0, 500.0),
            Size("nodes", 3.0, 3.0),
            Size("settle", 2.0, 0.5),
            Size("seconds", 10.0, 2.0),
        ],
        rounds: 1,
        columns: IDLE_COLUMNS,
    },
    Row {
        name: "killed",
        title: "a worker is killed: when its jobs start elsewhere",
        measure: rows::killed::measure,
        only: &[],
        sizes: &[Size("jobs", 10.0, 10.0), Size("lease", 3.0, 1.0), Size("patience", 18.0, 15.0)],
        rounds: 1,
        columns: &[
            ("after_lease_first_ms", "first, after kill and lease (ms)"),
            ("after_lease_last_ms", "last, after kill and lease (ms)"),
            ("lost", "not run again in time"),
        ],
    },
];

impl Row {
    pub(crate) fn is_for(&self, contender: &Contender) -> bool {
        self.only.is_empty() || self.only.contains(&contender.name)
    }
}

/// The place of a case in the report.
pub(crate) fn order(case: &Case) -> (usize, usize) {
    let row = ROWS.iter().position(|row| row.name == case.row);
    let contender = CONTENDERS.iter().position(|contender| contender.name == case.contender);
    (row.unwrap_or(usize::MAX), contender.unwrap_or(usize::MAX))
}

/// The version of a package that a contender was built with.
pub(crate) fn version_of(contender: &str, package: &str) -> Option<String> {
    let kind = CONTENDERS.iter().find(|known| known.name == contender)?.kind;
    let (file, before, after) = match kind {
        Kind::Rust => ("Cargo.lock", format!("name = \"{package}\"\nversion = \""), '"'),
        Kind::Node => ("package.json", format!("\"{package}\": \""), '"'),
        Kind::Python => ("requirements.txt", format!("{package}=="), '\n'),
    };
    let path = format!("{}/{contender}/{file}", env!("CARGO_MANIFEST_DIR"));
    let text = fs::read_to_string(path).ok()?;
    let rest = &text[text.find(&before)? + before.len()..];
    Some(rest.split(after).next()?.to_owned())
}
