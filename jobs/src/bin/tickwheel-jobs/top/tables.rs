//! The figures of `top` as tables of text. The page and the screen print the same tables.

use std::cmp::Ordering;
use std::time::{Duration, SystemTime};

use super::amounts::{age, bound, distance, rate, short, symbols};
use super::figures::{Figures, Group, GroupRow, KindRow, Listed, Next, Node, Rates, Run, Time};
use crate::limits::LimitRow;
use crate::text::shown;

/// The importance of a text, which the screen shows by colors.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub(crate) enum Mood {
    #[default]
    Plain,
    /// It matters little.
    Quiet,
    Good,
    /// Something waits for longer than it should.
    Warning,
    /// Something has failed.
    Bad,
}

/// How wide a column is, in cells of the terminal.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Width {
    Fixed(usize),
    /// At least this wide. Columns of this sort share the room that is left.
    Share(usize),
}

/// A column of a table.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Column {
    pub(crate) title: &'static str,
    pub(crate) width: Width,
    pub(crate) is_right: bool,
    /// If not all columns have room, the one with the highest number goes first. A column with 0 stays.
    pub(crate) spare: u8,
}

const fn text(title: &'static str, least: usize, spare: u8) -> Column {
    Column { title, width: Width::Share(least), is_right: false, spare }
}

const fn fixed(title: &'static str, width: usize, spare: u8) -> Column {
    Column { title, width: Width::Fixed(width), is_right: false, spare }
}

const fn number(title: &'static str, width: usize, spare: u8) -> Column {
    Column { title, width: Width::Fixed(width), is_right: true, spare }
}

/// A row of a table.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Row {
    /// Names the row. The row of the same thing has this key in the next reading too.
    pub(crate) key: String,
    pub(crate) cells: Vec<String>,
    pub(crate) mood: Mood,
}

/// A table.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Table {
    pub(crate) columns: &'static [Column],
    pub(crate) rows: Vec<Row>,
}

impl Table {
    /// Makes a table with a row for each entry.
    fn of<T>(columns: &'static [Column], entries: &[T], row: impl Fn(&T) -> Row) -> Table {
        Table { columns, rows: entries.iter().map(row).collect() }
    }
}

pub(crate) const KIND_COLUMNS: &[Column] = &[
    text("KIND", 14, 0),
    number("PENDING", 8, 0),
    number("OVERDUE", 8, 2),
    number("RUN", 4, 3),
    number("DEAD", 6, 1),
    number("DONE/S", 6, 4),
    number("FAIL/S", 6, 5),
    number("99% LATE", 8, 6),
    number("99% TOOK", 8, 8),
    fixed("NOTE", 7, 7),
];

const NODE_COLUMNS: &[Column] = &[
    text("HOST", 12, 0),
    number("PID", 7, 0),
    fixed("VERSION", 8, 4),
    number("CLAIMED", 7, 0),
    number("MOST RUNS", 9, 1),
    number("THREADS", 7, 5),
    number("UP FOR", 8, 3),
    fixed("SEEN", 12, 2),
    text("KINDS", 10, 6),
];

const RUN_COLUMNS: &[Column] = &[
    text("KIND", 12, 0),
    text("KEY", 10, 2),
    number("RUNS FOR", 8, 0),
    number("LEASE", 6, 5),
    number("DUE SINCE", 9, 4),
    number("ATTEMPT", 7, 3),
    text("PROGRESS", 10, 1),
    fixed("ID", 32, 6),
];

const GROUP_COLUMNS: &[Column] = &[number("DEAD", 7, 0), text("KIND", 12, 0), text("ERROR", 24, 1)];

const SCHEDULE_COLUMNS: &[Column] = &[
    text("NAME", 12, 0),
    text("KIND", 10, 3),
    text("RULE", 16, 2),
    fixed("NEXT", 12, 0),
    fixed("AT", 29, 4),
];

const LIMIT_COLUMNS: &[Column] = &[
    text("SCOPE", 20, 0),
    number("RUN", 11, 0),
    fixed("RATE", 12, 2),
    number("BURST", 5, 4),
    number("WEIGHT", 6, 5),
    fixed("NEXT START", 11, 1),
    fixed("HELD", 11, 3),
];

const JOB_GROUP_COLUMNS: &[Column] = &[
    fixed("MADE", 12, 0),
    text("STATE", 10, 0),
    number("OPEN", 7, 0),
    number("DONE", 7, 1),
    number("DEAD", 6, 2),
    number("CANCELLED", 9, 4),
    number("TOTAL", 7, 3),
    fixed("ID", 32, 5),
];

const PENDING_COLUMNS: &[Column] = &[
    text("KEY", 12, 0),
    fixed("DUE", 12, 0),
    number("FAILED", 6, 2),
    text("LAST ERROR", 16, 1),
    fixed("ID", 32, 3),
];

const ENDED_COLUMNS: &[Column] = &[
    text("KEY", 12, 0),
    fixed("STATE", 9, 4),
    fixed("ENDED", 12, 0),
    number("FAILED", 6, 2),
    text("ERROR", 16, 1),
    fixed("ID", 32, 3),
];

/// Returns the kinds, in the order of a column.
pub(crate) fn kinds(figures: &Figures, column: usize, is_descending: bool) -> Table {
    let mut kinds: Vec<&KindRow> = figures.kinds.iter().collect();
    kinds.sort_by(|a, b| {
        let order = compare(a, b, column);
        let order = if is_descending { order.reverse() } else { order };
        order.then_with(|| a.kind.cmp(&b.kind))
    });
    Table { columns: KIND_COLUMNS, rows: kinds.into_iter().map(kind).collect() }
}

fn compare(a: &KindRow, b: &KindRow, column: usize) -> Ordering {
    let rate = |of: fn(&Rates) -> f64| of(&a.rates).total_cmp(&of(&b.rates));
    match column {
        0 => a.kind.cmp(&b.kind),
        1 => a.pending.cmp(&b.pending),
        2 => a.oldest_overdue.cmp(&b.oldest_overdue),
        3 => a.running.cmp(&b.running),
        4 => a.dead.cmp(&b.dead),
        5 => rate(|rates| rates.completed_per_second),
        6 => rate(|rates| rates.failed_per_second),
        7 => a.rates.late.cmp(&b.rates.late),
        8 => a.rates.took.cmp(&b.rates.took),
        _ => note(a).cmp(note(b)),
    }
}

fn kind(kind: &KindRow) -> Row {
    let mood = match kind.oldest_overdue.map(overdue_mood) {
        Some(Mood::Warning) => Mood::Warning,
        _ if kind.is_paused => Mood::Quiet,
        _ => Mood::Plain,
    };
    let more = if kind.dead_is_exact { "" } else { "+" };
    let cells = vec![
        symbols(&kind.kind),
        short(kind.pending),
        kind.oldest_overdue.map_or("-".to_owned(), age),
        kind.running.map_or("?".to_owned(), short),
        format!("{}{more}", short(kind.dead)),
        rate(kind.rates.completed_per_second),
        rate(kind.rates.failed_per_second),
        bound(kind.rates.late),
        bound(kind.rates.took),
        note(kind).to_owned(),
    ];
    Row { key: kind.kind.clone(), cells, mood }
}

fn note(kind: &KindRow) -> &'static str {
    match (kind.is_paused, kind.has_node) {
        (true, _) => "paused",
        (false, false) if kind.pending > 0 => "no node",
        _ => "",
    }
}

pub(crate) fn nodes(figures: &Figures) -> Table {
    let row = |node: &Node| Row {
        key: format!("{} {} {:?}", node.host, node.pid, node.started.0),
        cells: vec![
            symbols(&node.host),
            node.pid.to_string(),
            symbols(&node.version),
            node.in_flight.to_string(),
            node.most_runs.to_string(),
            node.threads.map_or("-".to_owned(), |threads| threads.to_string()),
            age(figures.time.since(node.started)),
            distance(node.seen, figures.time),
            symbols(&node.kinds.join(" ")),
        ],
        mood: if node.was_seen_lately { Mood::Plain } else { Mood::Quiet },
    };
    Table::of(NODE_COLUMNS, &figures.nodes, row)
}

pub(crate) fn runs(figures: &Figures) -> Table {
    let row = |run: &Run| Row {
        key: run.id.clone(),
        cells: vec![
            symbols(&run.kind),
            run.key.as_deref().map_or("-".to_owned(), symbols),
            run.claimed.map_or("-".to_owned(), |claimed| age(figures.time.since(claimed))),
            run.lease_ends.map_or("-".to_owned(), |end| age(end.since(figures.time))),
            age(figures.time.since(run.due)),
            run.attempt.to_string(),
            run.progress.as_deref().map_or("-".to_owned(), symbols),
            run.id.clone(),
        ],
        mood: Mood::Plain,
    };
    let runs = figures.runs.as_deref().unwrap_or_default();
    Table::of(RUN_COLUMNS, runs, row)
}

/// Returns the key of the row of a group.
pub(crate) fn group_key(group: &Group) -> String {
    format!("{}\n{}", group.kind, group.error)
}

pub(crate) fn groups(figures: &Figures) -> Table {
    let row = |group: &Group| Row {
        key: group_key(group),
        cells: vec![short(group.jobs), symbols(&group.kind), symbols(&group.error)],
        mood: Mood::Plain,
    };
    Table::of(GROUP_COLUMNS, &figures.dead_by_error, row)
}

pub(crate) fn schedules(figures: &Figures) -> Table {
    let row = |next: &Next| Row {
        key: next.name.clone(),
        cells: vec![
            symbols(&next.name),
            symbols(&next.kind),
            symbols(&next.rule),
            if next.is_paused { "paused".to_owned() } else { distance(next.next, figures.time) },
            if next.is_paused { "-".to_owned() } else { shown(next.next.0) },
        ],
        mood: if next.is_paused { Mood::Quiet } else { Mood::Plain },
    };
    Table::of(SCHEDULE_COLUMNS, &figures.next_schedules, row)
}

pub(crate) fn limits(figures: &Figures) -> Table {
    let number = |number: Option<u32>| number.map_or("-".to_owned(), |number| number.to_string());
    let time = |time: Option<SystemTime>| {
        time.map_or("-".to_owned(), |time| distance(Time(time), figures.time))
    };
    let row = |limit: &LimitRow| {
        let running = short(limit.running);
        let run = limit.most_running.map(|most| format!("{running} of {}", short(most.into())));
        Row {
            key: limit.name(),
            cells: vec![
                symbols(&limit.name()),
                run.unwrap_or(running),
                limit.rate_text(),
                number(limit.burst),
                number(limit.weight),
                time(limit.next_start),
                time(limit.held_until),
            ],
            mood: if limit.is_reached { Mood::Warning } else { Mood::Plain },
        }
    };
    Table::of(LIMIT_COLUMNS, figures.limits.as_deref().unwrap_or_default(), row)
}

pub(crate) fn job_groups(figures: &Figures) -> Table {
    let row = |group: &GroupRow| Row {
        key: group.id.clone(),
        cells: vec![
            distance(group.made, figures.time),
            group.state.to_owned(),
            short(group.open),
            short(group.completed),
            short(group.dead),
            short(group.cancelled),
            short(group.total),
            group.id.clone(),
        ],
        mood: if group.state == "ended" { Mood::Quiet } else { Mood::Plain },
    };
    Table::of(JOB_GROUP_COLUMNS, &figures.groups, row)
}

/// Returns a list of jobs of one kind. `ended` says that these jobs have ended.
pub(crate) fn jobs(jobs: &[Listed], ended: bool, now: Time) -> Table {
    let or_none = |text: &Option<String>| text.as_deref().map_or("-".to_owned(), symbols);
    let row = |job: &Listed| {
        let mut cells = vec![or_none(&job.key)];
        if ended {
            cells.push(job.state.clone());
            cells.push(job.ended.map_or("-".to_owned(), |ended| distance(ended, now)));
        } else {
            cells.push(distance(job.due, now));
        }
        cells.extend([job.failures.to_string(), or_none(&job.error), job.id.clone()]);
        Row { key: job.id.clone(), cells, mood: Mood::Plain }
    };
    let columns = if ended { ENDED_COLUMNS } else { PENDING_COLUMNS };
    Table::of(columns, jobs, row)
}

/// A job counts as late from two seconds on, as for the warnings of the other commands.
pub(crate) fn overdue_mood(oldest: Duration) -> Mood {
    if oldest > crate::unserved::OVERDUE { Mood::Warning } else { Mood::Plain }
}
