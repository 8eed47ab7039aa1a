//! The reference of a sleep to its shard, one of which each thread keeps at hand.
//!
//! A thread that makes and drops one sleep after the other reuses the reference at hand, and does not
//! write to the reference count. This saves two atomic additions for each sleep.
//!
//! The reference at hand keeps the memory of one shard, until the thread makes or drops a sleep of
//! another shard, or ends. This may be a shard of a wheel that has ended; it is small and empty then.

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
        // A thread that is ending has none at hand.
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
        // In a thread that is ending, the reference is dropped here.
        let _ = AT_HAND.try_with(|at_hand| at_hand.replace(shard));
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::api::wheel::Wheel;

    /// A thread keeps one reference to its latest shard, and drops it when it ends.
    #[test]
    fn shard_ref_is_kept_once_for_each_thread_until_it_ends() {
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
            // A scope may end before the thread has dropped its reference at hand; a join does not.
            thread.join().unwrap();
        });
        assert_eq!(counts(), (1, 1));
    }
}
