//! The wakers of a wheel, which are made when the first one is needed.

use std::sync::{Arc, OnceLock};

use super::Engine;
use crate::engine::metrics::Stats;
use crate::engine::shard::thread_index;
use crate::engine::sources::Source;
use crate::engine::wakers::{WakerContext, WakerShard, Wakers};

/// Empty until a future waits.
#[derive(Default)]
pub(super) struct LazyWakers {
    made: OnceLock<Arc<Wakers>>,
}

impl LazyWakers {
    /// Fills in the fields of `stats` that are counted here.
    pub(super) fn report(&self, stats: &mut Stats) {
        for tally in self.made.get().iter().flat_map(|wakers| wakers.tallies()) {
            stats.sleeping += tally.pending;
            stats.woken += tally.fired;
        }
    }
}

impl Engine {
    /// The shard of wakers that the calling thread uses.
    pub(crate) fn own_waker_shard(&self) -> &Arc<WakerShard> {
        let wakers = self.wakers.made.get_or_init(|| {
            let alarm = Arc::clone(self.sources.alarm());
            let context = WakerContext::new(self.timebase.share(), alarm, Arc::clone(&self.runner));
            let wakers = Arc::new(Wakers::new(self.shards.len(), &self.geometry, context));
            // As if they had been there from the beginning: every tick up to the present is over.
            wakers.advance(self.timebase.present(), usize::MAX);
            self.sources.add(Arc::clone(&wakers) as Arc<dyn Source>);
            wakers
        });
        wakers.shard(thread_index())
    }

    /// Returns whether any future has waited yet.
    #[cfg(all(test, not(loom)))]
    pub(crate) fn has_wakers(&self) -> bool {
        self.wakers.made.get().is_some()
    }
}

impl WakerShard {
    /// Returns the shard of the same wheel that the calling thread uses, if that is another one.
    #[inline]
    pub(crate) fn other_of_this_thread(&self) -> Option<Arc<WakerShard>> {
        self.other_for(thread_index())
    }
}
