//! Inserts without a waiting caller: which of them are kept while the store fails, and the answer of a flush after them.
//!
//! Ground rules:
//!
//! - An insert that was not stored is tried again with the next commit, before the commands that have come since. If that
//!   cannot be, it is dropped: [`Event::InsertsDropped`](super::Event) names it.
//! - A flush succeeds if every insert before it is stored. It fails if one of them was not stored by the flush's own
//!   commit, even if that insert is tried again. It also fails if one of them was dropped, and no flush has said so yet.

use super::Machine;
use crate::store::{Answer, ApplyError, NewJob, Op};
use crate::values::error::StoreError;
use crate::values::id::JobId;

/// How many inserts without a waiting caller are kept while the store fails.
pub(super) const MOST_BUFFERED: usize = 100_000;

/// The errors of inserts that are not stored, for the flushes after them.
#[derive(Default)]
pub(super) struct Unstored {
    /// The error of an insert of this commit that is tried again.
    kept: Option<StoreError>,
    /// The error of an insert that was dropped.
    dropped: Option<StoreError>,
    /// A flush of this commit has the error of the inserts that were dropped.
    is_told: bool,
}

impl Unstored {
    pub(super) fn note_kept(&mut self, error: &StoreError) {
        self.kept.get_or_insert_with(|| error.clone());
    }

    pub(super) fn note_dropped(&mut self, error: &StoreError) {
        self.is_told = false;
        self.dropped.get_or_insert_with(|| error.clone());
    }

    /// Returns the error that a flush after these inserts gets.
    pub(super) fn tell(&mut self) -> Option<StoreError> {
        self.is_told = true;
        self.dropped.as_ref().or(self.kept.as_ref()).cloned()
    }

    /// Ends a commit.
    pub(super) fn end_commit(&mut self) {
        self.kept = None;
        if core::mem::take(&mut self.is_told) {
            self.dropped = None;
        }
    }
}

impl Machine {
    /// Returns the answer of an operation. A flush that succeeds in the store may come after inserts that are not stored.
    pub(super) fn flushed(&mut self, op: &Op, answer: Answer) -> Answer {
        match (op, &answer) {
            (Op::Flush, Answer::Done) => self.unstored.tell().map_or(answer, Answer::Refused),
            _ => answer,
        }
    }

    /// Says whether a failed operation without a waiting caller is tried again. `kept`: how many operations of its commit
    /// are.
    pub(super) fn tries_again(&self, kept: usize, error: &StoreError) -> bool {
        kept < MOST_BUFFERED && self.closing.is_none() && *error != StoreError::Overtaken
    }
}

/// Returns the ids of the jobs that an operation inserts.
pub(super) fn inserted_by(op: &Op) -> Vec<JobId> {
    match op {
        Op::Insert(job) => vec![job.id],
        Op::InsertMany(jobs) => jobs.iter().map(|job| job.id).collect(),
        _ => Vec::new(),
    }
}

/// Returns the operation as it is tried again. An insert that may be in the store already looks for its id first.
pub(super) fn again(op: Op, failed: &ApplyError) -> Op {
    let once = |job: NewJob| NewJob { callers_id: true, ..job };
    match op {
        Op::Insert(job) if failed.unknown => Op::Insert(once(job)),
        Op::InsertMany(jobs) if failed.unknown => {
            Op::InsertMany(jobs.into_iter().map(once).collect())
        }
        other => other,
    }
}
