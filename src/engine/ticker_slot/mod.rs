//! The slot of a wheel's ticker: the ticker's thread takes the ticker from it, or a future on a
//! runtime of the user's does (`futures.rs`), and puts it back.
//!
//! Ground rules:
//!
//! - The thread runs the ticker unless a future wants to. The futures stand in a queue, and the
//!   first of them runs it.
//! - A future runs the ticker during its polls. Between two polls the ticker lies in the slot. So a
//!   shutdown needs no poll to drop it, and with it the ticker's hold on the pool.
//! - A future waits for no other party: if the ticker is not in the slot, the poll is pending, and
//!   the party that puts it back calls the waker. The thread looks after each tick whether a future
//!   wants the ticker.
//! - A future that leaves the queue wakes the next one, and the last one wakes the thread. So the
//!   wheel never stands still, unless the runtime of the first future does.
//! - The ticker is on time only while the thread has it: then no loop of the user's stands in for the
//!   thread ([`Parker::is_turned`](crate::host::sync::Parker::is_turned)). A future that joins the
//!   queue, or leaves it, does not change that.
//! - A party that takes the ticker looks at every shard before it sleeps. So an insert that wakes
//!   nobody, because nobody has the ticker just then, is not lost.
//! - No user code runs under the lock: wakers are compared there, and are cloned, called and dropped
//!   outside.
//! - Once closed, the slot is empty. The party that has the ticker then drops it.

#[cfg(feature = "async")]
mod futures;

use std::collections::VecDeque;
use std::sync::Arc;
use std::task::Waker;
use std::thread::{self, ThreadId};

#[cfg(feature = "async")]
pub(crate) use futures::NextPoll;

use crate::engine::activity::Activity;
use crate::engine::dispatch::Outlet;
use crate::engine::loop_waker::LoopWaker;
use crate::engine::ticker::Ticker;
use crate::engine::verbs::Engine;
use crate::host::clock::Limit;
use crate::host::sync::{AtomicBool, Condvar, Mutex, Ordering, lock, wait};

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
    #[cfg_attr(
        not(feature = "async"),
        expect(dead_code, reason = "without futures none has a number")
    )]
    next_number: u64,
    is_closed: bool,
}

/// The place of a future in the queue.
struct Place {
    #[cfg_attr(
        not(feature = "async"),
        expect(dead_code, reason = "without futures none has a number")
    )]
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

    /// Returns whether this thread runs the ticker.
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
        match state.is_closed {
            true => drop_outside(state, ticker),
            false => state.ticker = Some(ticker),
        }
    }

    /// Wakes the first future of the queue.
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

/// Drops a value after the lock is released.
fn drop_outside<G, T>(guard: G, value: T) {
    drop(guard);
    drop(value);
}
