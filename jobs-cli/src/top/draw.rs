//! Draws the state of the view of `top`: the head, the curve of the rate with four dots of braille in the height of a
//! row, the rows of a table or a job, the footer, and the boxes over them.
//!
//! Ground rules:
//!
//! - Control characters of a text from a store are replaced by `symbols`, here or earlier.
//! - If the screen is too small, the curve goes first, and then columns.
//! - A text is written only within its own width and inside the screen.
//! - Without colors the same things are said by words and by bold, dim and reversed text.
//! - Where not all columns have room, those that matter least go first.
//! - Where not all rows have room, the page with the selected row is drawn.

use std::time::Duration;

use ratatui::Frame;
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::{Color, Modifier, Style};
use ratatui::text::Line;
use ratatui::widgets::{Block, Clear, Paragraph, Widget, Wrap};

use tickwheel_jobs::view::Time;

use crate::top::ask::MOST_ROWS;
use crate::top::curve::Sample;
use crate::top::keys::HELP;
use crate::top::lists::JobPage;
use crate::top::state::{Mode, Opened, State, Tab};
use crate::top::tables::{
    Column, Mood, Table, Width, age, facts, short, slowed, symbols, title, zero_rate,
};

/// A screen with fewer rows has no curve.
const LEAST_ROWS_WITH_CURVE: u16 = 16;

pub(crate) fn draw(state: &State, frame: &mut Frame<'_>) {
    let area = frame.area();
    let buf = frame.buffer_mut();
    let mut y = head(state, area, buf);
    if area.height >= LEAST_ROWS_WITH_CURVE {
        curve(state, Rect { y, height: CURVE_ROWS, ..area }, buf);
        y += CURVE_ROWS;
    }
    // The last row is the footer's.
    let end = area.bottom().saturating_sub(1);
    if y < end {
        tabs(state, Rect { y, height: 1, ..area }, buf);
        y += 1;
    }
    if y < end {
        let body = Rect { y, height: end - y, ..area };
        match state.opened.last() {
            Some(Opened::Job { page, scroll, .. }) => {
                job(state, page.as_ref(), *scroll, body, buf);
            }
            _ => match state.table() {
                Some(table) => rows(state, &table, body, buf),
                None => empty(state, "asking the store ..", body, buf),
            },
        }
    }
    if area.height > 1 {
        footer(state, Rect { y: end, height: 1, ..area }, buf);
    }
    match &state.mode {
        Mode::Help => help(state, area, buf),
        Mode::Confirm(change) => {
            let lines =
                [change.question(), String::new(), "y: yes    any other key: no".to_owned()];
            boxed(state, "Sure?", &lines.map(Line::from), style(state, Mood::Bad), area, buf);
        }
        Mode::Normal | Mode::Filter => {}
    }
}

fn tabs(state: &State, area: Rect, buf: &mut Buffer) {
    let (y, end) = (area.y, area.right());
    let mut x = area.x;
    let reversed = Style::new().add_modifier(Modifier::REVERSED);
    match state.opened.last() {
        None => {
            for (number, tab) in (1..).zip(Tab::ALL) {
                let name = format!(" {number} {tab:?} ");
                let chosen = if tab == state.tab { reversed } else { Style::new() };
                x = put(buf, x, y, end, &name, chosen);
            }
        }
        Some(Opened::List { of, page, .. }) => {
            let kind = symbols(&of.kind);
            let error = of.group.as_ref().map(|group| format!(": {}", symbols(&group.error)));
            let page = if *page == 0 { String::new() } else { format!(", page {}", page + 1) };
            let title =
                format!(" {} jobs of {kind}{page}{} ", of.state.word(), error.unwrap_or_default());
            x = put(buf, x, y, end, &title, reversed);
        }
        Some(Opened::Job { id, .. }) => {
            x = put(buf, x, y, end, &format!(" Job {id} "), reversed);
        }
    }
    let Some(place) = state.place() else { return };
    if state.mode == Mode::Filter || !place.filter.is_empty() {
        let cursor = if state.mode == Mode::Filter { "▏" } else { "" };
        let filter = format!("  /{}{cursor}", symbols(&place.filter));
        put(buf, x, y, end, &filter, style(state, Mood::Warning));
    }
}

fn job(state: &State, page: Option<&JobPage>, scroll: usize, area: Rect, buf: &mut Buffer) {
    let gone = "there is no such job any more: it has completed, or was cancelled or deleted";
    match page.map(|page| &page.job) {
        None => empty(state, "asking the store ..", area, buf),
        Some(None) => empty(state, gone, area, buf),
        Some(Some(job)) => {
            let lines = job.lines.iter().skip(scroll).map(|line| Line::from(&**line));
            let lines: Vec<Line<'_>> = lines.collect();
            Paragraph::new(lines).wrap(Wrap { trim: false }).render(area, buf);
        }
    }
}

fn style(state: &State, mood: Mood) -> Style {
    let style = Style::new();
    let colored = |color: Color| if state.has_color { style.fg(color) } else { style };
    match mood {
        Mood::Plain => style,
        Mood::Quiet => style.add_modifier(Modifier::DIM),
        Mood::Good => colored(Color::Green),
        Mood::Warning => colored(Color::Yellow).add_modifier(Modifier::BOLD),
        Mood::Bad => colored(Color::Red).add_modifier(Modifier::BOLD),
    }
}

fn bold() -> Style {
    Style::new().add_modifier(Modifier::BOLD)
}

pub(crate) fn cells(text: &str) -> usize {
    Line::from(text).width()
}

fn fit(text: &str, width: usize) -> String {
    // A cell may have a character with many marks on it. They are cut off as well.
    let mut cut: String = text.chars().take(2 * width + 2).collect();
    if cells(&cut) <= width && cut.len() == text.len() {
        return cut;
    }
    while cells(&cut) + 1 > width && cut.pop().is_some() {}
    if width > 0 {
        cut.push('…');
    }
    cut
}

fn fit_end(text: &str, width: usize) -> String {
    let turned = |text: &str| text.chars().rev().collect::<String>();
    turned(&fit(&turned(text), width))
}

/// Writes a text into a row. Returns the column behind it.
fn put(buf: &mut Buffer, x: u16, y: u16, end: u16, text: &str, style: Style) -> u16 {
    let width = usize::from(end.saturating_sub(x));
    if width == 0 || y >= buf.area.bottom() {
        return x;
    }
    buf.set_stringn(x, y, fit(text, width), width, style).0
}

fn as_u16(width: usize) -> u16 {
    u16::try_from(width).unwrap_or(u16::MAX)
}

fn empty(state: &State, said: &str, area: Rect, buf: &mut Buffer) {
    let y = area.y + area.height.saturating_sub(1).min(1);
    put(buf, area.x + 1, y, area.right(), said, style(state, Mood::Quiet));
}

/// Figures that are older than this are said to be old.
const OLD: Duration = Duration::from_secs(5);

fn head(state: &State, area: Rect, buf: &mut Buffer) -> u16 {
    let mut y = area.y;
    let end = area.right();
    let Some(figures) = &state.figures else {
        put(buf, area.x, y, end, "tickwheel-jobs top", bold());
        return problem(state, None, y + 1, area, buf);
    };
    let status = match (figures.overview.is_paused, state.is_frozen) {
        (true, true) => "PAUSED FROZEN",
        (true, false) => "PAUSED",
        (false, true) => "FROZEN",
        (false, false) => "",
    };
    let status_at = end.saturating_sub(as_u16(cells(status)));
    put(buf, status_at, y, end, status, style(state, Mood::Warning));
    let mut parts = title(figures);
    let rest: usize = parts[1..].iter().map(|part| cells(part) + 2).sum();
    let left = usize::from(status_at.saturating_sub(area.x)).saturating_sub(rest + 1);
    parts[0] = fit_end(&parts[0], left.max(12));
    let x = put(buf, area.x, y, status_at, &parts[0], bold());
    put(buf, x, y, status_at, &format!("  {}", parts[1..].join("  ")), Style::new());
    y += 1;

    let rates = state.curve.lately();
    let mut x = area.x;
    for fact in facts(figures, rates.unwrap_or_else(|| figures.rates())) {
        let width = as_u16(cells(fact.name) + 1 + cells(&fact.value));
        if x > area.x && x + width > end {
            (x, y) = (area.x, y + 1);
        }
        x = put(buf, x, y, end, fact.name, style(state, Mood::Quiet));
        let value = if fact.mood == Mood::Plain { bold() } else { style(state, fact.mood) };
        x = put(buf, x + 1, y, end, &fact.value, value);
        x += 3;
    }
    if let Some(line) = slowed(figures) {
        y += 1;
        put(buf, area.x, y, end, &line, style(state, Mood::Warning));
    }
    problem(state, Some(figures.overview.now), y + 1, area, buf)
}

/// Says that the figures are old, and why. Returns the row below.
fn problem(state: &State, read: Option<Time>, y: u16, area: Rect, buf: &mut Buffer) -> u16 {
    let old = read.map(|read| state.now.since(read)).filter(|old| *old > OLD && !state.is_frozen);
    let figures = old.map(|old| format!("these figures are {} old", age(old)));
    let said = match (&state.problem, figures) {
        (Some(problem), Some(figures)) => format!("{}; {figures}", symbols(problem)),
        (Some(problem), None) => symbols(problem),
        (None, Some(figures)) => format!("the store does not answer; {figures}"),
        (None, None) => return y,
    };
    put(buf, area.x, y, area.right(), &said, style(state, Mood::Bad));
    y + 1
}

const CURVE_ROWS: u16 = 3;
const LABEL: u16 = 9;

fn curve(state: &State, area: Rect, buf: &mut Buffer) {
    let (x, end) = (area.x + LABEL, area.right());
    let columns = end.saturating_sub(x);
    let samples = state.curve.points(usize::from(columns) * 2);
    let total = |sample: &Sample| sample.completed + sample.failed;
    let peak = samples.iter().flatten().map(total).fold(0.0, f64::max);
    let labels = [format!("{}/s", zero_rate(peak)), "2 min".to_owned(), "0".to_owned()];
    for (label, y) in labels.iter().zip(area.y..) {
        put(buf, area.x, y, x, &format!("{label:>7}"), style(state, Mood::Quiet));
    }
    let dots = usize::from(CURVE_ROWS) * 4;
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        clippy::cast_precision_loss,
        reason = "a number of dots"
    )]
    let height = |sample: &Option<Sample>| match sample {
        None => 0,
        Some(_) if peak <= 0.0 => 1,
        Some(sample) => ((total(sample) / peak * dots as f64).ceil() as usize).clamp(1, dots),
    };
    for (pair, x) in samples.chunks(2).zip(x..end) {
        let has_failed = pair.iter().flatten().any(|sample| sample.failed > 0.0);
        let is_idle = pair.iter().flatten().all(|sample| total(sample) <= 0.0);
        let mood = match (has_failed, is_idle) {
            (true, _) => Mood::Bad,
            (_, true) => Mood::Quiet,
            _ => Mood::Good,
        };
        for (row, y) in (area.y..area.bottom()).enumerate() {
            let below = dots - 4 * (row + 1);
            let filled = |sample: &Option<Sample>| height(sample).saturating_sub(below).min(4);
            let left = [0, 0x40, 0x44, 0x46, 0x47][filled(&pair[0])];
            let right = [0, 0x80, 0xa0, 0xb0, 0xb8][pair.get(1).map_or(0, filled)];
            if let Some(braille) =
                char::from_u32(0x2800 + left + right).filter(|_| left + right > 0)
            {
                put(buf, x, y, end, &braille.to_string(), style(state, mood));
            }
        }
    }
}

/// Draws a table with the selected row. Where not all rows have room, it shows the page with that row.
fn rows(state: &State, table: &Table, area: Rect, buf: &mut Buffer) {
    if table.rows.is_empty() {
        return empty(state, &nothing(state), area, buf);
    }
    let columns = columns(table.columns, usize::from(area.width));
    let is_sorted = state.opened.is_empty() && state.tab == Tab::Kinds;
    let arrow = |at: usize| match (is_sorted && at == state.sort.0, state.sort.1) {
        (false, _) => "",
        (true, true) => "↓",
        (true, false) => "↑",
    };
    let head = table
        .columns
        .iter()
        .enumerate()
        .map(|(at, column)| format!("{}{}", arrow(at), column.title));
    let head: Vec<String> = head.collect();
    line(&head, table.columns, &columns, area, buf, style(state, Mood::Quiet));
    let room = usize::from(area.height.saturating_sub(1));
    if room == 0 {
        return;
    }
    let selected = state.place().map_or(0, |place| place.at);
    let first = selected / room * room;
    let page = table.rows.iter().enumerate().skip(first).take(room);
    for ((at, row), y) in page.zip(area.y + 1..) {
        let mut style = style(state, row.mood);
        if at == selected {
            style = style.add_modifier(Modifier::REVERSED);
            buf.set_style(Rect { y, height: 1, ..area }, style);
        }
        line(&row.cells, table.columns, &columns, Rect { y, height: 1, ..area }, buf, style);
    }
}

fn line(
    texts: &[String],
    columns: &[Column],
    widths: &[(usize, usize)],
    area: Rect,
    buf: &mut Buffer,
    style: Style,
) {
    let mut x = area.x;
    for (at, width) in widths {
        let text = fit(&texts[*at], *width);
        let blank = if columns[*at].is_right { width.saturating_sub(cells(&text)) } else { 0 };
        let end = (x + as_u16(*width)).min(area.right());
        put(buf, x + as_u16(blank), area.y, end, &text, style);
        x = end + 1;
    }
}

fn columns(columns: &[Column], width: usize) -> Vec<(usize, usize)> {
    let least = |column: &Column| match column.width {
        Width::Fixed(width) | Width::Share(width) => width,
    };
    let mut taken: Vec<usize> = (0..columns.len()).collect();
    loop {
        let needed: usize = taken.iter().map(|at| least(&columns[*at]) + 1).sum::<usize>() - 1;
        let spare = taken.iter().copied().filter(|at| columns[*at].spare > 0);
        let next = spare.max_by_key(|at| columns[*at].spare);
        match next.filter(|_| needed > width) {
            Some(next) => taken.retain(|at| *at != next),
            None => {
                let shares =
                    taken.iter().filter(|at| matches!(columns[**at].width, Width::Share(_)));
                let shares = shares.count().max(1);
                let left = width.saturating_sub(needed);
                let mut nth = 0;
                let of = |at: usize| match columns[at].width {
                    Width::Fixed(width) => (at, width),
                    Width::Share(least) => {
                        nth += 1;
                        (at, least + left / shares + usize::from(nth <= left % shares))
                    }
                };
                return taken.into_iter().map(of).collect();
            }
        }
    }
}

fn nothing(state: &State) -> String {
    if let Some(place) = state.place()
        && !place.filter.is_empty()
    {
        return format!("no row has \"{}\": Esc shows all", symbols(&place.filter));
    }
    match state.opened.last() {
        Some(Opened::List { list: None, .. }) => "asking the store ..".to_owned(),
        Some(Opened::List { of, list: Some(list), .. }) => match (list.note, of.state.word()) {
            (Some(note), _) => format!("none: {note}"),
            (None, "completed") => "none that is kept".to_owned(),
            (None, set) => format!("no {set} jobs"),
        },
        _ => match (state.tab, &state.figures) {
            (Tab::Running, Some(figures)) if figures.runs.is_none() => {
                format!("{} jobs run: too many to list", short(figures.overview.running))
            }
            (Tab::Limits, Some(figures)) if figures.limits.is_none() => {
                let running = short(figures.overview.running);
                format!("{running} jobs run: too many to count them by limit")
            }
            (Tab::Kinds, _) => "no kinds: no job was ever inserted".to_owned(),
            (Tab::Nodes, _) => "no nodes: no process runs the jobs of this queue".to_owned(),
            (Tab::Running, _) => "nothing runs".to_owned(),
            (Tab::Dead, _) => "no dead jobs".to_owned(),
            (Tab::Schedules, _) => "no schedules".to_owned(),
            (Tab::Limits, _) => "no limits".to_owned(),
            (Tab::Groups, _) => "no groups".to_owned(),
        },
    }
}

fn footer(state: &State, area: Rect, buf: &mut Buffer) {
    let (x, y, end) = (area.x, area.y, area.right());
    if let Some(jobs) = state.under_way {
        let said = format!("{jobs} jobs changed so far .. Esc stops it");
        put(buf, x, y, end, &said, style(state, Mood::Warning));
        return;
    }
    if let Some(message) = &state.message {
        put(buf, x, y, end, &symbols(message), style(state, Mood::Warning));
        return;
    }
    let rows = counted(state);
    let right = end.saturating_sub(as_u16(cells(&rows)));
    put(buf, right, y, end, &rows, style(state, Mood::Quiet));
    let hints: &[&str] = match (&state.mode, state.opened.last()) {
        (Mode::Filter, _) => &["Enter keep", "Esc remove"],
        (_, Some(Opened::Job { .. })) => {
            &["Esc back", "↑↓ scroll", "R D C change", "? help", "q quit"]
        }
        (_, Some(Opened::List { of, .. })) if of.group.is_some() => {
            &["Enter job", "Esc back", "n more", "/ filter", "R D change", "? help", "q quit"]
        }
        (_, Some(Opened::List { .. })) => &[
            "Enter job",
            "Esc back",
            "←→ state",
            "n more",
            "/ filter",
            "R D C change",
            "? help",
            "q quit",
        ],
        (_, None) if state.tab == Tab::Kinds => {
            &["Enter jobs", "←→ table", "<> sort", "/ filter", "R D C change", "? help", "q quit"]
        }
        _ => {
            &["Enter open", "←→ table", "/ filter", "p freeze", "R D C change", "? help", "q quit"]
        }
    };
    // Whole hints only: the first ones go where there is no room, since the help has them.
    let widths = |hints: &[&str]| hints.iter().map(|hint| cells(hint) + 2).sum::<usize>();
    let room = usize::from(right.saturating_sub(x));
    let from = (0..hints.len()).find(|from| widths(&hints[*from..]) <= room).unwrap_or(hints.len());
    put(buf, x, y, right, &hints[from..].join("  "), style(state, Mood::Quiet));
}

/// Returns the number of the selected row, and how many rows there are.
fn counted(state: &State) -> String {
    let (Some(table), Some(place)) = (state.table(), state.place()) else { return String::new() };
    let rows = table.rows.len();
    if rows == 0 {
        return String::new();
    }
    let more = match (state.opened.last(), &state.figures) {
        (Some(Opened::List { list: Some(list), .. }), _) if list.has_more => "+".to_owned(),
        (None, Some(figures))
            if state.tab == Tab::Kinds && figures.all_kinds > figures.kinds.len() as u64 =>
        {
            format!(" of {}", figures.all_kinds)
        }
        (None, Some(_)) if state.tab != Tab::Kinds && rows == MOST_ROWS => "+".to_owned(),
        _ => String::new(),
    };
    format!("{}/{rows}{more}", place.at + 1)
}

fn help(state: &State, area: Rect, buf: &mut Buffer) {
    let line = |(keys, does): &(&str, &str)| Line::from(format!("{keys:<11} {does}"));
    let lines: Vec<Line<'_>> = HELP.iter().map(line).collect();
    boxed(state, "Keys", &lines, Style::new(), area, buf);
}

fn boxed(
    state: &State,
    title: &str,
    lines: &[Line<'_>],
    border: Style,
    area: Rect,
    buf: &mut Buffer,
) {
    let widest = lines.iter().map(Line::width).max().unwrap_or(0);
    let width = as_u16(widest + 4).min(area.width).min(76).max(area.width.min(30));
    let text = Paragraph::new(lines.to_vec()).wrap(Wrap { trim: false });
    let inner = usize::from(width.saturating_sub(4)).max(1);
    // Words wrap, so a line may need one row more than its width says.
    let needed: usize = lines.iter().map(|line| line.width().div_ceil(inner).max(1)).sum();
    let wraps = lines.iter().filter(|line| line.width() > inner).count();
    let height = as_u16(needed + wraps + 2).min(area.height);
    let frame = Rect {
        x: area.x + (area.width - width) / 2,
        y: area.y + (area.height - height) / 2,
        width,
        height,
    };
    Clear.render(frame, buf);
    let block = Block::bordered().title(format!(" {title} ")).border_style(border);
    let inside = block.inner(frame);
    block.render(frame, buf);
    let inside = Rect { x: inside.x + 1, width: inside.width.saturating_sub(2), ..inside };
    text.style(style(state, Mood::Plain)).render(inside, buf);
}
