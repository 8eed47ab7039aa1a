//! The name of this process, for people: its host and its process id.

use std::sync::OnceLock;

/// Returns the name of this process: `shop-3/4711`.
pub(crate) fn name() -> &'static str {
    static NAME: OnceLock<String> = OnceLock::new();
    NAME.get_or_init(|| format!("{}/{}", host(), std::process::id()))
}

/// Returns the name of this machine.
pub(crate) fn host() -> String {
    gethostname::gethostname().to_string_lossy().into_owned()
}
