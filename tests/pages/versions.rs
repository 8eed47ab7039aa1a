//! What `docs/versions.md` says about the present version is so.

use std::fs;
use std::path::{Path, PathBuf};

use crate::root;

fn page() -> String {
    fs::read_to_string(root().join("docs/versions.md")).unwrap()
}

fn collect(folder: &Path, into: &mut Vec<PathBuf>) {
    let Ok(entries) = fs::read_dir(folder) else { return };
    for entry in entries {
        let path = entry.unwrap().path();
        if path.is_dir() {
            collect(&path, into);
        } else if path.extension().is_some_and(|end| end == "rs") {
            into.push(path);
        }
    }
}

/// The lines before an item that belong to it: attributes and documentation.
fn attributes<'a>(lines: &'a [&str], item: usize) -> impl Iterator<Item = &'a str> {
    let own = |line: &&str| line.starts_with("#[") || line.starts_with("///");
    lines[..item].iter().rev().map(|line| line.trim()).take_while(move |line| own(line))
}

/// Says which public types of the sources could not grow without breaking programs.
fn closed_types() -> Vec<String> {
    let mut files = Vec::new();
    collect(&root().join("src"), &mut files);
    collect(&root().join("jobs/src"), &mut files);
    collect(&root().join("jobs-web/src"), &mut files);
    let mut closed = Vec::new();
    for file in files {
        let text = fs::read_to_string(&file).unwrap();
        let lines: Vec<&str> = text.lines().collect();
        for (n, line) in lines.iter().enumerate() {
            let is_open = || attributes(&lines, n).any(|line| line == "#[non_exhaustive]");
            let name = |rest: &str| rest.split(['<', ' ', '(']).next().unwrap().to_owned();
            if let Some(rest) = line.strip_prefix("pub enum ") {
                closed.extend((!is_open()).then(|| name(rest)));
            } else if let Some(rest) = line.strip_prefix("pub struct ") {
                let body = lines[n + 1..].iter().take_while(|line| **line != "}");
                let is_empty = line.ends_with(';');
                let has_fields = !is_empty && body.clone().any(|line| line.starts_with("    pub "));
                closed.extend((has_fields && !is_open()).then(|| name(rest)));
            }
        }
    }
    closed.sort();
    closed
}

/// Enums, and structs with public fields, may grow, unless the page names them.
#[test]
fn types_that_cannot_grow_are_named() {
    let text = page();
    let named =
        |name: &String| text.contains(&format!("`{name}`")) || text.contains(&format!("`{name}<"));
    let closed = closed_types();
    assert!(closed.iter().all(named), "{closed:?}");
    assert!(!root().join("jobs").exists() || closed.contains(&"Cancel".to_owned()));
}

/// The page has the `rust-version` of every crate.
#[test]
fn lowest_rust_is_that_of_the_manifests() {
    let text = page();
    let crates = [
        ("for `tickwheel`", "Cargo.toml"),
        ("for `tickwheel-jobs` and the crates on it", "jobs/Cargo.toml"),
        ("for `tickwheel-jobs` and the crates on it", "jobs-web/Cargo.toml"),
        ("for `tickwheel-jobs` and the crates on it", "jobs-cli/Cargo.toml"),
    ];
    for (names, manifest) in crates {
        let Ok(manifest) = fs::read_to_string(root().join(manifest)) else { continue };
        let lowest = manifest.lines().find_map(|line| line.strip_prefix("rust-version = "));
        let lowest = lowest.unwrap().trim_matches('"');
        assert!(text.contains(&format!("{lowest} {names}")), "{manifest}: {lowest}");
    }
}

/// The page has the numbers of the layouts that the sources know.
#[test]
fn layouts_are_those_of_the_sources() {
    let text = page();
    let of = [
        ("| file |", "jobs/src/store/sqlite/schema.rs", "const VERSION: i64 = "),
        ("| server |", "jobs/src/store/redis/keys.rs", "const LAYOUT: u32 = "),
    ];
    for (row, source, constant) in of {
        let Ok(source) = fs::read_to_string(root().join(source)) else { continue };
        let number = source.split(constant).nth(1).unwrap().split(';').next().unwrap();
        assert!(text.contains(&format!("\n{row} {number} |")), "{row} {number}");
    }
}
