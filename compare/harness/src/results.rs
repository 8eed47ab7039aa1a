//! All values of a run, and the file that keeps them: a line for each figure of each repetition, and
//! a comment for each part that says where it was measured.

use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::fs;
use std::io::ErrorKind;
use std::path::Path;

use crate::Fallible;
use crate::case::{Case, Figures};

pub struct Results<C> {
    /// In the order in which they were measured.
    lines: Vec<Line<C>>,
    /// Where each part was measured.
    places: BTreeMap<String, String>,
}

/// One figure of one repetition.
pub struct Line<C> {
    pub case: C,
    pub figure: String,
    pub value: f64,
}

/// The values of all repetitions of a measurement.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Spread {
    pub median: f64,
    pub min: f64,
    pub max: f64,
}

impl<C> Default for Results<C> {
    fn default() -> Results<C> {
        Results { lines: Vec::new(), places: BTreeMap::new() }
    }
}

impl<C: Case> Results<C> {
    pub fn add(&mut self, case: &C, figures: Figures) {
        let line = |(figure, value)| Line { case: case.clone(), figure, value };
        self.lines.extend(figures.into_iter().map(line));
    }

    /// Adds the results of other measurements.
    pub fn extend(&mut self, other: Self) {
        self.lines.extend(other.lines);
        self.places.extend(other.places);
    }

    /// Notes where a part was measured.
    pub fn measured(&mut self, part: &str, place: String) {
        self.places.insert(part.to_owned(), place);
    }

    /// Where a part was measured.
    pub fn place(&self, part: &str) -> &str {
        self.places.get(part).map_or("not measured", String::as_str)
    }

    /// All figures of all repetitions.
    pub fn lines(&self) -> impl Iterator<Item = &Line<C>> {
        self.lines.iter()
    }

    /// The cases of a kind, in the order in which they were measured first.
    pub fn cases(&self, wanted: impl Fn(&C) -> bool) -> Vec<&C> {
        distinct(self.lines.iter().map(|line| &line.case).filter(|case| wanted(case)))
    }

    /// The names of the figures of a case.
    pub fn figures(&self, case: &C) -> Vec<&str> {
        let lines = self.lines.iter().filter(|line| line.case == *case);
        distinct(lines.map(|line| line.figure.as_str()))
    }

    /// The values of a figure in all repetitions of a case.
    pub fn spread(&self, case: &C, figure: &str) -> Option<Spread> {
        let lines = self.lines.iter().filter(|line| line.figure == figure && line.case == *case);
        let mut values: Vec<f64> = lines.map(|line| line.value).collect();
        values.sort_by(f64::total_cmp);
        let (&min, &max) = (values.first()?, values.last()?);
        let middle = values.len() / 2;
        let median = match values.len() % 2 {
            0 => (values[middle - 1] + values[middle]) / 2.0,
            _ => values[middle],
        };
        Some(Spread { median, min, max })
    }

    /// These results, in which the `new` ones take the place of the older ones, in an order.
    pub fn replaced_by(mut self, new: Self, order: impl Fn(&C, &C) -> Ordering) -> Self {
        let newer: Vec<C> = new.cases(|_| true).into_iter().cloned().collect();
        self.lines.retain(|line| !newer.iter().any(|newer| newer.replaces(&line.case)));
        self.extend(new);
        self.lines.sort_by(|a, b| order(&a.case, &b.case));
        self
    }

    /// Writes all to a file.
    pub fn write(&self, path: &Path) -> Fallible {
        let mut text = String::new();
        for (part, place) in &self.places {
            text += &format!("# {part}: {place}\n");
        }
        text += &header::<C>();
        text.push('\n');
        for Line { case, figure, value } in &self.lines {
            text += &format!("{},{figure},{value}\n", case.fields().join(","));
        }
        fs::write(path, text).map_err(|error| format!("{}: {error}", path.display()))
    }

    /// Reads the file. Returns empty results if there is none.
    pub fn read(path: &Path) -> Fallible<Self> {
        let text = match fs::read_to_string(path) {
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Results::default()),
            text => text.map_err(|error| format!("{}: {error}", path.display()))?,
        };
        let (mut results, header) = (Results::default(), header::<C>());
        for line in text.lines().filter(|line| *line != header) {
            if let Some((part, place)) = line.strip_prefix("# ").and_then(|l| l.split_once(": ")) {
                results.measured(part, place.to_owned());
                continue;
            }
            let parsed = parse(line).ok_or_else(|| format!("`{line}` is not as it was written"))?;
            results.lines.push(parsed);
        }
        Ok(results)
    }
}

fn header<C: Case>() -> String {
    format!("{},figure,value", C::FIELDS)
}

fn parse<C: Case>(line: &str) -> Option<Line<C>> {
    let fields: Vec<&str> = line.split(',').collect();
    let (case, [figure, value]) = fields.split_last_chunk()?;
    let value = value.parse().ok()?;
    Some(Line { case: C::parse(case)?, figure: (*figure).to_owned(), value })
}

/// Each item once, in the order of its first appearance.
pub fn distinct<T: PartialEq>(items: impl Iterator<Item = T>) -> Vec<T> {
    let mut seen = Vec::new();
    for item in items {
        if !seen.contains(&item) {
            seen.push(item);
        }
    }
    seen
}
