//! Sources of timers, which the ticker advances beside the shards of jobs.
//!
//! A [`Source`] has hierarchies of its own, behind locks of its own, and delivers its due timers
//! itself. The jobs' shards are no source: their pool may be full, and their jobs may wait for the
//! wall clock, so the ticker has separate code for them.
//!
//! Ground rules:
//!
//! - An insert into a source follows the wake-up protocol (`alarm.rs`) with [`Sources::alarm`].
//! - The list of sources has a lock, and a source is added before the first insert into it. The
//!   ticker's second look reads the list under that lock. So either that look finds the source, or
//!   the insert finds the plan.
//! - A source calls and drops user code outside its locks, through the unwind boundary, and as a
//!   hook (`host/user_panics.rs`). The lock of the list is not held then either.
//! - A source that is added to a stopped engine is closed at once.

use std::sync::Arc;

use crate::engine::alarm::Alarm;
use crate::engine::metrics::Stats;
use crate::host::sync::{AtomicU64, Mutex, Ordering, Parker, lock};
use crate::values::time::Tick;

/// Timers that the ticker, or a driver, advances.
pub(crate) trait Source: Send + Sync {
    /// Returns a tick before which no timer here is due. Takes each of the source's locks.
    fn next_due(&self) -> Tick;

    /// Returns the earliest deadline, by a look at every timer that may have it.
    fn earliest_deadline(&self) -> Tick;

    /// Advances to `to`, looking at no more than `limit` entries, and delivers the timers that are
    /// due. Returns whether it delivered all of them. One thread at a time calls this.
    fn advance(&self, to: Tick, limit: usize) -> bool;

    /// Refuses every insert from now on, and ends the pending timers. `present` is the tick of the
    /// end.
    fn close(&self, present: Tick);

    /// Returns whether no timer will ever be due here again. A finished source leaves the list, and
    /// holds no value of the user's that is still to be dropped.
    fn is_finished(&self) -> bool {
        false
    }

    fn pending_events(&self) -> usize {
        0
    }
}

#[derive(Default)]
pub(crate) struct EventMetrics {
    delivered: AtomicU64,
    given_up: AtomicU64,
}

impl EventMetrics {
    pub(crate) fn add(&self, delivered: u64, given_up: u64) {
        self.delivered.fetch_add(delivered, Ordering::Relaxed);
        self.given_up.fetch_add(given_up, Ordering::Relaxed);
    }
}

pub(crate) struct Sources {
    list: Mutex<List>,
    alarm: Arc<Alarm>,
    event_metrics: Arc<EventMetrics>,
}

struct List {
    sources: Vec<Arc<dyn Source>>,
    /// How many sources finished since the last sweep of the list, and may still be in it.
    finished: usize,
    /// The tick at which the engine was stopped.
    closed: Option<Tick>,
}

impl Sources {
    /// Returns an empty list. The ticker sleeps on `parker`.
    pub(crate) fn new(parker: &Arc<Parker>) -> Sources {
        let list = Mutex::new(List { sources: Vec::new(), finished: 0, closed: None });
        let alarm = Arc::new(Alarm::new(Arc::clone(parker)));
        Sources { list, alarm, event_metrics: Arc::default() }
    }

    /// The alarm with which an insert into any source wakes the ticker.
    pub(crate) fn alarm(&self) -> &Arc<Alarm> {
        &self.alarm
    }

    pub(crate) fn event_metrics(&self) -> &Arc<EventMetrics> {
        &self.event_metrics
    }

    /// Fills in the fields of `stats` that are about events.
    pub(crate) fn report(&self, stats: &mut Stats) {
        stats.events_delivered = self.event_metrics.delivered.load(Ordering::Relaxed);
        stats.events_given_up = self.event_metrics.given_up.load(Ordering::Relaxed);
        let list = lock(&self.list);
        stats.events_pending = list.sources.iter().map(|source| source.pending_events()).sum();
    }

    #[cfg(feature = "async")]
    pub(crate) fn has_pending_events(&self) -> bool {
        lock(&self.list).sources.iter().any(|source| source.pending_events() > 0)
    }

    /// Adds a source, before anything is inserted into it.
    pub(crate) fn add(&self, source: Arc<dyn Source>) {
        let mut list = lock(&self.list);
        match list.closed {
            None => list.sources.push(source),
            Some(present) => {
                drop(list);
                source.close(present);
            }
        }
    }

    pub(crate) fn get(&self, index: usize) -> Option<Arc<dyn Source>> {
        lock(&self.list).sources.get(index).cloned()
    }

    /// Notes that a source has finished. When half of the list may be finished, sweeps the finished
    /// sources out: two checks for each, amortized. Up to half of the list may be finished until
    /// the ticker's next look.
    pub(crate) fn note_finished(&self) {
        let mut list = lock(&self.list);
        list.finished += 1;
        if 2 * list.finished >= list.sources.len() {
            list.remove_finished();
        }
    }

    pub(crate) fn next_due(&self) -> Tick {
        let mut list = lock(&self.list);
        list.remove_finished();
        list.sources.iter().map(|source| source.next_due()).min().unwrap_or(Tick::MAX)
    }

    pub(crate) fn earliest_deadline(&self) -> Tick {
        let list = lock(&self.list);
        list.sources.iter().map(|source| source.earliest_deadline()).min().unwrap_or(Tick::MAX)
    }

    /// Closes every source, also one that is added later.
    pub(crate) fn close(&self, present: Tick) {
        let mut list = lock(&self.list);
        list.closed.get_or_insert(present);
        let sources = core::mem::take(&mut list.sources);
        drop(list);
        for source in sources {
            source.close(present);
        }
    }
}

impl List {
    fn remove_finished(&mut self) {
        self.finished = 0;
        self.sources.retain(|source| !source.is_finished());
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::engine::timers::Timers;
    #[cfg(not(loom))]
    use crate::host::sync::{AtomicBool, AtomicUsize};
    use crate::structure::Geometry;

    type Delivery = Box<dyn FnOnce() + Send>;

    /// A source of closures, which it calls on the thread that advances it.
    pub(crate) struct Closures {
        timers: Mutex<Timers<Delivery>>,
        alarm: Arc<Alarm>,
        closed: Mutex<Option<Tick>>,
    }

    impl Closures {
        pub(crate) fn add_to(sources: &Sources) -> Arc<Closures> {
            let timers = Mutex::new(Timers::new(Geometry::ring(4).unwrap()));
            let alarm = Arc::clone(sources.alarm());
            let source = Arc::new(Closures { timers, alarm, closed: Mutex::new(None) });
            sources.add(Arc::clone(&source) as Arc<dyn Source>);
            source
        }

        pub(crate) fn insert(&self, deadline: u64, delivery: impl FnOnce() + Send + 'static) {
            let deadline = Tick::new(deadline);
            lock(&self.timers).insert(deadline, Box::new(delivery));
            self.alarm.wake_for(deadline);
        }

        pub(crate) fn closed(&self) -> Option<Tick> {
            *lock(&self.closed)
        }
    }

    impl Source for Closures {
        fn next_due(&self) -> Tick {
            lock(&self.timers).next_due()
        }

        fn earliest_deadline(&self) -> Tick {
            lock(&self.timers).earliest_deadline()
        }

        fn advance(&self, to: Tick, limit: usize) -> bool {
            let mut due = Vec::new();
            let finished = lock(&self.timers).advance(to, limit, &mut due);
            for (_, delivery) in due {
                core::mem::ManuallyDrop::into_inner(delivery)();
            }
            finished
        }

        fn close(&self, present: Tick) {
            *lock(&self.closed) = Some(present);
        }
    }

    /// A source that is finished once its flag is set, and counts the calls of `is_finished`.
    #[cfg(not(loom))]
    #[derive(Default)]
    struct Finishes {
        is_finished: AtomicBool,
        looks: Arc<AtomicUsize>,
    }

    #[cfg(not(loom))]
    impl Source for Finishes {
        fn next_due(&self) -> Tick {
            Tick::MAX
        }

        fn earliest_deadline(&self) -> Tick {
            Tick::MAX
        }

        fn advance(&self, _: Tick, _: usize) -> bool {
            true
        }

        fn close(&self, _: Tick) {}

        fn is_finished(&self) -> bool {
            self.looks.fetch_add(1, Ordering::Relaxed);
            self.is_finished.load(Ordering::Relaxed)
        }
    }

    /// The end of each of many sources takes two checks on average, and removes the source from the list.
    #[cfg(not(loom))]
    #[test]
    fn sources_that_end_cost_a_check_of_few_others() {
        let sources = Sources::new(&Arc::new(Parker::new()));
        let looks = Arc::new(AtomicUsize::new(0));
        let add = || {
            let looks = Arc::clone(&looks);
            let source = Arc::new(Finishes { looks, ..Finishes::default() });
            sources.add(Arc::clone(&source) as Arc<dyn Source>);
            source
        };
        let all: Vec<_> = (0..1000).map(|_| add()).collect();
        for source in &all {
            source.is_finished.store(true, Ordering::Relaxed);
            sources.note_finished();
        }
        assert!(looks.load(Ordering::Relaxed) <= 2 * all.len(), "{looks:?}");
        assert!(all.iter().all(|source| Arc::strong_count(source) == 1), "one stays in the list");
    }
}
