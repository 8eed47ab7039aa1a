//! Jobs under keys, against a map. Keys collide in their hash, and jobs insert themselves anew.

use std::collections::BTreeMap;
use std::hash::{Hash, Hasher};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use arbitrary::{Arbitrary, Result, Unstructured};
use tickwheel::{Driver, Keyed, Wheel};

use crate::{Delay, ms};

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
struct Key(u8);

impl Hash for Key {
    fn hash<H: Hasher>(&self, state: &mut H) {
        (self.0 % 4).hash(state);
    }
}

impl<'a> Arbitrary<'a> for Key {
    fn arbitrary(data: &mut Unstructured<'a>) -> Result<Key> {
        data.int_in_range(0..=11).map(Key)
    }
}

#[derive(Clone, Debug)]
enum Action {
    /// A job that inserts itself anew this many times.
    Insert(Key, Delay, u8),
    InsertIfAbsent(Key, Delay),
    Batch(Vec<(Key, Delay)>),
    Every(Key, u8),
    Cancel(Key),
    CancelBatch([Key; 3]),
    CancelAll,
    Take(Key),
    /// Cancels by the handle, not through the map.
    CancelHandle(Key),
    Reset(Key, Delay),
    ResetBatch([Key; 3], Delay),
    Advance(Delay),
}

impl<'a> Arbitrary<'a> for Action {
    fn arbitrary(data: &mut Unstructured<'a>) -> Result<Action> {
        Ok(match data.int_in_range(0..=19)? {
            0..=4 => {
                Action::Insert(data.arbitrary()?, data.arbitrary()?, data.int_in_range(0..=3)?)
            }
            5..=6 => Action::InsertIfAbsent(data.arbitrary()?, data.arbitrary()?),
            7 => {
                let count = data.int_in_range(0..=7)?;
                Action::Batch((0..count).map(|_| data.arbitrary()).collect::<Result<_>>()?)
            }
            8 => Action::Every(data.arbitrary()?, data.arbitrary()?),
            9 => Action::Cancel(data.arbitrary()?),
            10 => Action::CancelBatch(data.arbitrary()?),
            11 => Action::CancelAll,
            12 => Action::Take(data.arbitrary()?),
            13 => Action::CancelHandle(data.arbitrary()?),
            14..=15 => Action::Reset(data.arbitrary()?, data.arbitrary()?),
            16 => Action::ResetBatch(data.arbitrary()?, data.arbitrary()?),
            _ => Action::Advance(data.arbitrary()?),
        })
    }
}

/// The job of a key.
#[derive(Clone, Copy)]
struct Listed {
    number: usize,
    /// In milliseconds. `u64::MAX` is never.
    deadline: u64,
    /// The tick of the deadline, but not before the tick after the call that set it.
    due: u64,
    follows: Follows,
}

/// The next act of a job after its run.
#[derive(Clone, Copy)]
enum Follows {
    /// It inserts itself anew, this many times, each time after this many milliseconds.
    Again(u8, u64),
    /// It runs again after this many milliseconds.
    Period(u64),
}

/// A job: its run notes its number, and its drop lowers the count of jobs that are alive.
struct Note {
    key: Key,
    number: usize,
    alive: Arc<AtomicUsize>,
    log: Arc<Mutex<Vec<usize>>>,
}

impl Note {
    fn write(&self) {
        self.log.lock().unwrap().push(self.number);
    }

    /// Runs, and inserts itself anew `again` times.
    fn run(self, keyed: &Keyed<Key>, again: u8, delay: u64) {
        self.write();
        let key = self.key;
        let is_free = !keyed.contains(&key) && keyed.handle(&key).is_none();
        assert!(is_free, "the key of a job that runs is taken");
        if let Some(again) = again.checked_sub(1) {
            let inside = keyed.clone();
            let replaced = keyed.insert(key, ms(delay), move || self.run(&inside, again, delay));
            assert!(replaced.expect("the wheel is there").is_none());
        }
    }
}

impl Drop for Note {
    fn drop(&mut self) {
        self.alive.fetch_sub(1, Ordering::Relaxed);
    }
}

struct World {
    wheel: Wheel,
    driver: Driver,
    keyed: Keyed<Key>,
    jobs: BTreeMap<Key, Listed>,
    /// How many jobs were made.
    made: usize,
    alive: Arc<AtomicUsize>,
    log: Arc<Mutex<Vec<usize>>>,
    expected: Vec<usize>,
    now: u64,
}

pub fn run(data: &[u8]) {
    let (wheel, driver) = Wheel::builder().manual().expect("it is valid");
    let mut world = World {
        keyed: Keyed::new(&wheel),
        wheel,
        driver,
        jobs: BTreeMap::new(),
        made: 0,
        alive: Arc::default(),
        log: Arc::default(),
        expected: Vec::new(),
        now: 0,
    };
    for action in crate::actions(Unstructured::new(data)) {
        world.act(&action);
        world.compare();
    }
    let World { wheel, keyed, jobs, alive, .. } = world;
    assert_eq!(wheel.shutdown().count(), jobs.len());
    assert!(keyed.is_empty());
    assert_eq!(alive.load(Ordering::Relaxed), 0, "a job is left");
}

impl World {
    fn note(&mut self, key: Key) -> Note {
        self.made += 1;
        self.alive.fetch_add(1, Ordering::Relaxed);
        let (alive, log) = (Arc::clone(&self.alive), Arc::clone(&self.log));
        Note { key, number: self.made, alive, log }
    }

    fn list(&mut self, key: Key, number: usize, delay: u64, follows: Follows) {
        let deadline = self.now.saturating_add(delay);
        let due = deadline.max(self.now + 1);
        self.jobs.insert(key, Listed { number, deadline, due, follows });
    }

    fn reset(&mut self, key: Key, Delay(delay): Delay) -> bool {
        let Some(job) = self.jobs.get_mut(&key) else { return false };
        job.deadline = self.now.saturating_add(delay);
        job.due = job.deadline.max(self.now + 1);
        true
    }

    fn act(&mut self, action: &Action) {
        match *action {
            Action::Insert(key, Delay(delay), again) => {
                let (note, keyed) = (self.note(key), self.keyed.clone());
                let number = note.number;
                let job = move || note.run(&keyed, again, delay);
                let replaced = self.keyed.insert(key, ms(delay), job).expect("the wheel is there");
                assert_eq!(replaced.is_some(), self.jobs.contains_key(&key));
                self.list(key, number, delay, Follows::Again(again, delay));
            }
            Action::InsertIfAbsent(key, Delay(delay)) => {
                let note = self.note(key);
                let number = note.number;
                let answer = self.keyed.insert_if_absent(key, ms(delay), move || note.write());
                assert_eq!(answer.is_err(), self.jobs.contains_key(&key));
                if answer.is_ok() {
                    self.list(key, number, delay, Follows::Again(0, 0));
                }
            }
            Action::Batch(ref timers) => {
                let (mut batch, mut expected) = (Vec::new(), Vec::new());
                for &(key, Delay(delay)) in timers {
                    let note = self.note(key);
                    expected.push(self.jobs.contains_key(&key));
                    self.list(key, note.number, delay, Follows::Again(0, 0));
                    batch.push((key, ms(delay), move || note.write()));
                }
                let replaced = self.keyed.insert_batch(batch).expect("the wheel is there");
                assert!(replaced.iter().map(Option::is_some).eq(expected));
            }
            Action::Every(key, period) => {
                let (note, period) = (self.note(key), 1 + u64::from(period));
                let number = note.number;
                let replaced = self.keyed.every(key, ms(period), move || note.write());
                let replaced = replaced.expect("the wheel is there");
                assert_eq!(replaced.is_some(), self.jobs.contains_key(&key));
                self.list(key, number, period, Follows::Period(period));
            }
            Action::Cancel(key) => {
                assert_eq!(self.keyed.cancel(&key), self.jobs.remove(&key).is_some());
            }
            Action::CancelBatch(keys) => {
                let expected = keys.map(|key| self.jobs.remove(&key).is_some());
                assert_eq!(self.keyed.cancel_batch(&keys), expected);
            }
            Action::CancelAll => {
                assert_eq!(self.keyed.cancel_all(), self.jobs.len());
                self.jobs.clear();
            }
            Action::Take(key) => {
                assert_eq!(self.keyed.take(&key).is_some(), self.jobs.remove(&key).is_some());
            }
            Action::CancelHandle(key) => {
                let handle = self.keyed.handle(&key);
                assert_eq!(handle.is_some(), self.jobs.remove(&key).is_some());
                if let Some(handle) = handle {
                    assert!(self.wheel.cancel(handle) && !self.wheel.cancel(handle));
                }
            }
            Action::Reset(key, delay) => {
                assert_eq!(self.keyed.reset(&key, ms(delay.0)), self.reset(key, delay));
            }
            Action::ResetBatch(keys, delay) => {
                let expected = keys.map(|key| self.reset(key, delay));
                let timers = keys.iter().map(|key| (key, ms(delay.0)));
                assert_eq!(self.keyed.reset_batch(timers), expected);
            }
            // In an endless advance, a repeating job would run without end.
            Action::Advance(Delay(delay)) => {
                let delay = delay.min(500);
                self.driver.advance(ms(delay));
                self.advance(self.now + delay);
            }
        }
    }

    fn advance(&mut self, to: u64) {
        loop {
            let first = self.jobs.iter().min_by_key(|(_, job)| (job.due, job.number));
            let Some((&key, &job)) = first.filter(|(_, job)| job.due <= to) else { break };
            self.now = job.due;
            self.expected.push(job.number);
            match job.follows {
                Follows::Again(0, _) => drop(self.jobs.remove(&key)),
                Follows::Again(again, delay) => {
                    self.list(key, job.number, delay, Follows::Again(again - 1, delay));
                }
                Follows::Period(period) => {
                    // The phase counts from the deadline, and not from the run.
                    let deadline = job.deadline + period;
                    let due = deadline.max(self.now + 1);
                    self.jobs.insert(key, Listed { deadline, due, ..job });
                }
            }
        }
        self.now = to;
    }

    fn compare(&mut self) {
        // The order of jobs of one tick is not promised.
        let mut ran = core::mem::take(&mut *self.log.lock().unwrap());
        ran.sort_unstable();
        self.expected.sort_unstable();
        assert_eq!(ran, self.expected);
        self.expected.clear();
        assert_eq!(self.keyed.len(), self.jobs.len());
        let mut all: Vec<_> = self.keyed.iter().map(|(key, left)| (*key, left)).collect();
        all.sort_unstable();
        let left = |due: u64| if due == u64::MAX { ms(due) } else { ms(due - self.now) };
        assert!(all.into_iter().eq(self.jobs.iter().map(|(&key, job)| (key, left(job.due)))));
        for key in (0..12).map(Key) {
            let job = self.jobs.get(&key);
            assert_eq!(self.keyed.contains(&key), job.is_some());
            assert_eq!(self.keyed.remaining(&key), job.map(|job| left(job.due)));
            assert_eq!(self.keyed.handle(&key).is_some(), job.is_some());
        }
        assert_eq!(self.alive.load(Ordering::Relaxed), self.jobs.len());
        assert_eq!((self.wheel.len(), self.wheel.stats().panicked), (self.jobs.len(), 0));
    }
}
