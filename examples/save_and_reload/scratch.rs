//! A directory for one trial, which is removed with all that is in it.

use std::path::{Path, PathBuf};
use std::{env, fs, process};

pub(crate) struct Scratch(PathBuf);

impl Scratch {
    /// Names the directory and does not make it. `name` tells the trials of one process apart.
    pub(crate) fn new(name: &str) -> Scratch {
        let directory = format!("tickwheel-save-and-reload-{}-{name}", process::id());
        Scratch(env::temp_dir().join(directory))
    }

    pub(crate) fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        // There is nothing to remove if the trial failed before it made the directory.
        let _ = fs::remove_dir_all(&self.0);
    }
}
