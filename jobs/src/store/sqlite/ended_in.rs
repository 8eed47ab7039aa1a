//! The claimed jobs of this process that a transaction of the caller has ended, or may still end.
//!
//! Ground rules:
//!
//! - `Run::end_in` removes the job in the caller's transaction, on another connection. The claim of the job lies in the
//!   memory of the runner, which learns of the end when the handler has returned. An entry here says that a claimed job
//!   may have no row.
//! - The transaction of an entry may be open, committed or rolled back. The row of the job tells which: if the job
//!   has no row, it has ended.
//! - An entry is made while the caller's transaction has the write lock. So if a connection has the lock later and
//!   finds the job in the file, the transaction was rolled back, and the entry is removed.
//! - Otherwise an entry stays until the commit that ends the claim. If the process ends before that, nothing is lost: a
//!   claim whose job has no row counts as no interruption (`recovery.rs`).

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use foldhash::HashSet;

use crate::values::id::JobId;

/// The jobs whose runs have called `Run::end_in`, and whose claims are held.
#[derive(Default)]
pub(crate) struct EndedIn {
    ids: Mutex<HashSet<JobId>>,
    /// Almost always `false`: then no lock is taken.
    is_any: AtomicBool,
}

impl EndedIn {
    pub(super) fn add(&self, id: JobId) {
        let mut ids = self.lock();
        ids.insert(id);
        self.is_any.store(true, Ordering::Release);
    }

    pub(super) fn has(&self, id: JobId) -> bool {
        self.is_any.load(Ordering::Acquire) && self.lock().contains(&id)
    }

    /// Forgets these jobs, because their claims have ended, or a transaction was rolled back.
    pub(super) fn forget(&self, ended: impl Iterator<Item = JobId>) {
        if self.is_any.load(Ordering::Acquire) {
            let mut ids = self.lock();
            for id in ended {
                ids.remove(&id);
            }
            self.is_any.store(!ids.is_empty(), Ordering::Release);
        }
    }

    fn lock(&self) -> MutexGuard<'_, HashSet<JobId>> {
        self.ids.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
