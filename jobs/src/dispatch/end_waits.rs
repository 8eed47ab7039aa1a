//! The callers of this process that wait for the end of a job.
//!
//! Ground rules:
//!
//! - A caller first leaves its reply here, and then looks into the store. So no end comes between the two.
//! - The machine takes the replies of the jobs whose ends a commit holds, and answers them after the commit.
//! - An answer only says: look again. The store alone knows how the job has ended.

use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use super::call::Reply;
use crate::values::id::JobId;

#[derive(Default)]
pub(crate) struct EndWaits {
    waits: Mutex<HashMap<JobId, Vec<Reply<()>>>>,
    /// How many jobs are waited for. A machine that finds none takes no lock.
    jobs: AtomicUsize,
}

impl EndWaits {
    /// Adds a caller.
    pub(crate) fn add(&self, id: JobId, reply: Reply<()>) {
        let mut waits = self.lock();
        waits.entry(id).or_default().push(reply);
        self.jobs.store(waits.len(), Ordering::Release);
    }

    /// Forgets the callers of a job that have given up.
    pub(crate) fn forget(&self, id: JobId) {
        let mut waits = self.lock();
        let mut given_up = Vec::new();
        if let Some(of_job) = waits.get_mut(&id) {
            given_up.extend(of_job.extract_if(.., |reply| reply.is_given_up()));
            if of_job.is_empty() {
                waits.remove(&id);
            }
        }
        self.jobs.store(waits.len(), Ordering::Release);
        drop(waits);
        // A reply that is dropped may wake a task, which is code of the program.
        drop(given_up);
    }

    /// Takes the replies of the callers that wait for these jobs.
    pub(crate) fn take(&self, ended: impl Iterator<Item = JobId>) -> Vec<Reply<()>> {
        if self.jobs.load(Ordering::Acquire) == 0 {
            return Vec::new();
        }
        let mut waits = self.lock();
        let taken = ended.filter_map(|id| waits.remove(&id)).flatten().collect();
        self.jobs.store(waits.len(), Ordering::Release);
        taken
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<JobId, Vec<Reply<()>>>> {
        self.waits.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
