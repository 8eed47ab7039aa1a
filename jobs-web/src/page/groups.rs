//! The groups of jobs: a row each, with its members by state, a bar of those that have ended, and seal and cancel.

use maud::{Markup, html};

use super::layout;
use crate::page::layout::Frame;
use crate::page::{Look, button, cell, count, counted, empty, heading, relative, table};
use tickwheel_jobs::view::{GroupRow, GroupState, Groups, Time};

pub(crate) fn page(frame: &Frame, view: &Groups) -> Markup {
    let rows = view.rows.len() as u64;
    let part = html! {
        (heading("Groups", &html! {
            p {
                @if view.has_more { "The last " (count(rows)) " groups" }
                @else { (counted(rows, "group", "groups")) }
            }
        }))
        @if view.rows.is_empty() {
            (empty("No group", "A group appears here when a program inserts one. It goes some time after its end."))
        } @else {
            (table(frame, Some("groups"), "Groups", &["Group", "State", "Made", "Ended jobs", "#Open", "#Completed", "#Dead", "#Cancelled", "#Expired", "Change"], &html! { @for group in &view.rows { (row(frame, group, view.now)) } }))
        }
    };
    layout::page(frame, "Groups", &part)
}

fn row(frame: &Frame, group: &GroupRow, now: Time) -> Markup {
    let ended = group.total.saturating_sub(group.open);
    let list = |state: &str| frame.link(&format!("jobs?state={state}&member={}", group.id));
    let members = |jobs: u64, state: &str, class: &str| {
        html! { @if jobs == 0 { (cell(0)) } @else { a class=(class) href=(list(state)) { (count(jobs)) } } }
    };
    html! {
        tr data-key=(group.id) {
            th.name scope="row" {
                span.t.mono { (group.id) }
                // The callback becomes a job when the group ends.
                @if let Some(callback) = group.callback.as_ref().filter(|_| group.ended.is_some()) {
                    span.sub { a href=(frame.link(&format!("jobs/{callback}"))) { "its callback" } }
                }
            }
            td data-of="State" {
                span {
                    (state(group.state))
                    @if let Some(ended) = group.ended { span.sub { (relative(ended, now)) } }
                }
            }
            td.nowrap data-of="Made" { (relative(group.made, now)) }
            td data-of="Ended jobs" {
                span {
                    span.nowrap { (count(ended)) " of " (count(group.total)) }
                    progress max=(group.total.max(1)) value=(ended) aria-label="Members that have ended" {}
                }
            }
            td.num data-of="Open" {
                span {
                    (members(group.open, "pending", ""))
                    // Those that run are open too.
                    @if group.open > 0 { span.sub { a href=(list("running")) { "running" } } }
                }
            }
            td.num data-of="Completed" { (members(group.completed, "completed", "")) }
            td.num data-of="Dead" { (members(group.dead, "dead", "bad")) }
            td.num data-of="Cancelled" { (cell(group.cancelled)) }
            td.num data-of="Expired" { (members(group.expired, "expired", "")) }
            @if frame.may_change { td.do { (change(frame, group)) } }
        }
    }
}

/// The buttons of a group: seal while it takes members, cancel until it has ended. A cancel that failed midway has
/// left open members, and is pressed again.
fn change(frame: &Frame, group: &GroupRow) -> Markup {
    let to = |verb: &str| format!("groups/{}/{verb}", group.id);
    html! {
        div.row {
            @if group.state == GroupState::Open { (button(frame, &to("seal"), "Seal", None, Look::Plain)) }
            @let is_over = match group.state {
                GroupState::Ended => true,
                GroupState::Cancelled => group.open == 0,
                _ => false,
            };
            @if !is_over {
                (button(frame, &to("cancel"), "Cancel", None, Look::Risky))
            }
        }
    }
}

fn state(state: GroupState) -> Markup {
    let (class, text) = match state {
        GroupState::Ended => ("completed", "ended"),
        GroupState::Cancelled => ("", "cancelled"),
        GroupState::Open => ("pending", "open"),
        GroupState::WaitsForTheDead => ("dead", "waits for the dead"),
        _ => ("running", "sealed"),
    };
    html! { span class={ "state " (class) } { (text) } }
}
