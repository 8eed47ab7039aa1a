//! When each job started in this process.

use std::sync::{Mutex, PoisonError};

use crate::Payload;
use crate::commands::now_ns;

/// A run that began.
#[derive(Clone, Copy)]
pub(crate) struct Started {
    pub(crate) number: u64,
    /// In µs since 1970.
    pub(crate) due: u64,
    /// In ns since 1970.
    pub(crate) at: u64,
}

static STARTED: Mutex<Vec<Started>> = Mutex::new(Vec::new());

/// Notes that the handler of a job has started.
pub fn ran(payload: &Payload) {
    let started = Started { number: payload.number, due: payload.due, at: now_ns() };
    STARTED.lock().unwrap_or_else(PoisonError::into_inner).push(started);
}

pub(crate) fn count() -> usize {
    STARTED.lock().unwrap_or_else(PoisonError::into_inner).len()
}

pub(crate) fn all() -> Vec<Started> {
    STARTED.lock().unwrap_or_else(PoisonError::into_inner).clone()
}
