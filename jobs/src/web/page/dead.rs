//! The dead jobs, grouped by kind and first line of the error. A group is retried or deleted as a whole.

use maud::{Markup, html};

use super::layout;
use super::parts::{Look, empty, heading, hidden, sent, split};
use super::text::{count, counted, shown};
use crate::web::frame::Frame;
use crate::web::views::job::{Dead, Group};

pub(crate) fn page(frame: &Frame, view: &Dead) -> Markup {
    let part = html! {
        (heading("Dead", &html! {
            p id="dead-total" data-live { (counted(view.total, "job", "jobs")) ", grouped by kind and error" }
            @if view.total > 0 { a.btn.end href=(frame.link("jobs?state=dead")) { "As a list" } }
        }))
        @if view.groups.is_empty() {
            (empty("Nothing is dead", "A job is dead once its retries are used up, or once its handler says that no retry helps."))
        } @else {
            div.scroll id="groups" data-live tabindex="0" role="region" aria-label="Groups of dead jobs" {
                table.stack {
                    thead { tr {
                        th.num scope="col" { "Jobs" }
                        th scope="col" { "Error, its first line" }
                        th scope="col" { "Kind" }
                        @if frame.may_change { th scope="col" { span.only-read { "Change" } } }
                    } }
                    tbody { @for group in &view.groups { (row(frame, group)) } }
                }
            }
            @if view.has_more {
                p.soft { "These are the groups with the most jobs. There are more, which come up when these are gone." }
            }
        }
    };
    layout::page(frame, "Dead", &part)
}

fn row(frame: &Frame, group: &Group) -> Markup {
    html! {
        tr data-key=(group.query) {
            td.num data-of="Jobs" { (count(group.jobs)) }
            th scope="row" {
                a.t.clip data-row href=(frame.link(&format!("jobs?{}", group.query))) {
                    @if group.error.is_empty() { "no text" } @else { (shown(&group.error)) }
                }
            }
            td data-of="Kind" { span.t.clip title=(shown(&group.kind)) { (shown(&group.kind)) } }
            @if frame.may_change {
                td.do { div.row { (change(frame, group, "retry", Look::Plain)) (change(frame, group, "delete", Look::Risky)) } }
            }
        }
    }
}

fn change(frame: &Frame, group: &Group, action: &str, look: Look) -> Markup {
    let fields = [("state", "dead"), ("kind", &*group.kind), ("group", &*group.group)];
    let (target, fields) = split("api/v1/bulk", &fields);
    html! {
        form method="post" action=(frame.link(&target)) {
            (sent(frame, &frame.here))
            @for (name, value) in fields { (hidden(name, value)) }
            button class=(look.class()) name="action" value=(action) {
                @if action == "retry" { "Retry " } @else { "Delete " }
                (count(group.jobs))
                span.only-read { " of " (shown(&group.kind)) ": " (shown(&group.error)) }
            }
        }
    }
}
