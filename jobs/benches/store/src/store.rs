//! The verbs that every store has.

use std::path::Path;

use crate::Fallible;
use crate::candidate::{Candidate, Engine};
use crate::workload::Job;

pub(crate) trait Store {
    /// Inserts a group in one commit. The jobs are in the order of their keys.
    fn insert(&mut self, jobs: &[Job]) -> Fallible<()>;

    /// Reads the `count` earliest jobs, none of which is due before `cursor`, then deletes each by
    /// its key, in one commit. Returns the deadline of the last one.
    fn take(&mut self, cursor: u64, count: usize) -> Fallible<u64>;

    /// The deadline of the earliest job.
    fn first(&mut self) -> Fallible<u64>;

    /// Before the store is closed: all that is written is where it belongs.
    fn settle(&mut self) -> Fallible<()> {
        Ok(())
    }
}

/// Opens the store in `directory`, which exists; makes it if it is absent.
pub(crate) fn open(candidate: &Candidate, directory: &Path) -> Fallible<Box<dyn Store>> {
    Ok(match candidate.engine {
        Engine::S1 | Engine::S2 | Engine::S3 | Engine::S4 => {
            Box::new(crate::sqlite::Sqlite::open(candidate, directory)?)
        }
        Engine::Redb => Box::new(crate::redb::Redb::open(candidate, directory)?),
        Engine::Fjall => Box::new(crate::fjall::Fjall::open(candidate, directory)?),
    })
}
