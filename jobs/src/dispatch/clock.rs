//! Where the present comes from: a wheel's clocks, or, where there is no wheel, the system's.

use std::time::{Instant, SystemTime};

use tickwheel::Scheduler;

use crate::values::time::Now;

/// The clocks of a process.
#[derive(Clone)]
pub(crate) enum Clock {
    Wheel(Scheduler),
    System,
}

impl Clock {
    #[expect(clippy::disallowed_methods, reason = "the one place that reads the system's clocks")]
    pub(crate) fn now(&self) -> Now {
        match self {
            Clock::Wheel(wheel) => Now { wall: wheel.wall_now(), instant: wheel.now() },
            Clock::System => Now { wall: SystemTime::now(), instant: Instant::now() },
        }
    }
}
