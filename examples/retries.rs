//! A queue of deliveries that are tried until they succeed: with waits that grow, in spite of
//! panics, and over a restart of the program.
//!
//! ```sh
//! cargo run --release --example retries             # Ctrl-C stops it; run it again
//! cargo run --release --example retries -- --short  # two rounds, the first cut off
//! ```
//!
//! A run takes twenty seconds, or until Ctrl-C or SIGTERM, and says where its file is. Without a
//! file, or with an empty one, it begins with five deliveries.
//!
//! A delivery is data: the `Attempt` in the wheel is a `Task` of its own type, which a shutdown
//! gives back. An attempt that fails inserts the next one, after a wait that doubles with every
//! failure, and a jitter as long as the wait. (`Wheel::repeat` is for retries that are not saved: a
//! repeating job is a closure, and `Job::downcast` does not give it back.)
//!
//! Before you copy this:
//!
//! - **An attempt that panics** would be gone with all that it owns. This one catches the panic,
//!   inserts the next attempt, and lets the panic go on, so that the wheel counts it.
//! - **An attempt that runs while the wheel ends** is not among the jobs that come back, and the
//!   insert of the next attempt is refused then. So it is not enough to save the jobs that come
//!   back. The queue keeps a copy of each delivery from the start of an attempt until it has
//!   succeeded, or until the next attempt is in the wheel; the end saves these copies too.
//! - **Every delivery is made at least once**, and may be made twice: an attempt that outlasts the
//!   limit of the end may still succeed, although it has been saved. The receiver tells deliveries
//!   apart by their number.
//! - An attempt occupies its thread of the pool until it has an answer. `Builder::threads` sets how
//!   many can wait at a time.
//! - The file is written in one go. `examples/save_and_reload` replaces it in a way that a crash
//!   cannot harm.

#![forbid(unsafe_code)]

use std::collections::BTreeMap;
use std::error::Error;
use std::panic::{self, AssertUnwindSafe};
use std::path::Path;
use std::process::ExitCode;
use std::sync::{Arc, Mutex, mpsc};
use std::time::{Duration, SystemTime};
use std::{env, fs, io, process};

use serde::{Deserialize, Serialize};
use tickwheel::{InsertErrorKind, Scheduler, Task, Wheel, When};

/// How long a run takes without Ctrl-C.
const RUN: Duration = Duration::from_secs(20);

/// How long the end waits for running attempts. A service manager kills a program that takes longer.
const LIMIT: Duration = Duration::from_secs(5);

const LONGEST_WAIT: Duration = Duration::from_secs(3600);

fn main() -> ExitCode {
    let result = match env::args().nth(1).as_deref() {
        Some("--short") => two_rounds(),
        Some(_) => Err("usage: retries [-- --short]".into()),
        None => one_run(&env::temp_dir().join("tickwheel-retries.json")),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("retries: {error}");
            ExitCode::FAILURE
        }
    }
}

fn one_run(file: &Path) -> Result<(), Box<dyn Error>> {
    let (stop, stopped) = mpsc::channel();
    ctrlc::set_handler(move || {
        // An error means that the program is at its end already.
        let _ = stop.send(());
    })?;
    let wheel = Wheel::new();
    // The address of delivery 1 answers at once, that of delivery 5 to the fifth attempt.
    let queue = Queue::new(&wheel, Duration::from_secs(1), |delivery| {
        println!("{delivery:?}");
        u64::from(delivery.failures) + 1 >= delivery.number
    });
    let saved = load(file)?;
    println!("{} deliveries from {}", saved.len(), file.display());
    if saved.is_empty() {
        (1..=5).try_for_each(|number| queue.push(Delivery::new(number)))?;
    }
    queue.reload(saved)?;
    // An error is the usual case: `RUN` has passed without Ctrl-C.
    let _ = stopped.recv_timeout(RUN);
    let saved = queue.end(&wheel, LIMIT);
    save(file, &saved)?;
    println!("{} deliveries saved", saved.len());
    Ok(())
}

/// The first round ends while attempts are pending and one runs. The second delivers the rest.
fn two_rounds() -> Result<(), Box<dyn Error>> {
    const DELIVERIES: u64 = 200;
    let file = env::temp_dir().join(format!("tickwheel-retries-{}.json", process::id()));
    let wait = Duration::from_millis(20);
    let (delivered, deliveries) = mpsc::channel();

    // No attempt succeeds, and one lasts until the wheel has been closed.
    let wheel = Wheel::builder().threads(2).build()?;
    let (release, released) = mpsc::channel();
    let (begin, begun) = mpsc::channel();
    let held = Mutex::new((begin, released));
    let queue = Queue::new(&wheel, wait, move |delivery| {
        if delivery.number == 0 && delivery.failures == 0 {
            let held = held.lock().unwrap();
            held.0.send(()).unwrap();
            let _ = held.1.recv();
        }
        false
    });
    (0..DELIVERIES).try_for_each(|number| queue.push(Delivery::new(number)))?;
    begun.recv()?;
    let saved = queue.end(&wheel, Duration::ZERO);
    release.send(())?;
    save(&file, &saved)?;

    let wheel = Wheel::new();
    let queue = Queue::new(&wheel, wait, move |delivery| {
        delivery.failures >= 3 && delivered.send(delivery.number).is_ok()
    });
    let saved = load(&file);
    fs::remove_file(&file)?;
    queue.reload(saved?)?;
    wheel.wait_idle();
    assert!(queue.end(&wheel, LIMIT).is_empty(), "nothing is left");
    let mut numbers: Vec<u64> = deliveries.try_iter().collect();
    numbers.sort_unstable();
    assert!(numbers.into_iter().eq(0..DELIVERIES), "every delivery was made, and none twice");
    println!("{DELIVERIES} deliveries made, each once");
    Ok(())
}

/// A delivery, as it is saved.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
struct Delivery {
    number: u64,
    failures: u32,
}

impl Delivery {
    fn new(number: u64) -> Delivery {
        Delivery { number, failures: 0 }
    }
}

#[derive(PartialEq, Debug, Serialize, Deserialize)]
struct Saved {
    /// When the next attempt is due.
    at: SystemTime,
    delivery: Delivery,
}

struct Queue {
    timers: Scheduler,
    first_wait: Duration,
    /// Returns whether the delivery was made.
    deliver: Box<dyn Fn(&Delivery) -> bool + Send + Sync>,
    /// By number, the deliveries that are in an attempt, or whose next attempt was refused.
    underway: Mutex<BTreeMap<u64, Delivery>>,
}

impl Queue {
    fn new(
        wheel: &Wheel,
        first_wait: Duration,
        deliver: impl Fn(&Delivery) -> bool + Send + Sync + 'static,
    ) -> Arc<Queue> {
        Arc::new(Queue {
            timers: wheel.scheduler(),
            first_wait,
            deliver: Box::new(deliver),
            underway: Mutex::default(),
        })
    }

    fn push(self: &Arc<Queue>, delivery: Delivery) -> Result<(), InsertErrorKind> {
        self.insert(Duration::ZERO, delivery)
    }

    /// Inserts the saved deliveries. Those that are overdue are tried at the next tick.
    fn reload(self: &Arc<Queue>, saved: Vec<Saved>) -> Result<(), InsertErrorKind> {
        let attempts = saved.into_iter().map(|Saved { at, delivery }| (at, self.attempt(delivery)));
        self.timers.insert_batch(attempts)?;
        Ok(())
    }

    fn insert(
        self: &Arc<Queue>,
        when: impl Into<When>,
        delivery: Delivery,
    ) -> Result<(), InsertErrorKind> {
        self.timers.insert(when, self.attempt(delivery))?;
        Ok(())
    }

    fn attempt(self: &Arc<Queue>, delivery: Delivery) -> Attempt {
        Attempt { delivery, queue: Arc::clone(self) }
    }

    /// Ends the wheel, waits for running attempts for `limit` at most, and returns the deliveries
    /// that were not made.
    fn end(&self, wheel: &Wheel, limit: Duration) -> Vec<Saved> {
        let mut saved = Vec::new();
        for unfired in wheel.shutdown_timeout(limit) {
            if let (Some(at), Ok(attempt)) = (unfired.wall, unfired.job.downcast::<Attempt>()) {
                saved.push(Saved { at, delivery: attempt.delivery });
            }
        }
        // After the shutdown: from here on, no attempt begins, and none can be inserted.
        let now = wheel.wall_now();
        let underway = self.underway.lock().unwrap();
        saved.extend(
            underway.values().map(|delivery| Saved { at: now, delivery: delivery.clone() }),
        );
        saved
    }

    /// Returns the wait after `failures` failures.
    fn wait(&self, failures: u32) -> When {
        let wait = self.first_wait.saturating_mul(1 << (failures - 1).min(31)).min(LONGEST_WAIT);
        When::after(wait).jitter(wait)
    }
}

/// One attempt to deliver: a job.
struct Attempt {
    delivery: Delivery,
    queue: Arc<Queue>,
}

impl Task for Attempt {
    fn run(self) {
        let Attempt { mut delivery, queue } = self;
        let number = delivery.number;
        queue.underway.lock().unwrap().insert(number, delivery.clone());
        let result = panic::catch_unwind(AssertUnwindSafe(|| (queue.deliver)(&delivery)));
        // Locked until the end: the next attempt may be due before this one is off the list.
        let mut underway = queue.underway.lock().unwrap();
        if let Ok(true) = result {
            underway.remove(&number);
            return;
        }
        delivery.failures += 1;
        underway.insert(number, delivery.clone());
        // An error means that the wheel has ended: the delivery stays on the list, and is saved.
        if queue.insert(queue.wait(delivery.failures), delivery).is_ok() {
            underway.remove(&number);
        }
        drop(underway);
        if let Err(panic) = result {
            panic::resume_unwind(panic);
        }
    }
}

fn save(file: &Path, saved: &[Saved]) -> Result<(), Box<dyn Error>> {
    fs::write(file, serde_json::to_vec_pretty(saved)?)?;
    Ok(())
}

/// Returns no deliveries if there is no file.
fn load(file: &Path) -> Result<Vec<Saved>, Box<dyn Error>> {
    match fs::read(file) {
        Ok(text) => Ok(serde_json::from_slice(&text)?),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Vec::new()),
        Err(error) => Err(error.into()),
    }
}

#[cfg(test)]
mod tests {
    use std::thread;

    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn waits_double_and_a_panic_is_a_failure_like_any_other() {
        let (wheel, driver) = Wheel::builder().manual().unwrap();
        let queue = Queue::new(&wheel, SECOND, |delivery| {
            assert!(delivery.failures.is_multiple_of(2), "a planted panic");
            delivery.failures == 6
        });
        queue.push(Delivery::new(1)).unwrap();
        assert_eq!(driver.advance(wheel.tick()), 1);
        for wait in [1, 2, 4, 8, 16, 32] {
            assert_eq!(driver.advance(wait * SECOND - wheel.tick()), 0, "the wait comes first");
            let mut jitter = Duration::ZERO;
            while driver.advance(wheel.tick()) == 0 {
                jitter += wheel.tick();
            }
            assert!(jitter <= wait * SECOND, "a jitter of {jitter:?} after {wait} s");
        }
        assert!(wheel.is_empty());
        assert_eq!((wheel.stats().completed, wheel.stats().panicked), (7, 3));
        assert_eq!(queue.end(&wheel, Duration::ZERO), []);
    }

    #[test]
    fn waits_end_at_the_longest() {
        let (wheel, _driver) = Wheel::builder().manual().unwrap();
        let queue = Queue::new(&wheel, SECOND, |_| true);
        for failures in [20, 100, u32::MAX] {
            assert_eq!(queue.wait(failures), When::after(LONGEST_WAIT).jitter(LONGEST_WAIT));
        }
    }

    #[test]
    fn the_end_hands_back_what_is_pending_and_what_runs() {
        for outcome in [Ok(false), Err("a planted panic")] {
            let wheel = Wheel::new();
            let timers = wheel.scheduler();
            let never = wheel.insert(Duration::MAX, || ());
            let (begin, begun) = mpsc::channel();
            let queue = Queue::new(&wheel, SECOND, move |_| {
                begin.send(()).unwrap();
                while timers.is_pending(never) {
                    thread::yield_now(); // until the wheel ends
                }
                outcome.unwrap()
            });
            let at = wheel.wall_now() + LONGEST_WAIT;
            queue.reload(vec![Saved { at, delivery: Delivery::new(1) }]).unwrap();
            queue.push(Delivery::new(2)).unwrap();
            begun.recv().unwrap();
            let mut saved = queue.end(&wheel, Duration::MAX);
            // The insert of the next attempt may have been the last that the wheel accepted.
            saved.sort_by_key(|saved| saved.delivery.number);
            let [pending, ran] = saved.try_into().unwrap();
            assert_eq!(pending.delivery, Delivery::new(1));
            assert!(pending.at.duration_since(at).is_ok_and(|late| late < SECOND));
            assert_eq!(ran.delivery, Delivery { number: 2, failures: 1 });
        }
    }

    #[test]
    fn an_attempt_that_outlasts_the_limit_is_saved_as_it_was() {
        let wheel = Wheel::new();
        let (begin, begun) = mpsc::channel();
        let (release, released) = mpsc::channel::<()>();
        let released = Mutex::new(released);
        let queue = Queue::new(&wheel, SECOND, move |_| {
            begin.send(()).unwrap();
            released.lock().unwrap().recv().is_ok()
        });
        queue.push(Delivery::new(1)).unwrap();
        begun.recv().unwrap();
        let saved = queue.end(&wheel, Duration::ZERO);
        drop(release);
        assert_eq!(saved.len(), 1);
        assert_eq!(saved[0].delivery, Delivery::new(1));
    }

    #[test]
    fn what_is_reloaded_comes_at_its_time_or_at_once() {
        let (wheel, driver) = Wheel::builder().manual().unwrap();
        let queue = Queue::new(&wheel, SECOND, |_| true);
        let now = wheel.wall_now();
        let saved = |at, number| Saved { at, delivery: Delivery::new(number) };
        queue.reload(vec![saved(now - SECOND, 1), saved(now + SECOND, 2)]).unwrap();
        assert_eq!(driver.advance(wheel.tick()), 1);
        assert_eq!(driver.advance(SECOND - 2 * wheel.tick()), 0);
        assert_eq!(driver.advance(2 * wheel.tick()), 1);
    }
}
