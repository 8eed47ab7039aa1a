//! The state of a run, which its handler, its thread and the dispatcher share, with the jobs that follow its end.
//!
//! Ground rules:
//!
//! - A run either starts or is withdrawn. Each is one exchange of `stage` from `WAITING`, so exactly one of them
//!   happens. In the same way a run that has started either returns or overruns its time limit: one exchange of
//!   `handler`. Until then it may end in a transaction (`end_in_transaction`).
//! - A run ends once: the first outcome that is noted counts (`end`). Two threads report its start and its end. The
//!   second of them to come reports the end (`events.rs`), so the end never comes before the start.
//! - Wakers are called outside the lock.
//! - Follow-ups are jobs that the commit of the end inserts, if the run ends well. A run takes them until its handler
//!   has returned, or has overrun its time limit. A later one is refused: the end may be in the store by then.
//! - The list of follow-ups stays with the run until the dispatcher forgets the run, because an end whose commit failed
//!   is written again.
//! - The limits of follow-ups are those of one call of a script, since a server knows no larger commit. They hold on
//!   every store, so that a program can move from one to another.

use core::sync::atomic::{AtomicU8, AtomicU64, Ordering};
use core::task::Waker;
use std::sync::{Arc, Mutex, OnceLock};
use std::time::{Duration, Instant};

use super::spans::RunSpan;
use crate::store::{Claimed, Fence, NewJob};
use crate::values::error::StoreError;
use crate::values::fail_and_retry::{AttemptErrors, ErrorType, Fail};
use crate::values::id::JobId;
use crate::values::invalid_input::InvalidInput;
use crate::values::job::Extra;
use crate::values::panics::locked;
use crate::values::run_end::{Outcome, StopReason};
use crate::values::setting::HeadStart;
use crate::values::time::Millis;

/// The state that the dispatcher and a run share.
pub(crate) struct RunState {
    pub(crate) id: JobId,
    pub(crate) kind: Arc<str>,
    pub(crate) due: Millis,
    pub(crate) failures: u32,
    pub(crate) attempt: u32,
    pub(crate) key: Option<String>,
    /// The errors of earlier attempts.
    pub(crate) errors: AttemptErrors,
    pub(crate) extra: Option<Box<Extra>>,
    pub(crate) fence: Fence,
    pub(crate) slot: Slot,
    /// Its process ended during an earlier run, or before it: it may have been the reason.
    pub(crate) was_interrupted: bool,
    /// That of its kind when it was claimed.
    pub(crate) head_start: HeadStart,
    /// How long it may take.
    pub(crate) limit: Option<Duration>,
    /// Its span, from the report of its start to that of its end.
    pub(crate) span: RunSpan,
    /// When the lease ends in this process, if the claim is a lease.
    lease: Mutex<Option<Instant>>,
    stage: AtomicU8,
    late_micros: AtomicU64,
    /// When the run started, and how long its handler took.
    started: OnceLock<Instant>,
    took: OnceLock<Duration>,
    handler: AtomicU8,
    over: OnceLock<Over>,
    /// Which of its reports are due or made: bits of [`START_REPORTED`] and [`END_DUE`].
    reports: AtomicU8,
    /// Why the run should stop, as a number: see [`StopReason::of`].
    pub(super) stop_reason: AtomicU8,
    pub(super) wakers: Mutex<Vec<Waker>>,
    /// The result that the run has set.
    pub(super) result: Mutex<Option<Vec<u8>>>,
    pub(crate) follow_ups: FollowUps,
    /// The failure that the handler has noted for this run.
    pub(super) failure: Mutex<Option<Fail>>,
    /// A test has made the run, and no store knows it.
    pub(crate) is_of_test: bool,
}

/// What a claimed job takes until its run has ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Slot {
    Thread,
    /// Its handler is a future, which takes no thread.
    Future,
    /// A part of a batch, which takes one thread for all its jobs. It waits for the others for this long.
    Batch {
        wait: Duration,
    },
}

/// How a run ended.
pub(crate) struct Over {
    pub(crate) outcome: Outcome,
    pub(crate) error: Option<RunError>,
    pub(crate) took: Duration,
}

pub(crate) struct RunError {
    pub(crate) text: String,
    #[cfg_attr(not(feature = "tracing"), expect(dead_code, reason = "only a span has it"))]
    pub(crate) of_type: ErrorType,
}

const WAITING: u8 = 0;
const STARTED: u8 = 1;
const WITHDRAWN: u8 = 2;

/// The bits of `handler`. Of `RETURNED` and `OVERRUN` one is set at most.
const RETURNED: u8 = 1;
const OVERRUN: u8 = 2;
const ENDED: u8 = RETURNED | OVERRUN;
/// The handler has begun to end its run in a transaction, which may be committed or not.
const IN_TRANSACTION: u8 = 4;

const START_REPORTED: u8 = 1;
const END_DUE: u8 = 2;

impl RunState {
    pub(crate) fn new(
        claimed: &Claimed,
        slot: Slot,
        limit: Option<Duration>,
        head_start: HeadStart,
    ) -> RunState {
        RunState {
            id: claimed.id,
            kind: Arc::clone(&claimed.kind),
            due: claimed.due,
            failures: claimed.tries.failures,
            attempt: claimed.tries.attempts.saturating_add(1),
            key: claimed.key.clone(),
            errors: claimed.tries.errors.clone(),
            extra: claimed.extra.clone(),
            fence: claimed.fence,
            slot,
            was_interrupted: claimed.tries.interruptions > 0,
            head_start,
            limit,
            span: RunSpan::empty(),
            lease: Mutex::new(None),
            stage: AtomicU8::new(WAITING),
            late_micros: AtomicU64::new(0),
            started: OnceLock::new(),
            took: OnceLock::new(),
            handler: AtomicU8::new(0),
            over: OnceLock::new(),
            reports: AtomicU8::new(0),
            stop_reason: AtomicU8::new(0),
            wakers: Mutex::new(Vec::new()),
            result: Mutex::new(None),
            follow_ups: FollowUps::default(),
            failure: Mutex::new(None),
            is_of_test: false,
        }
    }

    /// Starts the run. Returns `false` if it was withdrawn.
    pub(crate) fn start(&self, late: Duration, now: Instant) -> bool {
        let micros = u64::try_from(late.as_micros()).unwrap_or(u64::MAX);
        self.late_micros.store(micros, Ordering::Relaxed);
        let _ = self.started.set(now);
        self.leave_waiting(STARTED)
    }

    pub(crate) fn started(&self) -> Option<Instant> {
        self.started.get().copied().filter(|_| self.has_started())
    }

    pub(crate) fn age(&self, now: Instant) -> Option<Duration> {
        Some(now.saturating_duration_since(self.started()?))
    }

    /// Returns how long the handler took, once it has ended.
    pub(crate) fn took(&self) -> Option<Duration> {
        self.took.get().copied()
    }

    /// Notes that the handler has ended. Returns `false` if the run has overrun its time limit before.
    pub(crate) fn returns(&self, now: Instant) -> bool {
        let _ = self.took.set(self.age(now).unwrap_or_default());
        self.follow_ups.close();
        self.add_to_handler(RETURNED)
    }

    /// Ends the run before its handler. Returns `false` if the handler has ended.
    pub(crate) fn overruns(&self) -> bool {
        self.follow_ups.close();
        self.add_to_handler(OVERRUN)
    }

    /// Sets a bit of `handler`. Returns `false` if the handler has ended before, or has overrun its time limit.
    fn add_to_handler(&self, bit: u8) -> bool {
        let add = |handler: u8| (handler & ENDED == 0).then_some(handler | bit);
        self.handler.fetch_update(Ordering::AcqRel, Ordering::Acquire, add).is_ok()
    }

    /// Says whether its handler has not ended, or not begun, and it has not overrun its limit.
    pub(crate) fn is_under_way(&self) -> bool {
        self.handler.load(Ordering::Acquire) & ENDED == 0
    }

    /// Notes how the run ended. Returns `false` if that was noted before, or the run has not started.
    pub(crate) fn end(&self, outcome: Outcome, error: Option<RunError>, now: Instant) -> bool {
        let Some(age) = self.age(now) else { return false };
        let took = self.took().unwrap_or(age);
        self.over.set(Over { outcome, error, took }).is_ok()
    }

    pub(crate) fn over(&self) -> Option<&Over> {
        self.over.get()
    }

    /// Notes that the start was reported. Returns whether the end is due to be reported after it.
    pub(crate) fn start_was_reported(&self) -> bool {
        self.reports.fetch_or(START_REPORTED, Ordering::AcqRel) & END_DUE != 0
    }

    /// Notes that the end is to be reported. Returns whether the start was reported before: else the end waits
    /// for that.
    pub(crate) fn end_is_due(&self) -> bool {
        self.reports.fetch_or(END_DUE, Ordering::AcqRel) & START_REPORTED != 0
    }

    pub(crate) fn result(&self) -> Option<Vec<u8>> {
        locked(&self.result).clone()
    }

    /// Ends the run in a transaction of its handler's, if it is under way. It takes no more follow-ups then.
    #[cfg(feature = "sqlite-unbundled")]
    pub(crate) fn end_in_transaction(&self) -> bool {
        let is_under_way = self.add_to_handler(IN_TRANSACTION);
        if is_under_way {
            self.follow_ups.close();
        }
        is_under_way
    }

    /// Says whether the run may end before its handler: the run has overrun its time limit, or a transaction ends it.
    pub(crate) fn may_end_without_handler(&self) -> bool {
        self.handler.load(Ordering::Acquire) & (OVERRUN | IN_TRANSACTION) != 0
    }

    pub(super) fn take_failure(&self) -> Option<Fail> {
        locked(&self.failure).take()
    }

    /// Makes sure that the run never starts. Returns `false` if it has started, or was withdrawn
    /// before.
    pub(crate) fn withdraw(&self) -> bool {
        self.leave_waiting(WITHDRAWN)
    }

    fn leave_waiting(&self, stage: u8) -> bool {
        self.stage.compare_exchange(WAITING, stage, Ordering::AcqRel, Ordering::Acquire).is_ok()
    }

    pub(crate) fn set_lease(&self, until: Instant) {
        *locked(&self.lease) = Some(until);
    }

    pub(crate) fn lease(&self) -> Option<Instant> {
        *locked(&self.lease)
    }

    pub(crate) fn lease_has_ended(&self, now: Instant) -> bool {
        self.lease().is_some_and(|until| until <= now)
    }

    pub(super) fn is_over_limit(&self, now: Instant) -> bool {
        self.limit.is_some_and(|limit| self.age(now).is_some_and(|age| age >= limit))
    }

    /// Returns how long after its due time the run started.
    pub(crate) fn late(&self) -> Duration {
        Duration::from_micros(self.late_micros.load(Ordering::Relaxed))
    }

    pub(crate) fn has_started(&self) -> bool {
        self.stage.load(Ordering::Acquire) == STARTED
    }

    pub(crate) fn is_waiting(&self) -> bool {
        self.stage.load(Ordering::Acquire) == WAITING
    }

    /// Cancels the run; a graver reason replaces a lesser one. Moves the wakers of waiting futures to `wakers`.
    /// They are code of the user's, so the caller wakes them where it holds no lock.
    pub(crate) fn tell(&self, why: StopReason, wakers: &mut Vec<Waker>) {
        let mut waiting = locked(&self.wakers);
        self.stop_reason.fetch_max(why as u8, Ordering::AcqRel);
        wakers.append(&mut waiting);
    }

    pub(crate) fn is_told(&self) -> bool {
        self.stop_reason.load(Ordering::Acquire) > 0
    }
}

/// The most follow-ups of a run. The end of the run is one more item of its call.
const MOST: usize = 255;

/// The most bytes of their payloads.
const MOST_BYTES: usize = 1 << 20;

#[derive(Default)]
pub(crate) struct FollowUps(Mutex<List>);

#[derive(Default)]
struct List {
    /// Nearly every run has none, and needs no memory for them.
    jobs: Option<Arc<Vec<NewJob>>>,
    bytes: usize,
    is_closed: bool,
    /// The store has refused the end of the run with them.
    was_refused: bool,
}

impl FollowUps {
    /// Adds jobs: all, or none.
    pub(crate) fn add(&self, jobs: Vec<NewJob>) -> Result<(), StoreError> {
        let mut list = locked(&self.0);
        let many = list.jobs.as_ref().map_or(0, |jobs| jobs.len()) + jobs.len();
        let added = jobs.iter().map(|job| job.payload.len());
        let bytes = added.fold(list.bytes, usize::saturating_add);
        if list.is_closed {
            return Err(StoreError::RunEnded);
        } else if many > MOST {
            return Err(InvalidInput::TooManyFollowUps.into());
        } else if bytes > MOST_BYTES {
            return Err(InvalidInput::FollowUpsTooLarge.into());
        }
        list.bytes = bytes;
        Arc::make_mut(list.jobs.get_or_insert_default()).extend(jobs);
        Ok(())
    }

    /// Takes no more.
    pub(crate) fn close(&self) {
        locked(&self.0).is_closed = true;
    }

    pub(crate) fn jobs(&self) -> Option<Arc<Vec<NewJob>>> {
        let list = locked(&self.0);
        list.jobs.clone().filter(|jobs| !jobs.is_empty())
    }

    pub(crate) fn note_refused(&self) {
        locked(&self.0).was_refused = true;
    }

    /// Says whether the store has refused the end of the run before. Its slot is free only once the end is stored:
    /// otherwise a full server would let the process claim ever more.
    pub(crate) fn were_refused(&self) -> bool {
        locked(&self.0).was_refused
    }
}
