//! What the calls of futures need: a thread that asks for them, and timers for their limits.

use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use tickwheel::{Handle, Wheel};

use super::call::Shared;
use super::helper::Helper;
use crate::values::error::StoreError;

/// The tick of the timers: a call gives up so much late.
const TICK: Duration = Duration::from_millis(5);

/// Started by the first future that calls, and ended with the jobs, or with the last client.
#[derive(Default)]
pub(crate) struct Futures {
    pub(crate) helper: Arc<Helper>,
    limits: OnceLock<Option<Wheel>>,
}

impl Futures {
    /// Wakes the future of a call at a time. Returns the timer; none if the jobs have ended, which the call
    /// finds out by itself.
    pub(crate) fn wake_at(
        &self,
        until: Instant,
        shared: Arc<Shared>,
    ) -> Result<Option<Handle>, StoreError> {
        let wheel = self.limits.get_or_init(|| {
            let wheel = Wheel::builder().tick(TICK).threads(1).name("tickwheel-jobs-limits");
            wheel.build().ok()
        });
        let Some(wheel) = wheel else {
            return Err(StoreError::Other("no thread for the limits of calls".to_owned()));
        };
        Ok(wheel.try_insert(until, move || shared.wake()).ok())
    }

    /// The call has ended.
    pub(crate) fn forget(&self, timer: Option<Handle>) {
        if let (Some(Some(wheel)), Some(timer)) = (self.limits.get(), timer) {
            wheel.cancel(timer);
        }
    }

    /// Ends the threads: every call has its answer.
    pub(crate) fn end(&self) {
        self.helper.end();
        if let Some(Some(wheel)) = self.limits.get() {
            drop(wheel.close());
        }
    }
}
