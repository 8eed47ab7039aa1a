//! The pages: links lead somewhere, snippets compile, and `docs/versions.md` is right.
//!
//! The pages and sources of the crates on this one are in a checkout of it, but not in its package.

mod links;
mod snippets;
mod versions;

use std::fs;
use std::path::{Path, PathBuf};

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// Returns the READMEs and all pages in the folders of documentation.
fn pages() -> Vec<PathBuf> {
    let mut pages = Vec::new();
    for folder in ["", "docs", "jobs", "jobs/docs", "jobs-cli", "jobs-web"] {
        let Ok(entries) = fs::read_dir(root().join(folder)) else { continue };
        let paths = entries.map(|entry| entry.unwrap().path());
        pages.extend(paths.filter(|path| path.extension().is_some_and(|end| end == "md")));
    }
    pages
}
