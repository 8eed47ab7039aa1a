//! The schedules: the rule in words, the next five occurrences, and what may be done with them.

use maud::{Markup, html};

use super::layout;
use super::parts::{Look, button, empty, heading, state};
use super::text::{absolute, clock, counted, relative, shown};
use crate::web::frame::{Frame, encoded};
use crate::web::views::Time;
use crate::web::views::place::{ScheduleRow, Schedules};

pub(crate) fn page(frame: &Frame, view: &Schedules) -> Markup {
    let part = html! {
        (heading("Schedules", &html! { p { "Times are UTC." } }))
        @if view.rows.is_empty() {
            (empty("No schedule", "A program makes one with schedule: a name, a period or a cron expression, and a job."))
        } @else {
            div.scroll id="schedules" data-live tabindex="0" role="region" aria-label="Schedules" {
                table.stack {
                    thead { tr {
                        th scope="col" { "Schedule" }
                        th scope="col" { "Rule" }
                        th scope="col" { "Next" }
                        th scope="col" { "After that" }
                        @if frame.may_change { th scope="col" { span.only-read { "Change" } } }
                    } }
                    tbody { @for schedule in &view.rows { (row(frame, schedule, view.now)) } }
                }
            }
        }
        @if view.next.is_some() || view.is_later_page {
            nav.pager aria-label="Further pages" {
                span { (counted(view.rows.len() as u64, "schedule", "schedules")) ", by name" }
                span.row {
                    @if view.is_later_page { a.btn href=(frame.link("schedules")) { "← First" } }
                    @if let Some(next) = &view.next {
                        a.btn rel="next" href=(frame.link(&format!("schedules?after={}", encoded(next)))) { "Next →" }
                    }
                }
            }
        }
    };
    layout::page(frame, "Schedules", &part)
}

fn row(frame: &Frame, schedule: &ScheduleRow, now: Time) -> Markup {
    let is_paused = schedule.is_paused;
    let jobs = frame.link(&format!("jobs?state=pending&kind={}", encoded(&schedule.kind)));
    html! {
        tr.quiet[is_paused] data-key=(shown(&schedule.name)) {
            th.name scope="row" {
                span.t.clip title=(shown(&schedule.name)) { (shown(&schedule.name)) }
                a.sub.t.clip data-row href=(jobs) { (shown(&schedule.kind)) }
                @if is_paused { (state("paused")) }
            }
            td data-of="Rule" { span { span.t { (shown(&schedule.in_words)) } span.sub.t.mono { (shown(&schedule.rule)) } } }
            td data-of="Next" {
                @match schedule.next.first().filter(|_| !is_paused) {
                    None => span.zero { "–" },
                    Some(next) => span.nowrap.warn[schedule.is_missed] {
                        (relative(*next, now))
                        span.sub { (clock(*next, now)) @if schedule.is_missed { ", missed" } }
                    },
                }
            }
            td data-of="After that" { (later(schedule, now)) }
            @if frame.may_change { td.do { (change(frame, schedule)) } }
        }
    }
}

/// The occurrences behind the next one.
fn later(schedule: &ScheduleRow, now: Time) -> Markup {
    html! {
        @if schedule.next.len() < 2 { span.zero { "–" } } @else {
            details {
                summary.nowrap { (clock(schedule.next[1], now)) ", .." }
                ol.small { @for time in &schedule.next[1..] { li.nowrap { (absolute(*time)) } } }
            }
        }
    }
}

fn change(frame: &Frame, schedule: &ScheduleRow) -> Markup {
    let of = Some(("schedule", &*schedule.name));
    html! {
        div.row {
            (button(frame, "schedules/run", "Run now", of, Look::Plain))
            @if schedule.is_paused {
                (button(frame, "schedules/resume", "Resume", of, Look::Plain))
            } @else {
                (button(frame, "schedules/pause", "Pause", of, Look::Plain))
            }
            (button(frame, "schedules/unschedule", "End", of, Look::Risky))
        }
    }
}
