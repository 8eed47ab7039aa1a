//! The rows in the order of the report, with their sizes and repetitions.

use harness::queues::{OURS, Size};

use crate::contenders::{LEVELS, ON_REDIS, WITH_LIMITS, WITH_PARTITIONS};
use crate::rows::{
    Measure, Row, Work, idle, insert, instant, killed, late, life, partitions, start,
};

const LATE_COLUMNS: &[(&str, &str)] = &[
    ("early", "early"),
    ("q0.5", "p50 (ms)"),
    ("q0.99", "p99 (ms)"),
    ("q1", "worst (ms)"),
    ("script_ms", "longest script (ms)"),
    ("twice", "run twice"),
    ("lost", "not run"),
];
const LIFE_SIZES: &[Size] =
    &[Size("bulk", 500.0, 500.0), Size("ahead", 5000.0, 1000.0), Size("seconds", 4.0, 0.3)];
const LIFE_COLUMNS: &[(&str, &str)] = &[
    ("jobs_per_s", "jobs/s"),
    ("trips_per_job", "round trips a job"),
    ("commands_per_job", "commands a job, inside of scripts too"),
    ("server_us_per_job", "µs of the server's processor a job"),
    ("script_ms", "longest script (ms)"),
    ("twice", "run twice"),
    ("lost", "not run"),
];
const IDLE_COLUMNS: &[(&str, &str)] = &[
    ("jobs", "pending"),
    ("bytes_per_job", "bytes a pending job"),
    ("keys_per_job", "keys a pending job"),
    ("commands_per_s", "commands a second and node, idle"),
];

pub(crate) const ROWS: &[Row] = &[
    Row {
        sizes: &[Size("jobs", 50_000.0, 2_000.0), Size("bulk", 500.0, 500.0)],
        columns: &[
            ("jobs_per_s", "jobs/s"),
            ("trips_per_job", "round trips a job"),
            ("commands_per_job", "commands a job, inside of scripts too"),
            ("server_us_per_job", "µs of the server's processor a job"),
            ("script_ms", "longest script (ms)"),
        ],
        ..row("insert", "inserts in bulks of 500, while no process runs jobs", insert::measure)
    },
    Row {
        sizes: LIFE_SIZES,
        columns: LIFE_COLUMNS,
        ..row("life", "the whole life of a job that is due at once", life::measure)
    },
    Row {
        only: WITH_LIMITS,
        sizes: LIFE_SIZES,
        columns: LIFE_COLUMNS,
        ..row(
            "limited",
            "the whole life, with a rate of the queue that is never reached",
            life::limited,
        )
    },
    Row {
        only: WITH_PARTITIONS,
        sizes: &[
            Size("bulk", 500.0, 500.0),
            Size("ahead", 5000.0, 1000.0),
            Size("seconds", 4.0, 0.3),
            Size("partitions", 1000.0, 50.0),
        ],
        columns: &[
            ("plain_per_s", "jobs/s without partitions"),
            ("jobs_per_s", "jobs/s with 1,000 partitions"),
            ("twice", "run twice"),
            ("lost", "not run"),
        ],
        ..row(
            "partitions",
            "the whole life, without and with partitions of one job at once",
            partitions::measure,
        )
    },
    Row {
        sizes: &[
            Size("jobs", 10_000.0, 500.0),
            Size("bulk", 500.0, 500.0),
            Size("notice", 1.5, 0.5),
            Size("spread", 2.0, 0.5),
        ],
        rounds: 2,
        columns: LATE_COLUMNS,
        ..row("delayed", "10,000 jobs over two seconds, one node", late::delayed)
    },
    Row {
        sizes: &[
            Size("per_second", 1000.0, 500.0),
            Size("notice", 1.0, 0.5),
            Size("seconds", 20.0, 1.0),
            Size("nodes", 3.0, 3.0),
        ],
        rounds: 1,
        columns: LATE_COLUMNS,
        ..row("late", "1,000 scheduled jobs a second, three nodes", late::steady)
    },
    Row {
        sizes: &[Size("jobs", 400.0, 40.0), Size("pause_ms", 4.0, 4.0)],
        columns: &[
            ("start_p50_ms", "p50 (ms)"),
            ("start_p99_ms", "p99 (ms)"),
            ("start_max_ms", "worst (ms)"),
            ("lost", "not run"),
        ],
        ..row("start", "from the insert of a job for now to its start", start::measure)
    },
    Row {
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
        ..row("instant", "20,000 jobs for one instant, three nodes", instant::measure)
    },
    Row {
        sizes: &[
            Size("jobs", 100_000.0, 2_000.0),
            Size("bulk", 500.0, 500.0),
            Size("nodes", 3.0, 3.0),
            Size("settle", 2.0, 0.5),
            Size("seconds", 6.0, 2.0),
        ],
        rounds: 1,
        columns: IDLE_COLUMNS,
        ..row("idle", "pending jobs, three nodes that have nothing to do", idle::measure)
    },
    Row {
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
        ..row(
            "idle-million",
            "a million pending, three nodes that have nothing to do",
            idle::measure,
        )
    },
    Row {
        sizes: &[Size("jobs", 10.0, 10.0), Size("lease", 3.0, 1.0), Size("patience", 18.0, 15.0)],
        rounds: 1,
        columns: &[
            ("after_lease_last_ms", "last, after kill and lease (ms)"),
            ("lost", "not run again in time"),
        ],
        ..row("killed", "a worker is killed: when its jobs start elsewhere", killed::measure)
    },
];

/// A row that every contender on Redis does.
const fn row(name: &'static str, title: &'static str, measure: Measure) -> Row {
    Row {
        name,
        title,
        levels: LEVELS,
        only: ON_REDIS,
        sizes: &[],
        rounds: 3,
        long: false,
        columns: &[],
        own: Work(measure),
    }
}
