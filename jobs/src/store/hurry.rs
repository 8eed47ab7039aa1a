//! What ends the waits of a store for others, because a shutdown waits no longer.

use std::sync::{Arc, OnceLock};
use std::time::Instant;

/// When the waits of a store end. The shutdown has one end of it, and the store the other.
#[derive(Clone, Default)]
pub(crate) struct Hurry(Arc<OnceLock<Instant>>);

impl Hurry {
    /// Lets every wait end at that time, also one that is under way.
    pub(crate) fn by(&self, time: Instant) {
        let _ = self.0.set(time);
    }

    #[cfg(feature = "sqlite-unbundled")]
    pub(crate) fn is_over(&self, now: Instant) -> bool {
        self.0.get().is_some_and(|time| *time <= now)
    }
}
