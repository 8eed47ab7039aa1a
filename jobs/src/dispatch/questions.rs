//! What a caller's thread reads past the dispatcher: questions on a connection of their own, and the wait for the end
//! of a job.
//!
//! Ground rules:
//!
//! - A question sees every commit that was answered before it was asked.
//! - The store knows which jobs are claimed. Only this process knows which of them have not started: `correct` writes
//!   that into the answer.
//! - The connection is opened for the first question, and closed when the dispatcher has ended.
//! - A caller that waits for an end first leaves its reply here, and then looks into the store. So no end comes between
//!   the two. When the look shows that the job has a key, the caller does both again, and says the key.
//! - The machine takes the replies of the jobs whose ends a commit holds, and answers them after the commit. An
//!   operation on a key may end a job whose id only the store knows, so the machine takes the replies of the key.
//! - An answer to such a caller only says: look again. The store alone knows how the job has ended.

use core::cell::RefCell;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::Instant;

use foldhash::{HashMap, HashSet};

use super::call::{Alive, Reply, TimedLock};
use crate::store::{Answer, ApplyError, Batch, Op, Store};
use crate::values::error::{StoreError, Violation};
use crate::values::id::JobId;
use crate::values::info::{JobInfo, JobState};
use crate::values::panics::locked;
use crate::values::time::Millis;

/// Opens the store of the jobs once more.
pub(crate) type Open = Box<dyn Fn() -> Result<Box<dyn Store>, StoreError> + Send + Sync>;

/// Returns what this process knows of its claims.
pub(crate) type ReadClaims = Box<dyn Fn() -> OwnClaims + Send + Sync>;

/// The claims of this process.
#[derive(Default)]
pub(crate) struct OwnClaims {
    /// The claimed jobs that have not started.
    pub(crate) not_started: HashSet<JobId>,
    /// How many jobs this process has claimed, if other processes claim jobs of the store too.
    pub(crate) in_flight: Option<u64>,
}

/// Asks the store on a connection of its own.
pub(crate) struct Questions {
    open: Open,
    alive: Arc<Alive>,
    own_claims: OnceLock<ReadClaims>,
    store: TimedLock<Option<Box<dyn Store>>>,
}

impl Questions {
    pub(crate) fn new(open: Open, alive: Arc<Alive>) -> Questions {
        Questions { open, alive, own_claims: OnceLock::new(), store: TimedLock::new(None) }
    }

    /// Sets the function that knows which claimed jobs have not started.
    pub(crate) fn correct_by(&self, own_claims: ReadClaims) {
        let _ = self.own_claims.set(own_claims);
    }

    /// Asks the store. Waits for other threads that ask, until `until` at most.
    pub(crate) fn ask(
        &self,
        op: &Op,
        until: Option<Instant>,
        now: Millis,
    ) -> Result<Answer, ApplyError> {
        let answer = self.with_store(until, |store| {
            let ops = core::slice::from_ref(op);
            let batch =
                Batch { number: 0, ops, claim: None, synced: false, awaited: true, until, now };
            store.apply(&batch)?.answers.pop().ok_or_else(|| StoreError::Closed.into())
        })?;
        let own = self.own_claims.get().map(|own_claims| own_claims()).unwrap_or_default();
        let waiting = own.not_started.len() as u64;
        Ok(correct(answer, |id| own.not_started.contains(&id), waiting, own.in_flight))
    }

    pub(crate) fn check(&self) -> Result<(), Violation> {
        let checked = self.with_store(None, |store| Ok(store.check()));
        checked.map_err(|failed| failed.error)?
    }

    /// Closes the connection, unless a question is under way: its caller closes the connection then.
    pub(crate) fn close(&self) {
        if let Some(mut store) = self.store.try_lock() {
            drop(store.take());
        }
    }

    fn with_store<T>(
        &self,
        until: Option<Instant>,
        ask: impl FnOnce(&mut dyn Store) -> Result<T, ApplyError>,
    ) -> Result<T, ApplyError> {
        let answer = {
            let mut slot = self.store.lock_until(until).ok_or(StoreError::Busy)?;
            if self.alive.refuses() {
                return Err(self.alive.why_ended().into());
            }
            let mut store = match slot.take() {
                Some(store) => store,
                None => (self.open)()?,
            };
            let answer = ask(&mut *store);
            *slot = Some(store);
            answer
        };
        if self.alive.has_ended() {
            self.close();
        }
        answer
    }
}

/// Marks claimed jobs as claimed, not as running: this process cannot know which of them run.
pub(crate) fn seen_by_others(mut answer: Answer) -> Answer {
    let see = |state: &mut JobState| {
        if *state == JobState::Running {
            *state = JobState::Claimed;
        }
    };
    match &mut answer {
        Answer::Info(Some(job)) => see(&mut job.state),
        Answer::Page(page) => page.jobs.iter_mut().for_each(|job| see(&mut job.state)),
        Answer::Counts(counts) => counts.claimed = core::mem::take(&mut counts.running),
        _ => {}
    }
    answer
}

/// Marks which claimed jobs run. `waits` says which jobs of this process have not started, and `waiting` how
/// many: these are pending. `in_flight`: how many jobs this process has claimed, if other processes claim jobs of
/// the store too. Only those processes know which of theirs have started.
pub(crate) fn correct(
    mut answer: Answer,
    waits: impl Fn(JobId) -> bool,
    waiting: u64,
    in_flight: Option<u64>,
) -> Answer {
    let correct = |job: &mut JobInfo| {
        if job.state == JobState::Running && waits(job.id) {
            job.state = JobState::Pending;
            job.attempt = job.attempt.saturating_sub(1);
            (job.claimed, job.lease_ends) = (None, None);
        }
    };
    match &mut answer {
        Answer::Info(Some(job)) => correct(job),
        Answer::Page(page) => page.jobs.iter_mut().for_each(correct),
        Answer::Counts(counts) => {
            let own = in_flight.unwrap_or(counts.running).min(counts.running);
            counts.claimed += counts.running - own;
            let waiting = waiting.min(own);
            counts.running = own - waiting;
            counts.pending += waiting;
        }
        _ => {}
    }
    answer
}

/// The callers that wait for the end of a job.
#[derive(Default)]
pub(crate) struct EndWaits {
    waits: Mutex<HashMap<JobId, Vec<Waiter>>>,
    /// How many jobs are waited for. A machine that finds none takes no lock.
    jobs: AtomicUsize,
    /// How many calls of drivers move a manual clock, or wait for a run.
    drives: AtomicUsize,
}

/// Counts one call of a driver, until it is dropped.
pub(crate) struct Drive<'a>(&'a EndWaits);

impl Drop for Drive<'_> {
    fn drop(&mut self) {
        self.0.drives.fetch_sub(1, Ordering::AcqRel);
    }
}

thread_local! {
    /// The waits of the jobs whose driver makes steps and runs on this thread.
    static DRIVEN_HERE: RefCell<Vec<usize>> = const { RefCell::new(Vec::new()) };
}

/// The calling thread makes the steps and the runs of a driver until this is dropped.
pub(crate) struct DrivenHere;

impl Drop for DrivenHere {
    fn drop(&mut self) {
        let _ = DRIVEN_HERE.with_borrow_mut(Vec::pop);
    }
}

struct Waiter {
    /// The key of the job, once the caller knows it.
    key: Option<String>,
    reply: Reply<()>,
}

impl EndWaits {
    pub(crate) fn add(&self, id: JobId, key: Option<&str>, reply: Reply<()>) {
        let waiter = Waiter { key: key.map(str::to_owned), reply };
        self.change(|waits| waits.entry(id).or_default().push(waiter));
    }

    fn change<T>(&self, change: impl FnOnce(&mut HashMap<JobId, Vec<Waiter>>) -> T) -> T {
        let mut waits = locked(&self.waits);
        let changed = change(&mut waits);
        self.jobs.store(waits.len(), Ordering::Release);
        changed
    }

    /// Counts a driver that moves a manual clock, or waits for a run, until the value is dropped.
    pub(crate) fn drive(&self) -> Drive<'_> {
        self.drives.fetch_add(1, Ordering::AcqRel);
        Drive(self)
    }

    /// Says whether a driver moves a manual clock, or waits for a run.
    pub(crate) fn is_driven(&self) -> bool {
        self.drives.load(Ordering::Acquire) > 0
    }

    /// Notes that this thread makes the steps and the runs of the driver until the value is dropped.
    pub(crate) fn drive_here(&self) -> DrivenHere {
        DRIVEN_HERE.with_borrow_mut(|driven| driven.push(core::ptr::from_ref(self).addr()));
        DrivenHere
    }

    /// Says whether this thread makes the steps and the runs of the driver: it is in a handler or in a hook.
    pub(crate) fn is_driven_here(&self) -> bool {
        DRIVEN_HERE.with_borrow(|driven| driven.contains(&core::ptr::from_ref(self).addr()))
    }

    /// Forgets the callers of a job that have given up.
    pub(crate) fn forget(&self, id: JobId) {
        let mut given_up = Vec::new();
        self.change(|waits| {
            if let Some(of_job) = waits.get_mut(&id) {
                given_up.extend(of_job.extract_if(.., |waiter| waiter.reply.is_given_up()));
                if of_job.is_empty() {
                    waits.remove(&id);
                }
            }
        });
        // A reply that is dropped may wake a task, which is code of the program.
        drop(given_up);
    }

    /// Takes the replies of the callers that wait for these jobs.
    pub(crate) fn take(&self, ended: impl Iterator<Item = JobId>) -> Vec<Reply<()>> {
        if self.jobs.load(Ordering::Acquire) == 0 {
            return Vec::new();
        }
        self.change(|waits| {
            let taken = ended.filter_map(|id| waits.remove(&id)).flatten();
            taken.map(|waiter| waiter.reply).collect()
        })
    }

    pub(crate) fn take_all(&self) -> Vec<Reply<()>> {
        // Always under the lock: a caller that adds itself later reads a clock that has moved.
        self.change(|waits| {
            waits.drain().flat_map(|(_, of_job)| of_job).map(|waiter| waiter.reply).collect()
        })
    }

    /// Takes the replies of the callers that wait for a job with this key.
    pub(crate) fn take_key(&self, key: &str) -> Vec<Reply<()>> {
        if self.jobs.load(Ordering::Acquire) == 0 {
            return Vec::new();
        }
        let mut taken = Vec::new();
        let has_key = |waiter: &mut Waiter| waiter.key.as_deref() == Some(key);
        self.change(|waits| {
            waits.retain(|_, of_job| {
                taken.extend(of_job.extract_if(.., has_key).map(|waiter| waiter.reply));
                !of_job.is_empty()
            });
        });
        taken
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dispatch::call::{Call, call};

    fn waiting(waits: &EndWaits, job: JobId, key: Option<&str>) -> Call<()> {
        let (reply, call) = call(None);
        waits.add(job, key, reply);
        call
    }

    /// The callers that wait for a job are taken at its end, or when its key is given away, and no others.
    #[test]
    fn callers_are_taken_when_their_job_ends() {
        let [first, second] = [1, 2].map(JobId::from_u128);
        let waits = EndWaits::default();
        assert_eq!(waits.take([first].into_iter()).len(), 0);
        let all = [(first, Some("a")), (first, None), (second, Some("b"))];
        let calls = all.map(|(job, key)| waiting(&waits, job, key));
        // They have not given up.
        waits.forget(first);
        assert!(calls.iter().all(|call| call.try_answer().is_none()));
        assert_eq!((waits.take_key("c").len(), waits.take_key("a").len()), (0, 1));
        assert_eq!(waits.take([first].into_iter()).len(), 1);
        assert_eq!(waits.take([first, second].into_iter()).len(), 1);
        assert_eq!(waits.take_all().len(), 0);
        let _calls = all.map(|(job, key)| waiting(&waits, job, key));
        assert_eq!((waits.take_key("b").len(), waits.take_all().len()), (1, 2));
        assert_eq!(waits.jobs.into_inner(), 0);
    }

    /// A caller that gives up is forgotten, and the others that wait for the job are not.
    #[test]
    fn caller_that_gives_up_is_forgotten() {
        let job = JobId::from_u128(1);
        let waits = EndWaits::default();
        let calls = [job, job].map(|job| waiting(&waits, job, None));
        calls[0].abandon();
        waits.forget(job);
        assert!(calls[0].try_answer().is_some() && calls[1].try_answer().is_none());
        calls[1].abandon();
        waits.forget(job);
        assert!(locked(&waits.waits).is_empty());
        assert_eq!(waits.jobs.into_inner(), 0);
    }
}
