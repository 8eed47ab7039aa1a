//! Sends a pipeline of commands, uploads scripts and kinds that are missing, and sends the pipeline again.
//!
//! Ground rules:
//!
//! - The server may have lost the scripts, and may know other kinds than this process. A script call that
//!   fails with NOSCRIPT or with unknown kinds has done nothing, so it is sent again.
//! - A kind is stored on the server before the first job of it is stored or claimed.

use redis::{Cmd, Value};

use super::Redis;
use super::decode::{Fault, Reply, reply, time_of};
use super::keys::LAYOUT;
use super::scripts::Name;
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
    ) -> Result<Vec<Reply>, Fault> {
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
                    self.claiming.expect_late_copy();
                    may_be_done |= failure.sent;
                    // A dropped connection is made again once: the server may have closed it while it was idle.
                    if !failure.dropped || reconnects == 0 {
                        return Err(Fault { sent: may_be_done, ..failure.into() });
                    }
                    reconnects -= 1;
                    continue;
                }
            };
            let times = answers.iter().rev().filter_map(time_of);
            if let Some(time) = times.take(1).next() {
                self.connection.time.learn(sent, came, time);
            }
            let replies: Vec<Reply> = answers.into_iter().map(reply).collect();
            may_be_done |= replies.iter().any(|reply| matches!(reply, Reply::Done(_)));
            if replies.iter().any(|reply| matches!(reply, Reply::Unloaded)) {
                let loaded = self.connection.send(&self.scripts.loading());
                loaded.map_err(|failure| Fault { sent: may_be_done, ..failure.into() })?;
                continue;
            }
            let kinds = replies.iter().rev().find_map(|reply| match reply {
                Reply::Kinds(all) => Some(all.clone()),
                _ => None,
            });
            let has_lanes = replies.iter().rev().find_map(|reply| match reply {
                Reply::Lanes(has_lanes) => Some(*has_lanes),
                _ => None,
            });
            let has_places = replies.iter().any(|reply| matches!(reply, Reply::Places));
            self.claiming.has_lanes = has_lanes.unwrap_or(self.claiming.has_lanes);
            self.claiming.has_counted |= has_places;
            if kinds.is_none() && (has_lanes.is_some() || has_places) {
                continue;
            }
            match kinds {
                Some(kinds) => {
                    self.kinds = kinds;
                    // A server that has lost its data has lost the needed kinds too.
                    let known = self.make_known(needed);
                    known.map_err(|fault| Fault { sent: may_be_done || fault.sent, ..fault })?;
                }
                None => {
                    let name = |reply| match reply {
                        Reply::Wrong(fault) => Reply::Wrong(self.name_the_key(fault)),
                        reply => reply,
                    };
                    return Ok(replies.into_iter().map(name).collect());
                }
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
            Some(Reply::Done(fields)) => Ok(fields),
            Some(Reply::Wrong(fault)) => Err(fault),
            Some(Reply::Full) => Err(Fault { sent: false, ..StoreError::Full.into() }),
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
                Some(Reply::Kinds(kinds)) => {
                    self.kinds = kinds;
                    self.list_queue();
                    return Ok(());
                }
                Some(Reply::Unloaded) => drop(self.connection.send(&self.scripts.loading())?),
                Some(Reply::Wrong(fault)) => return Err(Fault { sent: false, ..fault }),
                Some(Reply::Full) => return Err(Fault { sent: false, ..StoreError::Full.into() }),
                _ => break,
            }
        }
        Err(StoreError::Other("the server does not take a kind".to_owned()).into())
    }
}
