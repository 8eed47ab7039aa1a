//! How many replicas have what a batch changed: `WAIT`, in the round trip of the changes.
//!
//! Ground rules:
//!
//! - What a caller waits for is waited for: inserts, cancels, moves, schedules. Claims, renewals and
//!   ends are not: a failover that forgets one of those runs a job again, and loses none. Nor is what
//!   nobody waits for any more.
//! - Too few replicas are no answer: the batch is sent again as it was, and changes nothing the second
//!   time. So a write comes before each `WAIT`, since `WAIT` counts the replicas that have the latest
//!   write of its own connection, and every replica has the latest of a connection that wrote nothing.
//! - A claim is sent once the replicas are there. A process that cannot answer its callers would hold
//!   jobs that it does not start.

use std::time::Duration;

use redis::Cmd;

use super::decode::{Fault, Reply};
use crate::store::Op;
use crate::values::error::StoreError;

/// How many replicas a change must have reached before it is answered.
#[derive(Clone, Copy)]
pub(super) struct Replicas {
    pub(super) wanted: usize,
    /// Half of what an answer may take.
    pub(super) limit: Duration,
}

/// How many commands wait.
const COMMANDS: usize = 2;
/// The server takes no number that is much larger, and has no such number of replicas.
const MOST_REPLICAS: usize = 65_535;
/// How long the last answers of a process are kept, in milliseconds.
pub(super) const SENT_KEPT_MS: u64 = 3_600_000;

impl Replicas {
    /// Says whether the batch is answered only when replicas have it.
    pub(super) fn are_waited_for(self, ops: &[Op]) -> bool {
        self.wanted > 0 && ops.iter().any(is_of_a_caller)
    }

    /// Returns the commands that follow the changes of a batch. They left the key `sent`. The caller waits
    /// for so long at most: half of that is for the replicas.
    pub(super) fn commands(self, sent: &str, left: Duration) -> [Cmd; COMMANDS] {
        let mut write = redis::cmd("PEXPIRE");
        write.arg(sent).arg(SENT_KEPT_MS);
        let mut wait = redis::cmd("WAIT");
        let limit = self.limit.min(left / 2);
        wait.arg(self.wanted.min(MOST_REPLICAS)).arg(limit.as_millis().max(1) as u64);
        [write, wait]
    }

    /// Takes the answers to these commands off the end of a batch's. Fails if too few replicas have it.
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
            // There is no such key: the server has refused every change.
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

/// Says whether a caller asked for this, and is told that it is so.
fn is_of_a_caller(op: &Op) -> bool {
    matches!(
        op,
        Op::Insert(_)
            | Op::InsertMany(_)
            | Op::Cancel(_)
            | Op::CancelKey(_)
            | Op::Reschedule(..)
            | Op::RescheduleKey(..)
            | Op::Retry(..)
            | Op::Delete(_)
            | Op::PutSchedule(_)
            | Op::DropSchedule(_)
    )
}
