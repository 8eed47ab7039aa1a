//! The structure, by itself and in a wheel: worked examples, years of uptime, and slots with very many timers.

use super::*;
use tickwheel::Key;

const SECOND: Duration = Duration::from_secs(1);
const DAY: Duration = Duration::from_secs(86_400);

/// Size of the ring, position of the cursor, delay; then the right slot and cycle count. Each of the two textbook
/// formulas is a whole cycle late for one of these.
const EXAMPLES: [(usize, u32, u32, usize, u64); 10] = [
    (60, 2, 147, 29, 2),
    (3600, 1, 7219, 20, 2),
    // The slot lies behind the cursor.
    (3600, 3599, 2, 1, 0),
    // Exact multiples of the size.
    (60, 0, 60, 0, 0),
    (60, 17, 60, 17, 0),
    (60, 17, 120, 17, 1),
    (60, 17, 61, 18, 1),
    (3600, 5, 7200, 5, 1),
    // A ring of one slot.
    (1, 5, 1, 0, 0),
    (1, 5, 4, 0, 3),
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
        assert_eq!((place.cursor, place.level), (cursor as usize % slots, 0));
        assert_eq!((place.slot, place.cycles), (slot, cycles), "{delay} s on {slots} slots");
        assert_eq!(wheel.remaining(handle), Some(SECOND * delay));
        assert_eq!(driver.advance(SECOND * (delay - 1)), 0, "{delay} s on {slots} slots, early");
        assert_eq!(driver.advance(SECOND), 1, "{delay} s on {slots} slots, late");
    }
}

/// Timers fire on their ticks after up to 400 years: other timers have stopped after 12 days, 248.5 days, 2.2 years.
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

/// The cost of `next_turn` does not grow with the number of timers.
#[test]
fn next_turn_costs_the_same_with_many_timers() {
    // A million searches among 200,000 timers: if each were a scan, this would take hours.
    let mut wheel = Hierarchy::default();
    for n in 0..200_000 {
        wheel.insert(Tick::new(1_000_000 + n % 1000), n);
    }
    for _ in 0..1_000_000 {
        assert!(wheel.next_turn().is_some_and(|next| next <= Tick::new(1_000_000)));
    }
}

/// What a caller does in a pause of an advance: it gets the number of the pause, and the keys of the burst. Returns how
/// many timers it has added, less those that it has cancelled.
type Pause = fn(&mut Hierarchy<u64>, u64, &[Key]) -> i64;

/// A burst is visited once, although its caller cancels or inserts in each pause: if the advance looked at the whole
/// slot after each of them, this would take hours.
#[test]
fn burst_is_not_visited_anew_after_a_pause() {
    let cancel: Pause = |wheel, pause, keys| {
        // One of the two has not fired yet, in any order.
        let keys = [keys[pause as usize], keys[keys.len() - 1 - pause as usize]];
        -(keys.into_iter().filter_map(|key| wheel.cancel(key)).count() as i64)
    };
    let insert_late: Pause = |wheel, pause, _| {
        wheel.insert(Tick::new(pause % 5), pause);
        1
    };
    let (none, late) = (&[][..], &[3][..]);
    for (name, before, pause) in [
        ("cancels", none, cancel),
        ("cancels, and a timer was late when the burst began", late, cancel),
        ("inserts of late timers", none, insert_late),
    ] {
        let mut wheel = Hierarchy::default();
        assert!(wheel.advance(Tick::new(4), 0, &mut Vec::new()).finished);
        let keys: Vec<_> = (0..1_000_000).map(|n| wheel.insert(Tick::new(5), n)).collect();
        before.iter().for_each(|&late| _ = wheel.insert(Tick::new(late), 0));
        let begin = wheel.len() as i64;
        let (mut due, mut pauses, mut expected) = (Vec::new(), 0, begin);
        while !wheel.advance(Tick::new(5), 16, &mut due).finished {
            expected += pause(&mut wheel, pauses, &keys);
            pauses += 1;
        }
        assert!(expected != begin && due.len() as i64 == expected, "{name}: {begin}, {expected}");
    }
}

/// Inserts into a slot that is being visited do not make the visit begin again, nor do inserts into the next tick
/// while an outer slot is visited.
#[test]
fn inserts_during_a_visit_do_not_delay_it() {
    type Deadline = fn(u64) -> u64;
    let cases: [(&str, &[usize], u64, Deadline); 7] = [
        ("for another cycle", &[3600], 3600, |_| 7200),
        ("for the tick of the visit", &[3600], 3600, |_| 3600),
        ("for both in turn", &[3600], 3600, |pause| 3600 * (1 + pause % 4)),
        ("for the past, on an outer ring", &[4, 64], 256, |_| 0),
        ("for the next tick, on an outer ring", &[4, 64], 256, |_| 256),
        ("for the next tick, on the outermost of three", &[4, 4, 16], 256, |_| 256),
        ("for all of these in turn, on an outer ring", &[4, 64], 256, |pause| 256 * (pause % 3)),
    ];
    for (name, sizes, first_visit, deadline) in cases {
        let mut wheel = Hierarchy::new(Geometry::levels(sizes).unwrap());
        let range = sizes.iter().product::<usize>() as u64;
        let count = 50_000;
        // Most timers wait for another cycle: the visit must look at each of them once.
        for n in 0..count {
            wheel.insert(Tick::new(first_visit + n % 3 * range), 0);
        }
        let (mut due, mut pauses) = (Vec::new(), 0);
        while !wheel.advance(Tick::new(first_visit), 256, &mut due).finished {
            // The timers cost 196 budgets of 256, and the inserts some more.
            assert!(pauses < 250, "{name}: the visit begins again");
            pauses += 1;
            wheel.insert(Tick::new(deadline(pauses)), 0);
        }
        wheel.check().unwrap();
        assert!(wheel.advance(Tick::new(first_visit + 8 * range), usize::MAX, &mut due).finished);
        assert_eq!((due.len() as u64, wheel.len()), (count + pauses, 0), "{name}");
    }
}
