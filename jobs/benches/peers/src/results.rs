//! All values of a run, and the file that keeps them, in `jobs/docs`: a line for each figure of each
//! repetition. The comparison on Redis has this file, too.

use std::collections::BTreeMap;
use std::fs;
use std::io::ErrorKind;
use std::path::PathBuf;

use crate::Fallible;

const HEADER: &str = "row,contender,level,figure,value";

#[derive(Default)]
pub(crate) struct Results {
    /// In the order in which they were measured.
    lines: Vec<Line>,
    /// Where each row was measured, and how.
    places: BTreeMap<String, String>,
}

#[derive(Clone, PartialEq)]
struct Line {
    case: Case,
    figure: String,
    value: f64,
}

/// One measurement, in a process of its own.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct Case {
    pub(crate) row: String,
    pub(crate) contender: String,
    pub(crate) level: String,
}

/// What the repetitions of a measurement gave.
#[derive(Clone, Copy)]
pub(crate) struct Spread {
    pub(crate) median: f64,
    pub(crate) min: f64,
    pub(crate) max: f64,
}

impl Results {
    pub(crate) fn add(&mut self, case: &Case, figures: &[(String, f64)]) {
        self.lines.extend(figures.iter().map(|(figure, value)| Line {
            case: case.clone(),
            figure: figure.clone(),
            value: *value,
        }));
    }

    pub(crate) fn measured(&mut self, row: &str, place: String) {
        self.places.insert(row.to_owned(), place);
    }

    pub(crate) fn place(&self, row: &str) -> &str {
        self.places.get(row).map_or("not measured", String::as_str)
    }

    /// The measurements of a row, in the order in which they were made first.
    pub(crate) fn cases(&self, row: &str) -> Vec<Case> {
        let mut cases = Vec::new();
        for line in self.lines.iter().filter(|line| line.case.row == row) {
            if !cases.contains(&line.case) {
                cases.push(line.case.clone());
            }
        }
        cases
    }

    /// What the repetitions gave for a figure.
    pub(crate) fn spread(&self, case: &Case, figure: &str) -> Option<Spread> {
        let of_it = |line: &&Line| line.case == *case && line.figure == figure;
        let mut values: Vec<f64> = self.lines.iter().filter(of_it).map(|line| line.value).collect();
        values.sort_by(f64::total_cmp);
        let (&min, &max) = (values.first()?, values.last()?);
        let middle = values.len() / 2;
        let median = match values.len() % 2 {
            0 => (values[middle - 1] + values[middle]) / 2.0,
            _ => values[middle],
        };
        Some(Spread { median, min, max })
    }

    /// The median of a figure.
    pub(crate) fn median(
        &self,
        row: &str,
        contender: &str,
        level: &str,
        figure: &str,
    ) -> Option<f64> {
        let case = Case { row: row.into(), contender: contender.into(), level: level.into() };
        Some(self.spread(&case, figure)?.median)
    }

    /// These results, with what was measured anew in place of the same cases.
    pub(crate) fn replaced_by(mut self, new: Results) -> Results {
        let replaced = |line: &Line| new.lines.iter().any(|newer| newer.case == line.case);
        self.lines.retain(|line| !replaced(line));
        self.lines.extend(new.lines);
        let order = |line: &Line| crate::plan::order(&line.case);
        self.lines.sort_by_key(order);
        self.places.extend(new.places);
        self
    }
}

/// The documentation of the crate.
pub(crate) fn docs() -> PathBuf {
    PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs"))
}

fn path() -> PathBuf {
    docs().join(format!("{}.csv", crate::plan::REPORT))
}

pub(crate) fn write(results: &Results) -> Fallible {
    let mut text = String::new();
    for (row, place) in &results.places {
        text += &format!("# {row}: {place}\n");
    }
    text += &format!("{HEADER}\n");
    for Line { case: Case { row, contender, level }, figure, value } in &results.lines {
        text += &format!("{row},{contender},{level},{figure},{value}\n");
    }
    fs::write(path(), text).map_err(|error| format!("{}: {error}", path().display()))
}

/// Reads what was written: nothing, if nothing was.
pub(crate) fn read() -> Fallible<Results> {
    let text = match fs::read_to_string(path()) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Results::default()),
        text => text.map_err(|error| format!("{}: {error}", path().display()))?,
    };
    let mut results = Results::default();
    for line in text.lines().filter(|line| *line != HEADER) {
        if let Some((row, place)) = line.strip_prefix("# ").and_then(|line| line.split_once(": ")) {
            results.measured(row, place.to_owned());
            continue;
        }
        results
            .lines
            .push(parse(line).ok_or_else(|| format!("`{line}` is not as it was written"))?);
    }
    Ok(results)
}

fn parse(line: &str) -> Option<Line> {
    let [row, contender, level, figure, value] =
        line.split(',').collect::<Vec<_>>().try_into().ok()?;
    let case = Case { row: row.into(), contender: contender.into(), level: level.into() };
    Some(Line { case, figure: figure.to_owned(), value: value.parse().ok()? })
}
