//! Pairs: a timeout is set and cancelled, as nearly all are.
//!
//! - `pairs_at_once`: each producer sets a timeout of 30 s and cancels it at once.
//! - `pairs_outstanding`: each producer has 100,000 pending, cancels a random one and sets a new
//!   one.
//! - `pairs_handed_over`: each producer passes its timeouts to a thread of its own that cancels
//!   them.
//!
//! The size is the number of producers. The figure is `pairs`: million pairs a second, all
//! producers together. The time ends when the peer has worked off the timeouts of the last
//! producer, with all messages that it had not received. No clock is read in between.
//!
//! At first nothing is counted, because two threads that begin together may share a core until the
//! system moves one. Only `pairs_handed_over` is counted from the start, because the two threads of
//! a pair have no common moment at which counting could begin.

use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use crossbeam_channel::bounded;

use fastrand::Rng;
use harness::Fallible;
use harness::case::{Figures, figure};

use super::runs::{Lap, rate};
use super::timer::Timer;

/// None of the timeouts comes due.
const DELAY: Duration = Duration::from_secs(30);

/// The number of pairs between two checks whether to stop, and of timeouts that are handed over together.
const BATCH: usize = 64;

/// The number of batches that may wait for a canceller; then its producer waits.
const QUEUE: usize = 16;

pub(super) fn at_once<T: Timer>(producers: usize, short: bool) -> Fallible<Figures> {
    race(producers, short, |timer: &mut T, _, race| {
        race.lap(timer, |timer| {
            for number in 0..BATCH as u64 {
                assert!(timer.pair(DELAY, number), "a timeout was gone");
            }
        })
    })
}

pub(super) fn outstanding<T: Timer>(producers: usize, short: bool) -> Fallible<Figures> {
    let pending = if short { 1_000 } else { 100_000 };
    race(producers, short, |timer: &mut T, producer, race| {
        let mut random = Rng::with_seed(producer as u64);
        let mut set = |timer: &mut T| {
            let number = random.u64(..30_000);
            timer.timeout(DELAY + Duration::from_millis(number), number)
        };
        let mut timeouts: Vec<T::Timeout> = (0..pending).map(|_| set(timer)).collect();
        timer.settle();
        let mut random = Rng::with_seed((producer + producers) as u64);
        race.lap(timer, |timer| {
            for _ in 0..BATCH {
                let old = timeouts.swap_remove(random.usize(..pending));
                assert!(timer.cancel(old), "a timeout was gone");
                timeouts.push(set(timer));
            }
        })
    })
}

pub(super) fn handed_over<T: Timer>(producers: usize, short: bool) -> Fallible<Figures> {
    race(producers, short, |timer: &mut T, _, race| {
        let mut canceller = timer.clone();
        thread::scope(|scope| {
            let (sender, receiver) = bounded::<Vec<T::Timeout>>(QUEUE);
            let cancelled = scope.spawn(move || {
                receiver.iter().flatten().fold(0, |count, timeout| {
                    assert!(canceller.cancel(timeout), "a timeout was gone");
                    count + 1
                })
            });
            let (began, mut lap) = race.lap_and_start(timer, |timer| {
                let batch = (0..BATCH as u64).map(|number| timer.timeout(DELAY, number)).collect();
                sender.send(batch).expect("the canceller receives until the sender is dropped");
            });
            drop(sender);
            lap.start = began;
            lap.operations = cancelled.join().expect("no timeout was gone");
            timer.settle();
            lap.end = Instant::now();
            lap
        })
    })
}

/// The signals to all producers: to start together, to begin to count, and to stop.
struct Race {
    start: Barrier,
    count: AtomicBool,
    stop: AtomicBool,
}

impl Race {
    /// Repeats `batch` from the common start until the stop. Batches before the signal to count are in no lap.
    fn lap<T: Timer>(&self, timer: &mut T, batch: impl FnMut(&mut T)) -> Lap {
        self.lap_and_start(timer, batch).1
    }

    /// The same. Returns the time of the common start too.
    fn lap_and_start<T: Timer>(
        &self,
        timer: &mut T,
        mut batch: impl FnMut(&mut T),
    ) -> (Instant, Lap) {
        self.start.wait();
        let began = Instant::now();
        while !self.count.load(Ordering::Relaxed) {
            batch(timer);
        }
        let (start, mut operations) = (Instant::now(), 0);
        while !self.stop.load(Ordering::Relaxed) {
            batch(timer);
            operations += BATCH;
        }
        timer.settle();
        (began, Lap { operations, start, end: Instant::now() })
    }
}

/// Runs `work` in this number of producers, each on a thread of its own.
fn race<T: Timer>(
    producers: usize,
    short: bool,
    work: impl Fn(&mut T, usize, &Race) -> Lap + Sync,
) -> Fallible<Figures> {
    let [first, then] = if short { [1, 20] } else { [300, 500] }.map(Duration::from_millis);
    let (start, [count, stop]) = (Barrier::new(producers + 1), [false; 2].map(AtomicBool::new));
    let race = Race { start, count, stop };
    let mut timer = T::start();
    // The work that a peer does at its first timeout is not counted.
    let found = timer.within(|| timer.clone().pair(DELAY, 0));
    timer.settle();
    assert!(found, "the first timeout was gone");

    let laps: Result<Vec<Lap>, String> = thread::scope(|scope| {
        let producer = |number: usize| {
            let (timer, race, work) = (timer.clone(), &race, &work);
            scope.spawn(move || timer.within(|| work(&mut timer.clone(), number, race)))
        };
        let threads: Vec<_> = (0..producers).map(producer).collect();
        race.start.wait();
        thread::sleep(first);
        race.count.store(true, Ordering::Relaxed);
        thread::sleep(then);
        race.stop.store(true, Ordering::Relaxed);
        let panicked = |_| "a producer panicked".to_owned();
        threads.into_iter().map(|thread| thread.join().map_err(panicked)).collect()
    });
    Ok(vec![figure("pairs", rate(&laps?))])
}
