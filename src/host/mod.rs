//! The host: clocks, locks and atomics, and the boundary around the user's panics.

pub(crate) mod sync;
pub(crate) mod in_hook;
pub(crate) mod clock;
pub(crate) mod timebase;
#[cfg(feature = "tracing")]
pub(crate) mod traces;
pub(crate) mod unwind;
