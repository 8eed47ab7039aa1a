//! Models of a ticker that a thread and futures take turns to run.

use core::cell::Cell;
use std::task::Waker;
use std::time::Instant;

use super::wakers::waits;
use super::*;
use crate::engine::ticker_slot::{NextPoll, TickerSlot};
use crate::host::sync::thread_local;

thread_local! {
    /// Whether this is the ticker's thread.
    static IS_TICKERS: Cell<bool> = Cell::new(false);
}

/// Tells the model when the first job has come due, and stops the engine.
struct Tells {
    engine: Arc<Engine>,
    due: Arc<Parker>,
}

impl Outlet for Tells {
    fn room(&self) -> usize {
        usize::MAX
    }

    fn hand_over(&self, jobs: &mut Vec<DueJob>) {
        assert_eq!(jobs.drain(..).count(), 1);
        let is_turned = self.engine.alarm().is_turned();
        assert_ne!(is_turned, IS_TICKERS.with(Cell::get), "a future ran it, or the thread did");
        self.engine.stop();
        self.due.wake();
    }
}

type Slot = Arc<TickerSlot<Tells>>;

/// Returns a slot with its ticker, and what it tells.
fn slot() -> (Arc<Engine>, Slot, Arc<Parker>) {
    let (engine, due) = (engine(), Arc::new(Parker::new()));
    let outlet = Tells { engine: Arc::clone(&engine), due: Arc::clone(&due) };
    let ticker = Ticker::new(Arc::clone(&engine), outlet);
    (Arc::clone(&engine), Arc::new(TickerSlot::new(engine, ticker)), due)
}

fn run_on_thread(slot: &Slot) -> thread::JoinHandle<()> {
    let slot = Arc::clone(slot);
    thread::spawn(move || {
        IS_TICKERS.with(|is_tickers| is_tickers.set(true));
        slot.run_on_thread();
    })
}

/// Polls as a runtime does, until the wheel has ended.
fn drive(engine: &Engine, slot: &Slot) {
    let (waits, waker) = waits();
    let number = slot.join(&waker);
    loop {
        match slot.poll(number, &waker) {
            NextPoll::Never => break slot.leave(number),
            NextPoll::At(until) if until <= now(engine) => {}
            NextPoll::At(_) | NextPoll::WhenWoken => waits.0.park(None),
        }
    }
}

fn now(engine: &Engine) -> Instant {
    engine.timebase().now()
}

#[test]
fn an_insert_is_found_while_a_future_takes_the_ticker() {
    explore(|| {
        let (engine, slot, due) = slot();
        let thread = run_on_thread(&slot);
        let (drives, drives_with) = (Arc::clone(&engine), Arc::clone(&slot));
        let future = thread::spawn(move || drive(&drives, &drives_with));
        insert(&engine, 6);
        due.park(None);
        slot.close();
        thread.join().unwrap();
        future.join().unwrap();
    });
}

#[test]
fn an_insert_is_found_while_the_thread_takes_the_ticker_back() {
    explore(|| {
        let (engine, slot, due) = slot();
        let thread = run_on_thread(&slot);
        let other = Arc::clone(&engine);
        let insert = thread::spawn(move || {
            insert(&other, 6);
        });
        let waker = Waker::noop();
        let number = slot.join(waker);
        slot.poll(number, waker);
        slot.leave(number);
        due.park(None);
        insert.join().unwrap();
        slot.close();
        thread.join().unwrap();
    });
}

#[test]
fn an_insert_is_found_while_the_next_future_takes_the_ticker() {
    explore(|| {
        let (engine, slot, due) = slot();
        let waker = Waker::noop();
        let number = slot.join(waker);
        assert_eq!(slot.poll(number, waker), NextPoll::WhenWoken);
        let (drives, drives_with) = (Arc::clone(&engine), Arc::clone(&slot));
        let future = thread::spawn(move || drive(&drives, &drives_with));
        insert(&engine, 6);
        slot.leave(number);
        due.park(None);
        future.join().unwrap();
    });
}

#[test]
fn an_end_finds_the_ticker_wherever_it_is() {
    explore(|| {
        let (engine, slot, _) = slot();
        let thread = run_on_thread(&slot);
        let (drives, drives_with) = (Arc::clone(&engine), Arc::clone(&slot));
        let future = thread::spawn(move || drive(&drives, &drives_with));
        engine.stop();
        slot.close();
        assert!(slot.wait(&Limit::new(Duration::MAX)));
        thread.join().unwrap();
        future.join().unwrap();
    });
}
