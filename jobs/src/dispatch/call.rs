//! A call: the caller's end, which waits until a limit, and the dispatcher's end, which answers; and a lock whose wait
//! has such a limit.
//!
//! Ground rules:
//!
//! - Every call ends: with its answer, with an error which means that nothing was done, or with an error which means
//!   that the outcome is unknown.
//! - Either the dispatcher takes a call, or the caller gives it up. Each is one exchange of `stage` from `WAITING`, so
//!   exactly one of them happens. A call that was given up is not done; a call that was taken may have been done.
//! - A command may lie in a channel that is never read again, because the dispatcher has ended. So a caller checks
//!   `Alive` while it waits.
//! - A caller is a thread, which waits in the channel, or a future, which leaves its waker. A drop of the dispatcher's
//!   end wakes the future, after an answer or without one. The waker is called outside of any lock.
//! - A thread that locks takes the `LineTurn` first, then the value, and gives them back in the other order. So no
//!   thread waits for the mutex of the value.
//! - The mutex of the `LineTurn` is held for a moment only, and no other code runs meanwhile.

use core::ops::{Deref, DerefMut};
use core::task::{Poll, Waker};
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use crossbeam_channel::{Receiver, RecvTimeoutError, Sender, TryRecvError, bounded};

use super::events::wake;
use crate::values::error::StoreError;
use crate::values::panics::locked;

/// The dispatcher's end of a call. If it is dropped before an answer, the call ends without one.
pub(crate) struct Reply<T> {
    /// None once it was answered.
    answer: Option<Sender<T>>,
    shared: Arc<Shared>,
    /// When the caller stops waiting.
    until: Option<Instant>,
}

/// The caller's end of a call.
pub(crate) struct Call<T> {
    answer: Receiver<T>,
    shared: Arc<Shared>,
}

/// The state that both ends share.
#[derive(Default)]
pub(crate) struct Shared {
    stage: AtomicU8,
    /// The dispatcher's end was dropped: there is an answer, or there will be none.
    ended: AtomicBool,
    /// The waker of the future that waits, if one does.
    waker: Mutex<Option<Waker>>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum CallEnd<T> {
    Answered(T),
    /// The limit is over, and nothing was done.
    TimedOut,
    /// The dispatcher has ended, and nothing was done.
    Refused,
    /// The outcome is unknown: it may have been done.
    Unknown,
}

/// What a caller does once its limit is over, if the dispatcher has taken the call.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum TakenCall {
    /// Waits on: the commit has begun, and ends.
    IsAwaited,
    /// Gives up after [`GRACE`]: a server may never answer.
    IsUnknown,
}

/// Whether the dispatcher lives.
#[derive(Default)]
pub(crate) struct Alive {
    has_ended: AtomicBool,
    /// The error at which it has stopped by itself.
    stopped: OnceLock<StoreError>,
}

const WAITING: u8 = 0;
const TAKEN: u8 = 1;
const GIVEN_UP: u8 = 2;
const ANSWERED: u8 = 3;

/// How often a waiting caller checks whether the dispatcher lives.
const CHECK_INTERVAL: Duration = Duration::from_millis(100);
/// How much longer a caller waits if its call was taken: the dispatcher knows more about the outcome, and is
/// about to answer.
pub(crate) const GRACE: Duration = Duration::from_millis(250);

pub(crate) fn call<T>(until: Option<Instant>) -> (Reply<T>, Call<T>) {
    let (sender, receiver) = bounded(1);
    let shared = Arc::<Shared>::default();
    let reply = Reply { answer: Some(sender), shared: Arc::clone(&shared), until };
    (reply, Call { answer: receiver, shared })
}

impl Shared {
    fn leave_waiting(&self, to: u8) -> bool {
        self.stage.compare_exchange(WAITING, to, Ordering::AcqRel, Ordering::Acquire).is_ok()
    }

    /// Sets the waker of the future that waits.
    pub(crate) fn leave(&self, waker: &Waker) {
        let waker = waker.clone();
        let before = locked(&self.waker).replace(waker);
        drop(before);
    }

    pub(crate) fn wake(&self) {
        let waker = locked(&self.waker).take();
        wake(waker.into_iter().collect(), true);
    }
}

impl<T> Reply<T> {
    /// Takes the call. Returns `false` if the caller has given it up: then it must not be done.
    pub(crate) fn take(&self) -> bool {
        self.shared.leave_waiting(TAKEN)
    }

    /// Puts back a call that was taken and not done: its caller may give it up again.
    pub(crate) fn put_back(&self) {
        let stage = &self.shared.stage;
        let _ = stage.compare_exchange(TAKEN, WAITING, Ordering::AcqRel, Ordering::Acquire);
    }

    pub(crate) fn answer(mut self, answer: T) {
        self.shared.stage.store(ANSWERED, Ordering::Release);
        if let Some(sender) = self.answer.take() {
            // The caller may be gone.
            let _ = sender.send(answer);
        }
    }

    pub(crate) fn is_given_up(&self) -> bool {
        self.shared.stage.load(Ordering::Acquire) == GIVEN_UP
    }

    /// Returns when the caller stops waiting.
    pub(crate) fn until(&self) -> Option<Instant> {
        self.until
    }

    pub(crate) fn stage(&self) -> Stage {
        Stage(Arc::clone(&self.shared))
    }

    pub(crate) fn is_over(&self, now: Instant) -> bool {
        self.until.is_some_and(|until| until <= now)
    }
}

impl<T> Drop for Reply<T> {
    fn drop(&mut self) {
        drop(self.answer.take());
        self.shared.ended.store(true, Ordering::Release);
        self.shared.wake();
    }
}

impl<T> Call<T> {
    /// Returns the state through which the waiting future is woken.
    pub(crate) fn shared(&self) -> Arc<Shared> {
        Arc::clone(&self.shared)
    }

    /// Waits as [`Call::wait`] does, as a future. Its task must be woken at `until`, and once more [`GRACE`]
    /// later.
    pub(crate) fn poll(
        &self,
        waker: &Waker,
        until: Option<Instant>,
        taken: TakenCall,
        alive: &Alive,
    ) -> Poll<CallEnd<T>> {
        if let Some(end) = self.try_answer() {
            return Poll::Ready(end);
        }
        self.shared.leave(waker);
        // An answer that came before the waker was left has woken no future.
        if let Some(end) = self.try_answer() {
            return Poll::Ready(end);
        }
        if alive.has_ended() {
            let end = self.try_answer();
            return Poll::Ready(end.unwrap_or_else(|| self.give_up(CallEnd::Refused)));
        }
        let Some(until) = until else { return Poll::Pending };
        let now = real_time();
        if until <= now && self.shared.leave_waiting(GIVEN_UP) {
            return Poll::Ready(CallEnd::TimedOut);
        }
        if until + GRACE <= now && taken == TakenCall::IsUnknown {
            return Poll::Ready(self.give_up(CallEnd::TimedOut));
        }
        Poll::Pending
    }

    /// The caller stops waiting. If the dispatcher has not taken the call, it is not done.
    pub(crate) fn abandon(&self) {
        let _ = self.shared.leave_waiting(GIVEN_UP);
        let waker = locked(&self.shared.waker).take();
        drop(waker);
    }

    /// Returns the answer if it is there, or the end of a call that will have none.
    pub(crate) fn try_answer(&self) -> Option<CallEnd<T>> {
        match self.answer.try_recv() {
            Ok(answer) => Some(CallEnd::Answered(answer)),
            Err(TryRecvError::Empty) => None,
            Err(TryRecvError::Disconnected) => Some(self.give_up(CallEnd::Refused)),
        }
    }

    /// Waits for the answer until `until`. If the dispatcher has taken the call by then, `taken` says how long
    /// to wait on.
    pub(crate) fn wait(
        &self,
        until: Option<Instant>,
        taken: TakenCall,
        alive: &Alive,
    ) -> CallEnd<T> {
        if let Some(end) = self.wait_until(until, alive) {
            return end;
        }
        if self.shared.leave_waiting(GIVEN_UP) {
            return CallEnd::TimedOut;
        }
        let longer = until.map(|until| until + GRACE).filter(|_| taken == TakenCall::IsUnknown);
        self.wait_until(longer, alive).unwrap_or(CallEnd::Unknown)
    }

    /// Waits for the end of the call, for at most `limit`. The call goes on after that.
    pub(crate) fn wait_for(&self, limit: Duration, alive: &Alive) -> Option<CallEnd<T>> {
        self.wait_until(real_time().checked_add(limit), alive)
    }

    /// Waits for the end of the call. Returns `None` at `until`; the call goes on then.
    pub(crate) fn wait_until(&self, until: Option<Instant>, alive: &Alive) -> Option<CallEnd<T>> {
        loop {
            let slice = real_time() + CHECK_INTERVAL;
            match self.answer.recv_deadline(until.map_or(slice, |until| until.min(slice))) {
                Ok(answer) => return Some(CallEnd::Answered(answer)),
                Err(RecvTimeoutError::Disconnected) => {
                    return Some(self.give_up(CallEnd::Refused));
                }
                Err(RecvTimeoutError::Timeout) => {}
            }
            if alive.has_ended() {
                // The dispatcher gives every answer before it ends.
                let end = self.try_answer();
                return Some(end.unwrap_or_else(|| self.give_up(CallEnd::Refused)));
            }
            if until.is_some_and(|until| until <= real_time()) {
                return None;
            }
        }
    }

    /// Ends a call that has no answer: with `refused` if it was not taken, else with `Unknown`.
    pub(crate) fn give_up(&self, refused: CallEnd<T>) -> CallEnd<T> {
        match self.shared.leave_waiting(GIVEN_UP) {
            true => refused,
            false => CallEnd::Unknown,
        }
    }
}

/// How far a call is.
pub(crate) struct Stage(Arc<Shared>);

impl Stage {
    pub(crate) fn is_of<T>(&self, reply: &Reply<T>) -> bool {
        Arc::ptr_eq(&self.0, &reply.shared)
    }

    /// Says whether the call is over: it was answered, its dispatcher's end was dropped, or its caller has
    /// given it up.
    pub(crate) fn is_over(&self) -> bool {
        self.0.ended.load(Ordering::Acquire) || self.0.stage.load(Ordering::Acquire) == GIVEN_UP
    }
}

impl Alive {
    pub(crate) fn has_ended(&self) -> bool {
        self.has_ended.load(Ordering::Acquire)
    }

    /// Says whether calls are refused: the dispatcher has ended, or it was stopped ([`Alive::stop`]).
    pub(crate) fn refuses(&self) -> bool {
        self.has_ended() || self.was_stopped()
    }

    /// Returns why calls are refused: `Closed`, unless the dispatcher has stopped by itself.
    pub(crate) fn why_ended(&self) -> StoreError {
        self.stopped.get().cloned().unwrap_or(StoreError::Closed)
    }

    pub(crate) fn was_stopped(&self) -> bool {
        self.stopped.get().is_some()
    }

    /// Makes calls refused from now on: the dispatcher is about to end by itself, or a shutdown waits for it no longer.
    /// The first reason stays.
    pub(crate) fn stop(&self, why: StoreError) {
        let _ = self.stopped.set(why);
    }

    /// Notes that the dispatcher has ended, after every answer.
    pub(crate) fn end(&self) {
        self.has_ended.store(true, Ordering::Release);
    }
}

#[expect(clippy::disallowed_methods, reason = "a caller's own wait, whatever clock the jobs go by")]
pub(crate) fn real_time() -> Instant {
    Instant::now()
}

/// A value that one thread at a time has.
pub(crate) struct TimedLock<T> {
    is_taken: Mutex<bool>,
    freed: Condvar,
    value: Mutex<T>,
}

/// Access to the value. It gives the value back first, then the `LineTurn`.
pub(crate) struct Guard<'a, T> {
    value: MutexGuard<'a, T>,
    _turn: LineTurn<'a>,
}

struct LineTurn<'a> {
    is_taken: &'a Mutex<bool>,
    freed: &'a Condvar,
}

impl<T> TimedLock<T> {
    pub(crate) fn new(value: T) -> TimedLock<T> {
        TimedLock { is_taken: Mutex::new(false), freed: Condvar::new(), value: Mutex::new(value) }
    }

    /// Waits for the value, until `until` if there is one. Returns `None` once that has passed.
    pub(crate) fn lock_until(&self, until: Option<Instant>) -> Option<Guard<'_, T>> {
        let mut is_taken = locked(&self.is_taken);
        while *is_taken {
            is_taken = match until {
                None => unpoisoned(self.freed.wait(is_taken)),
                Some(until) => {
                    let left = until.saturating_duration_since(real_time());
                    if left.is_zero() {
                        return None;
                    }
                    unpoisoned(self.freed.wait_timeout(is_taken, left)).0
                }
            };
        }
        *is_taken = true;
        drop(is_taken);
        Some(self.guard())
    }

    /// Takes the value if no other thread has it.
    pub(crate) fn try_lock(&self) -> Option<Guard<'_, T>> {
        let was_taken = core::mem::replace(&mut *locked(&self.is_taken), true);
        (!was_taken).then(|| self.guard())
    }

    fn guard(&self) -> Guard<'_, T> {
        let turn = LineTurn { is_taken: &self.is_taken, freed: &self.freed };
        Guard { value: locked(&self.value), _turn: turn }
    }
}

/// Ignores a panic under the lock: the value stays as it is.
fn unpoisoned<T>(locked: Result<T, PoisonError<T>>) -> T {
    locked.unwrap_or_else(PoisonError::into_inner)
}

impl<T> Deref for Guard<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.value
    }
}

impl<T> DerefMut for Guard<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        &mut self.value
    }
}

impl Drop for LineTurn<'_> {
    fn drop(&mut self) {
        *locked(self.is_taken) = false;
        self.freed.notify_one();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn is_pending(end: &Poll<CallEnd<()>>) -> bool {
        matches!(end, Poll::Pending)
    }

    /// A call that was taken is awaited for the grace beyond its limit, or as long as it takes.
    #[test]
    fn taken_call_is_awaited_beyond_its_limit() {
        let alive = Alive::default();
        let (reply, awaited) = call(Some(real_time()));
        assert!(reply.take());
        let answerer = std::thread::spawn(move || {
            std::thread::park_timeout(2 * GRACE);
            reply.answer(());
        });
        let end = awaited.wait(Some(real_time()), TakenCall::IsAwaited, &alive);
        assert_eq!(end, CallEnd::Answered(()));
        answerer.join().unwrap();
        let begun = real_time();
        let (reply, awaited) = call::<()>(Some(begun));
        assert!(reply.take());
        assert_eq!(awaited.wait(Some(begun), TakenCall::IsUnknown, &alive), CallEnd::Unknown);
        assert!(real_time() >= begun + GRACE);
    }

    /// The same for the call of a future.
    #[test]
    fn taken_call_of_a_future_is_awaited_beyond_its_limit() {
        let alive = Alive::default();
        let (reply, awaited) = call::<()>(None);
        assert!(reply.take());
        let poll = |until, taken| awaited.poll(Waker::noop(), Some(until), taken, &alive);
        let soon = real_time() + GRACE / 2;
        assert!(is_pending(&poll(soon, TakenCall::IsUnknown)) || real_time() >= soon + GRACE);
        let long_ago = real_time() - 2 * GRACE;
        assert!(is_pending(&poll(long_ago, TakenCall::IsAwaited)));
        assert_eq!(poll(long_ago, TakenCall::IsUnknown), Poll::Ready(CallEnd::Unknown));
    }

    /// A call is taken or given up, not both, until it is put back.
    #[test]
    fn call_that_is_put_back_may_be_given_up() {
        let (reply, made) = call::<()>(None);
        assert!(reply.take() && !reply.stage().is_over());
        made.abandon();
        assert!(!reply.is_given_up());
        reply.put_back();
        made.abandon();
        assert!(reply.is_given_up() && reply.stage().is_over());
        assert!(!reply.take());
    }

    /// Once the dispatcher has stopped by itself calls are refused, with its reason, also before it has ended.
    #[test]
    fn calls_are_refused_once_the_dispatcher_has_stopped() {
        let alive = Alive::default();
        assert!(!alive.refuses());
        assert_eq!(alive.why_ended(), StoreError::Closed);
        alive.stop(StoreError::Overtaken);
        assert!(alive.refuses() && !alive.has_ended());
        assert_eq!(alive.why_ended(), StoreError::Overtaken);
    }
}
