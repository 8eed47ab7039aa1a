//! Years of uptime on a manual clock: other timers have stopped after 12 days, 248.5 days, 2.2 years.

use std::time::Duration;

use tickwheel::{Geometry, Wheel};

const MS: Duration = Duration::from_millis(1);
const DAY: Duration = Duration::from_secs(86_400);

/// Timers fire on their ticks after up to 400 years.
#[test]
fn timers_fire_on_their_tick_after_years() {
    for geometry in [Geometry::default(), Geometry::ring(3600).unwrap()] {
        let (wheel, driver) = Wheel::builder().geometry(geometry).manual().unwrap();
        let mut up = Duration::ZERO;
        // 2^31 and 2^32 milliseconds lie within the first hundred days. The last is 400 years.
        let moments = [DAY * 12, MS * ((1 << 31) - 2), MS * u32::MAX, DAY * 803, DAY * 146_000];
        for moment in moments {
            driver.advance(moment - up);
            up = moment;
            for delay in [1, 255, 256, 257, 3600, 65_536, 70_000] {
                wheel.insert(MS * delay, || ());
                assert_eq!(driver.advance(MS * delay - MS), 0, "{delay} ms after {moment:?}");
                assert_eq!(driver.advance(MS), 1, "{delay} ms after {moment:?}");
                up += MS * delay;
            }
        }
    }
}

/// A timer of ten years fires after ten years, on its tick.
#[test]
fn timer_of_ten_years_waits_for_ten_years() {
    let (wheel, driver) = Wheel::builder().manual().unwrap();
    let ten_years = DAY * 3653;
    let handle = wheel.insert(ten_years, || ());
    for _ in 0..3652 {
        assert_eq!(driver.advance(DAY), 0);
    }
    assert_eq!(wheel.remaining(handle), Some(DAY));
    assert_eq!((driver.advance(DAY - MS), driver.advance(MS)), (0, 1));
}

/// The clock can run to its end. A job that is inserted then does not run, and can be cancelled.
#[test]
fn clock_can_run_to_its_end() {
    let (wheel, driver) = Wheel::builder().tick(Duration::from_nanos(1)).manual().unwrap();
    let soon = wheel.insert(DAY, || ());
    let never = wheel.insert(Duration::MAX, || ());
    assert_eq!(driver.advance(Duration::MAX), 1);
    assert!(!wheel.is_pending(soon) && wheel.is_pending(never));
    let _ = driver.now();
    // No time is left: a job that is inserted now will not run, and is not lost.
    let last = wheel.insert(DAY, || ());
    assert_eq!(driver.advance(DAY), 0);
    assert!(wheel.cancel(last) && wheel.cancel(never));
}
