//! Wakers that are called at a tick: a source of timers without a job, a box or a pool.
//!
//! The wakers lie inline in the hierarchies of [`WakerShard`]s, which are made when one is first
//! needed. Each future that waits holds its shard, and a shard points to no engine. So a waiting
//! future keeps memory alive, but no thread; and users of different shards share no reference
//! count.
//!
//! Ground rules, beside those of `wakers/shard.rs`:
//!
//! - Wakers are called on the thread that advances the wheel, and at the end of the wheel on the
//!   thread that ends it. Each is called once, so every waiter learns of the end.
//! - If the tick of a waiter had begun when the wheel ended, its wait is over, whether or not its
//!   waker had been called before. If the tick had not begun, the answer is [`Wait::Ended`].

mod progress;
mod shard;

use std::sync::Arc;
use std::task::Waker;

use crate::engine::sources::Source;
use crate::engine::timers::{Due, Tally};
use crate::host::sync::{Mutex, lock};
use crate::structure::Geometry;
use crate::values::time::Tick;
pub(crate) use shard::{Registration, Reset, Wait, WakerContext, WakerShard};

/// The wakers of one wheel.
pub(crate) struct Wakers {
    shards: Box<[Arc<WakerShard>]>,
    /// Memory that every advance uses again.
    due: Mutex<Vec<Due<Waker>>>,
}

impl Wakers {
    pub(crate) fn new(shards: usize, geometry: &Geometry, context: WakerContext) -> Wakers {
        let shards = WakerShard::several(shards, geometry, usize::MAX, context);
        Wakers { shards, due: Mutex::new(Vec::new()) }
    }

    /// The shard for the thread with this number.
    pub(crate) fn shard(&self, thread: u32) -> &Arc<WakerShard> {
        &self.shards[thread as usize % self.shards.len()]
    }

    pub(crate) fn tallies(&self) -> impl Iterator<Item = Tally> {
        self.shards.iter().map(|shard| shard.tally())
    }
}

impl Source for Wakers {
    fn next_due(&self) -> Tick {
        self.shards.iter().map(|shard| shard.next_due()).min().unwrap_or(Tick::MAX)
    }

    fn earliest_deadline(&self) -> Tick {
        self.shards.iter().map(|shard| shard.earliest_deadline()).min().unwrap_or(Tick::MAX)
    }

    fn advance(&self, to: Tick, limit: usize) -> bool {
        let mut due = core::mem::take(&mut *lock(&self.due));
        let mut left = limit;
        let finished = self.shards.iter().all(|shard| shard.advance(to, &mut left, &mut due));
        *lock(&self.due) = due;
        finished
    }

    fn close(&self, present: Tick) {
        for shard in &self.shards {
            shard.close(present);
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::shard::tests::{WakesInHooks, context};
    use super::*;
    use core::sync::atomic::{AtomicUsize, Ordering};

    /// The limit of an advance is the number of wakers that it wakes in all shards together.
    #[test]
    fn advance_limit_counts_for_all_shards_together() {
        let wakers = Wakers::new(3, &Geometry::default(), context());
        let wakes = Arc::new(WakesInHooks(AtomicUsize::new(0)));
        for thread in [0, 0, 1, 1, 1, 2, 2] {
            let waker = Waker::from(Arc::clone(&wakes));
            wakers.shard(thread).poll(&mut None, Tick::new(5), &waker);
        }
        for (woken, finished) in [(3, false), (6, false), (7, true)] {
            assert_eq!(wakers.advance(Tick::new(5), 3), finished);
            assert_eq!(wakes.0.load(Ordering::Relaxed), woken);
        }
    }
}
