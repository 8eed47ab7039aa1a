//! The views of actions: the question before one, the progress of a bulk.

use serde::Serialize;

use super::{Number, Time};

/// The question before an action.
#[derive(Clone, Serialize)]
pub(crate) struct Question {
    /// `retry`, `delete`, `cancel`, `reschedule`, `unschedule`, ..
    pub(crate) action: &'static str,
    /// How many jobs it is about; none if it is about a schedule or a kind.
    pub(crate) jobs: Option<Number>,
    /// How many were confirmed, if that was asked before and there are more by now.
    pub(crate) confirmed: Option<Number>,
    /// The scope, as a sentence: `the dead jobs of the kind mail whose error is "timed out"`.
    pub(crate) scope: String,
    /// It loses jobs.
    pub(crate) loses: bool,
    /// Where its form is posted to, for [`Frame::link`](crate::web::frame::Frame::link).
    #[serde(skip)]
    pub(crate) target: String,
    /// The fields that the form sends again, `confirm` among them.
    #[serde(skip)]
    pub(crate) fields: Vec<(String, String)>,
    /// The page to which "no" leads, for the same.
    #[serde(skip)]
    pub(crate) back: String,
}

/// The bulks of this process, the newest first.
#[derive(Clone, Serialize)]
pub(crate) struct Bulks {
    pub(crate) now: Time,
    pub(crate) rows: Vec<Progress>,
}

/// How far a bulk is.
#[derive(Clone, Serialize)]
pub(crate) struct Progress {
    pub(crate) id: u64,
    /// The name of its queue.
    pub(crate) queue: String,
    pub(crate) action: &'static str,
    pub(crate) scope: String,
    pub(crate) started: Time,
    pub(crate) ended: Option<Time>,
    /// `running`, `done`, `stopped`, `failed`.
    pub(crate) state: &'static str,
    /// How many jobs it was thought to be about.
    pub(crate) of: Number,
    pub(crate) seen: u64,
    pub(crate) changed: u64,
    pub(crate) asked_to_stop: u64,
    pub(crate) passed_over: u64,
    /// Why it failed, or why it was ended early.
    pub(crate) problem: Option<String>,
    /// Where the page goes once it has ended, for [`Frame::link`](crate::web::frame::Frame::link).
    #[serde(skip)]
    pub(crate) back: String,
}
