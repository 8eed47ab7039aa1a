//! The style sheet and the script, under names with the hashes of their content.

use std::sync::OnceLock;

use http::Response;

use super::response::{self, Body};
use crate::values::id::JobId;

const STYLE: &str = include_str!("assets/style.css");
const SCRIPT: &str = include_str!("assets/live.js");

/// The names of the assets.
pub(crate) struct Names {
    pub(crate) style: String,
    pub(crate) script: String,
}

/// Returns the names of the assets.
pub(crate) fn names() -> &'static Names {
    static NAMES: OnceLock<Names> = OnceLock::new();
    NAMES.get_or_init(|| {
        // An id from a name is a hash of it.
        let hash = |content: &str| JobId::named(content).to_string()[..16].to_owned();
        let style = format!("style-{}.css", hash(STYLE));
        Names { style, script: format!("live-{}.js", hash(SCRIPT)) }
    })
}

/// Returns the asset of this name.
pub(crate) fn find(name: &str) -> Option<Response<Body>> {
    let names = names();
    if name == names.style {
        return Some(response::asset("text/css; charset=utf-8", STYLE));
    }
    (name == names.script).then(|| response::asset("text/javascript; charset=utf-8", SCRIPT))
}
