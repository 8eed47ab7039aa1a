//! Jobs, repeats, keys, groups, events and sleepers on one wheel, against a slow and obvious model, the *truth*.
//!
//! The histories are random, on a manual clock: every verb, called from outside and from inside
//! jobs, wakers and hooks; jobs and wakers that panic; captured values that panic or call the wheel
//! when they are dropped; a channel that is full; a wall clock that is set; and the end of the wheel.
//! Jobs, events and sleepers (feature `async`) share one wheel. The truth is a binary heap of
//! `(tick, id)` for the jobs, a map of keys, and a list each of events and of sleepers. Before
//! every call it predicts the result of the wheel. Every job, waker and hook that is called checks
//! against it that its time has come.

mod capture;
mod end;
mod events;
pub(crate) mod histories;
#[cfg(feature = "async")]
mod sleepers;
mod time;
mod truth;
mod world;

use std::collections::HashMap;
use std::hash::{Hash, Hasher};
use std::sync::{Arc, Mutex, Once};
use std::thread;
use std::time::Duration;

use tickwheel::{Events, Full, Geometry, Group, Handle, Keyed, Missed, Wheel};

use crate::bytes::history;
use events::Value;
use histories::KeyOp;
use truth::{TICK, Truth};
use world::World;

/// How many keys there are.
const KEYS: u8 = 6;

/// A key whose hash two keys share.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Key(u8);

impl Hash for Key {
    fn hash<H: Hasher>(&self, state: &mut H) {
        (self.0 % 3).hash(state);
    }
}

/// The act of a job when it runs. Indices are into the list of all jobs, also those that have ended.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Act {
    Nothing,
    Insert(u64),
    InsertKey(Key, u64),
    /// Inserts itself anew under a key, this many times.
    Again(Key, u8, u64),
    CancelItself,
    ResetItself(u64),
    Cancel(usize),
    CancelGroup(usize),
    Take(usize),
    Reset(usize, u64),
    Event(EventOp),
    #[cfg(feature = "async")]
    Sleeper(SleeperOp),
    /// Lets more time pass.
    Advance(u64),
    /// A repeating job does this in every second run.
    Panic,
}

/// An operation on the events. Indices are into the list of all events, also those that are gone.
#[derive(Clone, Copy, Debug)]
pub(crate) enum EventOp {
    Insert(Time, LastWill),
    Batch([u64; 3]),
    Cancel(usize),
    Take(usize),
    Reset(usize, Time),
    Receive(usize),
}

/// An operation on the sleepers. Indices are into the list of all sleepers, also dropped ones.
#[cfg(feature = "async")]
#[derive(Clone, Copy, Debug)]
pub(crate) enum SleeperOp {
    Sleep(u64),
    SleepUntil(i64),
    SleepWithin(u64, u64),
    Timeout(u64),
    TimeoutAt(i64),
    Interval(Beats),
    /// The future of a timeout is ready from here on.
    GetReady(usize),
    Poll(usize),
    /// A sleep gets a new delay, an interval a new phase. From another thread, if `true`.
    Reset(usize, u64, bool),
    ResetAt(usize, i64, bool),
    Drop(usize),
}

/// The options of an interval.
#[cfg(feature = "async")]
#[derive(Clone, Copy, Debug)]
pub(crate) struct Beats {
    pub(crate) period: u64,
    /// The delay of the first beat, if it is not one period.
    pub(crate) first: Option<u64>,
    pub(crate) missed: Missed,
}

/// The room of the channel of events.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Room {
    pub(crate) events: usize,
    /// An event that finds no room is given up. Otherwise it waits.
    pub(crate) gives: bool,
}

/// How the wheel ends.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) enum Ending {
    Shutdown,
    Drop,
}

/// The act of a captured value when it is dropped.
#[derive(Clone, Copy, Debug)]
pub(crate) enum LastWill {
    Nothing,
    Insert(u64),
    Cancel(usize),
    CancelKey(Key),
    Panic,
}

impl LastWill {
    /// Returns whether it does not call the wheel.
    pub(crate) fn is_quiet(self) -> bool {
        matches!(self, LastWill::Nothing | LastWill::Panic)
    }
}

/// The answer of a run of a repeating job.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Answer {
    Period,
    After(u64),
    /// Counted from now; may be negative.
    At(i64),
    Wall(i64),
    Stop,
}

/// When a timer is due.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Time {
    After(u64),
    /// With this much slack.
    Within(u64, u64),
    /// At an instant, counted from now; may be negative.
    At(i64),
    /// At a wall-clock time, counted from now; may be negative.
    Wall(i64),
}

/// Where a repeating job is inserted.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Place {
    Wheel,
    Group(usize),
    Key(Key),
}

/// How a job repeats.
#[derive(Clone, Debug)]
pub(crate) struct Plan {
    /// It is inserted by `every`, so its runs get no `Run` and give no answer.
    pub(crate) is_every: bool,
    pub(crate) period: Option<u64>,
    pub(crate) missed: Missed,
    pub(crate) first: Time,
    pub(crate) despite_panics: bool,
    /// The answers of its runs, in turn, and from the first one again.
    pub(crate) answers: Vec<Answer>,
}

impl Plan {
    pub(crate) fn every(period: u64) -> Plan {
        Plan {
            is_every: true,
            period: Some(period),
            missed: Missed::Skip,
            first: Time::After(period),
            despite_panics: false,
            answers: vec![Answer::Period],
        }
    }
}

#[derive(Clone, Debug)]
pub(crate) enum Op {
    Insert(Time, Act, LastWill),
    /// From another thread, and so most likely into another shard.
    InsertElsewhere(Time, Act, LastWill),
    /// A job that knows its handle.
    InsertWith(u64, Act, LastWill),
    InsertBatch(Vec<(Time, Act, LastWill)>),
    InsertIntoGroup(usize, Time, Act),
    Repeat(Place, Plan, Act, LastWill),
    Cancel(usize),
    CancelBatch(Vec<usize>),
    CancelGroup(usize),
    Guard(usize, bool),
    /// Takes a job, and runs it if `true`. Otherwise the job is dropped.
    Take(usize, bool),
    /// Takes a job, and inserts it again.
    Move(usize, Time),
    Reset(usize, Time),
    ResetBatch(Vec<(usize, Time)>),
    InsertKey(Key, Time, bool, Act, LastWill),
    InsertKeys(Vec<(Key, u64)>),
    CancelKey(Key),
    CancelKeys([Key; 3]),
    CancelAllKeys,
    /// Cancels by the handle, not through the map.
    CancelKeyByHandle(Key),
    TakeKey(Key),
    ResetKey(Key, Time),
    ResetKeys([Key; 3], u64),
    Foreign(usize),
    SetWall(i64),
    Advance(u64),
    AdvanceToNext,
    Event(EventOp),
    #[cfg(feature = "async")]
    Sleeper(SleeperOp),
    /// Polls a sleeper with a waker that does this.
    #[cfg(feature = "async")]
    Poll(usize, Act),
}

/// The options of the wheel of a history.
#[derive(Clone, Debug)]
pub(crate) struct Setup {
    pub(crate) sizes: Vec<usize>,
    pub(crate) shards: usize,
    /// Mostly small, so that histories reach it.
    pub(crate) bound: usize,
    pub(crate) room: Room,
    /// The act of the hook of the events.
    pub(crate) hook: Act,
    pub(crate) ending: Ending,
}

pub(crate) fn run_bytes(bytes: &[u8]) {
    let (setup, ops) = history::<_, Op>(bytes);
    run(&setup, &ops);
}

/// Runs a history that is mostly about keys.
pub(crate) fn run_key_bytes(bytes: &[u8]) {
    let (setup, ops) = history(bytes);
    run(&setup, ops.iter().map(|KeyOp(op)| op));
}

pub(crate) fn run<'a>(setup: &Setup, ops: impl IntoIterator<Item = &'a Op> + Clone) {
    silence_expected_panics();
    let &Setup { ref sizes, shards, bound, room, hook, ending } = setup;
    let builder = Wheel::builder()
        .tick(Duration::from_nanos(TICK))
        .geometry(Geometry::levels(sizes).unwrap())
        .shards(shards)
        .max_pending(bound);
    let (wheel, driver) = builder.manual().unwrap();
    let (other, _) = Wheel::builder().manual().unwrap();
    let foreign: Vec<Handle> = (0..4).map(|_| other.insert(Duration::ZERO, || ())).collect();
    let scheduler = wheel.scheduler();
    let full = match room.gives {
        true => Full::Give(Box::new(|value: Value| value.give_up())),
        false => Full::Wait,
    };
    let (events, due) = Events::bounded(&scheduler, room.events, full);
    let world = World {
        truth: Arc::new(Mutex::new(Truth::new(bound, room))),
        keyed: Keyed::new(scheduler.clone()),
        groups: Arc::new([(); 2].map(|()| Group::new(scheduler.clone()))),
        scheduler,
        events,
        due,
        #[cfg(feature = "async")]
        sleepers: Arc::default(),
        origin: driver.now(),
        wall_origin: driver.wall_now(),
        driver: Arc::new(driver),
    };
    world.hook(hook);
    for op in ops.clone() {
        world.truth().events.begin_op(world.due.len());
        apply(&world, &foreign, op);
        agree(&world, &wheel);
    }
    world.end(wheel, ending, ops);
    assert_eq!(world.truth().errors, Vec::<String>::new());
}

fn apply(world: &World, foreign: &[Handle], op: &Op) {
    match *op {
        Op::Insert(time, act, last_will) => world.insert(time, act, last_will),
        Op::InsertElsewhere(time, act, last_will) => {
            on_a_thread(true, || world.insert(time, act, last_will));
        }
        Op::InsertWith(delay, act, last_will) => world.insert_with(delay, act, last_will),
        Op::InsertBatch(ref timers) => world.insert_batch(timers),
        Op::InsertIntoGroup(group, time, act) => {
            world.insert_into(Some(group), time, act, LastWill::Nothing);
        }
        Op::Repeat(place, ref plan, act, last_will) => {
            // The members of a group are cancelled together in no fixed order, so the last will of a
            // member must not depend on the order.
            let quiet = !matches!(place, Place::Group(_)) || last_will.is_quiet();
            let last_will = if quiet { last_will } else { LastWill::Nothing };
            world.repeat(place, plan, act, last_will);
        }
        Op::Cancel(which) => world.cancel(which),
        Op::CancelBatch(ref which) => world.cancel_batch(which),
        Op::CancelGroup(group) => world.cancel_group(group),
        Op::Guard(which, detach) => world.guard(which, detach),
        Op::Take(which, runs) => world.take(which, runs),
        Op::Move(which, time) => world.move_job(which, time),
        Op::Reset(which, time) => world.reset(which, time),
        Op::ResetBatch(ref which) => world.reset_batch(which),
        Op::InsertKey(key, time, if_absent, act, last_will) => {
            world.insert_key(key, time, if_absent, act, last_will);
        }
        Op::InsertKeys(ref timers) => world.insert_keys(timers),
        Op::CancelKey(key) => world.cancel_key(key),
        Op::CancelKeys(keys) => world.cancel_keys(keys),
        Op::CancelAllKeys => world.cancel_all_keys(),
        Op::CancelKeyByHandle(key) => world.cancel_key_by_handle(key),
        Op::TakeKey(key) => world.take_key(key),
        Op::ResetKey(key, time) => world.reset_key(key, time),
        Op::ResetKeys(keys, delay) => world.reset_keys(keys, delay),
        Op::SetWall(by) => world.set_wall(by),
        Op::Foreign(which) => {
            let handle = foreign[which % foreign.len()];
            assert!(!world.scheduler.cancel(handle) && !world.scheduler.is_pending(handle));
            assert!(!world.scheduler.reset(handle, Duration::ZERO));
        }
        Op::Advance(by) => world.advance(by),
        Op::AdvanceToNext => world.advance_to_next(),
        Op::Event(op) => world.event(op),
        #[cfg(feature = "async")]
        Op::Sleeper(op) => world.sleeper(op),
        #[cfg(feature = "async")]
        Op::Poll(which, act) => world.poll(which, act),
    }
}

/// Calls `act` on a thread of its own, or on this one.
fn on_a_thread(of_its_own: bool, act: impl FnOnce() + Send) {
    match of_its_own {
        true => thread::scope(|scope| scope.spawn(act).join().unwrap()),
        false => act(),
    }
}

fn agree(world: &World, wheel: &Wheel) {
    world.agree_on_events(wheel);
    #[cfg(feature = "async")]
    world.agree_on_sleepers(wheel);
    let truth = world.truth();
    assert_eq!(truth.errors, Vec::<String>::new());
    let stats = wheel.stats();
    assert_eq!((wheel.len(), stats.pending), (truth.pending, truth.pending));
    assert_eq!((stats.panicked, stats.fired), (truth.panics, truth.ran as u64));
    assert_eq!(stats.inserted, stats.pending as u64 + stats.fired + stats.cancelled);
    assert_eq!(stats.in_flight, 0);
    assert_eq!(truth.alive, truth.pending, "captured values");
    let remaining = |due: u64| match due {
        u64::MAX => Duration::MAX,
        due => Duration::from_nanos((due * TICK).saturating_sub(truth.now)),
    };
    for job in &truth.jobs {
        let Some(handle) = job.handle else { continue };
        // No job runs now, so a job that repeats is in the wheel or has ended.
        assert_eq!(wheel.is_pending(handle), job.due.is_some());
        assert_eq!(wheel.remaining(handle), job.due.map(remaining));
        assert_eq!(wheel.location(handle).is_some(), job.due.is_some());
    }
    let due_of = |id: usize| truth.jobs[id].due.expect("what has a key is pending");
    for key in (0..KEYS).map(Key) {
        let expected = truth.keys.get(&key).map(|&id| remaining(due_of(id)));
        assert_eq!(world.keyed.remaining(&key), expected);
        assert_eq!(world.keyed.contains(&key), expected.is_some());
        let handle = world.keyed.handle(&key);
        assert_eq!(handle.is_some(), expected.is_some());
        assert!(handle.is_none_or(|handle| wheel.remaining(handle) == expected));
    }
    let listed: HashMap<Key, Duration> =
        world.keyed.iter().map(|(key, remaining)| (*key, remaining)).collect();
    let expected: HashMap<Key, Duration> =
        truth.keys.iter().map(|(&key, &id)| (key, remaining(due_of(id)))).collect();
    assert_eq!((listed, world.keyed.len()), (expected, truth.keys.len()));
    for (number, group) in world.groups.iter().enumerate() {
        assert_eq!(group.len(), truth.in_group(number));
    }
}

/// Silences the panics that the test makes jobs raise: they would fill the screen.
fn silence_expected_panics() {
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
