//! The public API against a slow and obvious model, the *truth*.
//!
//! The histories are random, on a manual clock: every verb, called from outside and from inside
//! jobs; jobs that panic; captured values that panic or call the wheel when they are dropped; and a
//! wall clock that is set. The truth is a binary heap of `(tick, id)` and a map of keys. Before
//! every call it says what the wheel must return, and every job that runs asks it whether it is
//! due.
//!
//! | file | what it holds |
//! | --- | --- |
//! | `capture.rs` | what the jobs do, and claim |
//! | `truth.rs` | the model |
//! | `world.rs` | every verb, done to the wheel and to the truth, and compared |

mod capture;
mod truth;
mod world;

use proptest::prelude::*;
use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use tickwheel::{Driver, Geometry, Group, Handle, Keyed, Missed, Wheel};

use truth::{TICK, Truth};
use world::World;

/// What a job does when it runs. Indices are into all jobs there ever were.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Act {
    Nothing,
    Insert(u64),
    InsertKey(u8, u64),
    CancelItself,
    ResetItself(u64),
    Cancel(usize),
    CancelGroup(usize),
    Take(usize),
    Reset(usize, u64),
    /// A repeating job does this in every second run.
    Panic,
}

/// What a captured value does when it is dropped.
#[derive(Clone, Copy, Debug)]
pub(crate) enum LastWill {
    Nothing,
    Insert(u64),
    Cancel(usize),
    CancelKey(u8),
    Panic,
}

impl LastWill {
    /// Returns whether it leaves the wheel alone.
    pub(crate) fn is_quiet(self) -> bool {
        matches!(self, LastWill::Nothing | LastWill::Panic)
    }
}

/// What a repeating job answers.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Answer {
    Period,
    After(u64),
    /// Counted from now; may be negative.
    At(i64),
    Wall(i64),
    Stop,
}

#[derive(Clone, Copy, Debug)]
pub(crate) enum First {
    After(u64),
    /// At an instant this far in the past.
    Past(u64),
}

/// When a job is to run.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Time {
    After(u64),
    /// At a wall-clock time, counted from now; may be negative.
    Wall(i64),
}

/// Where a repeating job comes in.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Place {
    Wheel,
    Group(usize),
    Key(u8),
}

/// How a job repeats.
#[derive(Clone, Debug)]
pub(crate) struct Plan {
    pub(crate) period: Option<u64>,
    pub(crate) missed: Missed,
    pub(crate) first: First,
    pub(crate) despite_panics: bool,
    /// The answers of its runs, in turn, again and again.
    pub(crate) answers: Vec<Answer>,
}

#[derive(Clone, Debug)]
enum Op {
    Insert(u64, Act, LastWill),
    /// From another thread, and so most likely into another shard.
    InsertElsewhere(u64, Act, LastWill),
    InsertWithin(u64, u64, Act),
    InsertWith(u64, Act, LastWill),
    InsertBatch(Vec<(Time, Act, LastWill)>),
    InsertWall(i64, Act, LastWill),
    InsertKey(u8, u64, bool, Act, LastWill),
    InsertIntoGroup(usize, u64, Act),
    Repeat(Place, Plan, Act, LastWill),
    Cancel(usize),
    CancelBatch(Vec<usize>),
    CancelKey(u8),
    CancelGroup(usize),
    Guard(usize, bool),
    Take(usize),
    TakeKey(u8),
    /// Takes a job, and inserts it again.
    Move(usize, Time),
    Reset(usize, u64),
    ResetWithin(usize, u64, u64),
    ResetBatch(Vec<(usize, u64)>),
    ResetKey(u8, u64),
    ResetWall(usize, i64),
    Foreign(usize),
    SetWall(i64),
    Advance(u64),
}

const KEYS: u8 = 4;

fn replay(sizes: &[usize], shards: usize, bound: usize, ops: &[Op]) {
    let builder = Wheel::builder()
        .tick(Duration::from_nanos(TICK))
        .geometry(Geometry::levels(sizes).unwrap())
        .shards(shards)
        .max_pending(bound);
    let (wheel, driver) = builder.manual().unwrap();
    let (other, _) = Wheel::builder().manual().unwrap();
    let foreign: Vec<Handle> = (0..4).map(|_| other.insert(Duration::ZERO, || ())).collect();
    let scheduler = wheel.scheduler();
    let world = World {
        truth: Arc::new(Mutex::new(Truth::new(bound))),
        keyed: Keyed::new(scheduler.clone()),
        groups: Arc::new([(); 2].map(|()| Group::new(scheduler.clone()))),
        scheduler,
        origin: driver.now(),
        wall_origin: driver.wall_now(),
    };
    for op in ops {
        apply(&world, &driver, &foreign, op);
        agree(&world, &wheel);
    }
    let unfired = wheel.shutdown();
    let handles: HashMap<Handle, Option<u64>> =
        world.truth().jobs.iter().filter_map(|job| Some((job.handle?, job.due))).collect();
    let mut last = 0;
    assert_eq!(unfired.len(), world.truth().pending, "shutdown handed back others");
    for unfired in unfired {
        // The truth does not know the handle of a job with a key.
        if let Some(due) = handles.get(&unfired.handle) {
            let due = due.expect("handed back, but not pending");
            assert!(due >= last, "out of order");
            last = due;
        }
        std::mem::forget(unfired.job);
    }
}

fn apply(world: &World, driver: &Driver, foreign: &[Handle], op: &Op) {
    match *op {
        Op::Insert(delay, act, last_will) => world.insert(delay, act, last_will),
        Op::InsertElsewhere(delay, act, last_will) => {
            thread::scope(|scope| scope.spawn(|| world.insert(delay, act, last_will)).join())
                .unwrap();
        }
        Op::InsertWithin(delay, slack, act) => world.insert_within(delay, slack, act),
        Op::InsertWith(delay, act, last_will) => world.insert_with(delay, act, last_will),
        Op::InsertBatch(ref timers) => world.insert_batch(timers),
        Op::InsertWall(ahead, act, last_will) => world.insert_wall(ahead, act, last_will),
        Op::InsertKey(key, delay, if_absent, act, last_will) => {
            world.insert_key(key, delay, if_absent, act, last_will);
        }
        Op::InsertIntoGroup(group, delay, act) => {
            world.insert_into_group(group, delay, act, LastWill::Nothing);
        }
        Op::Repeat(place, ref plan, act, last_will) => {
            // The members of a group are cancelled together in no order, so what a member does when
            // it is dropped must not depend on the order.
            let quiet = !matches!(place, Place::Group(_)) || last_will.is_quiet();
            let last_will = if quiet { last_will } else { LastWill::Nothing };
            world.repeat(place, plan, act, last_will);
        }
        Op::Cancel(which) => world.cancel(which),
        Op::CancelBatch(ref which) => world.cancel_batch(which),
        Op::CancelKey(key) => world.cancel_key(key),
        Op::CancelGroup(group) => world.cancel_group(group),
        Op::Guard(which, detach) => world.guard(which, detach),
        Op::Take(which) => world.take(which),
        Op::TakeKey(key) => world.take_key(key),
        Op::Move(which, time) => world.move_job(which, time),
        Op::Reset(which, delay) => world.reset(which, delay),
        Op::ResetWithin(which, delay, slack) => world.reset_within(which, delay, slack),
        Op::ResetBatch(ref which) => world.reset_batch(which),
        Op::ResetKey(key, delay) => world.reset_key(key, delay),
        Op::ResetWall(which, ahead) => world.reset_wall(which, ahead),
        Op::SetWall(by) => {
            let shift = {
                let mut truth = world.truth();
                truth.wall_shift += i128::from(by);
                truth.follow_the_wall();
                truth.wall_now()
            };
            let nanos = Duration::from_nanos(shift.unsigned_abs() as u64);
            driver.set_wall(match shift < 0 {
                true => world.wall_origin - nanos,
                false => world.wall_origin + nanos,
            });
        }
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
    for key in 0..KEYS {
        let expected = truth.keys.get(&key).map(|&id| remaining(due_of(id)));
        assert_eq!(world.keyed.remaining(&key), expected);
    }
    let listed: HashMap<u8, Duration> =
        world.keyed.iter().map(|(key, remaining)| (*key, remaining)).collect();
    let expected: HashMap<u8, Duration> =
        truth.keys.iter().map(|(&key, &id)| (key, remaining(due_of(id)))).collect();
    assert_eq!((listed, world.keyed.len()), (expected, truth.keys.len()));
    for (number, group) in world.groups.iter().enumerate() {
        assert_eq!(group.len(), truth.in_group(number));
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

/// Counted from now; may be negative.
fn ahead() -> impl Strategy<Value = i64> {
    let ticks = TICK as i64;
    prop_oneof![
        -20 * ticks..20 * ticks,
        (-20..20_i64).prop_map(move |count| count * ticks),
        0..500 * ticks,
    ]
}

fn key() -> impl Strategy<Value = u8> {
    0..KEYS
}

fn group() -> impl Strategy<Value = usize> {
    0..2_usize
}

fn act() -> impl Strategy<Value = Act> {
    prop_oneof![
        3 => Just(Act::Nothing),
        2 => delay().prop_map(Act::Insert),
        1 => (key(), delay()).prop_map(|(key, delay)| Act::InsertKey(key, delay)),
        1 => Just(Act::CancelItself),
        1 => delay().prop_map(Act::ResetItself),
        2 => any::<usize>().prop_map(Act::Cancel),
        1 => group().prop_map(Act::CancelGroup),
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
        1 => key().prop_map(LastWill::CancelKey),
        1 => Just(LastWill::Panic),
    ]
}

/// No delay of zero, which would be a run at every tick of the whole test.
fn answer() -> impl Strategy<Value = Answer> {
    prop_oneof![
        6 => Just(Answer::Period),
        2 => delay().prop_map(Answer::After),
        1 => ahead().prop_map(Answer::At),
        1 => ahead().prop_map(Answer::Wall),
        1 => Just(Answer::Stop),
    ]
}

fn plan() -> impl Strategy<Value = Plan> {
    let period = prop_oneof![
        1 => Just(None),
        1 => Just(Some(0)),
        2 => (1..2 * TICK).prop_map(Some),
        6 => (1..20 * TICK).prop_map(Some),
        2 => (1..20_u64).prop_map(|ticks| Some(ticks * TICK)),
    ];
    let missed = prop::sample::select(vec![Missed::Burst, Missed::Skip, Missed::Delay]);
    let first = prop_oneof![
        3 => delay().prop_map(First::After),
        1 => (0..100 * TICK).prop_map(First::Past),
    ];
    (period, missed, first, any::<bool>(), prop::collection::vec(answer(), 1..4)).prop_map(
        |(period, missed, first, despite_panics, answers)| Plan {
            period,
            missed,
            first,
            despite_panics,
            answers,
        },
    )
}

fn time() -> impl Strategy<Value = Time> {
    prop_oneof![4 => delay().prop_map(Time::After), 1 => ahead().prop_map(Time::Wall)]
}

fn place() -> impl Strategy<Value = Place> {
    prop_oneof![
        4 => Just(Place::Wheel),
        3 => group().prop_map(Place::Group),
        2 => key().prop_map(Place::Key),
    ]
}

fn op() -> impl Strategy<Value = Op> {
    let timer = || (delay(), act(), last_will());
    let timer_of_any_kind = (time(), act(), last_will());
    prop_oneof![
        6 => timer().prop_map(|(d, act, will)| Op::Insert(d, act, will)),
        2 => timer().prop_map(|(d, act, will)| Op::InsertElsewhere(d, act, will)),
        1 => (delay(), 0..200 * TICK, act()).prop_map(|(d, s, act)| Op::InsertWithin(d, s, act)),
        1 => timer().prop_map(|(d, act, will)| Op::InsertWith(d, act, will)),
        1 => prop::collection::vec(timer_of_any_kind, 0..5).prop_map(Op::InsertBatch),
        2 => (ahead(), act(), last_will()).prop_map(|(a, act, will)| Op::InsertWall(a, act, will)),
        3 => (key(), any::<bool>(), timer())
            .prop_map(|(key, absent, (d, act, will))| Op::InsertKey(key, d, absent, act, will)),
        2 => (group(), delay(), act()).prop_map(|(g, d, act)| Op::InsertIntoGroup(g, d, act)),
        3 => (place(), plan(), act(), last_will())
            .prop_map(|(place, plan, act, will)| Op::Repeat(place, plan, act, will)),
        2 => any::<usize>().prop_map(Op::Cancel),
        1 => prop::collection::vec(any::<usize>(), 0..5).prop_map(Op::CancelBatch),
        1 => key().prop_map(Op::CancelKey),
        1 => group().prop_map(Op::CancelGroup),
        1 => (any::<usize>(), any::<bool>()).prop_map(|(which, detach)| Op::Guard(which, detach)),
        1 => any::<usize>().prop_map(Op::Take),
        1 => key().prop_map(Op::TakeKey),
        2 => (any::<usize>(), time()).prop_map(|(which, time)| Op::Move(which, time)),
        1 => (any::<usize>(), delay(), 0..200 * TICK)
            .prop_map(|(which, delay, slack)| Op::ResetWithin(which, delay, slack)),
        3 => (any::<usize>(), delay()).prop_map(|(which, delay)| Op::Reset(which, delay)),
        1 => prop::collection::vec((any::<usize>(), delay()), 0..5).prop_map(Op::ResetBatch),
        1 => (key(), delay()).prop_map(|(key, delay)| Op::ResetKey(key, delay)),
        1 => (any::<usize>(), ahead()).prop_map(|(which, ahead)| Op::ResetWall(which, ahead)),
        1 => any::<usize>().prop_map(Op::Foreign),
        2 => ahead().prop_map(Op::SetWall),
        5 => delay().prop_filter("time is finite", |&by| by < u64::MAX).prop_map(Op::Advance),
    ]
}

/// `PROPTEST_CASES` can raise the number of cases, and not lower it.
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

/// Silences the panics that the test makes jobs raise: they would fill the screen.
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
