//! `tickwheel`, as it comes: ticks of a millisecond, a pool thread for each core.

use std::sync::Arc;
use std::time::{Duration, Instant};

use ::tickwheel::{Handle, Wheel};

use crate::threads::timer::{Timer, capture};

#[derive(Clone)]
pub(in crate::threads) struct Ours {
    wheel: Arc<Wheel>,
}

impl Ours {
    /// With a pool of so many threads.
    pub(in crate::threads) fn with_threads(threads: usize) -> Result<Ours, String> {
        let wheel = Wheel::builder().threads(threads).build().map_err(|error| error.to_string())?;
        Ok(Ours { wheel: Arc::new(wheel) })
    }
}

impl Timer for Ours {
    const NAME: &'static str = "tickwheel";
    type Job = Handle;
    type Timeout = Handle;

    fn start() -> Ours {
        Ours { wheel: Arc::new(Wheel::new()) }
    }

    fn insert_at(&mut self, at: Instant, job: impl FnOnce() + Send + 'static) -> Handle {
        self.wheel.insert(at, job)
    }

    fn cancel_job(&mut self, job: Handle) -> bool {
        self.wheel.cancel(job)
    }

    fn timeout(&mut self, delay: Duration, number: u64) -> Handle {
        self.wheel.insert(delay, capture(number))
    }

    fn cancel(&mut self, timeout: Handle) -> bool {
        self.wheel.cancel(timeout)
    }
}
