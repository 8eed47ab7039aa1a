//! The frame of every page: the head with the title, the queues and the menu, the foot, the keys.

use maud::{DOCTYPE, Markup, html};

use super::text::{absolute, shown};
use crate::web::frame::{Frame, Tab};

/// The parts of the menu, each with its path.
const MENU: [(Tab, &str, &str); 8] = [
    (Tab::Overview, "Overview", ""),
    (Tab::Kinds, "Kinds", "kinds"),
    (Tab::Jobs, "Jobs", "jobs"),
    (Tab::Dead, "Dead", "dead"),
    (Tab::Groups, "Groups", "groups"),
    (Tab::Schedules, "Schedules", "schedules"),
    (Tab::Nodes, "Nodes", "nodes"),
    (Tab::Store, "Store", "store"),
];

const KEYS: [(&str, &str); 6] = [
    ("/", "search"),
    ("j", "next row"),
    ("k", "previous row"),
    ("x", "select the row"),
    ("Enter", "open the row"),
    ("?", "these keys"),
];

/// An icon of no picture: without it, a browser asks the root of the server for one.
const NO_ICON: &str = "data:,";

/// Returns a page with this title around its own part.
pub(crate) fn page(frame: &Frame, title: &str, part: &Markup) -> Markup {
    document(frame, title, part, false, false)
}

/// Returns the page of a problem: the script does not ask for it again.
pub(crate) fn page_of_a_problem(frame: &Frame, title: &str, part: &Markup) -> Markup {
    document(frame, title, part, false, true)
}

/// Returns a page that a browser without the script loads again every two seconds, if it `refreshes`.
pub(crate) fn page_that_refreshes(
    frame: &Frame,
    title: &str,
    part: &Markup,
    refreshes: bool,
) -> Markup {
    document(frame, title, part, refreshes, false)
}

fn document(
    frame: &Frame,
    title: &str,
    part: &Markup,
    refreshes: bool,
    is_problem: bool,
) -> Markup {
    html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                meta name="color-scheme" content="light dark";
                title { (shown(title)) " · " (shown(&frame.title)) }
                link rel="icon" href=(NO_ICON);
                link rel="stylesheet" href={ (frame.root) (frame.style) };
                @if refreshes { noscript { meta http-equiv="refresh" content="2"; } }
                script src={ (frame.root) (frame.script) } defer {}
            }
            body {
                a.skip href="#main" { "Skip to the content" }
                (head(frame, is_problem))
                main id="main" tabindex="-1" { (said(frame)) (part) }
                (foot(frame))
            }
        }
    }
}

/// What the action has done that led to the page.
fn said(frame: &Frame) -> Markup {
    html! {
        @if let Some(said) = &frame.said {
            div.note.good id="outcome" role="status" {
                span.t { (shown(&said.text)) }
                @if let Some(job) = &said.job { a href=(frame.link(job)) { "Show the job" } }
            }
        }
    }
}

fn head(frame: &Frame, is_problem: bool) -> Markup {
    html! {
        header.top {
            div.bar {
                a.brand href=(frame.link("")) { (mark()) span.clip { (shown(&frame.title)) } }
                @if frame.queues.len() > 1 {
                    nav.queues aria-label="Queues" {
                        @for queue in &frame.queues {
                            a.t href=(queue.link) aria-current=[queue.is_current.then_some("true")] { (shown(&queue.name)) }
                        }
                    }
                }
                @if !frame.may_change { span.state { "read-only" } }
                p.clock id="clock" data-live[frame.is_live && !is_problem] {
                    time datetime=(frame.now) title=(absolute(frame.now)) { (clock(frame)) " UTC" }
                }
            }
            nav.pages aria-label="Pages" {
                @for (tab, name, path) in MENU {
                    a href=(frame.link(path)) aria-current=[(tab == frame.tab).then_some("page")]
                        data-search[tab == Tab::Jobs] { (name) }
                }
            }
        }
        div.stale id="stale" role="status" hidden {}
    }
}

/// The time of day of the page, to the second.
fn clock(frame: &Frame) -> String {
    super::text::clock(frame.now, frame.now)
}

/// A wheel with its hand.
fn mark() -> Markup {
    html! {
        svg viewBox="0 0 20 20" aria-hidden="true" {
            circle cx="10" cy="10" r="8" {}
            path d="M10 5.5V10l3 2" {}
        }
    }
}

/// The page as JSON, for the pages of the menu.
fn json(frame: &Frame) -> Option<String> {
    let here = if frame.here.is_empty() { "overview" } else { &frame.here };
    let here =
        here.strip_prefix('?').map_or_else(|| here.to_owned(), |query| format!("overview?{query}"));
    (frame.tab != Tab::None).then(|| frame.link(&format!("api/v1/{here}")))
}

fn foot(frame: &Frame) -> Markup {
    html! {
        footer.foot {
            span { "tickwheel-jobs " (env!("CARGO_PKG_VERSION")) }
            @if let Some(json) = json(frame) { a href=(json) { "This page as JSON" } }
            a href=(frame.link("metrics")) { "Metrics" }
            button.flat type="button" data-keys data-script hidden { "Keys " kbd { "?" } }
        }
        dialog id="keys" aria-labelledby="keys-title" {
            h2 id="keys-title" { "Keys" }
            dl {
                @for (key, does) in KEYS { dt { kbd { (key) } } dd { (does) } }
            }
            form method="dialog" { button { "Close" } }
        }
    }
}
