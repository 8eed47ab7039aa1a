//! The kinds: a row each, with their jobs, limits, rates, times, a line of the last hour, and pause or resume. The
//! limits: a line at a kind, and a table of all scopes with the jobs that run and wait, and with buttons that lift.

use maud::{Markup, html};

use super::{chart, forms, layout};
use crate::page::layout::{Frame, encoded, query};
use crate::page::{
    Look, bound, button, button_with, by_name, cell, count, counted, empty, heading, hidden,
    number, or_dash, queue, relative, shown, span, split, state,
};
use tickwheel_jobs::Limit;
use tickwheel_jobs::view::{KindRow, Kinds, LimitRow, Limits, Number, Time};

pub(crate) fn page(frame: &Frame, view: &Kinds) -> Markup {
    let by_jobs = view.filter.by_jobs;
    let part = html! {
        (heading("Kinds", &html! {
            p {
                @if by_jobs && view.rows.len() < view.total as usize {
                    "The " (view.rows.len()) " with the most jobs, of "
                }
                (counted(view.total, "kind", "kinds"))
            }
            @if view.total > 1 {
                p {
                    @if by_jobs { a href=(frame.link(&link(view, &[]))) { "By name" } }
                    @else { a href=(frame.link(&link(view, &[("order", "jobs")]))) { "Most jobs first" } }
                }
            }
            @if view.is_paused { (state("paused")) p { "The whole queue is paused." } }
            @if frame.may_change {
                span.end {
                    @if view.is_paused { (button(frame, "queue/resume", "Resume the queue", None, Look::Plain)) }
                    @else { (button(frame, "queue/pause", "Pause the queue", None, Look::Plain)) }
                }
            }
        }))
        @if view.total > 9 || view.filter.text.is_some() { (search(frame, view)) }
        @if view.rows.is_empty() {
            @match view.filter.text {
                Some(_) => (empty("No such kind", "No kind has this text in its name.")),
                None => (empty("No kind yet", "A kind appears here with its first job, and stays when the job is gone.")),
            }
        } @else {
            (table(frame, view))
        }
        @let next = view.next.as_deref().map(|next| link(view, &[("after", next)]));
        @let many = counted(view.rows.len() as u64, "kind", "kinds");
        @let said = format!("{many} of {}, the paused ones first, then by name", count(view.total));
        (by_name(frame, &said, &link(view, &[]), next))
        (section(frame, &view.limits, view.now))
        @if frame.may_change { (forms::of_queue(frame)) }
    };
    layout::page(frame, "Kinds", &part)
}

/// Returns the way to kinds with the same text in their name.
fn link(view: &Kinds, with: &[(&str, &str)]) -> String {
    let text = view.filter.text.as_deref().map(|text| ("text", text));
    let query = query(text.into_iter().chain(with.iter().copied()));
    if query.is_empty() { "kinds".to_owned() } else { format!("kinds?{query}") }
}

fn search(frame: &Frame, view: &Kinds) -> Markup {
    // A text that no field can hold is shown beside the field, and kept.
    let text = view.filter.text.as_deref().unwrap_or_default();
    let (kept, typed) = split("", &[("text", text)]);
    let kept = kept.trim_start_matches('?');
    html! {
        form.fields role="search" action={ (frame.root) "kinds" } {
            (queue(frame))
            (hidden("form", "search"))
            @if view.filter.by_jobs { (hidden("order", "jobs")) }
            @if !kept.is_empty() { (hidden("keep", kept)) }
            div.field.wide {
                label for="search" { "Text in the name" }
                input id="search" type="search" name="text" maxlength="200"
                    value=(if typed.is_empty() { "" } else { text }) placeholder=(if typed.is_empty() { shown(text) } else { shown("") });
            }
            span.row {
                button { "Search" }
                @if view.filter.text.is_some() { a.btn href=(frame.link(if view.filter.by_jobs { "kinds?order=jobs" } else { "kinds" })) { "Clear" } }
            }
        }
    }
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
    let name = encoded(&kind.kind);
    let jobs = |state: &str| frame.link(&format!("jobs?state={state}&kind={name}"));
    html! {
        tr data-key=(shown(&kind.kind)) {
            th.first.name scope="row" {
                a.t.clip data-row href=(frame.link(&format!("kind?kind={name}"))) title=(shown(&kind.kind)) { (shown(&kind.kind)) }
                @if kind.is_paused { (state("paused")) " " }
                @if !kind.has_node && kind.pending > 0 { span.sub.bad { "no process handles it" } }
                (of_kind(&kind.limits, &kind.kind, now))
                @if let Some(ms) = kind.head_start_ms { span.sub { "head start " (span(ms)) } }
                @if let Some(keeps) = &kind.keeps { span.sub.t.clip { "keeps " (shown(keeps)) } }
            }
            td.num { @if kind.pending == 0 { (cell(0)) } @else { a href=(jobs("pending")) { (count(kind.pending)) } } }
            td.nowrap { (next_due(kind, now, &jobs("overdue"))) }
            td.num { (cell(kind.running)) }
            td.num {
                @if kind.dead.count == 0 { (cell(0)) }
                @else { a.bad href=(jobs("dead")) { (number(kind.dead)) } }
            }
            td.num { (cell(kind.completed_per_minute)) }
            td.num { (failures(kind)) }
            td.num { (bound(kind.hour.late_p50_ms)) }
            td.num { (bound(kind.hour.late_p99_ms)) }
            td.num { (bound(kind.hour.took_p50_ms)) }
            td.num { (bound(kind.hour.took_p99_ms)) }
            td { (chart::spark(&kind.completed_by_minute, &summary(kind))) }
            @if frame.may_change { td.do { (switch(frame, kind)) } }
        }
    }
}

pub(crate) fn next_due(kind: &KindRow, now: Time, overdue: &str) -> Markup {
    html! {
        @if let Some(ms) = kind.oldest_overdue_ms {
            a.warn href=(overdue) { (span(ms)) " overdue" }
        } @else {
            (or_dash(kind.next_due.map(|due| relative(due, now))))
        }
    }
}

fn failures(kind: &KindRow) -> Markup {
    html! {
        @match kind.hour.failed_in_hundred {
            None => (or_dash(None::<&str>)),
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
        count(kind.hour.completed),
        count(kind.hour.failed)
    )
}

pub(crate) fn switch(frame: &Frame, kind: &KindRow) -> Markup {
    let (verb, label) = if kind.is_paused { ("resume", "Resume") } else { ("pause", "Pause") };
    button(frame, &format!("kinds/{verb}"), label, Some(("kind", &kind.kind)), Look::Plain)
}

/// How many characters of the name of a flow stand at its kinds.
const FLOW_CHARS: usize = 30;

/// The limits of a kind: a line each, `3 of 3 run, next in 0.4 s`.
pub(crate) fn of_kind(rows: &[LimitRow], kind: &str, now: Time) -> Markup {
    html! {
        @for row in rows {
            span.sub.warn[row.is_full() || row.next_start.is_some() || row.held_until.is_some()] {
                @match (&row.flow, row.scope) {
                    (Some(flow), _) if flow != kind => {
                        // A long name would hide the figures behind it.
                        @let end = flow.char_indices().nth(FLOW_CHARS).map(|(end, _)| end);
                        "flow " span.t title=(shown(flow)) { (shown(&flow[..end.unwrap_or(flow.len())])) }
                        @if end.is_some() { "…" } ": "
                    }
                    (_, "each_partition") => "each partition: ",
                    _ => {}
                }
                (in_words(row, now))
            }
        }
    }
}

/// How far a limit is reached, in words.
fn in_words(row: &LimitRow, now: Time) -> Markup {
    let ahead = |time: Time| u64::try_from(time.ms_since(now)).unwrap_or(0);
    let mut parts = Vec::new();
    if let Some(most) = row.most_running {
        parts.push(format!("{} of {} run", count(row.running), count(most.into())));
    }
    match row.next_start {
        Some(next) => parts.push(format!("next in {}", span(ahead(next)))),
        None => parts.extend(rate(row)),
    }
    parts.extend(row.held_until.map(|until| format!("held for {}", span(ahead(until)))));
    parts.extend(row.weight.map(|weight| format!("weight {weight}")));
    html! { (parts.join(", ")) }
}

/// `100 in 1 m`.
fn rate(row: &LimitRow) -> Option<String> {
    let (jobs, per) = row.rate.zip(row.per_ms)?;
    Some(format!("{} in {}", count(jobs.into()), span(per)))
}

fn section(frame: &Frame, view: &Limits, now: Time) -> Markup {
    html! {
        @if !view.rows.is_empty() {
            section.group aria-labelledby="limits-title" id="limits" data-live {
                div.head {
                    h2 id="limits-title" { "Limits" }
                    @if (view.rows.len() as u64) < view.total {
                        p { "The first " (count(view.rows.len() as u64)) " of " (count(view.total)) " scopes" }
                    }
                }
                (limits_table(frame, &view.rows.iter().collect::<Vec<_>>(), now))
            }
        }
    }
}

pub(crate) fn limits_table(frame: &Frame, rows: &[&LimitRow], now: Time) -> Markup {
    let columns = ["Scope", "Running", "#Waiting", "Starts", "Next start", "Hold ends", "Change"];
    let rows = html! { @for row in rows { (table_row(frame, row, now)) } };
    super::table(frame, None, "Limits", &columns, &rows)
}

fn table_row(frame: &Frame, row: &LimitRow, now: Time) -> Markup {
    let warn = |time: Time| html! { span.warn { (relative(time, now)) } };
    let waiting =
        |jobs: Number| html! { @if jobs.count > 0 { (number(jobs)) } @else { (cell(0)) } };
    let burst = |jobs: u32| html! { span.sub { "burst " (count(jobs.into())) } };
    let starts =
        |rate: String| html! { span { (rate) @if let Some(jobs) = row.burst { (burst(jobs)) } } };
    html! {
        tr {
            th.name scope="row" {
                (scope(row))
                @if row.is_paused { " " (state("paused")) }
                @if let Some(weight) = row.weight { span.sub { "weight " (weight) } }
                @if let Some(before) = &row.before { span.sub.warn { "set by hand; before: " (shown(before)) } }
            }
            td data-of="Running" {
                @match row.most_running {
                    Some(most) => span {
                        span.nowrap.warn[row.is_full()] { (count(row.running)) " of " (count(most.into())) }
                        (chart::meter(row.running, most.into(), "Running, of the most at once"))
                    },
                    None => (cell(row.running)),
                }
            }
            td.num data-of="Waiting" { (or_dash(row.waiting.map(waiting))) }
            td.nowrap data-of="Starts" { (or_dash(rate(row).map(starts))) }
            td.nowrap data-of="Next start" { (or_dash(row.next_start.map(warn))) }
            td.nowrap data-of="Hold ends" { (or_dash(row.held_until.map(warn))) }
            @if frame.may_change { td.do { (lift(frame, row)) } }
        }
    }
}

fn lift(frame: &Frame, row: &LimitRow) -> Markup {
    let names = [("flow", &row.flow), ("kind", &row.kind), ("partition", &row.partition)];
    let names = names.into_iter().filter_map(|(name, value)| Some((name, value.as_deref()?)));
    let fields: Vec<(&str, &str)> = [("scope", row.scope)].into_iter().chain(names).collect();
    let of_program = [&fields[..], &[("program", "yes")]].concat();
    let name = row.name();
    let buttons = [
        (row.is_paused, "scopes/resume", "Resume"),
        (row.held_until.is_some(), "scopes/release", "End the hold"),
        (row.before.is_some(), "scopes/lift", "Lift"),
    ];
    let buttons = buttons.into_iter().filter(|(is_needed, ..)| *is_needed);
    html! {
        div.row {
            @for (_, verb, label) in buttons {
                (button_with(frame, verb, label, &fields, &name, Look::Plain))
            }
            @if row.before.is_none() && row.limit() != Limit::none() {
                (button_with(frame, "scopes/lift", "Remove", &of_program, &name, Look::Plain))
            }
        }
    }
}

fn scope(row: &LimitRow) -> Markup {
    let kind = row.kind.as_deref().unwrap_or_default();
    html! {
        @match (&row.flow, &row.partition, row.scope) {
            (Some(flow), ..) => { "Flow " span.t { (shown(flow)) } }
            (_, Some(partition), _) => {
                "Partition " span.t { (shown(partition)) }
                span.sub { "of " span.t { (shown(kind)) } }
            }
            (_, _, "each_partition") => { "Each partition of " span.t { (shown(kind)) } }
            _ => "The queue",
        }
    }
}
