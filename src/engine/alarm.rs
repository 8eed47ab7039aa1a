//! The wake-up protocol: how an insert makes the sleeping ticker rise earlier, and only then.
//!
//! Ground rules. The ticker, over and over:
//!
//! 1. says that it is *awake*: no insert needs to wake it;
//! 2. works off what is due, shard by shard, each under its lock;
//! 3. *plans* to wake at the earliest tick any shard expects;
//! 4. looks at what the shards expect *again*, under their locks, and begins anew if that is
//!    earlier than the plan;
//! 5. sleeps until the plan, or until woken.
//!
//! An insert puts its job into a shard, under the lock, and learns whether it is the earliest there.
//! If so, and if it is earlier than the plan, it lowers the plan and wakes the ticker.
//!
//! Why no wake-up is lost: take an insert that comes before the plan. If it had the shard's lock
//! before step 4 looked there, step 4 saw it. If it had the lock after, it reads a plan that is no
//! older than step 3, through that lock, and wakes the ticker. The wake is kept until the ticker
//! sleeps ([`Parker`]), so it does not matter whether step 5 has begun.
//!
//! Why none is wasted: an insert that is later than the plan, or not the earliest of its shard,
//! touches nothing shared; of many that come while the ticker rises, only one that is earlier
//! still wakes it again.
//!
//! Who is the earliest of its shard at the moment another one, earlier, has not been reported yet
//! may stay silent: the other one reports.

use core::time::Duration;
use std::sync::Arc;

use crate::host::sync::{AtomicU64, Ordering, Parker};
use crate::values::time::Tick;

pub(crate) struct Alarm {
    /// The tick at which the ticker means to wake.
    plan: AtomicU64,
    parker: Arc<Parker>,
}

/// Earlier than every deadline: nobody wakes a ticker that is awake.
const AWAKE: u64 = 0;

impl Alarm {
    /// The alarm of a ticker that has not begun, or that a wheel does without.
    pub(crate) fn new() -> Alarm {
        Alarm { plan: AtomicU64::new(AWAKE), parker: Arc::new(Parker::new()) }
    }

    /// What wakes the ticker, whatever its plan.
    pub(crate) fn parker(&self) -> &Arc<Parker> {
        &self.parker
    }

    /// The ticker is about to look at the shards.
    pub(crate) fn awake(&self) {
        self.change(AWAKE);
    }

    /// The ticker means to sleep until `tick`, and looks at the shards once more before it does.
    pub(crate) fn plan(&self, tick: Tick) {
        self.change(tick.get());
    }

    fn change(&self, plan: u64) {
        // A swap, not a store: it reads what inserts have written, and so comes after them for
        // everybody. What an insert wrote to an older plan cannot be taken for the new one.
        self.plan.swap(plan, Ordering::SeqCst);
    }

    /// Sleeps until woken, or for so long.
    pub(crate) fn sleep(&self, timeout: Option<Duration>) {
        self.parker.park(timeout);
    }

    /// Something earlier than before is in a shard: wakes the ticker if that is before its plan.
    pub(crate) fn earlier(&self, deadline: Tick) {
        let deadline = deadline.get();
        // A load first: while the ticker is awake, or wakes early enough, nothing is written.
        if deadline < self.plan.load(Ordering::SeqCst)
            && deadline < self.plan.fetch_min(deadline, Ordering::SeqCst)
        {
            self.parker.wake();
        }
    }
}
