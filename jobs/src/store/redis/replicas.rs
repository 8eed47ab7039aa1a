//! Waits until enough replicas have the changes of a batch: `WAIT`, in the round trip of the changes.
//!
//! Ground rules:
//!
//! - A batch waits for replicas only if a caller waits for the answer to one of its changes: an insert, a
//!   cancel, a reschedule, a retry, a delete, a schedule. Claims, renewals and the ends of runs do not
//!   wait: a failover that forgets one of those runs a job again, and loses none.
//! - If too few replicas have the changes, the batch is sent again unchanged, and changes nothing the
//!   second time. `WAIT` counts the replicas that have the latest write of its own connection, and counts
//!   all of them if the connection wrote nothing. So a write comes before each `WAIT`.
//! - A claim is sent after the replicas have the changes. Otherwise a process that cannot answer its
//!   callers would hold jobs that it does not start.

use std::time::Duration;

use redis::Cmd;

use super::decode::{Fault, Reply};
use crate::store::Op;
use crate::values::error::StoreError;

/// How many replicas a change must have reached before it is answered.
#[derive(Clone, Copy)]
pub(super) struct Replicas {
    pub(super) wanted: usize,
    /// The longest wait: half of the limit of an answer.
    pub(super) limit: Duration,
}

/// The number of commands of a wait.
const COMMANDS: usize = 2;
/// The largest argument of `WAIT`. The server refuses much larger ones, and has fewer replicas.
const MOST_REPLICAS: usize = 65_535;
/// How long the server keeps the last answers to a process, in milliseconds.
pub(super) const SENT_KEPT_MS: u64 = 3_600_000;

impl Replicas {
    /// Says whether the answer to the batch waits for replicas.
    pub(super) fn are_waited_for(self, ops: &[Op]) -> bool {
        self.wanted > 0 && ops.iter().any(is_of_a_caller)
    }

    /// Returns the commands that follow the changes of a batch. `sent`: the key of the kept answers, to which
    /// every change writes. `left`: how long the caller still waits; half of that is for the replicas.
    pub(super) fn commands(self, sent: &str, left: Duration) -> [Cmd; COMMANDS] {
        let mut write = redis::cmd("PEXPIRE");
        write.arg(sent).arg(SENT_KEPT_MS);
        let mut wait = redis::cmd("WAIT");
        let limit = self.limit.min(left / 2);
        wait.arg(self.wanted.min(MOST_REPLICAS)).arg(limit.as_millis().max(1) as u64);
        [write, wait]
    }

    /// Takes the replies to these commands off the end of a batch's. Fails if too few replicas have the batch.
    pub(super) fn read(self, replies: &mut Vec<Reply>, server: &str) -> Result<(), Fault> {
        let answers = replies.split_off(replies.len().saturating_sub(COMMANDS));
        let mut counts = Vec::new();
        for answer in answers {
            match answer {
                Reply::Count(count) => counts.push(count),
                Reply::Wrong(fault) => return Err(Fault { sent: true, ..fault }),
                _ => return Err(StoreError::Other("WAIT has no answer".to_owned()).into()),
            }
        }
        match counts[..] {
            // The key `sent` does not exist: the server has refused every change.
            [0, _] => Ok(()),
            [_, had] if usize::try_from(had).is_ok_and(|had| had >= self.wanted) => Ok(()),
            [.., had] => {
                let wanted = self.wanted;
                let text = format!("{server}: {had} of {wanted} replicas have it");
                Err(Fault { error: StoreError::Io(text), sent: true, again: true })
            }
            [] => Err(StoreError::Other("WAIT has no answer".to_owned()).into()),
        }
    }
}

/// Says whether a caller made this change, and gets an answer.
fn is_of_a_caller(op: &Op) -> bool {
    matches!(
        op,
        Op::Insert(_)
            | Op::InsertMany(_)
            | Op::InsertGroup(_)
            | Op::AddToGroup(..)
            | Op::SealGroup(_)
            | Op::CancelGroup(_)
            | Op::Cancel(_)
            | Op::CancelKey(_)
            | Op::Reschedule(..)
            | Op::RescheduleKey(..)
            | Op::Retry(..)
            | Op::Each(_)
            | Op::Delete(_)
            | Op::PutSchedule(_)
            | Op::DropSchedule(_)
            | Op::PauseSchedule(..)
            | Op::ResumeSchedule { .. }
            | Op::PutSetting { .. }
            | Op::Hold { .. }
    )
}
