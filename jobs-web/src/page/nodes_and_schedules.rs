//! What runs and stores the jobs: the nodes, of which those that were not seen lately are grey; the schedules, with the
//! rule in words, the next five occurrences and what may be done with them; and the store, with the facts about the
//! file or the server, its sizes, and the commits of this process.

use maud::{Markup, html};

use super::{chart, layout};
use crate::page::layout::{Frame, encoded};
use crate::page::{
    Look, absolute, button, by_name, bytes, cell, clock, count, counted, empty, heading, or_dash,
    relative, shown, span, state, table,
};
use tickwheel_jobs::view::{NodeRow, Nodes, ScheduleRow, Schedules, Store, Time};

/// How many kinds of a node are shown before the others are folded.
const KINDS: usize = 6;

pub(crate) fn nodes_page(frame: &Frame, view: &Nodes) -> Markup {
    let rows = view.rows.len() as u64;
    let part = html! {
        (heading("Nodes", &html! {
            p { @if rows < view.total { (rows) " of " } (counted(view.total, "process", "processes")) }
        }))
        @if view.rows.is_empty() {
            (empty("No node", "No process has run the jobs of this queue within the last day. Jobs wait until one starts."))
        } @else {
            (table(frame, Some("nodes"), "Nodes", &["Node", "Seen", "Started", "Running", "#Threads", "Version", "Kinds"], &html! { @for node in &view.rows { (node_row(frame, node, view.now)) } }))
        }
    };
    layout::page(frame, "Nodes", &part)
}

fn node_row(frame: &Frame, node: &NodeRow, now: Time) -> Markup {
    let (first, folded) = node.kinds.split_at(node.kinds.len().min(KINDS));
    html! {
        tr.quiet[node.is_quiet] data-key={ (shown(&node.host)) "/" (node.pid) } {
            th.name scope="row" {
                span.t { (shown(&node.host)) }
                span.sub { "process " (node.pid) }
            }
            td.nowrap data-of="Seen" {
                span { (relative(node.seen, now)) @if node.is_quiet { span.sub { "quiet" } } }
            }
            td.nowrap data-of="Started" { (relative(node.started, now)) }
            td data-of="Running" {
                span {
                    @let runs = node.in_flight.min(node.most_runs);
                    @let name = format!("{}/{}", node.host, node.pid);
                    a.nowrap href=(frame.link(&format!("jobs?state=running&node={}", encoded(&name)))) {
                        (runs) " of " (node.most_runs)
                    }
                    @if runs < node.in_flight { span.sub { (node.in_flight - runs) " more are claimed" } }
                    (chart::meter(runs, node.most_runs, "Running, of what it can run at once"))
                }
            }
            td.num data-of="Threads" { @match node.threads { Some(threads) => (threads), None => span.zero { "shared" } } }
            td.t data-of="Version" { (shown(&node.version)) }
            td data-of="Kinds" {
                span {
                    (names(frame, first))
                    @if !folded.is_empty() {
                        details { summary { (counted(folded.len() as u64, "kind", "kinds")) " more" } (names(frame, folded)) }
                    }
                }
            }
        }
    }
}

fn names(frame: &Frame, kinds: &[String]) -> Markup {
    html! {
        @for (at, kind) in kinds.iter().enumerate() {
            @if at > 0 { ", " }
            a.t href=(frame.link(&format!("jobs?state=pending&kind={}", encoded(kind)))) { (shown(kind)) }
        }
    }
}

pub(crate) fn schedules_page(frame: &Frame, view: &Schedules) -> Markup {
    let part = html! {
        (heading("Schedules", &html! { p { "Times are UTC." } }))
        @if view.rows.is_empty() {
            (empty("No schedule", "A program makes one with schedule: a name, a period or a cron expression, and a job."))
        } @else {
            (table(frame, Some("schedules"), "Schedules", &["Schedule", "Rule", "Next", "After that", "Change"], &html! { @for schedule in &view.rows { (schedule_row(frame, schedule, view.now)) } }))
        }
        @let next = view.next.as_deref().map(|next| format!("schedules?after={}", encoded(next)));
        @let many = counted(view.rows.len() as u64, "schedule", "schedules");
        (by_name(frame, &format!("{many}, by name"), "schedules", next))
    };
    layout::page(frame, "Schedules", &part)
}

fn schedule_row(frame: &Frame, schedule: &ScheduleRow, now: Time) -> Markup {
    let is_paused = schedule.is_paused;
    let jobs = frame.link(&format!("jobs?state=pending&kind={}", encoded(&schedule.kind)));
    html! {
        tr.quiet[is_paused] data-key=(shown(&schedule.name)) {
            th.name scope="row" {
                span.t.clip title=(shown(&schedule.name)) { (shown(&schedule.name)) }
                a.sub.t.clip data-row href=(jobs) { (shown(&schedule.kind)) }
                @if is_paused { (state("paused")) }
            }
            td data-of="Rule" { span { span.t { (shown(&schedule.in_words)) } span.sub.t.mono { (shown(&schedule.rule)) } } }
            td data-of="Next" {
                (or_dash(schedule.next.first().filter(|_| !is_paused).map(|next| html! {
                    span.nowrap.warn[schedule.is_missed] {
                        (relative(*next, now))
                        span.sub { (clock(*next, now)) @if schedule.is_missed { ", missed" } }
                    }
                })))
            }
            td data-of="After that" { (later(schedule, now)) }
            @if frame.may_change { td.do { (change(frame, schedule)) } }
        }
    }
}

fn later(schedule: &ScheduleRow, now: Time) -> Markup {
    html! {
        @if schedule.next.len() < 2 { (or_dash(None::<&str>)) } @else {
            details {
                summary.nowrap { (clock(schedule.next[1], now)) ", .." }
                ol.small { @for time in &schedule.next[1..] { li.nowrap { (absolute(*time)) } } }
            }
        }
    }
}

fn change(frame: &Frame, schedule: &ScheduleRow) -> Markup {
    let of = Some(("schedule", &*schedule.name));
    html! {
        div.row {
            (button(frame, "schedules/run", "Run now", of, Look::Plain))
            @let (verb, label) = if schedule.is_paused { ("resume", "Resume") } else { ("pause", "Pause") };
            (button(frame, &format!("schedules/{verb}"), label, of, Look::Plain))
            (button(frame, "schedules/unschedule", "End", of, Look::Risky))
        }
    }
}

pub(crate) fn store_page(frame: &Frame, view: &Store) -> Markup {
    let sort = match view.sort {
        "file" => "A file",
        "server" => "A Redis server",
        _ => "Memory",
    };
    let facts = [
        ("Kind of store", html! { (sort) }),
        ("Path", or_dash(view.path.as_ref().map(|path| html! { code.t { (shown(path)) } }))),
        ("Size", size(view.bytes)),
        ("Log", size(view.log_bytes)),
        ("Answered in", html! { (span(view.answered_in_ms)) }),
        ("Version of this process", html! { "tickwheel-jobs " (shown(view.version)) }),
    ];
    let part = html! {
        (heading("Store", &html! { p { (sort) } }))
        div.two id="store" data-live {
            section.group aria-labelledby="says" {
                h2 id="says" { "What it says of itself" }
                dl.card.facts { @for (name, value) in &facts { div { dt { (name) } dd { (value) } } } }
            }
            div.apart {
                section.group aria-labelledby="holds" {
                    h2 id="holds" { "What it holds" }
                    (numbers(&[
                        ("Pending jobs", view.pending), ("Running jobs", view.running), ("Dead jobs", view.dead),
                        ("Schedules", view.schedules),
                    ]))
                }
                section.group aria-labelledby="did" {
                    h2 id="did" { "What this process did" }
                    (numbers(&[
                        ("Commits", view.commits), ("Waits for the disk", view.syncs),
                        ("Commits that failed", view.failed_commits),
                    ]))
                    p.soft.small {
                        "The process is the one that serves this page. The commits of other processes are not among them."
                    }
                }
            }
        }
    };
    layout::page(frame, "Store", &part)
}

fn size(size: Option<u64>) -> Markup {
    let exactly = |size| html! { @if size >= 1024 { span.soft { " (" (count(size)) " bytes)" } } };
    or_dash(size.map(|size| html! { (bytes(size)) (exactly(size)) }))
}

fn numbers(rows: &[(&str, u64)]) -> Markup {
    html! {
        div.scroll {
            table {
                thead.only-read { tr { th scope="col" { "What" } th.num scope="col" { "How many" } } }
                tbody { @for (name, number) in rows { tr { th scope="row" { (name) } td.num { (cell(*number)) } } } }
            }
        }
    }
}
