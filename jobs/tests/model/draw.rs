//! How the operations of a history are drawn.
//!
//! Each function returns a box: the trees of nested choices would not fit the stack of a test's thread.

use proptest::prelude::*;

use crate::groups::{CallbackPlan, GroupPlan};
use crate::limits::PARTITIONS;
use crate::new_job::said;
use crate::ops::{
    BROKEN, Bounds, Crash, DAY, Ending, Every, LATE, Op, Pick, Plan, Policy, Set, Stop, Time, Verb,
};

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
    let crash =
        prop_oneof![4 => Just(Crash::Never), 1 => Just(Crash::Before), 1 => Just(Crash::After)];
    prop_oneof![
        6 => Just(Ending::Done),
        4 => Just(Ending::Fails),
        2 => delay().prop_map(Ending::FailsAfter),
        2 => Just(Ending::Dies),
        1 => Just(Ending::Panics),
        3 => (prop::bool::weighted(0.7), crash, any::<bool>())
            .prop_map(|(commits, crash, fails)| Ending::InTransaction { commits, crash, fails }),
    ]
}

fn plan(acts: impl Strategy<Value = Vec<Op>>) -> impl Strategy<Value = Box<Plan>> {
    let early = prop_oneof![13 => ending(), 3 => delay().prop_map(Ending::Snoozes)];
    let partition = prop::option::weighted(0.3, 0..PARTITIONS);
    (acts, prop::collection::vec(early, 0..3), ending(), partition).prop_map(
        |(acts, mut ends, last, partition)| {
            ends.push(last);
            Box::new(Plan { tag: 0, acts, ends, partition })
        },
    )
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
fn call(plan: impl Strategy<Value = Box<Plan>> + Clone + 'static) -> BoxedStrategy<Op> {
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
        2 => (0..3_usize, time()).prop_map(|(key, t)| Op::RescheduleKey(key, t)),
        5 => pick().prop_map(Op::Cancel),
        5 => (pick(), time()).prop_map(|(p, t)| Op::Reschedule(p, t)),
        4 => pick().prop_map(Op::Retry),
        2 => pick().prop_map(Op::Delete),
        3 => pick().prop_map(Op::Wait),
    ]
    .boxed()
}

fn bounds() -> impl Strategy<Value = Bounds> {
    let last = prop::sample::select(vec![0, 1, 1, 2, 3, 1000]);
    let age = prop::sample::select(vec![0, 1000, 60_000, 3_600_000, 3 * DAY, u64::MAX, u64::MAX]);
    let bytes = prop::sample::select(vec![0, 200, 600, 3000, u64::MAX, u64::MAX, u64::MAX]);
    (last, age, bytes).prop_map(|(last, age, bytes)| Bounds { last, age, bytes })
}

/// The same, and what says more of a job, or is done in a transaction of the caller's.
fn any_call(plan: impl Strategy<Value = Box<Plan>> + Clone + 'static) -> BoxedStrategy<Op> {
    prop_oneof![
        46 => call(plan.clone()),
        6 => new_job(plan.clone()),
        4 => of_group(plan.clone()),
        3 => (kind(), plan.clone()).prop_map(|(kind, plan)| Op::Call(kind, plan)),
        4 => (0..3_usize, delay(), delay(), kind(), plan.clone())
            .prop_map(|(key, quiet, most, k, p)| Op::Debounce(key, quiet, most, k, p)),
        2 => (0..3_usize, prop::sample::select(vec![0, 1000, 3_600_000]), kind(), plan.clone())
            .prop_map(|(key, period, k, p)| Op::Throttle(key, period, k, p)),
        5 => (in_transaction(plan), prop::bool::weighted(0.7))
            .prop_map(|(op, committed)| Op::InTransaction(Box::new(op), committed)),
    ]
    .boxed()
}

fn new_job(plan: impl Strategy<Value = Box<Plan>> + 'static) -> impl Strategy<Value = Op> {
    (said(), kind(), time(), plan).prop_map(|(said, k, t, p)| Op::New(said, k, t, p))
}

/// Few groups are cancelled or stay open, so that callbacks come.
fn of_group(plan: impl Strategy<Value = Box<Plan>> + Clone + 'static) -> BoxedStrategy<Op> {
    let after = || delay().prop_map(Time::After);
    let its_plan = || plan.clone().prop_map(|plan| *plan);
    let chosen = prop::option::weighted(0.2, 0..2_usize);
    let within = prop::option::weighted(0.3, 0..9_usize);
    let callback = (0..3_usize, after(), its_plan(), chosen, within)
        .prop_map(|(kind, time, plan, id, within)| CallbackPlan { kind, time, plan, id, within });
    let callback = prop::option::weighted(0.8, callback);
    let members = prop::collection::vec((kind(), after(), its_plan()), 0..4);
    let marks = (prop::bool::weighted(0.4), prop::bool::weighted(0.3), prop::bool::weighted(0.6));
    let id = prop::option::weighted(0.3, 0..2_usize);
    let group = (members, callback, marks, id).prop_map(
        |(members, callback, (is_open, waits, keeps), id)| {
            Op::Group(Box::new(GroupPlan { members, callback, is_open, waits, keeps, id }))
        },
    );
    prop_oneof![
        5 => group,
        3 => (0..9_usize, said(), kind(), time(), plan.clone())
            .prop_map(|(of, said, k, t, p)| Op::AddToGroup(of, said.without_id(), k, t, p)),
        3 => (0..9_usize).prop_map(Op::SealGroup),
        1 => (0..9_usize).prop_map(Op::CancelGroup),
    ]
    .boxed()
}

/// Returns any step of a history of groups.
pub(crate) fn group_op() -> BoxedStrategy<Op> {
    let advance = prop::sample::select(vec![1, 60, 3000, 3_600_000]);
    prop_oneof![
        6 => of_group(full_plan()),
        2 => call(full_plan()),
        4 => advance.prop_map(Op::Advance),
        1 => Just(Op::Advance(4 * DAY)),
        1 => pick().prop_map(Op::Cancel),
        2 => pick().prop_map(Op::Retry),
        1 => pick().prop_map(Op::Delete),
        1 => bulk(),
        1 => set().prop_map(Op::SetWall),
    ]
    .boxed()
}

fn in_transaction(plan: impl Strategy<Value = Box<Plan>> + Clone + 'static) -> BoxedStrategy<Op> {
    prop_oneof![
        2 => new_job(plan.clone()),
        2 => (kind(), time(), plan).prop_map(|(k, t, p)| Op::Insert(k, t, p)),
        1 => pick().prop_map(Op::Cancel),
        1 => (pick(), time()).prop_map(|(p, t)| Op::Reschedule(p, t)),
    ]
    .boxed()
}

fn act() -> BoxedStrategy<Op> {
    prop_oneof![
        6 => any_call(plan(Just(Vec::new())).boxed()),
        1 => Just(Op::Cancel(Pick::Own)),
        1 => Just(Op::Wait(Pick::Own)),
        3 => (prop::sample::select(vec![0, 1, 7, 300, 70_000]), any::<bool>())
            .prop_map(|(bytes, once)| Op::SetResult(bytes, once)),
        2 => (0..9_u64).prop_map(Op::SetProgress),
        6 => (prop::option::of((0..3_usize, verb())), kind(), time(), plan(Just(Vec::new())))
            .prop_map(|(key, kind, time, plan)| Op::Then(key, kind, time, plan)),
        1 => Just(Op::LateProgress),
        1 => Just(Op::Reschedule(Pick::Own, Time::After(10))),
        1 => Just(Op::CrashHere),
    ]
    .boxed()
}

fn full_plan() -> BoxedStrategy<Box<Plan>> {
    let acts = prop_oneof![3 => Just(Vec::new()), 2 => prop::collection::vec(act(), 1..3)];
    plan(acts).boxed()
}

/// What a hook calls: a schedule that it makes is a slow one, because it may come in a long wait.
fn hook_call() -> impl Strategy<Value = Op> {
    let period = prop::sample::select(vec![3_600_000, DAY]);
    let late = (0..2_usize, kind(), period, plan(Just(Vec::new())));
    prop_oneof![
        8 => call(plan(Just(Vec::new())).boxed()),
        1 => late.prop_map(|(name, kind, ms, plan)| Op::Schedule(name, kind, ms, Policy::Once, plan)),
        1 => (0..2_usize).prop_map(Op::Unschedule),
    ]
}

/// The step after the wall clock was set unnoticed: a call of another process, a restart, or an insert,
/// mostly with a relative time.
fn jump() -> BoxedStrategy<Op> {
    let insert = (kind(), delay().prop_map(Time::After), full_plan());
    let key = (0..3_usize, verb(), kind(), time(), full_plan());
    let stop = prop::sample::select(vec![Stop::Shutdown, Stop::DropJobs, Stop::Crash]);
    let next = prop_oneof![
        4 => insert.prop_map(|(kind, time, plan)| Op::Insert(kind, time, plan)),
        2 => key.prop_map(|(key, verb, kind, time, plan)| Op::Key(key, verb, kind, time, plan)),
        1 => (pick(), time()).prop_map(|(pick, time)| Op::Reschedule(pick, time)),
        2 => (kind(), delay().prop_map(Time::After), full_plan())
            .prop_map(|(k, t, p)| Op::InTransaction(Box::new(Op::Insert(k, t, p)), true)),
        4 => call(full_plan()).prop_map(|op| Op::Other(Box::new(op))),
        3 => (stop, any::<bool>()).prop_map(|(stop, late)| Op::Restart(stop, 0, late)),
        2 => delay().prop_map(Op::Advance),
    ];
    (set(), next).prop_map(|(set, next)| Op::Jump(set, Box::new(next))).boxed()
}

/// Few of them cancel or delete, so that jobs are left.
fn bulk() -> BoxedStrategy<Op> {
    let verb = prop_oneof![
        1 => Just(Every::Cancel),
        2 => time().prop_map(Every::Reschedule),
        2 => Just(Every::Retry),
        1 => Just(Every::Delete),
    ];
    let of_kind = prop_oneof![3 => kind().prop_map(Some), 1 => Just(None)];
    (verb, of_kind).prop_map(|(verb, kind)| Op::Bulk(verb, kind)).boxed()
}

fn set() -> impl Strategy<Value = Set> {
    let by = prop_oneof![
        2 => prop::sample::select(vec![-1, -400, -999, -1001, -60_000, -3_600_000]),
        2 => prop::sample::select(vec![1, 30, 999, 5000, 3_600_000, 2 * DAY as i64]),
    ];
    prop_oneof![5 => by.prop_map(Set::By), 1 => Just(Set::Epoch), 3 => Just(Set::Right)]
}

/// Returns any step of a history.
pub(crate) fn op() -> BoxedStrategy<Op> {
    let policy =
        prop_oneof![Just(Policy::Skip), Just(Policy::Once), (0..5_u32).prop_map(Policy::Burst)];
    let period = prop::sample::select(vec![0, 20, 1000, 1000, 60_000, 3_600_000, DAY]);
    let stop = prop::sample::select(vec![
        Stop::Shutdown,
        Stop::DropJobs,
        Stop::DropDriver,
        Stop::Crash,
        Stop::Crash,
    ]);
    let gap = prop::sample::select(vec![0, 0, 1, 40, 5000, 3_600_000, 2 * DAY]);
    prop_oneof![
        42 => any_call(full_plan()),
        1 => (kind(), time(), plan(Just(Vec::new()))).prop_map(|(kind, time, plan)| Op::Batch {
            kind, time, jobs: 300, step: 1, wrong: false, plan
        }),
        1 => plan(Just(Vec::new())).prop_map(Op::LongKey),
        3 => (prop::option::of(kind()), -5000..200_i64, -200..5000_i64)
            .prop_map(|(k, from, to)| Op::Pages(k, from, to)),
        3 => (0..2_usize, kind(), period, policy, full_plan())
            .prop_map(|(n, k, ms, policy, p)| Op::Schedule(n, k, ms, policy, p)),
        1 => (0..2_usize).prop_map(Op::Unschedule),
        2 => (0..2_usize, any::<bool>()).prop_map(|(n, pauses)| Op::PauseSchedule(n, pauses)),
        2 => (kind(), delay()).prop_map(|(kind, ms)| Op::HeadStart(kind, ms)),
        3 => (0..24_usize, prop::option::weighted(0.7, 1..4_u32))
            .prop_map(|(scope, running)| Op::Limit(scope, running)),
        2 => (prop::option::weighted(0.8, kind()), prop::bool::weighted(0.4))
            .prop_map(|(kind, pauses)| Op::Pause(kind, pauses)),
        5 => (kind(), bounds()).prop_map(|(kind, bounds)| Op::Keep(kind, bounds)),
        1 => Just(Op::LateProgress),
        1 => (pick(), 0..1500_u64).prop_map(|(pick, ms)| Op::WaitAcross(pick, ms)),
        2 => (kind(), 0..1500_u64, full_plan())
            .prop_map(|(kind, ms, plan)| Op::CallAcross(kind, ms, plan)),
        6 => any_call(full_plan()).prop_map(|op| Op::Other(Box::new(op))),
        4 => bulk(),
        1 => bulk().prop_map(|op| Op::Other(Box::new(op))),
        25 => delay().prop_map(Op::Advance),
        1 => Just(Op::Advance(DAY)),
        1 => Just(Op::Advance(52 * DAY)),
        1 => (1..2000_u64).prop_map(Op::AdvanceMicros),
        5 => set().prop_map(Op::SetWall),
        4 => jump(),
        4 => prop::collection::vec(hook_call(), 1..4).prop_map(Op::OnEvent),
        6 => (stop, gap, any::<bool>()).prop_map(|(s, gap, late)| Op::Restart(s, gap, late)),
    ]
    .boxed()
}
