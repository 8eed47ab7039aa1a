//! The handle through which threads and futures send commands to the dispatcher, and wait for its answers.
//!
//! The calls of futures need two threads, which start with the first of them and end with the jobs or with the last
//! client: the helper does work that would block a future or delay a caller, and the wheel has the limits.
//!
//! Ground rules:
//!
//! - A command is refused in a process that was forked since the store was opened, and on a thread that is in a hook of
//!   the jobs: that thread may be the dispatcher's.
//! - Every call ends (`call.rs`). Its limit counts from here, and covers the waits for room in the channel, for the
//!   lock and for the answer. On a file or in memory, a commit that has begun with the call is awaited beyond the
//!   limit.
//! - A command that must not wait goes by `urge`, which always has room.
//! - A poll never blocks: the dispatcher's thread or the helper's does the work that would block.
//! - The limit of a call is a timer, which wakes the future. The future then checks the time itself.
//! - A future that is dropped gives its call up. A call that the dispatcher has not taken is then not done; a call that
//!   it has taken may have been done, as after a lost answer.
//! - On a manual clock a future makes its step at its first poll, as a thread would: no other thread makes one there.
//! - A wait for the end of a job ends by the clock of the jobs, but a thread or a timer waits by the system's clock. So
//!   the driver wakes all waits when it has moved a manual clock.

use core::cell::RefCell;
use core::future::poll_fn;
use core::task::{Context, Poll, Waker};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::{Duration, Instant};

use crossbeam_channel::{Sender, unbounded};
use tickwheel::{Handle, Wheel};

use super::call::{Alive, Call, CallEnd, GRACE, Shared, TakenCall, call, real_time};
use super::clock::Clock;
use super::command::{Answered, Checked, Command, Progress};
use super::events::is_in_hook;
use super::metrics::Metrics;
use super::questions::{EndWaits, Questions};
#[cfg(feature = "tracing")]
use super::spans::Traces;
use crate::store::{Answer, ApplyError, Hurry, Op};
use crate::values::error::{StoreError, Violation};
use crate::values::id::JobId;
use crate::values::info::Durability;
use crate::values::job::Headers;
use crate::values::panics::{caught, locked};
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

impl Sent {
    /// Returns the result of a command for whose answer no caller waits.
    fn posted(self) -> Result<(), StoreError> {
        match self {
            Sent::Yes | Sent::Done => Ok(()),
            Sent::Closed => Err(StoreError::Closed),
            Sent::TimedOut => Err(StoreError::Busy),
        }
    }
}

/// How often a lone caller lets other threads run before it sleeps.
const YIELDS: u32 = 64;

pub(crate) struct DispatcherHandle {
    pub(crate) way: Box<dyn Way>,
    /// There is no dispatcher's thread: callers make the steps.
    pub(crate) inline: bool,
    /// The clock is manual: it stands still while a caller waits, so futures make their steps themselves, as
    /// threads do.
    pub(crate) is_manual: bool,
    /// How long a wait for the end of a job goes on in real time while a manual clock stands still.
    pub(crate) patience: Duration,
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
    pub(crate) end_waits: Arc<EndWaits>,
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
        Ok(self.way.send(Command::Call { op, reply: None }).posted()?)
    }

    /// Sends a command that must not wait. Returns `false` if there is no dispatcher any more.
    pub(crate) fn urge(&self, command: Command) -> bool {
        self.way.urge(command).posted().is_ok()
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
            Sent::Closed | Sent::TimedOut => CallEnd::Refused,
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

/// A future's call while it waits.
struct WaitingCall<'a, T> {
    dispatcher: &'a DispatcherHandle,
    call: Call<T>,
    until: Option<Instant>,
    timer: Option<Handle>,
    /// The limit is over, and the timer was set again for [`GRACE`].
    is_over: bool,
}

impl<'a, T> WaitingCall<'a, T> {
    fn new(
        dispatcher: &'a DispatcherHandle,
        call: Call<T>,
        until: Option<Instant>,
    ) -> Result<WaitingCall<'a, T>, StoreError> {
        dispatcher.waiting.fetch_add(1, Ordering::Relaxed);
        let mut waiting = WaitingCall { dispatcher, call, until, timer: None, is_over: false };
        if let Some(until) = until {
            waiting.timer = dispatcher.futures.wake_at(until, waiting.call.shared())?;
        }
        Ok(waiting)
    }

    /// Sends the command, once there is room.
    async fn send(&self, command: Command) -> Sent {
        let mut command = Some(command);
        let send = |context: &mut Context<'_>| {
            // The timer of the limit wakes this waker too.
            self.call.shared().leave(context.waker());
            let sent = self.dispatcher.way.try_send(&mut command, context.waker());
            match sent {
                Some(sent) => Poll::Ready(sent),
                None if self.dispatcher.alive.has_ended() => Poll::Ready(Sent::Closed),
                None if self.until.is_some_and(|until| until <= real_time()) => {
                    Poll::Ready(Sent::TimedOut)
                }
                None => Poll::Pending,
            }
        };
        poll_fn(send).await
    }

    async fn end(&mut self, taken: TakenCall) -> CallEnd<T> {
        poll_fn(|context| {
            let polled = self.call.poll(context.waker(), self.until, taken, &self.dispatcher.alive);
            if polled.is_pending() {
                self.wait_longer();
            }
            polled
        })
        .await
    }

    /// Once the limit is over, sets the timer again, for [`GRACE`]: the dispatcher has taken the call.
    fn wait_longer(&mut self) {
        let Some(until) = self.until.filter(|_| !self.is_over) else { return };
        if until <= real_time() {
            self.is_over = true;
            let timer = self.dispatcher.futures.wake_at(until + GRACE, self.call.shared());
            self.dispatcher.futures.forget(self.timer.take());
            self.timer = timer.unwrap_or_default();
        }
    }
}

impl<T> Drop for WaitingCall<'_, T> {
    fn drop(&mut self) {
        self.dispatcher.waiting.fetch_sub(1, Ordering::Relaxed);
        self.dispatcher.futures.forget(self.timer.take());
        self.call.abandon();
    }
}

impl DispatcherHandle {
    pub(crate) async fn call_async(&self, op: Op) -> Answered {
        if self.is_manual {
            return self.call_and_wait(op);
        }
        self.refuse_here()?;
        let until = self.until();
        if let Some(questions) = self.questions.as_ref().filter(|_| op.is_question()) {
            if self.durability == Durability::Buffered {
                // Once the dispatcher has answered this, the inserts before it are in the store.
                self.ask_dispatcher_async(Op::Kinds, until).await?;
            }
            let (questions, now) = (Arc::clone(questions), self.clock.now().millis());
            let end = self.on_helper(until, move || questions.ask(&op, until, now)).await?;
            return self.answer_of(end, true);
        }
        self.ask_dispatcher_async(op, until).await
    }

    async fn ask_dispatcher_async(&self, op: Op, until: Option<Instant>) -> Answered {
        let is_question = op.is_question();
        let (reply, call) = call(until);
        let mut waiting = WaitingCall::new(self, call, until)?;
        let end = match waiting.send(Command::Call { op, reply: Some(reply) }).await {
            Sent::Yes | Sent::Done => waiting.end(self.taken()).await,
            Sent::Closed => CallEnd::Refused,
            Sent::TimedOut => CallEnd::TimedOut,
        };
        self.answer_of(end, is_question)
    }

    /// Asks a question on the helper's thread, past the dispatcher.
    async fn on_helper<T: Send + 'static>(
        &self,
        until: Option<Instant>,
        ask: impl FnOnce() -> T + Send + 'static,
    ) -> Result<CallEnd<T>, StoreError> {
        let (reply, call) = call(until);
        let mut waiting = WaitingCall::new(self, call, until)?;
        self.futures.helper.run(Box::new(move || {
            if reply.take() {
                let answer = ask();
                reply.answer(answer);
            }
        }))?;
        // A question that the helper has taken ends by itself.
        Ok(waiting.end(TakenCall::IsAwaited).await)
    }

    pub(crate) async fn latest_async(&self) -> Result<Now, ApplyError> {
        if !self.is_manual && self.clock.is_stale() && !self.closed.load(Ordering::Acquire) {
            self.refuse_here()?;
            self.ask_dispatcher_async(Op::Get(JobId::from_u128(0)), self.until()).await?;
        }
        Ok(self.clock.latest())
    }

    /// Sends an operation, and waits for room, not for the answer. Where callers make the steps, the future
    /// waits for its step nevertheless, because no other thread makes it soon.
    pub(crate) async fn post_async(&self, op: Op) -> Result<(), ApplyError> {
        if self.is_manual {
            return self.post(op);
        }
        if self.inline {
            return self.call_async(op).await.map(drop);
        }
        self.refuse_here()?;
        if self.closed.load(Ordering::Acquire) {
            return Err(StoreError::Closed.into());
        }
        let until = self.until();
        let (_reply, call) = call::<()>(until);
        let waiting = WaitingCall::new(self, call, until)?;
        Ok(waiting.send(Command::Call { op, reply: None }).await.posted()?)
    }

    pub(crate) async fn check_async(&self) -> Result<(), Violation> {
        if self.is_manual {
            return self.check();
        }
        self.refuse_here().map_err(|failed| failed.error)?;
        let mut checked = Checked::Everything;
        if let Some(questions) = &self.questions {
            checked = Checked::Claims;
            let questions = Arc::clone(questions);
            let end = self.on_helper(None, move || questions.check()).await?;
            self.checked(end)?;
        }
        let (reply, call) = call(None);
        let mut waiting = WaitingCall::new(self, call, None)?;
        let end = match waiting.send(Command::Check(reply, checked)).await {
            Sent::Yes | Sent::Done => waiting.end(TakenCall::IsAwaited).await,
            Sent::Closed | Sent::TimedOut => CallEnd::Refused,
        };
        self.checked(end)
    }

    /// Says whether the driver of a manual clock cannot go on before the caller does: this thread is in a handler, or in
    /// a function that the driver calls.
    pub(crate) fn holds_the_driver(self: &Arc<DispatcherHandle>) -> bool {
        self.is_manual && (is_in_handler_of(self) || self.end_waits.is_driven_here())
    }

    /// Says whether the driver of a manual clock is at work, without need of the caller.
    pub(crate) fn is_driven(self: &Arc<DispatcherHandle>) -> bool {
        self.end_waits.is_driven() && !self.holds_the_driver()
    }
}

/// A wait for the end of a job, which has begun: an end that comes from now on ends it.
pub(crate) struct EndWait<'a> {
    dispatcher: &'a DispatcherHandle,
    id: JobId,
    call: Option<Call<()>>,
    until: Instant,
}

impl DispatcherHandle {
    /// Begins to wait for the end of a job, until `until` at most. `key`: that of the job, once it is known.
    pub(crate) fn begin_wait(&self, id: JobId, key: Option<&str>, until: Instant) -> EndWait<'_> {
        let (reply, call) = call(Some(until));
        self.end_waits.add(id, key, reply);
        EndWait { dispatcher: self, id, call: Some(call), until }
    }
}

impl EndWait<'_> {
    pub(crate) fn on_thread(self) {
        if let Some(call) = &self.call {
            let _ = call.wait(Some(self.until), TakenCall::IsUnknown, &self.dispatcher.alive);
        }
    }

    pub(crate) async fn in_future(mut self) -> Result<(), StoreError> {
        if let Some(call) = self.call.take() {
            let mut waiting = WaitingCall::new(self.dispatcher, call, Some(self.until))?;
            let _ = waiting.end(TakenCall::IsUnknown).await;
        }
        Ok(())
    }
}

impl Drop for EndWait<'_> {
    fn drop(&mut self) {
        if let Some(call) = self.call.take() {
            call.abandon();
        }
        self.dispatcher.end_waits.forget(self.id);
    }
}

/// The tick of the timers. A call may give up later than its limit by one tick.
const TICK: Duration = Duration::from_millis(5);

/// Both start with the first future that calls, and end with the jobs or with the last client.
#[derive(Default)]
pub(crate) struct Futures {
    pub(crate) helper: Arc<Helper>,
    limits: OnceLock<Option<Wheel>>,
}

impl Futures {
    /// Wakes the future of a call at `until`. Returns the timer, or none if the jobs have ended: the call
    /// notices that by itself.
    pub(crate) fn wake_at(
        &self,
        until: Instant,
        shared: Arc<Shared>,
    ) -> Result<Option<Handle>, StoreError> {
        let wheel = self.limits.get_or_init(|| {
            let wheel = Wheel::builder().tick(TICK).threads(1).name("tickwheel-jobs-limits");
            wheel.build().ok()
        });
        let Some(wheel) = wheel else {
            return Err(StoreError::Other("no thread for the limits of calls".to_owned()));
        };
        Ok(wheel.try_insert(until, move || shared.wake()).ok())
    }

    /// Cancels the timer of a call that has ended.
    pub(crate) fn forget(&self, timer: Option<Handle>) {
        if let (Some(Some(wheel)), Some(timer)) = (self.limits.get(), timer) {
            wheel.cancel(timer);
        }
    }

    /// Ends the threads: every call has its answer.
    pub(crate) fn end(&self) {
        self.helper.end();
        if let Some(Some(wheel)) = self.limits.get() {
            drop(wheel.close());
        }
    }
}

/// Work for the thread, which does one task after the other.
pub(crate) type Task = Box<dyn FnOnce() + Send>;

/// The handle to the thread.
#[derive(Default)]
pub(crate) struct Helper {
    stage: Mutex<WaitStage>,
}

#[derive(Default)]
enum WaitStage {
    /// The first task starts the thread.
    #[default]
    Idle,
    /// The thread lives as long as the sender does.
    Runs(Sender<Task>),
    Ended,
}

impl Helper {
    /// Gives the thread a task, and starts it if it does not run yet. Returns an error after [`Helper::end`].
    pub(crate) fn run(&self, task: Task) -> Result<(), StoreError> {
        let mut stage = locked(&self.stage);
        if matches!(*stage, WaitStage::Idle) {
            *stage = WaitStage::Runs(start()?);
        }
        match &*stage {
            WaitStage::Runs(sender) => sender.send(task).map_err(|_| StoreError::Closed),
            WaitStage::Idle | WaitStage::Ended => Err(StoreError::Closed),
        }
    }

    /// Ends the thread after its last task.
    pub(crate) fn end(&self) {
        *locked(&self.stage) = WaitStage::Ended;
    }
}

fn start() -> Result<Sender<Task>, StoreError> {
    let (sender, tasks) = unbounded::<Task>();
    // A panic ends only its task: the caller that waits for that task gets an error.
    let work = move || {
        for task in tasks {
            caught(task);
        }
    };
    let started = std::thread::Builder::new().name("tickwheel-jobs-ask".to_owned()).spawn(work);
    match started {
        Ok(_) => Ok(sender),
        Err(error) => Err(StoreError::Other(format!("no thread for asynchronous calls: {error}"))),
    }
}

thread_local! {
    /// The jobs whose handlers run on this thread: on a manual clock, one handler may call another.
    static IN_HANDLERS: RefCell<Vec<usize>> = const { RefCell::new(Vec::new()) };
}

/// Says whether the calling thread is in a handler of these jobs, which a shutdown must not wait for.
pub(crate) fn is_in_handler_of(dispatcher: &Arc<DispatcherHandle>) -> bool {
    IN_HANDLERS.with_borrow(|handlers| handlers.contains(&identity(dispatcher)))
}

/// Says whether the calling thread is in a handler of any jobs.
pub(crate) fn is_in_handler() -> bool {
    IN_HANDLERS.with_borrow(|handlers| !handlers.is_empty())
}

fn identity(dispatcher: &Arc<DispatcherHandle>) -> usize {
    Arc::as_ptr(dispatcher).addr()
}

/// The calling thread is in a handler until this is dropped.
pub(crate) struct InHandler;

impl InHandler {
    pub(crate) fn of(dispatcher: &Arc<DispatcherHandle>) -> InHandler {
        IN_HANDLERS.with_borrow_mut(|handlers| handlers.push(identity(dispatcher)));
        InHandler
    }
}

impl Drop for InHandler {
    fn drop(&mut self) {
        let _ = IN_HANDLERS.with_borrow_mut(Vec::pop);
    }
}
