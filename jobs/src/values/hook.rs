//! Named points of the code, at which a test may end the process.

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
