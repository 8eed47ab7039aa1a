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
//! violations planted in them. Some smaller rules about the files follow at the end.
//!
//! | file | what it holds |
//! | --- | --- |
//! | `scanner.rs` | splits a source into words |
//! | `paths.rs` | finds the paths in the words |
//! | `checker.rs` | finds the violations in the paths |
//! | `planted.rs` | the checker, on planted violations |
//! | `main.rs` | the checker on this crate, and smaller rules about its files |

mod checker;
mod paths;
mod planted;
mod scanner;

use std::fs;
use std::path::{Path, PathBuf};

use checker::{Module, PURE, modules, only_declares, violations};

/// A file has fewer lines than this.
const MAX_LINES: usize = 400;

// The files.

fn read(path: impl AsRef<Path>) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(path);
    fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// Every source file: its path in `src`, and its text.
fn sources() -> Vec<(String, String)> {
    let src = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut files = Vec::new();
    collect(&src, &mut files);
    files.sort();
    let relative = |path: &PathBuf| {
        let path = path.strip_prefix(&src).expect("found below src");
        path.iter().map(|part| part.to_string_lossy()).collect::<Vec<_>>().join("/")
    };
    files.iter().map(|path| (relative(path), read(path))).collect()
}

fn collect(folder: &Path, files: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).expect("a folder that can be listed") {
        let path = entry.expect("an entry that can be read").path();
        if path.is_dir() {
            collect(&path, files);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            files.push(path);
        }
    }
}

fn assert_none(found: Vec<String>) {
    assert!(found.is_empty(), "\n{}\n", found.join("\n"));
}

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

/// Each file in `src` has fewer than `MAX_LINES` lines.
#[test]
fn files_stay_below_the_limit_of_lines() {
    let too_long = sources().into_iter().filter_map(|(file, source)| {
        let lines = source.lines().count();
        (lines >= MAX_LINES).then(|| format!("src/{file} has {lines} lines: divide it"))
    });
    assert_none(too_long.collect());
}

/// `src/lib.rs` forbids unsafe code, and no file names it.
#[test]
fn unsafe_code_is_forbidden_and_absent() {
    let forbidden = "#![forbid(unsafe_code)]";
    let mut sources = sources();
    let lib = sources.iter_mut().find(|(file, _)| file == "lib.rs").expect("there is a lib.rs");
    assert!(lib.1.contains(forbidden), "src/lib.rs does not say {forbidden}");
    lib.1 = lib.1.replacen(forbidden, "", 1);
    let unsafe_files = sources.into_iter().filter(|(_, source)| source.contains("unsafe"));
    assert_none(unsafe_files.map(|(file, _)| format!("src/{file} says `unsafe`")).collect());
}

/// `clippy.toml` disallows the clocks and the sleep of `std`.
#[test]
fn clippy_refuses_clocks_and_sleep() {
    let rules = read("clippy.toml");
    for method in ["std::time::Instant::now", "std::time::SystemTime::now", "std::thread::sleep"] {
        let rule = format!("path = \"{method}\"");
        assert!(rules.contains(&rule), "clippy.toml no longer disallows `{method}`");
    }
}

/// The first sentence of a file's head, without the targets of its links.
fn first_sentence(source: &str) -> String {
    let head: Vec<&str> = source
        .lines()
        .skip_while(|line| line.starts_with("//") && !line.starts_with("//!"))
        .map_while(|line| line.strip_prefix("//!"))
        .map(str::trim)
        .take_while(|line| !line.is_empty())
        .collect();
    let head = head.join(" ");
    let end = head.find(". ").map_or(head.len(), |end| end + 1);
    let mut sentence = head[..end].replace("[`", "`").replace("`]", "`");
    while let Some((before, after)) = sentence.split_once("`(crate::") {
        let rest = after.split_once(')').map_or("", |(_, rest)| rest);
        sentence = format!("{before}`{rest}");
    }
    sentence
}

/// The map in `docs/architecture.md` has the first sentence of each file's head.
#[test]
fn map_has_the_first_sentence_of_each_file() {
    let map = read("docs/architecture.md");
    let rows: Vec<&str> = map.lines().filter(|line| line.starts_with("| `src/")).collect();
    let row = |(file, source): (String, String)| {
        format!("| `src/{file}` | {} |", first_sentence(&source))
    };
    let mut expected: Vec<String> = sources().into_iter().map(row).collect();
    expected.sort_by_key(|row| row.replace("/mod.rs", "/"));
    let expected = expected.join("\n");
    assert!(rows == expected.lines().collect::<Vec<_>>(), "the map should be:\n{expected}");
}

/// The first sentence is read without the targets of its links.
#[test]
fn first_sentence_is_read_without_its_links() {
    let head = "//! Points ([`Tick`](crate::Tick)), and\n//! [`Scale`]. More.\n//!\n//! Rules.";
    assert_eq!(first_sentence(head), "Points (`Tick`), and `Scale`.");
    assert_eq!(first_sentence("//! One line"), "One line");
}
