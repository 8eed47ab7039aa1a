//! Where a child's jobs are: on a server.

use std::path::Path;
use std::time::{Duration, Instant};

use tickwheel_jobs::{Builder, Jobs, OpenError, StoreError};

use crate::record::LEASE_MS;
use crate::server::pause;

/// How long a child waits for a server that starts again, or is slow on a busy machine.
const PATIENCE: Duration = Duration::from_secs(10);

/// Starts the jobs of a child. A start makes one attempt, and each answer has an eighth of the lease.
pub(crate) fn start(make: impl Fn() -> Result<Builder, OpenError>) -> Result<Jobs, OpenError> {
    let begun = Instant::now();
    loop {
        match make().and_then(Builder::start) {
            Err(OpenError::Server { .. } | OpenError::Store(StoreError::Io(_)))
                if begun.elapsed() < PATIENCE =>
            {
                pause(Duration::from_millis(20));
            }
            started => return started,
        }
    }
}

/// `path` is the URL.
pub(crate) fn open(path: &Path) -> Result<Builder, OpenError> {
    let url = path.to_str().unwrap_or_default();
    let begun = Instant::now();
    loop {
        match Jobs::redis(url) {
            Err(OpenError::Server { .. }) if begun.elapsed() < PATIENCE => {
                pause(Duration::from_millis(20));
            }
            opened => return Ok(opened?.lease(Duration::from_millis(LEASE_MS))),
        }
    }
}
