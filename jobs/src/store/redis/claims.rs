//! Claims: which jobs are asked for, and what comes of a claim whose answer was lost.

use std::sync::Arc;

use super::decode::{Fault, Reply, array, bytes, number};
use super::encode::BYTES;
use super::records;
use crate::store::{ClaimRequest, Outcome, Unreadable};
use crate::values::error::StoreError;
use crate::values::time::Millis;

/// The most jobs of a claim, which does more for each than other scripts do.
const JOBS_PER_CLAIM: usize = 128;

/// What this process claims.
#[derive(Default)]
pub(super) struct Claiming {
    handled: Vec<Arc<str>>,
    /// Those of them whose handlers block no thread.
    async_kinds: Vec<Arc<str>>,
    /// The batch of the latest claim, and the nonce of its fences. A claim that is sent again has the
    /// same.
    number: u64,
    nonce: u64,
    /// A copy of it may be under way.
    again: bool,
}

impl Claiming {
    pub(super) fn handle(&mut self, kinds: &[Arc<str>]) {
        self.handled = kinds.to_vec();
    }

    pub(super) fn set_async(&mut self, kinds: &[Arc<str>]) {
        self.async_kinds = kinds.to_vec();
    }

    pub(super) fn handled(&self) -> Vec<Arc<str>> {
        self.handled.clone()
    }

    pub(super) fn handles_any(&self) -> bool {
        !self.handled.is_empty()
    }

    /// A claim is about to be made with this batch.
    pub(super) fn prepare(&mut self, number: u64, nonce: u64) {
        if self.number != number {
            (self.number, self.nonce, self.again) = (number, nonce, false);
        }
    }

    /// What was sent has no answer, and may arrive later than what is sent next.
    pub(super) fn expect_late_copy(&mut self) {
        self.again = true;
    }

    pub(super) fn args(&self, request: &ClaimRequest, lease: u64) -> Vec<Vec<u8>> {
        let text = |number: u64| number.to_string().into_bytes();
        let mut args = vec![
            text(self.number),
            text(request.limit.min(JOBS_PER_CLAIM) as u64),
            text(lease),
            text(request.crashed_once as u64),
            text(u64::from(request.poison_pill)),
            self.nonce.to_be_bytes().to_vec(),
            text(BYTES as u64),
            text(u64::from(self.again)),
            text(u64::from(request.last_try)),
            text(request.blocking.min(JOBS_PER_CLAIM) as u64),
        ];
        let blocks = |kind: &Arc<str>| if self.async_kinds.contains(kind) { b'0' } else { b'1' };
        args.push(self.handled.iter().map(blocks).collect());
        // It is not cut to what one claim takes: a kind without a room is one that is full.
        let room = |kind: &Arc<str>| {
            let its = request.rooms.iter().find(|(its, _)| its == kind);
            its.map_or(request.limit, |(_, room)| *room).to_string()
        };
        let rooms: Vec<String> = self.handled.iter().map(room).collect();
        args.push(rooms.join(" ").into_bytes());
        args.extend(self.handled.iter().map(|kind| kind.as_bytes().to_vec()));
        args
    }

    /// Reads what was claimed. A job that cannot be read costs no other.
    pub(super) fn read(&self, reply: Reply, outcome: &mut Outcome) -> Result<(), Fault> {
        let fields = match reply {
            Reply::Done(fields) => fields,
            Reply::Full => return Err(StoreError::Full.into()),
            Reply::Wrong(fault) => return Err(fault),
            Reply::Kinds(_) | Reply::Unloaded | Reply::Count(_) => return Ok(()),
        };
        let [_, _, next_due, waits, claimed, senseless] = &fields[..] else { return Ok(()) };
        let next_due = number(next_due)?;
        outcome.next_due = (next_due >= 0).then(|| Millis::clamped(next_due));
        outcome.suspects_wait = number(waits)? != 0;
        for job in array(claimed)?.chunks(3) {
            let [id, fence, record] = job else { continue };
            let (id, fence, record) = (bytes(id)?, bytes(fence)?, bytes(record)?);
            match records::claimed(&self.handled, id, fence, record) {
                Ok(job) => outcome.claimed.push(job),
                Err(error) => outcome.unreadable.push(Unreadable { what: what(id), error }),
            }
        }
        outcome.unreadable.extend(set_aside(senseless));
        outcome.claimed.sort_by_key(|job| (job.due, job.id));
        Ok(())
    }
}

/// Returns how a job is named to the operator.
fn what(id: &[u8]) -> String {
    match records::id_of(id) {
        Ok(id) => format!("job {id}"),
        Err(_) => format!("job {:?}", String::from_utf8_lossy(id)),
    }
}

/// Returns the jobs that a script has set aside, from their ids.
pub(super) fn set_aside(ids: &redis::Value) -> Vec<Unreadable> {
    let ids = array(ids).unwrap_or_default().iter().filter_map(|id| bytes(id).ok());
    let error = StoreError::Damaged("its record makes no sense, and was set aside".to_owned());
    ids.map(|id| Unreadable { what: what(id), error: error.clone() }).collect()
}
