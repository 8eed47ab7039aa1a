//! The order of the `mod` lines is the architecture, as in the crate of the wheel: first the layers, in
//! `src/lib.rs`, then the modules of each, in its `mod.rs`. A module names itself, and modules declared
//! above it. The checker is that crate's.
//!
//! `store/mod.rs` also holds the trait of the stores, which the modules above [`FIRST_STORE`] make up and
//! the stores implement.

#[path = "../../tests/architecture/checker.rs"]
mod checker;
#[path = "../../tests/architecture/paths.rs"]
mod paths;
#[path = "../../tests/architecture/scanner.rs"]
mod scanner;

use std::fs;
use std::path::Path;

/// A file has fewer lines than this.
const MAX_LINES: usize = 400;

/// The first module of the layer `store` that is a store.
const FIRST_STORE: &str = "store::memory";

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// Every source file of the library: its path in `src`, and what it says.
fn sources() -> Vec<(String, String)> {
    let mut files = Vec::new();
    collect(&root().join("src"), "", &mut files);
    files.retain(|(file, _)| !file.starts_with("bin/"));
    files.sort();
    files
}

fn collect(folder: &Path, prefix: &str, files: &mut Vec<(String, String)>) {
    for entry in fs::read_dir(folder).unwrap() {
        let entry = entry.unwrap();
        let name = format!("{prefix}{}", entry.file_name().to_string_lossy());
        if entry.path().is_dir() {
            collect(&entry.path(), &format!("{name}/"), files);
        } else {
            files.push((name, fs::read_to_string(entry.path()).unwrap()));
        }
    }
}

fn source(file: &str) -> String {
    fs::read_to_string(root().join("src").join(file)).unwrap()
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
    let files = sources().into_iter().filter(|(file, _)| file != "lib.rs" && !is_layer(file));
    let found: Vec<String> =
        files.flat_map(|(file, source)| checker::violations(&modules, &file, &source)).collect();
    assert!(found.is_empty(), "{found:#?}");
}

/// The `mod.rs` of a layer declares modules, and holds no code.
#[test]
fn layer_declares_modules_and_holds_no_code() {
    for layer in ["values", "dispatch", "api"] {
        assert!(checker::only_declares(&source(&format!("{layer}/mod.rs"))), "{layer}/mod.rs");
    }
}

/// Every source file has fewer than [`MAX_LINES`] lines.
#[test]
fn files_can_be_read_in_one_go() {
    for (file, source) in sources() {
        let lines = source.lines().count();
        assert!(lines < MAX_LINES, "src/{file} has {lines} lines: divide it");
    }
}

/// The library forbids unsafe code.
#[test]
fn unsafe_code_is_in_no_file() {
    assert!(source("lib.rs").contains("#![forbid(unsafe_code)]"));
    for (file, source) in sources().into_iter().filter(|(file, _)| file != "lib.rs") {
        assert!(!source.contains("unsafe"), "src/{file} says `unsafe`");
    }
}

/// The first sentence of a file's head, which in a script is its first comment.
fn first_sentence(source: &str) -> String {
    let head: Vec<&str> = source
        .lines()
        .skip_while(|line| {
            line.starts_with("//") && !line.starts_with("//!") || line.starts_with('#')
        })
        .map_while(|line| line.strip_prefix("//!").or_else(|| line.strip_prefix("--")))
        .map(str::trim)
        .take_while(|line| !line.is_empty())
        .collect();
    let head = head.join(" ").replace("[`", "`").replace("`]", "`");
    let end = head.find(". ").map_or(head.len(), |end| end + 1);
    head[..end].to_owned()
}

/// The map in `docs/architecture.md` has, for each file, the first sentence of its head.
#[test]
fn map_says_of_every_file_what_its_head_says() {
    let map = fs::read_to_string(root().join("docs/architecture.md")).unwrap();
    let rows: Vec<&str> = map.lines().filter(|line| line.starts_with("| `src/")).collect();
    let expected: Vec<String> = sources()
        .into_iter()
        .filter(|(_, source)| !checker::only_declares(source))
        .map(|(file, source)| format!("| `src/{file}` | {} |", first_sentence(&source)))
        .collect();
    assert_eq!(rows, expected, "the map should be:\n{}", expected.join("\n"));
}
