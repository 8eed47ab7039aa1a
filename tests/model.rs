//! The wheel, through its front door, against the slow and obvious truth.
//!
//! Random histories on a manual clock: inserts, cancels, takes and resets from outside and from
//! inside of jobs, jobs that panic, captured values that panic or call the wheel when they are
//! dropped. The truth is a binary heap of `(tick, id)`; it is asked before every call what the answer
//! must be, and by every job that runs whether it was its turn.

use proptest::prelude::*;
use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};
use std::panic::panic_any;
use std::sync::{Arc, Mutex, MutexGuard};
use std::thread;
use std::time::Duration;

use tickwheel::{Driver, Geometry, Handle, InsertErrorKind, Scheduler, Wheel};

const TICK: u64 = 1000;

/// What a job does when it runs. Indices are into all jobs there ever were.
#[derive(Clone, Copy, Debug)]
enum Act {
    Nothing,
    Insert(u64),
    CancelItself,
    Cancel(usize),
    Take(usize),
    Reset(usize, u64),
    Panic,
}

/// What a captured value does when it is dropped.
#[derive(Clone, Copy, Debug)]
enum LastWill {
    Nothing,
    Insert(u64),
    Cancel(usize),
    Panic,
}

#[derive(Clone, Copy, Debug)]
enum Op {
    Insert(u64, Act, LastWill),
    /// From a thread of its own, and so most likely into another shard.
    InsertElsewhere(u64, Act, LastWill),
    Cancel(usize),
    Take(usize),
    Reset(usize, u64),
    Foreign(usize),
    Advance(u64),
}

/// What the truth knows of one job.
#[derive(Clone, Copy)]
struct Known {
    /// `None` while the insert that makes it is under way.
    handle: Option<Handle>,
    /// The tick at which it is due, while it is pending.
    due: Option<u64>,
    act: Act,
}

struct Truth {
    jobs: Vec<Known>,
    heap: BinaryHeap<Reverse<(u64, usize)>>,
    now: u64,
    pending: usize,
    bound: usize,
    ran: usize,
    panics: u64,
    errors: Vec<String>,
}

/// Everything a job can reach.
#[derive(Clone)]
struct World {
    truth: Arc<Mutex<Truth>>,
    scheduler: Scheduler,
}

/// Captured by every job.
struct Capture {
    world: World,
    last_will: LastWill,
}

impl Drop for Capture {
    fn drop(&mut self) {
        match self.last_will {
            LastWill::Nothing => (),
            LastWill::Insert(delay) => self.world.insert(delay, Act::Nothing, LastWill::Nothing),
            LastWill::Cancel(which) => self.world.cancel(which),
            LastWill::Panic => {
                self.world.truth().panics += 1;
                panic_any("last will");
            }
        }
    }
}

impl Truth {
    /// When what is set now, for so many nanoseconds later, is due. In ticks, rounded up, and not
    /// at once.
    fn due_in(&self, delay: u64) -> u64 {
        match self.now.checked_add(delay) {
            // Far beyond everything a test advances to.
            None | Some(u64::MAX) => u64::MAX,
            Some(at) => at.div_ceil(TICK).max(self.now / TICK + 1),
        }
    }

    fn set(&mut self, id: usize, due: u64) {
        self.pending += usize::from(self.jobs[id].due.is_none());
        self.jobs[id].due = Some(due);
        self.heap.push(Reverse((due, id)));
    }

    /// Takes a job out; whether it was pending.
    fn unset(&mut self, id: usize) -> bool {
        let was = self.jobs[id].due.take().is_some();
        self.pending -= usize::from(was);
        was
    }

    /// The earliest tick at which something is due.
    fn first(&mut self) -> Option<u64> {
        while let Some(&Reverse((due, id))) = self.heap.peek() {
            if self.jobs[id].due == Some(due) {
                return Some(due);
            }
            self.heap.pop();
        }
        None
    }

    /// Jobs run behind a fence, where a failed assertion would be one more panic: collected instead.
    fn claim(&mut self, holds: bool, what: &str) {
        if !holds {
            self.errors.push(format!("{what}, at {}", self.now));
        }
    }
}

impl World {
    fn truth(&self) -> MutexGuard<'_, Truth> {
        self.truth.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    fn insert(&self, delay: u64, act: Act, last_will: LastWill) {
        let id = {
            let mut truth = self.truth();
            truth.jobs.push(Known { handle: None, due: None, act });
            truth.jobs.len() - 1
        };
        let capture = Capture { world: self.clone(), last_will };
        let (room, due) = {
            let truth = self.truth();
            (truth.pending < truth.bound, truth.due_in(delay))
        };
        let answer = self.scheduler.insert(Duration::from_nanos(delay), move || capture.run(id));
        match answer {
            Ok(handle) => {
                let mut truth = self.truth();
                truth.claim(room, "a full wheel took a job");
                truth.jobs[id].handle = Some(handle);
                truth.set(id, due);
            }
            Err(refused) => {
                let full = refused.kind() == InsertErrorKind::Full;
                self.truth().claim(full && !room, "a job was refused");
                // Its last will is done here, outside the wheel, where no fence stands.
                let job = refused.into_inner();
                let dropped = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| drop(job)));
                self.truth().panics -= u64::from(dropped.is_err());
            }
        }
    }

    fn pick(&self, which: usize) -> Option<(usize, Handle)> {
        let truth = self.truth();
        let id = which.checked_rem(truth.jobs.len())?;
        truth.jobs[id].handle.map(|handle| (id, handle))
    }

    fn cancel(&self, which: usize) {
        let Some((id, handle)) = self.pick(which) else { return };
        // First, because the last will that a cancel brings about asks the truth too.
        let expected = self.truth().unset(id);
        let answer = self.scheduler.cancel(handle);
        self.truth().claim(answer == expected, "cancel answered wrong");
    }

    fn take(&self, which: usize) {
        let Some((id, handle)) = self.pick(which) else { return };
        let expected = self.truth().unset(id);
        let job = self.scheduler.take(handle);
        self.truth().claim(job.is_some() == expected, "take answered wrong");
        let dropped = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| drop(job)));
        self.truth().panics -= u64::from(dropped.is_err());
    }

    fn reset(&self, which: usize, delay: u64) {
        let Some((id, handle)) = self.pick(which) else { return };
        let (expected, due) = {
            let truth = self.truth();
            (truth.jobs[id].due.is_some(), truth.due_in(delay))
        };
        let answer = self.scheduler.reset(handle, Duration::from_nanos(delay));
        let mut truth = self.truth();
        truth.claim(answer == expected, "reset answered wrong");
        if expected {
            truth.set(id, due);
        }
    }
}

impl Capture {
    fn run(self, id: usize) {
        let act = {
            let mut truth = self.world.truth();
            let due = truth.jobs[id].due;
            let first = truth.first();
            truth.claim(due.is_some(), "a job ran that was not pending");
            truth.claim(due == first, "a job ran before one that was due earlier");
            // The clock of a manual wheel stands at the deadline of the job that runs.
            truth.now = truth.now.max(due.unwrap_or(0) * TICK);
            truth.unset(id);
            truth.ran += 1;
            truth.jobs[id].act
        };
        match act {
            Act::Nothing => (),
            Act::Insert(delay) => self.world.insert(delay, Act::Nothing, LastWill::Nothing),
            Act::CancelItself => self.world.cancel(id),
            Act::Cancel(which) => self.world.cancel(which),
            Act::Take(which) => self.world.take(which),
            Act::Reset(which, delay) => self.world.reset(which, delay),
            Act::Panic => {
                self.world.truth().panics += 1;
                // A second panic while this one unwinds would end the process, here as anywhere.
                let mut this = self;
                this.last_will = LastWill::Nothing;
                panic_any("act");
            }
        }
    }
}

fn replay(sizes: &[usize], shards: usize, bound: usize, ops: &[Op]) {
    let builder = Wheel::builder()
        .tick(Duration::from_nanos(TICK))
        .geometry(Geometry::levels(sizes).unwrap())
        .shards(shards)
        .max_pending(bound);
    let (wheel, driver) = builder.manual().unwrap();
    let (other, _) = Wheel::builder().manual().unwrap();
    let foreign: Vec<Handle> = (0..4).map(|_| other.insert(Duration::ZERO, || ())).collect();
    let truth = Truth {
        jobs: Vec::new(),
        heap: BinaryHeap::new(),
        now: 0,
        pending: 0,
        bound,
        ran: 0,
        panics: 0,
        errors: Vec::new(),
    };
    let world = World { truth: Arc::new(Mutex::new(truth)), scheduler: wheel.scheduler() };
    for &op in ops {
        apply(&world, &driver, &foreign, op);
        agree(&world, &wheel);
    }
    let unfired = wheel.shutdown();
    let handles: HashMap<Handle, Option<u64>> =
        world.truth().jobs.iter().filter_map(|job| Some((job.handle?, job.due))).collect();
    let mut last = 0;
    assert_eq!(unfired.len(), world.truth().pending, "shutdown handed back others");
    for unfired in unfired {
        let due = handles[&unfired.handle].expect("handed back, but not pending");
        assert!(due >= last, "out of order");
        last = due;
        std::mem::forget(unfired.job);
    }
}

fn apply(world: &World, driver: &Driver, foreign: &[Handle], op: Op) {
    match op {
        Op::Insert(delay, act, last_will) => world.insert(delay, act, last_will),
        Op::InsertElsewhere(delay, act, last_will) => {
            thread::scope(|scope| scope.spawn(|| world.insert(delay, act, last_will)).join())
                .unwrap();
        }
        Op::Cancel(which) => world.cancel(which),
        Op::Take(which) => world.take(which),
        Op::Reset(which, delay) => world.reset(which, delay),
        Op::Foreign(which) => {
            let handle = foreign[which % foreign.len()];
            assert!(!world.scheduler.cancel(handle) && !world.scheduler.is_pending(handle));
            assert!(!world.scheduler.reset(handle, Duration::ZERO));
        }
        Op::Advance(by) => {
            let (target, before) = {
                let truth = world.truth();
                (truth.now + by, truth.ran)
            };
            let ran = driver.advance(Duration::from_nanos(by));
            let mut truth = world.truth();
            assert_eq!(ran, truth.ran - before);
            truth.now = target;
            if let Some(first) = truth.first() {
                assert!(first > target / TICK, "due at tick {first}, and it is {}", target / TICK);
            }
        }
    }
}

fn agree(world: &World, wheel: &Wheel) {
    let truth = world.truth();
    assert_eq!(truth.errors, Vec::<String>::new());
    let stats = wheel.stats();
    assert_eq!((wheel.len(), stats.pending), (truth.pending, truth.pending));
    assert_eq!((stats.panicked, stats.fired), (truth.panics, truth.ran as u64));
    assert_eq!(stats.inserted, stats.pending as u64 + stats.fired + stats.cancelled);
    assert_eq!(stats.in_flight, 0);
    for job in &truth.jobs {
        let Some(handle) = job.handle else { continue };
        assert_eq!(wheel.is_pending(handle), job.due.is_some());
        let remaining = job.due.map(|due| match due {
            u64::MAX => Duration::MAX,
            due => Duration::from_nanos((due * TICK).saturating_sub(truth.now)),
        });
        assert_eq!(wheel.remaining(handle), remaining);
    }
}

fn delay() -> impl Strategy<Value = u64> {
    prop_oneof![
        1 => Just(0),
        4 => 1..5 * TICK,
        3 => (0..30_u64).prop_map(|ticks| ticks * TICK),
        2 => 0..500 * TICK,
        1 => Just(u64::MAX),
    ]
}

fn act() -> impl Strategy<Value = Act> {
    prop_oneof![
        3 => Just(Act::Nothing),
        2 => delay().prop_map(Act::Insert),
        1 => Just(Act::CancelItself),
        2 => any::<usize>().prop_map(Act::Cancel),
        1 => any::<usize>().prop_map(Act::Take),
        2 => (any::<usize>(), delay()).prop_map(|(which, delay)| Act::Reset(which, delay)),
        1 => Just(Act::Panic),
    ]
}

fn last_will() -> impl Strategy<Value = LastWill> {
    prop_oneof![
        6 => Just(LastWill::Nothing),
        1 => delay().prop_map(LastWill::Insert),
        1 => any::<usize>().prop_map(LastWill::Cancel),
        1 => Just(LastWill::Panic),
    ]
}

fn op() -> impl Strategy<Value = Op> {
    prop_oneof![
        6 => (delay(), act(), last_will()).prop_map(|(d, act, will)| Op::Insert(d, act, will)),
        2 => (delay(), act(), last_will())
            .prop_map(|(d, act, will)| Op::InsertElsewhere(d, act, will)),
        2 => any::<usize>().prop_map(Op::Cancel),
        1 => any::<usize>().prop_map(Op::Take),
        3 => (any::<usize>(), delay()).prop_map(|(which, delay)| Op::Reset(which, delay)),
        1 => any::<usize>().prop_map(Op::Foreign),
        5 => delay().prop_filter("time is finite", |&by| by < u64::MAX).prop_map(Op::Advance),
    ]
}

/// `PROPTEST_CASES` asks for more.
fn config() -> ProptestConfig {
    let default = ProptestConfig::default();
    ProptestConfig { cases: default.cases.max(1024), ..default }
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn the_wheel_agrees_with_a_heap(
        sizes in prop::collection::vec(1..=6_usize, 1..=3),
        shards in 1..=3_usize,
        bound in 1..=20_usize,
        ops in prop::collection::vec(op(), 1..50),
    ) {
        silence_expected_panics();
        replay(&sizes, shards, bound, &ops);
    }
}

/// The panics that jobs are made to raise would fill the screen.
fn silence_expected_panics() {
    use std::sync::Once;
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let hook = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |info| {
            if !matches!(info.payload().downcast_ref::<&str>(), Some(&"act" | &"last will")) {
                hook(info);
            }
        }));
    });
}
