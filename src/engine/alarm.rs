//! The wake-up protocol: how an insert wakes the sleeping ticker earlier, and only if it must.
//!
//! Ground rules. The ticker, over and over:
//!
//! 1. announces that it is *awake*: no insert needs to wake it;
//! 2. processes the due jobs, shard by shard, each under its lock;
//! 3. *plans* to wake at the earliest tick at which any shard has something due;
//! 4. looks at the shards *again*, under their locks, and begins anew if one of them has something
//!    due earlier than the plan;
//! 5. sleeps until the plan, or until woken.
//!
//! An insert puts its job into a shard, under the shard's lock. Then it compares its deadline with
//! the plan. If the deadline is earlier, the insert wakes the ticker. After the wake it writes a
//! note: its deadline, and the number of the plan. Each plan has a new number.
//!
//! Why no wake-up is lost: take an insert whose deadline is earlier than the plan. If it held the
//! shard's lock before step 4 looked there, step 4 has seen its job. If it took the lock after, it
//! reads a plan that is no older than step 3, through that lock, and wakes the ticker. The wake is
//! kept until the ticker sleeps ([`Parker`]), so it does not matter whether step 5 has begun.
//!
//! Why an insert may skip its wake if the note has the number that it reads, and a deadline that is
//! no later: the noted wake came after that number was given. It ends a sleep, which is followed by
//! a new number, and then by a look at the shards. The insert released its shard's lock before it
//! read the number, so that look comes after it, and sees its job.
//!
//! Why no job is late: an insert relies on another insert only if that has woken the ticker
//! already. If a thread has put an earlier job into the same shard, and was stopped before it could
//! wake the ticker, it delays no other insert. So when an insert returns, the ticker is awake, or
//! plans to wake in time, or has been woken. A stale note carries the number of an old plan and is
//! ignored.
//!
//! The other sources of timers (`sources.rs`) follow the same protocol, with an alarm of their own:
//! in steps 2 to 4, "shards" are the jobs' shards and the sources. There are two plans because an
//! insert may have to wake the ticker for a source when it need not for a job: while
//! `max_in_flight` is reached. Otherwise both plans name the same tick. Both alarms share one
//! parker.
//!
//! Why few wakes are wasted: an insert that is due after the plan reads the plan and writes nothing
//! shared. While the ticker is awake, no insert wakes it. An insert skips its wake if the ticker
//! was woken from the same plan for the same tick or an earlier one. If the waker of a loop
//! inserts, that insert does not call the waker again for the same plan. An insert under a key
//! calls the waker of a loop only after it has released the lock of its map, and writes no note.

use std::sync::Arc;

use crate::host::sync::{AtomicU64, Mutex, Ordering, Parker, lock};
use crate::values::time::Tick;

pub(crate) struct Alarm {
    plan: AtomicU64,
    /// The number of that plan, or of the next.
    number: AtomicU64,
    /// The note: the number of the last plan from which the ticker was woken, and the earliest tick
    /// for which it was.
    woken_of: AtomicU64,
    woken_for: AtomicU64,
    /// Held by a thread that writes the note.
    notes: Mutex<()>,
    parker: Arc<Parker>,
}

/// Earlier than every deadline, so no insert wakes a ticker that is awake.
const AWAKE: u64 = 0;

impl Alarm {
    /// For a ticker that sleeps on `parker` and has not started, or for a manual wheel, which has
    /// no ticker.
    pub(crate) fn new(parker: Arc<Parker>) -> Alarm {
        let [plan, number, woken_of, woken_for] = [AWAKE, 1, 0, u64::MAX].map(AtomicU64::new);
        Alarm { plan, number, woken_of, woken_for, notes: Mutex::new(()), parker }
    }

    /// The parker, which wakes the ticker regardless of its plan.
    pub(crate) fn parker(&self) -> &Arc<Parker> {
        &self.parker
    }

    /// The ticker calls this before it looks at the shards.
    pub(crate) fn awake(&self) {
        self.change(AWAKE);
    }

    /// The ticker calls this before it sleeps until `tick`, and before its second look at the
    /// shards.
    pub(crate) fn plan(&self, tick: Tick) {
        self.change(tick.get());
    }

    fn change(&self, plan: u64) {
        // The number is written before the plan, so an insert that reads the plan reads its number
        // or a later one. If the ticker was woken under the number that the insert reads, it has
        // yet to give a new number, and then to look at the shards, under their locks.
        self.number.fetch_add(1, Ordering::SeqCst);
        self.plan.store(plan, Ordering::SeqCst);
    }

    /// Wakes the ticker if it would sleep beyond `tick`. The caller has put a timer for `tick` into
    /// its shard.
    #[inline]
    pub(crate) fn wake_for(&self, tick: Tick) {
        // While the ticker is awake, or wakes early enough, nothing is written. Pairs with the store
        // in `change`, through the lock of the shard.
        if tick.get() < self.plan.load(Ordering::SeqCst) {
            self.wake_of_plan(tick.get());
        }
    }

    /// Returns whether the ticker's thread sleeps, and plans to wake before `tick`. Then the tick
    /// before `tick` has not begun, unless the ticker is late.
    #[cfg(feature = "async")]
    pub(crate) fn sleeps_to_before(&self, tick: Tick) -> bool {
        // The plan is read last: it may be that of a loop until the thread stands in for the loop.
        let is_turned = self.is_turned();
        let plan = self.plan.load(Ordering::SeqCst);
        !is_turned && plan != AWAKE && plan < tick.get()
    }

    /// Returns whether a user's loop advances the wheel, at times of its own. Its plan may be long
    /// past.
    #[cfg(any(feature = "async", feature = "tracing"))]
    pub(crate) fn is_turned(&self) -> bool {
        self.parker.is_turned()
    }

    #[cold]
    fn wake_of_plan(&self, tick: u64) {
        let number = self.number.load(Ordering::SeqCst);
        let was_woken = self.woken_of.load(Ordering::SeqCst) >= number
            && self.woken_for.load(Ordering::SeqCst) <= tick;
        let cause = (core::ptr::from_ref(self).addr(), number);
        if !was_woken && self.parker.wake_because(Some(cause)) {
            self.note_woken(number, tick);
        }
    }

    fn note_woken(&self, number: u64, tick: u64) {
        let _notes = lock(&self.notes);
        let last = self.woken_of.load(Ordering::SeqCst);
        if last < number {
            // First, so that no insert reads the tick of an older plan with this number.
            self.woken_for.store(u64::MAX, Ordering::SeqCst);
            self.woken_of.store(number, Ordering::SeqCst);
        }
        if last <= number {
            self.woken_for.fetch_min(tick, Ordering::SeqCst);
        }
    }
}
