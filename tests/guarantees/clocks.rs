//! Both kinds of clock: a promise about time is tested on each, from one body of test code.
//!
//! A manual clock stands while jobs run, and moves from tick to tick. The real one goes on by
//! itself, also while the wheel is idle, and a loaded machine may be late by any time. So a body
//! asserts only facts that hold on a late machine too: the order of events, and the least time that
//! has passed.

use super::*;
use std::time::SystemTime;

/// The clock of a wheel: reads it, and lets its time pass.
#[derive(Clone)]
pub(crate) struct Time {
    driver: Option<Arc<Driver>>,
    tick: Duration,
}

/// Runs a test on a wheel with a manual clock, and on one with the real clock and two threads. With
/// the feature `async`, runs it again on such a wheel that a runtime drives.
pub(crate) fn on_both_clocks(tick: Duration, body: impl Fn(&Wheel, &Time)) {
    let (wheel, driver) = Wheel::builder().tick(tick).shards(4).manual().unwrap();
    body(&wheel, &Time { driver: Some(Arc::new(driver)), tick });
    assert_eq!(wheel.stats().panicked, 0, "on the manual clock");
    let wheel = Wheel::builder().tick(tick).threads(2).build().unwrap();
    body(&wheel, &Time { driver: None, tick });
    assert_eq!(wheel.stats().panicked, 0, "on the real clock");
    #[cfg(feature = "async")]
    {
        let wheel = Wheel::builder().tick(tick).threads(2).build().unwrap();
        let runtime = super::drive::run_on_a_runtime(&wheel);
        body(&wheel, &Time { driver: None, tick });
        assert_eq!(wheel.stats().panicked, 0, "on a runtime");
        drop(wheel);
        runtime.join().unwrap();
    }
}

impl Time {
    /// The real clock, in milliseconds.
    #[cfg(feature = "async")]
    pub(crate) fn real() -> Time {
        Time { driver: None, tick: MS }
    }

    pub(crate) fn now(&self) -> Instant {
        self.driver.as_ref().map_or_else(now, |driver| driver.now())
    }

    #[allow(clippy::disallowed_methods)]
    pub(crate) fn wall_now(&self) -> SystemTime {
        self.driver.as_ref().map_or_else(SystemTime::now, |driver| driver.wall_now())
    }

    /// Lets time pass until the condition holds.
    #[track_caller]
    pub(crate) fn until(&self, condition: impl Fn() -> bool) {
        let Some(driver) = &self.driver else { return wait_for(condition) };
        for _ in 0..1_000_000 {
            if condition() {
                return;
            }
            driver.advance(self.tick);
        }
        panic!("this never comes true");
    }

    /// Lets this much time pass, or more.
    pub(crate) fn pass(&self, duration: Duration) {
        match &self.driver {
            Some(driver) => drop(driver.advance(duration)),
            None => let_pass(duration),
        }
    }

    /// How many ticks have begun between two instants, at least.
    pub(crate) fn ticks_between(&self, from: Instant, to: Instant) -> usize {
        usize::try_from((to - from).as_nanos() / self.tick.as_nanos()).unwrap()
    }
}
