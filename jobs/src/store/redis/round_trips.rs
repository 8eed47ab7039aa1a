//! Sends a pipeline of commands, uploads scripts and kinds that are missing, sends the pipeline again, and waits until
//! enough replicas have the changes.
//!
//! Ground rules:
//!
//! - The server may have lost the scripts, and may know other kinds than this process. A script call that
//!   fails with NOSCRIPT or with unknown kinds has done nothing, so it is sent again.
//! - A kind is stored on the server before the first job of it is stored or claimed. A process that first stores a
//!   kind of its queue adds the queue to the list of queues, a set of names, so that the command lists them without a
//!   walk over all keys. The list is for people: if the user lacks the right, or the node of a cluster that has the
//!   key does not answer at once, nothing else fails or waits.
//! - A batch waits for replicas (`WAIT`, in the round trip of the changes) only if a caller waits for the answer to
//!   one of its changes: an insert, a cancel, a reschedule, a retry, a delete, a schedule. Claims, renewals and the
//!   ends of runs do not wait: a failover that forgets one of those runs a job again, and loses none.
//! - If too few replicas have the changes, the batch is sent again unchanged, and changes nothing the
//!   second time. `WAIT` counts the replicas that have the latest write of its own connection, and counts
//!   all of them if the connection wrote nothing. So a write comes before each `WAIT`.
//! - A claim is sent after the replicas have the changes. Otherwise a process that cannot answer its
//!   callers would hold jobs that it does not start.

use std::time::Duration;

use redis::{Cmd, Value};

use super::Redis;
use super::check::named_in;
use super::claims::Claiming;
use super::decode::{Fault, ServerReply, reply, time_of};
use super::endpoint::{ask, present};
use super::keys::LAYOUT;
use super::scripts::Name;
use crate::store::Op;
use crate::values::error::StoreError;

/// The most times that one pipeline is sent because scripts or kinds were missing.
const ROUNDS: usize = 8;

impl Redis {
    /// Sends the commands that `commands` makes, until the server knows every script and the `needed` kinds,
    /// and this process knows every kind.
    pub(super) fn exchange(
        &mut self,
        needed: &[&str],
        commands: impl Fn(&Redis) -> Vec<Cmd>,
    ) -> Result<Vec<ServerReply>, Fault> {
        if std::process::id() != self.pid {
            return Err(Fault { sent: false, ..StoreError::Forked.into() });
        }
        let mut reconnects = 1;
        // An earlier round may have done a part of the commands.
        let mut may_be_done = false;
        for _ in 0..ROUNDS {
            let commands = commands(self);
            if commands.is_empty() {
                return Ok(Vec::new());
            }
            let (answers, sent, came) = match self.connection.send(&commands) {
                Ok(answered) => answered,
                Err(failure) => {
                    self.claiming.again = true;
                    may_be_done |= failure.sent;
                    // A dropped connection is made again once: the server may have closed it while it was idle.
                    if !failure.dropped || reconnects == 0 {
                        return Err(Fault { sent: may_be_done, ..failure });
                    }
                    reconnects -= 1;
                    continue;
                }
            };
            let times = answers.iter().rev().filter_map(time_of);
            if let Some(time) = times.take(1).next() {
                self.connection.time.learn(sent, came, time);
            }
            let replies: Vec<ServerReply> = answers.into_iter().map(reply).collect();
            // If the pipeline is sent again, the answers that are given again name no values.
            self.unreadable.extend(named_in(&replies, &self.keys));
            may_be_done |= replies.iter().any(|reply| matches!(reply, ServerReply::Done(_)));
            if replies.iter().any(|reply| matches!(reply, ServerReply::Unloaded)) {
                let loaded = self.connection.send(&self.scripts.loading());
                loaded.map_err(|failure| Fault { sent: may_be_done, ..failure })?;
                continue;
            }
            let Claiming { has_lanes, has_counted, .. } = &mut self.claiming;
            let (mut kinds, mut is_answered) = (None, true);
            for reply in &replies {
                match reply {
                    ServerReply::Kinds(all) => kinds = Some(all.clone()),
                    ServerReply::Lanes(has) => (*has_lanes, is_answered) = (*has, false),
                    ServerReply::Places => (*has_counted, is_answered) = (true, false),
                    _ => {}
                }
            }
            if let Some(kinds) = kinds {
                self.kinds = kinds;
                // A server that has lost its data has lost the needed kinds too.
                let known = self.make_known(needed);
                known.map_err(|fault| Fault { sent: may_be_done || fault.sent, ..fault })?;
            } else if is_answered {
                let name = |reply| match reply {
                    ServerReply::Wrong(fault) => ServerReply::Wrong(self.name_the_key(fault)),
                    reply => reply,
                };
                return Ok(replies.into_iter().map(name).collect());
            }
        }
        Err(Fault { again: true, ..StoreError::Other("the server forgets scripts".into()).into() })
    }

    /// Calls one script that is no part of a batch.
    pub(super) fn run(&mut self, name: Name, args: &[Vec<u8>]) -> Result<Vec<Value>, Fault> {
        let call = |store: &Redis| {
            let mut cmd = store.scripts.call(name, &store.keys.all(&store.kinds));
            cmd.arg(store.head()).arg(args);
            vec![cmd]
        };
        match self.exchange(&[], call)?.pop() {
            Some(ServerReply::Done(fields)) => Ok(fields),
            Some(ServerReply::Wrong(fault)) => Err(fault),
            Some(ServerReply::Full) => Err(Fault { sent: false, ..StoreError::Full.into() }),
            _ => Err(StoreError::Other("a script has no answer".to_owned()).into()),
        }
    }

    /// Stores kinds on the server that this process does not know to be there.
    pub(super) fn make_known(&mut self, kinds: &[&str]) -> Result<(), Fault> {
        let unknown = |kind: &&&str| !self.kinds.iter().any(|known| known == kind.as_bytes());
        let mut new: Vec<&str> = kinds.iter().filter(unknown).copied().collect();
        new.sort_unstable();
        new.dedup();
        if new.is_empty() {
            return Ok(());
        }
        let keys = [self.keys.kinds(), self.keys.meta()].map(|key| key.as_bytes().to_vec());
        let mut call = self.scripts.call(Name::Kinds, &keys);
        call.arg(LAYOUT).arg(&new);
        for _ in 0..2 {
            let (answers, ..) = self.connection.send(std::slice::from_ref(&call))?;
            match answers.into_iter().next().map(reply) {
                Some(ServerReply::Kinds(kinds)) => {
                    self.kinds = kinds;
                    self.list_queue();
                    return Ok(());
                }
                Some(ServerReply::Unloaded) => drop(self.connection.send(&self.scripts.loading())?),
                Some(ServerReply::Wrong(fault)) => return Err(Fault { sent: false, ..fault }),
                Some(ServerReply::Full) => {
                    return Err(Fault { sent: false, ..StoreError::Full.into() });
                }
                _ => break,
            }
        }
        Err(StoreError::Other("the server does not take a kind".to_owned()).into())
    }
}

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
    pub(super) fn read(self, replies: &mut Vec<ServerReply>, server: &str) -> Result<(), Fault> {
        let answers = replies.split_off(replies.len().saturating_sub(COMMANDS));
        let mut counts = Vec::new();
        for answer in answers {
            match answer {
                ServerReply::Count(count) => counts.push(count),
                ServerReply::Wrong(fault) => return Err(Fault { sent: true, ..fault }),
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
                Err(Fault { again: true, ..StoreError::Io(text).into() })
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
            | Op::ReplaceSetting { .. }
            | Op::Hold { .. }
    )
}

/// Its hash tag is that of the queue `queues`, with which it shares a slot of a cluster, and no more.
const TAG: &str = "queues";

/// How long a process waits for the node of a cluster that has the list.
const WAIT: Duration = Duration::from_millis(250);

impl Redis {
    /// Adds the queue to the list, once in the life of a process. If the node that has it does not answer, the
    /// process tries again when it stores another kind.
    pub(super) fn list_queue(&mut self) {
        if core::mem::replace(&mut self.is_listed, true) {
            return;
        }
        let server = &self.connection.server;
        let mut add = redis::cmd("SADD");
        add.arg(format!("tw:{{{TAG}}}:names")).arg(server.hash_tag.trim_matches(['{', '}']));
        if !server.is_cluster() {
            let _ = self.plain(add);
        } else {
            let soon = present() + WAIT;
            let until = self.connection.until.map_or(soon, |until| until.min(soon));
            // The node that has the list may be another one than that of the queue.
            let found = server.clone().apart().with_queue(Some(TAG)).connect(Some(until));
            let added = found.ok().and_then(|mut found| ask(&mut found.connection, &add).ok());
            self.is_listed = added.is_some();
        }
    }
}
