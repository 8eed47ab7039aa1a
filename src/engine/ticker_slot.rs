//! Who runs the ticker when: its thread takes it from the [`TickerSlot`], or a future on a runtime of the user's does,
//! and puts it back; and the [`LoopWaker`] of a loop or a future that advances a wheel on a thread of the user's.
//!
//! Ground rules:
//!
//! - The thread runs the ticker unless a future wants to. The futures stand in a queue, and the first of them runs it.
//! - A future runs the ticker during its polls. Between two polls the ticker lies in the slot. So a shutdown needs no
//!   poll to drop it, and with it the ticker's hold on the pool.
//! - A future waits for no other party: if the ticker is not in the slot, the poll is pending, and the party that puts
//!   it back calls the waker. The thread looks after each tick whether a future wants the ticker.
//! - A future that leaves the queue wakes the next one, and the last one wakes the thread. So the wheel never stands
//!   still, unless the runtime of the first future does.
//! - The ticker is on time only while the thread has it: then no loop of the user's stands in for the thread
//!   ([`Parker::is_turned`](crate::host::sync::Parker::is_turned)). A future that joins the queue, or leaves it, does
//!   not change that.
//! - A party that takes the ticker looks at every shard before it sleeps. So an insert that wakes nobody, because
//!   nobody has the ticker just then, is not lost.
//! - Once closed, the slot is empty. The party that has the ticker then drops it.
//! - Every wake of the wheel's parker calls the waker of the loop, if there is one, on the thread that inserts.
//! - Wakers are user code: they are compared under the lock, and are cloned, called and dropped outside of every lock,
//!   behind the unwind boundary.
//! - The parker's hook, which lives as long as the engine, holds the waker's place and not the engine.

use std::collections::VecDeque;
use std::sync::Arc;
use std::task::Waker;
use std::thread::{self, ThreadId};
#[cfg(feature = "async")]
use std::time::Instant;

use crate::engine::dispatch::{JobRunner, Outlet};
use crate::engine::ticker::{Activity, Ticker};
use crate::engine::verbs::Engine;
use crate::host::clock::Limit;
use crate::host::sync::{AtomicBool, Condvar, Mutex, Ordering, lock, wait};
use crate::host::user_panics::call_hook;

pub(crate) struct TickerSlot<O> {
    engine: Arc<Engine>,
    activity: Arc<Activity>,
    /// Of the thread, which also calls wakers while another party has the ticker.
    thread_activity: Activity,
    state: Mutex<State<O>>,
    /// The thread waits here while futures run the ticker.
    resumed: Condvar,
    /// Whether a future is in the queue. The thread reads it at each turn of its loop.
    is_wanted: AtomicBool,
    /// Has the waker of the first future.
    waker: Arc<LoopWaker>,
}

struct State<O> {
    /// `None` while a party runs it, and once the slot is closed.
    ticker: Option<Ticker<O>>,
    /// The thread that runs it.
    runs_on: Option<ThreadId>,
    /// The futures that want to run it.
    queue: VecDeque<Place>,
    #[cfg(feature = "async")]
    next_number: u64,
    is_closed: bool,
}

/// The place of a future in the queue.
struct Place {
    #[cfg(feature = "async")]
    number: u64,
    waker: Arc<Waker>,
}

impl<O: Outlet> TickerSlot<O> {
    pub(crate) fn new(engine: Arc<Engine>, ticker: Ticker<O>) -> TickerSlot<O> {
        let activity = Arc::clone(ticker.activity());
        let waker = LoopWaker::new(&engine);
        engine.alarm().parker().set_turned(true);
        let state = State {
            ticker: Some(ticker),
            runs_on: None,
            queue: VecDeque::new(),
            #[cfg(feature = "async")]
            next_number: 0,
            is_closed: false,
        };
        TickerSlot {
            engine,
            activity,
            thread_activity: Activity::new(),
            state: Mutex::new(state),
            resumed: Condvar::new(),
            is_wanted: AtomicBool::new(false),
            waker,
        }
    }

    /// Waits, once the slot is closed, until its ticker is gone and the thread's loop has ended; but
    /// for user code no longer than the limit. Returns whether they have.
    pub(crate) fn wait(&self, limit: &Limit) -> bool {
        self.activity.wait(limit) && self.thread_activity.wait(limit)
    }

    pub(crate) fn runs_here(&self) -> bool {
        lock(&self.state).runs_on == Some(thread::current().id())
    }

    /// Runs the ticker on this thread, but for the times in which futures run it. Returns once the
    /// engine is stopped and the slot is closed.
    pub(crate) fn run_on_thread(&self) {
        while let Some(mut ticker) = self.take_for_thread() {
            ticker.run(|| self.is_wanted.load(Ordering::SeqCst));
            // A future may take it now, at any time.
            self.engine.alarm().parker().set_turned(true);
            self.put_back(ticker);
            self.thread_activity.deliver(|| self.wake_first());
        }
        self.thread_activity.end();
    }

    /// Waits until no future wants the ticker, and takes it. Returns `None` if the slot is closed.
    /// Once the engine is stopped, it waits for that.
    fn take_for_thread(&self) -> Option<Ticker<O>> {
        let mut state = lock(&self.state);
        while !state.is_closed {
            let is_free = state.queue.is_empty() && !self.engine.is_stopped();
            if let Some(ticker) = state.ticker.take_if(|_| is_free) {
                ticker.awake();
                self.engine.alarm().parker().set_turned(false);
                state.runs_on = Some(thread::current().id());
                return Some(ticker);
            }
            state = wait(&self.resumed, state);
        }
        None
    }

    /// Puts the ticker back, or drops it if the slot is closed.
    fn put_back(&self, ticker: Ticker<O>) {
        let mut state = lock(&self.state);
        state.runs_on = None;
        // Otherwise the ticker is dropped after the lock, because it is declared before.
        if !state.is_closed {
            state.ticker = Some(ticker);
        }
    }

    fn wake_first(&self) {
        let first = lock(&self.state).queue.front().map(|place| Arc::clone(&place.waker));
        if let Some(waker) = first {
            self.waker.call(waker);
        }
    }

    /// Ends the thread's loop, and every future, once the engine is stopped. The ticker is dropped:
    /// here, or by the party that runs it.
    pub(crate) fn close(&self) {
        let (ticker, queue) = {
            let mut state = lock(&self.state);
            state.is_closed = true;
            (state.ticker.take(), core::mem::take(&mut state.queue))
        };
        drop(ticker);
        self.waker.set(None);
        self.resumed.notify_all();
        queue.into_iter().for_each(|place| self.waker.call(place.waker));
    }
}

#[cfg(feature = "async")]
/// When a future is to be polled next.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum NextPoll {
    /// At this time, or when it is woken.
    At(Instant),
    /// When it is woken: nothing is pending, or another party runs the ticker.
    WhenWoken,
    /// Never: the wheel has ended.
    Never,
}

#[cfg(feature = "async")]
impl<O: Outlet> TickerSlot<O> {
    /// Adds a future at the end of the queue. Returns its number there. It polls soon.
    pub(crate) fn join(&self, waker: &Waker) -> u64 {
        // The second future finds the hook there.
        self.waker.hook_into(&self.engine);
        let waker = Arc::new(waker.clone());
        let mut state = lock(&self.state);
        let number = state.next_number;
        state.next_number += 1;
        state.queue.push_back(Place { number, waker: Arc::clone(&waker) });
        if state.queue.len() > 1 {
            return number;
        }
        self.is_wanted.store(true, Ordering::SeqCst);
        let old = self.waker.replace(Some(waker));
        drop(state);
        self.waker.discard(old);
        self.engine.alarm().parker().wake();
        number
    }

    /// Delivers everything that is due, if it is the turn of the future with this number. Returns
    /// when to poll next, with `waker`.
    pub(crate) fn poll(&self, number: u64, waker: &Waker) -> NextPoll {
        self.register(number, waker);
        let mut ticker = match self.take(number) {
            Ok(ticker) => ticker,
            Err(next) => return next,
        };
        ticker.run_due();
        let next = ticker.next_wake();
        self.put_back(ticker);
        match next {
            _ if self.engine.is_stopped() => NextPoll::Never,
            Some(wake) => NextPoll::At(self.engine.timebase().clock().instant(wake)),
            None => NextPoll::WhenWoken,
        }
    }

    /// Takes the future out of the queue. The next party in turn is woken.
    pub(crate) fn leave(&self, number: u64) {
        let mut state = lock(&self.state);
        let Some(at) = state.queue.iter().position(|place| place.number == number) else {
            return;
        };
        let place = state.queue.remove(at);
        if at > 0 {
            drop(state);
            return self.waker.discard(place);
        }
        let next = state.queue.front().map(|place| Arc::clone(&place.waker));
        let old = self.waker.replace(next.clone());
        self.is_wanted.store(next.is_some(), Ordering::SeqCst);
        drop(state);
        self.waker.discard((place, old));
        match next {
            Some(next) => self.waker.call(next),
            None => self.resumed.notify_one(),
        }
    }

    /// Notes the waker of a future, if it is another than before.
    fn register(&self, number: u64, waker: &Waker) {
        let is_known = |place: &Place| place.number != number || place.waker.will_wake(waker);
        if lock(&self.state).queue.iter().all(is_known) {
            return;
        }
        let mut new = Arc::new(waker.clone());
        let mut old = None;
        {
            let mut state = lock(&self.state);
            let is_first = state.queue.front().is_some_and(|place| place.number == number);
            if is_first {
                old = self.waker.replace(Some(Arc::clone(&new)));
            }
            let place = state.queue.iter_mut().find(|place| place.number == number);
            if let Some(place) = place {
                core::mem::swap(&mut place.waker, &mut new);
            }
        }
        self.waker.discard((old, new));
    }

    /// Takes the ticker for the first future of the queue.
    fn take(&self, number: u64) -> Result<Ticker<O>, NextPoll> {
        let mut state = lock(&self.state);
        if state.is_closed || self.engine.is_stopped() {
            return Err(NextPoll::Never);
        }
        let is_first = state.queue.front().is_some_and(|place| place.number == number);
        let ticker = state.ticker.take_if(|_| is_first).ok_or(NextPoll::WhenWoken)?;
        state.runs_on = Some(thread::current().id());
        Ok(ticker)
    }
}

pub(crate) struct LoopWaker {
    waker: Mutex<Option<Arc<Waker>>>,
    runner: Arc<JobRunner>,
}

impl LoopWaker {
    /// Returns the place for a waker of the engine's loop.
    pub(crate) fn new(engine: &Engine) -> Arc<LoopWaker> {
        let runner = Arc::clone(engine.runner());
        Arc::new(LoopWaker { waker: Mutex::new(None), runner })
    }

    /// Makes every wake of the engine's parker call the waker.
    pub(crate) fn hook_into(self: &Arc<LoopWaker>, engine: &Engine) {
        let wakes = Arc::clone(self);
        engine.alarm().parker().set_hook(move || wakes.wake());
    }

    /// Sets the waker. Drops the one before.
    pub(crate) fn set(&self, waker: Option<Arc<Waker>>) {
        let old = self.replace(waker);
        self.discard(old);
    }

    /// Sets the waker, and returns the one before, for a caller that holds a lock. It must be
    /// passed to [`LoopWaker::discard`].
    pub(crate) fn replace(&self, waker: Option<Arc<Waker>>) -> Option<Arc<Waker>> {
        core::mem::replace(&mut *lock(&self.waker), waker)
    }

    pub(crate) fn discard<T>(&self, waker: T) {
        self.runner.boundary().discard(waker);
    }

    fn wake(&self) {
        let waker = lock(&self.waker).clone();
        if let Some(waker) = waker {
            self.call(waker);
        }
    }

    /// Calls a waker, and drops it.
    pub(crate) fn call(&self, waker: Arc<Waker>) {
        let boundary = self.runner.boundary();
        call_hook(|| {
            boundary.call_without_handle(|| waker.wake_by_ref());
            boundary.discard(waker);
        });
    }
}
