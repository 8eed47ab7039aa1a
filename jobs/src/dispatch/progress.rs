//! The progress that runs have set and the machine has not taken yet.
//!
//! Ground rules:
//!
//! - A handler leaves its progress here and goes on: it waits neither for the store nor for the dispatcher.
//! - Only the latest progress of a run is kept. The machine takes all of it with its next step.
//! - A machine takes no lock while no handler sets progress.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};

use foldhash::HashMap;

use crate::values::id::JobId;
use crate::values::id::{Claim, Fence};

/// The latest progress of each run, as JSON.
pub(crate) type Latest = HashMap<Claim, Vec<u8>>;

#[derive(Default)]
pub(crate) struct Progress {
    latest: Mutex<Latest>,
    is_any: AtomicBool,
}

impl Progress {
    pub(crate) fn set(&self, id: JobId, fence: Fence, value: Vec<u8>) {
        let mut latest = self.latest.lock().unwrap_or_else(PoisonError::into_inner);
        latest.insert((id, fence), value);
        self.is_any.store(true, Ordering::Release);
    }

    /// Takes everything. Returns `None` if there is nothing.
    pub(crate) fn take(&self) -> Option<Latest> {
        if !self.is_any.load(Ordering::Acquire) {
            return None;
        }
        let mut latest = self.latest.lock().unwrap_or_else(PoisonError::into_inner);
        self.is_any.store(false, Ordering::Release);
        Some(core::mem::take(&mut latest))
    }
}
