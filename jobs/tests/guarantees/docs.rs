//! Each sentence of `docs/guarantees.md` names tests that exist, and each defect in
//! `docs/invariants.md`.

use std::fs;
use std::path::Path;

/// Every promise in `docs/guarantees.md` names tests that exist.
#[test]
fn promises_name_their_tests() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let text = fs::read_to_string(root.join("docs/guarantees.md")).unwrap();
    let mut sources = String::new();
    collect(&root.join("tests"), &mut sources);
    collect(&root.join("src"), &mut sources);
    let mut promises = 0;
    let mut on_redis = 0;
    let is_promise = |line: &&str| line.starts_with("| P") || line.starts_with("| Redis P");
    for line in text.lines().filter(is_promise) {
        promises += i32::from(line.starts_with("| P"));
        on_redis += i32::from(line.starts_with("| Redis P"));
        names_its_tests(line, &sources);
    }
    let expected = "P1 to P35 without P4, which is for Redis";
    assert_eq!(promises, 34, "{expected}");
    assert_eq!(on_redis, 16, "those that differ on Redis");
}

/// The last cell of the row names tests, all of which exist.
fn names_its_tests(line: &str, sources: &str) {
    let tests = line.trim_end_matches([' ', '|']).rsplit('|').next().unwrap();
    let names: Vec<&str> = tests.split('`').skip(1).step_by(2).collect();
    assert!(!names.is_empty(), "no test: {line}");
    for name in names {
        let function = name.rsplit("::").next().unwrap();
        assert!(sources.contains(&format!("fn {function}(")), "{function} of {line}");
    }
}

/// Every defect of others in `docs/invariants.md` names tests that exist.
#[test]
fn defects_of_others_name_their_tests() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let text = fs::read_to_string(root.join("docs/invariants.md")).unwrap();
    let mut sources = String::new();
    collect(&root.join("tests"), &mut sources);
    let defects: Vec<&str> = text.lines().filter(|line| line.starts_with("| D")).collect();
    assert_eq!(defects.len(), 19);
    defects.into_iter().for_each(|line| names_its_tests(line, &sources));
}

fn collect(folder: &Path, into: &mut String) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            collect(&path, into);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            into.push_str(&fs::read_to_string(&path).unwrap());
        }
    }
}
