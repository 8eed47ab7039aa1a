//! The nodes: the processes that run the jobs. Those that were not seen lately are grey.

use maud::{Markup, html};

use super::chart;
use super::layout;
use super::parts::{empty, heading};
use super::text::{counted, relative, shown};
use crate::web::frame::{Frame, encoded};
use crate::web::views::Time;
use crate::web::views::place::{NodeRow, Nodes};

/// How many kinds of a node are shown before the others are folded.
const KINDS: usize = 6;

pub(crate) fn page(frame: &Frame, view: &Nodes) -> Markup {
    let rows = view.rows.len() as u64;
    let part = html! {
        (heading("Nodes", &html! {
            p { @if rows < view.total { (rows) " of " } (counted(view.total, "process", "processes")) }
        }))
        @if view.rows.is_empty() {
            (empty("No node", "No process has run the jobs of this queue within the last day. Jobs wait until one starts."))
        } @else {
            div.scroll id="nodes" data-live tabindex="0" role="region" aria-label="Nodes" {
                table.stack {
                    thead { tr {
                        th scope="col" { "Node" }
                        th scope="col" { "Seen" }
                        th scope="col" { "Started" }
                        th scope="col" { "Running" }
                        th.num scope="col" { "Threads" }
                        th scope="col" { "Version" }
                        th scope="col" { "Kinds" }
                    } }
                    tbody { @for node in &view.rows { (row(frame, node, view.now)) } }
                }
            }
        }
    };
    layout::page(frame, "Nodes", &part)
}

fn row(frame: &Frame, node: &NodeRow, now: Time) -> Markup {
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
                    span.nowrap { (runs) " of " (node.most_runs) }
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
