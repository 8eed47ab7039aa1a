//! The classic ring made visible: 3600 slots, a tick of a second, and a cycle count for timers that
//! lie more than an hour ahead. Three days pass in a moment, because the program moves the clock.
//!
//! ```sh
//! cargo run --release --example ring3600
//! ```
//!
//! A row shows the cursor, and for each pending timer its slot, how many times the cursor passes
//! there before the timer is due, and the time that remains. The timer of 7219 seconds is
//! the textbooks' example: set while the cursor is at 1, it goes into slot 20 with 2 cycles.

#![forbid(unsafe_code)]

use std::error::Error;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tickwheel::{Driver, Geometry, Handle, Wheel};

const SECOND: Duration = Duration::from_secs(1);

/// The times of the rows: before and at each event, every half hour of the first two hours, and
/// then every twelve hours.
const MOMENTS: [Duration; 17] = [
    Duration::from_secs(89),
    Duration::from_secs(90),
    Duration::from_secs(1800),
    Duration::from_secs(3598),
    Duration::from_secs(3599),
    Duration::from_secs(3600),
    Duration::from_secs(5400),
    Duration::from_secs(7200),
    Duration::from_secs(7219),
    Duration::from_secs(7220),
    Duration::from_secs(12 * 3600),
    Duration::from_secs(24 * 3600),
    Duration::from_secs(36 * 3600),
    Duration::from_secs(48 * 3600),
    Duration::from_secs(60 * 3600),
    Duration::from_secs(72 * 3600 - 1),
    Duration::from_secs(72 * 3600),
];

fn main() -> Result<(), Box<dyn Error>> {
    let mut ring = Ring::new()?;
    ring.set("90 s", SECOND * 90);
    ring.set("3599 s", SECOND * 3599);
    ring.set("3600 s", SECOND * 3600);
    ring.set("72 h", SECOND * 72 * 3600);
    ring.advance_to(SECOND);
    let textbook = ring.set("7219 s", SECOND * 7219);
    ring.show_head();
    ring.show();
    let place = ring.wheel.location(textbook).ok_or("the timer is pending")?;
    assert_eq!((place.cursor, place.slot, place.cycles), (1, 20, 2));

    for moment in MOMENTS {
        ring.advance_to(moment);
        ring.show();
    }
    assert!(ring.wheel.is_empty(), "every job has run");
    assert_eq!(ring.wheel.stats().panicked, 0, "no job found that it ran at the wrong time");
    Ok(())
}

struct Timer {
    name: &'static str,
    handle: Handle,
}

struct Ring {
    wheel: Wheel,
    driver: Arc<Driver>,
    started: Instant,
    timers: Vec<Timer>,
}

impl Ring {
    fn new() -> Result<Ring, Box<dyn Error>> {
        let geometry = Geometry::ring(3600)?;
        let (wheel, driver) = Wheel::builder().tick(SECOND).geometry(geometry).manual()?;
        let started = driver.now();
        Ok(Ring { wheel, driver: Arc::new(driver), started, timers: Vec::new() })
    }

    /// Sets a timer whose job checks that it runs at the exact time, and prints that.
    fn set(&mut self, name: &'static str, delay: Duration) -> Handle {
        let (driver, started) = (Arc::clone(&self.driver), self.started);
        let due = self.now() + delay;
        let handle = self.wheel.insert(delay, move || {
            let now = driver.now() - started;
            assert_eq!(now, due);
            println!("{:>8}  the job of {name} runs", clock(now));
        });
        self.timers.push(Timer { name, handle });
        handle
    }

    fn now(&self) -> Duration {
        self.driver.now() - self.started
    }

    fn advance_to(&self, moment: Duration) {
        // The cursor moves only to ticks with work, so this job moves it here.
        self.wheel.insert(self.started + moment, || ());
        self.driver.advance(moment - self.now());
    }

    fn show_head(&self) {
        println!("of each timer: slot, +cycles, time that remains");
        print!("{:>8} {:>6}", "time", "cursor");
        for timer in &self.timers {
            print!("{:>19}", timer.name);
        }
        println!();
    }

    /// Prints a row of the table, as long as a timer is pending.
    fn show(&self) {
        let places: Vec<_> =
            self.timers.iter().map(|timer| self.wheel.location(timer.handle)).collect();
        let Some(cursor) = places.iter().flatten().map(|place| place.cursor).next() else { return };
        print!("{:>8} {cursor:>6}", clock(self.now()));
        for (timer, place) in self.timers.iter().zip(places) {
            let remaining = self.wheel.remaining(timer.handle);
            let text = place.zip(remaining).map(|(place, remaining)| {
                format!("{} +{:<2} {:>8}", place.slot, place.cycles, clock(remaining))
            });
            print!("{:>19}", text.unwrap_or_default());
        }
        println!();
    }
}

/// Formats seconds as hours, minutes and seconds.
fn clock(time: Duration) -> String {
    let seconds = time.as_secs();
    format!("{}:{:02}:{:02}", seconds / 3600, seconds / 60 % 60, seconds % 60)
}
