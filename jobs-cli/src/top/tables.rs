//! The figures of `top` as text: the head with the store, the time and the most important figures, and tables, which
//! page and screen both print; the page itself, and JSON; numbers, rates and times in short, and text of jobs without
//! characters that steer a terminal.

use std::cmp::Ordering;
use std::io::{self, Write};
use std::time::Duration;

use tickwheel_jobs::view::{
    Bound, DeadGroup, GroupRow, GroupState, JobRow, KindRow, LimitRow, NodeRow, Rates, ScheduleRow,
    Time,
};

use super::ask::Figures;
use crate::text::{cut, or_dash, shown, span, zone_name};
use crate::{inspect, queue, settings};

#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub(crate) enum Mood {
    #[default]
    Plain,
    Quiet,
    Good,
    Warning,
    Bad,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Width {
    Fixed(usize),
    /// At least this wide. Columns of this sort share the room that is left.
    Share(usize),
}

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

#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Row {
    /// Names the row. The row of the same thing has this key in the next reading too.
    pub(crate) key: String,
    pub(crate) cells: Vec<String>,
    pub(crate) mood: Mood,
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Table {
    pub(crate) columns: &'static [Column],
    pub(crate) rows: Vec<Row>,
}

impl Table {
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

const GROUP_COLUMNS: &[Column] =
    &[number("DEAD", 7, 0), fixed("LAST DIED", 12, 2), text("KIND", 12, 0), text("ERROR", 24, 1)];

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
    let rate = |of: fn(&Rates) -> f64| of(&a.recent).total_cmp(&of(&b.recent));
    match column {
        0 => a.kind.cmp(&b.kind),
        1 => a.pending.cmp(&b.pending),
        2 => a.oldest_overdue_ms.cmp(&b.oldest_overdue_ms),
        3 => a.running.cmp(&b.running),
        4 => a.dead.count.cmp(&b.dead.count),
        5 => rate(|rates| rates.completed_per_second),
        6 => rate(|rates| rates.failed_per_second),
        7 => a.recent.late_p99_ms.cmp(&b.recent.late_p99_ms),
        8 => a.recent.took_p99_ms.cmp(&b.recent.took_p99_ms),
        _ => note(a).cmp(note(b)),
    }
}

fn kind(kind: &KindRow) -> Row {
    let mood = match kind.oldest_overdue_ms.map(overdue_mood) {
        Some(Mood::Warning) => Mood::Warning,
        _ if kind.is_paused => Mood::Quiet,
        _ => Mood::Plain,
    };
    let more = if kind.dead.is_exact { "" } else { "+" };
    let cells = vec![
        symbols(&kind.kind),
        short(kind.pending),
        or_dash(kind.oldest_overdue_ms.map(age_of_ms)),
        short(kind.running),
        format!("{}{more}", short(kind.dead.count)),
        rate(kind.recent.completed_per_second),
        rate(kind.recent.failed_per_second),
        bound(kind.recent.late_p99_ms),
        bound(kind.recent.took_p99_ms),
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
    let row = |node: &NodeRow| Row {
        key: format!("{} {} {}", node.host, node.pid, node.started),
        cells: vec![
            symbols(&node.host),
            node.pid.to_string(),
            symbols(&node.version),
            node.in_flight.to_string(),
            node.most_runs.to_string(),
            or_dash(node.threads),
            age(figures.overview.now.since(node.started)),
            distance(node.seen, figures.overview.now),
            symbols(&node.kinds.join(" ")),
        ],
        mood: if node.is_quiet { Mood::Quiet } else { Mood::Plain },
    };
    Table::of(NODE_COLUMNS, &figures.nodes, row)
}

pub(crate) fn runs(figures: &Figures) -> Table {
    let row = |run: &JobRow| Row {
        key: run.id.to_string(),
        cells: vec![
            symbols(&run.kind),
            or_dash(run.key.as_deref().map(symbols)),
            or_dash(run.claimed.map(|claimed| age(figures.overview.now.since(claimed)))),
            or_dash(run.lease_ends.map(|end| age(end.since(figures.overview.now)))),
            age(figures.overview.now.since(run.due)),
            run.attempt.to_string(),
            or_dash(run.progress.as_deref().map(symbols)),
            run.id.to_string(),
        ],
        mood: Mood::Plain,
    };
    let runs = figures.runs.as_deref().unwrap_or_default();
    Table::of(RUN_COLUMNS, runs, row)
}

pub(crate) fn groups(figures: &Figures) -> Table {
    let row = |group: &DeadGroup| Row {
        key: group.group.to_string(),
        cells: vec![
            short(group.jobs),
            or_dash(group.last_died.map(|died| distance(died, figures.overview.now))),
            symbols(&group.kind),
            symbols(&group.error),
        ],
        mood: Mood::Plain,
    };
    Table::of(GROUP_COLUMNS, &figures.dead_by_error, row)
}

pub(crate) fn schedules(figures: &Figures) -> Table {
    let row = |schedule: &ScheduleRow| {
        let next = schedule.next.first().filter(|_| !schedule.is_paused);
        let none = if schedule.is_paused { "paused" } else { "-" };
        Row {
            key: schedule.name.clone(),
            cells: vec![
                symbols(&schedule.name),
                symbols(&schedule.kind),
                symbols(&schedule.rule),
                next.map_or(none.to_owned(), |next| distance(*next, figures.overview.now)),
                or_dash(next.map(|next| shown(next.to_system()))),
            ],
            mood: if schedule.is_paused { Mood::Quiet } else { Mood::Plain },
        }
    };
    Table::of(SCHEDULE_COLUMNS, &figures.next_schedules, row)
}

pub(crate) fn limits(figures: &Figures) -> Table {
    let time = |time: Option<Time>| or_dash(time.map(|time| distance(time, figures.overview.now)));
    let row = |limit: &LimitRow| {
        let running = short(limit.running);
        let run = limit.most_running.map(|most| format!("{running} of {}", short(most.into())));
        let first = [symbols(&limit.name()), run.unwrap_or(running)];
        Row {
            key: limit.name(),
            cells: first.into_iter().chain(queue::limit_cells(limit, time)).collect(),
            mood: if limit.is_reached { Mood::Warning } else { Mood::Plain },
        }
    };
    Table::of(LIMIT_COLUMNS, figures.limits.as_deref().unwrap_or_default(), row)
}

pub(crate) fn job_groups(figures: &Figures) -> Table {
    let row = |group: &GroupRow| Row {
        key: group.id.to_string(),
        cells: vec![
            distance(group.made, figures.overview.now),
            queue::state_text(group.state).to_owned(),
            short(group.open),
            short(group.completed),
            short(group.dead),
            short(group.cancelled),
            short(group.total),
            group.id.to_string(),
        ],
        mood: if group.state == GroupState::Ended { Mood::Quiet } else { Mood::Plain },
    };
    Table::of(JOB_GROUP_COLUMNS, &figures.groups, row)
}

/// Returns a list of jobs of one kind. `ended` says that these jobs have ended.
pub(crate) fn jobs(jobs: &[JobRow], ended: bool, now: Time) -> Table {
    let or_none = |text: &Option<String>| or_dash(text.as_deref().map(symbols));
    let row = |job: &JobRow| {
        let mut cells = vec![or_none(&job.key)];
        if ended {
            cells.push(job.state.to_string());
            cells.push(or_dash(job.ended.map(|ended| distance(ended, now))));
        } else {
            cells.push(distance(job.due, now));
        }
        cells.extend([job.failures.to_string(), or_none(&job.error), job.id.to_string()]);
        Row { key: job.id.to_string(), cells, mood: Mood::Plain }
    };
    let columns = if ended { ENDED_COLUMNS } else { PENDING_COLUMNS };
    Table::of(columns, jobs, row)
}

/// A job counts as late from two seconds on, as for the warnings of the other commands.
pub(crate) fn overdue_mood(oldest_ms: u64) -> Mood {
    if oldest_ms > crate::inspect::OVERDUE_MS { Mood::Warning } else { Mood::Plain }
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Fact {
    pub(crate) name: &'static str,
    pub(crate) value: String,
    pub(crate) mood: Mood,
}

/// Returns the figures of the head. `rates` are those of the last seconds, where there are any.
pub(crate) fn facts(figures: &Figures, rates: (f64, f64)) -> Vec<Fact> {
    let fact = |name, value, mood| Fact { name, value, mood };
    let view = &figures.overview;
    let more = if view.overdue.is_exact { "" } else { "+" };
    let (overdue, mood) = match view.oldest_overdue_ms {
        None => (view.overdue.count.to_string(), Mood::Plain),
        Some(oldest) => {
            let count = short(view.overdue.count);
            (format!("{count}{more}, oldest {}", age_of_ms(oldest)), overdue_mood(oldest))
        }
    };
    let failed = if rates.1 > 0.0 { Mood::Bad } else { Mood::Plain };
    let dead = if view.dead > 0 { Mood::Bad } else { Mood::Plain };
    // A process claims some jobs ahead, which start when one of its threads is free.
    let (claimed, limit) = (view.running, view.capacity);
    let runs = if limit == 0 { claimed } else { claimed.min(limit) };
    let ahead = match claimed - runs {
        0 => String::new(),
        ahead => format!(", {} claimed", short(ahead)),
    };
    vec![
        fact("pending", short(view.pending), Mood::Plain),
        fact("overdue", overdue, mood),
        fact("running", format!("{} of {}{ahead}", short(runs), short(limit)), Mood::Plain),
        fact("dead", short(view.dead), dead),
        fact("completed", format!("{}/s", zero_rate(rates.0)), Mood::Plain),
        fact("failed", format!("{}/s", zero_rate(rates.1)), failed),
        fact("99% late", bound(view.recent.late_p99_ms), Mood::Plain),
    ]
}

pub(crate) fn slowed(figures: &Figures) -> Option<String> {
    settings::line(&figures.overview.slowdowns).map(|line| symbols(&line))
}

pub(crate) fn title(figures: &Figures) -> Vec<String> {
    let queue = figures.queue.as_deref().map_or("default".into(), symbols);
    let nodes = match figures.nodes.len() {
        0 => "no node".to_owned(),
        1 => "1 node".to_owned(),
        nodes => format!("{nodes} nodes"),
    };
    vec![symbols(&figures.store), format!("queue {queue}"), clock(figures.overview.now), nodes]
}

fn clock(time: Time) -> String {
    let shown = shown(time.to_system());
    let of_day = shown.split_once('T').map_or(&*shown, |(_, of_day)| of_day);
    format!("{} {}", of_day.get(..8).unwrap_or(of_day), zone_name())
}

const CELL_CHARS: usize = 60;
const PAGE_ROWS: usize = 20;

pub(crate) fn print(figures: &Figures, out: &mut impl Write) -> io::Result<()> {
    let paused = if figures.overview.is_paused { "  PAUSED" } else { "" };
    writeln!(out, "{}{paused}", title(figures).join("  "))?;
    let facts = facts(figures, figures.rates()).into_iter();
    let facts: Vec<String> = facts.map(|fact| format!("{} {}", fact.name, fact.value)).collect();
    writeln!(out, "{}", facts.join("  "))?;
    if let Some(line) = slowed(figures) {
        writeln!(out, "{line}")?;
    }
    // The most pending jobs first.
    let all_kinds = usize::try_from(figures.all_kinds).unwrap_or(usize::MAX);
    table("kinds", &kinds(figures, 1, true), all_kinds, out)?;
    table("nodes", &nodes(figures), figures.nodes.len(), out)?;
    let running = usize::try_from(figures.overview.running).unwrap_or(usize::MAX);
    match &figures.runs {
        Some(runs) => table("running", &self::runs(figures), running.max(runs.len()), out)?,
        None => writeln!(out, "\nrunning\n{running} jobs run: too many to list")?,
    }
    table("dead by error", &groups(figures), figures.dead_by_error.len(), out)?;
    table("schedules", &schedules(figures), figures.next_schedules.len(), out)?;
    match &figures.limits {
        Some(limits) => table("limits", &self::limits(figures), limits.len(), out)?,
        None => writeln!(out, "\nlimits\n{running} jobs run: too many to count them by limit")?,
    }
    table("groups", &job_groups(figures), figures.groups.len(), out)
}

fn table(name: &str, table: &Table, all: usize, out: &mut impl Write) -> io::Result<()> {
    if table.rows.is_empty() {
        return Ok(());
    }
    writeln!(out, "\n{name}")?;
    let head = table.columns.iter().map(|column| column.title.to_owned()).collect();
    let rows = table.rows.iter().take(PAGE_ROWS).map(|row| {
        row.cells.iter().map(|cell| cut(cell, CELL_CHARS).into_owned()).collect::<Vec<String>>()
    });
    let rows: Vec<Vec<String>> = std::iter::once(head).chain(rows).collect();
    inspect::columns(&rows, |at| table.columns[at].is_right, out)?;
    if all >= rows.len() {
        writeln!(out, "({} of {all})", rows.len() - 1)?;
    }
    Ok(())
}

/// Returns a number in six characters: as it is below 100,000, else with one unit of thousands.
pub(crate) fn short(number: u64) -> String {
    let (unit, name) = match number {
        0..100_000 => return number.to_string(),
        100_000..1_000_000 => return format!("{}k", number / 1000),
        1_000_000..1_000_000_000 => (1_000_000, "M"),
        _ => (1_000_000_000, "G"),
    };
    let hundredths = number / (unit / 100);
    match hundredths {
        0..10_000 => format!("{}.{:02}{name}", hundredths / 100, hundredths % 100),
        _ => format!("{}{name}", hundredths / 100),
    }
}

/// Returns a rate, with `-` for none.
pub(crate) fn rate(rate: f64) -> String {
    if rate > 0.0 { zero_rate(rate) } else { "-".to_owned() }
}

pub(crate) fn zero_rate(rate: f64) -> String {
    match rate {
        _ if rate <= 0.0 => "0".to_owned(),
        _ if rate < 0.01 => "<0.01".to_owned(),
        _ if rate < 10.0 => format!("{rate:.2}"),
        _ if rate < 1000.0 => format!("{rate:.1}"),
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "a whole number is printed"
        )]
        _ => short(rate as u64),
    }
}

pub(crate) fn bound(bound: Option<Bound>) -> String {
    match bound {
        None => "-".to_owned(),
        Some(bound) if bound.is_above() => ">1h".to_owned(),
        Some(bound) => format!("≤{}", span(Duration::from_millis(bound.ms()))),
    }
}

fn age_of_ms(ms: u64) -> String {
    age(Duration::from_millis(ms))
}

pub(crate) fn age(age: Duration) -> String {
    match age.as_secs() {
        0 => format!("{}ms", age.as_millis()),
        seconds => span(Duration::from_secs(seconds)),
    }
}

pub(crate) fn distance(time: Time, now: Time) -> String {
    match time > now {
        true => format!("in {}", age(time.since(now))),
        false => format!("{} ago", age(now.since(time))),
    }
}

/// Replaces the characters that steer a terminal, turn round a text, or are not seen by symbols of one cell.
pub(crate) fn symbols(text: &str) -> String {
    let symbol = |c: char| match c {
        '\0'..='\u{1f}' => char::from_u32(0x2400 + u32::from(c)).unwrap_or('\u{fffd}'),
        '\u{7f}' => '\u{2421}',
        // A variation selector changes how wide the character before it is.
        '\u{ad}'
        | '\u{61c}'
        | '\u{180e}'
        | '\u{200b}'..='\u{200f}'
        | '\u{2028}'..='\u{202e}'
        | '\u{2060}'..='\u{206f}'
        | '\u{fe00}'..='\u{fe0f}'
        | '\u{feff}'
        | '\u{fff9}'..='\u{fffb}'
        | '\u{e0000}'..='\u{e0fff}' => '\u{fffd}',
        c if c.is_control() => '\u{fffd}',
        c => c,
    };
    text.chars().map(symbol).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A number fits into six characters, and keeps its first digits.
    #[test]
    fn short_numbers_fit_their_column() {
        let expected = [
            (0, "0"),
            (99_999, "99999"),
            (100_000, "100k"),
            (999_999, "999k"),
            (1_204_311, "1.20M"),
            (99_999_999, "99.99M"),
            (123_456_789, "123M"),
            (7_000_000_000, "7.00G"),
        ];
        for (number, text) in expected {
            assert_eq!(short(number), text);
        }
    }

    /// Every control character, and every character that turns round a text or is not seen, becomes a symbol.
    #[test]
    fn symbols_replace_what_steers_a_terminal() {
        assert_eq!(symbols("a\u{1b}[31m\n\0\u{7f}"), "a␛[31m␊␀␡");
        assert_eq!(symbols("\u{9b}\u{85}\u{202e}\u{2066}\u{200f}\u{feff}\u{2028}"), "�������");
        assert_eq!(symbols("grüße 東京 ok"), "grüße 東京 ok");
    }

    /// A rate has as many digits as fit.
    #[test]
    fn rates_have_as_many_digits_as_fit() {
        let rates = [0.0, 0.001, 0.25, 12.34, 999.94, 1234.5, 250_000.0].map(zero_rate);
        assert_eq!(rates, ["0", "<0.01", "0.25", "12.3", "999.9", "1234", "250k"]);
    }
}
