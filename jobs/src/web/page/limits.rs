//! The limits: a line at a kind, and a table of all scopes with what runs and waits under each.

use maud::{Markup, html};

use super::chart;
use super::parts::state;
use super::text::{cell, count, number, relative, shown, span};
use crate::web::views::Time;
use crate::web::views::limits::{LimitRow, Limits};

/// The limits of a kind: a line each, `3 of 3 run, next in 0.4 s`.
pub(crate) fn of_kind(rows: &[LimitRow], kind: &str, now: Time) -> Markup {
    html! {
        @for row in rows {
            span.sub.warn[row.is_full() || row.next_start.is_some() || row.held_until.is_some()] {
                @match (&row.flow, row.scope) {
                    (Some(flow), _) if flow != kind => { "flow " span.t { (shown(flow)) } ": " }
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

/// All scopes with a limit. Without one there is nothing.
pub(crate) fn section(view: &Limits, now: Time) -> Markup {
    html! {
        @if !view.rows.is_empty() {
            section.group aria-labelledby="limits-title" id="limits" data-live {
                div.head {
                    h2 id="limits-title" { "Limits" }
                    @if (view.rows.len() as u64) < view.total {
                        p { "The first " (count(view.rows.len() as u64)) " of " (count(view.total)) " scopes" }
                    }
                }
                div.scroll tabindex="0" role="region" aria-label="Limits" {
                    table.stack {
                        thead { tr {
                            th scope="col" { "Scope" }
                            th scope="col" { "Running" }
                            th.num scope="col" { "Waiting" }
                            th scope="col" { "Starts" }
                            th scope="col" { "Next start" }
                            th scope="col" { "Hold ends" }
                        } }
                        tbody { @for row in &view.rows { (table_row(row, now)) } }
                    }
                }
            }
        }
    }
}

fn table_row(row: &LimitRow, now: Time) -> Markup {
    let time = |time: Option<Time>| {
        html! {
            @match time {
                Some(time) => span.warn { (relative(time, now)) },
                None => span.zero { "–" },
            }
        }
    };
    html! {
        tr {
            th.name scope="row" {
                (scope(row))
                @if row.is_paused { " " (state("paused")) }
                @if let Some(weight) = row.weight { span.sub { "weight " (weight) } }
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
            td.num data-of="Waiting" {
                @match row.waiting {
                    Some(waiting) if waiting.count > 0 => (number(waiting)),
                    Some(_) => (cell(0)),
                    None => span.zero { "–" },
                }
            }
            td.nowrap data-of="Starts" {
                @match rate(row) {
                    Some(rate) => span { (rate) @if let Some(burst) = row.burst { span.sub { "burst " (count(burst.into())) } } },
                    None => span.zero { "–" },
                }
            }
            td.nowrap data-of="Next start" { (time(row.next_start)) }
            td.nowrap data-of="Hold ends" { (time(row.held_until)) }
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
