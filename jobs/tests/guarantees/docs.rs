//! The promises of `docs/guarantees.md` and the defects of `docs/invariants.md` have tests that carry their tags.
//!
//! The doc comment of a test begins with its tags: `/// P6, Redis P6, D1: A job runs once.`

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// Every promise has a test that carries its tag, and every tag of a promise on a test stands on the page.
#[test]
fn promises_and_tests_name_each_other() {
    let page = tags_of_page("docs/guarantees.md");
    let (on_redis, numbered): (Vec<_>, Vec<_>) =
        page.iter().cloned().partition(|tag| tag.starts_with("Redis "));
    let every = (1..=numbered.len() + 1).filter(|number| *number != 4);
    assert_eq!(numbered, every.map(|number| format!("P{number}")).collect::<Vec<_>>());
    assert_eq!(on_redis.len(), 16, "those that differ on Redis: {on_redis:?}");
    assert_same(&page, |tag| !tag.starts_with('D'));
}

/// Every defect of others has a test that carries its tag, and every tag of a defect on a test stands on the page.
#[test]
fn defects_and_tests_name_each_other() {
    let page = tags_of_page("docs/invariants.md");
    assert_eq!(page, (1..=19).map(|number| format!("D{number}")).collect::<Vec<_>>());
    assert_same(&page, |tag| tag.starts_with('D'));
}

/// The tags of a doc comment are what stands before the first colon, and nothing else is a tag.
#[test]
fn tags_stand_at_the_beginning_of_a_doc_comment() {
    assert_eq!(tags_of_doc("P6, Redis P6, D1: A job runs once."), ["P6", "Redis P6", "D1"]);
    assert!(tags_of_doc("A job runs once (P6), as P9 says: once.").is_empty());
    assert!(tags_of_doc("P6, as P9 says: a job runs once.").is_empty());
    let source = "/// P1,\n/// P2: A.\n#[cfg(a)]\n#[test]\nfn a() {}\n/// P3: B.\nfn b() {}\n";
    let mut found = BTreeSet::new();
    tags_of_tests(source, &mut found);
    assert_eq!(found, BTreeSet::from(["P1".to_owned(), "P2".to_owned()]));
}

/// The tags of the page and those of the tests are the same, of the tags that `is_meant` takes.
fn assert_same(page: &[String], is_meant: impl Fn(&str) -> bool) {
    let mut tests = BTreeSet::new();
    // The package of this crate lacks what is outside of its folder.
    let outside = ["../compare/jobs-with", "../jobs-cli", "../jobs-web"];
    for folder in ["tests", "src"].into_iter().chain(outside).map(|folder| root().join(folder)) {
        if folder.exists() {
            collect(&folder, &mut tests);
        }
    }
    tests.retain(|tag| is_meant(tag));
    let page: BTreeSet<String> = page.iter().cloned().collect();
    let untested: Vec<_> = page.difference(&tests).collect();
    assert!(untested.is_empty(), "on the page, and on no test: {untested:?}");
    let unknown: Vec<_> = tests.difference(&page).collect();
    assert!(unknown.is_empty(), "on a test, and not on the page: {unknown:?}");
}

/// Returns the first cells of the rows of a page that are tags, in their order.
fn tags_of_page(page: &str) -> Vec<String> {
    let text = fs::read_to_string(root().join(page)).unwrap();
    let cells = text.lines().filter_map(|line| line.strip_prefix("| ")?.split(" | ").next());
    cells.filter(|cell| is_tag(cell)).map(str::to_owned).collect()
}

/// Says whether a word is a tag, such as `P6`, `Redis P6` or `D1`.
fn is_tag(word: &str) -> bool {
    let number = word.strip_prefix("Redis ").unwrap_or(word).strip_prefix(['P', 'D']);
    number.is_some_and(|number| {
        !number.is_empty() && number.chars().all(|digit| digit.is_ascii_digit())
    })
}

/// Returns the tags with which a doc comment begins.
fn tags_of_doc(doc: &str) -> Vec<&str> {
    let tags: Vec<&str> = doc.split_once(": ").map_or("", |(tags, _)| tags).split(", ").collect();
    if tags.iter().all(|tag| is_tag(tag)) { tags } else { vec![] }
}

/// Adds the tags in the doc comments of the tests of a file.
fn tags_of_tests(source: &str, into: &mut BTreeSet<String>) {
    let mut doc = String::new();
    for line in source.lines().map(str::trim) {
        match line.strip_prefix("///") {
            Some(text) => doc += text,
            None if line == "#[test]" => {
                into.extend(tags_of_doc(doc.trim()).into_iter().map(str::to_owned));
            }
            None if line.starts_with("#[") => {}
            None => doc.clear(),
        }
    }
}

fn collect(folder: &Path, into: &mut BTreeSet<String>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.ends_with("target") {
            continue;
        }
        if path.is_dir() {
            collect(&path, into);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            tags_of_tests(&fs::read_to_string(&path).unwrap(), into);
        }
    }
}
