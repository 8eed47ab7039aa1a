//! One kind: its jobs, its settings, the limits of its scopes, and the forms that change these or insert a job.

use maud::{Markup, html};

use super::{forms, layout};
use crate::page::kinds_and_limits::{limits_table, next_due, switch};
use crate::page::layout::{Frame, encoded};
use crate::page::{cell, count, heading, number, shown, span, state};
use tickwheel_jobs::view::{KindPage, LimitRow};

pub(crate) fn page(frame: &Frame, view: &KindPage) -> Markup {
    let kind = &view.kind;
    let flow = Some(&*view.flow).filter(|flow| *flow != kind.kind);
    let rows: Vec<&LimitRow> = kind.limits.iter().chain(&view.partitions.rows).collect();
    let part = html! {
        (heading(&kind.kind, &html! {
            span id="paused" data-live { @if kind.is_paused { (state("paused")) } }
            @if frame.may_change {
                span.end { (switch(frame, kind)) }
            }
        }))
        div.two {
            section.group aria-labelledby="jobs-of" {
                h2 id="jobs-of" { "Jobs" }
                (facts(frame, view))
            }
            section.group aria-labelledby="settings-of" {
                h2 id="settings-of" { "Settings" }
                (settings(view))
            }
        }
        section.group aria-labelledby="limits-title" {
            div.head {
                h2 id="limits-title" { "Limits" }
                @if (view.partitions.rows.len() as u64) < view.partitions.total {
                    p { "with the first " (count(view.partitions.rows.len() as u64)) " of " (count(view.partitions.total)) " partitions" }
                }
            }
            div id="limits" data-live {
                @if rows.is_empty() { p.soft { "No limit of the kind or of its partitions. The queue may have one." } }
                @else { (limits_table(frame, &rows, view.now)) }
            }
            @if frame.may_change { (forms::of_scopes(frame, &kind.kind, flow)) }
        }
        @if frame.may_change {
            section.group aria-labelledby="change" {
                h2 id="change" { "Change the settings" }
                (forms::of_kind(frame, &kind.kind))
            }
            section.group aria-labelledby="insert" {
                h2 id="insert" { "Insert a job" }
                @if !kind.has_node { p.bad { "No process handles this kind now: a job waits for one." } }
                (forms::insert(frame, &kind.kind))
            }
        }
    };
    layout::page(frame, &kind.kind, &part)
}

fn facts(frame: &Frame, view: &KindPage) -> Markup {
    let kind = &view.kind;
    let list =
        |state: &str| frame.link(&format!("jobs?state={state}&kind={}", encoded(&kind.kind)));
    let rows = [
        ("Pending", html! { a href=(list("pending")) { (count(kind.pending)) } }),
        ("Next due", next_due(kind, view.now, &list("overdue"))),
        ("Running", html! { a href=(list("running")) { (count(kind.running)) } }),
        ("Dead", html! { a href=(list("dead")) { (number(kind.dead)) } }),
        ("Completed a minute", cell(kind.completed_per_minute)),
        (
            "Handled",
            html! {
                @if kind.has_node { "by a process that is there" }
                @else { span.bad { "by no process that is there" } }
                @if !view.is_known { div.soft.small { "The queue has had no job of this kind." } }
            },
        ),
    ];
    html! { dl.card.facts id="facts" data-live { @for (name, value) in &rows { div { dt { (name) } dd { (value) } } } } }
}

fn settings(view: &KindPage) -> Markup {
    let kind = &view.kind;
    html! {
        dl.card.facts id="settings" data-live {
            div { dt { "Completed jobs" } dd.t { @match &kind.keeps { Some(keeps) => { "keeps " (shown(keeps)) }, None => "keeps none" } } }
            div { dt { "Head start" } dd { @match kind.head_start_ms { Some(ms) => (span(ms)), None => "none" } } }
            div { dt { "Flow" } dd.t { @if view.flow == kind.kind { "the kind alone" } @else { (shown(&view.flow)) } } }
        }
    }
}
