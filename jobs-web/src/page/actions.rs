//! The question before an action, with its name, its jobs and their number; the progress of a bulk, and the list of the
//! bulks of this process.

use maud::{Markup, html};

use super::layout;
use crate::page::layout::Frame;
use crate::page::{
    Look, button, capital, cell, count, counted, empty, heading, hidden, number, relative, shown,
    split, table,
};
use crate::views::{Bulks, Progress, Question};
use tickwheel_jobs::view::{Number, Time};

pub(crate) fn question_page(frame: &Frame, view: &Question) -> Markup {
    let of_group = if view.target.contains("/groups/") { " the group" } else { "" };
    let verb = format!("{}{of_group}", verb(view.action));
    let title = match view.jobs {
        None => format!("{verb}?"),
        Some(Number { count: 0, is_exact: false }) => format!("{verb} all jobs that match?"),
        Some(jobs) if jobs.is_exact => format!("{verb} {}?", counted(jobs.count, "job", "jobs")),
        Some(jobs) => format!("{verb} {} or more?", counted(jobs.count, "job", "jobs")),
    };
    let fields: Vec<(&str, &str)> =
        view.fields.iter().map(|(name, value)| (&**name, &**value)).collect();
    let is_exact = view.jobs.is_some_and(|jobs| jobs.is_exact);
    // Headers have several lines, and may have tokens, which must not be in a URL.
    let (headers, fields): (Vec<_>, Vec<_>) =
        fields.into_iter().partition(|(name, _)| *name == "headers");
    let (target, fields) = split(&view.target, &fields);
    let part = html! {
        (heading(&title, &html! {}))
        div.card.pad.group {
            p { "This is about " strong.t { (shown(&view.scope)) } "." }
            @if let Some(confirmed) = view.confirmed {
                p.bad { "There are more by now: you confirmed " (number(confirmed)) "." }
            }
            @if view.loses { p.bad { "It cannot be taken back." } }
            @if let Some(note) = &view.note { p.warn { (note) } }
            @if view.jobs.is_some_and(|jobs| jobs.count > 1 || !jobs.is_exact) {
                p.soft { "The jobs are changed in steps of 256, and the next page can stop that." @if is_exact { " No more jobs than these are changed." } @else { " Jobs that come to match meanwhile are changed too." } }
            }
            form.row method="post" action=(frame.link(&target)) {
                (hidden("once", &frame.form))
                @for (name, value) in fields { (hidden(name, value)) }
                @for (name, value) in headers { textarea hidden name=(name) { (value) } }
                button.main.risky[view.loses] { (title.trim_end_matches('?')) }
                a.btn href=(frame.link(&view.back)) { "No, back" }
            }
        }
    };
    layout::page(frame, &title, &part)
}

/// An action as the begin of a question.
pub(super) fn verb(action: &str) -> String {
    let text = match action {
        "unschedule" => "End this schedule",
        "run" => "Run now",
        "again" => "Run again",
        "limit" => "Set the limit",
        "lift" => "Lift the limit",
        "release" => "End the hold",
        "keep" => "Keep completed jobs",
        "head-start" => "Set the head start",
        "insert" => "Insert a job",
        other => other,
    };
    capital(text)
}

pub(crate) fn progress_page(frame: &Frame, view: &Progress) -> Markup {
    let title = format!("{} {}", verb(view.action), jobs(view.of));
    let runs = view.ended.is_none();
    let part = html! {
        (heading(&title, &html! { span id="state" data-live { (state(view.state)) } }))
        div.card.pad.group id="progress" data-live {
            p.t { (shown(&view.scope)) (queue(frame, view)) }
            @let whole = view.of.count.max(view.seen).max(1);
            progress max=(whole) value=(if runs { view.seen } else { whole }) aria-label="Progress" {}
            p.said { (count(view.changed)) " changed" span.soft { " of " (number(view.of)) } }
            p.soft {
                (count(view.seen)) " read"
                @if view.asked_to_stop > 0 { ", " (count(view.asked_to_stop)) " run and were asked to stop" }
                @if view.passed_over > 0 { ", " (count(view.passed_over)) " passed over, because they had changed" }
                "; started " (relative(view.started, frame.now))
                @if let Some(ended) = view.ended { ", ended " (relative(ended, frame.now)) }
            }
            @if let Some(problem) = &view.problem {
                div.note.bad {
                    strong { @if view.state == "failed" { "It failed" } @else { "It was ended early" } }
                    span.t { (shown(problem)) }
                }
            }
            div.row {
                @if runs && frame.may_change { (button(frame, &format!("bulk/{}/stop", view.id), "Stop", None, Look::Plain)) }
                a.btn href=(frame.link_in(&view.queue, &view.back)) { "Back to the list" }
                a.btn href=(frame.link("bulk")) { "All bulk changes" }
            }
        }
    };
    layout::page_that_refreshes(frame, &title, &part, runs)
}

pub(crate) fn bulks_page(frame: &Frame, view: &Bulks) -> Markup {
    let part = html! {
        (heading("Bulk changes", &html! { p { "of this process, the newest first" } }))
        @if view.rows.is_empty() {
            (empty("No bulk change", "One starts from a list of jobs, or from a group of dead jobs."))
        } @else {
            (table(frame, Some("bulks"), "Bulk changes", &["Change of jobs", "State", "#Changed", "#Passed over", "Started"], &html! { @for bulk in &view.rows { (bulk_row(frame, bulk, view.now)) } }))
        }
    };
    layout::page(frame, "Bulk changes", &part)
}

fn bulk_row(frame: &Frame, bulk: &Progress, now: Time) -> Markup {
    html! {
        tr data-key=(bulk.id) {
            th.name scope="row" {
                a data-row href=(frame.link(&format!("bulk/{}", bulk.id))) { (verb(bulk.action)) " " (jobs(bulk.of)) }
                span.sub.t { (shown(&bulk.scope)) (queue(frame, bulk)) }
            }
            td data-of="State" { (state(bulk.state)) }
            td.num data-of="Changed" { (cell(bulk.changed)) }
            td.num data-of="Passed over" { (cell(bulk.passed_over)) }
            td.nowrap data-of="Started" { (relative(bulk.started, now)) }
        }
    }
}

/// The queue of a bulk, if the dashboard has several.
fn queue(frame: &Frame, bulk: &Progress) -> Markup {
    html! { @if frame.queues.len() > 1 { " of the queue " (shown(&bulk.queue)) } }
}

/// `1 job`, `344 jobs`, `10,000+ jobs`.
fn jobs(of: Number) -> String {
    let noun = if of.count == 1 && of.is_exact { "job" } else { "jobs" };
    format!("{} {noun}", number(of))
}

fn state(word: &str) -> Markup {
    let class = match word {
        "running" => "running",
        "done" => "completed",
        "failed" => "dead",
        _ => "",
    };
    html! { span class={ "state " (class) } { (word) } }
}
