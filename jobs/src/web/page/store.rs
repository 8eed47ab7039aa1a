//! The page of the store: the facts about the file or the server, its sizes, and the commits of this process.

use maud::{Markup, html};

use super::layout;
use super::parts::heading;
use super::text::{bytes, cell, count, shown, span};
use crate::web::frame::Frame;
use crate::web::views::place::Store;

pub(crate) fn page(frame: &Frame, view: &Store) -> Markup {
    let sort = match view.sort {
        "file" => "A file",
        "server" => "A Redis server",
        _ => "Memory",
    };
    let facts = [
        ("Kind of store", html! { (sort) }),
        (
            "Path",
            html! { @match &view.path { Some(path) => code.t { (shown(path)) }, None => span.zero { "–" } } },
        ),
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
    html! {
        @match size {
            Some(size) => { (bytes(size)) @if size >= 1024 { span.soft { " (" (count(size)) " bytes)" } } },
            None => span.zero { "–" },
        }
    }
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
