//! `DelayQueue` of tokio-util, on a runtime whose clock stands still until it is moved.
//!
//! Ground rules:
//!
//! - The queue asks the runtime's own timer when to look, so an advance has to turn the runtime once. A
//!   program would sleep through ticks with nothing due; here each of them costs a turn, about 400 ns. With
//!   few timers and a clock that moves tick by tick, these turns are most of the measured time.
//! - A queue starts at the present of the clock, which is its tick 0.
//! - The runtime is made once, for all queues of the process, and is never left.

use std::future::poll_fn;
use std::sync::LazyLock;
use std::task::Poll;

use tokio::runtime::{Builder, Runtime};
use tokio::task::coop::unconstrained;
use tokio::time::{Duration, Instant, advance};
use tokio_util::time::DelayQueue;
use tokio_util::time::delay_queue::Key;

use crate::structures::timers::Timers;

static RUNTIME: LazyLock<Runtime> = LazyLock::new(|| {
    let runtime = Builder::new_current_thread().enable_time().start_paused(true).build();
    runtime.expect("a runtime without threads")
});

pub(crate) struct Queue {
    queue: DelayQueue<u64>,
    start: Instant,
    now: u64,
}

impl Timers for Queue {
    const NAME: &'static str = "DelayQueue";
    const EXACT_CANCEL: bool = true;
    const ORDERED: bool = true;

    type Key = Key;
    type Due = u64;

    fn new() -> Queue {
        // The queue needs the runtime around it wherever it is used.
        std::mem::forget(RUNTIME.enter());
        Queue { queue: DelayQueue::new(), start: Instant::now(), now: 0 }
    }

    fn insert(&mut self, deadline: u64, value: u64) -> Key {
        self.queue.insert_at(value, self.start + Duration::from_millis(deadline))
    }

    fn cancel(&mut self, key: &mut Key) -> bool {
        self.queue.try_remove(key).is_some()
    }

    fn reset(&mut self, key: &mut Key, deadline: u64, _value: u64) -> bool {
        self.queue.reset_at(key, self.start + Duration::from_millis(deadline));
        true
    }

    fn advance(&mut self, to: u64, due: &mut Vec<u64>) {
        let step = Duration::from_millis(to - self.now);
        self.now = to;
        let queue = &mut self.queue;
        // Without a budget: the runtime would stop a task that has taken 128 timers out.
        RUNTIME.block_on(unconstrained(async {
            advance(step).await;
            poll_fn(|context| {
                while let Poll::Ready(Some(expired)) = queue.poll_expired(context) {
                    due.push(expired.into_inner());
                }
                Poll::Ready(())
            })
            .await;
        }));
    }
}
