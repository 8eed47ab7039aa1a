//! The callers of this process that wait for the end of a job.
//!
//! Ground rules:
//!
//! - A caller first leaves its reply here, and then looks into the store. So no end comes between the two. When the
//!   look shows that the job has a key, the caller does both again, and says the key.
//! - The machine takes the replies of the jobs whose ends a commit holds, and answers them after the commit. An
//!   operation on a key may end a job whose id only the store knows, so the machine takes the replies of the key.
//! - An answer only says: look again. The store alone knows how the job has ended.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use foldhash::HashMap;

use super::call::Reply;
use crate::values::id::JobId;

#[derive(Default)]
pub(crate) struct EndWaits {
    waits: Mutex<HashMap<JobId, Vec<Waiter>>>,
    /// How many jobs are waited for. A machine that finds none takes no lock.
    jobs: AtomicUsize,
}

struct Waiter {
    /// The key of the job, once the caller knows it.
    key: Option<String>,
    reply: Reply<()>,
}

impl EndWaits {
    /// Adds a caller that waits for a job, which has this key.
    pub(crate) fn add(&self, id: JobId, key: Option<&str>, reply: Reply<()>) {
        let waiter = Waiter { key: key.map(str::to_owned), reply };
        let mut waits = self.lock();
        waits.entry(id).or_default().push(waiter);
        self.jobs.store(waits.len(), Ordering::Release);
    }

    /// Forgets the callers of a job that have given up.
    pub(crate) fn forget(&self, id: JobId) {
        let mut waits = self.lock();
        let mut given_up = Vec::new();
        if let Some(of_job) = waits.get_mut(&id) {
            given_up.extend(of_job.extract_if(.., |waiter| waiter.reply.is_given_up()));
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
        let taken = ended.filter_map(|id| waits.remove(&id)).flatten();
        let taken = taken.map(|waiter| waiter.reply).collect();
        self.jobs.store(waits.len(), Ordering::Release);
        taken
    }

    /// Takes the replies of the callers that wait for a job with this key.
    pub(crate) fn take_key(&self, key: &str) -> Vec<Reply<()>> {
        if self.jobs.load(Ordering::Acquire) == 0 {
            return Vec::new();
        }
        let mut waits = self.lock();
        let mut taken = Vec::new();
        waits.retain(|_, of_job| {
            let has_key = |waiter: &mut Waiter| waiter.key.as_deref() == Some(key);
            taken.extend(of_job.extract_if(.., has_key).map(|waiter| waiter.reply));
            !of_job.is_empty()
        });
        self.jobs.store(waits.len(), Ordering::Release);
        taken
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<JobId, Vec<Waiter>>> {
        self.waits.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dispatch::call::{Call, call};

    fn waiting(waits: &EndWaits, job: JobId) -> Call<()> {
        let (reply, call) = call(None);
        waits.add(job, None, reply);
        call
    }

    /// The callers that wait for a job are taken at its end, and not at that of another job.
    #[test]
    fn callers_are_taken_when_their_job_ends() {
        let [first, second] = [1, 2].map(JobId::from_u128);
        let waits = EndWaits::default();
        assert_eq!(waits.take([first].into_iter()).len(), 0);
        let calls = [first, first, second].map(|job| waiting(&waits, job));
        // They have not given up.
        waits.forget(first);
        assert!(calls.iter().all(|call| call.try_answer().is_none()));
        assert_eq!(waits.take([first].into_iter()).len(), 2);
        assert_eq!(waits.take([first, second].into_iter()).len(), 1);
        assert_eq!(waits.jobs.into_inner(), 0);
    }

    /// The callers that wait for a job with a key are taken when that key is given away, and no others.
    #[test]
    fn callers_are_taken_by_the_key_of_their_job() {
        let [first, second] = [1, 2].map(JobId::from_u128);
        let waits = EndWaits::default();
        let _calls = [(first, Some("a")), (first, None), (second, Some("b"))].map(|(job, key)| {
            let (reply, call) = call(None);
            waits.add(job, key, reply);
            call
        });
        assert_eq!(waits.take_key("c").len(), 0);
        assert_eq!(waits.take_key("a").len(), 1);
        assert_eq!(waits.take_key("b").len(), 1);
        assert_eq!(waits.take([first, second].into_iter()).len(), 1);
        assert_eq!(waits.jobs.into_inner(), 0);
    }

    /// A caller that gives up is forgotten, and the others that wait for the job are not.
    #[test]
    fn caller_that_gives_up_is_forgotten() {
        let job = JobId::from_u128(1);
        let waits = EndWaits::default();
        let calls = [job, job].map(|job| waiting(&waits, job));
        calls[0].abandon();
        waits.forget(job);
        assert!(calls[0].try_answer().is_some() && calls[1].try_answer().is_none());
        calls[1].abandon();
        waits.forget(job);
        assert!(waits.lock().is_empty());
        assert_eq!(waits.jobs.into_inner(), 0);
    }
}
