//! The reference of a sleep to its shard, of which each thread keeps one at hand.
//!
//! A thread that makes and drops one sleep after the other uses the same reference again and again,
//! and does not write to the count of references: two atomic additions less for each sleep.
//!
//! The reference at hand keeps the memory of one shard, also of a wheel that has ended, when a shard
//! is small and empty: until the thread makes or drops a sleep of another shard, or ends.

use core::cell::Cell;
use core::ops::Deref;
use std::sync::Arc;

use crate::engine::wakers::WakerShard;

thread_local! {
    static AT_HAND: Cell<Option<Arc<WakerShard>>> = const { Cell::new(None) };
}

pub(super) struct ShardRef {
    /// `None` only while it is being dropped.
    shard: Option<Arc<WakerShard>>,
}

impl ShardRef {
    #[inline]
    pub(super) fn new(shard: &Arc<WakerShard>) -> ShardRef {
        // A thread that ends has none at hand.
        let at_hand = AT_HAND.try_with(Cell::take).ok().flatten();
        let at_hand = at_hand.filter(|at_hand| Arc::ptr_eq(at_hand, shard));
        ShardRef { shard: Some(at_hand.unwrap_or_else(|| Arc::clone(shard))) }
    }
}

impl Deref for ShardRef {
    type Target = WakerShard;

    #[inline]
    fn deref(&self) -> &WakerShard {
        self.shard.as_ref().expect("it is not being dropped")
    }
}

impl Drop for ShardRef {
    #[inline]
    fn drop(&mut self) {
        let shard = self.shard.take();
        // In a thread that ends, it is dropped here.
        let _ = AT_HAND.try_with(|at_hand| at_hand.replace(shard));
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::api::wheel::Wheel;

    #[test]
    fn a_thread_keeps_one_reference_at_hand_until_it_ends() {
        let shard = || {
            let (wheel, _driver) = Wheel::builder().manual().unwrap();
            Arc::clone(wheel.engine().own_waker_shard())
        };
        let (one, other) = (shard(), shard());
        let counts = || (Arc::strong_count(&one), Arc::strong_count(&other));
        std::thread::scope(|scope| {
            let thread = scope.spawn(|| {
                let first = ShardRef::new(&one);
                let second = ShardRef::new(&one);
                assert_eq!(counts(), (3, 1));
                drop((first, second));
                assert_eq!(counts(), (2, 1));
                let again = ShardRef::new(&one);
                assert_eq!(counts(), (2, 1));
                drop((again, ShardRef::new(&other)));
                assert_eq!(counts(), (1, 2));
            });
            // A scope may end before the thread has dropped what it has at hand; a join does not.
            thread.join().unwrap();
        });
        assert_eq!(counts(), (1, 1));
    }
}
