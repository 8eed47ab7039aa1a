//! The order of the `mod` lines of `src/lib.rs` is the architecture: a module names itself, and modules declared above
//! it. The checker and the rules about each file are those of the crate of the wheel.

#[allow(dead_code, reason = "the crate has no layers")]
#[path = "../../tests/architecture/checker.rs"]
mod checker;
#[path = "../../tests/architecture/files.rs"]
mod files;
#[path = "../../tests/architecture/paths.rs"]
mod paths;

use files::{assert_none, read, sources};

/// No page passes HTML through unescaped.
#[test]
fn no_page_has_text_that_is_not_escaped() {
    let has_raw = |(_, source): &(String, String)| source.contains("PreEscaped");
    assert_none(sources().into_iter().filter(has_raw).map(|(file, _)| file).collect());
}

/// A module names only itself and modules that are declared above it. To the checker, the crate is one layer.
#[test]
fn modules_name_only_modules_above_them() {
    let as_layer = |source: String| source.replace("crate::", "crate::web::");
    let modules = checker::modules("mod web;", |_| read("src/lib.rs"));
    assert!(modules.len() > 9, "the modules were not read: {modules:?}");
    let files = sources().into_iter().filter(|(file, _)| file.ends_with(".rs") && file != "lib.rs");
    let found = files.flat_map(|(file, source)| {
        checker::violations(&modules, &format!("web/{file}"), &as_layer(source))
    });
    assert_none(found.collect());
}
