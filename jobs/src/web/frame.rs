//! What every page has around its own part: the title, the queues, the links, the rights of the reader.

use super::views::Time;

/// The frame of a page.
pub(crate) struct Frame {
    /// Of the dashboard: `shop, production`.
    pub(crate) title: String,
    /// Which page this is: the part of the menu that is marked.
    pub(crate) tab: Tab,
    /// The queue that the page shows.
    pub(crate) queue: String,
    /// All queues of the dashboard, this one among them.
    pub(crate) queues: Vec<QueueLink>,
    /// The way from the page to the root of the dashboard: `./`, `../`, `../../`.
    pub(crate) root: String,
    /// The reader may change jobs: without it, a page has no form that changes anything.
    pub(crate) may_change: bool,
    /// The id of the forms of this page, which each of them sends as the field `once`.
    pub(crate) form: String,
    /// What the action has done that led to the page.
    pub(crate) said: Option<Said>,
    /// The page itself with its query, from the root: `jobs?state=dead`. Forms send it as the field `back`, and
    /// the script loads it again.
    pub(crate) here: String,
    /// The names of the style sheet and of the script, with the hashes of their content: `style-1f00.css`.
    pub(crate) style: String,
    pub(crate) script: String,
    pub(crate) now: Time,
    /// The page replaces its marked parts while it is shown.
    pub(crate) is_live: bool,
}

/// A page of the menu.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Tab {
    Overview,
    Kinds,
    Jobs,
    Dead,
    Groups,
    Schedules,
    Nodes,
    Store,
    /// A page that is no part of the menu: a question, a problem.
    None,
}

/// Another queue of the dashboard.
pub(crate) struct QueueLink {
    pub(crate) name: String,
    pub(crate) is_current: bool,
    /// The overview of the queue, ready to use.
    pub(crate) link: String,
}

/// The outcome of an action.
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

    /// Returns the link to a place of the dashboard, in this queue.
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

/// Percent-encodes a text, for a value of a query.
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
