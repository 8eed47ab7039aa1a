//! Futures that run the ticker.

use std::sync::Arc;
use std::task::Waker;
use std::thread;
use std::time::Instant;

use super::{Place, TickerSlot};
use crate::engine::dispatch::Outlet;
use crate::engine::ticker::Ticker;
use crate::host::sync::{Ordering, lock};

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
