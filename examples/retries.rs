//! Deliveries that are tried until they succeed: with waits that grow, in spite of panics, and over a
//! restart of the program.
//!
//! ```sh
//! cargo run --release --example retries
//! ```
//!
//! The program begins with five deliveries, one of which panics at first, and stops after half a second, as
//! for a deploy. It starts again with the deliveries that it has saved. It prints every attempt, and fails
//! unless each delivery has been made exactly once. `Queue` and `Attempt` are the part to copy.
//!
//! What to know before this is copied:
//!
//! - **A delivery is data**: an `Attempt` is a `Task` of a type of its own, which a shutdown gives back, and
//!   `save_and_reload.rs` writes such data to a file. `Wheel::repeat` is for retries that are not saved.
//! - **An attempt that panics** would be gone with all that it owns. This one catches the panic, inserts
//!   the next attempt, and lets the panic go on, so that the wheel counts it.
//! - **An attempt that runs while the wheel ends** is not among the jobs that come back, and its insert of
//!   the next attempt is refused. So the queue keeps a copy of each delivery that is under way, and
//!   saves these copies too.
//! - **A delivery is made at least once**, and twice if its attempt outlasts the limit of the shutdown:
//!   it has been saved then. The receiver tells deliveries apart by their number.
//! - **An attempt occupies a thread of the pool** until it has an answer (`Builder::threads`).

#![forbid(unsafe_code)]
#![allow(clippy::disallowed_methods, reason = "the first run takes half a second")]

use std::collections::BTreeMap;
use std::error::Error;
use std::panic::{self, AssertUnwindSafe};
use std::sync::mpsc::{self, Sender};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, SystemTime};

use tickwheel::{InsertErrorKind, Scheduler, Task, Wheel, When};

const FIRST_WAIT: Duration = Duration::from_millis(100);
const LONGEST_WAIT: Duration = Duration::from_secs(3600);
/// How long a shutdown waits for attempts under way. A service manager kills a program that takes longer.
const LIMIT: Duration = Duration::from_secs(30);

#[derive(Clone, Debug)]
struct Delivery {
    number: u64,
    failures: u32,
}

/// When the next attempt of a delivery is due, and the delivery.
type Saved = (SystemTime, Delivery);

struct Queue {
    timers: Scheduler,
    /// Receives the number of each delivery that was made.
    made: Sender<u64>,
    /// By number: the deliveries in an attempt, and those whose next attempt was refused.
    under_way: Mutex<BTreeMap<u64, Delivery>>,
}

impl Queue {
    /// Adds deliveries. Those that are overdue are tried at the next tick.
    fn insert(self: &Arc<Queue>, saved: Vec<Saved>) -> Result<(), InsertErrorKind> {
        let attempt = |(due, delivery)| (due, Attempt { delivery, queue: Arc::clone(self) });
        let inserted = self.timers.insert_batch(saved.into_iter().map(attempt));
        inserted.map(drop).map_err(|refused| refused.kind())
    }

    /// Ends the wheel. Returns the deliveries that were not made.
    fn end(&self, wheel: &Wheel) -> Vec<Saved> {
        let pending = wheel.shutdown_timeout(LIMIT).filter_map(|unfired| {
            let attempt = unfired.job.downcast::<Attempt>().ok()?;
            Some((unfired.wall?, attempt.delivery))
        });
        let mut saved: Vec<Saved> = pending.collect();
        // After the shutdown no attempt starts, and none can be inserted.
        let (now, under_way) = (wheel.wall_now(), self.under_way.lock().unwrap());
        saved.extend(under_way.values().map(|delivery| (now, delivery.clone())));
        saved
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
        queue.under_way.lock().unwrap().insert(number, delivery.clone());
        let result = panic::catch_unwind(AssertUnwindSafe(|| deliver(&delivery)));
        // Locked until the end: the next attempt may be due before this one is off the list.
        let mut under_way = queue.under_way.lock().unwrap();
        if let Ok(true) = result {
            under_way.remove(&number);
            let _ = queue.made.send(number); // an error means that the program ends
            return;
        }
        let wait = FIRST_WAIT.saturating_mul(1 << delivery.failures.min(31)).min(LONGEST_WAIT);
        delivery.failures += 1;
        under_way.insert(number, delivery.clone());
        // The jitter keeps deliveries that failed together from being tried together.
        let next = Attempt { delivery, queue: Arc::clone(&queue) };
        if queue.timers.insert(When::after(wait).jitter(wait), next).is_ok() {
            under_way.remove(&number);
        } // An error means that the wheel has ended: the delivery stays on the list, and is saved.
        drop(under_way);
        if let Err(panic) = result {
            panic::resume_unwind(panic);
        }
    }
}

/// Returns whether the delivery was made: delivery 1 at once, and delivery 5 at the fifth attempt.
fn deliver(delivery: &Delivery) -> bool {
    println!("{delivery:?}");
    assert!(delivery.number != 3 || delivery.failures > 0, "a planted panic");
    u64::from(delivery.failures) + 1 >= delivery.number
}

fn main() -> Result<(), Box<dyn Error>> {
    let (made, deliveries) = mpsc::channel();
    let start = |wheel: &Wheel| {
        let (timers, made, under_way) = (wheel.scheduler(), made.clone(), Mutex::default());
        Arc::new(Queue { timers, made, under_way })
    };
    let wheel = Wheel::new();
    let queue = start(&wheel);
    let new = |number| (wheel.wall_now(), Delivery { number, failures: 0 });
    queue.insert((1..=5).map(new).collect())?;
    thread::sleep(5 * FIRST_WAIT);
    let saved = queue.end(&wheel);
    println!("{} deliveries are saved, and reloaded", saved.len());

    let wheel = Wheel::new();
    let queue = start(&wheel);
    queue.insert(saved)?;
    wheel.wait_idle();
    assert!(queue.end(&wheel).is_empty(), "nothing is left");
    let mut numbers: Vec<u64> = deliveries.try_iter().collect();
    numbers.sort_unstable();
    assert_eq!(numbers, [1, 2, 3, 4, 5], "each delivery was made, and none twice");
    Ok(())
}
