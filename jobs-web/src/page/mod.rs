//! The pages as HTML, each a pure function of a frame and a view, and what several of them have: headings, states,
//! fields and buttons, an empty list, the links to further pages, numbers, durations, times and the text of jobs.
//!
//! Ground rules:
//!
//! - Text of a job is shown by [`shown`] or [`lines`], so that no control character and no mark of a direction acts.
//!   maud escapes it; nothing here passes HTML through unescaped.
//! - Every link is from [`Frame::link`](layout::Frame::link). Every form works without the script.
//! - The content policy forbids `style` and `on..` attributes: colours and sizes are classes, or attributes of SVG.
//! - Units stand behind a narrow space that does not break.

pub(crate) mod chart;
pub(crate) mod layout;
pub(crate) mod overview;
pub(crate) mod forms;
pub(crate) mod kinds_and_limits;
pub(crate) mod kind;
pub(crate) mod jobs;
pub(crate) mod groups;
pub(crate) mod nodes_and_schedules;
pub(crate) mod actions;
#[cfg(test)]
mod tests;

use core::fmt::Write as _;
use layout::{Frame, encoded};

use maud::{Markup, Render, html};

use tickwheel_jobs::view::{Bound, Number, Time};

pub(crate) fn heading(title: &str, beside: &Markup) -> Markup {
    html! { div.head { h1.t { (shown(title)) } (beside) } }
}

pub(crate) fn state(word: &str) -> Markup {
    html! { span class={ "state " (word) } { (word) } }
}

/// A list without rows: what would be here, and why it is not.
pub(crate) fn empty(title: &str, text: &str) -> Markup {
    html! { div.empty { strong { (title) } p { (text) } } }
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Look {
    Plain,
    Risky,
}

impl Look {
    pub(crate) fn class(self) -> &'static str {
        match self {
            Look::Plain => "btn",
            Look::Risky => "btn risky",
        }
    }
}

/// A form of one button, which posts to a place under `api/v1/` and comes back. `of` is the field that names its
/// subject, a kind or a schedule; those who hear the page hear its value.
pub(crate) fn button(
    frame: &Frame,
    target: &str,
    label: &str,
    of: Option<(&str, &str)>,
    look: Look,
) -> Markup {
    let subject = of.map_or("", |(_, of)| of);
    button_with(frame, target, label, of.as_slice(), subject, look)
}

/// A [`button`] with several fields. A screen reader says `subject` after the label.
pub(crate) fn button_with(
    frame: &Frame,
    target: &str,
    label: &str,
    fields: &[(&str, &str)],
    subject: &str,
    look: Look,
) -> Markup {
    let (target, fields) = split(&format!("api/v1/{target}"), fields);
    html! {
        form method="post" action=(frame.link(&target)) {
            (sent(frame, &frame.here))
            @for (name, value) in fields { (hidden(name, value)) }
            button class=(look.class()) {
                (label) @if !subject.is_empty() { span.only-read { " " (shown(subject)) } }
            }
        }
    }
}

/// Each form of an action sends these: its id, and the page that comes after it.
pub(crate) fn sent(frame: &Frame, back: &str) -> Markup {
    html! { (hidden("back", back)) (hidden("once", &frame.form)) }
}

pub(crate) fn hidden(name: &str, value: &str) -> Markup {
    html! { input type="hidden" name=(name) value=(value); }
}

/// Returns the target of a form with those of its fields that HTML cannot carry as they are, as a query, and the
/// other fields. A browser changes the ends of lines in a field, and a character that acts is none of a page.
pub(crate) fn split<'a>(
    target: &str,
    fields: &[(&'a str, &'a str)],
) -> (String, Vec<(&'a str, &'a str)>) {
    let (odd, plain): (Vec<_>, Vec<_>) =
        fields.iter().partition(|(_, value)| value.chars().any(acts));
    let mut target = target.to_owned();
    for (name, value) in odd {
        target.push(if target.contains('?') { '&' } else { '?' });
        target.push_str(&format!("{name}={}", encoded(value)));
    }
    (target, plain)
}

/// The queue of the page, for a form that is sent as a query: a browser drops the query of its target.
pub(crate) fn queue(frame: &Frame) -> Markup {
    html! {
        @if !frame.queues.first().is_none_or(|first| first.is_current) {
            (hidden("queue", &frame.queue))
        }
    }
}

/// A bound of durations under a head that says "at most": `25 ms`, `> 1 h` above every bound, or nothing if there was
/// none.
pub(crate) fn bound(bound: Option<Bound>) -> Markup {
    or_dash(bound.map(|bound| match bound.is_above() {
        true => format!("> {}", span(Bound::LAST_MS)),
        false => span(bound.ms()),
    }))
}

/// The head of a table. A column whose name begins with `#` has numbers. The column `Change` has no head to see.
pub(crate) fn columns<'a>(columns: impl IntoIterator<Item = &'a &'a str>) -> Markup {
    html! {
        thead { tr {
            @for column in columns {
                @match column.strip_prefix('#') {
                    Some(column) => th.num scope="col" { (column) },
                    None if *column == "Change" => th scope="col" { span.only-read { (column) } },
                    None => th scope="col" { (column) },
                }
            }
        } }
    }
}

/// A table that scrolls by itself, with these [`columns`]. With an `id` it is replaced while the page is shown. The
/// column `Change` is there for a reader who may change jobs.
pub(crate) fn table(
    frame: &Frame,
    id: Option<&str>,
    label: &str,
    all: &[&str],
    rows: &Markup,
) -> Markup {
    let shown = all.iter().filter(|it| frame.may_change || **it != "Change");
    html! {
        div.scroll id=[id] data-live[id.is_some()] tabindex="0" role="region" aria-label=(label) {
            table.stack {
                (columns(shown))
                tbody { (rows) }
            }
        }
    }
}

/// The links to further pages of a list: each with its text and its relation, if there is such a page.
pub(crate) fn pager(
    frame: &Frame,
    said: &str,
    links: &[(&str, Option<&str>, Option<String>)],
) -> Markup {
    html! {
        @if links.iter().any(|(.., to)| to.is_some()) {
            nav.pager aria-label="Further pages" {
                span { (said) }
                span.row {
                    @for (text, rel, to) in links {
                        @if let Some(to) = to { a.btn rel=[*rel] href=(frame.link(to)) { (text) } }
                    }
                }
            }
        }
    }
}

/// The links to the first page of a list by name, and to the next one.
pub(crate) fn by_name(frame: &Frame, said: &str, first: &str, next: Option<String>) -> Markup {
    let first = frame.is_later_page().then(|| first.to_owned());
    pager(frame, said, &[("← First", None, first), ("Next →", Some("next"), next)])
}

/// Text of a job in one line: a character that would act is shown as a symbol.
pub(crate) fn shown(text: &str) -> Shown<'_> {
    Shown { text, keeps_lines: false }
}

/// Text of a job in several lines, for a `pre`: the ends of lines and tabs stay.
pub(crate) fn lines(text: &str) -> Shown<'_> {
    Shown { text, keeps_lines: true }
}

/// See [`shown`] and [`lines`].
#[derive(Clone, Copy)]
pub(crate) struct Shown<'a> {
    text: &'a str,
    keeps_lines: bool,
}

impl core::fmt::Display for Shown<'_> {
    /// Prints the text with the symbols. maud escapes it.
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        for c in self.text.chars() {
            match c {
                '\n' | '\t' if self.keeps_lines => f.write_char(c)?,
                '\0'..='\u{1f}' => f.write_char(symbol(0x2400 + u32::from(c)))?,
                '\u{7f}' => f.write_char('\u{2421}')?,
                _ if acts(c) => write!(f, "\u{27e8}U+{:04X}\u{27e9}", u32::from(c))?,
                _ => f.write_char(c)?,
            }
        }
        Ok(())
    }
}

fn symbol(code: u32) -> char {
    char::from_u32(code).unwrap_or(char::REPLACEMENT_CHARACTER)
}

/// Says whether a character is not seen, or acts on the text around it: a control character, one that sets the
/// direction of text, a separator of lines, an annotation, and every character that Unicode calls
/// `Default_Ignorable_Code_Point` (Unicode 16, `DerivedCoreProperties.txt`). So two texts that look the same are the
/// same.
pub(crate) fn acts(c: char) -> bool {
    c.is_control()
        || matches!(c,
            '\u{ad}' | '\u{34f}' | '\u{61c}' | '\u{115f}'..='\u{1160}' | '\u{17b4}'..='\u{17b5}'
            | '\u{180b}'..='\u{180f}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}'
            | '\u{2060}'..='\u{206f}' | '\u{3164}' | '\u{fe00}'..='\u{fe0f}' | '\u{feff}' | '\u{ffa0}'
            | '\u{fff0}'..='\u{fffb}' | '\u{1bca0}'..='\u{1bca3}' | '\u{1d173}'..='\u{1d17a}'
            | '\u{e0000}'..='\u{e0fff}')
}

pub(crate) fn capital(text: &str) -> String {
    let mut chars = text.chars();
    let first = chars.next().map(|first| first.to_uppercase().to_string());
    first.unwrap_or_default() + chars.as_str()
}

/// A number with commas: `1,204,311`.
pub(crate) fn count(number: u64) -> String {
    let digits = number.to_string();
    let mut out = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

/// `344`, or `10,000+` if there may be more.
pub(crate) fn number(number: Number) -> String {
    let more = if number.is_exact { "" } else { "+" };
    format!("{}{more}", count(number.count))
}

/// A number with its noun: `1 job`, `344 jobs`.
pub(crate) fn counted(number: u64, one: &str, more: &str) -> String {
    format!("{} {}", count(number), if number == 1 { one } else { more })
}

/// A value, or a dash for none.
pub(crate) fn or_dash(value: Option<impl Render>) -> Markup {
    html! { @match value { Some(value) => (value), None => span.zero { "–" } } }
}

/// A number, of which zero is grey.
pub(crate) fn cell(number: u64) -> Markup {
    html! {
        @if number == 0 { span.zero { "0" } } @else { (count(number)) }
    }
}

const THIN: char = '\u{202f}';

/// A duration in its two largest units: `250 ms`, `1.3 s`, `5 m 3 s`, `4 d 4 h`.
pub(crate) fn span(ms: u64) -> String {
    let seconds = ms / 1000;
    let two = |first: u64, unit, second: u64, small| match second {
        0 => format!("{}{THIN}{unit}", count(first)),
        _ => format!("{}{THIN}{unit} {second}{THIN}{small}", count(first)),
    };
    match seconds {
        0 => format!("{ms}{THIN}ms"),
        1..10 if ms % 1000 < 50 => format!("{seconds}{THIN}s"),
        1..10 => format!("{seconds}.{}{THIN}s", ms % 1000 / 100),
        10..60 => format!("{seconds}{THIN}s"),
        60..3600 => two(seconds / 60, "m", seconds % 60, "s"),
        3600..86_400 => two(seconds / 3600, "h", seconds / 60 % 60, "m"),
        _ => two(seconds / 86_400, "d", seconds / 3600 % 24, "h"),
    }
}

/// A number of bytes: `812 B`, `1.5 KiB`.
pub(crate) fn bytes(bytes: u64) -> String {
    let (unit, name) = match bytes {
        0..1024 => return format!("{bytes}{THIN}B"),
        1024..1_048_576 => (1024.0, "KiB"),
        1_048_576..1_073_741_824 => (1_048_576.0, "MiB"),
        _ => (1_073_741_824.0, "GiB"),
    };
    #[expect(clippy::cast_precision_loss, reason = "one decimal is printed")]
    let size = bytes as f64 / unit;
    format!("{size:.1}{THIN}{name}")
}

/// The distance of a time from the present: `in 2 h 5 m`, `3 s ago`, `now`. The whole time is its title.
pub(crate) fn relative(time: Time, now: Time) -> Markup {
    let ms = time.ms_since(now);
    let distance = span(ms.unsigned_abs());
    html! {
        time datetime=(time) title=(absolute(time)) {
            @match ms {
                0 => "now",
                1.. => { "in " (distance) },
                _ => { (distance) " ago" },
            }
        }
    }
}

/// A time to the millisecond, in UTC: `2026-11-22 10:00:00.000 UTC`.
pub(crate) fn absolute(time: Time) -> String {
    let text = time.to_string();
    format!("{} UTC", text.trim_end_matches('Z').replacen('T', " ", 1))
}

/// A time to the second, without its day if that is today: `10:00:00`.
pub(crate) fn clock(time: Time, now: Time) -> String {
    let to_the_second = absolute(time).chars().take(19).collect::<String>();
    match to_the_second.split_once(' ') {
        Some((day, clock)) if absolute(now).starts_with(day) => clock.to_owned(),
        _ => to_the_second,
    }
}

/// The hour and minute of a time: `10:00`.
pub(crate) fn minute(time: Time) -> String {
    time.to_string().chars().skip(11).take(5).collect()
}
