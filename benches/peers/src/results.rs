//! All values of a run, and the file that keeps them: `docs/performance.csv`, a line for each
//! repetition.
//!
//! The file has two kinds of lines besides: a comment for each suite that says where it was
//! measured, and for each peer a line of the work `verify`, whose figure is the outcome.

use std::collections::BTreeMap;
use std::fs;
use std::io::ErrorKind;
use std::path::PathBuf;

use crate::case::{Case, Figure};

const HEADER: &str = "suite,work,peer,size,delays,figure,value";
const VERIFY: &str = "verify";

#[derive(Default)]
pub(crate) struct Results {
    /// In the order in which they were measured, which is that of the report.
    rows: Vec<Row>,
    /// Where each suite was measured.
    machines: BTreeMap<String, String>,
}

pub(crate) struct Row {
    pub(crate) case: Case,
    pub(crate) figure: Figure,
}

/// What the repetitions of a measurement gave.
#[derive(Clone, Copy)]
pub(crate) struct Spread {
    pub(crate) median: f64,
    pub(crate) min: f64,
    pub(crate) max: f64,
}

impl Results {
    pub(crate) fn add(&mut self, case: &Case, figures: Vec<Figure>) {
        let rows = figures.into_iter().map(|figure| Row { case: case.clone(), figure });
        self.rows.extend(rows);
    }

    pub(crate) fn measured_on(&mut self, suite: &str, machine: String) {
        self.machines.insert(suite.to_owned(), machine);
    }

    /// Says whether a peer fired each timer when it should: "exact", or the deviation.
    pub(crate) fn verified(&mut self, suite: &str, peer: &str, outcome: &str) {
        let case = Case {
            suite: suite.to_owned(),
            work: VERIFY.to_owned(),
            peer: peer.to_owned(),
            size: 0,
            delays: "-".to_owned(),
        };
        // The file has commas of its own.
        let name = outcome.replace(',', ";");
        self.add(&case, vec![Figure { name, value: 1.0 }]);
    }

    pub(crate) fn machine(&self, suite: &str) -> &str {
        self.machines.get(suite).map_or("unknown", String::as_str)
    }

    /// The outcome of a verification.
    pub(crate) fn outcome(&self, suite: &str, peer: &str) -> Option<&str> {
        let mut rows = self.of(suite, VERIFY);
        Some(&rows.find(|row| row.case.peer == peer)?.figure.name)
    }

    /// All suites, in the order of the report.
    pub(crate) fn suites(&self) -> Vec<&str> {
        distinct(self.rows.iter().map(|row| row.case.suite.as_str()))
    }

    /// The values of a work.
    pub(crate) fn of(&self, suite: &str, work: &str) -> impl Iterator<Item = &Row> {
        self.rows.iter().filter(move |row| row.case.suite == suite && row.case.work == work)
    }

    /// The peers that did a work, in the order of the report.
    pub(crate) fn peers(&self, suite: &str, work: &str, delays: &str) -> Vec<&str> {
        let rows = self.of(suite, work).filter(|row| row.case.delays == delays);
        distinct(rows.map(|row| row.case.peer.as_str()))
    }

    /// The peers that were verified.
    pub(crate) fn verified_peers(&self, suite: &str) -> Vec<&str> {
        self.peers(suite, VERIFY, "-")
    }

    /// The sizes at which a work was done, the smallest first.
    pub(crate) fn sizes(&self, suite: &str, work: &str, delays: &str) -> Vec<usize> {
        let rows = self.of(suite, work).filter(|row| row.case.delays == delays);
        let mut sizes = distinct(rows.map(|row| row.case.size));
        sizes.sort_unstable();
        sizes
    }

    /// What the repetitions of a case gave for a figure.
    pub(crate) fn spread(&self, case: &Case, figure: &str) -> Option<Spread> {
        let rows = self.rows.iter().filter(|row| row.case == *case && row.figure.name == figure);
        let mut values: Vec<f64> = rows.map(|row| row.figure.value).collect();
        values.sort_by(f64::total_cmp);
        let (&min, &max) = (values.first()?, values.last()?);
        let middle = values.len() / 2;
        let median = if values.len().is_multiple_of(2) {
            (values[middle - 1] + values[middle]) / 2.0
        } else {
            values[middle]
        };
        Some(Spread { median, min, max })
    }

    /// These results, with what was measured anew in place of the same suites.
    pub(crate) fn replaced_by(mut self, new: Results) -> Results {
        let replaced: Vec<String> = new.suites().into_iter().map(str::to_owned).collect();
        self.rows.retain(|row| !replaced.contains(&row.case.suite));
        self.rows.extend(new.rows);
        self.rows.sort_by(|a, b| a.case.suite.cmp(&b.case.suite));
        self.machines.extend(new.machines);
        self
    }
}

/// Each item once, in the order of its first appearance.
fn distinct<T: PartialEq>(items: impl Iterator<Item = T>) -> Vec<T> {
    let mut seen = Vec::new();
    for item in items {
        if !seen.contains(&item) {
            seen.push(item);
        }
    }
    seen
}

/// The documentation of the repository.
pub(crate) fn docs() -> PathBuf {
    PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs"))
}

fn path() -> PathBuf {
    docs().join("performance.csv")
}

pub(crate) fn write(results: &Results) -> Result<(), String> {
    let mut text = String::new();
    for (suite, machine) in &results.machines {
        text += &format!("# {suite}: {machine}\n");
    }
    text += &format!("{HEADER}\n");
    for Row { case: Case { suite, work, peer, size, delays }, figure } in &results.rows {
        let Figure { name, value } = figure;
        text += &format!("{suite},{work},{peer},{size},{delays},{name},{value}\n");
    }
    fs::write(path(), text).map_err(|error| format!("{}: {error}", path().display()))
}

pub(crate) fn read() -> Result<Results, String> {
    let text = fs::read_to_string(path());
    parse(&text.map_err(|error| format!("{}: {error}", path().display()))?)
}

/// Nothing, if nothing was ever written.
pub(crate) fn read_if_there() -> Result<Results, String> {
    match fs::metadata(path()) {
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(Results::default()),
        _ => read(),
    }
}

fn parse(text: &str) -> Result<Results, String> {
    let mut results = Results::default();
    for line in text.lines().filter(|line| *line != HEADER) {
        if let Some((suite, machine)) = line.strip_prefix("# ").and_then(|c| c.split_once(": ")) {
            results.measured_on(suite, machine.to_owned());
            continue;
        }
        results.rows.push(row(line).ok_or_else(|| format!("`{line}` is not as it was written"))?);
    }
    Ok(results)
}

fn row(line: &str) -> Option<Row> {
    let fields: Vec<&str> = line.split(',').collect();
    let [suite, work, peer, size, delays, name, value] = fields[..] else {
        return None;
    };
    let case = Case {
        suite: suite.to_owned(),
        work: work.to_owned(),
        peer: peer.to_owned(),
        size: size.parse().ok()?,
        delays: delays.to_owned(),
    };
    Some(Row { case, figure: Figure { name: name.to_owned(), value: value.parse().ok()? } })
}
