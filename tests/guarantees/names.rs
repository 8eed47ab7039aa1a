//! Jobs under keys.

use super::*;
use std::hash::{BuildHasher, BuildHasherDefault, Hash, Hasher};
use tickwheel::{Keyed, Next, Repeat, Run};

/// C42: `insert` replaces the job of a key and gives it back; `insert_if_absent` leaves it.
#[test]
fn key_has_one_job() {
    let (wheel, driver) = manual();
    let orders = Keyed::new(wheel.scheduler());
    let (sender, ran) = channel();
    let job = |name: &'static str| {
        let sender = sender.clone();
        move || sender.send(name).unwrap()
    };
    assert!(orders.insert("a", MS * 5, job("first")).unwrap().is_none());
    // A second job replaces the first. The first comes back, and runs only when the test runs it.
    let replaced = orders.insert("a", MS * 7, job("second")).unwrap().unwrap();
    assert_eq!((orders.len(), wheel.len(), orders.remaining(&"a")), (1, 1, Some(MS * 7)));
    replaced.run();
    assert_eq!(ran.try_recv(), Ok("first"));
    assert!(orders.contains(&"a"), "the key is the second's");
    // `insert_if_absent` does not replace it.
    let refused = orders.insert_if_absent("a", MS, job("third")).unwrap_err();
    assert_eq!(refused.kind(), InsertErrorKind::Occupied);
    let (key, third) = refused.into_inner();
    orders.insert_if_absent("b", MS, third).unwrap();
    assert_eq!((key, driver.advance(MS), ran.try_recv()), ("a", 1, Ok("third")));
    // It is reset, and its remaining time is read.
    assert!(orders.reset(&"a", driver.now() + MS * 2) && !orders.reset(&"b", MS));
    assert_eq!(orders.iter().map(|(key, left)| (*key, left)).collect::<Vec<_>>(), [("a", MS * 2)]);
    assert_eq!((driver.advance(MS * 2), ran.try_recv()), (1, Ok("second")));
    assert!(orders.is_empty() && !orders.contains(&"a") && orders.remaining(&"a").is_none());
    // It is cancelled, or taken.
    orders.insert("c", MS, job("fourth")).unwrap();
    orders.insert("d", driver.wall_now() + MS, job("fifth")).unwrap();
    assert!(orders.cancel(&"c") && !orders.cancel(&"c"));
    orders.take(&"d").unwrap().run();
    assert!(orders.take(&"d").is_none() && ran.try_recv() == Ok("fifth"));
    orders.insert("e", MS, job("sixth")).unwrap();
    orders.insert("f", MS, job("seventh")).unwrap();
    assert_eq!((orders.cancel_all(), orders.len(), wheel.len()), (2, 0, 0));
}

/// C42: A job for a wall-clock time can be replaced while it waits for a thread.
#[test]
fn key_can_be_replaced_on_the_way_to_the_pool() {
    // A job for a wall-clock time can be cancelled until it starts, and so it can be replaced.
    let wheel = threads(1);
    let release = blocker(&wheel);
    let orders = Keyed::new(wheel.scheduler());
    let (sender, ran) = channel();
    for name in ["first", "second"] {
        let sender = sender.clone();
        let past = std::time::SystemTime::UNIX_EPOCH;
        assert!(orders.insert(1, past, move || sender.send(name).unwrap()).unwrap().is_none());
        wait_for(|| wheel.stats().pending == 0);
        assert!(orders.contains(&1) && orders.insert_if_absent(1, MS, || ()).is_err());
    }
    drop((release, sender));
    assert_eq!(ran.iter().collect::<Vec<_>>(), ["second"]);
    assert!(orders.is_empty());
}

/// C43, C45: No key is left behind, in any order of verbs on any number of threads, also if all keys collide.
#[test]
fn key_is_never_left_behind() {
    use_keys_on_many_threads(std::hash::RandomState::new(), Duration::from_millis(1));
    use_keys_on_many_threads(Colliding::default(), Duration::from_micros(1));
}

/// Few keys, short delays, and threads that insert, replace, reset, cancel and take them all the while. Every job ends
/// in exactly one way, and then its key is gone.
fn use_keys_on_many_threads<S>(hasher: S, tick: Duration)
where
    S: BuildHasher + Clone + Send + Sync + 'static,
{
    let wheel = Wheel::builder().threads(2).tick(tick).build().unwrap();
    let devices = Keyed::<u64, S>::with_hasher(wheel.scheduler(), hasher);
    let (ran, inserted, came_back) =
        (Arc::new(AtomicUsize::new(0)), AtomicUsize::new(0), AtomicUsize::new(0));
    let (token, alive) = counted();
    thread::scope(|scope| {
        for seed in 0..4_u64 {
            let (devices, ran, token) = (&devices, &ran, Arc::clone(&token));
            let (inserted, came_back) = (&inserted, &came_back);
            scope.spawn(move || {
                let mut random = seed;
                for round in 0..5_000 {
                    random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                    let (key, choice) = (random >> 60 & 3, random >> 40 & 7);
                    let delay = tick * (random >> 50 & 4095) as u32 / 1000;
                    let (ran, token) = (Arc::clone(ran), Arc::clone(&token));
                    let job = move || {
                        drop(token);
                        ran.fetch_add(1, Ordering::SeqCst);
                    };
                    let count = |counter: &AtomicUsize, by: bool| {
                        counter.fetch_add(usize::from(by), Ordering::SeqCst);
                    };
                    match choice {
                        0..=2 => {
                            let replaced = devices.insert(key, delay, job).unwrap();
                            count(inserted, true);
                            count(came_back, replaced.is_some());
                        }
                        3 | 4 => {
                            count(inserted, devices.insert_if_absent(key, delay, job).is_ok());
                        }
                        5 => count(came_back, devices.cancel(&key)),
                        6 => count(came_back, devices.take(&key).is_some()),
                        _ if round % 64 == 0 => {
                            came_back.fetch_add(devices.cancel_all(), Ordering::SeqCst);
                        }
                        _ => {
                            devices.reset(&key, delay);
                            assert!(devices.iter().count() <= 4);
                        }
                    }
                }
            });
        }
    });
    drop(token);
    wait_for(|| wheel.is_empty() && wheel.stats().in_flight == 0);
    assert_eq!((devices.len(), devices.iter().count(), alive()), (0, 0, 0));
    assert_eq!(wheel.stats().panicked, 0);
    let ended = ran.load(Ordering::SeqCst) + came_back.load(Ordering::SeqCst);
    assert_eq!(ended, inserted.load(Ordering::SeqCst));
}

/// C43: The end of the wheel frees every key, when its job is dropped.
#[test]
fn end_of_the_wheel_frees_every_key() {
    let (wheel, _driver) = manual();
    let orders = Keyed::new(wheel.scheduler());
    (0..10).for_each(|key| drop(orders.insert(key, HOUR, || ()).unwrap()));
    let unfired = wheel.shutdown();
    assert_eq!((unfired.len(), orders.len()), (10, 10));
    assert!(!orders.contains(&3) && orders.iter().next().is_none(), "none of them is pending");
    // A key still has the handle of its job until the job is dropped.
    for (left, unfired) in (0..10).rev().zip(unfired) {
        let key = (0..10).find(|key| orders.handle(key) == Some(unfired.handle));
        assert!(key.is_some());
        drop(unfired);
        assert_eq!(orders.len(), left);
    }
    assert!(orders.is_empty());
    let late = orders.insert(11, HOUR, || ()).unwrap_err();
    assert_eq!((late.kind(), late.into_inner().0), (InsertErrorKind::Shutdown, 11));
    let late = orders.insert_batch([(11, HOUR, || ())]).unwrap_err();
    assert_eq!((late.kind(), late.into_inner().len()), (InsertErrorKind::Shutdown, 1));
    assert!(orders.is_empty());
}

/// A hasher with which all keys collide.
#[derive(Default)]
pub(crate) struct Constant;

pub(crate) type Colliding = BuildHasherDefault<Constant>;

impl Hasher for Constant {
    fn finish(&self) -> u64 {
        4
    }

    fn write(&mut self, _: &[u8]) {}
}

/// A key that is equal to all others. It may call a function, once, when another key is compared with it.
#[derive(Default)]
pub(crate) struct Compared(Mutex<Option<Box<dyn FnOnce() + Send>>>);

impl Compared {
    pub(crate) fn calling(call: impl FnOnce() + Send + 'static) -> Compared {
        Compared(Mutex::new(Some(Box::new(call))))
    }
}

impl PartialEq for Compared {
    fn eq(&self, _: &Compared) -> bool {
        let call = self.0.lock().unwrap().take();
        call.into_iter().for_each(|call| call());
        true
    }
}

impl Eq for Compared {}

impl Hash for Compared {
    fn hash<H: Hasher>(&self, _: &mut H) {}
}

/// The operation in which a key panics now.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
enum Trouble {
    #[default]
    Nothing,
    Hash,
    Eq,
    Drop,
}

/// A key that panics in the operation that `trouble` names.
struct Touchy {
    number: u32,
    trouble: Arc<Mutex<Trouble>>,
}

impl Touchy {
    fn panic_in(&self, now: Trouble) {
        let trouble = *self.trouble.lock().unwrap();
        // A second panic while the first unwinds would end the process.
        if trouble == now && !thread::panicking() {
            panic_any(now);
        }
    }
}

impl Hash for Touchy {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.panic_in(Trouble::Hash);
        self.number.hash(state);
    }
}

impl PartialEq for Touchy {
    fn eq(&self, other: &Touchy) -> bool {
        self.panic_in(Trouble::Eq);
        self.number == other.number
    }
}

impl Eq for Touchy {}

impl Drop for Touchy {
    fn drop(&mut self) {
        self.panic_in(Trouble::Drop);
    }
}

/// A manual wheel with keys that can be made to panic, and the panics that were reported.
struct TouchyKeys {
    wheel: Wheel,
    driver: Driver,
    keys: Keyed<Touchy, Colliding>,
    trouble: Arc<Mutex<Trouble>>,
    reported: Receiver<Trouble>,
}

impl TouchyKeys {
    fn new() -> TouchyKeys {
        let (sender, reported) = channel();
        let builder = Wheel::builder().shards(3).on_panic(move |panic| {
            let _ = sender.send(*panic.payload.downcast::<Trouble>().unwrap());
        });
        let (wheel, driver) = builder.manual().unwrap();
        let keys = Keyed::with_hasher(wheel.scheduler(), Colliding::default());
        TouchyKeys {
            wheel,
            driver,
            keys,
            trouble: Arc::new(Mutex::new(Trouble::Nothing)),
            reported,
        }
    }

    fn key(&self, number: u32) -> Touchy {
        Touchy { number, trouble: Arc::clone(&self.trouble) }
    }

    fn set(&self, trouble: Trouble) {
        *self.trouble.lock().unwrap() = trouble;
    }

    /// Returns how many panics were counted, and which were reported since the last call.
    fn panics(&self) -> (u64, Vec<Trouble>) {
        (self.wheel.stats().panicked, self.reported.try_iter().collect())
    }
}

/// C46: A key that panics in its drop costs no job its run.
#[test]
fn key_that_panics_costs_no_job_its_run() {
    for trouble in [Trouble::Hash, Trouble::Eq, Trouble::Drop] {
        let touchy = TouchyKeys::new();
        let (sender, ran) = channel();
        for number in 0..3 {
            let sender = sender.clone();
            let job = move || sender.send(number).unwrap();
            touchy.keys.insert(touchy.key(number), MS * (number + 1), job).unwrap();
        }
        touchy.set(trouble);
        assert_eq!(touchy.driver.advance(MS * 2), 2);
        assert_eq!(ran.try_iter().collect::<Vec<_>>(), [0, 1], "with a panic in {trouble:?}");
        assert_eq!((touchy.keys.len(), touchy.wheel.len()), (1, 1));
        // The start of a job calls neither `Hash` nor `Eq` of its key.
        let panics = if trouble == Trouble::Drop { vec![trouble; 2] } else { Vec::new() };
        assert_eq!(touchy.panics(), (panics.len() as u64, panics));
        touchy.set(Trouble::Nothing);
    }
}

/// C46: If a key and its job both panic, each panic is counted and reported once.
#[test]
fn key_and_its_job_may_both_panic() {
    // In the call of a job, and in the drop of a job that never runs: each panic is counted
    // separately.
    let touchy = TouchyKeys::new();
    touchy.keys.insert(touchy.key(1), MS, || panic_any(Trouble::Nothing)).unwrap();
    let captured = OnDrop(|| panic_any(Trouble::Nothing));
    let cancelled = move || drop(captured);
    touchy.keys.insert(touchy.key(2), HOUR, cancelled).unwrap();
    touchy.set(Trouble::Drop);
    assert_eq!(touchy.driver.advance(MS), 1);
    assert_eq!(touchy.panics(), (2, vec![Trouble::Drop, Trouble::Nothing]));
    assert_eq!(touchy.keys.cancel_all(), 1);
    let (count, mut panics) = touchy.panics();
    panics.sort_by_key(|trouble| *trouble == Trouble::Drop);
    assert_eq!((count, panics), (4, vec![Trouble::Nothing, Trouble::Drop]));
    assert!(touchy.keys.is_empty() && touchy.wheel.is_empty());
    touchy.set(Trouble::Nothing);
}

/// C47: A panic in the drop of a key is counted, and the verb returns what it would return without it.
#[test]
fn panic_in_the_drop_of_a_key_is_counted_and_reported() {
    let touchy = TouchyKeys::new();
    let keys = &touchy.keys;
    let mut panicked = 0;
    let mut one_more = |removes: &dyn Fn() -> bool| {
        keys.insert(touchy.key(1), HOUR, || ()).unwrap();
        touchy.set(Trouble::Drop);
        assert!(removes());
        assert_eq!((keys.len(), touchy.wheel.len()), (0, 0));
        panicked += 1;
        assert_eq!(touchy.panics(), (panicked, vec![Trouble::Drop]));
        touchy.set(Trouble::Nothing);
    };
    let asked = Touchy { number: 1, trouble: Arc::default() };
    one_more(&|| keys.cancel(&asked));
    one_more(&|| keys.take(&asked).map(drop).is_some());
    one_more(&|| keys.cancel_all() == 1);
    // When a job is replaced, its key is dropped with it.
    keys.insert(touchy.key(1), HOUR, || ()).unwrap();
    let another = Touchy { number: 1, trouble: Arc::default() };
    touchy.set(Trouble::Drop);
    drop(keys.insert(another, HOUR, || ()).unwrap().unwrap());
    assert_eq!(touchy.panics(), (panicked + 1, vec![Trouble::Drop]));
    assert_eq!((keys.len(), touchy.wheel.len()), (1, 1));
}

/// C47: `cancel_all` cancels all other jobs if the drop of one key panics.
#[test]
fn key_that_panics_spares_the_others_of_cancel_all() {
    let touchy = TouchyKeys::new();
    for number in 0..20 {
        let trouble = if number % 5 == 0 { Arc::clone(&touchy.trouble) } else { Arc::default() };
        touchy.keys.insert(Touchy { number, trouble }, HOUR, || ()).unwrap();
    }
    touchy.set(Trouble::Drop);
    assert_eq!(touchy.keys.cancel_all(), 20);
    assert_eq!((touchy.keys.len(), touchy.wheel.len()), (0, 0));
    assert_eq!(touchy.panics(), (4, vec![Trouble::Drop; 4]));
}

/// C48: A panic in `Hash` or `Eq` of a key unwinds out of the verb, which has changed nothing.
#[test]
fn key_that_panics_in_hash_or_eq_changes_nothing() {
    for trouble in [Trouble::Hash, Trouble::Eq] {
        let touchy = TouchyKeys::new();
        let keys = &touchy.keys;
        keys.insert(touchy.key(1), HOUR, || ()).unwrap();
        let handle = keys.handle(&touchy.key(1));
        let asked = touchy.key(1);
        let panics = |verb: &dyn Fn()| {
            touchy.set(trouble);
            let payload = catch_unwind(AssertUnwindSafe(verb)).unwrap_err();
            assert_eq!(*payload.downcast::<Trouble>().unwrap(), trouble);
            touchy.set(Trouble::Nothing);
            assert_eq!((keys.len(), touchy.wheel.len()), (1, 1));
            assert_eq!((keys.handle(&asked), keys.remaining(&asked)), (handle, Some(HOUR)));
        };
        panics(&|| drop(keys.insert(touchy.key(1), MS, || ())));
        panics(&|| drop(keys.insert(touchy.key(2), MS, || ())));
        panics(&|| drop(keys.insert_if_absent(touchy.key(1), MS, || ())));
        panics(&|| _ = keys.cancel(&asked));
        panics(&|| drop(keys.take(&asked)));
        panics(&|| _ = keys.reset(&asked, MS));
        panics(&|| _ = keys.remaining(&asked));
        panics(&|| _ = keys.contains(&asked));
        panics(&|| _ = keys.handle(&asked));
        // The panics unwound to the caller, so the wheel has none to report.
        assert_eq!(touchy.panics(), (0, Vec::new()));
        assert!(keys.cancel(&asked));
    }
}

/// C45: A key is found by every type that it borrows as.
#[test]
fn key_is_found_by_every_borrowed_form() {
    let (wheel, driver) = manual();
    let keyed: Keyed<String> = Keyed::new(&wheel);
    keyed.insert("a".to_owned(), HOUR, || ()).unwrap();
    assert!(keyed.contains("a") && !keyed.contains("b"));
    assert!(keyed.reset("a", MS) && keyed.remaining("a") == Some(MS));
    assert_eq!(keyed.reset_batch([("a", MS * 2), ("b", MS)]), [true, false]);
    assert!(wheel.is_pending(keyed.handle("a").unwrap()));
    assert!(keyed.take("a").is_some() && keyed.is_empty());
    keyed.insert("a".to_owned(), HOUR, || ()).unwrap();
    assert_eq!(keyed.cancel_batch(["a", "a", "b"]), [true, false, false]);
    keyed.insert("a".to_owned(), MS, || ()).unwrap();
    assert!(keyed.contains(&"a".to_owned()));
    assert_eq!((driver.advance(MS), keyed.len()), (1, 0));
    let paths: Keyed<Vec<u8>> = Keyed::new(&wheel);
    paths.insert(vec![1, 2], HOUR, || ()).unwrap();
    assert!(paths.cancel(&[1, 2][..]));
}

/// C44: A repeating job keeps its key until its last run has ended.
#[test]
fn repeating_job_keeps_its_key_until_its_last_run_has_ended() {
    let (wheel, driver) = manual();
    let keyed = Keyed::new(&wheel);
    let own = keyed.clone();
    let mut left = 3;
    let countdown = move |run: Run| {
        assert_eq!(own.handle("key"), Some(run.handle));
        left -= 1;
        if left > 0 { Next::Period } else { Next::Stop }
    };
    assert!(keyed.repeat("key", Repeat::every(MS), countdown).unwrap().is_none());
    assert_eq!((driver.advance(MS), keyed.len()), (1, 1));
    let twice = keyed.insert_if_absent("key", MS, || ());
    assert_eq!(twice.unwrap_err().kind(), InsertErrorKind::Occupied);
    assert_eq!((driver.advance(MS * 9), keyed.len(), wheel.stats().panicked), (2, 0, 0));
    // A panic ends the job and frees its key, unless `after_panic` lets it go on.
    for (next, runs) in [(Next::Stop, 1), (Next::Period, 10), (Next::After(MS * 5), 2)] {
        let repeat = Repeat::every(MS).after_panic(next);
        keyed.repeat("key", repeat, |_| panic_any("as planned")).unwrap();
        assert_eq!(driver.advance(MS * 10), runs);
        assert_eq!(keyed.cancel("key"), next != Next::Stop);
        assert!(keyed.is_empty() && wheel.is_empty());
    }
    // It is replaced between two runs, and in its own run, which is its last then.
    keyed.every("key", MS, || ()).unwrap();
    assert!(keyed.every("key", MS, || ()).unwrap().is_some());
    let own = keyed.clone();
    let replaces = move || assert!(own.insert("key", HOUR, || ()).unwrap().is_none());
    assert!(keyed.every("key", MS, replaces).unwrap().is_some());
    assert_eq!((driver.advance(MS * 9), keyed.len(), wheel.len()), (1, 1, 1));
    assert_eq!(keyed.remaining("key"), Some(HOUR - MS * 8));
    let refused = keyed.every("key", Duration::ZERO, || ()).unwrap_err();
    assert_eq!((refused.kind(), refused.into_inner().0), (InsertErrorKind::ZeroPeriod, "key"));
    assert!(keyed.contains("key") && wheel.stats().panicked == 11 + 2);
    let key = keyed.clone();
    drop(wheel);
    assert!(key.is_empty() && keyed.every("key", MS, || ()).is_err() && key.is_empty());
}
