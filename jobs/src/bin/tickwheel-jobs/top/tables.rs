//! The figures of `top` as text: the facts of the head, and tables. The page and the screen print the same.

use std::cmp::Ordering;
use std::time::Duration;

use super::figures::{Figures, Group, KindRow, Listed, Next, Node, Rates, Run, Time};
use crate::text::{shown, span, zone_name};

/// How a text is meant.
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

/// A figure of the head, and its name.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Fact {
    pub(crate) name: &'static str,
    pub(crate) value: String,
    pub(crate) mood: Mood,
}

/// How wide a column is, in cells of the terminal.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Width {
    Fixed(usize),
    /// At least this wide. Columns of this sort share what the others leave.
    Share(usize),
}

/// A column of a table.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Column {
    pub(crate) title: &'static str,
    pub(crate) width: Width,
    pub(crate) is_right: bool,
    /// Where there is no room for all columns, those with the highest number go first. A column with 0 stays.
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
    /// What the row is about: it stays the same in the next reading.
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
    number("JOBS", 5, 0),
    number("LIMIT", 5, 1),
    number("THREADS", 7, 5),
    number("UP FOR", 8, 3),
    fixed("SEEN", 12, 2),
    text("KINDS", 10, 6),
];

const RUN_COLUMNS: &[Column] = &[
    text("KIND", 12, 0),
    text("KEY", 10, 2),
    number("DUE SINCE", 9, 0),
    number("ATTEMPT", 7, 3),
    text("PROGRESS", 10, 4),
    fixed("ID", 32, 5),
];

const GROUP_COLUMNS: &[Column] = &[number("DEAD", 7, 0), text("KIND", 12, 0), text("ERROR", 24, 1)];

const SCHEDULE_COLUMNS: &[Column] = &[
    text("NAME", 12, 0),
    text("KIND", 10, 3),
    text("RULE", 16, 2),
    fixed("NEXT", 12, 0),
    fixed("AT", 29, 4),
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

/// Returns the figures of the head. `rates` are those of the last seconds, where there are any.
pub(crate) fn facts(figures: &Figures, rates: (f64, f64)) -> Vec<Fact> {
    let fact = |name, value, mood| Fact { name, value, mood };
    let counts = &figures.counts;
    let more = if counts.overdue.is_exact { "" } else { "+" };
    let (overdue, mood) = match counts.oldest_overdue {
        None => (counts.overdue.count.to_string(), Mood::Plain),
        Some(oldest) => {
            let count = short(counts.overdue.count);
            (format!("{count}{more}, oldest {}", age(oldest)), overdue_mood(oldest))
        }
    };
    let failed = if rates.1 > 0.0 { Mood::Bad } else { Mood::Plain };
    let dead = if counts.dead > 0 { Mood::Bad } else { Mood::Plain };
    let running = short(counts.claimed + counts.running);
    let limit = short(u64::try_from(figures.limit).unwrap_or(u64::MAX));
    vec![
        fact("pending", short(counts.pending), Mood::Plain),
        fact("overdue", overdue, mood),
        fact("running", format!("{running} of {limit}"), Mood::Plain),
        fact("dead", short(counts.dead), dead),
        fact("completed", format!("{}/s", zero_rate(rates.0)), Mood::Plain),
        fact("failed", format!("{}/s", zero_rate(rates.1)), failed),
        fact("99% late", bound(figures.rates.late), Mood::Plain),
    ]
}

/// Returns the store, the queue, the time and the number of nodes.
pub(crate) fn title(figures: &Figures) -> Vec<String> {
    let queue = figures.queue.as_deref().map_or("default".into(), symbols);
    let nodes = match figures.nodes.len() {
        0 => "no node".to_owned(),
        1 => "1 node".to_owned(),
        nodes => format!("{nodes} nodes"),
    };
    vec![symbols(&figures.store), format!("queue {queue}"), clock(figures.time), nodes]
}

/// Returns the time of day, with its zone.
fn clock(time: Time) -> String {
    let shown = shown(time.0);
    let of_day = shown.split_once('T').map_or(&*shown, |(_, of_day)| of_day);
    format!("{} {}", of_day.get(..8).unwrap_or(of_day), zone_name())
}

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
            node.max_in_flight.to_string(),
            node.threads.map_or("-".to_owned(), |threads| threads.to_string()),
            age(figures.time.since(node.started)),
            distance(node.seen, figures.time),
            symbols(&node.kinds.join(" ")),
        ],
        mood: if node.was_seen_lately { Mood::Plain } else { Mood::Quiet },
    };
    Table { columns: NODE_COLUMNS, rows: figures.nodes.iter().map(row).collect() }
}

pub(crate) fn runs(figures: &Figures) -> Table {
    let row = |run: &Run| Row {
        key: run.id.clone(),
        cells: vec![
            symbols(&run.kind),
            run.key.as_deref().map_or("-".to_owned(), symbols),
            age(figures.time.since(run.due)),
            run.attempt.to_string(),
            run.progress.as_deref().map_or("-".to_owned(), symbols),
            run.id.clone(),
        ],
        mood: Mood::Plain,
    };
    let runs = figures.runs.as_deref().unwrap_or_default();
    Table { columns: RUN_COLUMNS, rows: runs.iter().map(row).collect() }
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
    Table { columns: GROUP_COLUMNS, rows: figures.dead_by_error.iter().map(row).collect() }
}

pub(crate) fn schedules(figures: &Figures) -> Table {
    let row = |next: &Next| Row {
        key: next.name.clone(),
        cells: vec![
            symbols(&next.name),
            symbols(&next.kind),
            symbols(&next.rule),
            distance(next.next, figures.time),
            shown(next.next.0),
        ],
        mood: Mood::Plain,
    };
    Table { columns: SCHEDULE_COLUMNS, rows: figures.next_schedules.iter().map(row).collect() }
}

/// Returns a list of jobs of one kind, which have ended or have not.
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
    Table { columns, rows: jobs.iter().map(row).collect() }
}

/// A job counts as late from two seconds on, as for the warnings of the other commands.
fn overdue_mood(oldest: Duration) -> Mood {
    if oldest > crate::unserved::OVERDUE { Mood::Warning } else { Mood::Plain }
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
fn rate(rate: f64) -> String {
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

/// Returns a bound of the buckets of durations.
fn bound(bound: Option<Duration>) -> String {
    match bound {
        None => "-".to_owned(),
        Some(Duration::MAX) => ">1h".to_owned(),
        // The only bound that has a part of a millisecond.
        Some(bound) if bound == Duration::from_micros(2500) => "≤2.5ms".to_owned(),
        Some(bound) => format!("≤{}", span(bound)),
    }
}

/// Returns a duration, from a second on in whole seconds.
pub(crate) fn age(age: Duration) -> String {
    match age.as_secs() {
        0 => format!("{}ms", age.as_millis()),
        seconds => span(Duration::from_secs(seconds)),
    }
}

/// Returns the distance of a time from the present.
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
