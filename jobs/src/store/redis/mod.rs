//! The store on a Redis server, which several machines share: each change of a job is one script.
//!
//! Ground rules:
//!
//! - A script reads first and writes after, since its writes stay if it fails later. It takes at most 256 items, and
//!   calls no command with more than 128 arguments of a list.
//! - The time is the server's, read in the script. On a manual clock it is an argument.
//! - A batch goes out as one round trip. It may be sent again unchanged until it is answered: for each call of a
//!   process's latest batch, the server keeps the answer. A copy that arrives after a later batch does nothing.
//! - A claim is a lease. An operation that ends or renews it carries its token, and does nothing if the token is not
//!   the right one.
//! - The parts of a round trip fail separately: each operation has its own answer or error, and a claim that was made
//!   is kept even if other parts fail. A batch fails as a whole only if it may be sent again, if nothing of it was
//!   sent, or if it is a claim alone.
//! - One unreadable value does not block the others. It counts as none. A script that meets it on its way to a write
//!   sets it aside (`values` in `scripts/prelude.lua`), and a question skips it. A schedule that cannot be read is
//!   skipped too. All are reported by name, and `check` looks for them (`check.rs`).

mod decode;
mod protocol;
mod records;
mod keys;
pub(crate) mod scripts;
mod endpoint;
mod rights;
pub(crate) mod discovery;
mod connection;
pub(crate) mod open;
mod groups;
mod operations;
mod claims;
mod round_trips;
mod reads;
mod check;
mod notifications;

use std::sync::Arc;
use std::time::Duration;

use super::{
    Answer, ApplyError, Batch, BatchOutcome, ClaimRequest, Notify, Op, PollResult, Store,
    StoreStats, Unreadable, killed,
};
use crate::values::error::{StoreError, Violation};
use crate::values::server_time::ServerTime;
use crate::values::time::Millis;
use ::redis::Cmd;
use claims::Claiming;
use connection::Connection;
use decode::{Fault, ServerReply, array, bytes, number};
use discovery::Server;
use endpoint::present;
use keys::Keys;
use notifications::Listener;
use open::Opened;
use round_trips::Replicas;
use scripts::{Name, ScriptCall, Scripts};

/// The store on a server.
pub(crate) struct Redis {
    connection: Connection,
    keys: Keys,
    scripts: Scripts,
    /// The kinds of the queue, as far as this process knows them.
    kinds: Vec<Vec<u8>>,
    claiming: Claiming,
    /// Identifies this process.
    owner: [u8; 8],
    lease: Duration,
    /// How long dead jobs, and ids that callers chose, are kept.
    keep_dead: Duration,
    /// The scripts count what happens in each minute.
    history: bool,
    replicas: Replicas,
    /// On a manual clock: the present, which the scripts receive.
    told: Option<Millis>,
    manual: bool,
    /// How often the schedules had changed at the last poll.
    schedules_version: i64,
    /// The jobs and schedules that could not be read since the last commit.
    unreadable: Vec<Unreadable>,
    warning: Option<String>,
    listener: Option<Listener>,
    stats: StoreStats,
    pid: u32,
    /// This node was noted.
    is_noted: bool,
    /// This process has added the queue to the list of queues.
    is_listed: bool,
    /// The number of the last batch of which a full server took only a part. Sent again, the batch has the same part:
    /// otherwise its calls would have other places.
    held_back: Option<u64>,
}

impl Redis {
    /// Makes a store of an opened server. `manual`: the scripts receive the time as an argument.
    pub(crate) fn new(
        server: Server,
        opened: Opened,
        queue: Option<&str>,
        lease: Duration,
        keep_dead: Duration,
        replicas: usize,
        manual: bool,
    ) -> Redis {
        let replicas = Replicas { wanted: replicas, limit: server.timeout / 2 };
        let owner = claims::random().to_be_bytes();
        let owner_text: String = owner.iter().map(|byte| format!("{byte:02x}")).collect();
        Redis {
            connection: Connection::new(server, opened.found, opened.time),
            keys: Keys::new(queue, &owner_text),
            scripts: Scripts::new(),
            kinds: Vec::new(),
            claiming: Claiming::default(),
            owner,
            lease,
            keep_dead,
            history: true,
            replicas,
            told: None,
            manual,
            schedules_version: -1,
            unreadable: Vec::new(),
            warning: opened.warning,
            listener: None,
            stats: StoreStats::default(),
            pid: std::process::id(),
            is_noted: false,
            is_listed: false,
            held_back: None,
        }
    }

    /// Sets whether the scripts count what happens in each minute.
    pub(crate) fn counting_history(self, history: bool) -> Redis {
        Redis { history, ..self }
    }

    /// Returns what tells the claims of this process from those of others.
    pub(crate) fn owner(&self) -> [u8; 8] {
        self.owner
    }

    /// Takes the claims of this owner for its own: for a connection that only asks.
    pub(crate) fn owned_by(self, owner: [u8; 8]) -> Redis {
        Redis { owner, ..self }
    }

    /// Returns the first arguments of every script.
    fn head(&self) -> Vec<Vec<u8>> {
        let told = self.told.map_or(String::new(), |now| now.get().to_string());
        let mut head = vec![told.into_bytes(), self.keys.channel.clone().into_bytes()];
        head.push(self.owner.to_vec());
        head.push(operations::keep_ms(self.keep_dead).into_bytes());
        head.push(if self.history { b"1".to_vec() } else { b"0".to_vec() });
        head.push(self.kinds.len().to_string().into_bytes());
        head.extend(self.kinds.iter().cloned());
        head
    }

    fn lease_ms(&self) -> u64 {
        u64::try_from(self.lease.as_millis()).unwrap_or(u64::MAX).max(1)
    }

    fn commit(&mut self, batch: &Batch<'_>) -> Result<BatchOutcome, ApplyError> {
        let handled = self.claiming.handled.clone();
        let kinds_of = |wanted: &dyn Fn(&Op) -> bool| {
            let kinds = operations::kinds_of(batch.ops, wanted).into_iter();
            kinds.chain(handled.iter().map(|kind| &**kind)).collect::<Vec<_>>()
        };
        let mut needed = kinds_of(&|_| true);
        let mut known = self.make_known(&needed);
        // A full server takes no new kind of a follow-up. Everything else in the batch must not wait for that.
        let is_full = self.held_back == Some(batch.number)
            || matches!(&known, Err(fault) if fault.error == StoreError::Full);
        let is_held_back = |op: &Op| is_full && operations::has_follow_ups(op);
        if batch.ops.iter().any(is_held_back) {
            self.held_back = Some(batch.number);
            needed = kinds_of(&|op| !is_held_back(op));
            known = self.make_known(&needed);
        }
        known.map_err(|fault| fault.into_apply_error(false))?;
        let calls = operations::calls(batch.ops, |op| !is_held_back(op));
        self.is_noted |= batch.ops.iter().any(|op| matches!(op, Op::PutNode { .. }));
        let claim = batch.claim.as_ref().filter(|_| !self.claiming.handled.is_empty());
        if claim.is_some() {
            self.claiming.prepare(batch.number, claims::random());
        }
        // Questions must be answered as of before the claim, which the caller does not know of yet.
        let asks_now = |op: &Op| op.is_question() && !matches!(op, Op::Schedules | Op::Settings);
        let asks = batch.ops.iter().any(asks_now);
        let waits = batch.awaited && self.replicas.are_waited_for(batch.ops);
        let first = claim.filter(|_| !asks && !waits);
        let mut replies = self
            .exchange(&needed, |store| store.commands(batch.number, &calls, waits, first))
            .map_err(|fault| fault.into_apply_error(false))?;
        // The claim is read first, and kept even if other parts of the batch failed.
        let claim_reply = first.and_then(|_| replies.pop());
        let mut outcome = BatchOutcome {
            answers: Vec::with_capacity(batch.ops.len()),
            ..BatchOutcome::default()
        };
        let read = |reply| self.claiming.read(&self.keys, reply, first, &mut outcome).err();
        let mut claim_failed = claim_reply.and_then(read);
        let some_done = replies.iter().any(|reply| matches!(reply, ServerReply::Done(_)));
        let wrong = |fault: Fault| fault.into_apply_error(some_done);
        // The batch is sent again unchanged, and the claim is answered again.
        if let Some(fault) = take_passing(&mut replies) {
            return Err(wrong(fault));
        }
        if waits {
            self.replicas.read(&mut replies, &self.connection.name).map_err(wrong)?;
        }
        for (op, found) in batch.ops.iter().zip(operations::found(batch.ops.len(), &calls, replies))
        {
            let answer = match op {
                op if is_held_back(op) => Ok(Answer::Refused(StoreError::Full)),
                op if op.is_question() => self.question(op),
                op => Ok(operations::answer(op, found)),
            };
            outcome.answers.push(match answer {
                Ok(answer) => answer,
                Err(fault) if fault.again => return Err(wrong(fault)),
                Err(fault) => Answer::Refused(fault.error),
            });
        }
        if first.is_none() && claim.is_some() {
            claim_failed = self.claim_alone(&needed, batch.number, claim, &mut outcome).err();
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

    /// Returns the commands of a batch: its calls, what waits for replicas, and a claim.
    fn commands(
        &self,
        number: u64,
        calls: &[ScriptCall],
        waits: bool,
        claim: Option<&ClaimRequest>,
    ) -> Vec<Cmd> {
        let (keys, head, lease) = (self.keys.all(&self.kinds), self.head(), self.lease_ms());
        let counted = self.claiming.has_counted;
        let numbers = (number, lease);
        let mut all = operations::commands(calls, &self.scripts, &keys, &head, numbers, counted);
        if waits && !calls.is_empty() {
            all.extend(self.replicas.commands(self.keys.sent(), self.connection.left()));
        }
        if let Some(request) = claim {
            let mut cmd = self.scripts.call(self.claiming.script(request), &keys);
            cmd.arg(&head).arg(self.claiming.args(request, lease));
            all.push(cmd);
        }
        all
    }

    /// Claims in a round trip of its own.
    fn claim_alone(
        &mut self,
        needed: &[&str],
        number: u64,
        claim: Option<&ClaimRequest>,
        outcome: &mut BatchOutcome,
    ) -> Result<(), Fault> {
        let mut replies =
            self.exchange(needed, |store| store.commands(number, &[], false, claim))?;
        match replies.pop() {
            Some(reply) => self.claiming.read(&self.keys, reply, claim, outcome),
            None => Ok(()),
        }
    }
}

/// How long a close waits for the server.
const CLOSING: Duration = Duration::from_millis(200);

/// Takes out the first error that is temporary: the same batch may be sent again.
fn take_passing(replies: &mut Vec<ServerReply>) -> Option<Fault> {
    let passes = |reply: &ServerReply| matches!(reply, ServerReply::Wrong(fault) if fault.again);
    match replies.swap_remove(replies.iter().position(passes)?) {
        ServerReply::Wrong(fault) => Some(fault),
        _ => None,
    }
}

impl Store for Redis {
    fn start_runner(&mut self, kinds: &[Arc<str>], now: Millis) -> Result<(), StoreError> {
        self.told = self.manual.then_some(now);
        self.claiming.handled = kinds.to_vec();
        let names: Vec<&str> = kinds.iter().map(|kind| &**kind).collect();
        self.make_known(&names).map_err(|fault| fault.error)
    }

    fn set_kinds_with_rooms(&mut self, kinds: &[Arc<str>]) {
        self.claiming.kinds_with_rooms = kinds.to_vec();
    }

    fn apply(&mut self, batch: &Batch<'_>) -> Result<BatchOutcome, ApplyError> {
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
        let reason = killed();
        loop {
            let args = [reason.clone().into_bytes()];
            let reply = self.run(Name::Poll, &args).map_err(|fault| {
                self.connection.close();
                fault.error
            })?;
            let [_, _, more, version, cancel_requested, names, expired] = &reply[..] else {
                break;
            };
            self.stats.interruptions += u64::try_from(number(expired)?).unwrap_or(0);
            self.unreadable.extend(check::set_aside(&self.keys, names));
            let before = self.schedules_version;
            self.schedules_version = number(version)?;
            poll.changed |= self.schedules_version != before;
            if number(more)? == 0 {
                let ids = array(cancel_requested)?.iter();
                let ids = ids.filter_map(|id| bytes(id).and_then(records::id_of).ok());
                poll.cancel_requested.extend(ids);
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

    fn close(mut self: Box<Self>) -> Result<(), StoreError> {
        let is_mine = self.pid == std::process::id();
        if self.is_noted && is_mine && self.connection.is_open() {
            // A server that does not answer soon forgets the node after a day.
            self.connection.until = present().checked_add(CLOSING);
            let mut cmd = redis::cmd("HDEL");
            cmd.arg(self.keys.nodes()).arg(&self.owner);
            let _ = self.plain(cmd);
        }
        Ok(())
    }
}
