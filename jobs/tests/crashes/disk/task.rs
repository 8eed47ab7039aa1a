//! The one kind of job of these tests: its data says what its handler does.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use tickwheel_jobs::{Fail, Job, Retry};

#[derive(Clone, PartialEq, Eq, Serialize, Deserialize, Debug)]
pub(crate) struct Task {
    pub(crate) n: u64,
    pub(crate) plan: Plan,
    /// Makes rows of many lengths, and some that overflow their page.
    pub(crate) padding: String,
}

/// What the handler does.
#[derive(Clone, Copy, PartialEq, Eq, Serialize, Deserialize, Debug)]
pub(crate) enum Plan {
    Succeed,
    /// Fails each time: the policy tries once more.
    Fail,
    /// Fails for good.
    Die,
    /// Inserts another job, then succeeds.
    Chain,
    /// Adds a follow-up, then succeeds.
    Then,
}

impl Job for Task {
    const KIND: &'static str = "task";
}

/// How long after a failure the second and last try is due.
pub(crate) const RETRY_MS: u64 = 2_000;
/// How long after its insert a job that a handler inserts is due.
pub(crate) const CHAIN_MS: u64 = 600_000;

pub(crate) fn retry() -> Retry {
    Retry::fixed(Duration::from_millis(RETRY_MS)).max_retries(1)
}

impl Task {
    pub(crate) fn new(n: u64, plan: Plan) -> Task {
        let length = match n % 16 {
            15 => 9_000,
            rest => rest * 40,
        };
        Task { n, plan, padding: "x".repeat(length as usize) }
    }

    pub(crate) fn result(&self) -> Result<(), Fail> {
        match self.plan {
            Plan::Succeed | Plan::Chain | Plan::Then => Ok(()),
            Plan::Fail => Err(std::io::Error::other("as planned").into()),
            Plan::Die => Err(Fail::dead(std::io::Error::other("as planned"))),
        }
    }
}
