//! The question before an action: its name, its jobs and their number.

use maud::{Markup, html};

use super::layout;
use super::parts::{heading, hidden, split};
use super::text::{counted, number, shown};
use crate::web::frame::Frame;
use crate::web::views::Number;
use crate::web::views::action::Question;

pub(crate) fn page(frame: &Frame, view: &Question) -> Markup {
    let verb = verb(view.action);
    let title = match view.jobs {
        None => format!("{verb}?"),
        Some(Number { count: 0, is_exact: false }) => format!("{verb} all jobs that match?"),
        Some(jobs) if jobs.is_exact => format!("{verb} {}?", counted(jobs.count, "job", "jobs")),
        Some(jobs) => format!("{verb} {} or more?", counted(jobs.count, "job", "jobs")),
    };
    let fields: Vec<(&str, &str)> =
        view.fields.iter().map(|(name, value)| (&**name, &**value)).collect();
    let is_exact = view.jobs.is_some_and(|jobs| jobs.is_exact);
    let (target, fields) = split(&view.target, &fields);
    let part = html! {
        (heading(&title, &html! {}))
        div.card.pad.group {
            p { "This is about " strong.t { (shown(&view.scope)) } "." }
            @if let Some(confirmed) = view.confirmed {
                p.bad { "There are more by now: you confirmed " (number(confirmed)) "." }
            }
            @if view.loses { p.bad { "It cannot be taken back." } }
            @if view.jobs.is_some_and(|jobs| jobs.count > 1 || !jobs.is_exact) {
                p.soft { "The jobs are changed in steps of 256, and the next page can stop that." @if is_exact { " No more jobs than these are changed." } @else { " Jobs that come to match meanwhile are changed too." } }
            }
            form.row method="post" action=(frame.link(&target)) {
                (hidden("once", &frame.form))
                @for (name, value) in fields { (hidden(name, value)) }
                button.main.risky[view.loses] { (title.trim_end_matches('?')) }
                a.btn href=(frame.link(&view.back)) { "No, back" }
            }
        }
    };
    layout::page(frame, &title, &part)
}

/// An action as the begin of a question.
pub(super) fn verb(action: &str) -> &str {
    match action {
        "retry" => "Retry",
        "delete" => "Delete",
        "cancel" => "Cancel",
        "reschedule" => "Reschedule",
        "unschedule" => "End this schedule",
        "pause" => "Pause",
        "resume" => "Resume",
        "run" => "Run now",
        other => other,
    }
}
