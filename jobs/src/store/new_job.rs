//! A job to insert, as a store takes it, and what became of it.

use std::sync::Arc;

use crate::values::extra::Extra;
use crate::values::id::JobId;
use crate::values::time::Millis;

/// A job to insert.
#[derive(Clone, Debug)]
pub(crate) struct NewJob {
    pub(crate) id: JobId,
    pub(crate) kind: Arc<str>,
    pub(crate) due: Millis,
    pub(crate) key: Option<(String, IfTaken)>,
    /// The id comes from the caller, so it is looked for first, and remembered afterwards.
    pub(crate) callers_id: bool,
    pub(crate) extra: Option<Box<Extra>>,
    pub(crate) payload: Vec<u8>,
}

/// What an insert does if its key has a pending job.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum IfTaken {
    Replace,
    /// Replaces, and keeps the deadline of the job that was there.
    ReplaceKeepingTime,
    Leave,
}

/// What became of a job to insert.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Inserted {
    New,
    /// The id is known: nothing was inserted.
    Known,
    /// This job has the key, and keeps it: it is pending and is to be left, or runs and holds its key until
    /// its end. Nothing was inserted.
    Taken(JobId),
}
