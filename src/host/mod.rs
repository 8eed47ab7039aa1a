//! The host: clocks, locks and atomics, and the boundary around the user's panics.

pub(crate) mod sync;
pub(crate) mod clock;
#[cfg(feature = "tracing")]
pub(crate) mod traces;
pub(crate) mod user_panics;
