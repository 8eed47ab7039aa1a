//! The helper's thread and the timers for the calls of futures.

use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use tickwheel::{Handle, Wheel};

use super::call::Shared;
use super::helper::Helper;
use crate::values::error::StoreError;

/// The tick of the timers, by which a call may give up late.
const TICK: Duration = Duration::from_millis(5);

/// Both start with the first future that calls, and end with the jobs or with the last client.
#[derive(Default)]
pub(crate) struct Futures {
    pub(crate) helper: Arc<Helper>,
    limits: OnceLock<Option<Wheel>>,
}

impl Futures {
    /// Wakes the future of a call at `until`. Returns the timer, or none if the jobs have ended: the call
    /// notices that by itself.
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

    /// Cancels the timer of a call that has ended.
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
