//! Cron: a repeating job that follows the schedule of another crate, for a week, on a clock that
//! the program moves.
//!
//! ```text
//! cargo run --release --example cron [-- EXPRESSION]
//! ```
//!
//! The expression has seven fields, as the `cron` crate wants them: second, minute, hour, day of
//! the month, month, day of the week, year. The wheel knows no calendars. Every run returns the
//! next wall-clock time, and the job runs when the wall clock reads it, also if the clock is set.

#![forbid(unsafe_code)]

use std::error::Error;
use std::str::FromStr;
use std::time::{Duration, SystemTime};

use chrono::{DateTime, Utc};
use cron::Schedule;
use tickwheel::{Next, Repeat, Wheel};

const ON_WEEKDAYS: &str = "0 30 9,12,15 * * Mon-Fri *";

fn main() -> Result<(), Box<dyn Error>> {
    let expression = std::env::args().nth(1).unwrap_or_else(|| ON_WEEKDAYS.to_owned());
    let schedule = Schedule::from_str(&expression)?;
    let (wheel, driver) = Wheel::builder().tick(Duration::from_millis(100)).manual()?;
    let began = DateTime::<Utc>::from(driver.wall_now());
    println!("{expression}, for a week from {began:.0?}");

    let mut times = schedule.after_owned(began);
    let Some(mut time) = times.next() else {
        println!("there is no such time to come");
        return Ok(());
    };
    wheel.repeat(Repeat::irregular().starting(SystemTime::from(time)), move |run| {
        println!("{time}, {:.0?} late", run.late);
        let Some(next) = times.next() else { return Next::Stop };
        time = next;
        Next::Wall(next.into())
    })?;

    let runs = driver.advance(Duration::from_secs(7 * 24 * 3600));
    println!("{runs} runs");
    Ok(())
}
