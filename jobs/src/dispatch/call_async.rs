//! The calls of futures to the dispatcher; `dispatcher_handle.rs` has those of threads.
//!
//! Ground rules:
//!
//! - A poll never blocks: the dispatcher's thread or the helper's does the work that would block.
//! - The limit of a call is a timer, which wakes the future. The future then checks the time itself.
//! - A future that is dropped gives its call up. A call that the dispatcher has not taken is then not done; a
//!   call that it has taken may have been done, as after a lost answer.
//! - On a manual clock a future makes its step at its first poll, as a thread would: no other thread makes one
//!   there.

use core::future::poll_fn;
use core::task::{Context, Poll};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Instant;

use tickwheel::Handle;

use super::call::{Call, CallEnd, GRACE, TakenCall, call};
use super::command::{Answered, Checked, Command};
use super::dispatcher_handle::{DispatcherHandle, Sent};
use super::questions::Questions;
use crate::store::{ApplyError, Op};
use crate::values::error::{StoreError, Violation};
use crate::values::id::JobId;
use crate::values::info::Durability;
use crate::values::time::Now;

/// A future's call while it waits.
struct Waiting<'a, T> {
    dispatcher: &'a DispatcherHandle,
    call: Call<T>,
    until: Option<Instant>,
    timer: Option<Handle>,
    /// The limit is over, and the timer was set again for [`GRACE`].
    is_over: bool,
}

impl<'a, T> Waiting<'a, T> {
    fn new(
        dispatcher: &'a DispatcherHandle,
        call: Call<T>,
        until: Option<Instant>,
    ) -> Result<Waiting<'a, T>, StoreError> {
        dispatcher.waiting.fetch_add(1, Ordering::Relaxed);
        let mut waiting = Waiting { dispatcher, call, until, timer: None, is_over: false };
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
                None if self.until.is_some_and(|until| until <= self.dispatcher.present()) => {
                    Poll::Ready(Sent::TimedOut)
                }
                None => Poll::Pending,
            }
        };
        poll_fn(send).await
    }

    /// Waits for the end of the call.
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
        if until <= self.dispatcher.present() {
            self.is_over = true;
            let timer = self.dispatcher.futures.wake_at(until + GRACE, self.call.shared());
            self.dispatcher.futures.forget(self.timer.take());
            self.timer = timer.unwrap_or_default();
        }
    }
}

impl<T> Drop for Waiting<'_, T> {
    fn drop(&mut self) {
        self.dispatcher.waiting.fetch_sub(1, Ordering::Relaxed);
        self.dispatcher.futures.forget(self.timer.take());
        self.call.abandon();
    }
}

impl DispatcherHandle {
    /// The same as [`DispatcherHandle::call_and_wait`], as a future.
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
            return self.question_async(questions, op, until).await;
        }
        self.ask_dispatcher_async(op, until).await
    }

    async fn ask_dispatcher_async(&self, op: Op, until: Option<Instant>) -> Answered {
        let is_question = op.is_question();
        let (reply, call) = call(until);
        let mut waiting = Waiting::new(self, call, until)?;
        let end = match waiting.send(Command::Call { op, reply: Some(reply) }).await {
            Sent::Yes | Sent::Done => waiting.end(self.taken()).await,
            Sent::Closed => CallEnd::Refused,
            Sent::TimedOut => CallEnd::TimedOut,
        };
        self.answer_of(end, is_question)
    }

    /// Sends a question to the helper's thread, past the dispatcher.
    async fn question_async(
        &self,
        questions: &Arc<Questions>,
        op: Op,
        until: Option<Instant>,
    ) -> Answered {
        let (reply, call) = call(until);
        let (questions, now) = (Arc::clone(questions), self.clock.now().millis());
        let mut waiting = Waiting::new(self, call, until)?;
        self.futures.helper.run(Box::new(move || {
            if reply.take() {
                let answer = questions.ask(&op, until, now);
                reply.answer(answer);
            }
        }))?;
        // A question that the helper has taken ends by itself.
        let end = waiting.end(TakenCall::IsAwaited).await;
        self.answer_of(end, true)
    }

    /// The same as [`DispatcherHandle::latest`], as a future.
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
        let waiting = Waiting::new(self, call, until)?;
        match waiting.send(Command::Call { op, reply: None }).await {
            Sent::Yes | Sent::Done => Ok(()),
            Sent::Closed => Err(StoreError::Closed.into()),
            Sent::TimedOut => Err(StoreError::Busy.into()),
        }
    }

    /// The same as [`DispatcherHandle::check`], as a future.
    pub(crate) async fn check_async(&self) -> Result<(), Violation> {
        if self.is_manual {
            return self.check();
        }
        self.refuse_here().map_err(|failed| failed.error)?;
        let mut checked = Checked::Everything;
        if let Some(questions) = &self.questions {
            checked = Checked::Claims;
            let questions = Arc::clone(questions);
            let (reply, call) = call(None);
            let mut waiting = Waiting::new(self, call, None)?;
            self.futures.helper.run(Box::new(move || {
                if reply.take() {
                    let found = questions.check();
                    reply.answer(found);
                }
            }))?;
            let end = waiting.end(TakenCall::IsAwaited).await;
            self.checked(end)?;
        }
        let (reply, call) = call(None);
        let mut waiting = Waiting::new(self, call, None)?;
        let end = match waiting.send(Command::Check(reply, checked)).await {
            Sent::Yes | Sent::Done => waiting.end(TakenCall::IsAwaited).await,
            Sent::Closed | Sent::TimedOut => CallEnd::Refused,
        };
        self.checked(end)
    }

    fn present(&self) -> Instant {
        self.clock.now().instant
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
    /// Waits as a thread.
    pub(crate) fn on_thread(self) {
        if let Some(call) = &self.call {
            let _ = call.wait(Some(self.until), TakenCall::IsUnknown, &self.dispatcher.alive);
        }
    }

    /// Waits as a future.
    pub(crate) async fn in_future(mut self) -> Result<(), StoreError> {
        if let Some(call) = self.call.take() {
            let mut waiting = Waiting::new(self.dispatcher, call, Some(self.until))?;
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
