//! Cron: a repeating job that follows the schedule of another crate, over a clock that is set
//! forward and back.
//!
//! ```sh
//! cargo run --release --example cron [-- EXPRESSION]
//! ```
//!
//! The program moves the clock of a manual wheel, so nine days pass in a moment, and prints each occurrence
//! with the reading of the clock. `Cron` is the part to copy. An expression has the seven fields of the
//! `cron` crate: second, minute, hour, day of the month, month, day of the week, year.
//!
//! The job holds the next occurrence and compares it with the wall clock: at the occurrence, and at least
//! once a minute (`LOOK`). It computes each next occurrence from the wall clock, and not from the
//! occurrence before. So:
//!
//! - **The clock is set forward, or the machine sleeps**: one run stands for all occurrences that were
//!   skipped, at most a minute after the change. An iterator over the occurrences would give a run for
//!   each of them.
//! - **The clock is set back**: occurrences of the repeated time run again, except perhaps those within its
//!   first minute. Work that must not be repeated compares its occurrence with the last one done.
//! - **The work takes longer than the schedule allows**: one run follows at once, and the rest are
//!   skipped. Runs never overlap.
//! - **The work panics**: its occurrence is lost, and the next one comes at its time. Without
//!   `after_panic` the first panic would end the schedule.
//!
//! Times are UTC. For a schedule in local time, ask the `cron` crate for occurrences in the time zone,
//! with `chrono-tz`.

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
    driver.set_wall(DateTime::parse_from_rfc3339("2026-03-02T00:00:00Z")?.into()); // a Monday
    let clock = wheel.scheduler();
    let reading = move || DateTime::<Utc>::from(clock.wall_now()).format("%F %T%.3f");

    println!("{expression}, for a week from {}", reading());
    let now = reading.clone();
    Cron::start(&wheel, schedule, move |time| println!("{time}, done at {}", now()))?;
    driver.advance(7 * 24 * HOUR);

    driver.set_wall(driver.wall_now() + 60 * HOUR);
    println!("the clock is set 60 hours forward, to {}", reading());
    driver.advance(24 * HOUR);

    driver.set_wall(driver.wall_now() - 24 * HOUR);
    println!("the clock is set 24 hours back, to {}", reading());
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
