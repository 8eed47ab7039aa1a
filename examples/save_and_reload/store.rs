//! The file: the pending jobs, each with its wall-clock time, as JSON.

use std::error::Error;
use std::fmt;
use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use serde::{Deserialize, Serialize};

use crate::orders::Command;

const FILE: &str = "pending.json";

/// The new file until it is complete. It is in the same directory, because a rename to another file
/// system is a copy, which a crash can interrupt.
const UNFINISHED: &str = "pending.json.new";

/// A job that was pending.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub(crate) struct Saved {
    /// When it is due; `None` for never: a timer that was paused.
    pub(crate) at: Option<SystemTime>,
    pub(crate) command: Command,
}

/// The directory with the file.
pub(crate) struct Store {
    directory: PathBuf,
}

impl Store {
    /// Makes the directory if there is none.
    pub(crate) fn open(directory: &Path) -> io::Result<Store> {
        fs::create_dir_all(directory)?;
        Ok(Store { directory: directory.to_owned() })
    }

    pub(crate) fn file(&self) -> PathBuf {
        self.directory.join(FILE)
    }

    /// Replaces the file. At every moment, also in a crash of the machine, the file holds either its
    /// old content or all of `jobs`.
    pub(crate) fn save(&self, jobs: &[Saved]) -> io::Result<()> {
        let unfinished = self.directory.join(UNFINISHED);
        let mut file = File::create(&unfinished)?;
        file.write_all(&serde_json::to_vec_pretty(jobs)?)?;
        // Before the rename: otherwise the new name may come to the disk before the content.
        file.sync_all()?;
        fs::rename(&unfinished, self.file())?;
        // The rename is an entry of the directory, which has a sync of its own.
        #[cfg(unix)]
        File::open(&self.directory)?.sync_all()?;
        Ok(())
    }

    /// Reads the file, and leaves it as it is. Returns no job if there is no file yet.
    pub(crate) fn load(&self) -> Result<Vec<Saved>, LoadError> {
        let failed = |cause: Box<dyn Error>| LoadError { file: self.file(), cause };
        match fs::read(self.file()) {
            Ok(text) => serde_json::from_slice(&text).map_err(|error| failed(error.into())),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Vec::new()),
            Err(error) => Err(failed(error.into())),
        }
    }
}

/// A file that cannot be read or understood.
#[derive(Debug)]
pub(crate) struct LoadError {
    file: PathBuf,
    cause: Box<dyn Error>,
}

impl fmt::Display for LoadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let LoadError { file, cause } = self;
        write!(f, "{}: {cause}; repair the file, or move it away to begin anew", file.display())
    }
}

impl Error for LoadError {}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::scratch::Scratch;

    fn some_jobs() -> Vec<Saved> {
        let noon = SystemTime::UNIX_EPOCH + Duration::new(1_767_268_800, 123_456_789);
        let close = Saved { at: Some(noon), command: Command::Close { order: 7 } };
        let remind = Command::Remind { order: 7, address: "ann@example.org \"Ann\"".to_owned() };
        vec![close, Saved { at: None, command: remind }]
    }

    #[test]
    fn what_is_saved_is_loaded_to_the_nanosecond() {
        let scratch = Scratch::new("saved");
        let store = Store::open(scratch.path()).unwrap();
        assert_eq!(store.load().unwrap(), [], "there is no file yet");
        for jobs in [some_jobs(), Vec::new()] {
            store.save(&jobs).unwrap();
            assert_eq!(store.load().unwrap(), jobs);
        }
    }

    #[test]
    fn a_damaged_file_is_an_error_that_names_the_file_and_the_place() {
        let scratch = Scratch::new("damaged");
        let store = Store::open(scratch.path()).unwrap();
        store.save(&some_jobs()).unwrap();
        let whole = fs::read_to_string(store.file()).unwrap();
        let damaged = [
            whole[..whole.len() / 2].to_owned(),
            whole.replace("Close", "Open"),
            whole.replace("\"order\": 7", "\"order\": \"seven\""),
            String::new(),
        ];
        for text in damaged {
            fs::write(store.file(), &text).unwrap();
            let error = store.load().unwrap_err().to_string();
            assert!(error.contains(FILE) && error.contains("line "), "{error}");
            assert_eq!(fs::read_to_string(store.file()).unwrap(), text, "it is left as it is");
        }
    }

    #[test]
    fn a_save_that_fails_leaves_the_file_as_it_was() {
        let scratch = Scratch::new("failed");
        let store = Store::open(scratch.path()).unwrap();
        store.save(&some_jobs()).unwrap();
        fs::create_dir(scratch.path().join(UNFINISHED)).unwrap();
        assert!(store.save(&[]).is_err());
        assert_eq!(store.load().unwrap(), some_jobs());
    }

    #[test]
    fn what_a_crash_left_unfinished_is_not_read_and_does_not_hinder() {
        let scratch = Scratch::new("unfinished");
        let store = Store::open(scratch.path()).unwrap();
        store.save(&some_jobs()).unwrap();
        fs::write(scratch.path().join(UNFINISHED), "[{\"at\":").unwrap();
        assert_eq!(store.load().unwrap(), some_jobs());
        store.save(&[]).unwrap();
        assert_eq!(store.load().unwrap(), []);
    }
}
