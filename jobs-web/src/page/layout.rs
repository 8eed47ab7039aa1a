//! The frame of every page: the head with the title, the queues, the menu and the line about slowdowns, the links, the
//! rights of the reader, the foot, the keys; and the page that shows only a problem.

use maud::{DOCTYPE, Markup, html};

use super::heading;
use crate::page::{absolute, clock, shown};
use crate::route::Read;
use crate::views::Problem;
use tickwheel_jobs::view::{About, Slowdowns, Time};

pub(crate) struct Frame {
    /// Of the dashboard: `shop, production`.
    pub(crate) title: String,
    /// The page of the menu that is marked. None if the menu does not name this page: a question, a problem.
    pub(crate) tab: Option<Read>,
    pub(crate) queue: String,
    pub(crate) queues: Vec<QueueLink>,
    /// The way from the page to the root of the dashboard: `./`, `../`, `../../`.
    pub(crate) root: String,
    /// The reader may change jobs: without it, a page has no form that changes anything.
    pub(crate) may_change: bool,
    /// The id of the forms of this page, which each of them sends as the field `once`.
    pub(crate) form: String,
    /// The first pauses, holds and limits set by hand of the queue.
    pub(crate) slowdowns: Slowdowns,
    /// The result of the action before the page.
    pub(crate) said: Option<Said>,
    /// The page itself with its query, from the root: `jobs?state=dead`. Forms send it as the field `back`, and
    /// the script loads it again.
    pub(crate) here: String,
    /// The names of the style sheet and of the script, with the hashes of their content: `style-1f00.css`.
    pub(crate) style: String,
    pub(crate) script: String,
    pub(crate) now: Time,
    pub(crate) is_live: bool,
}

pub(crate) struct QueueLink {
    pub(crate) name: String,
    pub(crate) is_current: bool,
    /// The overview of the queue, ready to use.
    pub(crate) link: String,
}

pub(crate) struct Said {
    pub(crate) text: String,
    /// The page of its job, from the root.
    pub(crate) job: Option<String>,
}

impl Frame {
    /// Returns the link to a place of the dashboard, in the queue of the page: `jobs?state=dead`. The path of it has
    /// fixed words, ids and numbers alone; the values of its query are [`encoded`].
    pub(crate) fn link(&self, path: &str) -> String {
        self.link_in(&self.queue, path)
    }

    /// Says whether the page is not the first of its list.
    pub(crate) fn is_later_page(&self) -> bool {
        self.here.split_once('?').is_some_and(|(_, query)| query.contains("after="))
    }

    pub(crate) fn link_in(&self, queue: &str, path: &str) -> String {
        let root = &self.root;
        if self.queues.first().is_none_or(|first| first.name == queue) {
            return format!("{root}{path}");
        }
        let (path, part) = path.split_at(path.find('#').unwrap_or(path.len()));
        let (path, query) = path.split_once('?').unwrap_or((path, ""));
        let and = if query.is_empty() { "" } else { "&" };
        format!("{root}{path}?{query}{and}queue={}{part}", encoded(queue))
    }
}

pub(crate) fn encoded(text: &str) -> String {
    let mut out = String::new();
    for byte in text.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => {
                out.push(byte.into());
            }
            _ => out.push_str(&format!("%{byte:02X}")),
        }
    }
    out
}

pub(crate) fn query<'a>(pairs: impl IntoIterator<Item = (&'a str, &'a str)>) -> String {
    let pair = |(name, value): (&str, &str)| format!("{name}={}", encoded(value));
    pairs.into_iter().map(pair).collect::<Vec<_>>().join("&")
}

const MENU: [(Read, &str); 8] = [
    (Read::Overview, "Overview"),
    (Read::Kinds, "Kinds"),
    (Read::Jobs, "Jobs"),
    (Read::Dead, "Dead"),
    (Read::Groups, "Groups"),
    (Read::Schedules, "Schedules"),
    (Read::Nodes, "Nodes"),
    (Read::Store, "Store"),
];

const KEYS: [(&str, &str); 7] = [
    ("/", "search"),
    ("j", "next row"),
    ("k", "previous row"),
    ("x", "select the row"),
    ("Enter", "open the row"),
    ("s", "stand still, or go on"),
    ("?", "these keys"),
];

/// An icon of no picture: without it, a browser asks the root of the server for one.
const NO_ICON: &str = "data:,";

pub(crate) fn page(frame: &Frame, title: &str, part: &Markup) -> Markup {
    page_that_refreshes(frame, title, part, false)
}

pub(crate) fn page_that_refreshes(
    frame: &Frame,
    title: &str,
    part: &Markup,
    refreshes: bool,
) -> Markup {
    let of_the_frame = html! {
        link rel="stylesheet" href={ (frame.root) (frame.style) };
        @if refreshes { noscript { meta http-equiv="refresh" content="2"; } }
        script src={ (frame.root) (frame.script) } defer {}
    };
    let body = html! {
        a.skip href="#main" { "Skip to the content" }
        (head(frame))
        main id="main" tabindex="-1" { (said(frame)) (part) }
        (foot(frame))
    };
    document(title, &frame.title, &of_the_frame, &body)
}

fn document(title: &str, dashboard: &str, of_the_head: &Markup, body: &Markup) -> Markup {
    html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                meta name="color-scheme" content="light dark";
                title { (shown(title)) " · " (shown(dashboard)) }
                link rel="icon" href=(NO_ICON);
                (of_the_head)
            }
            body { (body) }
        }
    }
}

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

fn head(frame: &Frame) -> Markup {
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
                p.clock id="clock" data-live[frame.is_live] {
                    time datetime=(frame.now) title=(absolute(frame.now)) { (clock(frame.now, frame.now)) " UTC" }
                }
            }
            nav.pages aria-label="Pages" {
                @for (page, name) in MENU {
                    a href=(frame.link(&page.path())) aria-current=[(frame.tab.as_ref() == Some(&page)).then_some("page")]
                        data-search[page == Read::Jobs] { (name) }
                }
            }
        }
        (slowed(frame))
        div.stale id="stale" role="status" hidden {}
    }
}

/// The line about pauses, holds and limits set by hand. Each one has a link to the page with the button that lifts it.
fn slowed(frame: &Frame) -> Markup {
    let Slowdowns { rows, total, .. } = &frame.slowdowns;
    let more = total.saturating_sub(rows.len() as u64);
    html! {
        div.slowed id="slowed" data-live[frame.is_live] {
            @for row in rows {
                span { span.t { (shown(&row.text)) } " " a href=(frame.link(&place(&row.about))) { (shown(&row.cure)) } }
            }
            @if more > 0 { a href=(frame.link("kinds#limits")) { "And " (super::count(more)) " more" } }
        }
    }
}

/// Returns the page with the subject of a warning.
pub(crate) fn place(about: &About) -> String {
    match about {
        About::Kinds => "kinds".to_owned(),
        About::Kind(kind) => format!("kind?kind={}", encoded(kind)),
        About::Limits => "kinds#limits".to_owned(),
        About::Nodes => "nodes".to_owned(),
        About::Schedules => "schedules".to_owned(),
        About::Job(id) => format!("jobs/{id}"),
        About::Overdue(kind) => format!("jobs?state=overdue&kind={}", encoded(kind)),
        _ => "store".to_owned(),
    }
}

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
    frame.tab.is_some().then(|| frame.link(&format!("api/v1/{here}")))
}

fn foot(frame: &Frame) -> Markup {
    html! {
        footer.foot {
            span { "tickwheel-jobs " (env!("CARGO_PKG_VERSION")) }
            @if let Some(json) = json(frame) { a href=(json) { "This page as JSON" } }
            a href=(frame.link("metrics")) { "Metrics" }
            @if frame.is_live {
                button.flat type="button" data-stop data-script hidden aria-pressed="false" { "Stand still " kbd { "s" } }
            }
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

/// Returns the page of a problem for a reader who may have no right to more than the title of the dashboard. The style
/// sheet is not asked for either.
pub(crate) fn bare_problem_page(title: &str, view: &Problem) -> Markup {
    let body = html! { main { h1 { (problem_title(view)) } p { (shown(&view.message)) } } };
    document(problem_title(view), title, &html! {}, &body)
}

fn problem_title(view: &Problem) -> &'static str {
    match view.status {
        400 => "The request is not valid",
        403 => "Not allowed",
        404 => "Not found",
        405 => "Not this way",
        409 => "It has changed meanwhile",
        413 | 414 | 429 => "Too much at once",
        503 => "No answer",
        _ => "Something went wrong",
    }
}

pub(crate) fn problem_page(frame: &Frame, view: &Problem) -> Markup {
    let title = problem_title(view);
    let part = html! {
        (heading(title, &html! { span.state.dead[view.status >= 500] { (view.status) } }))
        p.t { (shown(&view.message)) }
        p.row {
            a.btn href=(frame.link("")) { "To the overview" }
            @if view.status >= 500 && !frame.here.is_empty() { a.btn href=(frame.link(&frame.here)) { "Try again" } }
        }
    };
    page(frame, title, &part)
}
