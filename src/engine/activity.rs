//! The ticker's present activity, which tells a shutdown how long to wait for the ticker.
//!
//! Ground rules:
//!
//! - The ticker's own work ends soon, and meanwhile the ticker may hold jobs that are in no shard
//!   and in no queue. A shutdown waits until that work has ended, even beyond its limit.
//! - A delivery is user code and may take any time. The ticker holds no job then, and hands none
//!   over afterwards if the engine was stopped meanwhile. So a shutdown waits for a delivery only
//!   until its limit.
//! - A notification is a system call, so the ticker sends one only if a thread waits.

use crate::host::clock::Limit;
use crate::host::sync::{Condvar, Mutex, lock, wait, wait_timeout};

pub(crate) struct Activity {
    state: Mutex<State>,
    changed: Condvar,
}

struct State {
    phase: Phase,
    /// How many threads wait for the end of the ticker.
    waiting: usize,
}

#[derive(Clone, Copy)]
enum Phase {
    /// It does its own work, or sleeps.
    Works,
    /// It delivers the due timers of a source, or reports refused threads.
    Delivers,
    Ended,
}

impl Activity {
    pub(crate) fn new() -> Activity {
        let state = State { phase: Phase::Works, waiting: 0 };
        Activity { state: Mutex::new(state), changed: Condvar::new() }
    }

    /// Calls `call`, which delivers.
    pub(crate) fn deliver<R>(&self, call: impl FnOnce() -> R) -> R {
        self.change(Phase::Delivers);
        let result = call();
        self.change(Phase::Works);
        result
    }

    /// Notes that the ticker has ended.
    pub(crate) fn end(&self) {
        self.change(Phase::Ended);
    }

    fn change(&self, phase: Phase) {
        let mut state = lock(&self.state);
        state.phase = phase;
        if state.waiting > 0 {
            self.changed.notify_all();
        }
    }

    /// Waits until the ticker of a stopped engine has ended, or until it delivers and the limit has
    /// passed. Returns whether it has ended.
    pub(crate) fn wait(&self, limit: &Limit) -> bool {
        let mut state = lock(&self.state);
        state.waiting += 1;
        let ended = loop {
            state = match state.phase {
                Phase::Ended => break true,
                Phase::Delivers if limit.has_passed() => break false,
                Phase::Delivers => wait_timeout(&self.changed, state, limit.remaining()),
                Phase::Works => wait(&self.changed, state),
            };
        };
        state.waiting -= 1;
        ended
    }
}
