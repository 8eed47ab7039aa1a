//! Rows and contenders, as data.
//!
//! `R` is further data of a row that only the comparison uses, and `C` that of a contender.

use std::time::Duration;

use super::case::{Case, DISK};
use super::musts::Must;

/// A comparison.
pub struct Plan<R: 'static, C: 'static> {
    /// The name of its program.
    pub program: &'static str,
    pub usage: &'static str,
    /// The folder of its source, in which the contenders lie.
    pub home: &'static str,
    /// The path of the page, relative to that folder. The file of figures stands in the folder.
    pub page: &'static str,
    /// All levels, in the order of the report.
    pub levels: &'static [&'static str],
    pub contenders: &'static [Contender<C>],
    pub rows: &'static [Row<R>],
    pub musts: &'static [Must],
    /// The version of a contender's package.
    pub version_of: fn(&Contender<C>) -> Option<String>,
    /// How the names of its drawings beside the page begin.
    pub plot_prefix: &'static str,
    /// The rows that are drawn as bars.
    pub bars: &'static [&'static str],
    /// The drawings of lateness. They stand in the folder of the source, since no page shows them.
    pub lateness: &'static [Lateness],
    /// The level whose lines have dots; the others have none.
    pub dotted: &'static str,
}

/// A contender.
pub struct Contender<C> {
    pub name: &'static str,
    /// The package whose version stands in the report.
    pub package: &'static str,
    pub levels: &'static [&'static str],
    pub own: C,
}

/// A row.
pub struct Row<R> {
    /// On the command line and in the file of figures.
    pub name: &'static str,
    pub title: &'static str,
    pub levels: &'static [&'static str],
    /// The contenders of the row. An empty list means all but the disk.
    pub only: &'static [&'static str],
    pub sizes: &'static [Size],
    pub rounds: usize,
    /// Only in the long run.
    pub long: bool,
    /// The figures of the table, each with the heading of its line.
    pub columns: &'static [(&'static str, &'static str)],
    pub own: R,
}

/// A size of a row: in the full run, and in the short one.
pub struct Size(pub &'static str, pub f64, pub f64);

/// A drawing of how late jobs start.
pub struct Lateness {
    pub name: &'static str,
    pub row: &'static str,
    pub title: &'static str,
}

/// One measurement.
pub struct Setting<R: 'static, C: 'static> {
    pub row: &'static Row<R>,
    pub contender: &'static Contender<C>,
    pub level: &'static str,
    /// Whether it is the short run.
    pub short: bool,
}

impl<R, C> Plan<R, C> {
    pub fn row(&self, name: &str) -> Option<&'static Row<R>> {
        self.rows.iter().find(|row| row.name == name)
    }

    pub fn contender(&self, name: &str) -> Option<&'static Contender<C>> {
        self.contenders.iter().find(|contender| contender.name == name)
    }

    /// The row, contender and level of a case.
    pub fn setting(&self, case: &Case, short: bool) -> Option<Setting<R, C>> {
        Some(Setting {
            row: self.row(&case.row)?,
            contender: self.contender(&case.contender)?,
            level: self.levels.iter().find(|level| **level == case.level)?,
            short,
        })
    }

    /// The place of a case in the report. A case whose row or contender does not exist any more stands last.
    pub(super) fn place(&self, case: &Case) -> [usize; 3] {
        let row = self.rows.iter().position(|row| row.name == case.row);
        let level = self.levels.iter().position(|level| *level == case.level);
        let contender = self.contenders.iter().position(|known| known.name == case.contender);
        [row, level, contender].map(|place| place.unwrap_or(usize::MAX))
    }
}

impl<R> Row<R> {
    /// Whether any contender has this row at a level.
    pub fn is_for<C>(&self, contender: &Contender<C>, level: &str) -> bool {
        let chosen = match self.only {
            [] => contender.name != DISK,
            only => only.contains(&contender.name),
        };
        chosen && self.levels.contains(&level) && contender.levels.contains(&level)
    }
}

impl Size {
    pub fn value(&self, short: bool) -> f64 {
        if short { self.2 } else { self.1 }
    }
}

impl<R, C> Setting<R, C> {
    /// A size of the row; zero if it has none of that name.
    pub fn number(&self, name: &str) -> f64 {
        let size = self.row.sizes.iter().find(|size| size.0 == name);
        size.map_or(0.0, |size| size.value(self.short))
    }

    pub fn size(&self, name: &str) -> usize {
        self.number(name) as usize
    }

    pub fn seconds(&self, name: &str) -> Duration {
        Duration::from_secs_f64(self.number(name))
    }
}
