//! The kinds: a row each, with their jobs, limits, rates, times, a line of the last hour, and pause or resume.

use maud::{Markup, html};

use super::chart;
use super::layout;
use super::limits;
use super::parts::{Look, bound, button, empty, heading, state};
use super::text::{cell, count, counted, number, relative, shown, span};
use crate::web::frame::{Frame, encoded};
use crate::web::views::Time;
use crate::web::views::overview::{KindRow, Kinds};

pub(crate) fn page(frame: &Frame, view: &Kinds) -> Markup {
    let part = html! {
        (heading("Kinds", &html! {
            p { (counted(view.total, "kind", "kinds")) }
            @if view.is_paused { (state("paused")) p { "The whole queue is paused." } }
            @if frame.may_change {
                span.end {
                    @if view.is_paused { (button(frame, "queue/resume", "Resume the queue", None, Look::Plain)) }
                    @else { (button(frame, "queue/pause", "Pause the queue", None, Look::Plain)) }
                }
            }
        }))
        @if view.rows.is_empty() {
            (empty("No kind yet", "A kind appears here with its first job, and stays when the job is gone."))
        } @else {
            (table(frame, view))
        }
        @if view.next.is_some() || view.is_later_page {
            nav.pager aria-label="Further pages" {
                span { (counted(view.rows.len() as u64, "kind", "kinds")) " of " (count(view.total)) ", the paused ones first, then by name" }
                span.row {
                    @if view.is_later_page { a.btn href=(frame.link("kinds")) { "← First" } }
                    @if let Some(next) = &view.next {
                        a.btn rel="next" href=(frame.link(&format!("kinds?after={}", encoded(next)))) { "Next →" }
                    }
                }
            }
        }
        (limits::section(&view.limits, view.now))
    };
    layout::page(frame, "Kinds", &part)
}

fn table(frame: &Frame, view: &Kinds) -> Markup {
    html! {
        div.scroll tabindex="0" role="region" aria-label="Kinds" id="kinds" data-live {
            table {
                thead {
                    tr.over {
                        th.first rowspan="2" scope="col" { "Kind" }
                        th.num rowspan="2" scope="col" { "Pending" }
                        th rowspan="2" scope="col" { "Next due" }
                        th.num rowspan="2" scope="col" { "Running" }
                        th.num rowspan="2" scope="col" { "Dead" }
                        th.num rowspan="2" scope="col" { "Completed" br; "a minute" }
                        th.num rowspan="2" scope="col" { "Failed" br; "of 100" }
                        th colspan="2" scope="colgroup" { span { "Late, at most" } }
                        th colspan="2" scope="colgroup" { span { "Run time, at most" } }
                        th rowspan="2" scope="col" { "Completed," br; "60 minutes" }
                        @if frame.may_change { th rowspan="2" scope="col" { span.only-read { "Change" } } }
                    }
                    tr {
                        th.num scope="col" { "p50" }
                        th.num scope="col" { "p99" }
                        th.num scope="col" { "p50" }
                        th.num scope="col" { "p99" }
                    }
                }
                tbody { @for kind in &view.rows { (row(frame, kind, view.now)) } }
            }
        }
    }
}

fn row(frame: &Frame, kind: &KindRow, now: Time) -> Markup {
    let name = encoded(&kind.name);
    let jobs = |state: &str| frame.link(&format!("jobs?state={state}&kind={name}"));
    let waiting = kind.pending.saturating_sub(kind.running);
    html! {
        tr data-key=(shown(&kind.name)) {
            th.first.name scope="row" {
                a.t.clip data-row href=(jobs("pending")) title=(shown(&kind.name)) { (shown(&kind.name)) }
                @if kind.is_paused { (state("paused")) " " }
                @if !kind.has_node && kind.pending > 0 { span.sub.bad { "no process handles it" } }
                (limits::of_kind(&kind.limits, &kind.name, now))
                @if let Some(ms) = kind.head_start_ms { span.sub { "head start " (span(ms)) } }
                @if let Some(keeps) = &kind.keeps { span.sub.t.clip { "keeps " (shown(keeps)) } }
            }
            td.num { (cell(waiting)) }
            td.nowrap { (next_due(kind, now, &jobs("overdue"))) }
            td.num { (cell(kind.running)) }
            td.num {
                @if kind.dead.count == 0 { (cell(0)) }
                @else { a.bad href=(jobs("dead")) { (number(kind.dead)) } }
            }
            td.num { (cell(kind.completed_per_minute)) }
            td.num { (failures(kind)) }
            td.num { (bound(kind.p50_late_ms)) }
            td.num { (bound(kind.p99_late_ms)) }
            td.num { (bound(kind.p50_run_ms)) }
            td.num { (bound(kind.p99_run_ms)) }
            td { (chart::spark(&kind.sparkline, &summary(kind))) }
            @if frame.may_change { td.do { (switch(frame, kind)) } }
        }
    }
}

fn next_due(kind: &KindRow, now: Time, overdue: &str) -> Markup {
    html! {
        @if let Some(ms) = kind.oldest_overdue_ms {
            a.warn href=(overdue) { (span(ms)) " overdue" }
        } @else if let Some(due) = kind.next_due {
            (relative(due, now))
        } @else {
            span.zero { "–" }
        }
    }
}

fn failures(kind: &KindRow) -> Markup {
    html! {
        @match kind.failures_in_hundred {
            None => span.zero { "–" },
            Some(part) if part <= 0.0 => (cell(0)),
            Some(part) if part < 0.1 => span { "< 0.1" },
            Some(part) => span.bad[part >= 5.0] { (format_args!("{part:.1}")) },
        }
    }
}

/// The line of the last hour in words.
fn summary(kind: &KindRow) -> String {
    format!(
        "{} completed and {} failed in sixty minutes",
        count(kind.completed),
        count(kind.failed)
    )
}

fn switch(frame: &Frame, kind: &KindRow) -> Markup {
    let (verb, label) = if kind.is_paused { ("resume", "Resume") } else { ("pause", "Pause") };
    button(frame, &format!("kinds/{verb}"), label, Some(("kind", &kind.name)), Look::Plain)
}
