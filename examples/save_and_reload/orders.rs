//! The jobs as data, and their way from a wheel to the file and back.

use std::sync::mpsc::Sender;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use tickwheel::{InsertErrorKind, Task, Wheel, When};

use crate::store::Saved;

/// The command of a job, which is all that is saved of it. A variant that a file holds may be renamed
/// only with a `#[serde(alias)]` for its old name.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize, Deserialize)]
pub(crate) enum Command {
    Close { order: u64 },
    Remind { order: u64, address: String },
}

/// A job: its command, and a sender to the part of the program that does it. The sender is another
/// one after every start, so it is not saved.
pub(crate) struct OrderTask {
    pub(crate) command: Command,
    pub(crate) shop: Sender<Command>,
}

impl Task for OrderTask {
    fn run(self) {
        // An error would mean that the shop has ended. It ends after the wheel.
        let _ = self.shop.send(self.command);
    }
}

/// The jobs that a wheel had not run when it was stopped.
#[derive(Default)]
pub(crate) struct Pending {
    pub(crate) jobs: Vec<Saved>,
    /// Jobs that are not an [`OrderTask`]: closures, and jobs that repeat. The next start makes them
    /// anew.
    pub(crate) others: usize,
    /// Jobs that outlasted the limit. They run as long as the process does, and are not saved.
    pub(crate) still_running: usize,
}

/// Stops the wheel, waits for running jobs for `limit` at most, and returns the pending jobs.
pub(crate) fn stop(wheel: &Wheel, limit: Duration) -> Pending {
    let unfired = wheel.shutdown_timeout(limit);
    let mut pending = Pending { still_running: unfired.still_running(), ..Pending::default() };
    // Read once, and after the shutdown: `remaining` counts from its end.
    let now = wheel.wall_now();
    for unfired in unfired {
        match unfired.job.downcast::<OrderTask>() {
            // A job that is never due has `Duration::MAX` left. The sum overflows, and is `None`.
            Ok(OrderTask { command, .. }) => {
                pending.jobs.push(Saved { at: now.checked_add(unfired.remaining), command });
            }
            Err(_) => pending.others += 1,
        }
    }
    pending
}

/// Inserts the saved jobs. Those that are overdue run at the next tick.
pub(crate) fn insert(
    wheel: &Wheel,
    jobs: Vec<Saved>,
    shop: &Sender<Command>,
) -> Result<(), InsertErrorKind> {
    let timers = jobs.into_iter().map(|Saved { at, command }| {
        let when = at.map_or(When::after(Duration::MAX), When::wall);
        (when, OrderTask { command, shop: shop.clone() })
    });
    wheel.insert_batch(timers).map(drop).map_err(|refused| refused.kind())
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use super::*;
    use crate::scratch::Scratch;
    use crate::store::Store;
    use tickwheel::Driver;

    const HOUR: Duration = Duration::from_secs(3600);
    const TICK: Duration = Duration::from_millis(1);

    fn close(order: u64) -> Command {
        Command::Close { order }
    }

    /// Saves a wheel with an order that closes in three hours. Returns the wheel of the next start,
    /// `offline` later, with the order reloaded.
    fn restart(name: &str, offline: Duration) -> (Wheel, Driver, mpsc::Receiver<Command>) {
        let scratch = Scratch::new(name);
        let store = Store::open(scratch.path()).unwrap();
        let (shop, _) = mpsc::channel();
        let (wheel, driver) = Wheel::builder().tick(TICK).manual().unwrap();
        wheel.insert(5 * HOUR, OrderTask { command: close(1), shop });
        driver.advance(2 * HOUR);
        store.save(&stop(&wheel, Duration::ZERO).jobs).unwrap();

        let (shop, done) = mpsc::channel();
        let (next, next_driver) = Wheel::builder().tick(TICK).manual().unwrap();
        next_driver.set_wall(driver.wall_now() + offline);
        insert(&next, store.load().unwrap(), &shop).unwrap();
        (next, next_driver, done)
    }

    #[test]
    fn a_job_with_three_hours_left_runs_three_hours_after_the_save() {
        let (_wheel, driver, done) = restart("three-hours", HOUR);
        assert_eq!(driver.advance(2 * HOUR - TICK), 0);
        assert_eq!(driver.advance(2 * TICK), 1);
        assert_eq!(done.try_iter().collect::<Vec<_>>(), [close(1)]);
    }

    #[test]
    fn a_job_that_is_overdue_runs_at_the_next_tick() {
        let (_wheel, driver, done) = restart("overdue", 4 * HOUR);
        assert_eq!(driver.advance(TICK), 1);
        assert_eq!(done.try_iter().collect::<Vec<_>>(), [close(1)]);
    }

    #[test]
    fn a_paused_job_stays_paused_and_other_jobs_are_counted() {
        let (shop, _done) = mpsc::channel();
        let (wheel, _driver) = Wheel::builder().manual().unwrap();
        wheel.insert(Duration::MAX, OrderTask { command: close(1), shop: shop.clone() });
        wheel.insert(HOUR, || ());
        wheel.every(HOUR, || ()).unwrap();
        let pending = stop(&wheel, Duration::ZERO);
        assert_eq!((pending.others, pending.still_running), (2, 0));
        assert_eq!(pending.jobs, [Saved { at: None, command: close(1) }]);

        let (wheel, driver) = Wheel::builder().manual().unwrap();
        insert(&wheel, pending.jobs, &shop).unwrap();
        assert_eq!(driver.advance(1000 * HOUR), 0);
        assert_eq!(wheel.len(), 1);
    }
}
