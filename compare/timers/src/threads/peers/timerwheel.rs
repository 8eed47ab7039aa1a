//! `timerwheel` with its finest tick, a millisecond, and two workers. Its bounds are set so high
//! that nothing is refused. A cancelled timer stays in the wheel until its time has come.

use std::sync::Arc;
use std::time::{Duration, Instant};

use ::timerwheel::executor::Pool;
use ::timerwheel::{BackpressurePolicy, Timeout, Timer};

use crate::threads::timer::{self, capture, wait_for, whole_millis_until};

/// More than any work has pending or due at once.
const ENOUGH: usize = 1 << 22;

#[derive(Clone)]
pub(in crate::threads) struct TimerWheel {
    timer: Arc<Timer>,
}

impl timer::Timer for TimerWheel {
    const NAME: &'static str = "timerwheel";
    type Job = Timeout;
    type Timeout = Timeout;

    fn start() -> TimerWheel {
        let pool = Pool::builder().workers(2).queue_capacity(ENOUGH).build();
        let timer = Timer::builder()
            .tick(Duration::from_millis(1))
            .max_pending(ENOUGH)
            // A producer that is too fast waits.
            .backpressure_policy(BackpressurePolicy::Block)
            .executor(Arc::new(pool.expect("the pool starts")))
            .build();
        TimerWheel { timer: Arc::new(timer.expect("the timer starts")) }
    }

    fn insert_at(&mut self, at: Instant, job: impl FnOnce() + Send + 'static) -> Timeout {
        self.timer.schedule(whole_millis_until(at), job).expect("there is room")
    }

    fn cancel_job(&mut self, job: Timeout) -> bool {
        job.cancel()
    }

    fn timeout(&mut self, delay: Duration, number: u64) -> Timeout {
        self.timer.schedule(delay, capture(number)).expect("there is room")
    }

    fn cancel(&mut self, timeout: Timeout) -> bool {
        timeout.cancel()
    }

    /// Producers send messages, which are worked off in order.
    fn settle(&mut self) {
        wait_for(|call| drop(self.timer.schedule(Duration::ZERO, call)));
    }
}
