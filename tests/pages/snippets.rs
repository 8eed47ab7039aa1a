//! Every snippet of a page compiles as a reader sees it, pasted into `main.rs` or into a function.
//!
//! Ground rules:
//!
//! - The doctests compile each page that is included in a `lib.rs`, also the lines that begin with `# `. Only
//!   rustdoc hides those, so no snippet of a page has such a line.
//! - No snippet has a `cfg` of a feature: that would be a feature of the reader's crate, and the code below it
//!   would be left out.
//! - A snippet that no doctest compiles stands below the heading `# Not compiled here`, or is a whole file of a
//!   crate of its own ([`COMPILED_FILES`]).

use std::fs;
use std::path::Path;

use crate::{pages, root};

/// A snippet of a page.
struct Snippet {
    /// The path of the page, and the line at which the snippet begins.
    place: String,
    /// The text after the three backticks.
    info: String,
    lines: Vec<String>,
    /// It stands below the heading `# Not compiled here`.
    is_not_compiled: bool,
}

/// Returns the Rust snippets of a page.
fn snippets(page: &Path) -> Vec<Snippet> {
    let text = fs::read_to_string(page).unwrap();
    let mut snippets: Vec<Snippet> = Vec::new();
    let mut is_inside = false;
    let mut is_not_compiled = false;
    for (n, line) in text.lines().enumerate() {
        match (is_inside, line.strip_prefix("```")) {
            (false, Some(info)) => {
                is_inside = true;
                let place = format!("{}:{}", page.display(), n + 1);
                snippets.push(Snippet {
                    place,
                    info: info.to_owned(),
                    lines: vec![],
                    is_not_compiled,
                });
            }
            (true, Some(_)) => is_inside = false,
            (true, None) => snippets.last_mut().unwrap().lines.push(line.to_owned()),
            (false, None) => is_not_compiled |= line == "# Not compiled here",
        }
    }
    assert!(!is_inside, "{}: a snippet has no end", page.display());
    snippets.retain(|snippet| snippet.info.split(',').next() == Some("rust"));
    snippets
}

/// The files that are snippets. Crates beside the workspace compile them.
const COMPILED_FILES: [&str; 1] = ["compare/jobs-with/tests/dashboard/mount.rs"];

fn is_a_compiled_file(snippet: &Snippet) -> bool {
    let text = snippet.lines.join("\n") + "\n";
    let read = |file: &&str| fs::read_to_string(root().join(file));
    COMPILED_FILES.iter().any(|file| read(file).is_ok_and(|file| file == text))
}

/// Returns the reasons why a reader cannot compile the snippet as it is shown.
fn faults(snippet: &Snippet) -> Vec<String> {
    let mut faults = Vec::new();
    match &*snippet.info {
        "rust" | "rust,no_run" => {}
        "rust,ignore" if snippet.is_not_compiled || is_a_compiled_file(snippet) => {}
        info => faults.push(format!("`{info}`: no test compiles it")),
    }
    for line in &snippet.lines {
        let trimmed = line.trim_start();
        if trimmed == "#" || trimmed.starts_with("# ") || trimmed.starts_with("##") {
            faults.push(format!("a reader sees what rustdoc hides: {line}"));
        }
        if line.contains("cfg(feature") || line.contains("cfg(not(feature") {
            faults.push(format!("the feature would be one of the reader's crate: {line}"));
        }
    }
    // rustdoc wraps the snippet in a `main` that returns the value.
    let has_main = snippet.lines.iter().any(|line| line.contains("fn main()"));
    if !has_main && snippet.lines.last().is_some_and(|line| line.ends_with("(())")) {
        faults.push("the snippet ends with a value, so it is no body of a function".to_owned());
    }
    faults.iter().map(|fault| format!("{}: {fault}", snippet.place)).collect()
}

/// Every snippet of a page is shown whole.
#[test]
fn snippets_of_pages_are_shown_whole() {
    let found: Vec<Snippet> = pages().iter().flat_map(|page| snippets(page)).collect();
    assert!(found.len() >= 15, "{} snippets", found.len());
    let faults: Vec<String> = found.iter().flat_map(faults).collect();
    assert!(faults.is_empty(), "\n{}", faults.join("\n"));
}

/// Every page with a snippet is compiled by the doctests of a crate.
#[test]
fn pages_with_snippets_are_doctests() {
    let crates = [
        "src/lib.rs",
        "jobs/src/lib.rs",
        "jobs-web/src/lib.rs",
        "compare/jobs-with/src/lib.rs",
        "compare/jobs-with/traces/src/lib.rs",
        "compare/with/src/lib.rs",
    ];
    let mut included = Vec::new();
    for lib in crates {
        let lib = root().join(lib);
        let Ok(text) = fs::read_to_string(&lib) else { continue };
        let names =
            text.split("include_str!(\"").skip(1).map(|rest| rest.split('"').next().unwrap());
        included.extend(names.map(|name| lib.parent().unwrap().join(name).canonicalize().unwrap()));
    }
    for page in pages() {
        let is_compiled = included.contains(&page.canonicalize().unwrap());
        // The package of this crate does not have the crates that compile the other pages.
        let is_checkout = root().join("compare").exists();
        let has_snippets = !snippets(&page).is_empty();
        assert!(is_compiled || !has_snippets || !is_checkout, "{}", page.display());
    }
}

/// A snippet that a reader cannot compile is a fault.
#[test]
fn faults_of_snippets_are_found() {
    let faults = |info: &str, text: &str| {
        let lines = text.lines().map(str::to_owned).collect();
        let place = "page.md:1".to_owned();
        faults(&Snippet { place, info: info.to_owned(), lines, is_not_compiled: false }).len()
    };
    assert_eq!(faults("rust", "#[derive(Debug)]\nstruct A;\n\nfn main() {}"), 0);
    assert_eq!(faults("rust,no_run", "let a = 1; // # not hidden"), 0);
    assert_eq!(faults("rust", "    # let a = 1;\n#\nlet b = a;"), 2);
    assert_eq!(faults("rust,ignore", "let a = 1;"), 1);
    assert_eq!(faults("rust", "#[cfg(feature = \"async\")]\nfn a() {}"), 1);
    assert_eq!(faults("rust", "let a = 1;\nOk::<(), ()>(())"), 1);
}
