//! The first page: warnings, the numbers of the queue, sixty minutes, the queues.

use maud::{Markup, html};

use super::{chart, layout};
use crate::page::layout::{Frame, place};
use crate::page::{cell, columns, count, counted, heading, number, shown, span, state};
use crate::views::{OverviewPage, QueueRow};
use tickwheel_jobs::view::{Bound, Overview, Warning};

pub(crate) fn page(frame: &Frame, page: &OverviewPage) -> Markup {
    let OverviewPage { view, queues } = page;
    let part = html! {
        (heading("Overview", &html! {
            @if frame.queues.len() > 1 { p.clip { (shown(&frame.queue)) } }
            span id="paused" data-live { @if view.is_paused { (state("paused")) } }
        }))
        div.notes id="warnings" data-live {
            @for warning in &view.warnings { (note(frame, warning)) }
        }
        (tiles(frame, view))
        section.group aria-labelledby="hour" {
            h2 id="hour" { "The last sixty minutes" }
            div { (chart::minutes(&view.minutes)) }
        }
        (queues_table(frame, queues))
    };
    layout::page(frame, "Overview", &part)
}

fn note(frame: &Frame, warning: &Warning) -> Markup {
    let is_bad = matches!(warning.what, "no_node" | "store_full" | "store_failed");
    html! {
        div.note.bad[is_bad] {
            strong.t { (shown(&warning.text)) }
            a.t href=(frame.link(&place(&warning.about))) { (shown(&warning.cure)) }
        }
    }
}

fn tiles(frame: &Frame, view: &Overview) -> Markup {
    let is_late = view.overdue.count > 0;
    // A process claims some jobs ahead, which start when one of its threads is free.
    let runs = if view.capacity == 0 { view.running } else { view.running.min(view.capacity) };
    html! {
        div.tiles id="tiles" data-live {
            a.tile.alarm[view.oldest_overdue_ms.is_some_and(|ms| ms >= 60_000)] href=(frame.link("jobs?state=overdue")) {
                span { "Oldest overdue" }
                strong { @match view.oldest_overdue_ms { Some(ms) => (span(ms)), None => "none" } }
                span { @if is_late { (number(view.overdue)) " overdue" } @else { "nothing is overdue" } }
            }
            a.tile href=(frame.link("jobs?state=pending")) {
                span { "Pending" }
                strong { (count(view.pending)) }
                span { (counted(view.schedules, "schedule", "schedules")) }
            }
            a.tile href=(frame.link("jobs?state=running")) {
                span { "Running" }
                strong { (count(runs)) small { " of " (count(view.capacity)) } }
                @if runs < view.running { span { (count(view.running - runs)) " more are claimed" } }
                (chart::meter(runs, view.capacity, "Running, of what the nodes can run at once"))
            }
            a.tile href=(frame.link("dead")) {
                span { "Dead" }
                strong { (count(view.dead)) }
                span { @if view.dead == 0 { "nothing is dead" } @else { "grouped by error" } }
            }
            div.tile {
                span { "Completed" }
                strong { (count(view.completed_per_minute)) small { " a minute" } }
                span { "the last full minute" }
            }
            div.tile {
                span { "Failed" }
                strong.bad[view.failed_per_minute > 0] { (count(view.failed_per_minute)) small { " a minute" } }
                span { "the last full minute" }
            }
            div.tile {
                span { "Late, p99" }
                strong { @match view.hour.late_p99_ms { Some(late) if late.is_above() => { small { "> " } (span(Bound::LAST_MS)) }, Some(late) => { small { "≤ " } (span(late.ms())) }, None => "–" } }
                span { "the last sixty minutes" }
            }
        }
    }
}

fn queues_table(frame: &Frame, queues: &[QueueRow]) -> Markup {
    html! {
        section.group aria-labelledby="queues" {
            h2 id="queues" { @if queues.len() == 1 { "The queue" } @else { "Queues" } }
            div.scroll id="queue-rows" data-live tabindex="0" role="region" aria-labelledby="queues" {
                table {
                    (columns(&["Queue", "#Pending", "#Overdue", "#Dead", "#Nodes"]))
                    tbody {
                        @for queue in queues { (queue_row(frame, queue)) }
                    }
                }
            }
        }
    }
}

fn queue_row(frame: &Frame, queue: &QueueRow) -> Markup {
    let link = frame.queues.iter().find(|link| link.name == queue.name);
    html! {
        tr data-key=(shown(&queue.name)) {
            th.name scope="row" {
                @match link {
                    Some(link) => a.t data-row href=(link.link) { (shown(&queue.name)) },
                    None => span.t { (shown(&queue.name)) },
                }
                @if let Some(problem) = &queue.problem { span.sub.bad.t { (shown(problem)) } }
            }
            @if queue.problem.is_some() {
                td colspan="4" {}
            } @else {
                td.num { (cell(queue.pending)) }
                td.num {
                    @let overdue = queue.overdue.unwrap_or_default();
                    @if overdue.count > 0 { span.warn { (number(overdue)) } } @else { (cell(0)) }
                }
                td.num { (cell(queue.dead)) }
                td.num { @if queue.alive_nodes == 0 { span.bad { "none" } } @else { (queue.alive_nodes) } }
            }
        }
    }
}
