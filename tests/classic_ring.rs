//! The worked examples of the classic ring, on a wheel of one ring: the place of an entry, and the
//! time at which it fires. Each of the two textbook formulas is a whole cycle late for one of these.

use std::sync::mpsc::channel;
use std::time::{Duration, Instant};

use tickwheel::{Geometry, Wheel};

const SECOND: Duration = Duration::from_secs(1);

/// Size of the ring, position of the cursor, delay; then the right slot and cycle count.
const EXAMPLES: [(usize, u32, u32, usize, u64); 6] = [
    (60, 2, 147, 29, 2),
    (3600, 1, 7219, 20, 2),
    // The slot lies behind the cursor.
    (3600, 3599, 2, 1, 0),
    // Exact multiples of the size.
    (60, 0, 60, 0, 0),
    (60, 17, 60, 17, 0),
    (3600, 5, 7200, 5, 1),
];

/// Each example has the right slot and cycle count, and its job runs in the right second.
#[test]
fn examples_have_their_slots_cycles_and_seconds() {
    for (slots, cursor, delay, slot, cycles) in EXAMPLES {
        let ring = Geometry::ring(slots).unwrap();
        let (wheel, driver) = Wheel::builder().tick(SECOND).geometry(ring).manual().unwrap();
        driver.advance(SECOND * cursor);
        let handle = wheel.insert(SECOND * delay, || ());
        let place = wheel.location(handle).unwrap();
        assert_eq!((place.cursor, place.level), (cursor as usize, 0));
        assert_eq!((place.slot, place.cycles), (slot, cycles), "{delay} s on {slots} slots");
        assert_eq!(wheel.remaining(handle), Some(SECOND * delay));
        assert_eq!(driver.advance(SECOND * (delay - 1)), 0, "{delay} s on {slots} slots, early");
        assert_eq!(driver.advance(SECOND), 1, "{delay} s on {slots} slots, late");
    }
}

/// The same examples run on the real clock, none early.
#[test]
#[allow(clippy::disallowed_methods)]
fn examples_run_on_the_real_clock_and_are_never_early() {
    // A tick of 50 µs instead of a second: no job is early, and all of them run during the test.
    let tick = Duration::from_micros(50);
    for (slots, _, delay, ..) in EXAMPLES {
        let ring = Geometry::ring(slots).unwrap();
        let wheel = Wheel::builder().tick(tick).geometry(ring).threads(1).build().unwrap();
        let (sender, receiver) = channel();
        let before = Instant::now();
        wheel.insert(tick * delay, move || sender.send(before.elapsed()).unwrap());
        assert!(receiver.recv().unwrap() >= tick * delay);
    }
}

/// In each of 100 cycles of one slot, exactly the 100 jobs of that cycle run.
#[test]
fn cycles_of_one_slot_are_told_apart_by_the_hundred() {
    let ring = Geometry::ring(60).unwrap();
    let (wheel, driver) = Wheel::builder().tick(SECOND).geometry(ring).manual().unwrap();
    for cycle in 0..100 {
        for _ in 0..100 {
            wheel.insert(SECOND * (7 + 60 * cycle), || ());
        }
    }
    for cycle in 0..100 {
        let ahead = if cycle == 0 { 6 } else { 59 };
        assert_eq!(driver.advance(SECOND * ahead), 0, "before cycle {cycle}");
        assert_eq!(driver.advance(SECOND), 100, "in cycle {cycle}");
    }
    assert!(wheel.is_empty());
}
