//! What reaches the machine: the commands, and the progress that runs have set and the machine has not taken yet.
//!
//! Ground rules:
//!
//! - A handler leaves its progress here and goes on: it waits neither for the store nor for the dispatcher.
//! - Only the latest progress of a run is kept. The machine takes all of it with its next step.
//! - The machine takes no lock for it while no handler sets progress.

use core::any::Any;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use foldhash::HashMap;

use super::call::{self, Stage};
use crate::store::{Answer, ApplyError, NewJob, Op};
use crate::values::error::{StoreError, Violation};
use crate::values::fail_and_retry::{ErrorType, Fail, Fate};
use crate::values::id::{Claim, Fence, JobId};
use crate::values::panics::{caught, locked};
use crate::values::time::Millis;

/// How many jobs of callers one step writes, unless a batch of one caller has more: see
/// [`Command::weight`].
pub(crate) const JOBS_PER_STEP: usize = 2048;
/// This many bytes of a payload take about as long to write as a small job.
const BYTES_PER_WEIGHT: usize = 4096;

pub(crate) type Answered = Result<Answer, ApplyError>;

/// Where the answer to a command goes.
pub(crate) type CommandReply = call::Reply<Answered>;

pub(crate) type CheckResult = Result<(), Violation>;

/// A command to the dispatcher.
pub(crate) enum Command {
    /// An operation of a caller, which waits for the answer if there is a reply.
    Call { op: Op, reply: Option<CommandReply> },
    /// A run has ended at this time, which is rounded up: the delay of a retry counts from there.
    Ended { id: JobId, fence: Fence, end: RunEnd, at: Millis },
    /// A run has overrun its time limit and the grace: it failed at this time. The machine sends this to itself.
    Overrun { id: JobId, fence: Fence, at: Millis },
    /// Give back the claim of a run that was withdrawn.
    GiveBack(JobId),
    /// Another process may have changed the store.
    Poll,
    /// A job may be due earlier than any before.
    Wake,
    /// Start no more runs. With a reply: answer once all have ended.
    Close { reply: Option<CommandReply> },
    /// Check the whole store, or only the claims of this process.
    Check(call::Reply<CheckResult>, Checked),
    /// Cancel the runs, because the program shuts down.
    TellRuns,
    /// Do not wait for runs any longer.
    Abandon,
}

/// How much of the store is checked.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Checked {
    Everything,
    /// The claims of this process, which no other connection knows.
    Claims,
}

impl Command {
    /// Returns the ids of the jobs of an insert whose caller does not wait.
    pub(crate) fn buffered_ids(self) -> Vec<JobId> {
        match self {
            Command::Call { op, reply: None } => op.jobs().iter().map(|job| job.id).collect(),
            _ => Vec::new(),
        }
    }

    /// Returns how much work the command adds to a commit, in small jobs.
    pub(crate) fn weight(&self) -> usize {
        let of = |job: &NewJob| 1 + job.payload.len() / BYTES_PER_WEIGHT;
        match self {
            Command::Call { op: Op::Insert(job), .. } => of(job),
            Command::Call { op: Op::InsertMany(jobs), .. } => jobs.iter().map(of).sum(),
            Command::Call { op: Op::Each(ops), .. } => ops.len(),
            _ => 1,
        }
    }

    /// Returns the call whose caller waits for the answer, and until when.
    pub(crate) fn call(&self) -> Option<(Stage, Option<Instant>)> {
        match self {
            Command::Call { reply: Some(reply), .. } => Some((reply.stage(), reply.until())),
            Command::Check(reply, _) => Some((reply.stage(), reply.until())),
            _ => None,
        }
    }
}

/// Answers calls whose store is closed by now: with the error of its close, if it has failed.
pub(crate) fn answer_all(answers: Vec<(CommandReply, Answered)>, closed: &Result<(), StoreError>) {
    for (reply, answer) in answers {
        reply.answer(match closed {
            Err(error) => answer.and(Err(error.clone().into())),
            Ok(()) => answer,
        });
    }
}

/// How a run has ended.
#[derive(Clone, Debug)]
pub(crate) enum RunEnd {
    Done,
    Failed(Fail),
    /// The payload does not decode.
    Undecodable(String),
    /// No run has started: the job was too old.
    Expired,
}

impl RunEnd {
    pub(crate) fn panicked(payload: Box<dyn Any + Send>) -> RunEnd {
        let text = match payload.downcast_ref::<&'static str>() {
            Some(text) => Some((*text).to_owned()),
            None => payload.downcast_ref::<String>().cloned(),
        };
        caught(|| drop(payload));
        let error = match text {
            Some(text) => format!("panicked: {text}"),
            None => "panicked".to_owned(),
        };
        RunEnd::Failed(Fail::by_jobs(Fate::Policy, error, ErrorType::PANIC))
    }
}

/// The latest progress of each run, as JSON.
pub(crate) type Latest = HashMap<Claim, Vec<u8>>;

/// The progress that runs have set, until a step takes it.
#[derive(Default)]
pub(crate) struct Progress {
    latest: Mutex<Latest>,
    is_any: AtomicBool,
}

impl Progress {
    pub(crate) fn set(&self, id: JobId, fence: Fence, value: Vec<u8>) {
        let mut latest = locked(&self.latest);
        latest.insert((id, fence), value);
        self.is_any.store(true, Ordering::Release);
    }

    pub(crate) fn take(&self) -> Option<Latest> {
        if !self.is_any.load(Ordering::Acquire) {
            return None;
        }
        let mut latest = locked(&self.latest);
        self.is_any.store(false, Ordering::Release);
        Some(core::mem::take(&mut latest))
    }
}
