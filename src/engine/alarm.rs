//! The wake-up protocol: how an insert wakes the sleeping ticker earlier, and only if it must.
//!
//! Ground rules. The ticker, over and over:
//!
//! 1. says that it is *awake*: no insert needs to wake it;
//! 2. processes what is due, shard by shard, each under its lock;
//! 3. *plans* to wake at the earliest tick at which any shard has something due;
//! 4. looks at the shards *again*, under their locks, and begins anew if one of them has something
//!    due earlier than the plan;
//! 5. sleeps until the plan, or until woken.
//!
//! An insert puts its job into a shard, under the shard's lock. After that it compares its deadline
//! with the plan. If the deadline is earlier, the insert wakes the ticker, and after that it notes
//! for which deadline, and of which plan: the plans are numbered.
//!
//! Why no wake-up is lost: take an insert whose deadline is earlier than the plan. If it held the
//! shard's lock before step 4 looked there, step 4 has seen its job. If it took the lock after, it
//! reads a plan that is no older than step 3, through that lock, and wakes the ticker. The wake is
//! kept until the ticker sleeps ([`Parker`]), so it does not matter whether step 5 has begun.
//!
//! Why an insert may rely on a wake of the plan whose number it reads: the wake came after that number
//! was given. The sleep that it ends is followed by a new number, and then by a look at the shards. The
//! insert released its shard's lock before it read the number, so that look comes after it, and sees
//! its job.
//!
//! Why none is late: an insert relies on no other insert, unless that has woken the ticker already. A
//! thread that has put an earlier job into the same shard and was stopped before it could wake the
//! ticker holds up nobody else. So when an insert returns, the ticker is awake, or planned to wake in
//! time, or woken. A note that comes late is about a plan that is over, and says nothing of the next.
//!
//! The other sources of timers (`sources.rs`) follow the same protocol, with an alarm of their own:
//! in steps 2 to 4, "shards" are the jobs' shards and the sources. There are two plans because the
//! ticker may want to wake for one and not for the other: while `max_in_flight` is reached, no job
//! needs it. Otherwise both plans name the same tick. The parker is one.
//!
//! Why few are wasted: an insert that is later than the plan reads the plan and writes nothing
//! shared; while the ticker is awake no insert wakes it; and an insert that is not earlier than one
//! for which it was woken of the same plan does not wake it again. A loop's waker may insert: what it
//! inserts does not call it again for the same plan. An insert under a key wakes a loop after its map is
//! free, and is not noted.

use core::time::Duration;
use std::sync::Arc;

use crate::host::sync::{AtomicU64, Mutex, Ordering, Parker, lock};
use crate::values::time::Tick;

pub(crate) struct Alarm {
    /// The tick at which the ticker means to wake.
    plan: AtomicU64,
    /// The number of that plan, or of the next.
    number: AtomicU64,
    /// The number of the last plan of which the ticker was woken, and the earliest tick for which.
    woken_of: AtomicU64,
    woken_for: AtomicU64,
    /// Held by a thread that notes these.
    notes: Mutex<()>,
    parker: Arc<Parker>,
}

/// Earlier than every deadline: nobody wakes a ticker that is awake.
const AWAKE: u64 = 0;

impl Alarm {
    /// For a ticker that sleeps on `parker` and has not started, or for a manual wheel, which has
    /// no ticker.
    pub(crate) fn new(parker: Arc<Parker>) -> Alarm {
        let [plan, number, woken_of, woken_for] = [AWAKE, 1, 0, u64::MAX].map(AtomicU64::new);
        Alarm { plan, number, woken_of, woken_for, notes: Mutex::new(()), parker }
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
        // Before the plan: an insert that reads the plan knows its number, or a later one. If it reads
        // a number, this or an older one, under which the ticker was woken, then the ticker has yet to
        // look at the shards, under the locks, after it has given a new number.
        self.number.fetch_add(1, Ordering::SeqCst);
        self.plan.store(plan, Ordering::SeqCst);
    }

    /// Sleeps until woken, or until `timeout` has passed.
    pub(crate) fn sleep(&self, timeout: Option<Duration>) {
        self.parker.park(timeout);
    }

    /// Something is due at `tick`, and is in its shard already: wakes the ticker if it would sleep
    /// longer.
    #[inline]
    pub(crate) fn wake_for(&self, tick: Tick) {
        // While the ticker is awake, or wakes early enough, nothing is written. Pairs with the store
        // in `change`, through the lock of the shard.
        if tick.get() < self.plan.load(Ordering::SeqCst) {
            self.wake_of_plan(tick.get());
        }
    }

    /// Returns whether the ticker's thread sleeps, and means to wake before `tick`. Then the tick
    /// before that one has not begun, unless the ticker is late.
    #[cfg(feature = "async")]
    pub(crate) fn sleeps_to_before(&self, tick: Tick) -> bool {
        let plan = self.plan.load(Ordering::SeqCst);
        plan != AWAKE && plan < tick.get() && !self.is_turned()
    }

    /// Returns whether a loop turns the wheel, when it likes: then its plan may be long past.
    #[cfg(feature = "async")]
    pub(crate) fn is_turned(&self) -> bool {
        self.parker.has_hook()
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
            // First, so that nobody takes the tick of an older plan for one of this.
            self.woken_for.store(u64::MAX, Ordering::SeqCst);
            self.woken_of.store(number, Ordering::SeqCst);
        }
        if last <= number {
            self.woken_for.fetch_min(tick, Ordering::SeqCst);
        }
    }
}
