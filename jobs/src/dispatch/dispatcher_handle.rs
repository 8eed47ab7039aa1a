//! The handle through which callers send commands to the dispatcher, and wait for its answers.
//!
//! Ground rules:
//!
//! - A command is refused in a process that was forked since the store was opened, and on a thread that is in a
//!   hook of the jobs: that thread may be the dispatcher's.
//! - Every call ends (`call.rs`). Its limit counts from here, and covers the waits for room in the channel, for
//!   the lock and for the answer. On a file or in memory, a commit that has begun with the call is awaited
//!   beyond the limit.
//! - A command that must not wait goes by `urge`, which always has room.

use core::task::Waker;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use super::call::{Alive, Call, CallEnd, TakenCall, call};
use super::call_limits::Futures;
use super::clock::Clock;
use super::command::{Answered, Checked, Command};
use super::end_waits::EndWaits;
use super::events::is_in_hook;
use super::metrics::Metrics;
use super::progress::Progress;
use super::questions::Questions;
#[cfg(feature = "tracing")]
use super::traces::Traces;
use crate::store::{Answer, ApplyError, Hurry, Op};
use crate::values::error::{StoreError, Violation};
use crate::values::id::JobId;
use crate::values::info::Durability;
use crate::values::job::Headers;
use crate::values::time::Now;

/// A function of the program that returns headers. It is called on the thread that inserts.
pub(crate) type Capture = Arc<dyn Fn() -> Headers + Send + Sync>;

/// How commands reach the dispatcher.
pub(crate) trait Way: Send + Sync {
    /// Sends a command, and waits for room.
    fn send(&self, command: Command) -> Sent;

    /// Sends a command, as [`Way::send`] does, for a caller beside which no other waits: it may make the step.
    fn send_alone(&self, command: Command) -> Sent {
        self.send(command)
    }

    /// Sends a command that must not wait for room.
    fn urge(&self, command: Command) -> Sent;

    /// Takes and sends the command of a future, which must not block. If there is no room, leaves the command,
    /// and returns `None`: the waker is woken once there is room.
    fn try_send(&self, command: &mut Option<Command>, waker: &Waker) -> Option<Sent>;
}

/// The result of sending a command.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Sent {
    Yes,
    /// This thread has made the step.
    Done,
    /// There is no dispatcher any more.
    Closed,
    /// The limit of the call was over first.
    TimedOut,
}

/// How often a lone caller lets other threads run before it sleeps.
const YIELDS: u32 = 64;

/// The handle to a dispatcher.
pub(crate) struct DispatcherHandle {
    pub(crate) way: Box<dyn Way>,
    /// There is no dispatcher's thread: callers make the steps.
    pub(crate) inline: bool,
    /// The clock is manual: it stands still while a caller waits, so futures make their steps themselves, as
    /// threads do.
    pub(crate) is_manual: bool,
    pub(crate) clock: Clock,
    pub(crate) metrics: Arc<Metrics>,
    /// Returns the headers of an insert: see `Builder::headers`.
    pub(crate) capture: Option<Capture>,
    #[cfg(feature = "tracing")]
    pub(crate) traces: Traces,
    /// What an insert waits for.
    pub(crate) durability: Durability,
    /// The limit of a call. Without one it waits for ever.
    pub(crate) call_timeout: Option<Duration>,
    /// The store is a server, which may never answer.
    pub(crate) shared: bool,
    /// The kinds that need the only thread of the handlers, while no other process runs the jobs. None with more
    /// threads.
    pub(crate) on_only_thread: Vec<Arc<str>>,
    /// The callers that wait for the end of a job.
    pub(crate) end_waits: Arc<EndWaits>,
    /// The progress that runs have set, until a step takes it.
    pub(crate) progress: Arc<Progress>,
    /// How many callers wait for an answer.
    pub(crate) waiting: AtomicUsize,
    pub(crate) closed: AtomicBool,
    pub(crate) alive: Arc<Alive>,
    /// Ends the waits of the store.
    pub(crate) hurry: Hurry,
    /// A nudge is under way.
    pub(crate) nudged: Arc<AtomicBool>,
    /// Answers questions without the dispatcher.
    pub(crate) questions: Option<Arc<Questions>>,
    /// The thread and the timers for the calls of futures.
    pub(crate) futures: Futures,
    pub(crate) pid: u32,
    /// The kinds that are handled here.
    pub(crate) kinds: Vec<Arc<str>>,
    /// The queue, if it is not the default one.
    #[cfg(feature = "web")]
    pub(crate) queue: Option<String>,
    /// The file of the store, for transactions of the caller's.
    #[cfg(feature = "sqlite-unbundled")]
    pub(crate) file: Option<crate::store::sqlite::open::Location>,
}

impl DispatcherHandle {
    /// Sends an operation, and waits for the answer.
    pub(crate) fn call_and_wait(&self, op: Op) -> Result<Answer, ApplyError> {
        self.refuse_here()?;
        let until = self.until();
        if let Some(questions) = self.questions.as_ref().filter(|_| op.is_question()) {
            if self.durability == Durability::Buffered {
                // Once the dispatcher has answered this, the inserts before it are in the store.
                self.ask_dispatcher(Op::Kinds, until)?;
            }
            return of_question(questions.ask(&op, until, self.clock.now().millis()));
        }
        self.ask_dispatcher(op, until)
    }

    fn ask_dispatcher(&self, op: Op, until: Option<Instant>) -> Result<Answer, ApplyError> {
        let is_question = op.is_question();
        let (reply, call) = call(until);
        let is_alone = self.waiting.fetch_add(1, Ordering::Relaxed) == 0;
        let command = Command::Call { op, reply: Some(reply) };
        let sent = if is_alone { self.way.send_alone(command) } else { self.way.send(command) };
        let end = match sent {
            Sent::Yes => self.early(&call).unwrap_or_else(|| self.wait(&call, until)),
            Sent::Done => answered(&call),
            Sent::Closed => CallEnd::Refused,
            Sent::TimedOut => CallEnd::TimedOut,
        };
        self.waiting.fetch_sub(1, Ordering::Relaxed);
        self.answer_of(end, is_question)
    }

    /// Returns the caller's result of a call that has ended.
    pub(super) fn answer_of(&self, end: CallEnd<Answered>, is_question: bool) -> Answered {
        match end {
            // A question changes nothing, so its outcome is never unknown.
            CallEnd::Answered(answer) if is_question => of_question(answer),
            CallEnd::Answered(answer) => answer,
            CallEnd::Refused => Err(self.alive.why_ended().into()),
            CallEnd::TimedOut => Err(StoreError::Busy.into()),
            CallEnd::Unknown if is_question && self.alive.refuses() => {
                Err(self.alive.why_ended().into())
            }
            CallEnd::Unknown if is_question => Err(StoreError::Busy.into()),
            CallEnd::Unknown => {
                Err(ApplyError { error: StoreError::Unknown, unknown: true, again: false })
            }
        }
    }

    fn wait<T>(&self, call: &Call<T>, until: Option<Instant>) -> CallEnd<T> {
        call.wait(until, self.taken(), &self.alive)
    }

    /// Returns what a caller does once its limit is over, if the call was taken.
    pub(super) fn taken(&self) -> TakenCall {
        if self.shared { TakenCall::IsUnknown } else { TakenCall::IsAwaited }
    }

    pub(super) fn until(&self) -> Option<Instant> {
        let call_timeout = self.call_timeout?;
        self.clock.now().instant.checked_add(call_timeout)
    }

    /// Returns the answer if it comes within the time of a commit that does not wait for the disk. If a lone
    /// caller slept instead, its wake-up would take longer than the commit.
    fn early(&self, call: &Call<Answered>) -> Option<CallEnd<Answered>> {
        if self.durability == Durability::Synced {
            return None;
        }
        for _ in 0..YIELDS {
            let answer = call.try_answer();
            if answer.is_some() || self.waiting.load(Ordering::Relaxed) > 1 {
                return answer;
            }
            std::thread::yield_now();
        }
        None
    }

    /// Returns the present, from which a delay counts. If the store's clock is stale, asks the store first,
    /// with a call of its own. A caller that inserts often never makes that call.
    pub(crate) fn latest(&self) -> Result<Now, ApplyError> {
        if self.clock.is_stale() && !self.closed.load(Ordering::Acquire) {
            // Every answer has the time, so this asks for a job that does not exist.
            self.refuse_here()?;
            self.ask_dispatcher(Op::Get(JobId::from_u128(0)), self.until())?;
        }
        Ok(self.clock.latest())
    }

    /// Sends an operation, and does not wait for the answer. It is in the store once a later flush is answered.
    pub(crate) fn post(&self, op: Op) -> Result<(), ApplyError> {
        self.refuse_here()?;
        if self.closed.load(Ordering::Acquire) {
            return Err(StoreError::Closed.into());
        }
        match self.way.send(Command::Call { op, reply: None }) {
            Sent::Yes | Sent::Done => Ok(()),
            Sent::Closed => Err(StoreError::Closed.into()),
            Sent::TimedOut => Err(StoreError::Busy.into()),
        }
    }

    /// Sends a command that must not wait. Returns `false` if there is no dispatcher any more.
    pub(crate) fn urge(&self, command: Command) -> bool {
        matches!(self.way.urge(command), Sent::Yes | Sent::Done)
    }

    /// Makes the dispatcher poll, and does not wait.
    pub(crate) fn nudge(&self) {
        // One nudge under way serves all. Where the caller makes the step, this ends a nudge in an event of that step.
        if !self.nudged.swap(true, Ordering::AcqRel) {
            let _ = self.urge(Command::Poll);
            if self.inline {
                self.nudged.store(false, Ordering::Release);
            }
        }
    }

    /// Returns the size of the store's log. To ask the system after every step would cost a twentieth of a commit.
    pub(crate) fn log_bytes(&self) -> u64 {
        #[cfg(feature = "sqlite-unbundled")]
        if let Some(file) = &self.file {
            return file.wal_bytes();
        }
        0
    }

    pub(crate) fn handles(&self, kind: &str) -> bool {
        self.kinds.iter().any(|handled| **handled == *kind)
    }

    pub(crate) fn needs_the_only_thread(&self, kind: &str) -> bool {
        self.on_only_thread.iter().any(|on_it| **on_it == *kind)
    }

    pub(crate) fn check(&self) -> Result<(), Violation> {
        self.refuse_here().map_err(|failed| failed.error)?;
        let checked = match &self.questions {
            Some(questions) => {
                questions.check()?;
                Checked::Claims
            }
            None => Checked::Everything,
        };
        let (reply, call) = call(None);
        let end = match self.way.send(Command::Check(reply, checked)) {
            Sent::Yes => self.wait(&call, None),
            Sent::Done => answered(&call),
            Sent::Closed => return Err(self.alive.why_ended().into()),
            Sent::TimedOut => return Err(StoreError::Busy.into()),
        };
        self.checked(end)
    }

    /// Returns the caller's result of a check.
    pub(super) fn checked(&self, end: CallEnd<Result<(), Violation>>) -> Result<(), Violation> {
        match end {
            CallEnd::Answered(found) => found,
            _ => Err(self.alive.why_ended().into()),
        }
    }

    /// Refuses a process that was forked, a thread that is in a hook of the jobs, and every call after the
    /// dispatcher's end.
    pub(super) fn refuse_here(&self) -> Result<(), ApplyError> {
        if std::process::id() != self.pid {
            return Err(StoreError::Forked.into());
        }
        if is_in_hook() {
            let reason = "a hook runs on the thread that makes the steps of the jobs, which cannot wait for itself";
            return Err(StoreError::Other(reason.to_owned()).into());
        }
        if self.alive.refuses() {
            return Err(self.alive.why_ended().into());
        }
        Ok(())
    }
}

fn of_question(answer: Answered) -> Answered {
    answer.map_err(|failed| ApplyError { unknown: false, ..failed })
}

/// Returns the end of a call whose step this thread has made.
fn answered<T>(call: &Call<T>) -> CallEnd<T> {
    call.try_answer().unwrap_or_else(|| call.give_up(CallEnd::TimedOut))
}
