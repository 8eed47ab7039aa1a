//! Cron: a repeating job that follows the schedule of another crate, over a clock that is set
//! forward and back. Nine days pass in a moment, because the program moves the clock.
//!
//! ```text
//! cargo run --release --example cron [-- EXPRESSION]
//! ```
//!
//! The expression has seven fields, as the `cron` crate expects: second, minute, hour, day of the
//! month, month, day of the week, year. The wheel knows no calendars: `Cron` is the part to copy.
//!
//! The job holds the next occurrence and compares it with the wall clock, at the occurrence and at
//! least once a minute (`LOOK`). Every such look computes the next occurrence from the wall clock,
//! and never from the occurrence before. So:
//!
//! - **The clock is set forward, or the machine sleeps**: the work is done once for all occurrences
//!   that were skipped, at most a minute after the change. Do not take the occurrences from an
//!   iterator: that would do the work once for each of them, in one burst.
//! - **The clock is set back**: occurrences of the repeated time run again, except those within its
//!   first minute, in which the job may not have looked at the clock yet. cron does the same with a
//!   `*` in the minute or the hour: the new time counts. Do not wait for the occurrence that was
//!   computed before the change: nothing would run until the clock is there again. The work receives
//!   its occurrence; work that must not be repeated compares it with the last one that it has done.
//! - **The work takes longer than the schedule allows**: one run follows at once, the rest are
//!   skipped. Runs never overlap.
//! - **The work panics**: the occurrence is lost, the next one comes at its time. Without
//!   `after_panic`, the first panic would end the schedule.
//!
//! Times are UTC. Summer time does not set the clock of the system. For a schedule in local time, ask
//! the `cron` crate for occurrences in the time zone, with `chrono-tz`.

#![forbid(unsafe_code)]

use std::error::Error;
use std::str::FromStr;
use std::time::Duration;

use chrono::{DateTime, Utc};
use cron::Schedule;
use tickwheel::{Handle, InsertErrorKind, Next, Repeat, Run, Wheel};

const ON_WEEKDAYS: &str = "0 30 9,12,15 * * Mon-Fri *";

const TICK: Duration = Duration::from_millis(100);
const HOUR: Duration = Duration::from_secs(3600);

/// How often the wall clock is read at least.
const LOOK: Duration = Duration::from_secs(60);

fn main() -> Result<(), Box<dyn Error>> {
    let expression = std::env::args().nth(1).unwrap_or_else(|| ON_WEEKDAYS.to_owned());
    let schedule = Schedule::from_str(&expression)?;
    let (wheel, driver) = Wheel::builder().tick(TICK).manual()?;
    let clock = wheel.scheduler();
    let reads = move || DateTime::<Utc>::from(clock.wall_now()).format("%F %T%.3f");

    println!("{expression}, for a week from {}", reads());
    let now = reads.clone();
    Cron::start(&wheel, schedule, move |time| println!("{time}, done at {}", now()))?;
    driver.advance(7 * 24 * HOUR);

    driver.set_wall(driver.wall_now() + 60 * HOUR);
    println!("the clock is set 60 hours forward, to {}", reads());
    driver.advance(24 * HOUR);

    driver.set_wall(driver.wall_now() - 24 * HOUR);
    println!("the clock is set 24 hours back, to {}", reads());
    driver.advance(24 * HOUR);
    Ok(())
}

/// Work that is done by a schedule.
struct Cron<F> {
    schedule: Schedule,
    /// The next occurrence; `None` if the schedule has no more, unless the clock is set back.
    next: Option<DateTime<Utc>>,
    work: F,
}

impl<F: FnMut(DateTime<Utc>) + Send + 'static> Cron<F> {
    /// Calls `work` with each occurrence from now on, until the job is cancelled.
    fn start(wheel: &Wheel, schedule: Schedule, work: F) -> Result<Handle, InsertErrorKind> {
        let next = schedule.after(&DateTime::<Utc>::from(wheel.wall_now())).next();
        let mut cron = Cron { schedule, next, work };
        // After a panic the job looks again at once, and finds the next occurrence.
        let repeat = Repeat::irregular().after_panic(Next::After(Duration::ZERO));
        wheel.repeat(repeat, move |run| cron.look(run)).map_err(|refused| refused.kind())
    }

    /// Does the work if it is due. Returns when to look again.
    fn look(&mut self, run: Run) -> Next {
        let wall = DateTime::<Utc>::from(run.wall);
        let due = self.next.take_if(|next| *next <= wall);
        // Before the work: if it panics, this occurrence must not be due again.
        self.next = self.schedule.after(&wall).next();
        if let Some(occurrence) = due {
            (self.work)(occurrence);
        }
        let until = self.next.and_then(|next| (next - wall).to_std().ok());
        // Counted from the start of this run: the work has taken a part of the wait, or all of it.
        Next::At(run.started + until.map_or(LOOK, |until| until.min(LOOK)))
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex, mpsc};

    use super::*;
    use tickwheel::Driver;

    const MINUTE: Duration = Duration::from_secs(60);
    const WEEK: Duration = Duration::from_secs(7 * 24 * 3600);
    const EVERY_MINUTE: &str = "0 * * * * * *";

    /// An occurrence, and the wall-clock time at which its work was done.
    type Done = (DateTime<Utc>, DateTime<Utc>);

    struct Trial {
        wheel: Wheel,
        driver: Driver,
        done: Arc<Mutex<Vec<Done>>>,
    }

    impl Trial {
        /// Begins on a Monday, half a minute and some milliseconds after midnight. `work` runs
        /// before an occurrence is noted.
        fn new(expression: &str, work: fn(DateTime<Utc>)) -> Trial {
            let (wheel, driver) = Wheel::builder().tick(TICK).manual().unwrap();
            let monday = DateTime::from_str("2026-03-02T00:00:30.033Z").unwrap();
            driver.set_wall(DateTime::<Utc>::into(monday));
            let trial = Trial { wheel, driver, done: Arc::default() };
            let (clock, done) = (trial.wheel.scheduler(), Arc::clone(&trial.done));
            let schedule = Schedule::from_str(expression).unwrap();
            let note = move |occurrence| {
                work(occurrence);
                done.lock().unwrap().push((occurrence, clock.wall_now().into()));
            };
            Cron::start(&trial.wheel, schedule, note).unwrap();
            trial
        }

        /// Lets time pass. Returns the work that was done meanwhile.
        fn pass(&self, time: Duration) -> Vec<Done> {
            self.driver.advance(time);
            std::mem::take(&mut self.done.lock().unwrap())
        }

        fn wall(&self) -> DateTime<Utc> {
            self.driver.wall_now().into()
        }
    }

    #[test]
    fn a_week_has_the_occurrences_of_the_schedule_each_on_time() {
        for expression in [ON_WEEKDAYS, EVERY_MINUTE, "*/7 * 3 * * Sat,Sun *"] {
            let trial = Trial::new(expression, |_| ());
            let began = trial.wall();
            let done = trial.pass(WEEK);
            let schedule = Schedule::from_str(expression).unwrap();
            let expected = schedule.after(&began).take_while(|&time| time <= trial.wall() - TICK);
            assert!(done.iter().map(|&(occurrence, _)| occurrence).eq(expected), "{expression}");
            let on_time = |&(occurrence, at): &Done| at >= occurrence && at - TICK <= occurrence;
            assert!(done.iter().all(on_time), "{expression}");
        }
    }

    #[test]
    fn a_jump_of_60_hours_forward_is_one_run() {
        let trial = Trial::new("0 */6 * * * * *", |_| ());
        assert_eq!(trial.pass(HOUR).len(), 10);
        trial.driver.set_wall(trial.driver.wall_now() + 60 * HOUR);
        assert_eq!(trial.pass(LOOK).len(), 1, "600 occurrences were skipped");
        assert_eq!(trial.pass(HOUR).len(), 10, "and the schedule goes on by the new time");
    }

    #[test]
    fn after_a_jump_of_an_hour_back_the_next_run_is_not_an_hour_away() {
        let trial = Trial::new(EVERY_MINUTE, |_| ());
        assert_eq!(trial.pass(HOUR).len(), 60);
        trial.driver.set_wall(trial.driver.wall_now() - HOUR);
        let back = trial.wall();
        let (first, at) = trial.pass(2 * MINUTE)[0];
        assert!(at >= first && at - TICK <= first, "it is on time by the new time");
        assert!(first > back && first < back + 2 * MINUTE);
        assert_eq!(trial.pass(HOUR).len(), 60, "the repeated hour runs again");
    }

    /// In real time, because the clock of a manual wheel stands during a job.
    #[test]
    fn work_that_takes_half_a_second_does_not_make_the_next_run_late() {
        let wheel = Wheel::new();
        let clock = wheel.scheduler();
        let (done, runs) = mpsc::channel();
        let (_open, never) = mpsc::channel::<()>();
        let half = Duration::from_millis(500);
        let slow = move |occurrence: DateTime<Utc>| {
            let late = DateTime::<Utc>::from(clock.wall_now()) - occurrence;
            assert!(never.recv_timeout(half).is_err(), "nothing is sent");
            done.send(late.to_std()).unwrap();
        };
        let every_second = Schedule::from_str("* * * * * * *").unwrap();
        Cron::start(&wheel, every_second, slow).unwrap();
        // With a wait that counts from the end of the work, every run but the first is this late.
        let on_time = |late: &Result<Duration, _>| late.is_ok_and(|late| late < half);
        assert!(runs.iter().skip(1).take(10).any(|late| on_time(&late)));
        drop(wheel.close());
    }

    #[test]
    fn a_panic_costs_one_occurrence() {
        let trial = Trial::new(EVERY_MINUTE, |occurrence| {
            assert_ne!(occurrence.to_string(), "2026-03-02 00:03:00 UTC", "a planted panic");
        });
        let done = trial.pass(5 * MINUTE);
        assert_eq!(trial.wheel.stats().panicked, 1);
        let minutes = done.iter().map(|(occurrence, _)| occurrence.format("%M").to_string());
        assert_eq!(minutes.collect::<Vec<_>>(), ["01", "02", "04", "05"]);
    }
}
