//! A job to insert, and the result of the insert.

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
    /// The caller chose the id. So the insert first checks that the id is new, and the store remembers
    /// the id after the job has ended.
    pub(crate) callers_id: bool,
    pub(crate) extra: Option<Box<Extra>>,
    pub(crate) payload: Vec<u8>,
}

/// What an insert does if another pending job has its key.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum IfTaken {
    Replace,
    /// Replaces the other job, but keeps its due time.
    ReplaceKeepingTime,
    Leave,
}

/// The result of an insert.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Inserted {
    New,
    /// The id is known, so nothing was inserted.
    Known,
    /// This job keeps the key, so nothing was inserted. It is pending and [`IfTaken::Leave`] was given, or
    /// it is claimed and holds its key until its end.
    Taken(JobId),
}
