//! The public API against a slow and obvious model, in random histories on a manual clock.
//!
//! The model in `wheel/` has its actions, its oracle, which shares no code with the crate, and one function `run`. After
//! every action the answers and the state of both are compared. Two drivers make the histories: proptest here, and the
//! fuzzer in `fuzz/`, which includes the same files.
//!
//! The structure without a wheel has its model in `src/structure/tests/model.rs`.
#![allow(dead_code, reason = "the fuzzer calls some of it, and this driver the rest")]

mod bytes;
mod wheel;

use std::fmt::Debug;
use std::ops::Range;

use arbitrary::{Arbitrary, Unstructured};
use proptest::collection::vec;
use proptest::prelude::*;
use wheel::histories::{EventsOp, KeyOp};
use wheel::{Act, EventOp, LastWill, Op, Place, Plan, Room, Setup, Time};
#[cfg(feature = "async")]
use wheel::{SleeperOp, histories::SleepersOp};

/// The bytes of an action. The end of a long batch finds none left, and takes zeros.
const ACTION_BYTES: usize = 64;

/// Each action has bytes of its own, so that a history that fails shrinks action by action.
fn from_bytes<T>() -> impl Strategy<Value = T>
where
    T: for<'a> Arbitrary<'a> + Debug,
{
    let decode = |bytes: Vec<u8>| Unstructured::new(&bytes).arbitrary();
    vec(any::<u8>(), ACTION_BYTES).prop_map(move |bytes| decode(bytes).expect("enough bytes"))
}

/// A setup, and some actions.
fn history<S, A>(actions: Range<usize>) -> impl Strategy<Value = (S, Vec<A>)>
where
    S: for<'a> Arbitrary<'a> + Debug,
    A: for<'a> Arbitrary<'a> + Debug,
{
    (from_bytes(), vec(from_bytes(), actions))
}

/// The setup of a history whose bytes are zeros.
fn plain() -> Setup {
    Unstructured::new(&[]).arbitrary().expect("bytes that are missing count as zeros")
}

// By day 256 histories are drawn for each test. At night `PROPTEST_CASES` raises the number.
proptest! {
    /// C2, C9, C11, C13, C35, C38, C50, C52: Random histories of all verbs agree with a heap and a map.
    #[test]
    fn the_wheel_agrees_with_a_heap((setup, ops) in history(1..50)) {
        wheel::run(&setup, &ops);
    }

    /// C42, C45: The same, in histories that are mostly about keys.
    #[test]
    fn keys_agree_with_a_map((setup, ops) in history(1..80)) {
        wheel::run(&setup, ops.iter().map(|KeyOp(op)| op));
    }

    /// C91, C92, C98, C100, C102: Random histories that are mostly about events agree with a list.
    #[test]
    fn events_agree_with_a_list((setup, ops) in history(1..80)) {
        wheel::run(&setup, ops.iter().map(|EventsOp(op)| op));
    }
}

#[cfg(feature = "async")]
proptest! {
    /// C73, C74: Random histories that are mostly about sleeps, timeouts and intervals agree with a list of their times.
    #[test]
    fn sleeps_agree_with_a_list((setup, ops) in history(1..140)) {
        wheel::run(&setup, ops.iter().map(|SleepersOp(op)| op));
    }
}

/// A call of `Driver::advance` from a job adds to the advance that runs it. A job of `every` that adds more than its
/// period would keep that advance from its end, so the jobs of the model cease to act after some runs.
#[test]
fn the_wheel_agrees_if_a_job_advances_by_more_than_its_period() {
    let period = 10_000;
    let job = Op::Repeat(
        Place::Wheel,
        Plan::every(period),
        Act::Advance(2 * period - 1),
        LastWill::Nothing,
    );
    wheel::run(&plain(), &[job, Op::Advance(period), Op::AdvanceToNext]);
}

/// An event that waits for room although its wall-clock time has come is the next timer or is none: setting the wall
/// clock to where it is may put it into the next tick, or leave it.
#[test]
fn the_wheel_agrees_if_the_wall_is_set_while_an_event_waits_for_room() {
    let room = Room { events: 1, gives: false };
    let setup = Setup { sizes: vec![1], bound: 1, room, ..plain() };
    let insert = |time| EventOp::Insert(time, LastWill::Nothing);
    let overdue = Act::Event(insert(Time::Wall(-20_000)));
    let history = [
        Op::Insert(Time::After(0), overdue, LastWill::Nothing),
        Op::Event(insert(Time::At(-20_000))),
        Op::Advance(2049),
        Op::SetWall(0),
        Op::AdvanceToNext,
    ];
    wheel::run(&setup, &history);
}

/// The wheel makes its shards of wakers with the first sleep, which may be late in its life.
#[cfg(feature = "async")]
#[test]
fn sleeps_agree_if_the_first_is_late_in_a_wheels_life() {
    use SleeperOp::{Poll, ResetAt, Sleep};
    let first = [Sleep(0), Poll(0), ResetAt(0, 0, false)].map(Op::Sleeper);
    let history = [vec![Op::Advance(1000)], first.to_vec(), vec![Op::AdvanceToNext]].concat();
    wheel::run(&plain(), &history);
}

/// A sleep that is reset to the past waits for a tick that has passed. Other sleeps that are over stay over.
#[cfg(feature = "async")]
#[test]
fn sleeps_that_are_over_stay_over_if_another_is_reset_to_the_past() {
    use SleeperOp::{Poll, ResetAt, Sleep};
    let history = [
        Op::Sleeper(Sleep(0)),
        Op::Sleeper(Poll(0)),
        Op::AdvanceToNext,
        Op::Sleeper(Sleep(0)),
        Op::Sleeper(Poll(1)),
        Op::Sleeper(ResetAt(1, -1000, false)),
        Op::Advance(0),
    ];
    wheel::run(&plain(), &history);
}
