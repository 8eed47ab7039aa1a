//! A run of a claimed job, as its handler sees it, and the values that handlers share: one of each type.

use core::any::{Any, TypeId, type_name};
use core::fmt;
use core::future::Future;
use core::pin::Pin;
use core::sync::atomic::Ordering;
use core::task::{Context, Poll};
use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use serde::Serialize;
use serde::de::DeserializeOwned;

use super::dispatcher_handle::DispatcherHandle;
use super::run_state::RunState;
use crate::store::Fence;
use crate::values::fail_and_retry::{ErrorType, Fail, Fate};
use crate::values::id::JobId;
use crate::values::invalid_input::InvalidInput;
use crate::values::job::PROGRESS_BYTES;
use crate::values::panics::locked;
use crate::values::run_end::StopReason;

/// The longest result, in bytes of JSON.
const RESULT_BYTES: usize = 64 << 10;

/// A run of a job, as its handler sees it.
#[derive(Clone)]
pub struct Run {
    pub(crate) state: Arc<RunState>,
    pub(crate) dispatcher: Arc<DispatcherHandle>,
    states: States,
}

impl Run {
    pub(crate) fn new(
        state: Arc<RunState>,
        dispatcher: Arc<DispatcherHandle>,
        states: States,
    ) -> Run {
        Run { state, dispatcher, states }
    }

    /// Returns the id of the job: the same in every run of it. [`JobId`] says what it is unique over.
    #[must_use]
    #[doc(alias("job_id", "idempotency_key"))]
    pub fn id(&self) -> JobId {
        self.state.id
    }

    /// Returns the name of the job's kind.
    #[must_use]
    pub fn kind(&self) -> &str {
        &self.state.kind
    }

    /// Returns the number of this attempt, counted from 1. A run whose process ended counts too. A run that a
    /// drop or a shutdown did not wait for does not count, nor does one that was
    /// [snoozed](crate::Fail::snooze): the next run has the same number, and a greater [fence](Run::fence).
    #[must_use]
    #[doc(alias("retry_count", "failures"))]
    pub fn attempt(&self) -> u32 {
        self.state.attempt
    }

    /// Returns the fence of this run, which is greater than those of earlier runs of the job.
    #[must_use]
    pub fn fence(&self) -> Fence {
        self.state.fence
    }

    /// Returns the job's key, if it has one.
    #[must_use]
    pub fn key(&self) -> Option<&str> {
        self.state.key.as_deref()
    }

    /// Returns the value of a header of the job, if it has one of this name: see
    /// [`NewJob::header`](crate::NewJob::header).
    #[must_use]
    #[doc(alias("metadata", "tag", "meta"))]
    pub fn header(&self, name: &str) -> Option<&str> {
        self.state.extra.as_ref()?.headers.get(name).map(String::as_str)
    }

    /// Returns the headers of the job: pairs of a name and a value, in the order of the names.
    pub fn headers(&self) -> impl Iterator<Item = (&str, &str)> {
        let headers = self.state.extra.iter().flat_map(|extra| &extra.headers);
        headers.map(|(name, value)| (&**name, &**value))
    }

    /// Returns the due time of the job.
    #[must_use]
    pub fn due(&self) -> SystemTime {
        self.state.due.to_system()
    }

    /// Sets the result of the run. It is kept with the job if its kind keeps completed jobs
    /// ([`Kind::keep_completed`](crate::Kind::keep_completed)), or if a caller waits for it
    /// ([`Client::call`](crate::Client::call)). If it is set twice, the second one counts. The result of a run
    /// that fails is dropped.
    ///
    /// # Errors
    ///
    /// If the value does not serialize to JSON, or has more than 64 KiB. The earlier result stays then.
    #[doc(alias("return", "output"))]
    pub fn set_result<T: Serialize + ?Sized>(&self, value: &T) -> Result<(), Fail> {
        let json = json("result", value, RESULT_BYTES)?;
        *locked(&self.state.result) = Some(json);
        Ok(())
    }

    /// Fails this run, whatever its handler returns: with `Ok` of the handler too, and after a panic of it. If it is
    /// called twice, the second failure counts.
    ///
    /// This is for a handler of batches ([`Builder::handle_batch`](crate::Builder::handle_batch)), whose result
    /// counts for all runs of the batch that it has not failed by itself. Any other handler may as well return the
    /// error.
    #[doc(alias("reject", "nack"))]
    pub fn fail(&self, failure: impl Into<Fail>) {
        let mut noted = locked(&self.state.failure);
        let earlier = noted.replace(failure.into());
        drop(noted);
        drop(earlier);
    }

    /// Sets the progress of the job. [`JobInfo::progress`](crate::JobInfo::progress) shows it to every process, and
    /// [`Run::progress`] returns it to the next run. The call returns at once. The next commit stores the latest
    /// progress, within a second, and at the latest with the end of the run. So a handler may call this as often as it
    /// likes: only the last call of a second costs a write. If the process is killed, the progress of at most the last
    /// second is lost. [`Run::store_progress`] waits until the store has it.
    ///
    /// The progress stays until the job has completed, has expired, or is cancelled or deleted. A run that has ended or
    /// has lost its lease sets nothing.
    ///
    /// # Errors
    ///
    /// If the value does not serialize to JSON, or has more than 4 KiB. The earlier progress stays then.
    #[doc(alias("report_progress", "percent", "update", "heartbeat", "checkpoint"))]
    pub fn set_progress<T: Serialize + ?Sized>(&self, value: &T) -> Result<(), Fail> {
        self.note_progress(value).map(drop)
    }

    /// Sets the progress, and returns its JSON.
    pub(crate) fn note_progress<T: Serialize + ?Sized>(&self, value: &T) -> Result<Vec<u8>, Fail> {
        let json = json("progress", value, PROGRESS_BYTES)?;
        if !self.state.is_of_test {
            self.dispatcher.progress.set(self.state.id, self.state.fence, json.clone());
        }
        Ok(json)
    }

    /// Returns the latest progress of the earlier runs of the job, so that this run goes on from there: after a
    /// failure, a snooze, a crash, a lost lease, or a retry by hand. `None` if no run has set any. The progress that
    /// this run sets does not change the value. It was read together with the job, so the call does not wait.
    ///
    /// # Errors
    ///
    /// If the progress does not decode as a `T`: another version of the program has set it. With `?` the job is then
    /// dead, as if its payload did not decode, and keeps its progress.
    #[doc(alias("checkpoint", "resume", "cursor"))]
    pub fn progress<T: DeserializeOwned>(&self) -> Result<Option<T>, Fail> {
        let extra = self.state.extra.as_ref();
        let Some(json) = extra.and_then(|extra| extra.progress.as_deref()) else { return Ok(None) };
        serde_json::from_slice(json).map(Some).map_err(|error| {
            let text = format!("the progress does not decode: {error}");
            Fail::by_jobs(Fate::Dead, text, ErrorType::UNDECODABLE)
        })
    }

    /// Returns how long after its due time the run started, by the wall clock.
    #[must_use]
    pub fn late(&self) -> Duration {
        self.state.late()
    }

    /// Returns the value of this type that all handlers share: see [`Builder::state`](crate::Builder::state).
    /// Costs a lookup in a table.
    ///
    /// # Errors
    ///
    /// If the builder was given no such value. With `?` the run then fails, and its error names the type.
    #[doc(alias("data", "extension", "context"))]
    pub fn state<T: Send + Sync + 'static>(&self) -> Result<&T, Fail> {
        self.states.get()
    }

    /// Says whether the run should stop: its job was cancelled, it has reached its time limit, it has lost its
    /// lease, or the program shuts down. A handler that runs for long checks this now and then;
    /// [`Run::stop_reason`] returns the reason.
    #[must_use]
    #[doc(alias("should_stop", "is_lost"))]
    pub fn is_cancelled(&self) -> bool {
        self.stop_reason().is_some()
    }

    /// Returns why the run should stop, if it should. If there are several reasons, it returns the one that stands last
    /// in [`StopReason`].
    #[must_use]
    pub fn stop_reason(&self) -> Option<StopReason> {
        // The dispatcher may be waiting for the store when a lease ends or a time limit is reached.
        let now = self.dispatcher.clock.now().instant;
        let lost = self.state.lease_has_ended(now).then_some(StopReason::LeaseLost);
        let over = self.state.is_over_limit(now).then_some(StopReason::TimeLimit);
        let told = StopReason::of(self.state.stop_reason.load(Ordering::Acquire));
        told.max(over).max(lost)
    }

    /// Returns a future that is ready once the run should stop. It needs no runtime.
    #[doc(alias("cancellation_token", "lost"))]
    pub fn cancelled(&self) -> Cancelled {
        Cancelled { state: Arc::clone(&self.state) }
    }
}

/// Serializes a value of a handler, of at most this many bytes.
fn json<T: Serialize + ?Sized>(
    what: &'static str,
    value: &T,
    most: usize,
) -> Result<Vec<u8>, Fail> {
    let json = serde_json::to_vec(value).map_err(Fail::retry)?;
    match json.len() {
        bytes if bytes > most => Err(Fail::retry(InvalidInput::TooLong { what, bytes, most })),
        _ => Ok(json),
    }
}

impl fmt::Debug for Run {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Run")
            .field("id", &self.state.id)
            .field("kind", &self.state.kind)
            .field("attempt", &self.state.attempt)
            .finish_non_exhaustive()
    }
}

/// The future of [`Run::cancelled`].
#[must_use = "a future does nothing until it is awaited"]
pub struct Cancelled {
    state: Arc<RunState>,
}

impl Future for Cancelled {
    type Output = ();

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        if self.state.is_told() {
            return Poll::Ready(());
        }
        let waker = context.waker().clone();
        let mut wakers = locked(&self.state.wakers);
        // `tell` sets the reason under this lock: it sees the waker, or the reason is seen here.
        if self.state.is_told() {
            return Poll::Ready(());
        }
        if !wakers.iter().any(|known| known.will_wake(&waker)) {
            wakers.push(waker);
        }
        Poll::Pending
    }
}

impl fmt::Debug for Cancelled {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Cancelled").field("id", &self.state.id).finish_non_exhaustive()
    }
}

/// The values, by their type.
#[derive(Clone, Default)]
pub(crate) struct States {
    values: Arc<HashMap<TypeId, Arc<dyn Any + Send + Sync>>>,
}

impl States {
    /// Adds a value. Returns `false` if it replaces one of its type.
    pub(crate) fn add<T: Send + Sync + 'static>(&mut self, value: T) -> bool {
        Arc::make_mut(&mut self.values).insert(TypeId::of::<T>(), Arc::new(value)).is_none()
    }

    /// Returns the value of this type, or the failure of a run that needs it.
    pub(crate) fn get<T: 'static>(&self) -> Result<&T, Fail> {
        let value = self.values.get(&TypeId::of::<T>()).and_then(|value| value.downcast_ref());
        value.ok_or_else(|| {
            let name = type_name::<T>();
            Fail::retry(format!("no state of the type {name}: the builder was given none"))
        })
    }
}
