//! Where the jobs are. Another store is another variant.

use std::fs;
use std::path::{Path, PathBuf};

use tickwheel_jobs::{Builder, Jobs};

use crate::Result;
#[cfg(feature = "redis")]
use crate::shared::queue::Queue;

/// A store that shop and workers share.
pub(crate) enum Place {
    File(PathBuf),
    #[cfg(feature = "redis")]
    Redis(Queue),
}

impl Place {
    /// Opens the store, in either process.
    pub(crate) fn builder(&self) -> Result<Builder> {
        match self {
            Place::File(path) => Ok(Jobs::open(path)?),
            #[cfg(feature = "redis")]
            Place::Redis(queue) => queue.builder(),
        }
    }

    /// Returns the arguments that lead a worker to the store.
    pub(crate) fn to_args(&self) -> Vec<String> {
        match self {
            Place::File(path) => vec![path.display().to_string()],
            #[cfg(feature = "redis")]
            Place::Redis(queue) => queue.to_args(),
        }
    }

    pub(crate) fn from_args(args: &[String]) -> Result<Place> {
        match args {
            [path] => Ok(Place::File(PathBuf::from(path))),
            #[cfg(feature = "redis")]
            [url, name, lease_ms] => Ok(Place::Redis(Queue::from_args(url, name, lease_ms)?)),
            _ => Err("a worker needs the path or the URL of the store".into()),
        }
    }

    /// Several workers may share the jobs.
    pub(crate) fn is_shared(&self) -> bool {
        !matches!(self, Place::File(_))
    }

    /// Returns the size of the store in bytes: of the file and its log, or of the server's memory.
    pub(crate) fn bytes(&self) -> u64 {
        let size = |path: &Path| fs::metadata(path).map_or(0, |file| file.len());
        match self {
            Place::File(path) => {
                let log = format!("{}-wal", path.display());
                size(path) + size(Path::new(&log))
            }
            #[cfg(feature = "redis")]
            Place::Redis(queue) => queue.bytes(),
        }
    }

    /// Returns how far the clock of the store is ahead of this machine's, in microseconds.
    pub(crate) fn skew(&self) -> i64 {
        match self {
            Place::File(_) => 0,
            #[cfg(feature = "redis")]
            Place::Redis(queue) => queue.skew(),
        }
    }

    /// Restarts the server, if this process has started it.
    pub(crate) fn restart(&self) -> Result<()> {
        match self {
            Place::File(_) => Err("a file has no server".into()),
            #[cfg(feature = "redis")]
            Place::Redis(queue) => queue.restart(),
        }
    }

    /// Leaves nothing behind on a server that stays.
    pub(crate) fn close(&self) -> Result<()> {
        match self {
            Place::File(_) => Ok(()),
            #[cfg(feature = "redis")]
            Place::Redis(queue) if queue.has_own_server() => Ok(()),
            #[cfg(feature = "redis")]
            Place::Redis(queue) => queue.remove(),
        }
    }
}
