//! The store on a Redis server, which several machines share: each move of a job is one script.
//!
//! Ground rules:
//!
//! - A script looks first and writes after, since what it has written stays if it fails. It takes 256
//!   items at most, and calls no command with more than 128 arguments of a list.
//! - The time is the server's, read in the script; on a manual clock it is the driver's, handed in.
//! - A batch goes out together, as one round trip. It may be sent again as it was, until it is
//!   answered: the server remembers what it answered to each call of a process's latest batch. A
//!   copy that arrives after a later batch does nothing.
//! - A claim is a lease. What ends or renews it bears its token, and without the right one does
//!   nothing.
//! - The parts of a round trip fail apart from each other: each operation has an answer or an error of its
//!   own, and a claim that was made is kept, whatever became of the rest. A batch fails as a whole only if
//!   it may be sent again, or before anything of it was sent.
//! - What makes no sense costs nothing but itself: a record that cannot be read is set aside by the claim
//!   that meets it (`tw:{q}:unreadable`), a schedule is passed over, and both are told by name.
//!
//! | file | what it holds |
//! | --- | --- |
//! | `url.rs`, `discovery.rs` | what a URL says; where the server of the queue is |
//! | `endpoint.rs`, `connection.rs` | one endpoint; the connection to the server |
//! | `open.rs`, `rights.rs` | what is looked at before a server is used; what its user may do |
//! | `keys.rs`, `records.rs` | what is stored where, and how |
//! | `scripts.rs`, `scripts/*.lua` | the scripts |
//! | `round_trips.rs` | what is asked until the server knows all that it needs |
//! | `encode.rs`, `answers.rs` | from operations to calls; from what comes back to answers |
//! | `replicas.rs` | how many replicas have it |
//! | `decode.rs` | what the server says |
//! | `claims.rs` | claims |
//! | `reads.rs` | the questions |
//! | `check.rs` | the slow truth |
//! | `notifications.rs` | what others say that they have done |

mod decode;
mod protocol;
mod records;
mod keys;
mod scripts;
mod endpoint;
mod rights;
mod url;
pub(crate) mod discovery;
mod connection;
pub(crate) mod open;
mod encode;
mod answers;
mod claims;
mod replicas;
mod round_trips;
mod reads;
mod check;
mod notifications;

use std::sync::Arc;
use std::time::Duration;

use super::{
    Answer, ApplyError, Batch, ClaimRequest, MOST_INTERRUPTIONS, Notify, Op, Outcome, PollResult,
    Store, StoreStats, Unreadable,
};
use crate::values::error::{StoreError, Violation};
use crate::values::id::JobId;
use crate::values::server_time::ServerTime;
use crate::values::time::Millis;
use claims::Claiming;
use connection::Connection;
use decode::{Fault, Reply, array, bytes, number};
use discovery::Server;
use encode::Call;
use keys::Keys;
use notifications::Listener;
use open::Opened;
use replicas::Replicas;
use scripts::{Name, Scripts};

/// The store on a server.
pub(crate) struct Redis {
    connection: Connection,
    keys: Keys,
    scripts: Scripts,
    /// The kinds that the server knows, as far as this process does.
    kinds: Vec<String>,
    claiming: Claiming,
    /// Tells this process from others.
    owner: [u8; 8],
    lease: Duration,
    replicas: Replicas,
    /// The present that scripts are told, on a manual clock.
    told: Option<Millis>,
    manual: bool,
    /// How often the schedules were changed, as of the last look.
    schedules_version: i64,
    /// What could not be read since the last commit.
    unreadable: Vec<Unreadable>,
    warning: Option<String>,
    listener: Option<Listener>,
    stats: StoreStats,
    pid: u32,
}

impl Redis {
    /// Takes a server that was looked at. On a manual clock the scripts are told the time.
    pub(crate) fn new(
        server: Server,
        opened: Opened,
        queue: Option<&str>,
        lease: Duration,
        replicas: usize,
        manual: bool,
    ) -> Redis {
        let replicas = Replicas { wanted: replicas, limit: server.timeout / 2 };
        let owner = random().to_be_bytes();
        let owner_text: String = owner.iter().map(|byte| format!("{byte:02x}")).collect();
        Redis {
            connection: Connection::new(server, opened.found, opened.time),
            keys: Keys::new(queue, &owner_text),
            scripts: Scripts::new(),
            kinds: Vec::new(),
            claiming: Claiming::default(),
            owner,
            lease,
            replicas,
            told: None,
            manual,
            schedules_version: -1,
            unreadable: Vec::new(),
            warning: opened.warning,
            listener: None,
            stats: StoreStats::default(),
            pid: std::process::id(),
        }
    }

    /// Returns the arguments that every script begins with.
    fn head(&self) -> Vec<Vec<u8>> {
        let told = self.told.map_or(String::new(), |now| now.get().to_string());
        let mut head = vec![told.into_bytes(), self.keys.channel.clone().into_bytes()];
        head.push(self.owner.to_vec());
        head.push(self.kinds.len().to_string().into_bytes());
        head.extend(self.kinds.iter().map(|kind| kind.clone().into_bytes()));
        head
    }

    fn lease_ms(&self) -> u64 {
        u64::try_from(self.lease.as_millis()).unwrap_or(u64::MAX).max(1)
    }

    fn commit(&mut self, batch: &Batch<'_>) -> Result<Outcome, ApplyError> {
        let handled = self.claiming.handled();
        let mut needed = encode::kinds_of(batch.ops);
        needed.extend(handled.iter().map(|kind| &**kind));
        self.make_known(&needed).map_err(|fault| fault.into_apply_error(false))?;
        let calls = encode::calls(batch.ops);
        let lease = self.lease_ms();
        let claim = batch.claim.as_ref().filter(|_| self.claiming.handles_any());
        if claim.is_some() {
            self.claiming.prepare(batch.number, random());
        }
        // What a question finds must be as of before the claim, of which the asker knows nothing.
        let asks = batch.ops.iter().any(|op| op.is_question() && !matches!(op, Op::Schedules));
        let waits = batch.awaited && self.replicas.are_waited_for(batch.ops);
        let commands = |store: &Redis, calls: &[Call], claim: Option<&ClaimRequest>| {
            let (keys, head) = (store.keys.all(&store.kinds), store.head());
            let numbers = (batch.number, lease);
            let mut all = encode::commands(calls, &store.scripts, &keys, &head, numbers);
            if waits && !calls.is_empty() {
                all.extend(store.replicas.commands(store.keys.sent(), store.connection.left()));
            }
            if let Some(request) = claim {
                let mut cmd = store.scripts.call(Name::Claim, &keys);
                cmd.arg(&head).arg(store.claiming.args(request, lease));
                all.push(cmd);
            }
            all
        };
        let first = claim.filter(|_| !asks && !waits);
        let mut replies = self
            .exchange(&needed, |store| commands(store, &calls, first))
            .map_err(|fault| fault.into_apply_error(false))?;
        // The claim is made, whatever became of the rest: it is read first, and kept.
        let claim_reply = first.and_then(|_| replies.pop());
        let mut outcome = Outcome {
            answers: Vec::with_capacity(batch.ops.len()),
            claimed: Vec::new(),
            next_due: None,
            suspects_wait: false,
            unreadable: Vec::new(),
        };
        let mut claim_failed = None;
        if let Some(reply) = claim_reply {
            claim_failed = self.claiming.read(reply, &mut outcome).err();
        }
        let some_done = replies.iter().any(|reply| matches!(reply, Reply::Done(_)));
        let wrong = |fault: Fault| fault.into_apply_error(some_done);
        // The batch is sent again as it was, and the claim is answered again.
        if let Some(fault) = take_passing(&mut replies) {
            return Err(wrong(fault));
        }
        if waits {
            self.replicas.read(&mut replies, &self.connection.name).map_err(wrong)?;
        }
        for (op, found) in batch.ops.iter().zip(answers::found(batch.ops.len(), &calls, replies)) {
            let answer = match op.is_question() {
                true => self.question(op),
                false => Ok(answers::answer(op, found)),
            };
            outcome.answers.push(match answer {
                Ok(answer) => answer,
                Err(fault) if fault.again => return Err(wrong(fault)),
                Err(fault) => Answer::Refused(fault.error),
            });
        }
        if first.is_none() && claim.is_some() {
            claim_failed = match self.exchange(&needed, |store| commands(store, &[], claim)) {
                Ok(mut replies) => {
                    let reply = replies.pop();
                    reply.and_then(|reply| self.claiming.read(reply, &mut outcome).err())
                }
                Err(fault) => Some(fault),
            };
        }
        if let Some(fault) = claim_failed {
            if fault.again || batch.ops.is_empty() {
                return Err(wrong(fault));
            }
            let what = "the jobs that are due".to_owned();
            outcome.unreadable.push(Unreadable { what, error: fault.error });
        }
        outcome.unreadable.append(&mut self.unreadable);
        self.stats.commits += u64::from(!calls.is_empty() || !outcome.claimed.is_empty());
        Ok(outcome)
    }
}

/// Takes out the first error that passes: what was asked may be asked again.
fn take_passing(replies: &mut Vec<Reply>) -> Option<Fault> {
    let passes = |reply: &Reply| matches!(reply, Reply::Wrong(fault) if fault.again);
    match replies.swap_remove(replies.iter().position(passes)?) {
        Reply::Wrong(fault) => Some(fault),
        _ => None,
    }
}

/// Returns bits that no other process has drawn.
fn random() -> u64 {
    use std::hash::{BuildHasher, RandomState};
    RandomState::new().hash_one(JobId::new())
}

impl Store for Redis {
    fn start_runner(&mut self, kinds: &[Arc<str>], now: Millis) -> Result<(), StoreError> {
        self.told = self.manual.then_some(now);
        self.claiming.handle(kinds);
        let names: Vec<&str> = kinds.iter().map(|kind| &**kind).collect();
        self.make_known(&names).map_err(|fault| fault.error)
    }

    fn set_async_kinds(&mut self, kinds: &[Arc<str>]) {
        self.claiming.set_async(kinds);
    }

    fn apply(&mut self, batch: &Batch<'_>) -> Result<Outcome, ApplyError> {
        self.told = self.manual.then_some(batch.now);
        self.connection.until = batch.until;
        let outcome = self.commit(batch);
        self.connection.until = None;
        if outcome.is_err() {
            self.connection.close();
        }
        outcome
    }

    fn poll(&mut self, now: Millis) -> Result<PollResult, StoreError> {
        self.told = self.manual.then_some(now);
        let mut poll = PollResult::default();
        let reason = format!("its process ended {MOST_INTERRUPTIONS} times while it ran");
        loop {
            let args = [reason.clone().into_bytes()];
            let reply = self.run(Name::Poll, &args).map_err(|fault| {
                self.connection.close();
                fault.error
            })?;
            let [_, _, more, version, cancel_requested, senseless] = &reply[..] else { break };
            self.unreadable.extend(claims::set_aside(senseless));
            let before = self.schedules_version;
            self.schedules_version = number(version)?;
            poll.changed |= self.schedules_version != before;
            if number(more)? == 0 {
                for id in array(cancel_requested)? {
                    poll.cancel_requested.push(records::id_of(bytes(id)?)?);
                }
                break;
            }
        }
        Ok(poll)
    }

    fn server_time(&self) -> Option<Arc<ServerTime>> {
        (!self.manual).then(|| Arc::clone(&self.connection.time))
    }

    fn listen(&mut self, notifications: Notify) {
        let server = self.connection.server.clone();
        let channel = self.keys.channel.clone();
        self.listener = Some(Listener::start(server, channel, self.owner, notifications));
    }

    fn warning(&self) -> Option<String> {
        self.warning.clone()
    }

    fn maintain(&mut self, _idle: Duration) -> Result<bool, StoreError> {
        Ok(false)
    }

    fn check(&mut self) -> Result<(), Violation> {
        self.audit()
    }

    fn stats(&self) -> StoreStats {
        self.stats
    }

    fn close(self: Box<Self>) -> Result<(), StoreError> {
        Ok(())
    }
}
