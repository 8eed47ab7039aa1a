//! The log of runs: one record of fixed size for each, appended with one write. What a worker did
//! is known from it, whatever the store says.

use std::fs::File;
use std::io::Write;
use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};
use std::{fs, io};

use tickwheel_jobs::Run;

use crate::Result;

/// A start of a handler.
pub(crate) struct Record {
    pub(crate) order: u64,
    pub(crate) fence: u64,
    /// Microseconds since 1970.
    pub(crate) start: u64,
    /// Microseconds since 1970.
    pub(crate) due: u64,
    pub(crate) attempt: u32,
    /// The number of the process: see `worker.rs`.
    pub(crate) worker: u32,
}

const BYTES: usize = 40;

/// A log that this process appends to.
pub(crate) struct Log {
    file: File,
    worker: u32,
}

impl Log {
    pub(crate) fn open(path: &Path, worker: u32) -> io::Result<Log> {
        let file = File::options().append(true).create(true).open(path)?;
        Ok(Log { file, worker })
    }

    /// Records that a run has started.
    pub(crate) fn append(&self, order: u64, run: &Run) -> io::Result<()> {
        let start = micros(SystemTime::now());
        let mut bytes = [0; BYTES];
        bytes[..8].copy_from_slice(&order.to_le_bytes());
        bytes[8..16].copy_from_slice(&run.fence().get().to_le_bytes());
        bytes[16..24].copy_from_slice(&start.to_le_bytes());
        bytes[24..32].copy_from_slice(&micros(run.due()).to_le_bytes());
        bytes[32..36].copy_from_slice(&run.attempt().to_le_bytes());
        bytes[36..].copy_from_slice(&self.worker.to_le_bytes());
        match (&self.file).write(&bytes)? {
            BYTES => Ok(()),
            _ => Err(io::ErrorKind::WriteZero.into()),
        }
    }
}

/// Reads a whole log.
pub(crate) fn read(path: &Path) -> Result<Vec<Record>> {
    let bytes = fs::read(path)?;
    if bytes.len() % BYTES != 0 {
        return Err(format!("the log has {} bytes: a record is cut off", bytes.len()).into());
    }
    let record = |bytes: &[u8]| {
        let word = |at: usize| u64::from_le_bytes(bytes[at..at + 8].try_into().unwrap_or_default());
        let (attempt, worker) = (word(32) as u32, (word(32) >> 32) as u32);
        Record { order: word(0), fence: word(8), start: word(16), due: word(24), attempt, worker }
    };
    Ok(bytes.chunks_exact(BYTES).map(record).collect())
}

/// Returns how many records the log has.
pub(crate) fn count(path: &Path) -> u64 {
    fs::metadata(path).map_or(0, |file| file.len() / BYTES as u64)
}

pub(crate) fn micros(time: SystemTime) -> u64 {
    let since = time.duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_micros()).unwrap_or(u64::MAX)
}
