//! Events for the program's subscriber of the crate `tracing`. Feature `tracing`.
//!
//! Ground rules:
//!
//! - An event tells of something that went wrong, and none is on the path of a timer.
//! - A subscriber is code of the user's. So an event is emitted outside of every lock, as a hook (`user_panics.rs`),
//!   and inside the unwind boundary.

use std::time::Duration;

use tracing::level_filters::LevelFilter;

use crate::values::handle::Handle;

const TARGET: &str = "tickwheel";

/// User code has panicked: that of the job with this handle, if there is one.
pub(crate) fn panicked(handle: Option<Handle>, message: Option<&str>) {
    let handle = handle.map(tracing::field::debug);
    let message = message.unwrap_or("no text");
    match handle {
        Some(handle) => tracing::error!(target: TARGET, handle, panic = message, "a job panicked"),
        None => {
            let text = "user code that is no job panicked, or the system refused a thread";
            tracing::error!(target: TARGET, panic = message, "{text}");
        }
    }
}

/// Returns whether a subscriber may want to know of delays. It calls none: the ticker asks outside of the unwind
/// boundary.
pub(crate) fn wants_delays() -> bool {
    LevelFilter::current() >= LevelFilter::WARN
}

pub(crate) fn is_behind(by: Duration) {
    tracing::warn!(target: TARGET, behind_ms = millis(by), "the ticker is behind the clock");
}

/// A delivery of wakers or events has held the ticker up.
pub(crate) fn was_slow(took: Duration) {
    tracing::warn!(
        target: TARGET,
        took_ms = millis(took),
        "a waker is slow, or a function that takes events: it held up every timer"
    );
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}
