//! The contents of the report, as data: the works, in the order of the report.
//!
//! The works of a suite share a table in `docs/performance.md`, between the marker lines of the suite.
//! To show a new work, add a row here. Works without peers are only printed.

use crate::case::Case;

/// Which peer is ours.
pub(crate) const OURS: &str = "tickwheel";

/// A work, and which of its figures are shown.
pub(crate) struct Table {
    pub(crate) suite: &'static str,
    pub(crate) work: &'static str,
    /// `-` where a suite has no choice of delays.
    pub(crate) delays: &'static str,
    pub(crate) title: &'static str,
    pub(crate) unit: &'static str,
    /// The things that `size` counts.
    pub(crate) of: &'static str,
    /// A figure, and its name in the heading of its line.
    pub(crate) figures: &'static [(&'static str, &'static str)],
    /// Whether the figures are also drawn over the sizes.
    pub(crate) drawn: bool,
}

impl Table {
    /// The part, as `--only` names it, whose table has its lines. A work that has no peers is a part of its
    /// own.
    pub(crate) fn part(&self) -> &'static str {
        match self.work {
            "levels" => "structures/levels",
            "firing" => "threads/firing",
            _ => self.suite,
        }
    }

    /// The name of the drawing.
    pub(crate) fn name(&self) -> String {
        let work = self.work.replace('_', "-");
        match self.delays {
            "-" | "hours" => format!("{}-{work}", self.suite),
            delays => format!("{}-{work}-{delays}", self.suite),
        }
    }
}

/// A work of the suite `structures`, in nanoseconds an operation.
const fn structure(work: &'static str, delays: &'static str, title: &'static str) -> Table {
    Table {
        suite: "structures",
        work,
        delays,
        title,
        unit: "nanoseconds",
        of: "pending timers",
        figures: &[],
        drawn: false,
    }
}

/// A work of the suite `threads` whose size is a number of producers.
const fn producers(work: &'static str, title: &'static str) -> Table {
    Table {
        suite: "threads",
        work,
        delays: "-",
        title,
        unit: "million pairs a second",
        of: "producers",
        figures: &[("pairs", "")],
        drawn: false,
    }
}

/// A work of the suite `threads` with one size and several figures.
const fn threads(
    work: &'static str,
    title: &'static str,
    unit: &'static str,
    figures: &'static [(&'static str, &'static str)],
) -> Table {
    Table { unit, figures, of: "timers", ..producers(work, title) }
}

/// A work of the suite `futures` whose size is a number of tasks.
const fn tasks(work: &'static str, wakes: &'static str, title: &'static str) -> Table {
    Table {
        suite: "futures",
        delays: wakes,
        unit: "millions a second",
        of: "tasks",
        figures: &[("rate", "")],
        ..producers(work, title)
    }
}

/// A work of the suite `futures` with one size and several figures.
const fn sleeps(
    work: &'static str,
    title: &'static str,
    unit: &'static str,
    figures: &'static [(&'static str, &'static str)],
) -> Table {
    Table { suite: "futures", ..threads(work, title, unit, figures) }
}

const BURST: &[(&str, &str)] = &[
    ("done", "until all have run"),
    ("longest_wait", "longest call meanwhile"),
    ("longest_gap", "a thread that only reads the clock"),
];

const ONE_THREAD: &[(&str, &str)] = &[
    ("cpu", "processor time (ms)"),
    ("late_p50", "late, half (µs)"),
    ("late_p99", "99 % (µs)"),
    ("wakeups", "switches to its threads, a sleep"),
];

pub(crate) const TABLES: &[Table] = &[
    structure("insert", "uniform", "insert, from nothing to the size"),
    structure("pairs", "uniform", "cancel a random timer and insert another"),
    structure("pairs", "long", "cancel a random timer and insert another, delays up to three days"),
    Table {
        drawn: true,
        ..structure("pairs_moving", "uniform", "cancel one and insert one, while the clock moves")
    },
    structure("reset", "uniform", "reset a random timer to a later deadline"),
    structure("refire", "uniform", "fire and insert anew, tick by tick, a timer"),
    structure("refire", "long", "fire and insert anew, tick by tick, delays up to three days"),
    structure("drain", "uniform", "fire all in one advance, a timer"),
    Table {
        figures: &[("idle_hour", "")],
        ..structure("idle_hour", "hours", "one advance over an hour with nothing due")
    },
    Table {
        unit: "bytes",
        figures: &[("bytes", "pending"), ("bytes_after", "after all were cancelled")],
        ..structure("bytes", "uniform", "memory, a timer")
    },
    Table {
        figures: &[
            ("insert", "insert"),
            ("pairs", "cancel one, insert one"),
            ("refire", "refire"),
            ("drain", "drain"),
        ],
        ..structure("levels", "uniform", "a million timers on hierarchies of 1 to 5 levels")
    },
    Table { drawn: true, ..producers("pairs_at_once", "insert and cancel at once") },
    producers("pairs_outstanding", "cancel a random one of 100,000 and insert another"),
    producers("pairs_handed_over", "insert, and cancel from another thread"),
    threads(
        "spread",
        "how late a million closures run, spread over two seconds",
        "milliseconds",
        &[
            ("p50", "half"),
            ("p99", "99 %"),
            ("max", "all"),
            ("early", "ran early (count)"),
            ("cpu", "processor time (s)"),
        ],
    ),
    threads("burst", "a million closures due at one instant", "milliseconds", BURST),
    threads(
        "idle",
        "100,000 pending and none due for ten seconds",
        "",
        &[("wakeups", "switches to its threads"), ("cpu", "processor time (ms)")],
    ),
    threads(
        "ticking",
        "one timer every 50 ms for ten seconds",
        "",
        &[("cpu", "% of a core"), ("wakeups", "switches to its threads"), ("sleeps", "from sleep")],
    ),
    threads(
        "heap",
        "memory, a pending closure of 16 captured bytes",
        "bytes",
        &[("bytes", "pending"), ("bytes_after", "after all were cancelled")],
    ),
    Table {
        of: "pool threads",
        unit: "million jobs a second",
        ..threads("firing", "a million jobs of a microsecond, due at once", "", &[("jobs", "")])
    },
    tasks("ready", "task", "a timeout round a future that is ready at once"),
    tasks("once", "task", "a sleep made, polled once and dropped"),
    tasks("outstanding", "task", "a random one of 100,000 sleeps dropped and another polled"),
    tasks("reset", "task", "a sleep reset to a delay and polled"),
    tasks("reset_at", "task", "a sleep reset to an instant and polled"),
    sleeps(
        "spread",
        "how late a million tasks wake, spread over two seconds",
        "milliseconds",
        &[
            ("p50", "half"),
            ("p99", "99 %"),
            ("early", "woke early (count)"),
            ("cpu", "processor time (s)"),
        ],
    ),
    sleeps("burst", "a million tasks that sleep until one instant", "milliseconds", BURST),
    sleeps(
        "gateway",
        "a gateway of 50,000 connections, five seconds",
        "",
        &[
            ("cpu", "processor time (ms)"),
            ("late_p50", "heartbeats late, half (µs)"),
            ("late_p99", "99 % (µs)"),
            ("wakeups", "switches to its threads, a heartbeat"),
        ],
    ),
    Table {
        of: "connections",
        ..sleeps(
            "proxy",
            "a proxy with three limits a request, 250,000 requests",
            "",
            &[
                ("cpu", "processor time (ms)"),
                ("wakeups", "switches to its threads, a thousand requests"),
            ],
        )
    },
    Table {
        of: "tasks",
        ..sleeps(
            "current_thread",
            "20,000 sleeps a second on tokio's current-thread runtime, five seconds",
            "",
            ONE_THREAD,
        )
    },
    Table {
        of: "tasks",
        ..sleeps("smol", "20,000 sleeps a second on smol, five seconds", "", ONE_THREAD)
    },
    sleeps(
        "ticking",
        "one task that sleeps 50 ms, again and again",
        "",
        &[
            ("cpu", "% of a core"),
            ("late_p50", "woken after the deadline, half (µs)"),
            ("late_p99", "99 % (µs)"),
            ("wakeups", "switches to its threads, a sleep"),
        ],
    ),
    sleeps(
        "blocked",
        "a sleep of 200 ms while one of two workers is blocked for 1.5 s",
        "seconds",
        &[("over", "over after")],
    ),
    sleeps(
        "idle",
        "a million asleep and none due for five seconds",
        "",
        &[("wakeups", "switches to its threads"), ("cpu", "processor time (ms)")],
    ),
];

impl Table {
    /// The case of a peer at a size.
    pub(crate) fn case(&self, peer: &str, size: usize) -> Case {
        Case::new(self.suite, self.work, peer, size, self.delays)
    }

    /// Each figure with its heading; a work with one figure has it under its own name.
    pub(crate) fn figures(&self) -> Vec<(&'static str, &'static str)> {
        if self.figures.is_empty() { vec![(self.work, "")] } else { self.figures.to_vec() }
    }
}
