//! The way from a caller to the dispatcher, and back.
//!
//! Ground rules:
//!
//! - A command is refused in a process that was forked since the store was opened.
//! - A caller waits without a limit: the dispatcher answers every command, or drops its reply when it
//!   ends, which the caller notices.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use crossbeam_channel::{Receiver, TryRecvError, bounded};

use super::clock::Clock;
use super::command::Command;
use super::events::dispatcher_is_busy;
use super::metrics::Metrics;
use crate::store::words::{Answer, ApplyError, Op};
use crate::values::error::{StoreError, Violation};
use crate::values::info::Durability;

/// Sends a command. Returns `false` if there is no dispatcher any more.
pub(crate) type Send = Box<dyn Fn(Command) -> bool + core::marker::Send + Sync>;

type Answered = Result<Answer, ApplyError>;

/// How often a lone caller lets other threads run before it sleeps.
const YIELDS: u32 = 64;

/// The way to a dispatcher.
pub(crate) struct Link {
    pub(crate) commands: Send,
    /// The caller of `commands` makes the step itself.
    pub(crate) inline: bool,
    pub(crate) clock: Clock,
    pub(crate) metrics: Arc<Metrics>,
    /// What an insert waits for.
    pub(crate) durability: Durability,
    /// How many callers wait for an answer.
    pub(crate) waiting: AtomicUsize,
    pub(crate) closed: AtomicBool,
    pub(crate) pid: u32,
    /// The kinds that are handled here.
    pub(crate) kinds: Vec<Arc<str>>,
    /// The file of the store, for transactions of the caller's.
    #[cfg(feature = "sqlite")]
    pub(crate) file: Option<crate::store::sqlite::open::Location>,
}

impl Link {
    /// Asks, and waits for the answer.
    pub(crate) fn ask(&self, op: Op) -> Result<Answer, ApplyError> {
        self.refuse_here()?;
        let (reply, answer) = bounded(1);
        self.waiting.fetch_add(1, Ordering::Relaxed);
        let sent = self.send(Command::Ask { op, reply: Some(reply) });
        let answer = sent.map(|()| self.early(&answer).unwrap_or_else(|| answer.recv().ok()));
        self.waiting.fetch_sub(1, Ordering::Relaxed);
        // The dispatcher has ended: by a panic, or because the command came after its last step.
        answer?.unwrap_or_else(|| {
            let unknown = !self.closed.load(Ordering::Acquire);
            Err(ApplyError { error: StoreError::Closed, unknown, again: false })
        })
    }

    /// Returns the answer if it comes within the time that a commit without a disk takes. A lone caller
    /// who slept meanwhile would wait longer for being woken than for the commit.
    fn early(&self, answer: &Receiver<Answered>) -> Option<Option<Answered>> {
        if self.inline || self.durability == Durability::Synced {
            return None;
        }
        for _ in 0..YIELDS {
            match answer.try_recv() {
                Ok(answer) => return Some(Some(answer)),
                Err(TryRecvError::Disconnected) => return Some(None),
                Err(TryRecvError::Empty) if self.waiting.load(Ordering::Relaxed) > 1 => break,
                Err(TryRecvError::Empty) => std::thread::yield_now(),
            }
        }
        None
    }

    /// Asks, and does not wait. The operation is in the store once a later flush is answered.
    pub(crate) fn post(&self, op: Op) -> Result<(), ApplyError> {
        self.refuse_here()?;
        if self.closed.load(Ordering::Acquire) {
            return Err(StoreError::Closed.into());
        }
        self.send(Command::Ask { op, reply: None })
    }

    pub(crate) fn send(&self, command: Command) -> Result<(), ApplyError> {
        if (self.commands)(command) { Ok(()) } else { Err(StoreError::Closed.into()) }
    }

    pub(crate) fn handles(&self, kind: &str) -> bool {
        self.kinds.iter().any(|handled| **handled == *kind)
    }

    pub(crate) fn check(&self) -> Result<(), Violation> {
        self.refuse_here().map_err(|failed| failed.error)?;
        let (reply, found) = bounded(1);
        self.send(Command::Check(reply)).map_err(|failed| failed.error)?;
        found.recv().unwrap_or_else(|_| Err(StoreError::Closed.into()))
    }

    /// Refuses a process that was forked, and the dispatcher's own thread.
    fn refuse_here(&self) -> Result<(), ApplyError> {
        if std::process::id() != self.pid {
            return Err(StoreError::Forked.into());
        }
        if dispatcher_is_busy() {
            let reason = "on_event runs on the dispatcher's thread, which cannot wait for itself";
            return Err(StoreError::Other(reason.to_owned()).into());
        }
        Ok(())
    }
}
