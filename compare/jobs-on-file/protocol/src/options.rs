//! The command line: the name of a row, then `key=value`.

use std::collections::HashMap;
use std::path::PathBuf;
use std::time::Duration;

use crate::Fallible;

/// The events that a change must survive once it is answered.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Level {
    /// A power cut.
    Synced,
    /// The end of the process.
    Written,
}

/// How a contender is opened, and how large its row is.
#[derive(Clone, Debug)]
pub struct Setup {
    /// The row.
    pub row: String,
    /// The file, in a directory of its own.
    pub path: PathBuf,
    pub level: Level,
    /// Whether jobs are run.
    pub works: bool,
    sizes: HashMap<String, f64>,
}

impl Setup {
    /// Returns a size of the row, which the driver must have given.
    pub fn size(&self, key: &str) -> Fallible<usize> {
        Ok(self.number(key)? as usize)
    }

    /// Returns a size, or a default.
    pub fn size_or(&self, key: &str, default: usize) -> usize {
        self.sizes.get(key).map_or(default, |size| *size as usize)
    }

    /// Returns a time in seconds.
    pub fn seconds(&self, key: &str) -> Fallible<Duration> {
        Ok(Duration::from_secs_f64(self.number(key)?))
    }

    /// Returns a number, which the driver must have given.
    pub fn number(&self, key: &str) -> Fallible<f64> {
        let number = self.sizes.get(key).copied();
        number.ok_or_else(|| format!("{}: {key}=.. is absent", self.row).into())
    }

    /// Returns the same with another file.
    pub fn at(&self, path: PathBuf) -> Setup {
        Setup { path, ..self.clone() }
    }

    /// Returns the same without runs.
    pub fn idle(&self) -> Setup {
        Setup { works: false, ..self.clone() }
    }
}

pub(crate) fn parse(mut words: impl Iterator<Item = String>) -> Fallible<(String, Setup)> {
    let row = words.next().ok_or("usage: contender ROW path=FILE level=LEVEL [KEY=NUMBER ..]")?;
    let mut setup = Setup {
        row: row.clone(),
        path: PathBuf::new(),
        level: Level::Synced,
        works: true,
        sizes: HashMap::new(),
    };
    for word in words {
        let (key, value) = word.split_once('=').ok_or_else(|| format!("`{word}` has no ="))?;
        match (key, value) {
            ("path", path) => setup.path = PathBuf::from(path),
            ("level", "synced") => setup.level = Level::Synced,
            ("level", "written") => setup.level = Level::Written,
            (key, number) => {
                let number = number.parse().map_err(|_| format!("`{word}` is no number"))?;
                setup.sizes.insert(key.to_owned(), number);
            }
        }
    }
    if setup.path.as_os_str().is_empty() {
        return Err("path=.. is absent".into());
    }
    Ok((row, setup))
}
