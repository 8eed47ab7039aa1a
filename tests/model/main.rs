//! The public API against slow and obvious models, in random histories on a manual clock.
//!
//! Each model has its actions, its oracle, which shares no code with the crate, and one function `run`. After
//! every action the answers and the state of both are compared. Two drivers make the histories:
//! proptest here, and the fuzzer in `fuzz/`, which includes the same files.
//!
//! `wheel/` has everything on one wheel, with calls from inside all of it. `events.rs` and `futures.rs` have one kind of
//! timer alone, so that they know more: each end of the channel, and the end of the wheel.
//!
//! The structure without a wheel has its model in `src/structure/tests/model.rs`.
#![allow(dead_code, reason = "the fuzzer calls some of it, and this driver the rest")]

mod bytes;
mod events;
#[cfg(feature = "async")]
mod futures;
mod wheel;

use std::fmt::Debug;
use std::ops::Range;

use arbitrary::{Arbitrary, Unstructured};
use proptest::collection::vec;
use proptest::prelude::*;

#[cfg(feature = "async")]
use bytes::Delay;

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

// By day 256 histories are drawn for each test. At night `PROPTEST_CASES` raises the number.
proptest! {
    /// Random histories of all verbs agree with a heap and a map.
    #[test]
    fn the_wheel_agrees_with_a_heap((setup, ops) in history(1..50)) {
        wheel::run(&setup, &ops);
    }

    /// The same, in histories that are mostly about keys.
    #[test]
    fn keys_agree_with_a_map((setup, ops) in history(1..80)) {
        wheel::run(&setup, ops.iter().map(|wheel::KeyOp(op)| op));
    }

    /// C102: Random histories of events agree with a list.
    #[test]
    fn events_agree_with_a_list((setup, actions) in history(1..80)) {
        events::run(setup, &actions);
    }
}

/// A call of `Driver::advance` from a job adds to the advance that runs it. A job of `every` that adds more than its
/// period would keep that advance from its end, so the jobs of the model cease to act after some runs.
#[test]
fn the_wheel_agrees_if_a_job_advances_by_more_than_its_period() {
    use wheel::{Act, LastWill, Op, Place, Plan};
    let setup = Unstructured::new(&[]).arbitrary().expect("bytes that are missing count as zeros");
    let period = 10_000;
    let job = Op::Repeat(
        Place::Wheel,
        Plan::every(period),
        Act::Advance(2 * period - 1),
        LastWill::Nothing,
    );
    wheel::run(&setup, &[job, Op::Advance(period), Op::AdvanceToNext]);
}

/// An event that waits for room although its wall-clock time has come is the next timer or is none: setting the wall
/// clock to where it is may put it into the next tick, or leave it.
#[test]
fn the_wheel_agrees_if_the_wall_is_set_while_an_event_waits_for_room() {
    use wheel::{Act, EventOp, LastWill, Op, Room, Setup, Time};
    let zeros = Unstructured::new(&[]).arbitrary();
    let mut setup: Setup = zeros.expect("bytes that are missing count as zeros");
    (setup.sizes, setup.bound) = (vec![1], 1);
    setup.room = Room { events: 1, gives: false };
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

#[cfg(feature = "async")]
proptest! {
    /// C73: Random histories of sleeps, timeouts and intervals agree with a list of their times.
    #[test]
    fn sleeps_agree_with_a_list((setup, actions) in history(1..140)) {
        futures::run(setup, &actions);
    }
}

/// The wheel makes its shards of wakers with the first sleep, which may be late in its life.
#[cfg(feature = "async")]
#[test]
fn sleeps_agree_if_the_first_is_late_in_a_wheels_life() {
    use futures::Action::{Advance, AdvanceToNext, Poll, ResetAt, Sleep};
    let history =
        [Advance(Delay(1)), Sleep(Delay(0)), Poll(0, 0), ResetAt(0, 0, false), AdvanceToNext];
    futures::run(futures::Setup(0), &history);
}

/// A sleep that is reset to the past waits for a tick that has passed. Other sleeps that are over stay
/// over.
#[cfg(feature = "async")]
#[test]
fn sleeps_that_are_over_stay_over_if_another_is_reset_to_the_past() {
    use futures::Action::{Advance, AdvanceToNext, Poll, ResetAt, Sleep};
    let history = [
        Sleep(Delay(0)),
        Poll(0, 0),
        AdvanceToNext,
        Sleep(Delay(0)),
        Poll(1, 0),
        ResetAt(1, -1, false),
        Advance(Delay(0)),
    ];
    futures::run(futures::Setup(0), &history);
}
