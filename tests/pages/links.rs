//! Every link of a page to another page leads there, to a heading of it too.
//!
//! Pages of a checkout link to files that the package of this crate does not have, so the test is for a checkout.

use std::fs;
use std::path::Path;

use crate::{pages, root};

/// Returns the lines of a page that are no code.
fn prose(text: &str) -> String {
    text.split("\n```").step_by(2).collect()
}

/// Returns the targets of the links.
fn links(text: &str) -> Vec<String> {
    let ends = prose(text);
    let links = ends.split("](").skip(1).filter_map(|rest| rest.split_once(')'));
    links.map(|(link, _)| link.to_owned()).filter(|link| !link.contains("::")).collect()
}

/// Returns the anchors of the headings, as GitHub makes them.
fn anchors(text: &str) -> Vec<String> {
    let headings = text.lines().filter(|line| line.starts_with('#'));
    let anchor = |heading: &str| {
        let words = heading.trim_start_matches('#').trim().to_lowercase();
        let kept = words.chars().filter(|c| c.is_alphanumeric() || "-_ ".contains(*c));
        kept.map(|c| if c == ' ' { '-' } else { c }).collect()
    };
    headings.map(anchor).collect()
}

/// Says why a link of a page leads nowhere.
fn fault(page: &Path, link: &str) -> Option<String> {
    if link.starts_with("http") {
        return None;
    }
    let (path, anchor) = link.split_once('#').unwrap_or((link, ""));
    let target = if path.is_empty() { page.to_owned() } else { page.parent()?.join(path) };
    let is_page = target.extension().is_some_and(|end| end == "md");
    let reason = match (target.exists(), anchor) {
        (false, _) => "no such file",
        (true, "") => return None,
        (true, _) if !is_page => return None,
        (true, anchor) => {
            let text = fs::read_to_string(&target).unwrap();
            match anchors(&text).iter().any(|one| one == anchor) {
                true => return None,
                false => "no such heading",
            }
        }
    };
    Some(format!("{}: {link}: {reason}", page.display()))
}

/// Every link leads somewhere.
#[test]
fn links_between_pages_lead_somewhere() {
    if !root().join("jobs").exists() {
        return;
    }
    let (mut seen, mut faults) = (0, Vec::new());
    let others = ["compare/README.md", "fuzz/README.md"].map(|page| root().join(page));
    for page in pages().into_iter().chain(others) {
        let links = links(&fs::read_to_string(&page).unwrap());
        seen += links.len();
        faults.extend(links.iter().filter_map(|link| fault(&page, link)));
    }
    assert!(seen > 200, "{seen} links");
    assert!(faults.is_empty(), "\n{}", faults.join("\n"));
}

/// A link to a file or a heading that is not there is a fault.
#[test]
fn link_that_leads_nowhere_is_found() {
    let page = root().join("README.md");
    assert_eq!(fault(&page, "docs/with.md"), None);
    assert_eq!(fault(&page, "#what-it-costs"), None);
    assert!(fault(&page, "docs/without.md").is_some());
    assert!(fault(&page, "#what-it-does-not-cost").is_some());
    assert_eq!(links("a [b](c) `d`\n```rust\n[e](f)\n```\n[g](h)"), ["c", "h"]);
}
