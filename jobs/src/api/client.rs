//! The client, and its verbs other than inserts.

use core::ops::ControlFlow;
use std::sync::Arc;

use serde::Serialize;
use tickwheel::When;

use super::asynchronous::both;
use super::request::{self, Caller, Request, on_thread};
use crate::dispatch::dispatcher_handle::DispatcherHandle;
use crate::dispatch::metrics::Stats;
use crate::dispatch::run::Run;
use crate::dispatch::run_state::RunState;
use crate::store::{Answer, ApplyError, Inserted, NAME_BYTES, Op, PAYLOAD_BYTES};
use crate::values::error::{StoreError, Violation};
use crate::values::fail_and_retry::Fail;
use crate::values::id::JobId;
use crate::values::info::{Cancel, JobInfo};
use crate::values::invalid_input::InvalidInput;
use crate::values::job::{Headers, Job, group_of};
use crate::values::time::{Millis, Now};

/// Inserts, cancels and reads jobs. [`Jobs`](crate::Jobs) has all of its methods;
/// [`Builder::client`](crate::Builder::client) makes one in a process that runs no jobs.
///
/// A clone leads to the same jobs. A handler that inserts jobs gets a client from
/// [`Run::client`](crate::Run::client).
#[derive(Clone)]
pub struct Client {
    pub(crate) dispatcher: Arc<DispatcherHandle>,
    /// The headers of every job that this client inserts.
    pub(super) headers: Arc<Headers>,
    /// The run for whose end its inserts wait.
    run: Option<Arc<RunState>>,
}

impl Client {
    pub(crate) fn new(dispatcher: Arc<DispatcherHandle>) -> Client {
        Client { dispatcher, headers: Arc::default(), run: None }
    }

    /// Returns a client whose inserts have this header, and those of this client: see [`NewJob::header`].
    ///
    /// [`NewJob::header`]: crate::NewJob::header
    #[must_use]
    pub fn with_header(&self, name: impl Into<String>, value: impl Into<String>) -> Client {
        let mut headers = Headers::clone(&self.headers);
        headers.insert(name.into(), value.into());
        Client { headers: Arc::new(headers), ..self.clone() }
    }

    /// Returns a client whose inserts wait for the end of this run.
    pub(super) fn after(self, run: Arc<RunState>) -> Client {
        Client { run: Some(run), ..self }
    }

    /// Says whether its inserts wait for the end of a run.
    pub(super) fn waits_for_run(&self) -> bool {
        self.run.is_some()
    }

    /// If this process runs the jobs, makes it poll at once for changes of other processes. Returns at once, in
    /// every hook too. In another process the calling thread makes the poll, and waits for the store.
    #[doc(alias("notify", "wake", "poll"))]
    pub fn nudge(&self) {
        self.dispatcher.nudge();
    }

    /// Returns the real path of the file, if the jobs are on one: for a connection of your own, whose
    /// transactions [`Client::insert_in`] takes.
    #[cfg(feature = "sqlite-unbundled")]
    #[must_use]
    pub fn file(&self) -> Option<&std::path::Path> {
        self.dispatcher.file.as_ref().map(|location| &*location.file)
    }
}

both! {
    Client:
    /// Cancels a job.
    ///
    /// In the process that runs the jobs, a job can be cancelled until its handler starts. In another process,
    /// the result is [`Cancel::Running`] once the job is claimed, up to 50 ms before it is due.
    ///
    /// # Errors
    ///
    /// If the store could not be changed. The job may run then.
    #[doc(alias("remove", "unschedule", "revoke", "abort"))]
    pub fn cancel(&self, id: JobId) -> Result<Cancel, StoreError> = |it, caller| {
        it.ask(caller, request::cancel(id)).await
    };

    /// Changes the due time of a pending job. Returns `false` if the job runs, is dead, or does not exist.
    ///
    /// # Errors
    ///
    /// If the store could not be changed, or the time lies outside of the years 1970 to 9999.
    #[doc(alias("move", "reset", "update", "change_delay", "snooze"))]
    pub fn reschedule(
        &self,
        id: JobId,
        when: impl Into<When>,
    ) -> Result<bool, StoreError> = |it, caller| {
        let due = it.due(caller, when.into()).await?;
        it.ask(caller, request::reschedule(id, due)).await
    };

    /// Returns a job, if it is pending, runs, is dead, or has ended and is kept
    /// ([`Kind::keep_completed`](crate::Kind::keep_completed)).
    ///
    /// # Errors
    ///
    /// If the store could not be read.
    #[doc(alias("find", "job", "status", "fetch"))]
    pub fn get(&self, id: JobId) -> Result<Option<JobInfo>, StoreError> = |it, caller| {
        it.ask(caller, request::get(id)).await
    };

    /// Makes a dead job pending, due now, with no failures counted, under its key if it had one. Returns
    /// `false` if there is no such dead job.
    ///
    /// # Errors
    ///
    /// [`StoreError::KeyTaken`] if another job has the key, pending or running: the job stays dead then. Any
    /// other error if the store could not be changed.
    #[doc(alias("revive", "requeue", "resurrect"))]
    pub fn retry(&self, id: JobId) -> Result<bool, StoreError> = |it, caller| {
        it.ask(caller, request::retry(id, it.dispatcher.clock.now().millis())).await
    };

    /// Deletes a dead job, or a completed or cancelled job that is kept. Returns `false` if the store has no such job
    /// with this id.
    ///
    /// # Errors
    ///
    /// If the store could not be changed.
    #[doc(alias("discard", "remove", "purge"))]
    pub fn delete(&self, id: JobId) -> Result<bool, StoreError> = |it, caller| {
        it.ask(caller, request::delete(id)).await
    };

    /// On a file, waits until every insert before it is on stable storage, at any [`Durability`](crate::Durability). On
    /// a server, waits until the server has applied them: its own persistence decides when they are on its disk.
    ///
    /// # Errors
    ///
    /// If the store could not be written, or did not store one of these inserts. The jobs try that insert again, unless
    /// [`Event::InsertsDropped`](crate::Event::InsertsDropped) has named it. The next flush after such an event fails.
    pub fn flush(&self) -> Result<(), StoreError> = |it, caller| {
        it.ask(caller, request::flush()).await
    };

    /// Walks the whole store, and checks its invariants. It is slow, for tests and for doubts. The calling
    /// thread reads on a connection of its own, and jobs run meanwhile. On a file the log grows until the check
    /// ends. Jobs in memory have only one connection: no job is claimed and no call is answered until the check
    /// ends.
    ///
    /// # Errors
    ///
    /// The invariant that does not hold, or the error of the store in the same type.
    pub fn check(&self) -> Result<(), Violation> = |it, caller| match caller {
        Caller::Thread => it.dispatcher.check(),
        Caller::Future => it.dispatcher.check_async().await,
    };
}

impl Client {
    /// Returns the counters of this process. Does not wait.
    #[must_use]
    #[doc(alias("metrics", "counters"))]
    pub fn stats(&self) -> Stats {
        self.dispatcher.metrics.snapshot(self.dispatcher.log_bytes())
    }

    pub(super) async fn due(&self, caller: Caller, when: When) -> Result<Millis, StoreError> {
        let draw = draw(JobId::new());
        let now = self.latest(caller).await?;
        Ok(now.resolve(when, draw)?)
    }

    /// Sends a request from this thread, and returns its answer.
    pub(crate) fn answer_of<A>(&self, request: Request<A>) -> Result<A, StoreError> {
        on_thread(self.ask(Caller::Thread, request))
    }

    /// Sends a request, and returns its answer.
    pub(super) async fn ask<A>(
        &self,
        caller: Caller,
        request: Request<A>,
    ) -> Result<A, StoreError> {
        self.request(caller, request).await.map_err(error_of)
    }

    pub(super) async fn request<A>(
        &self,
        caller: Caller,
        request: Request<A>,
    ) -> Result<A, ApplyError> {
        let Request { op, read } = request;
        let answered = match (self.follow_up(op), caller) {
            (ControlFlow::Break(noted), _) => noted,
            (ControlFlow::Continue(op), Caller::Thread) => self.dispatcher.call_and_wait(op),
            (ControlFlow::Continue(op), Caller::Future) => self.dispatcher.call_async(op).await,
        };
        read(answered?).ok_or_else(|| request::strange().into())
    }

    pub(super) async fn post(&self, caller: Caller, op: Op) -> Result<(), ApplyError> {
        match (self.follow_up(op), caller) {
            (ControlFlow::Break(noted), _) => noted.map(drop),
            (ControlFlow::Continue(op), Caller::Thread) => self.dispatcher.post(op),
            (ControlFlow::Continue(op), Caller::Future) => self.dispatcher.post_async(op).await,
        }
    }

    /// Returns the present, from which a delay counts.
    pub(super) async fn latest(&self, caller: Caller) -> Result<Now, StoreError> {
        let now = match caller {
            // A follow-up waits for nothing. The store has told its time when the job was claimed.
            _ if self.waits_for_run() => Ok(self.dispatcher.clock.latest()),
            Caller::Thread => self.dispatcher.latest(),
            Caller::Future => self.dispatcher.latest_async().await,
        };
        now.map_err(error_of)
    }

    /// Notes an insert as a follow-up, if inserts wait for the end of a run, and answers it. Otherwise returns the
    /// operation.
    fn follow_up(&self, op: Op) -> ControlFlow<Result<Answer, ApplyError>, Op> {
        let Some(run) = &self.run else { return ControlFlow::Continue(op) };
        let (mut jobs, answer) = match op {
            Op::Insert(job) => (vec![job], Answer::Inserted(Inserted::New)),
            Op::InsertMany(jobs) => (jobs, Answer::InsertedMany(Vec::new())),
            op => return ControlFlow::Continue(op),
        };
        if let Some(group) = group_of(run.extra.as_deref()) {
            jobs.iter_mut().for_each(|job| job.join(group));
        }
        let noted = run.follow_ups.add(jobs);
        ControlFlow::Break(noted.map(|()| answer).map_err(ApplyError::from))
    }
}

impl Run {
    /// Returns a client of the jobs that this run belongs to, for example to insert the next job.
    #[must_use]
    pub fn client(&self) -> Client {
        Client::new(Arc::clone(&self.dispatcher))
    }

    /// Sets the progress as [`Run::set_progress`] does, and waits until the store has it: for a step that must not be
    /// done twice. It waits as the answer of an insert does ([`Builder::durability`](crate::Builder::durability)). Each
    /// call costs a commit.
    ///
    /// # Errors
    ///
    /// As [`Run::set_progress`]. [`StoreError::RunEnded`] if the run has ended or has lost its lease. Any other error
    /// of the store is the text of the failure. After such an error the store gets the progress later, unless the run
    /// has ended.
    #[doc(alias("checkpoint", "flush", "save"))]
    pub fn store_progress<T: Serialize + ?Sized>(&self, value: &T) -> Result<(), Fail> {
        on_thread(self.store_progress_by(Caller::Thread, value))
    }

    pub(super) async fn store_progress_by<T: Serialize + ?Sized>(
        &self,
        caller: Caller,
        value: &T,
    ) -> Result<(), Fail> {
        let json = self.note_progress(value)?;
        let request = request::put_progress(self.state.id, self.state.fence, json);
        match self.client().ask(caller, request).await {
            Ok(false) if !self.state.is_of_test => Err(Fail::retry(StoreError::RunEnded)),
            Ok(_) => Ok(()),
            Err(error) => Err(Fail::retry(error)),
        }
    }
}

impl core::fmt::Debug for Client {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Client").finish_non_exhaustive()
    }
}

/// Returns the error of a call.
pub(crate) fn error_of(failed: ApplyError) -> StoreError {
    if failed.unknown { StoreError::Unknown } else { failed.error }
}

pub(crate) fn check_name(what: &'static str, name: &str) -> Result<(), StoreError> {
    let bytes = name.len();
    if bytes == 0 || bytes > NAME_BYTES {
        return Err(InvalidInput::TooLong { what, bytes, most: NAME_BYTES }.into());
    }
    Ok(())
}

pub(super) fn payload<J: Job>(job: &J) -> Result<Vec<u8>, StoreError> {
    check_name("kind's name", J::KIND)?;
    let payload = job.encode().map_err(|error| InvalidInput::Encode(error.to_string()))?;
    check_payload(&payload)?;
    Ok(payload)
}

pub(super) fn check_payload(payload: &[u8]) -> Result<(), StoreError> {
    match payload.len() {
        bytes if bytes > PAYLOAD_BYTES => {
            Err(InvalidInput::TooLong { what: "payload", bytes, most: PAYLOAD_BYTES }.into())
        }
        _ => Ok(()),
    }
}

/// Returns a random number, from an id that was just made.
pub(super) fn draw(id: JobId) -> u64 {
    use std::hash::BuildHasher;
    std::hash::BuildHasherDefault::<std::hash::DefaultHasher>::default().hash_one(id)
}
