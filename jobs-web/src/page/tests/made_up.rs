//! Made-up views for the tests of the pages: a usual day, an empty queue, and any text in the place of a job's.

use crate::page::layout::{Frame, QueueLink, Said, encoded};
use crate::route::Read;
use crate::views::{Bulks, OverviewPage, Problem, Progress, Question, QueueRow};
use tickwheel_jobs::view::{
    About, Bound, GroupRow, GroupState, Groups, HistoryRow, KindPage, KindRow, Kinds, LimitRow,
    Limits, NodeRow, Nodes, Number, Overview, Rates, ScheduleRow, Schedules, Slowdowns, Store,
    Time, Warning,
};

/// Makes a row of a view, whose other fields are as by default, or as those of a base.
macro_rules! made {
    (@value $field:ident) => { $field };
    (@value $field:ident $value:expr) => { $value };
    ($row:ident { $($field:ident $(: $value:expr)?),* $(,)? }) => {
        made!($row { $($field $(: $value)?,)* ..$row::default() })
    };
    ($row:ident { $($field:ident $(: $value:expr)?,)* ..$base:expr }) => {{
        let mut row: $row = $base;
        $(row.$field = made!(@value $field $($value)?);)*
        row
    }};
}
pub(super) use made;

/// Texts of jobs: each is changed by a function, so that any text can stand in each place.
pub(super) type Change<'a> = &'a dyn Fn(&str) -> String;

pub(super) fn at(seconds: i64) -> Time {
    let now = std::time::UNIX_EPOCH + std::time::Duration::from_secs(1_795_515_630);
    let distance = std::time::Duration::from_secs(seconds.unsigned_abs());
    Time::from(if seconds < 0 { now - distance } else { now + distance })
}

pub(super) fn frame(tab: Option<Read>, here: &str, change: Change<'_>) -> Frame {
    let queue = |name: &str, is_current| QueueLink {
        name: change(name),
        is_current,
        link: format!("./?queue={}", encoded(name)),
    };
    Frame {
        title: change("shop, production"),
        tab,
        // Its name is the program's, and goes back to it as it is.
        queue: "mail".to_owned(),
        queues: vec![queue("default", false), queue("mail", true)],
        root: "./".to_owned(),
        may_change: true,
        form: "5f1d".to_owned(),
        slowdowns: made!(Slowdowns {
            rows: vec![
                made!(Warning {
                    what: "kind_paused",
                    text: change("Paused: the kind \"mail\"."),
                    cure: change("Resume it."),
                    about: About::Kind(change("mail")),
                }),
                made!(Warning {
                    what: "held",
                    text: change("Held for another 12 s: the flow \"stripe\"."),
                    cure: change("End the hold."),
                    about: About::Limits,
                }),
            ],
            total: 1204,
        }),
        said: Some(Said {
            text: change("The queue goes on."),
            job: Some("jobs/018f3a2c00000001a1b2c3d4e5f60718".to_owned()),
        }),
        here: here.to_owned(),
        style: "style-1f00.css".to_owned(),
        script: "live-2e11.js".to_owned(),
        now: at(0),
        is_live: true,
    }
}

pub(super) fn exactly(count: u64) -> Number {
    Number { count, is_exact: true }
}

pub(super) fn minutes(is_empty: bool) -> Vec<HistoryRow> {
    let bound = |ms| (!is_empty).then_some(Bound::from_ms(ms));
    let of = |minute: i64| {
        let completed = if is_empty { 0 } else { 1240 + minute as u64 };
        made!(HistoryRow {
            begin: at((minute - 59) * 60 - 30),
            inserted: completed + 3,
            completed,
            failed: completed / 100,
            late_p50_ms: bound(2),
            late_p99_ms: bound(30_000),
            took_p50_ms: bound(25),
            took_p99_ms: bound(500),
        })
    };
    (0..60).map(of).collect()
}

pub(super) fn overview(change: Change<'_>) -> OverviewPage {
    let queue = |name: &str, is_current, problem: Option<&str>| QueueRow {
        name: change(name),
        is_current,
        problem: problem.map(change),
        pending: 1_204_311,
        overdue: Some(Number { count: 1204, is_exact: true }),
        dead: 344,
        alive_nodes: 3,
    };
    let queues = vec![
        queue("default", false, None),
        queue("mail", true, None),
        queue("reports", false, Some("connection refused (os error 111)")),
    ];
    let view = made!(Overview {
        now: at(0),
        pending: 1_204_311,
        overdue: exactly(1204),
        oldest_overdue_ms: Some(252_000),
        running: 48,
        capacity: 64,
        dead: 344,
        schedules: 7,
        completed_per_minute: 812,
        failed_per_minute: 6,
        hour: made!(Rates { late_p99_ms: Some(Bound::from_ms(25)) }),
        minutes: minutes(false),
        warnings: vec![
            made!(Warning {
                what: "no_handler",
                text: change("The kind thumbnails has 210 jobs, and no process handles it."),
                cure: change("Start a process with a handler for it, or delete the jobs."),
                about: About::Overdue(change("thumbnails")),
            }),
            made!(Warning {
                what: "no_node",
                text: change("No process has run the jobs of this queue for 2 minutes."),
                cure: change("Start one. Until then every job waits."),
                about: About::Nodes,
            }),
        ],
    });
    OverviewPage { view, queues }
}

pub(super) fn empty_overview() -> OverviewPage {
    let view = made!(Overview { now: at(0), minutes: minutes(true) });
    OverviewPage { view, queues: Vec::new() }
}

pub(super) const KINDS: [&str; 8] = [
    "close-order",
    "mail",
    "thumbnails",
    "invoice.render",
    "push-notification",
    "webhook",
    "report:nightly",
    "purge",
];

pub(super) fn kinds(many: usize, change: Change<'_>) -> Kinds {
    let row = |n: usize| {
        let name = KINDS[n % KINDS.len()];
        let name =
            if n < KINDS.len() { name.to_owned() } else { format!("{name}-{}", n / KINDS.len()) };
        let at_64 = n as u64;
        let is_idle = n % 7 == 6;
        let ms = |ms: u64| (!is_idle).then_some(ms);
        made!(KindRow {
            kind: change(&name),
            pending: if is_idle { 0 } else { 12_000 },
            running: at_64 % 4,
            oldest_overdue_ms: (n % 5 == 1).then_some(252_000),
            next_due: (n % 5 != 3).then(|| at(90 + 777 * n as i64)),
            dead: exactly(if n % 4 == 2 { 344 } else { 0 }),
            is_paused: n % 8 == 3,
            has_node: n % 8 != 2,
            completed_per_minute: if is_idle { 0 } else { 60 },
            hour: made!(Rates {
                completed: if is_idle { 0 } else { 1204 },
                failed: at_64,
                failed_in_hundred: (!is_idle).then_some([0.0, 0.03, 1.4, 12.5][n % 4]),
                late_p50_ms: ms(2).map(Bound::from_ms),
                late_p99_ms: ms([5, 25, 250, 30_000][n % 4]).map(Bound::from_ms),
                took_p50_ms: ms(50).map(Bound::from_ms),
                took_p99_ms: ms([500, 1000, 5000, 300_000][n % 4]).map(Bound::from_ms),
            }),
            completed_by_minute: (0..60).map(|at| if is_idle { 0 } else { at }).collect(),
            head_start_ms: (n == 4).then_some(60_000),
            keeps: (n == 0).then(|| change("the last 1000, for 7 days")),
            limits: if n == 1 { limits(change).rows } else { Vec::new() },
        })
    };
    made!(Kinds {
        now: at(0),
        rows: (0..many).map(row).collect(),
        total: many as u64,
        next: (many > 30).then(|| change("webhook")),
        limits: if many == 8 { limits(change) } else { Limits::default() },
    })
}

pub(super) fn kind(change: Change<'_>) -> KindPage {
    let all = limits(change);
    made!(KindPage {
        now: at(0),
        kind: made!(KindRow {
            limits: all.rows[1..3].to_vec(),
            ..kinds(8, change).rows[0].clone()
        }),
        is_known: false,
        flow: change("stripe"),
        partitions: made!(Limits { rows: all.rows[3..].to_vec(), total: 240 }),
    })
}

/// A limit of each scope: one is full, one waits for its rate, one is held, one is paused.
fn limits(change: Change<'_>) -> Limits {
    let none = made!(LimitRow { scope: "queue", running: 41, waiting: Some(exactly(0)) });
    let flow = made!(LimitRow {
        scope: "flow",
        flow: Some(change("stripe")),
        running: 3,
        most_running: Some(3),
        rate: Some(100),
        per_ms: Some(60_000),
        burst: Some(10),
        waiting: Some(Number { count: 10_000, is_exact: false }),
        next_start: Some(at(2)),
        ..none.clone()
    });
    let kind = Some(change("mail"));
    let each = made!(LimitRow {
        scope: "each_partition",
        kind: kind.clone(),
        most_running: Some(2),
        waiting: None,
        ..none.clone()
    });
    let partition = made!(LimitRow {
        scope: "partition",
        kind,
        partition: Some(change("acme")),
        running: 0,
        weight: Some(3),
        waiting: None,
        is_paused: true,
        ..none.clone()
    });
    let before = Some(change("at most 20 run at once"));
    let held = made!(LimitRow { held_until: Some(at(12)), most_running: Some(41), before, ..none });
    made!(Limits { rows: vec![held, flow, each, partition], total: 240 })
}

const STATES: [GroupState; 5] = {
    use GroupState::{Cancelled, Ended, Open, Sealed, WaitsForTheDead};
    [Open, Sealed, WaitsForTheDead, Cancelled, Ended]
};

pub(super) fn groups(many: usize) -> Groups {
    let row = |n: usize| {
        made!(GroupRow {
            id: format!("1a201ea6532000400000000000000{n:03x}").parse().unwrap(),
            made: at(-77 * n as i64),
            ended: (n == 4).then(|| at(-7)),
            state: STATES[n % 5],
            total: 1000 + n as u64,
            open: if n == 4 { 0 } else { 344 },
            completed: 600,
            dead: n as u64 % 3,
            cancelled: 56,
            waits_for_the_dead: n == 2,
            callback: (n > 2).then(|| "018f3a2c00000001a1b2c3d4e5f60718".parse().unwrap()),
        })
    };
    made!(Groups { now: at(0), rows: (0..many).map(row).collect(), has_more: many > 4 })
}

pub(super) fn schedules(many: usize, change: Change<'_>) -> Schedules {
    let row = |n: usize| {
        let (rule, in_words, period) = match n.is_multiple_of(2) {
            true => ("cron UTC 0 7 * * mon-fri", "at the times of 0 7 * * mon-fri, in UTC", 86_400),
            false => ("every 60000 ms", "every minute", 60),
        };
        made!(ScheduleRow {
            name: change(&format!("report-{n}")),
            kind: change("report:nightly"),
            rule: change(rule),
            in_words: change(in_words),
            next: (0..5).map(|step| at(if n == 2 { -600 } else { 40 } + step * period)).collect(),
            is_missed: n == 2,
            is_paused: n == 1,
        })
    };
    made!(Schedules { now: at(0), rows: (0..many).map(row).collect(), next: None })
}

pub(super) fn nodes(many: usize, change: Change<'_>) -> Nodes {
    let row = |n: usize| {
        made!(NodeRow {
            host: change(&format!("shop-{n}")),
            pid: 4711 + n as u32,
            version: change("0.1.0"),
            started: at(-90_000),
            seen: at(if n == 2 { -610 } else { -4 }),
            is_quiet: n == 2,
            threads: (n != 1).then_some(8),
            in_flight: 21 * n as u64,
            most_runs: 42,
            kinds: KINDS.iter().map(|kind| change(kind)).collect(),
        })
    };
    made!(Nodes { now: at(0), rows: (0..many).map(row).collect(), total: many as u64 })
}

pub(super) fn store(change: Change<'_>) -> Store {
    made!(Store {
        now: at(0),
        sort: "file",
        path: Some(change("/var/lib/shop/jobs.db")),
        bytes: Some(1_288_490_188),
        log_bytes: Some(4_194_304),
        version: "0.1.0",
        pending: 1_204_311,
        running: 48,
        dead: 344,
        schedules: 7,
        commits: 812,
        syncs: 790,
        failed_commits: 0,
        answered_in_ms: 1,
    })
}

pub(super) fn question(change: Change<'_>) -> Question {
    Question {
        action: "delete",
        jobs: Some(exactly(344)),
        confirmed: Some(exactly(340)),
        scope: change(
            "the dead jobs of the kind mail whose error begins with \"timed out after 30 s\"",
        ),
        loses: true,
        note: Some("No process handles this kind now, so the job waits for one.".to_owned()),
        target: "api/v1/bulk".to_owned(),
        fields: vec![
            ("action".to_owned(), "delete".to_owned()),
            ("kind".to_owned(), change("mail")),
            ("headers".to_owned(), "tenant: acme".to_owned()),
            ("confirm".to_owned(), "344".to_owned()),
        ],
        back: "dead".to_owned(),
    }
}

pub(super) fn progress(state: &'static str, change: Change<'_>) -> Progress {
    Progress {
        queue: "mail".to_owned(),
        id: 3,
        action: "retry",
        scope: change(
            "the dead jobs of the kind mail whose error begins with \"timed out after 30 s\"",
        ),
        started: at(-3),
        ended: (state != "running").then(|| at(-1)),
        state,
        of: exactly(3440),
        seen: 1280,
        changed: 1274,
        asked_to_stop: 2,
        passed_over: 4,
        problem: (state == "failed").then(|| change("the store did not answer within 5 s")),
        back: "dead".to_owned(),
    }
}

pub(super) fn bulks(change: Change<'_>) -> Bulks {
    Bulks {
        now: at(0),
        rows: ["running", "failed", "done", "stopped"].map(|state| progress(state, change)).into(),
    }
}

pub(super) fn problem(status: u16, change: Change<'_>) -> Problem {
    Problem {
        status,
        error: "not_found",
        message: change("There is no job 018f3a2c. It may have been deleted."),
    }
}
