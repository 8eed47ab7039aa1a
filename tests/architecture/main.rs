//! The order of the `mod` lines is the architecture: first the layers, in `src/lib.rs`, then the
//! modules of each, in its `mod.rs`. This test enforces it:
//!
//! 1. a module names itself, and modules declared above it;
//! 2. it names things by the module they live in, not through a re-export further up;
//! 3. the pure layer knows no clock, no thread, no lock and no pool;
//! 4. the `mod.rs` of a layer holds `mod` lines and nothing else, but for the pure one, which is
//!    one module.
//!
//! Comments, doc links and literals do not count: the checker reads the words of the code. Unit
//! tests do count, but a module that exists for tests alone may name everything.
//!
//! The checker is a few functions from text to text, so it is tested too, on sources with
//! violations planted in them. Some smaller rules follow at the end.

mod checker;
mod files;
mod paths;
mod planted;

use checker::{Module, PURE, modules, only_declares, violations};
use files::{assert_none, read, sources};

/// The modules of this crate.
fn own_modules() -> Vec<Module> {
    modules(&read("src/lib.rs"), |layer| read(format!("src/{layer}/mod.rs")))
}

/// The files that hold code: all but the front page and the `mod.rs` of the layers.
fn files_with_code() -> impl Iterator<Item = (String, String)> {
    sources().into_iter().filter(|(file, _)| file != "lib.rs" && !is_layer(file))
}

/// Whether a file is the `mod.rs` of a layer that is not one module.
fn is_layer(file: &str) -> bool {
    let parts: Vec<&str> = file.split('/').collect();
    matches!(parts[..], [layer, "mod.rs"] if layer != PURE)
}

/// A module names only modules that `lib.rs` and the layers declare before it.
#[test]
fn core_modules_name_only_modules_above_them() {
    let modules = own_modules();
    assert!(modules.iter().any(|module| module.path == PURE), "there is no layer `{PURE}`");
    assert!(modules.len() > 20, "the layers were not read: {modules:?}");
    assert_none(
        files_with_code().flat_map(|(file, source)| violations(&modules, &file, &source)).collect(),
    );
}

/// The `mod.rs` of a layer holds only `mod` lines.
#[test]
fn layers_declare_modules_and_hold_no_code() {
    let layers = sources().into_iter().filter(|(file, _)| is_layer(file));
    let other = layers.filter(|(_, source)| !only_declares(source));
    assert_none(other.map(|(file, _)| format!("src/{file} holds more than `mod` lines")).collect());
}

// Smaller rules.

/// `clippy.toml` disallows the clocks and the sleep of `std`.
#[test]
fn clippy_refuses_clocks_and_sleep() {
    let rules = read("clippy.toml");
    for method in ["std::time::Instant::now", "std::time::SystemTime::now", "std::thread::sleep"] {
        let rule = format!("path = \"{method}\"");
        assert!(rules.contains(&rule), "clippy.toml no longer disallows `{method}`");
    }
}
