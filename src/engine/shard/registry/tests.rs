//! Tests of the registry: memory, moves, and readings of the wall clock.

use super::*;
use crate::host::clock::Clock;

fn register(registry: &mut Registry) -> Handle {
    let (generation, index) = registry.register();
    Handle::rearmable(0, generation, index)
}

/// The registry keeps a reading of the wall clock as long as a registered job waits for a wall-clock time.
#[test]
fn wall_clock_is_watched_while_a_job_waits_for_it() {
    let mut registry = Registry::default();
    let (a, b) = (register(&mut registry), register(&mut registry));
    let clock = Clock::manual();
    let wall = Target::exact(Point::Wall(clock.wall()));
    let soon = |clock: &Clock| {
        let (moment, reading) = clock.moment_of_wall(clock.wall());
        Estimate { moment, reading: Some(reading) }
    };
    for _ in 0..2 {
        registry.set_target(a, wall, soon(&clock));
        registry.set_target(b, wall, soon(&clock));
    }
    let count = |registry: &mut Registry| {
        let estimate = |index| registry.estimate_anew(index, |_| true, |_| soon(&clock)).is_some();
        (0..2).map(estimate).filter(|&on_the_wall| on_the_wall).count()
    };
    assert_eq!(count(&mut registry), 2);
    let later = Moment::after(Duration::from_secs(1));
    let never = Estimate { moment: later, reading: None };
    registry.set_target(a, Target::exact(Point::Moment(later)), never);
    assert!(registry.wall_offsets().is_some());
    registry.deregister(b);
    assert!(registry.wall_offsets().is_none() && count(&mut registry) == 0);
    registry.set_target(b, wall, soon(&clock));
    assert!(registry.wall_offsets().is_none(), "it is not registered");
}

/// The registry keeps the least and the greatest reading of the wall clock.
#[test]
fn wall_readings_are_kept_from_least_to_most() {
    let mut registry = Registry::default();
    let clock = Clock::manual();
    let (begin, ms) = (clock.wall(), Duration::from_millis(1));
    for shift in [5, 9, 0, 3] {
        let handle = register(&mut registry);
        clock.set_wall(begin + ms * shift);
        let (moment, reading) = clock.moment_of_wall(begin);
        let estimate = Estimate { moment, reading: Some(reading) };
        registry.set_target(handle, Target::exact(Point::Wall(begin)), estimate);
    }
    let readings = registry.wall_offsets().unwrap();
    let from = |shift| {
        clock.set_wall(begin + ms * shift);
        readings.distance(clock.read_wall_closely())
    };
    assert_eq!([from(0), from(4), from(5), from(20)], [ms * 9, ms * 5, ms * 5, ms * 20]);
}

/// A few jobs do not pin the memory of many that have gone. Their handles go on working, and those
/// of the others stay stale, however often the registrations move.
#[test]
fn registry_gives_back_the_memory_of_a_burst_while_few_stay() {
    let mut registry = Registry::default();
    let mut kept: Vec<(Handle, u64)> = Vec::new();
    let mut stale = Vec::new();
    for burst in 0..4 {
        let mut handles: Vec<Handle> =
            (0..20 * KEPT_REGISTRATIONS).map(|_| register(&mut registry)).collect();
        // The last one had the highest index.
        for _ in 0..3 {
            let handle = handles.pop().unwrap();
            let missed = handle.generation().get();
            registry.registration(handle).unwrap().missed = missed;
            kept.push((handle, missed));
        }
        for &handle in &handles {
            assert!(registry.deregister(handle).is_some());
            assert!(registry.deregister(handle).is_none());
        }
        let room = registry.registrations.capacity();
        assert!(room <= KEPT_REGISTRATIONS, "room for {room} after burst {burst}");
        stale.extend(handles);
        assert!(stale.iter().all(|&handle| registry.registration(handle).is_none()));
        for &(handle, missed) in &kept {
            assert_eq!(registry.registration(handle).unwrap().missed, missed);
        }
        let (first, _) = kept.remove(0);
        assert!(registry.deregister(first).is_some() && registry.deregister(first).is_none());
        assert_eq!(registry.len(), kept.len());
    }
    let forged = kept.iter().map(|&(it, _)| Handle::rearmable(0, it.generation(), u32::MAX));
    assert!(forged.into_iter().all(|handle| registry.registration(handle).is_none()));
    kept.into_iter().for_each(|(handle, _)| assert!(registry.deregister(handle).is_some()));
    assert!(registry.len() == 0 && registry.moved.is_empty());
    assert!(registry.registrations.capacity() <= KEPT_REGISTRATIONS);
}

/// A walk misses no registration that moves to an index that it has passed.
#[test]
fn walk_begins_anew_when_registrations_have_moved() {
    let mut registry = Registry::default();
    let handles: Vec<Handle> =
        (0..2 * KEPT_REGISTRATIONS).map(|_| register(&mut registry)).collect();
    let mut walk = Walk::default();
    assert_eq!(registry.go_on(&mut walk, 256), Some(0..256));
    assert_eq!(registry.go_on(&mut walk, 256), Some(256..512));
    let (last, others) = handles.split_last().unwrap();
    others.iter().for_each(|&handle| assert!(registry.deregister(handle).is_some()));
    let seen = registry.go_on(&mut walk, 256).unwrap();
    assert!(seen.contains(&registry.index_of(*last).unwrap()), "{seen:?}");
    while registry.go_on(&mut walk, 256).is_some() {}
}
