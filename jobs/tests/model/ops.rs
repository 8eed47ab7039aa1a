//! The operations of a history, and what the jobs of a history do. All of it is data: a job carries
//! in its payload what its handler does, so a history replays from its text.

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use proptest::prelude::*;
use serde::{Deserialize, Serialize};
use tickwheel_jobs::tickwheel::When;
use tickwheel_jobs::{DecodeError, Job, Retry};

/// The kinds, by their index: `STEADY` and `QUICK` are always handled, `LATE` only after some
/// restarts, and no payload of `BROKEN` decodes.
pub(crate) const NAMES: [&str; 4] = ["steady", "quick", "late", "broken"];
pub(crate) const LATE: usize = 2;
pub(crate) const BROKEN: usize = 3;

/// For how many milliseconds a failed job of each kind waits, and how often it is tried again.
pub(crate) const WAITS: [(i64, u32); 4] = [(1000, 2), (40, 6), (0, 1), (5, 3)];

pub(crate) fn retry(kind: usize) -> Retry {
    Retry::fixed(Duration::from_millis(WAITS[kind].0 as u64)).times(WAITS[kind].1)
}

/// What the handler of a job does. Each of `acts` is done in every run; the n-th run ends as the
/// n-th of `ends` says, and every later one as the last of them.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Plan {
    /// Tells the job from every other one of the history.
    pub(crate) tag: u64,
    pub(crate) acts: Vec<Op>,
    pub(crate) ends: Vec<Ending>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(crate) enum Ending {
    Done,
    Fails,
    FailsAfter(u64),
    Dies,
    Panics,
}

/// A job of the kind with this index.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Task<const KIND: usize>(pub(crate) Plan);

impl Job for Task<0> {
    const NAME: &'static str = NAMES[0];
}

impl Job for Task<1> {
    const NAME: &'static str = NAMES[1];
}

impl Job for Task<2> {
    const NAME: &'static str = NAMES[2];
}

impl Job for Task<3> {
    const NAME: &'static str = NAMES[3];

    fn decode(payload: &[u8]) -> Result<Task<3>, DecodeError> {
        crate::world::decoding(payload);
        Err(DecodeError::new("as planned"))
    }
}

/// When a job is to run. The numbers are milliseconds.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(crate) enum Time {
    After(u64),
    AfterMicros(u64),
    At(u64),
    /// By the wall clock, from its present on.
    Wall(i64),
    /// By the wall clock: this many days after 1970.
    Day(u64),
    Before1970,
    After9999,
    TooLong,
}

/// The last millisecond that a job can have.
const LAST: i64 = 253_402_300_799_999;

impl Time {
    /// Returns the millisecond that this is at a time, if a job can have it: what is to come rounds up,
    /// and what has come is at most the millisecond that has begun. `wall` is in microseconds.
    pub(crate) fn due(self, wall: i64) -> Option<i64> {
        let up = |micros: i64| {
            let whole = if micros > wall { micros + 999 } else { (micros + 999).min(wall) };
            whole.div_euclid(1000)
        };
        let due = match self {
            Time::After(ms) | Time::At(ms) => up(wall + ms as i64 * 1000),
            Time::AfterMicros(us) => up(wall + us as i64),
            Time::Wall(ms) => up((wall + ms * 1000).max(0)),
            Time::Day(day) => day as i64 * 86_400_000,
            Time::Before1970 | Time::After9999 | Time::TooLong => return None,
        };
        (due <= LAST).then_some(due)
    }

    pub(crate) fn when(self, wall: i64, now: Instant) -> When {
        match self {
            Time::After(ms) => When::after(Duration::from_millis(ms)),
            Time::AfterMicros(us) => When::after(Duration::from_micros(us)),
            Time::At(ms) => When::at(now + Duration::from_millis(ms)),
            Time::TooLong => When::after(Duration::from_secs(u64::MAX / 4)),
            Time::Wall(ms) => When::wall(system((wall + ms * 1000).max(0))),
            other => other.wall(wall),
        }
    }

    /// The same time by the wall clock alone: for a process whose own clock says something else.
    pub(crate) fn wall(self, wall: i64) -> When {
        match self.due(wall) {
            Some(due) => When::wall(system(due * 1000)),
            None if matches!(self, Time::Before1970) => {
                When::wall(UNIX_EPOCH - Duration::from_millis(1))
            }
            None => When::wall(system((LAST + 1) * 1000)),
        }
    }
}

/// Returns the time of this many microseconds after 1970.
pub(crate) fn system(micros: i64) -> SystemTime {
    UNIX_EPOCH + Duration::from_micros(micros as u64)
}

/// Returns the microseconds since 1970.
pub(crate) fn micros(time: SystemTime) -> i64 {
    time.duration_since(UNIX_EPOCH).expect("no clock of a history is before 1970").as_micros()
        as i64
}

/// One of the jobs that there are or were.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(crate) enum Pick {
    Nth(usize),
    /// The job whose handler this is.
    Own,
    Latest,
    /// An id that no job has.
    Nobody,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(crate) enum Verb {
    Replace,
    KeepTime,
    IfAbsent,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(crate) enum Policy {
    Skip,
    Once,
    Burst(u32),
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(crate) enum Stop {
    Shutdown,
    DropJobs,
    DropDriver,
    Crash,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(crate) enum Set {
    By(i64),
    Epoch,
    /// To where the clock would be, had nobody set it.
    Right,
}

/// One step of a history.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) enum Op {
    Insert(usize, Time, Box<Plan>),
    /// With one of a few ids of the history's, or of a job that is there.
    InsertWithId(Result<usize, Pick>, usize, Time, Box<Plan>),
    /// So many jobs, each so many milliseconds after the one before; or a time in it is wrong.
    Batch {
        kind: usize,
        time: Time,
        jobs: usize,
        step: i64,
        wrong: bool,
        plan: Box<Plan>,
    },
    Key(usize, Verb, usize, Time, Box<Plan>),
    /// A key that is too long.
    LongKey(Box<Plan>),
    CancelKey(usize),
    ResetKey(usize, Time),
    Cancel(Pick),
    Reset(Pick, Time),
    Revive(Pick),
    Discard(Pick),
    Pages(Option<usize>, i64, i64),
    Repeat(usize, usize, u64, Policy, Box<Plan>),
    CancelRepeat(usize),
    /// In a transaction of the caller's, which is committed or not.
    Outbox(usize, Time, bool, Box<Plan>),
    /// By another process.
    Other(Box<Op>),
    /// In a handler: the file as it is now is what a crash leaves.
    CrashHere,
    /// In milliseconds.
    Advance(u64),
    AdvanceMicros(u64),
    SetWall(Set),
    /// How, after how many milliseconds it is started again, and whether `LATE` is handled then.
    Restart(Stop, u64, bool),
}

pub(crate) const DAY: u64 = 86_400_000;
const DELAYS: [u64; 14] = [0, 0, 1, 10, 40, 49, 50, 51, 100, 1000, 1001, 3000, 60_000, 3_600_000];

fn delay() -> impl Strategy<Value = u64> {
    prop_oneof![8 => prop::sample::select(&DELAYS[..]), 2 => 0..200_u64, 1 => Just(DAY)]
}

fn time() -> impl Strategy<Value = Time> {
    prop_oneof![
        20 => delay().prop_map(Time::After),
        2 => (0..3000_u64).prop_map(Time::AfterMicros),
        3 => delay().prop_map(Time::At),
        5 => delay().prop_map(|ms| Time::Wall(ms as i64)),
        4 => delay().prop_map(|ms| Time::Wall(-(ms as i64))),
        1 => Just(Time::After(51 * DAY)),
        1 => prop::sample::select(vec![0, 1, 900_000, 2_932_000]).prop_map(Time::Day),
        1 => prop::sample::select(vec![Time::Before1970, Time::After9999, Time::TooLong]),
    ]
}

fn kind() -> impl Strategy<Value = usize> {
    prop_oneof![5 => Just(0_usize), 5 => Just(1), 2 => Just(LATE), 1 => Just(BROKEN)]
}

fn ending() -> impl Strategy<Value = Ending> {
    prop_oneof![
        6 => Just(Ending::Done),
        4 => Just(Ending::Fails),
        2 => delay().prop_map(Ending::FailsAfter),
        2 => Just(Ending::Dies),
        1 => Just(Ending::Panics),
    ]
}

fn plan(acts: impl Strategy<Value = Vec<Op>>) -> impl Strategy<Value = Box<Plan>> {
    (acts, prop::collection::vec(ending(), 1..3))
        .prop_map(|(acts, ends)| Box::new(Plan { tag: 0, acts, ends }))
}

fn pick() -> impl Strategy<Value = Pick> {
    prop_oneof![
        6 => (0..40_usize).prop_map(Pick::Nth),
        4 => Just(Pick::Latest),
        1 => Just(Pick::Nobody),
    ]
}

fn verb() -> impl Strategy<Value = Verb> {
    prop_oneof![3 => Just(Verb::Replace), 1 => Just(Verb::KeepTime), 2 => Just(Verb::IfAbsent)]
}

/// What a caller does to the jobs, from outside, from a handler, or from another process.
fn call(plan: impl Strategy<Value = Box<Plan>> + Clone + 'static) -> impl Strategy<Value = Op> {
    let id = prop_oneof![4 => (0..2_usize).prop_map(Ok), 1 => pick().prop_map(Err)];
    let size = prop_oneof![1 => Just(0_usize), 8 => 1..4_usize];
    let step = prop::sample::select(vec![0, 0, 1, 20, 1000, -30]);
    prop_oneof![
        10 => (kind(), time(), plan.clone()).prop_map(|(k, t, p)| Op::Insert(k, t, p)),
        8 => (id, kind(), time(), plan.clone()).prop_map(|(i, k, t, p)| Op::InsertWithId(i, k, t, p)),
        2 => (kind(), time(), size, step, prop::bool::weighted(0.1), plan.clone()).prop_map(
            |(kind, time, jobs, step, wrong, plan)| Op::Batch { kind, time, jobs, step, wrong, plan }
        ),
        8 => (0..3_usize, verb(), kind(), time(), plan.clone())
            .prop_map(|(key, v, k, t, p)| Op::Key(key, v, k, t, p)),
        2 => (0..3_usize).prop_map(Op::CancelKey),
        2 => (0..3_usize, time()).prop_map(|(key, t)| Op::ResetKey(key, t)),
        5 => pick().prop_map(Op::Cancel),
        5 => (pick(), time()).prop_map(|(p, t)| Op::Reset(p, t)),
        4 => pick().prop_map(Op::Revive),
        2 => pick().prop_map(Op::Discard),
    ]
}

fn act() -> impl Strategy<Value = Op> {
    prop_oneof![
        6 => call(plan(Just(Vec::new())).boxed()),
        1 => Just(Op::Cancel(Pick::Own)),
        1 => Just(Op::Reset(Pick::Own, Time::After(10))),
        1 => Just(Op::CrashHere),
    ]
}

fn full_plan() -> BoxedStrategy<Box<Plan>> {
    let acts = prop_oneof![3 => Just(Vec::new()), 2 => prop::collection::vec(act(), 1..3)];
    plan(acts).boxed()
}

/// Returns any step of a history.
pub(crate) fn op() -> impl Strategy<Value = Op> {
    let policy =
        prop_oneof![Just(Policy::Skip), Just(Policy::Once), (0..5_u32).prop_map(Policy::Burst)];
    let period = prop::sample::select(vec![0, 20, 1000, 1000, 60_000, 3_600_000, DAY]);
    let set = prop_oneof![
        2 => prop::sample::select(vec![-1, -400, -999, -1001, -60_000, -3_600_000]),
        2 => prop::sample::select(vec![1, 30, 999, 5000, 3_600_000, 2 * DAY as i64]),
    ];
    let set = prop_oneof![5 => set.prop_map(Set::By), 1 => Just(Set::Epoch), 3 => Just(Set::Right)];
    let stop = prop::sample::select(vec![
        Stop::Shutdown,
        Stop::DropJobs,
        Stop::DropDriver,
        Stop::Crash,
        Stop::Crash,
    ]);
    let gap = prop::sample::select(vec![0, 0, 1, 40, 5000, 3_600_000, 2 * DAY]);
    prop_oneof![
        42 => call(full_plan()),
        1 => (kind(), time(), plan(Just(Vec::new()))).prop_map(|(kind, time, plan)| Op::Batch {
            kind, time, jobs: 300, step: 1, wrong: false, plan
        }),
        1 => plan(Just(Vec::new())).prop_map(Op::LongKey),
        3 => (prop::option::of(kind()), -5000..200_i64, -200..5000_i64)
            .prop_map(|(k, from, to)| Op::Pages(k, from, to)),
        3 => (0..2_usize, kind(), period, policy, full_plan())
            .prop_map(|(n, k, ms, policy, p)| Op::Repeat(n, k, ms, policy, p)),
        1 => (0..2_usize).prop_map(Op::CancelRepeat),
        3 => (kind(), time(), prop::bool::weighted(0.7), full_plan())
            .prop_map(|(k, t, committed, p)| Op::Outbox(k, t, committed, p)),
        6 => call(full_plan()).prop_map(|op| Op::Other(Box::new(op))),
        25 => delay().prop_map(Op::Advance),
        1 => Just(Op::Advance(DAY)),
        1 => Just(Op::Advance(52 * DAY)),
        1 => (1..2000_u64).prop_map(Op::AdvanceMicros),
        5 => set.prop_map(Op::SetWall),
        6 => (stop, gap, any::<bool>()).prop_map(|(s, gap, late)| Op::Restart(s, gap, late)),
    ]
}
