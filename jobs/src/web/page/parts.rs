//! What several pages have: headings, states, fields and buttons, an empty list, the links to further pages.

use maud::{Markup, html};

use super::text::{self, shown, span};
use crate::web::frame::{Frame, encoded};
use crate::web::views::Bound;

/// The heading of a page, with what stands beside it.
pub(crate) fn heading(title: &str, beside: &Markup) -> Markup {
    html! { div.head { h1.t { (shown(title)) } (beside) } }
}

/// The state of a job.
pub(crate) fn state(word: &str) -> Markup {
    html! { span class={ "state " (word) } { (word) } }
}

/// A list without rows: what would be here, and why it is not.
pub(crate) fn empty(title: &str, text: &str) -> Markup {
    html! { div.empty { strong { (title) } p { (text) } } }
}

/// How a form of one button looks.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Look {
    Plain,
    /// It loses something, and is asked for once more.
    Risky,
}

impl Look {
    pub(crate) fn class(self) -> &'static str {
        match self {
            Look::Plain => "btn",
            Look::Risky => "btn risky",
        }
    }
}

/// A form of one button, which posts to a place under `api/v1/` and comes back. `of` is the field that names its
/// subject, a kind or a schedule; those who hear the page hear its value.
pub(crate) fn button(
    frame: &Frame,
    target: &str,
    label: &str,
    of: Option<(&str, &str)>,
    look: Look,
) -> Markup {
    let (target, fields) = split(&format!("api/v1/{target}"), of.as_slice());
    html! {
        form method="post" action=(frame.link(&target)) {
            (sent(frame, &frame.here))
            @for (name, value) in fields { (hidden(name, value)) }
            button class=(look.class()) {
                (label) @if let Some((_, of)) = of { span.only-read { " " (shown(of)) } }
            }
        }
    }
}

/// What each form of an action sends: the page that it comes back to, and its id.
pub(crate) fn sent(frame: &Frame, back: &str) -> Markup {
    html! { (hidden("back", back)) (hidden("once", &frame.form)) }
}

/// A field that is not seen.
pub(crate) fn hidden(name: &str, value: &str) -> Markup {
    html! { input type="hidden" name=(name) value=(value); }
}

/// Returns the target of a form with those of its fields that HTML cannot carry as they are, as a query, and the
/// other fields. A browser changes the ends of lines in a field, and a character that acts is none of a page.
pub(crate) fn split<'a>(
    target: &str,
    fields: &[(&'a str, &'a str)],
) -> (String, Vec<(&'a str, &'a str)>) {
    let (odd, plain): (Vec<_>, Vec<_>) =
        fields.iter().partition(|(_, value)| value.chars().any(text::acts));
    let mut target = target.to_owned();
    for (name, value) in odd {
        target.push(if target.contains('?') { '&' } else { '?' });
        target.push_str(&format!("{name}={}", encoded(value)));
    }
    (target, plain)
}

/// The queue of the page, for a form that is sent as a query: a browser drops the query of its target.
pub(crate) fn queue(frame: &Frame) -> Markup {
    html! {
        @if !frame.queues.first().is_none_or(|first| first.is_current) {
            (hidden("queue", &frame.queue))
        }
    }
}

/// A bound of durations under a head that says "at most": `25 ms`, `> 1 h` above every bound, or nothing if there was none.
pub(crate) fn bound(bound: Option<Bound>) -> Markup {
    html! {
        @match bound {
            Some(bound) if bound.is_above() => { "> " (span(Bound::LAST_MS)) },
            Some(bound) => { (span(bound.0)) },
            None => span.zero { "–" },
        }
    }
}

/// The links to the page before and the page after, which are queries of the page at `path`.
pub(crate) fn pager(
    frame: &Frame,
    path: &str,
    shown: &str,
    newer: Option<&str>,
    older: Option<&str>,
) -> Markup {
    let link = |query: &str| frame.link(&format!("{path}?{query}"));
    html! {
        @if newer.is_some() || older.is_some() {
            nav.pager aria-label="Further pages" {
                span { (shown) }
                span.row {
                    @if let Some(newer) = newer { a.btn rel="prev" href=(link(newer)) { "← Newer" } }
                    @if let Some(older) = older { a.btn rel="next" href=(link(older)) { "Older →" } }
                }
            }
        }
    }
}
