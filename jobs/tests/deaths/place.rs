//! Where the jobs of a child are: on a file, or on a server.

use std::path::Path;

use tickwheel_jobs::{Builder, Jobs, OpenError};

pub(crate) trait Place {
    /// Opens the place with this path or URL.
    fn open(at: &Path) -> Result<Builder, OpenError>;

    /// Starts the jobs of a child.
    fn start(make: impl Fn() -> Result<Builder, OpenError>) -> Result<Jobs, OpenError> {
        make()?.start()
    }

    /// Reports whenever the way to the place stands still.
    fn watch(_at: &Path) {}
}
