//! Named points of the code, at which a test may end the process.
//!
//! The crate `fail` would leave the points out of a release, but the kill tests would then need a feature, without
//! which `cargo test` would not run them. A point without a hook costs one load, so the points stay.

use std::sync::OnceLock;

static HOOK: OnceLock<fn(&'static str)> = OnceLock::new();

/// Sets the function that is called at each named point, once for the process.
pub fn set(hook: fn(&'static str)) {
    let _ = HOOK.set(hook);
}

/// Calls the hook at a named point. Without a hook it costs one load.
pub fn at(point: &'static str) {
    if let Some(hook) = HOOK.get() {
        hook(point);
    }
}
