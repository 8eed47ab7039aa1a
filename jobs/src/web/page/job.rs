//! One job: its facts, its timeline, its data, and what may be done with it.

use maud::{Markup, html};

use super::layout;
use super::parts::{Look, button, sent, state};
use super::text::{absolute, bytes, clock, count, lines, relative, shown, span};
use crate::values::pending_reason::PendingReason;
use crate::web::frame::{Frame, encoded};
use crate::web::views::Time;
use crate::web::views::job::{Content, Job, Step};

pub(crate) fn page(frame: &Frame, view: &Job) -> Markup {
    let part = html! {
        div.group {
            div.head {
                h1.t { (shown(&view.kind)) }
                span id="state" data-live { (state(word(view))) }
            }
            p.mono.soft.t { (shown(&view.id)) }
        }
        @if !view.actions.is_empty() { (actions(frame, view)) }
        div.two {
            div.apart {
                div.apart id="said" data-live {
                    (reasons(&view.waits_for))
                    @if let Some(error) = &view.error { (text("Last error", error)) }
                    @if let Some(progress) = &view.progress { (content(frame, "Progress", progress)) }
                    @if let Some(result) = &view.result { (content(frame, "Result", result)) }
                }
                (content(frame, "Data", &view.payload))
                (headers(&view.headers))
            }
            div.apart {
                section.group aria-labelledby="facts" {
                    h2 id="facts" { "Facts" }
                    (facts(frame, view))
                }
                section.group aria-labelledby="timeline" {
                    h2 id="timeline" { "Timeline" }
                    ol.card.pad.line id="steps" data-live { @for one in &view.timeline { (step(one, view.now)) } }
                }
            }
        }
    };
    layout::page(frame, &format!("{} {}", view.kind, view.id), &part)
}

fn word(view: &Job) -> &'static str {
    match view.state {
        "pending" if view.due < view.now => "overdue",
        "pending" if view.failures > 0 => "retrying",
        word => word,
    }
}

fn actions(frame: &Frame, view: &Job) -> Markup {
    let to = |verb: &str| format!("jobs/{}/{verb}", view.id);
    html! {
        div.row id="actions" data-live {
            @for action in &view.actions {
                @match *action {
                    "run_now" => (button(frame, &to("reschedule"), "Run now", None, Look::Plain)),
                    "retry" => (button(frame, &to("retry"), "Retry", None, Look::Plain)),
                    "cancel" => form method="post" action=(frame.link(&format!("api/v1/{}", to("cancel")))) {
                        (sent(frame, &format!("jobs?state={}", list(view))))
                        button.risky { "Cancel" }
                    },
                    // The page of the job is gone with it.
                    "delete" => form method="post" action=(frame.link(&format!("api/v1/{}", to("delete")))) {
                        (sent(frame, &format!("jobs?state={}", list(view))))
                        button.risky { "Delete" }
                    },
                    "reschedule" => form.row method="post" action=(frame.link(&format!("api/v1/{}", to("reschedule")))) {
                        (sent(frame, &frame.here))
                        button { "Reschedule to" }
                        label.only-read for="when" { "Reschedule to" }
                        input.when id="when" name="when" required placeholder="5m, 2h 30m, 3d" autocomplete="off";
                    },
                    _ => {},
                }
            }
        }
    }
}

fn facts(frame: &Frame, view: &Job) -> Markup {
    let jobs = |name: &str, value: &str| {
        frame.link(&format!("jobs?state={}&{name}={}", list(view), encoded(value)))
    };
    html! {
        dl.card.facts id="facts-rows" data-live {
            div { dt { "Due" } dd { (relative(view.due, view.now)) div.soft.small { (absolute(view.due)) } } }
            div { dt { "Kind" } dd { a.t href=(jobs("kind", &view.kind)) { (shown(&view.kind)) } } }
            div { dt { "Key" } dd {
                @match &view.key {
                    Some(key) => a.t.mono href=(jobs("key", key)) { (shown(key)) },
                    None => span.zero { "–" },
                }
            } }
            @if let Some(partition) = &view.partition {
                div { dt { "Partition" } dd.t { (shown(partition)) } }
            }
            @if let Some(group) = &view.group {
                div { dt { "Group" } dd { a.t.mono href=(frame.link("groups")) { (group) } } }
            }
            div { dt { "Attempt" } dd { (view.attempt) } }
            div { dt { "Failures" } dd { (view.failures) } }
            div { dt { "Interruptions" } dd { (view.interruptions) } }
            @if let Some(claimed) = view.claimed {
                div { dt { "Claimed" } dd { (relative(claimed, view.now)) div.soft.small { (absolute(claimed)) } } }
            }
            @if let Some(end) = view.lease_ends {
                div { dt { "Lease ends" } dd { (relative(end, view.now)) div.soft.small { "unless it is renewed" } } }
            }
            @if let Some(ended) = view.ended {
                div { dt { "Ended" } dd { (relative(ended, view.now)) div.soft.small { (absolute(ended)) } } }
            }
            @if let Some(took) = view.took_ms { div { dt { "Took" } dd { (span(took)) } } }
            @if let Some(trace) = &view.trace_id {
                div { dt { "Trace" } dd {
                    @match &view.trace_link {
                        // A template may lead anywhere: the link goes without a referrer.
                        Some(link) => a.t.mono href=(link) rel="noreferrer noopener" { (shown(trace)) },
                        None => span.t.mono { (shown(trace)) },
                    }
                } }
            }
        }
    }
}

/// The list that has the job.
fn list(view: &Job) -> &'static str {
    match view.state {
        "claimed" | "running" => "running",
        "dead" => "dead",
        "completed" | "cancelled" => "completed",
        _ => "pending",
    }
}

fn text(title: &str, text: &str) -> Markup {
    html! {
        section.group {
            h2 { (title) }
            div.card { pre.data tabindex="0" { (lines(text)) } }
        }
    }
}

fn content(frame: &Frame, title: &str, content: &Content) -> Markup {
    html! {
        section.group {
            div.head { h2 { (title) } p.small { (content.format) ", " (bytes(content.bytes)) } }
            div.card {
                @if content.text.is_empty() { p.pad.soft { "empty" } } @else {
                    pre.data tabindex="0" { (lines(&content.text)) }
                }
                @if content.is_cut || content.download.is_some() {
                    p.small.soft {
                        @if content.is_cut { "The first 4 KB are shown. " }
                        @if let Some(download) = &content.download {
                            a href=(frame.link(download)) download { "Download all " (count(content.bytes)) " bytes" }
                        }
                    }
                }
            }
        }
    }
}

/// Why a pending job has not started.
fn reasons(reasons: &[PendingReason]) -> Markup {
    html! {
        @if !reasons.is_empty() {
            section.group {
                h2 { "Why it waits" }
                ul.card.pad { @for reason in reasons { li.t { (shown(&sentence(reason))) } } }
            }
        }
    }
}

fn sentence(reason: &PendingReason) -> String {
    let text = reason.to_string();
    let mut chars = text.chars();
    chars
        .next()
        .map_or_else(String::new, |first| format!("{}{}.", first.to_uppercase(), chars.as_str()))
}

fn headers(headers: &[(String, String)]) -> Markup {
    html! {
        @if !headers.is_empty() {
            section.group {
                h2 { "Headers" }
                dl.card.facts {
                    @for (name, value) in headers { div { dt.t { (shown(name)) } dd.t.mono { (shown(value)) } } }
                }
            }
        }
    }
}

fn step(step: &Step, now: Time) -> Markup {
    let class = match step.what {
        "failed" | "interrupted" | "dead" => "bad",
        "completed" => "good",
        "due" if step.at.is_some_and(|at| at > now) => "next",
        _ => "",
    };
    let name = match step.what {
        "inserted" => "Inserted",
        "due" => "Due",
        "failed" => "Failed",
        "interrupted" => "Interrupted",
        "running" => "Runs",
        "claimed" => "Claimed",
        "completed" => "Completed",
        "dead" => "Dead",
        "cancelled" => "Cancelled",
        other => other,
    };
    html! {
        li class=(class) {
            strong { (name) }
            @if let Some(attempt) = step.attempt { ", attempt " (attempt) }
            @if let Some(node) = step.node.as_deref().filter(|node| !node.is_empty()) { " on " span.t { (shown(node)) } }
            @if let Some(at) = step.at {
                div.soft.small { (relative(at, now)) " · " (clock(at, now)) " UTC" }
            }
            @if let Some(error) = &step.error { pre.data tabindex="0" { (lines(error)) } }
        }
    }
}
