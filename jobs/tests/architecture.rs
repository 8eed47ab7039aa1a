//! The order of the `mod` lines is the architecture, as in the crate of the wheel: first the layers, in
//! `src/lib.rs`, then the modules of each, in its `mod.rs`. A module names itself, and modules declared
//! above it. The checker and the rules about each file are that crate's.
//!
//! `store/mod.rs` also holds the trait of the stores, which the modules above [`FIRST_STORE`] make up and
//! the stores implement.

#[path = "../../tests/architecture/checker.rs"]
mod checker;
#[path = "../../tests/architecture/files.rs"]
mod files;
#[path = "../../tests/architecture/paths.rs"]
mod paths;

use files::{assert_none, read, sources};

/// The first module of the layer `store` that is a store.
const FIRST_STORE: &str = "store::memory";

fn source(file: &str) -> String {
    read(format!("src/{file}"))
}

/// A module names only itself and modules that are declared above it.
#[test]
fn modules_name_only_modules_above_them() {
    let mut modules =
        checker::modules(&source("lib.rs"), |layer| source(&format!("{layer}/mod.rs")));
    assert!(modules.len() > 20, "the layers were not read: {modules:?}");
    let first_store = modules.iter().position(|module| module.path == FIRST_STORE).unwrap();
    let of_stores = checker::Module { path: "store".to_owned(), for_tests: false };
    modules.insert(first_store, of_stores);
    let is_layer = |file: &str| {
        file.ends_with("/mod.rs") && file.matches('/').count() == 1 && file != "store/mod.rs"
    };
    let has_code = |file: &str| file.ends_with(".rs") && file != "lib.rs" && !is_layer(file);
    let files = sources().into_iter().filter(|(file, _)| has_code(file));
    let found = files.flat_map(|(file, source)| checker::violations(&modules, &file, &source));
    assert_none(found.collect());
}

/// The `mod.rs` of a layer declares modules, and holds no code.
#[test]
fn layer_declares_modules_and_holds_no_code() {
    for layer in ["values", "dispatch", "api", "view"] {
        assert!(checker::only_declares(&source(&format!("{layer}/mod.rs"))), "{layer}/mod.rs");
    }
}
