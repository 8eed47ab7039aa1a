//! The steps of a history, and how they are drawn.

use proptest::prelude::*;

/// One step of a history. An index is taken modulo the number of things.
#[derive(Clone, Debug)]
pub(super) enum Step {
    Insert {
        kind: usize,
        partition: Option<usize>,
        delay: u64,
        many: usize,
    },
    Claim {
        limit: usize,
        in_lanes: usize,
        suspects: bool,
    },
    Finish(usize),
    /// The run fails, and its job is due again after this delay.
    Retry(usize, u64),
    Release(usize),
    Cancel(usize),
    Reschedule(usize, u64),
    Limit(usize, Option<u32>, Option<u32>),
    /// Sets the weight of a partition of the first kind.
    Weigh(usize, u32),
    /// Sets a rate in the place of the limit: jobs, milliseconds, burst.
    Rate(usize, (u32, u64, u32)),
    /// Holds a scope for these milliseconds.
    Hold(usize, u64),
    /// Pauses a partition of a kind, or ends the pause.
    Pause(usize, usize, bool),
    Advance(u64),
    /// The clock is set back.
    SetBack(u64),
    /// The process ends, and another one begins.
    Restart,
}

pub(super) fn steps() -> impl Strategy<Value = Vec<Step>> {
    prop_oneof![6 => mixed(), 2 => turns(), 1 => backlog()]
}

/// A history with more due jobs of a partition than any store handles at once. Others get their first due job beside
/// them: by an insert, by its due time, by a retry, when a claim is given back, and when the clock was set back.
pub(super) fn backlog() -> impl Strategy<Value = Vec<Step>> {
    let delay = || prop::sample::select(vec![0, 0, 1, 30, 60]);
    let other = (1..6usize, delay(), 1..3usize).prop_map(|(partition, delay, many)| Step::Insert {
        kind: 0,
        partition: Some(partition),
        delay,
        many,
    });
    let step = prop_oneof![
        4 => other,
        8 => (1..4usize).prop_map(claim),
        2 => (0..99usize).prop_map(Step::Finish),
        2 => (0..9usize, delay()).prop_map(|(pick, delay)| Step::Retry(pick, delay)),
        1 => (0..9usize).prop_map(Step::Release),
        2 => prop::sample::select(vec![1, 10, 50]).prop_map(Step::Advance),
        1 => prop::sample::select(vec![1, 40]).prop_map(Step::SetBack),
    ];
    let backlog = (300..700usize).prop_map(|many| insert((0, many)));
    (backlog, prop::collection::vec(step, 4..25))
        .prop_map(|(backlog, steps)| core::iter::once(backlog).chain(steps).collect())
}

/// A history of many turns, so that shares are seen: six partitions of one kind with weights of their own.
fn turns() -> impl Strategy<Value = Vec<Step>> {
    let weight = || prop::sample::select(vec![1, 1, 2, 3, 4, 10, 40]);
    let weights = prop::collection::vec(weight(), 6);
    let some = |many| (0..6usize, many).prop_map(insert);
    let step = prop_oneof![
        3 => some(1..6usize),
        8 => (1..40usize).prop_map(claim),
        2 => (0..99usize).prop_map(Step::Finish),
        1 => (0..6usize, weight()).prop_map(|(partition, weight)| Step::Weigh(partition, weight)),
        1 => (0..6usize, any::<bool>()).prop_map(|(partition, pauses)| Step::Pause(0, partition, pauses)),
        1 => (1..12u32).prop_map(each),
    ];
    (weights, prop::collection::vec(some(5..25usize), 4..7), prop::collection::vec(step, 1..20))
        .prop_map(|(weights, inserts, steps)| {
            let weigh = |(partition, weight)| Step::Weigh(partition, weight);
            weights.into_iter().enumerate().map(weigh).chain(inserts).chain(steps).collect()
        })
}

/// Inserts jobs of a partition of the first kind that are due.
fn insert((partition, many): (usize, usize)) -> Step {
    Step::Insert { kind: 0, partition: Some(partition), delay: 0, many }
}

fn claim(limit: usize) -> Step {
    Step::Claim { limit, in_lanes: 100, suspects: false }
}

/// Limits each partition of the first kind.
fn each(running: u32) -> Step {
    Step::Limit(3, Some(running), None)
}

/// The weight of a partition changes while it waits for its turn among others.
#[cfg(feature = "redis")]
pub(super) fn changed_weight() -> Vec<Step> {
    let inserts = [(1, 32), (4, 9), (3, 30), (0, 32), (2, 35)].map(insert);
    let then = [Step::Weigh(2, 3), claim(17), Step::Weigh(0, 10), claim(4), claim(12)];
    inserts.into_iter().chain(then).collect()
}

/// All partitions are full after some turns. Then there is another one, and all may run.
#[cfg(feature = "redis")]
pub(super) fn full_and_new() -> Vec<Step> {
    vec![each(10), insert((0, 40)), insert((1, 40)), claim(40), insert((2, 40)), each(20), claim(8)]
}

fn mixed() -> impl Strategy<Value = Vec<Step>> {
    let delay = || prop::sample::select(vec![0, 0, 0, 1, 30, 60, 400]);
    let insert = (0..4usize, prop::option::weighted(0.8, 0..4usize), delay(), 1..6usize)
        .prop_map(|(kind, partition, delay, many)| Step::Insert { kind, partition, delay, many });
    let claim = (1..9usize, prop::sample::select(vec![1, 2, 3, 100]), any::<bool>())
        .prop_map(|(limit, in_lanes, suspects)| Step::Claim { limit, in_lanes, suspects });
    let limit = (
        0..9usize,
        prop::option::weighted(0.8, 1..4u32),
        prop::option::weighted(0.4, prop::sample::select(vec![1, 2, 3, 10])),
    );
    let rate = (1..5u32, prop::sample::select(vec![1, 50, 100, 700, 5000]), 1..4u32);
    // Versions of a program that disagree.
    let disagreeing = prop::sample::select(vec![(2, 100, 1), (2, 100, 3), (5, 700, 2)]);
    let step = prop_oneof![
        8 => insert,
        12 => claim,
        6 => (0..99usize).prop_map(Step::Finish),
        1 => (0..99usize, delay()).prop_map(|(pick, delay)| Step::Retry(pick, delay)),
        1 => (0..99usize).prop_map(Step::Release),
        1 => (0..99usize).prop_map(Step::Cancel),
        1 => (0..99usize, delay()).prop_map(|(pick, delay)| Step::Reschedule(pick, delay)),
        1 => (0..3usize, 0..4usize, prop::bool::weighted(0.4))
            .prop_map(|(kind, of, pauses)| Step::Pause(kind, of, pauses)),
        2 => limit.prop_map(|(scope, running, weight)| Step::Limit(scope, running, weight)),
        2 => (0..9usize, rate).prop_map(|(scope, rate)| Step::Rate(scope, rate)),
        1 => (0..3usize, disagreeing).prop_map(|(scope, rate)| Step::Rate(scope, rate)),
        1 => (0..9usize, prop::sample::select(vec![0, 30, 400])).prop_map(|(scope, ms)| Step::Hold(scope, ms)),
        3 => prop::sample::select(vec![1, 10, 100, 1000]).prop_map(Step::Advance),
        1 => prop::sample::select(vec![1, 40, 400]).prop_map(Step::SetBack),
        1 => Just(Step::Restart),
    ];
    prop::collection::vec(step, 1..80)
}
