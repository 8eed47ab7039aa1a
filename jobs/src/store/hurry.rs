//! The handle with which a shutdown ends a store's waits for other connections.

use std::sync::{Arc, OnceLock};
use std::time::Instant;

/// The time at which the waits of a store end. The shutdown and the store share it.
#[derive(Clone, Default)]
pub(crate) struct Hurry(Arc<OnceLock<Instant>>);

impl Hurry {
    /// Lets every wait end at that time, including one that has begun. A second call has no effect.
    pub(crate) fn by(&self, time: Instant) {
        let _ = self.0.set(time);
    }

    #[cfg(feature = "sqlite-unbundled")]
    pub(crate) fn is_over(&self, now: Instant) -> bool {
        self.0.get().is_some_and(|time| *time <= now)
    }
}
