//! Runs for tests that call a handler, without a claim of a store.

use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use serde::Serialize;

use super::client::Client;
use super::request;
use super::request::{Caller, on_thread};
use crate::dispatch::run::{Run, States};
use crate::dispatch::run_state::{RunState, Slot};
use crate::store::{Claimed, Tries};
use crate::values::error::StoreError;
use crate::values::id::{Fence, JobId};
use crate::values::job::{Extra, Job};
use crate::values::run_end::StopReason;
use crate::values::setting::HeadStart;
use crate::values::time::Millis;

/// Makes a [`Run`] for a test that calls a handler itself: no job needs to be stored, claimed or due.
///
/// Jobs that the handler inserts with [`Run::client`] go to the jobs that the run was made for. The result of the
/// handler goes only to the test: no store records it. So follow-ups ([`Run::then`]) are stored once the test calls
/// [`TestRun::complete`]. No [middleware](crate::Builder::middleware) is called round the handler. To test both
/// together, run the job on a manual clock.
///
/// ```
/// # use serde::{Deserialize, Serialize};
/// use tickwheel_jobs::{StopReason, Fail, Job, Jobs, Run, TestRun};
///
/// # #[derive(Serialize, Deserialize)]
/// # struct Remind(u64);
/// # impl Job for Remind { const KIND: &'static str = "remind"; }
/// fn remind(job: Remind, run: &Run) -> Result<(), Fail> {
///     match run.attempt() {
///         3.. => Err(Fail::dead(format!("order {} is silent", job.0))),
///         _ => Ok(()),
///     }
/// }
///
/// let (jobs, _driver) = Jobs::memory().handle(remind).manual()?;
/// let run = TestRun::new::<Remind>(&jobs);
/// assert!(remind(Remind(1001), &run.clone().build()).is_ok());
/// assert!(remind(Remind(1001), &run.attempt(3).build()).is_err());
/// # Ok::<(), tickwheel_jobs::OpenError>(())
/// ```
#[derive(Clone)]
#[must_use = "a test run is nothing until it is built"]
pub struct TestRun {
    client: Client,
    id: JobId,
    kind: &'static str,
    attempt: u32,
    key: Option<String>,
    due: SystemTime,
    late: Duration,
    stop_reason: Option<StopReason>,
    progress: Option<Vec<u8>>,
    states: States,
}

impl TestRun {
    /// Returns the first attempt of a job of this kind, which is due now and has no key.
    pub fn new<J: Job>(client: &Client) -> TestRun {
        TestRun {
            client: client.clone(),
            id: JobId::new(),
            kind: J::KIND,
            attempt: 1,
            key: None,
            due: client.dispatcher.clock.now().wall,
            late: Duration::ZERO,
            stop_reason: None,
            progress: None,
            states: States::default(),
        }
    }

    /// Sets the job's id: see [`Run::id`].
    pub fn id(self, id: JobId) -> TestRun {
        TestRun { id, ..self }
    }

    /// Sets the number of the attempt, counted from 1: see [`Run::attempt`].
    pub fn attempt(self, attempt: u32) -> TestRun {
        TestRun { attempt, ..self }
    }

    /// Sets the job's key: see [`Run::key`].
    pub fn key(self, key: &str) -> TestRun {
        TestRun { key: Some(key.to_owned()), ..self }
    }

    /// Sets the job's due time: see [`Run::due`]. A time outside of the years 1970 to 9999 becomes the nearest
    /// one within.
    pub fn due(self, due: SystemTime) -> TestRun {
        TestRun { due, ..self }
    }

    /// Sets how late the run has started: see [`Run::late`].
    pub fn late(self, late: Duration) -> TestRun {
        TestRun { late, ..self }
    }

    /// Sets a value that [`Run::state`] returns, as [`Builder::state`](crate::Builder::state) would. The last
    /// value of each type counts.
    pub fn state<T: Send + Sync + 'static>(mut self, value: T) -> TestRun {
        self.states.add(value);
        self
    }

    /// Makes a run that was cancelled before it began: see [`Run::stop_reason`].
    pub fn cancelled(self, why: StopReason) -> TestRun {
        TestRun { stop_reason: Some(why), ..self }
    }

    /// Sets the progress that earlier runs have left: see [`Run::progress`]. The progress that the run itself sets is
    /// not stored. A value that does not serialize to JSON gives a progress that does not decode.
    pub fn progress<T: Serialize + ?Sized>(self, value: &T) -> TestRun {
        TestRun { progress: Some(serde_json::to_vec(value).unwrap_or_default()), ..self }
    }

    /// Returns the run. Each run has a fence that is greater than those of the runs before it.
    #[must_use]
    pub fn build(&self) -> Run {
        use std::sync::atomic::{AtomicU64, Ordering};
        static FENCES: AtomicU64 = AtomicU64::new(1);
        let claimed = Claimed {
            id: self.id,
            kind: Arc::from(self.kind),
            due: Millis::present(self.due),
            tries: Tries { attempts: self.attempt.saturating_sub(1), ..Tries::default() },
            key: self.key.clone(),
            payload: Vec::new(),
            extra: Extra::with_progress(None, self.progress.clone()),
            fence: Fence::new(FENCES.fetch_add(1, Ordering::Relaxed), 0),
        };
        let mut state = RunState::new(&claimed, Slot::Thread, None, HeadStart::NONE);
        state.is_of_test = true;
        let state = Arc::new(state);
        let now: Instant = self.client.dispatcher.clock.now().instant;
        state.start(self.late, now);
        let run = Run::new(state, Arc::clone(&self.client.dispatcher), self.states.clone());
        if let Some(why) = self.stop_reason {
            TestRun::cancel(&run, why);
        }
        run
    }

    /// Ends a run well: its follow-ups are stored, in one commit, in the jobs that the run was made for. See
    /// [`Run::then`].
    ///
    /// # Errors
    ///
    /// As [`Client::insert_batch`].
    pub fn complete(run: &Run) -> Result<(), StoreError> {
        run.state.follow_ups.close();
        let Some(jobs) = run.state.follow_ups.jobs() else { return Ok(()) };
        let request = request::insert_many(jobs.to_vec());
        on_thread(run.client().ask(Caller::Thread, request)).map(drop)
    }

    /// Cancels a run that is under way, as the jobs would: [`Run::stop_reason`] returns the reason from then
    /// on, and [`Run::cancelled`] is ready.
    pub fn cancel(run: &Run, why: StopReason) {
        let mut wakers = Vec::new();
        run.state.tell(why, &mut wakers);
        wakers.into_iter().for_each(core::task::Waker::wake);
    }
}

impl core::fmt::Debug for TestRun {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("TestRun")
            .field("id", &self.id)
            .field("kind", &self.kind)
            .field("attempt", &self.attempt)
            .finish_non_exhaustive()
    }
}
