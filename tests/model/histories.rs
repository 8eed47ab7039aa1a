//! The random operations of a history.

use proptest::prelude::*;
use tickwheel::Missed;

use crate::truth::TICK;
use crate::{Act, Answer, Ending, EventOp, First, KEYS, LastWill, Op, Place, Plan, Room, Time};
#[cfg(feature = "async")]
use crate::{Beats, SleeperOp};

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

fn act_on_jobs() -> BoxedStrategy<Act> {
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
    .boxed()
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

/// A job that always answers a delay of zero runs at every tick, up to `MAX_RUNS`.
fn answer() -> impl Strategy<Value = Answer> {
    prop_oneof![
        6 => Just(Answer::Period),
        2 => delay().prop_map(Answer::After),
        1 => ahead().prop_map(Answer::At),
        1 => ahead().prop_map(Answer::Wall),
        1 => Just(Answer::Stop),
    ]
}

fn missed() -> impl Strategy<Value = Missed> {
    prop::sample::select(vec![Missed::Burst, Missed::Skip, Missed::Delay])
}

fn plan() -> impl Strategy<Value = Plan> {
    let period = prop_oneof![
        1 => Just(None),
        1 => Just(Some(0)),
        2 => (1..2 * TICK).prop_map(Some),
        6 => (1..20 * TICK).prop_map(Some),
        2 => (1..20_u64).prop_map(|ticks| Some(ticks * TICK)),
    ];
    let first = prop_oneof![
        3 => delay().prop_map(First::After),
        1 => (0..100 * TICK).prop_map(First::Past),
    ];
    (period, missed(), first, any::<bool>(), prop::collection::vec(answer(), 1..4)).prop_map(
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

fn op_on_jobs() -> BoxedStrategy<Op> {
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
        1 => Just(Op::AdvanceToNext),
    ]
    .boxed()
}

fn event_op() -> BoxedStrategy<EventOp> {
    let which = any::<usize>;
    prop_oneof![
        6 => (delay(), last_will()).prop_map(|(delay, will)| EventOp::Insert(delay, will)),
        3 => ahead().prop_map(EventOp::InsertWall),
        2 => [delay(), delay(), delay()].prop_map(EventOp::Batch),
        3 => which().prop_map(EventOp::Cancel),
        2 => which().prop_map(EventOp::Take),
        3 => (which(), delay()).prop_map(|(which, delay)| EventOp::Reset(which, delay)),
        2 => (which(), ahead()).prop_map(|(which, ahead)| EventOp::ResetWall(which, ahead)),
        4 => (1..5_usize).prop_map(EventOp::Receive),
    ]
    .boxed()
}

#[cfg(feature = "async")]
fn sleeper_op() -> BoxedStrategy<SleeperOp> {
    let which = any::<usize>;
    let beats = (100..20 * TICK, prop::option::of(delay()), missed())
        .prop_map(|(period, first, missed)| Beats { period, first, missed });
    prop_oneof![
        3 => delay().prop_map(SleeperOp::Sleep),
        2 => ahead().prop_map(SleeperOp::SleepUntil),
        1 => (delay(), 0..200 * TICK).prop_map(|(d, slack)| SleeperOp::SleepWithin(d, slack)),
        2 => delay().prop_map(SleeperOp::Timeout),
        1 => ahead().prop_map(SleeperOp::TimeoutAt),
        2 => beats.prop_map(SleeperOp::Interval),
        1 => which().prop_map(SleeperOp::GetReady),
        9 => which().prop_map(SleeperOp::Poll),
        3 => (which(), delay()).prop_map(|(which, delay)| SleeperOp::Reset(which, delay)),
        3 => (which(), ahead()).prop_map(|(which, ahead)| SleeperOp::ResetAt(which, ahead)),
        2 => which().prop_map(SleeperOp::Drop),
    ]
    .boxed()
}

#[cfg(feature = "async")]
pub(crate) fn act() -> BoxedStrategy<Act> {
    prop_oneof![
        14 => act_on_jobs(),
        4 => event_op().prop_map(Act::Event),
        4 => sleeper_op().prop_map(Act::Sleeper),
        1 => (0..20 * TICK).prop_map(Act::Advance),
    ]
    .boxed()
}

#[cfg(not(feature = "async"))]
pub(crate) fn act() -> BoxedStrategy<Act> {
    prop_oneof![
        14 => act_on_jobs(),
        4 => event_op().prop_map(Act::Event),
        1 => (0..20 * TICK).prop_map(Act::Advance),
    ]
    .boxed()
}

#[cfg(feature = "async")]
pub(crate) fn op() -> BoxedStrategy<Op> {
    prop_oneof![
        40 => op_on_jobs(),
        14 => event_op().prop_map(Op::Event),
        10 => sleeper_op().prop_map(Op::Sleeper),
        8 => (any::<usize>(), act()).prop_map(|(which, act)| Op::Poll(which, act)),
    ]
    .boxed()
}

#[cfg(not(feature = "async"))]
pub(crate) fn op() -> BoxedStrategy<Op> {
    prop_oneof![40 => op_on_jobs(), 14 => event_op().prop_map(Op::Event)].boxed()
}

/// The room of the channel of events.
pub(crate) fn room() -> impl Strategy<Value = Room> {
    prop_oneof![
        2 => Just(Room { events: usize::MAX, gives: false }),
        3 => (1..4_usize).prop_map(|events| Room { events, gives: false }),
        1 => (1..4_usize).prop_map(|events| Room { events, gives: true }),
    ]
}

pub(crate) fn ending() -> impl Strategy<Value = Ending> {
    prop_oneof![Just(Ending::Shutdown), Just(Ending::Drop)]
}
