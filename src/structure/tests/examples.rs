//! Regression tests: histories that an implementation got wrong once, each named after its bug.

use core::ops::Range;

use crate::structure::{Geometry, Hierarchy, Key};
use crate::values::time::Tick;

const ALL: usize = usize::MAX;

fn with(sizes: &[usize]) -> Hierarchy<u64> {
    Hierarchy::new(Geometry::levels(sizes).unwrap())
}

/// Adds a timer whose value is its deadline.
fn insert(wheel: &mut Hierarchy<u64>, deadline: u64) -> Key {
    wheel.insert(Tick::new(deadline), deadline)
}

/// Advances to the end of the tick `to`. Returns the values that come due.
fn advance(wheel: &mut Hierarchy<u64>, to: u64) -> Vec<u64> {
    let mut due = Vec::new();
    assert!(wheel.advance(Tick::new(to), ALL, &mut due).finished);
    wheel.check().unwrap();
    due.into_iter().map(|(_, value)| value).collect()
}

/// A timer fires on its tick, wherever its slot lies.
#[test]
fn timer_fires_on_its_tick_wherever_its_slot_lies() {
    /// Each moment at which a timer is set, and its deadline.
    type Timers = Vec<(u64, u64)>;
    let at_each = |nows: Range<u64>, deadlines: &dyn Fn(u64) -> Vec<u64>| -> Timers {
        nows.flat_map(|now| deadlines(now).into_iter().map(move |deadline| (now, deadline)))
            .collect()
    };
    let multiples = |now| [4, 8, 12, 20, 40, 60].map(|multiple| now + multiple).to_vec();
    let cases: [(&str, &[&[usize]], Timers); 4] = [
        ("a multiple of the ring ahead", &[&[4], &[4, 5]], at_each(0..8, &multiples)),
        ("behind the cursor of one ring", &[&[3600]], vec![(3599, 3601)]),
        ("behind the cursor of two rings", &[&[8, 8]], vec![(63, 65), (62, 71)]),
        ("around a cascade", &[&[4, 4], &[16, 4]], at_each(0..14, &|_| (14..=18).collect())),
    ];
    for (name, geometries, timers) in cases {
        for (sizes, (now, deadline)) in
            geometries.iter().flat_map(|sizes| timers.iter().map(move |it| (sizes, *it)))
        {
            // The last line is the case that fails.
            eprintln!("{name}, set at {now} for {deadline} on {sizes:?}");
            let mut wheel = with(sizes);
            assert!(advance(&mut wheel, now).is_empty());
            insert(&mut wheel, deadline);
            let fired = (now + 1..).find(|&tick| !advance(&mut wheel, tick).is_empty());
            assert_eq!(fired, Some(deadline));
        }
    }
}

/// Timers come in the order of their deadlines, none early. `next_turn` is no later than the first of them.
#[test]
fn timers_come_in_deadline_order() {
    const RINGS: [usize; 2] = [4, 4];
    let stalled = (0..200).map(|n| (n * 77) % 509 + 1).collect();
    let mut cases: Vec<(&str, &[usize], u64, Vec<u64>)> = vec![
        ("a later one that could hide an earlier", &[4, 4, 4], 0, vec![60, 6, 17]),
        ("after a long stall", &RINGS, 0, stalled),
    ];
    // 2^32 milliseconds are 49.7 days, 2^36 are 2.2 years, and 2^63 are 292 million years.
    for start in [(1_u64 << 32) - 3, 1 << 36, i64::MAX as u64 - 3, u64::MAX - 400] {
        for sizes in [&[256, 256, 256, 256][..], &[3600], &[10, 7]] {
            cases.push(("after years of uptime", sizes, start, vec![300, 1, 2, 256, 7]));
        }
    }
    let beyond = [15, 16, 17, 160, 1_000_003];
    cases.extend(beyond.map(|delay| ("beyond every ring", &RINGS[..], 0, vec![delay])));
    for (name, sizes, start, delays) in cases {
        // The last line is the case that fails.
        eprintln!("{name}, from {start} on {sizes:?}");
        let mut wheel = with(sizes);
        advance(&mut wheel, start);
        let mut deadlines: Vec<u64> = delays.into_iter().map(|delay| start + delay).collect();
        deadlines.iter().for_each(|&deadline| _ = insert(&mut wheel, deadline));
        deadlines.sort_unstable();
        assert!(wheel.next_turn().unwrap() <= Tick::new(deadlines[0]));
        assert_eq!(advance(&mut wheel, deadlines[0] - 1), []);
        assert_eq!(advance(&mut wheel, deadlines[deadlines.len() - 1]), deadlines, "none is late");
    }
}

/// Timers fire on their ticks, however often the outermost ring wraps.
#[test]
fn outermost_ring_is_exact_after_it_wraps() {
    let mut wheel = with(&[2, 3]);
    for round in 0..40 {
        let now = round * 7;
        insert(&mut wheel, now + 5);
        insert(&mut wheel, now + 6);
        insert(&mut wheel, now + 7);
        assert_eq!(advance(&mut wheel, now + 7), [now + 5, now + 6, now + 7]);
    }
}

/// The cancel of the first, the last or the only entry of a slot leaves the other entries there.
#[test]
fn removal_of_any_entry_of_a_slot_spares_the_others() {
    for removed in 0..3 {
        let mut wheel = with(&[8]);
        let keys: Vec<Key> = (0..3).map(|n| wheel.insert(Tick::new(5), n)).collect();
        assert_eq!(wheel.cancel(keys[removed]), Some(removed as u64));
        wheel.check().unwrap();
        let mut left = advance(&mut wheel, 8);
        left.sort_unstable();
        assert_eq!(left, (0..3).filter(|&n| n != removed as u64).collect::<Vec<_>>());
    }
    let mut wheel = with(&[8]);
    let only = insert(&mut wheel, 5);
    assert_eq!(wheel.cancel(only), Some(5));
    wheel.check().unwrap();
    assert_eq!(wheel.next_turn(), None);
}

/// A timer whose deadline has passed is due at the next tick.
#[test]
fn deadline_in_the_past_is_due_at_the_next_tick() {
    let mut wheel = with(&[4, 4]);
    advance(&mut wheel, 10);
    for deadline in [12, 11, 7, 10, 3, 11, 9] {
        insert(&mut wheel, deadline);
    }
    assert!(advance(&mut wheel, 10).is_empty());
    assert_eq!(wheel.next_turn(), Some(Tick::new(11)));
    let mut due = advance(&mut wheel, 12);
    due[..6].sort_unstable();
    assert_eq!(due, [3, 7, 9, 10, 11, 11, 12]);
}

/// An advance takes no time for the cycles that it jumps over.
#[test]
fn jump_over_many_cycles_does_not_spin() {
    // A ring of 60, a timer at the end of time, and advances that would be 10^17 cycles.
    let mut wheel = with(&[60]);
    let never = insert(&mut wheel, u64::MAX);
    let soon = insert(&mut wheel, 61);
    assert_eq!(advance(&mut wheel, 1 << 36), [61]);
    assert!(!wheel.contains(soon) && wheel.contains(never));
    assert_eq!(wheel.cancel(never), Some(u64::MAX));
    insert(&mut wheel, 1 << 62);
    insert(&mut wheel, (1 << 37) + 59);
    assert_eq!(advance(&mut wheel, 1 << 38), [(1 << 37) + 59]);
}

/// At `Tick::MAX`, a timer fires at the next advance.
#[test]
fn end_of_time_fires_timers_again_and_again() {
    let mut wheel = with(&[256, 256, 256, 256]);
    insert(&mut wheel, u64::MAX);
    assert!(advance(&mut wheel, u64::MAX - 1).is_empty());
    assert_eq!(advance(&mut wheel, u64::MAX), [u64::MAX]);
    assert_eq!(wheel.now(), Tick::MAX);
    insert(&mut wheel, 5);
    assert_eq!(advance(&mut wheel, u64::MAX), [5]);
}

/// An advance with a small budget resumes correctly after cancels and inserts.
#[test]
fn advance_in_small_steps_allows_cancels_and_inserts() {
    let mut wheel = with(&[4]);
    let keys: Vec<Key> = (0..100).map(|n| wheel.insert(Tick::new(2 + 4 * (n % 2)), n)).collect();
    let mut due = Vec::new();
    let mut turns = 0;
    while !wheel.advance(Tick::new(2), 7, &mut due).finished {
        turns += 1;
        assert_eq!(wheel.now(), Tick::new(1));
        wheel.check().unwrap();
        if turns == 3 {
            let gone: Vec<u64> = keys[..10].iter().filter_map(|&key| wheel.cancel(key)).collect();
            assert!(gone.len() >= 5, "the odd ones wait for another cycle");
            wheel.insert(Tick::new(2), 100);
        }
    }
    let fired: Vec<u64> = due.iter().map(|&(_, value)| value).collect();
    assert!(fired.contains(&100) && fired.iter().all(|value| value % 2 == 0));
    assert!((1..100).filter(|n| n % 2 == 1 && *n >= 10).all(|n| wheel.contains(keys[n])));
    assert_eq!(wheel.now(), Tick::new(2));
}

/// A million timers on one tick all fire, after one visit of each on each level.
#[test]
fn tick_with_a_million_timers_visits_each_once_a_level() {
    let mut wheel = Hierarchy::default();
    for n in 0..1_000_000 {
        wheel.insert(Tick::new(70_000), n);
    }
    let (mut due, mut turns) = (Vec::new(), 1);
    while !wheel.advance(Tick::new(70_000), 1000, &mut due).finished {
        turns += 1;
    }
    assert_eq!(due.len(), 1_000_000);
    assert!(turns <= 3001, "each entry is looked at once a level: {turns} turns");
    wheel.check().unwrap();
}

/// `check` names the invariant that a planted mistake breaks.
#[test]
fn check_finds_broken_invariants() {
    let broken = |plant: fn(&mut Hierarchy<u64>, Key)| {
        let mut wheel = with(&[4, 4]);
        let key = insert(&mut wheel, 3);
        wheel.check().unwrap();
        plant(&mut wheel, key);
        wheel.check().unwrap_err().invariant()
    };
    assert_eq!(broken(|wheel, _| wheel.cursor = Tick::new(9)), "I1");
    assert_eq!(broken(|wheel, key| wheel.table.at_mut(key.index).position += 1), "I2");
    assert_eq!(broken(|wheel, key| wheel.table.at_mut(key.index).deadline = Tick::new(2)), "I4");
    assert_eq!(broken(|wheel, key| wheel.table.at_mut(key.index).deadline = Tick::new(0)), "I4");
}
