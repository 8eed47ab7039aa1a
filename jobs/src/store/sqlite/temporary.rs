//! The folder of a temporary database, removed with the last user of the file in it.
//!
//! Ground rules:
//!
//! - Only this user of the system may open the folder, and its name cannot be guessed.
//! - The folder is removed when the last `Location` in it is dropped, since locks and log lie in it too.

use std::fs::DirBuilder;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::values::error::OpenError;
use crate::values::id::JobId;

/// A folder that is removed when this is dropped.
pub(crate) struct TemporaryFolder(PathBuf);

impl TemporaryFolder {
    /// Makes a folder where the system keeps temporary files.
    pub(crate) fn new() -> Result<TemporaryFolder, OpenError> {
        let path = std::env::temp_dir().join(format!("tickwheel-jobs-{}", JobId::new()));
        #[cfg_attr(not(unix), expect(unused_mut, reason = "only Unix has modes"))]
        let mut builder = DirBuilder::new();
        #[cfg(unix)]
        std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
        match builder.create(&path) {
            Ok(()) => Ok(TemporaryFolder(path)),
            Err(error) => Err(OpenError::Io { path, error: Arc::new(error) }),
        }
    }

    pub(crate) fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for TemporaryFolder {
    fn drop(&mut self) {
        // If this fails, the system removes its old temporary files some day.
        let _ = std::fs::remove_dir_all(&self.0);
    }
}
