//! Attacks on the adapters: re-entrance, a wheel that ends in the middle, bad drops and collisions.

use std::panic::panic_any;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, OnceLock};
use std::thread;
use std::time::Duration;

use core::hash::{BuildHasher, BuildHasherDefault, Hasher};

use crate::adapters::group::Group;
use crate::adapters::keyed::Keyed;
use crate::api::scheduler::Scheduler;
use crate::api::wheel::Wheel;
use crate::values::repeat::{Next, Repeat};

const MS: Duration = Duration::from_millis(1);
const HOUR: Duration = Duration::from_secs(3600);

/// A hasher with four hashes for all keys.
#[derive(Default)]
struct Few(u64);

impl Hasher for Few {
    fn write(&mut self, bytes: &[u8]) {
        self.0 = bytes.iter().fold(self.0, |sum, &byte| sum.wrapping_add(u64::from(byte)));
    }

    fn finish(&self) -> u64 {
        self.0 % 4
    }
}

type Colliding = Keyed<u64, BuildHasherDefault<Few>>;

struct OnDrop<F: FnMut()>(F);

impl<F: FnMut()> Drop for OnDrop<F> {
    fn drop(&mut self) {
        (self.0)();
    }
}

/// A key whose drop uses the `Keyed` that it was in.
struct Nosy(u64, Arc<OnceLock<Keyed<Nosy>>>);

impl std::hash::Hash for Nosy {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.0.hash(state);
    }
}

impl PartialEq for Nosy {
    fn eq(&self, other: &Nosy) -> bool {
        self.0 == other.0
    }
}

impl Eq for Nosy {}

impl Drop for Nosy {
    fn drop(&mut self) {
        let Some(keyed) = self.1.get() else { return };
        let (len, listed) = (keyed.len(), keyed.iter().count());
        assert!(listed <= len && !keyed.contains(self) && !keyed.cancel(self));
    }
}

/// The drop of a key may use the `Keyed` that the key was in.
#[test]
fn key_may_use_its_keyed_when_it_is_dropped() {
    let (wheel, driver) = Wheel::builder().manual().unwrap();
    let own = Arc::new(OnceLock::new());
    let keyed: Keyed<Nosy> = Keyed::new(wheel.scheduler());
    let key = |number| Nosy(number, Arc::clone(&own));
    let asked = Nosy(1, Arc::default());
    assert!(own.set(keyed.clone()).is_ok());
    keyed.insert(key(1), MS, || ()).unwrap();
    assert_eq!(driver.advance(MS), 1);
    keyed.insert(key(1), MS, || ()).unwrap();
    assert!(keyed.cancel(&asked));
    keyed.insert(key(1), MS, || ()).unwrap();
    drop(keyed.take(&asked));
    for number in 0..10 {
        keyed.insert(key(number), HOUR, || ()).unwrap();
    }
    assert_eq!(keyed.cancel_all(), 10);
    keyed.insert(key(1), HOUR, || ()).unwrap();
    drop(wheel);
    assert!(keyed.insert(key(2), HOUR, || ()).is_err());
    assert!(keyed.is_empty());
}

/// A job, and the drop of a value that it captured, may use the `Keyed` of the job.
#[test]
fn job_and_its_drop_may_use_their_keyed() {
    let (wheel, driver) = Wheel::builder().manual().unwrap();
    let keyed: Colliding = Keyed::with_hasher(wheel.scheduler(), BuildHasherDefault::default());
    let ran = Arc::new(AtomicUsize::new(0));
    let job = |key: u64| {
        let (own, ran) = (keyed.clone(), Arc::clone(&ran));
        let dropped = keyed.clone();
        // Its drop inserts a job under another key. No job may be lost, and no call may hang.
        let captured = OnDrop(move || {
            assert!(!dropped.contains(&key) && !dropped.cancel(&key));
            dropped.reset(&(key + 1), HOUR);
            drop(dropped.insert(key + 100, HOUR, || ()));
        });
        move || {
            assert!(!own.contains(&key) && own.handle(&key).is_none());
            own.insert(key, HOUR, || ()).unwrap();
            assert!(own.cancel(&key));
            ran.fetch_add(1, Ordering::SeqCst);
            drop(captured);
        }
    };
    (0..10).for_each(|key| drop(keyed.insert(key, MS, job(key)).unwrap()));
    assert_eq!((driver.advance(MS), ran.load(Ordering::SeqCst), keyed.len()), (10, 10, 10));
    assert_eq!(keyed.cancel_all(), 10);
    (0..10).for_each(|key| drop(keyed.insert(key, MS, job(key)).unwrap()));
    assert!(keyed.cancel(&0) && keyed.take(&1).is_some());
    assert_eq!(keyed.len(), 10);
    // A job that a drop inserts while the others are cancelled may be cancelled too, or stay.
    let cancelled = keyed.cancel_all();
    assert!((10..=20).contains(&cancelled), "{cancelled}");
    assert_eq!(keyed.len(), wheel.len());
    drop(wheel);
    assert!(keyed.is_empty());
}

/// The panic handler may use a `Keyed` and a `Group` during their `cancel_all`.
#[test]
fn panic_handler_may_use_keys_and_groups() {
    struct Bad;
    impl Drop for Bad {
        fn drop(&mut self) {
            panic_any("dropped");
        }
    }
    type Adapters = (Keyed<u64>, Group);
    let own: Arc<OnceLock<Adapters>> = Arc::default();
    let seen = Arc::new(Mutex::new(Vec::new()));
    let (of_handler, seen_there) = (Arc::clone(&own), Arc::clone(&seen));
    let builder = Wheel::builder().on_panic(move |_| {
        let (keyed, group) = of_handler.get().unwrap();
        seen_there.lock().unwrap().push((keyed.len(), group.len()));
    });
    let (wheel, _driver) = builder.manual().unwrap();
    let adapters = (Keyed::new(wheel.scheduler()), Group::new(wheel.scheduler()));
    assert!(own.set(adapters).is_ok());
    let (keyed, group) = own.get().unwrap();
    for key in 0..3 {
        let (bad, worse) = (Bad, Bad);
        keyed.insert(key, HOUR, move || drop(bad)).unwrap();
        group.insert(HOUR, move || drop(worse)).unwrap();
    }
    assert_eq!((keyed.cancel_all(), group.cancel_all()), (3, 3));
    assert_eq!((wheel.stats().panicked, seen.lock().unwrap().len()), (6, 6));
    assert_eq!((wheel.len(), keyed.len(), group.len()), (0, 0, 0));
}

/// A member may drop its group, also when the member repeats or is cancelled with the group.
#[test]
fn group_may_be_dropped_by_its_members() {
    // By a member that runs, by one that repeats, and by one that is cancelled with the group.
    let (wheel, driver) = Wheel::builder().manual().unwrap();
    for repeats in [false, true] {
        let group = Arc::new(Group::new(wheel.scheduler()));
        group.insert(HOUR, || ()).unwrap();
        let mut own = Some(Arc::clone(&group));
        if repeats {
            let last = move |_| {
                drop(own.take());
                Next::Period
            };
            group.repeat(Repeat::every(MS), last).unwrap();
        } else {
            group.insert(MS, move || drop(own.take())).unwrap();
        }
        drop(group);
        assert_eq!((driver.advance(MS), wheel.len()), (1, 0));
    }
    let group = Arc::new(Group::new(wheel.scheduler()));
    let own = Arc::clone(&group);
    let last = group.insert(MS, move || drop(own)).unwrap();
    (0..200).for_each(|_| assert!(group.insert(HOUR, || ()).is_ok()));
    drop(group);
    assert!(wheel.cancel(last) && wheel.is_empty());
}

/// The drop of a cancelled member may cancel and insert into the same group.
#[test]
fn drop_may_use_the_group_that_is_cancelled() {
    let (wheel, _driver) = Wheel::builder().manual().unwrap();
    let group = Arc::new(Group::new(wheel.scheduler()));
    for _ in 0..100 {
        let own = Arc::clone(&group);
        let mut left = 1;
        let captured = OnDrop(move || {
            if left > 0 {
                left -= 1;
                own.cancel_all();
                drop(own.insert(HOUR, || ()));
            }
        });
        group.insert(HOUR, move || drop(captured)).unwrap();
    }
    // Each of them is counted by the call that cancelled it: the outer one, or one in a drop.
    assert!(group.cancel_all() >= 1);
    assert_eq!(group.len(), wheel.len());
    group.cancel_all();
    assert!(group.is_empty() && wheel.is_empty());
}

/// On keys that collide, each job of several threads either runs or comes back.
#[test]
fn keys_that_collide_work_on_many_threads() {
    let wheel = Wheel::builder().tick(Duration::from_micros(1)).threads(2).build().unwrap();
    let keyed: Colliding = Keyed::with_hasher(wheel.scheduler(), BuildHasherDefault::default());
    let (ran, inserted, came_back) =
        (Arc::new(AtomicUsize::new(0)), AtomicUsize::new(0), AtomicUsize::new(0));
    thread::scope(|scope| {
        for seed in 0..4_u64 {
            let (keyed, ran, inserted, came_back) = (&keyed, &ran, &inserted, &came_back);
            scope.spawn(move || {
                let mut random = seed;
                for round in 0..4_000 {
                    random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                    let (key, delay) = (random >> 58 & 7, Duration::from_nanos(random >> 51 & 127));
                    let ran = Arc::clone(ran);
                    let job = move || {
                        ran.fetch_add(1, Ordering::SeqCst);
                    };
                    let replaced = keyed.insert(key, delay, job).unwrap();
                    inserted.fetch_add(1, Ordering::SeqCst);
                    let mut back = usize::from(replaced.is_some());
                    match random >> 40 & 3 {
                        0 => back += usize::from(keyed.cancel(&(key ^ 1))),
                        1 => back += usize::from(keyed.take(&key).is_some()),
                        _ if round % 64 == 0 => back += keyed.cancel_all(),
                        _ => assert!(keyed.iter().count() <= 8),
                    }
                    came_back.fetch_add(back, Ordering::SeqCst);
                }
            });
        }
    });
    while !wheel.is_empty() || wheel.stats().in_flight > 0 {
        thread::yield_now();
    }
    assert_eq!((keyed.len(), keyed.iter().count(), wheel.stats().panicked), (0, 0, 0));
    let ended = ran.load(Ordering::SeqCst) + came_back.load(Ordering::SeqCst);
    assert_eq!(ended, inserted.load(Ordering::SeqCst));
}

/// If a wheel ends while other threads insert, every job is dropped, and no key or member is left.
#[test]
fn wheel_may_end_while_threads_insert_under_keys() {
    for round in 0..30 {
        let wheel = Wheel::builder().threads(1).shards(2).build().unwrap();
        let keyed: Keyed<u64> = Keyed::new(wheel.scheduler());
        let group = Group::new(wheel.scheduler());
        let token = Arc::new(());
        let job = || {
            let token = Arc::clone(&token);
            move || drop(token)
        };
        let begun = AtomicUsize::new(0);
        thread::scope(|scope| {
            let uses = |key: u64| {
                let (keyed, group, job, begun) = (&keyed, &group, &job, &begun);
                move || {
                    let now = std::time::SystemTime::UNIX_EPOCH;
                    begun.fetch_add(1, Ordering::SeqCst);
                    loop {
                        let _ = keyed.insert(key, now, job());
                        let _ = group.repeat(Repeat::every(HOUR), {
                            let mut job = Some(job());
                            move |_| {
                                job.take().into_iter().for_each(|job| job());
                                Next::Stop
                            }
                        });
                        if keyed.insert(key, HOUR, job()).is_err() {
                            return;
                        }
                    }
                }
            };
            (0..2).for_each(|key| drop(scope.spawn(uses(key))));
            while begun.load(Ordering::SeqCst) < 2 {
                thread::yield_now();
            }
            match round % 2 {
                0 => drop(wheel),
                _ => drop(wheel.shutdown()),
            }
        });
        // A thread of the pool may drop the last of them.
        while Arc::strong_count(&token) > 1 || !keyed.is_empty() || !group.is_empty() {
            thread::yield_now();
        }
    }
}

/// The engine is dropped with the wheel and the jobs that it handed back.
#[test]
fn wheel_that_ends_breaks_the_circle_of_keys_and_jobs() {
    // A job holds its key's ticket, which holds the keys, which hold the engine, which holds the
    // job. Once the wheel and the jobs that it handed back are dropped, nothing holds the engine.
    for handed_back in [false, true] {
        let (wheel, driver) = Wheel::builder().manual().unwrap();
        let scheduler: Scheduler = wheel.scheduler();
        let engine = Arc::downgrade(scheduler.engine());
        drop(scheduler);
        let (keyed, group) = (Keyed::new(wheel.scheduler()), Group::new(wheel.scheduler()));
        for key in 0..10 {
            let own = keyed.clone();
            keyed.insert(key, HOUR, move || drop(own)).unwrap();
            group.insert(HOUR, || ()).unwrap();
        }
        keyed.insert(10, driver.wall_now() + HOUR, || ()).unwrap();
        let taken = keyed.take(&3);
        group.detach();
        drop((keyed, driver));
        match handed_back {
            false => drop(wheel),
            true => assert_eq!(wheel.shutdown().count(), 20),
        }
        assert!(engine.upgrade().is_some(), "a job that was taken holds its keys");
        drop(taken);
        assert!(engine.upgrade().is_none());
    }
}

/// A hasher that panics in its drop costs the last job no run, and the panic is counted.
#[test]
fn hasher_that_panics_when_dropped_costs_no_run() {
    // The hasher is dropped with the last job of a `Keyed` that is gone.
    #[derive(Clone)]
    struct BadHasher;
    impl BuildHasher for BadHasher {
        type Hasher = Few;
        fn build_hasher(&self) -> Few {
            Few::default()
        }
    }
    impl Drop for BadHasher {
        fn drop(&mut self) {
            panic_any("dropped");
        }
    }
    let (wheel, driver) = Wheel::builder().manual().unwrap();
    let keyed = Keyed::with_hasher(wheel.scheduler(), BadHasher);
    let ran = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&ran);
    keyed.insert(1, MS, move || _ = count.fetch_add(1, Ordering::SeqCst)).unwrap();
    drop(keyed);
    assert_eq!((driver.advance(MS), ran.load(Ordering::SeqCst)), (1, 1));
    assert_eq!(wheel.stats().panicked, 1);
}
