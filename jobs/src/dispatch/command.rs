//! What the dispatcher is told.

use crossbeam_channel::Sender;

use crate::store::words::{Answer, ApplyError, Fence, Op};
use crate::values::error::Violation;
use crate::values::id::JobId;
use crate::values::retry::Fail;
use crate::values::time::Millis;

/// Where the answer to a command goes. A receiver that is gone is not told.
pub(crate) type Reply = Sender<Result<Answer, ApplyError>>;

/// Something that the dispatcher is told.
pub(crate) enum Command {
    /// A caller wants this, and waits for the answer; or does not wait.
    Ask { op: Op, reply: Option<Reply> },
    /// A run has ended, at a time that is rounded up: waits count from there.
    Ended { id: JobId, fence: Fence, end: RunEnd, at: Millis },
    /// A run that was withdrawn is to be given back.
    GiveBack(JobId),
    /// Another process may have changed the store.
    Look,
    /// A job may be due earlier than any was before.
    Wake,
    /// Start no more runs. With a reply: answer once all have ended.
    Close { reply: Option<Reply> },
    /// Walk the whole store.
    Check(Sender<Result<(), Violation>>),
    /// Do not wait for runs any longer.
    Abandon,
}

/// How a run has ended.
#[derive(Debug)]
pub(crate) enum RunEnd {
    Done,
    Failed(Fail),
    /// The payload does not decode.
    Undecodable(String),
}
