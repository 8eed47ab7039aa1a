//! Where the jobs are. Another store is another variant.

use std::fs;
use std::path::{Path, PathBuf};

use tickwheel_jobs::{Builder, Jobs};

use crate::Result;

/// A store that shop and workers share.
pub(crate) enum Place {
    File(PathBuf),
}

impl Place {
    /// Opens the store, in either process.
    pub(crate) fn builder(&self) -> Result<Builder> {
        match self {
            Place::File(path) => Ok(Jobs::open(path)?),
        }
    }

    /// Returns the arguments that lead a worker to the store.
    pub(crate) fn to_args(&self) -> Vec<String> {
        match self {
            Place::File(path) => vec![path.display().to_string()],
        }
    }

    pub(crate) fn from_args(args: &[String]) -> Result<Place> {
        match args {
            [path] => Ok(Place::File(PathBuf::from(path))),
            _ => Err("a worker needs the path of the store".into()),
        }
    }

    /// Returns the size of the store, its log included, in bytes.
    pub(crate) fn bytes(&self) -> u64 {
        let size = |path: &Path| fs::metadata(path).map_or(0, |file| file.len());
        match self {
            Place::File(path) => {
                let log = format!("{}-wal", path.display());
                size(path) + size(Path::new(&log))
            }
        }
    }
}
