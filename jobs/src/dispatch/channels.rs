//! The way to the dispatcher's thread: two channels.
//!
//! Ground rules:
//!
//! - The channel of callers is bounded, so callers wait for a slow disk: a thread waits for room, and a future
//!   leaves its waker.
//! - A future that finds no room leaves its waker first, and then tries once more. The dispatcher checks for
//!   wakers after it has made room. So no future misses room.

use core::task::Waker;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use crossbeam_channel::{SendError, SendTimeoutError, Sender, TrySendError};

use super::command::Command;
use super::dispatcher_handle::{Sent, Way};
use super::events::wake;

/// The sending ends.
pub(crate) struct Channels {
    pub(crate) commands: Sender<Command>,
    pub(crate) urgent: Sender<Command>,
    pub(crate) room: Arc<Room>,
}

/// Futures that wait for room in the channel.
#[derive(Default)]
pub(crate) struct Room {
    is_wanted: AtomicBool,
    wakers: Mutex<Vec<Waker>>,
}

impl Room {
    fn want(&self, waker: Waker) {
        self.wakers.lock().unwrap_or_else(PoisonError::into_inner).push(waker);
        self.is_wanted.store(true, Ordering::SeqCst);
    }

    /// Wakes the futures: there is room now, or there is no dispatcher any more.
    pub(crate) fn made(&self) {
        if self.is_wanted.load(Ordering::SeqCst) {
            self.is_wanted.store(false, Ordering::SeqCst);
            let wakers =
                core::mem::take(&mut *self.wakers.lock().unwrap_or_else(PoisonError::into_inner));
            wake(wakers, true);
        }
    }
}

impl Way for Channels {
    fn send(&self, command: Command) -> Sent {
        let until = command.call().and_then(|(_, until)| until);
        let sent = match until {
            Some(until) => self.commands.send_deadline(command, until),
            None => self
                .commands
                .send(command)
                .map_err(|SendError(it)| SendTimeoutError::Disconnected(it)),
        };
        match sent {
            Ok(()) => Sent::Yes,
            Err(SendTimeoutError::Timeout(_)) => Sent::TimedOut,
            Err(SendTimeoutError::Disconnected(_)) => Sent::Closed,
        }
    }

    fn urge(&self, command: Command) -> Sent {
        match self.urgent.send(command) {
            Ok(()) => Sent::Yes,
            Err(SendError(_)) => Sent::Closed,
        }
    }

    fn try_send(&self, command: &mut Option<Command>, waker: &Waker) -> Option<Sent> {
        self.try_once(command).or_else(|| {
            self.room.want(waker.clone());
            self.try_once(command)
        })
    }
}

impl Channels {
    /// Says whether no command waits for the dispatcher.
    pub(crate) fn are_empty(&self) -> bool {
        self.commands.is_empty() && self.urgent.is_empty()
    }

    fn try_once(&self, command: &mut Option<Command>) -> Option<Sent> {
        match self.commands.try_send(command.take()?) {
            Ok(()) => Some(Sent::Yes),
            Err(TrySendError::Disconnected(_)) => Some(Sent::Closed),
            Err(TrySendError::Full(full)) => {
                *command = Some(full);
                None
            }
        }
    }
}
