//! Claims: their arguments, their replies, and the number under which a claim is sent again.

use std::sync::Arc;

use super::check;
use super::decode::{Fault, ServerReply, array, bytes, number};
use super::keys::Keys;
use super::records;
use super::scripts::{BYTES, Name};
use crate::store::{BatchOutcome, ClaimRequest, Fence, Unreadable};
use crate::values::error::StoreError;
use crate::values::id::JobId;
use crate::values::time::Millis;

/// The most jobs of a claim. It is lower than the limit of other scripts, which do less work for each item.
const JOBS_PER_CLAIM: usize = 128;

/// The claims of this process.
#[derive(Default)]
pub(super) struct Claiming {
    /// The kinds that this process handles.
    pub(super) handled: Vec<Arc<str>>,
    /// The kinds whose jobs take no thread each.
    pub(super) kinds_with_rooms: Vec<Arc<str>>,
    /// The batch of the latest claim, and the nonce of its fences. A claim that is sent again keeps both.
    number: u64,
    nonce: u64,
    /// An earlier copy of this claim may still arrive, since it was sent without an answer.
    pub(super) again: bool,
    /// Some job has had a partition, or something is limited: the script with lanes makes the claims.
    pub(super) has_lanes: bool,
    /// A claim of this process was counted.
    pub(super) has_counted: bool,
}

impl Claiming {
    /// Prepares the claim of a batch. If the batch is sent again, its first nonce stays.
    pub(super) fn prepare(&mut self, number: u64, nonce: u64) {
        if self.number != number {
            (self.number, self.nonce, self.again) = (number, nonce, false);
        }
    }

    pub(super) fn args(&self, request: &ClaimRequest, lease: u64) -> Vec<Vec<u8>> {
        let text = |number: u64| number.to_string().into_bytes();
        let mut args = self.lane_args(request);
        args.extend([
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
        ]);
        let blocks =
            |kind: &Arc<str>| if self.kinds_with_rooms.contains(kind) { b'0' } else { b'1' };
        args.push(self.handled.iter().map(blocks).collect());
        // Not cut to `JOBS_PER_CLAIM`: a claim of that many jobs would leave a room of 0, and the script would
        // treat the kind as full.
        let room = |kind: &Arc<str>| {
            let its = request.rooms.iter().find(|(its, _)| its == kind);
            its.map_or(request.limit, |(_, room)| *room).to_string()
        };
        let rooms: Vec<String> = self.handled.iter().map(room).collect();
        args.push(rooms.join(" ").into_bytes());
        args.extend(head_start_args(&self.handled, request));
        args.extend(self.handled.iter().map(|kind| kind.as_bytes().to_vec()));
        args
    }

    /// Says whether the jobs of a claim come in the order of their turns.
    pub(super) fn claims_in_turn(&self, request: &ClaimRequest) -> bool {
        self.script(request) == Name::ClaimLanes
    }

    pub(super) fn script(&self, request: &ClaimRequest) -> Name {
        let limits = &request.limits;
        let is_limited = |kind: &Arc<str>| limits.of_program(limits.flow_of(kind)).is_some();
        match self.has_lanes || self.handled.iter().any(is_limited) {
            true => Name::ClaimLanes,
            false => Name::Claim,
        }
    }

    /// Returns the arguments for the script with lanes. The other one needs none of them.
    fn lane_args(&self, request: &ClaimRequest) -> Vec<Vec<u8>> {
        if !self.claims_in_turn(request) {
            return vec![Vec::new(), b"0".to_vec()];
        }
        let number = |number: usize| number.to_string().into_bytes();
        let mut args = vec![number(request.in_lanes), number(self.handled.len())];
        for kind in &self.handled {
            let flow = request.limits.flow_of(kind);
            args.push(flow.as_bytes().to_vec());
            let most = request.limits.of_program(flow);
            args.push(most.map_or(Vec::new(), |limit| limit.to_text().into_bytes()));
        }
        args
    }

    /// Reads the claimed jobs into `outcome`. A job that cannot be read is reported there, and the others are
    /// claimed. `request`: that of the claim.
    pub(super) fn read(
        &self,
        keys: &Keys,
        reply: ServerReply,
        request: Option<&ClaimRequest>,
        outcome: &mut BatchOutcome,
    ) -> Result<(), Fault> {
        let fields = match reply {
            ServerReply::Done(fields) => fields,
            ServerReply::Full => return Err(StoreError::Full.into()),
            ServerReply::Wrong(fault) => return Err(fault),
            _ => return Ok(()),
        };
        let [_, _, next_due, waits, claimed, names, fence] = &fields[..] else { return Ok(()) };
        let next_due = number(next_due)?;
        outcome.next_due = (next_due >= 0).then(|| Millis::clamped(next_due));
        outcome.suspects_wait = number(waits)? != 0;
        let fence = Fence::new(number(fence)?.unsigned_abs(), self.nonce);
        for job in array(claimed)?.chunks(3) {
            let [id, due, record] = job else { continue };
            let (id, due, record) = (bytes(id)?, bytes(due)?, bytes(record)?);
            match records::claimed(&self.handled, id, due, record, fence) {
                Ok(job) => outcome.claimed.push(job),
                Err(error) => {
                    let what = check::what(keys, &[b"jobs:", id].concat());
                    outcome.unreadable.push(Unreadable { what, error });
                }
            }
        }
        outcome.unreadable.extend(check::set_aside(keys, names));
        if !request.is_some_and(|request| self.claims_in_turn(request)) {
            outcome.claimed.sort_by_key(|job| (job.due, job.id));
        }
        Ok(())
    }
}

/// Returns the head starts of the kinds, and how many jobs may be claimed of kinds without one. Both are empty if no
/// kind has a head start.
fn head_start_args(handled: &[Arc<str>], request: &ClaimRequest) -> [Vec<u8>; 2] {
    if request.head_starts.is_empty() {
        return [Vec::new(), Vec::new()];
    }
    let millis = |kind: &Arc<str>| request.head_starts.of(kind).millis().to_string();
    let millis: Vec<String> = handled.iter().map(millis).collect();
    [millis.join(" ").into_bytes(), request.plain.to_string().into_bytes()]
}

/// Returns 64 bits that no other call returns, here or in another process.
pub(super) fn random() -> u64 {
    use std::hash::{BuildHasher, RandomState};
    RandomState::new().hash_one(JobId::new())
}
