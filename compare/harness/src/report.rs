//! The report: tables in a page, between pairs of marker lines, and drawings.
//!
//! Ground rules:
//!
//! - The report replaces the text between `<!-- begin NAME -->` and `<!-- end NAME -->`, and leaves
//!   the rest of the page as it is.
//! - A table without markers is an error, after everything else has been written: a new table should
//!   not be forgotten.
//! - Every number is computed from the file of figures.

use std::cmp::Ordering;
use std::fs;
use std::path::{Path, PathBuf};

use crate::Fallible;
use crate::case::Case;
use crate::results::Results;

/// The tables and plots of a comparison.
pub trait Comparison {
    type Case: Case;

    /// The page.
    fn page(&self) -> PathBuf;

    /// The file of figures.
    fn file(&self) -> PathBuf;

    /// The order of the file of figures, which is also that of the rows of a table.
    fn order(&self, a: &Self::Case, b: &Self::Case) -> Ordering;

    /// Every table, with the name of its markers.
    fn tables(&self, results: &Results<Self::Case>) -> Vec<(String, String)>;

    /// Draws every plot that has figures. The folder is that of the plots of the page.
    fn draw(&self, results: &Results<Self::Case>, folder: &Path) -> Fallible;

    /// The figures that were written.
    fn figures(&self) -> Fallible<Results<Self::Case>> {
        Results::read(&self.file())
    }

    /// Writes every table and drawing.
    fn report(&self, results: &Results<Self::Case>) -> Fallible {
        let page = self.page();
        let folder = page.with_file_name("plots");
        fs::create_dir_all(&folder).map_err(|error| format!("{}: {error}", folder.display()))?;
        self.draw(results, &folder)?;
        write_page(&page, self.tables(results))
    }

    /// Writes figures that were measured anew, and every table and drawing.
    fn keep(&self, new: Results<Self::Case>) -> Fallible {
        let results = self.figures()?.replaced_by(new, |a, b| self.order(a, b));
        results.write(&self.file())?;
        self.report(&results)
    }
}

fn write_page(path: &Path, tables: Vec<(String, String)>) -> Fallible {
    let at = |error| format!("{}: {error}", path.display());
    let mut text = fs::read_to_string(path).map_err(at)?;
    let mut missing = Vec::new();
    for (name, table) in tables {
        match between_markers(&text, &name, &table) {
            Some(changed) => text = changed,
            None => missing.push(format!("<!-- begin {name} -->\n<!-- end {name} -->")),
        }
    }
    fs::write(path, text).map_err(at)?;
    if missing.is_empty() {
        return Ok(());
    }
    Err(format!("{} wants these lines, or their pairs:\n{}", path.display(), missing.join("\n")))
}

/// The text with new content between the markers of a name.
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
