//! Versions of packages, from the files that pin them.

use std::fs;
use std::path::Path;

/// The version of a crate in the `Cargo.lock` of a package, which stands in its folder or in that of its workspace.
pub fn locked(folder: &Path, package: &str) -> Option<String> {
    let file =
        folder.ancestors().map(|folder| folder.join("Cargo.lock")).find(|file| file.exists())?;
    pinned(&file, &format!("name = \"{package}\"\nversion = \""), '"')
}

/// The part of a file from the end of a text to the next occurrence of a letter.
pub fn pinned(file: &Path, before: &str, end: char) -> Option<String> {
    let text = fs::read_to_string(file).ok()?;
    let rest = &text[text.find(before)? + before.len()..];
    Some(rest.split(end).next()?.to_owned())
}
