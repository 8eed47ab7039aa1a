//! Charts as SVG: bars of sixty minutes with a table behind them, a line for a row of a table, a meter.
//!
//! A chart is stretched to the width of its place, so it has no text of its own but titles. Colours are classes of
//! the style sheet, because the content policy forbids `style` attributes.

use core::fmt::Write as _;

use maud::{Markup, html};

use crate::page::{columns, count, minute, span};
use tickwheel_jobs::view::{Bound, HistoryRow};

/// The height of a chart in its own units. A bar and the gap behind it are [`STEP`] wide.
const HEIGHT: f64 = 100.0;
const STEP: usize = 10;
const BAR: usize = 7;

#[derive(Clone, Copy)]
enum Shows {
    Completed,
    Failed,
    Late,
}

impl Shows {
    fn name(self) -> &'static str {
        match self {
            Shows::Completed => "Completed a minute",
            Shows::Failed => "Failed a minute",
            Shows::Late => "Late, p99",
        }
    }

    fn class(self) -> &'static str {
        match self {
            Shows::Completed => "b",
            Shows::Failed => "b-bad",
            Shows::Late => "b-warn",
        }
    }

    fn value(self, minute: &HistoryRow) -> Option<u64> {
        match self {
            Shows::Completed => Some(minute.completed),
            Shows::Failed => Some(minute.failed),
            Shows::Late => minute.late_p99_ms.map(|bound| bound.ms()),
        }
    }

    fn text(self, value: Option<u64>) -> String {
        match (self, value) {
            (_, None) => "no start".to_owned(),
            (Shows::Late, Some(ms)) => late(ms),
            (Shows::Completed, Some(runs)) => format!("{} completed", count(runs)),
            (Shows::Failed, Some(runs)) => format!("{} failed", count(runs)),
        }
    }

    /// The height of a bar, of [`HEIGHT`]. Lateness has a scale of powers of ten, to an hour.
    fn height(self, value: u64, most: u64) -> f64 {
        #[expect(clippy::cast_precision_loss, reason = "a height in pixels")]
        let (value, most) = (value as f64, most as f64);
        let part = match self {
            Shows::Late => (value + 1.0).log10() / 3_600_001_f64.log10(),
            _ => value / most.max(1.0),
        };
        // Every figure above zero can be seen.
        if value > 0.0 { (part * HEIGHT).clamp(2.0, HEIGHT) } else { 0.0 }
    }
}

fn late(ms: u64) -> String {
    match Bound::from_ms(ms).is_above() {
        true => format!("more than {}", span(Bound::LAST_MS)),
        false => format!("at most {}", span(ms)),
    }
}

/// The minutes as three charts, and as a table behind them.
pub(crate) fn minutes(minutes: &[HistoryRow]) -> Markup {
    html! {
        div.charts id="charts" data-live {
            @for shows in [Shows::Completed, Shows::Failed, Shows::Late] { (bars(shows, minutes)) }
        }
        details.behind {
            summary { "The same minutes as a table" }
            div.scroll tabindex="0" role="region" aria-label="The last sixty minutes" id="minutes" data-live {
                table {
                    (columns(&["Minute, UTC", "#Inserted", "#Completed", "#Failed", "#Late, p99"]))
                    tbody {
                        @for of in minutes.iter().rev() {
                            tr {
                                th scope="row" { (minute(of.begin)) }
                                td.num { (of.inserted) }
                                td.num { (of.completed) }
                                td.num { (of.failed) }
                                td.num { @if let Some(late) = of.late_p99_ms { @if late.is_above() { "> " (span(Bound::LAST_MS)) } @else { "≤ " (span(late.ms())) } } }
                            }
                        }
                    }
                }
            }
        }
    }
}

fn bars(shows: Shows, minutes: &[HistoryRow]) -> Markup {
    let most = minutes.iter().filter_map(|minute| shows.value(minute)).max();
    let most_text = match (shows, most) {
        (_, None) => "no start in this hour".to_owned(),
        (Shows::Late, Some(ms)) => late(ms),
        (_, Some(0)) => "none in this hour".to_owned(),
        (_, Some(runs)) => format!("highest {}", count(runs)),
    };
    let path = |minutes: &mut dyn Iterator<Item = (usize, &HistoryRow)>| {
        let mut path = String::new();
        for (at, minute) in minutes {
            let value = shows.value(minute).unwrap_or(0);
            let height = shows.height(value, most.unwrap_or(0));
            if height > 0.0 {
                let _ = write!(path, "M{} {HEIGHT}v-{height:.0}h{BAR}v{height:.0}z", at * STEP);
            }
        }
        path
    };
    let width = minutes.len() * STEP;
    let last = minutes.len().saturating_sub(1);
    let over = path(&mut minutes.iter().enumerate().take(last));
    let going_on = path(&mut minutes.iter().enumerate().skip(last));
    // Of lateness, the line of a second.
    let line = HEIGHT - shows.height(1000, 0);
    html! {
        figure.chart {
            figcaption { strong { (shows.name()) } span { (most_text) } }
            svg viewBox={ "0 0 " (width) " " (HEIGHT) } preserveAspectRatio="none" role="img" {
                title { (shows.name()) ", the last sixty minutes: " (most_text) }
                @if matches!(shows, Shows::Late) {
                    path.grid d={ "M0 " (format_args!("{line:.0}")) "h" (width) } {}
                }
                path class=(shows.class()) d=(over) {}
                path class=(shows.class()) d=(going_on) opacity="0.5" {}
                @for (at, of) in minutes.iter().enumerate() {
                    path.hit d={ "M" (at * STEP) " 0h" (STEP) "v" (HEIGHT) "h-" (STEP) "z" } {
                        title { (minute(of.begin)) ", " (shows.text(shows.value(of))) }
                    }
                }
            }
            p.axis {
                span { @if let Some(first) = minutes.first() { (minute(first.begin)) } }
                @if matches!(shows, Shows::Late) { span { "line: 1 s; powers of ten" } }
                span { @if let Some(last) = minutes.last() { (minute(last.begin)) " UTC" } }
            }
        }
    }
}

/// The units of a line in a row: two for each minute.
const LINE_HEIGHT: f64 = 22.0;

/// The values as a line, for a row of a table.
pub(crate) fn spark(values: &[u64], title: &str) -> Markup {
    let most = values.iter().copied().max().unwrap_or(0).max(1);
    let is_idle = values.iter().all(|value| *value == 0);
    // The line goes around the outside, so that only its upper edge is seen.
    let mut path = String::from("M-4 30");
    for (at, value) in values.iter().enumerate() {
        #[expect(clippy::cast_precision_loss, reason = "a height in pixels")]
        let height = *value as f64 / most as f64 * (LINE_HEIGHT - 3.0);
        let y = LINE_HEIGHT - 1.0 - height;
        if at == 0 {
            let _ = write!(path, "V{y:.0}");
        }
        let _ = write!(path, "L{} {y:.0}", at * 2);
    }
    let width = values.len().saturating_sub(1) * 2;
    let _ = write!(path, "H{}V30z", width + 4);
    html! {
        svg.spark viewBox={ "0 0 " (width.max(1)) " " (LINE_HEIGHT) } preserveAspectRatio="none" role="img" {
            title { (title) }
            path.none[is_idle] d=(path) {}
        }
    }
}

pub(crate) fn meter(part: u64, whole: u64, title: &str) -> Markup {
    let whole = whole.max(1);
    let class = if part >= whole { "b-warn" } else { "b" };
    html! {
        svg.meter viewBox={ "0 0 " (whole) " 4" } preserveAspectRatio="none" role="img" {
            title { (title) }
            rect.track width=(whole) height="4" {}
            rect class=(class) width=(part.min(whole)) height="4" {}
        }
    }
}
