//! Calls from inside keys and groups: from jobs, drops and the panic handler, also while the wheel ends.

use super::names::Constant;
use super::*;
use std::hash::{BuildHasher, Hash, Hasher};

use tickwheel::{Group, Keyed, Next, Repeat};

/// A key whose drop uses the `Keyed` that it was in.
struct Nosy(u64, Arc<OnceLock<Keyed<Nosy>>>);

impl Hash for Nosy {
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
    let (wheel, driver) = manual();
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

/// The panic handler may use a `Keyed` and a `Group` during their `cancel_all`.
#[test]
fn panic_handler_may_use_keys_and_groups() {
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
        let [bad, worse] = [0, 1].map(|_| OnDrop(|| panic_any("dropped")));
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
    let (wheel, driver) = manual();
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
    let (wheel, _driver) = manual();
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
            wait_for(|| begun.load(Ordering::SeqCst) == 2);
            ENDS[round % 2](wheel);
        });
        // A thread of the pool may drop the last of them.
        wait_for(|| Arc::strong_count(&token) == 1 && keyed.is_empty() && group.is_empty());
    }
}

/// A hasher that panics in its drop costs the last job no run, and the panic is counted.
#[test]
fn hasher_that_panics_when_dropped_costs_no_run() {
    #[derive(Clone)]
    struct BadHasher;
    impl BuildHasher for BadHasher {
        type Hasher = Constant;
        fn build_hasher(&self) -> Constant {
            Constant
        }
    }
    impl Drop for BadHasher {
        fn drop(&mut self) {
            panic_any("dropped");
        }
    }
    let (wheel, driver) = manual();
    let keyed = Keyed::with_hasher(wheel.scheduler(), BadHasher);
    let ran = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&ran);
    keyed.insert(1, MS, move || _ = count.fetch_add(1, Ordering::SeqCst)).unwrap();
    drop(keyed);
    assert_eq!((driver.advance(MS), ran.load(Ordering::SeqCst)), (1, 1));
    assert_eq!(wheel.stats().panicked, 1);
}
