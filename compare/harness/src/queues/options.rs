//! The command line.

use super::plan::Plan;
use crate::Fallible;
use crate::options::{Common, Words};

/// The choices of a run.
#[derive(Default)]
pub(super) struct Options {
    pub(super) common: Common,
    long: bool,
    only: Vec<String>,
    rows: Vec<String>,
}

impl Options {
    pub(super) fn has_contender(&self, name: &str) -> bool {
        self.only.is_empty() || self.only.iter().any(|only| only == name)
    }

    /// Whether a row is measured. A row of the long run is measured in a long run, or if it is named.
    pub(super) fn has_row(&self, name: &str, long: bool) -> bool {
        let named = self.rows.iter().any(|row| row == name);
        named || self.rows.is_empty() && (self.long || !long)
    }
}

pub(super) fn parse<R, C>(plan: &Plan<R, C>, mut words: Words) -> Fallible<Options> {
    let mut options = Options::default();
    while let Some(word) = words.take() {
        match word.as_str() {
            "--only" => options.only.extend(words.names()?),
            "--rows" => options.rows.extend(words.names()?),
            "--long" if plan.rows.iter().any(|row| row.long) => options.long = true,
            word if options.common.heed(word, &mut words)? => {}
            _ => return Err(format!("what is `{word}`?\n\n{}", plan.usage)),
        }
    }
    if let Some(row) = options.rows.iter().find(|row| plan.row(row).is_none()) {
        return Err(format!("no row is called `{row}`"));
    }
    if let Some(name) = options.only.iter().find(|name| plan.contender(name).is_none()) {
        return Err(format!("no contender is called `{name}`"));
    }
    Ok(options)
}
