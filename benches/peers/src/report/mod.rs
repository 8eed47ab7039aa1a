//! The report: tables in `docs/performance.md`, between pairs of marker lines, and drawings.
//!
//! Ground rules:
//!
//! - Between `<!-- begin NAME -->` and `<!-- end NAME -->` everything is this program's; all else in
//!   the file is left as it is.
//! - A table without markers is an error, after everything else has been written: a new table should
//!   not be forgotten.
//! - Nothing is computed that is not in `docs/performance.csv`.

pub(crate) mod layout;
mod tables;

use std::fs;

use crate::plot;
use crate::results::{Results, docs};
pub(crate) use tables::{plain, verification};

/// Which peer is ours.
pub(crate) const OURS: &str = "tickwheel";

/// Writes every table and drawing that there are figures for.
pub(crate) fn write(results: &Results) -> Result<(), String> {
    plot::write(results)?;
    let path = docs().join("performance.md");
    let at = |error| format!("{}: {error}", path.display());
    let mut text = fs::read_to_string(&path).map_err(at)?;
    let mut missing = Vec::new();
    for (name, table) in tables::all(results) {
        match between_markers(&text, &name, &table) {
            Some(changed) => text = changed,
            None => missing.push(format!("<!-- begin {name} -->\n<!-- end {name} -->")),
        }
    }
    fs::write(&path, text).map_err(at)?;
    if missing.is_empty() {
        return Ok(());
    }
    Err(format!("{} wants these lines, or their pairs:\n{}", path.display(), missing.join("\n")))
}

/// The text with something new between the markers of a name.
fn between_markers(text: &str, name: &str, new: &str) -> Option<String> {
    let (begin, end) = (format!("<!-- begin {name} -->\n"), format!("<!-- end {name} -->"));
    let first = text.find(&begin)? + begin.len();
    let last = first + text[first..].find(&end)?;
    Some(format!("{}\n{new}\n{}", &text[..first], &text[last..]))
}

#[cfg(test)]
mod tests {
    use super::between_markers;

    #[test]
    fn only_what_lies_between_the_markers_changes() {
        let text = "before\n<!-- begin a -->\nold\n<!-- end a -->\nafter\n";
        let expected = "before\n<!-- begin a -->\n\nnew\n\n<!-- end a -->\nafter\n";
        let changed = between_markers(text, "a", "new\n").unwrap();
        assert_eq!(changed, expected);
        assert_eq!(between_markers(&changed, "a", "new\n").unwrap(), expected);
    }

    #[test]
    fn a_missing_marker_is_noticed() {
        assert_eq!(between_markers("<!-- begin a -->\n", "a", "new"), None);
        assert_eq!(between_markers("<!-- end a -->\n<!-- begin a -->\n", "a", "new"), None);
        assert_eq!(between_markers("", "a", "new"), None);
    }
}
