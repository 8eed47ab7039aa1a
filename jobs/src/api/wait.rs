//! Waiting for the end of a job, and for its result.
//!
//! Ground rules:
//!
//! - A wait always ends: at the end of the job, at its limit, or with the jobs of this process.
//! - On a manual clock the limit is a time of that clock. A wait in a handler or a hook for which the driver waits is
//!   refused. Any other wait on the thread of the driver would never end either, and a driver may move to another thread
//!   at any moment. So every wait ends with an error once the clock has stood still for `Builder::call_timeout` of real
//!   time. Before the error the waiter looks once more. While a driver is at work, its handler may take long, so the wait
//!   is longer.
//! - A waiter reads the clock before it looks, so it finds a job that has ended within the limit. It reads the clock
//!   after the wait has begun, so it misses no move of a manual clock.
//! - A job that a caller waits for from its insert on is marked. Its end is then kept for a minute, even if its
//!   kind keeps none. So the waiter finds the end, even if it looks late.
//! - Ends in this process wake the waiter. It also looks by itself: for those of other processes, and for a wake-up
//!   that was lost.

use std::time::{Duration, Instant};

use serde::de::DeserializeOwned;

use super::asynchronous::both;
use super::client::Client;
use super::insert::NewJob;
use super::request;
use super::request::Caller;
use crate::dispatch::call::real_time;
use crate::dispatch::dispatcher_handle::is_in_handler_of;
use crate::values::error::CallError;
use crate::values::id::JobId;
use crate::values::info::{JobInfo, JobState};
use crate::values::job::Job;

/// How often a waiter looks, if this process runs the jobs of a file or of memory: it is woken anyhow.
const LOOK_INTERVAL: Duration = Duration::from_secs(1);
/// How often a waiter looks whose jobs another process of the machine runs.
const FILE_INTERVAL: Duration = Duration::from_millis(20);
/// How often a waiter looks at a server: at first, and at most.
const FIRST_SERVER_INTERVAL: Duration = Duration::from_millis(20);
const LONGEST_SERVER_INTERVAL: Duration = Duration::from_millis(250);

/// A longer time than any test takes.
const LONGEST_PATIENCE: Duration = Duration::from_secs(24 * 3600);

/// In how many parts a waiter divides its patience with a manual clock that stands still. A wait of
/// [`Builder::call_timeout`](crate::Builder::call_timeout) is one part while a driver is at work, and all of them
/// otherwise. The wait ends even so, because the handler for which the driver waits may itself wait for the caller.
const PATIENCE_PARTS: u32 = 100;

/// How long a manual clock has stood still for a waiter.
struct Standstill {
    at: Instant,
    parts: u32,
}

impl Standstill {
    /// Notes the time of the clock. Returns whether the patience has ended.
    fn has_lasted(&mut self, now: Instant) -> bool {
        if self.at != now {
            *self = Standstill { at: now, parts: 0 };
        }
        self.parts >= PATIENCE_PARTS
    }
}

both! {
    Client:
    /// Waits until a job has ended, for at most `limit`. Returns the job if it has completed, with its result in
    /// [`JobInfo::result`].
    ///
    /// The job must be one whose end is kept: its kind keeps completed jobs
    /// ([`Kind::keep_completed`](crate::Kind::keep_completed)), or it was inserted by [`Client::call`]. For any
    /// other job the wait ends with [`CallError::Gone`] when the job ends, and with [`CallError::Dead`] for a dead one.
    ///
    /// In the process that runs the job the wait ends at once with the job; in another process on the same file
    /// within 20 ms, and in another process on a server within a quarter of a second.
    ///
    /// On a manual clock ([`Builder::manual`](crate::Builder::manual)) the limit is a time of that clock. So wait on
    /// one thread, and move the clock on another: only [`Driver::advance`](crate::Driver::advance) runs jobs there.
    /// With a limit of zero the call looks once, on any thread.
    ///
    /// # Errors
    ///
    /// [`CallError`] says how the job has ended otherwise, or that it has not ended. On a manual clock it is
    /// [`CallError::ClockStands`] if no driver moves the clock, and [`CallError::Refused`] in a handler or a hook for
    /// which the driver waits. A handler that is a future may wait there, but not under
    /// [`Driver::advance_async`](crate::Driver::advance_async), which waits for the handler.
    #[doc(alias("join", "result", "await"))]
    pub fn wait(&self, id: JobId, limit: Duration) -> Result<JobInfo, CallError> = |it, caller| {
        it.wait_by(caller, id, limit).await
    };

    /// Inserts a job that is due now, waits until it has completed, and returns its result: see
    /// [`Run::set_result`](crate::Run::set_result). A job without a result has the result `()`.
    ///
    /// The job does not depend on the waiter: if the limit is over, or this process ends, it runs nevertheless. Its
    /// end is kept for a minute, so [`Client::wait`] finds it.
    ///
    /// ```
    /// # use serde::{Deserialize, Serialize};
    /// # use tickwheel_jobs::{Job, Jobs};
    /// use std::time::Duration;
    /// # #[derive(Serialize, Deserialize)]
    /// # struct Charge { cents: u64 }
    /// # impl Job for Charge { const KIND: &'static str = "charge"; }
    /// let jobs = Jobs::memory()
    ///     .handle(|charge: Charge, run| run.set_result(&(charge.cents / 100)))
    ///     .start()?;
    /// let dollars: u64 = jobs.call(Charge { cents: 700 }, Duration::from_secs(30))?;
    /// assert_eq!(dollars, 7);
    /// # jobs.shutdown()?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// [`CallError`] says why there is no result.
    ///
    /// In a handler of these jobs a call may wait for the thread that it occupies. It is refused
    /// ([`CallError::Refused`]) if no other thread or process could run the job. That is so on a manual clock. It is
    /// also so if the jobs are in memory or on a file, have one thread for handlers, and the handler of the job is no
    /// future. A call of [`Run::next`](crate::Run::next) is refused always. On a manual clock the call waits for the
    /// clock as [`Client::wait`] does.
    #[doc(alias("execute", "rpc", "apply"))]
    pub fn call<J: Job, T: DeserializeOwned>(
        &self,
        job: J,
        limit: Duration,
    ) -> Result<T, CallError> = |it, caller| {
        let dispatcher = &it.dispatcher;
        let is_thread = matches!(caller, Caller::Thread) && is_in_handler_of(dispatcher);
        let stops_the_clock = it.stops_the_clock(caller) && !limit.is_zero();
        let would_wait = stops_the_clock || is_thread && dispatcher.needs_the_only_thread(J::KIND);
        if it.waits_for_run() || would_wait {
            return Err(CallError::Refused);
        }
        let mut new = NewJob::new(job);
        new.wanted = true;
        let inserted = it.insert_by(caller, new).await;
        let id = inserted.map_err(|refused| CallError::Insert(refused.kind().clone()))?.id;
        let ended = it.wait_by(caller, id, limit).await?;
        let json = ended.result.as_deref().unwrap_or(b"null");
        serde_json::from_slice(json).map_err(|error| CallError::Result(id, error.to_string()))
    };
}

impl Client {
    /// Says whether this thread is in a handler or in a hook for which the driver of a manual clock waits.
    fn stops_the_clock(&self, caller: Caller) -> bool {
        matches!(caller, Caller::Thread) && self.dispatcher.holds_the_driver()
    }

    pub(super) async fn wait_by(
        &self,
        caller: Caller,
        id: JobId,
        limit: Duration,
    ) -> Result<JobInfo, CallError> {
        let dispatcher = &self.dispatcher;
        let limit = dispatcher.clock.now().instant.checked_add(limit);
        let mut interval = match (dispatcher.shared, dispatcher.inline) {
            (true, _) => FIRST_SERVER_INTERVAL,
            (false, true) => FILE_INTERVAL,
            (false, false) => LOOK_INTERVAL,
        };
        let mut key = None;
        let mut standstill = Standstill { at: dispatcher.clock.now().instant, parts: 0 };
        loop {
            let until = if dispatcher.is_manual {
                real_time() + dispatcher.patience.min(LONGEST_PATIENCE)
            } else {
                let soon = dispatcher.clock.now().instant + interval;
                limit.map_or(soon, |limit| limit.min(soon))
            };
            crate::values::hook::at("before a wait");
            let waiting = dispatcher.begin_wait(id, key.as_deref(), until);
            let now = dispatcher.clock.now().instant;
            let job = self.ask(caller, request::get(id)).await?.ok_or(CallError::Gone(id))?;
            match job.state {
                JobState::Completed => return Ok(job),
                JobState::Cancelled => return Err(CallError::Cancelled(id)),
                JobState::Expired => return Err(CallError::Expired(id)),
                JobState::Dead => return Err(CallError::Dead(id, job.error.unwrap_or_default())),
                JobState::Pending | JobState::Claimed | JobState::Running => {}
            }
            if key.is_none() && job.key.is_some() {
                // The job may have been replaced since this look: look again as one that waits for the key.
                key = job.key;
                continue;
            }
            if limit.is_some_and(|limit| limit <= now) {
                return Err(CallError::TimedOut(id));
            }
            if self.stops_the_clock(caller) {
                return Err(CallError::Refused);
            }
            if standstill.has_lasted(now) {
                return Err(CallError::ClockStands(id));
            }
            match caller {
                Caller::Thread => waiting.on_thread(),
                Caller::Future => waiting.in_future().await.map_err(CallError::Store)?,
            }
            if dispatcher.is_manual && until <= real_time() {
                standstill.parts += if dispatcher.is_driven() { 1 } else { PATIENCE_PARTS };
            }
            if dispatcher.shared {
                interval = (interval * 2).min(LONGEST_SERVER_INTERVAL);
            }
        }
    }
}
