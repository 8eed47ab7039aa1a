//! The choices of a program for its dashboard: the rights of a request, and the audit of actions.

use core::panic::AssertUnwindSafe;
use std::panic::catch_unwind;

use http::request::Parts;
use serde_json::Value;

use tickwheel_jobs::JobId;
use tickwheel_jobs::view::Part;

/// Calls the program's code, and returns nothing if it panics.
pub(crate) fn caught<T>(call: impl FnOnce() -> T) -> Option<T> {
    let drop_payload = |payload| {
        // The drop of a payload may panic as well. What that panic has carried is never dropped.
        catch_unwind(AssertUnwindSafe(|| drop(payload))).unwrap_or_else(core::mem::forget);
    };
    catch_unwind(AssertUnwindSafe(call)).map_err(drop_payload).ok()
}

/// The rights of a request: see [`Dashboard::access`](super::Dashboard::access).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum Access {
    /// Read, and change jobs, kinds, limits, schedules and groups, and insert jobs.
    Full,
    /// Read. Every request that would change something is refused, with status 403.
    ReadOnly,
    /// Nothing: every request is refused, with status 403.
    Deny,
}

/// An action that was done: see [`Dashboard::audit`](super::Dashboard::audit).
#[derive(Debug)]
#[non_exhaustive]
pub struct Action {
    /// Its name: `retry`, `again`, `delete`, `cancel`, `reschedule`, `run`, `unschedule`, `pause`, `resume`,
    /// `seal`, `stop`, `limit`, `lift`, `hold`, `release`, `keep`, `head-start`, `insert`.
    pub name: &'static str,
    /// The queue.
    pub queue: String,
    /// Its jobs, kind, scope, schedule or group in words: `the job 0192..`, `the dead jobs of the kind "mail"`, `the
    /// kind "mail"`, `the queue`.
    pub scope: String,
    /// The jobs, if they were named one by one.
    pub jobs: Vec<JobId>,
    /// How many jobs were changed. Of the queue, a kind, a scope, a schedule or the seal of a group: 1 if it was
    /// changed, else 0. Of the cancel of a group: its jobs that were pending.
    pub changed: u64,
    /// The result in a sentence, for example with the new limit. Empty if the action failed.
    pub text: String,
    /// Why the rest was not done, if it failed or was stopped.
    pub problem: Option<String>,
    pub(super) request: std::sync::Arc<Parts>,
}

impl Action {
    /// Returns the request that asked for it, for example for the user of an extension or a header.
    #[must_use]
    pub fn request(&self) -> &Parts {
        &self.request
    }
}

pub(super) type AccessOf = dyn Fn(&Parts) -> Access + Send + Sync;
pub(super) type Audit = dyn Fn(&Action) + Send + Sync;
pub(super) type Redact = dyn Fn(&str, Part, &mut Value) + Send + Sync;
