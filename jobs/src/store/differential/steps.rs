//! The steps of a history, and how they are drawn.

use std::time::Duration;

use proptest::prelude::*;

use crate::values::limit::Limit;

/// How many scopes there are, before the partitions of the first kind one by one.
pub(super) const SCOPES: usize = 9;

/// A job to insert.
#[derive(Clone, Default, Debug)]
pub(super) struct Drawn {
    pub(super) kind: usize,
    pub(super) partition: Option<usize>,
    pub(super) key: Option<usize>,
    /// If another job has the key, that one stays.
    pub(super) leaves: bool,
    /// In milliseconds.
    pub(super) delay: u64,
    pub(super) wanted: bool,
    /// The id of a job that is there.
    pub(super) again: Option<usize>,
    /// How many milliseconds after its due time it expires.
    pub(super) expires: Option<u64>,
}

/// How a run ends.
#[derive(Clone, Copy, Debug)]
pub(super) enum Ends {
    Well,
    Dead,
    /// The run fails, and its job is due again after this delay.
    Again(u64),
    /// No run has started: the job was too old.
    Expired,
}

/// One step of a history. An index is taken modulo the number of things.
#[derive(Clone, Debug)]
pub(super) enum Step {
    /// So many jobs of one sort.
    Insert(Drawn, usize),
    Group {
        members: Vec<Drawn>,
        callback: Option<Drawn>,
        is_sealed: bool,
        waits: bool,
        /// It keeps results.
        keeps: bool,
        within: Option<usize>,
        /// The id of a group that is or was there.
        again: Option<usize>,
    },
    Add(usize, Vec<Drawn>),
    Seal(usize),
    /// Marks the group, and perhaps cancels its members.
    CancelGroup(usize, bool),
    Claim {
        limit: usize,
        in_lanes: usize,
        suspects: bool,
    },
    /// So many runs end in one commit, perhaps together with a seal. Those that end well have follow-ups.
    Finish {
        pick: usize,
        ends: Vec<Ends>,
        then: Vec<Drawn>,
        seal: Option<usize>,
    },
    Release(usize),
    Cancel(usize),
    Reschedule(usize, u64),
    /// Cancels the jobs of all keys in one commit, also the job with the key of the schedule.
    CancelKeys,
    /// This many occurrences of the schedule, which is without overlap. `false`: the schedule was changed meanwhile.
    Occur(usize, bool),
    /// A dead job is pending again.
    Retry(usize),
    Delete(usize),
    Limit(usize, Limit),
    /// Holds a scope for these milliseconds.
    Hold(usize, u64),
    /// Pauses a partition of a kind, or ends the pause.
    Pause(usize, usize, bool),
    /// The clock goes on, or is set back, by these milliseconds.
    Advance(i64),
    /// The process ends, and another one begins. The number says for how many hours the new process keeps dead jobs and
    /// groups.
    Restart(u32),
    /// Five processes claim all that is due, and end.
    Crashes,
    /// The next process keeps dead jobs and groups for an hour. So many hours pass, and it forgets what is over.
    Later(u32),
}

pub(super) fn steps() -> impl Strategy<Value = Vec<Step>> {
    prop_oneof![5 => of_lanes(), 3 => turns(), 2 => rates(), 1 => backlog(), 8 => of_groups()]
}

/// A history with more due jobs of a partition than any store handles at once. Others get their first due job beside
/// them: by an insert, by its due time, by a retry, when a claim is given back, and when the clock was set back.
pub(super) fn backlog() -> impl Strategy<Value = Vec<Step>> {
    let delay = || prop::sample::select(vec![0, 0, 1, 30, 60]);
    let other = (1..6usize, delay(), 1..3usize).prop_map(|(partition, delay, many)| {
        Step::Insert(Drawn { partition: Some(partition), delay, ..Drawn::default() }, many)
    });
    let step = prop_oneof![
        4 => other,
        8 => (1..4usize).prop_map(claim),
        2 => end_well(),
        2 => (0..9usize, delay()).prop_map(|(pick, delay)| end(pick, Ends::Again(delay))),
        1 => (0..9usize).prop_map(Step::Release),
        2 => prop::sample::select(vec![1, 10, 50, -1, -40]).prop_map(Step::Advance),
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
        2 => end_well(),
        1 => (0..6usize, weight()).prop_map(|(partition, weight)| weigh(partition, weight)),
        2 => (0..6usize, any::<bool>()).prop_map(|(partition, pauses)| Step::Pause(0, partition, pauses)),
        2 => (0..6usize).prop_map(|partition| Step::Hold(SCOPES + partition, 400)),
        1 => Just(Step::Advance(100)),
        1 => (1..12u32).prop_map(each),
    ];
    (weights, prop::collection::vec(some(5..25usize), 4..7), prop::collection::vec(step, 1..20))
        .prop_map(|(weights, inserts, steps)| {
            let weights = weights.into_iter().enumerate();
            weights.map(|(of, weight)| weigh(of, weight)).chain(inserts).chain(steps).collect()
        })
}

/// A history of claims about as fast as the rate of the queue, of a flow or of a partition allows.
fn rates() -> impl Strategy<Value = Vec<Step>> {
    let scope = prop::sample::select(vec![0, 1, SCOPES]);
    let old = (expires(), 1..9usize).prop_map(|(expires, many)| {
        Step::Insert(Drawn { partition: Some(0), expires, ..Drawn::default() }, many)
    });
    let step = prop_oneof![
        1 => old,
        2 => (1..4usize).prop_map(claim),
        3 => prop::sample::select(vec![10, 100, 170, 350]).prop_map(Step::Advance),
    ];
    (scope, 1..5u32, 1..4u32, prop::collection::vec(step, 10..50)).prop_map(
        |(scope, jobs, burst, steps)| {
            let rate = Limit::none().rate(jobs, Duration::from_millis(700)).burst(burst);
            [insert((0, 40)), Step::Limit(scope, rate)].into_iter().chain(steps).collect()
        },
    )
}

/// Returns how many milliseconds after its due time a job expires.
fn expires() -> impl Strategy<Value = Option<u64>> {
    prop::option::weighted(0.3, prop::sample::select(vec![0, 0, 20, 300]))
}

/// Inserts jobs of a partition of the first kind that are due.
fn insert((partition, many): (usize, usize)) -> Step {
    Step::Insert(Drawn { partition: Some(partition), ..Drawn::default() }, many)
}

fn claim(limit: usize) -> Step {
    Step::Claim { limit, in_lanes: 100, suspects: false }
}

fn end(pick: usize, ends: Ends) -> Step {
    Step::Finish { pick, ends: vec![ends], then: Vec::new(), seal: None }
}

fn end_well() -> impl Strategy<Value = Step> {
    (0..99usize).prop_map(|pick| end(pick, Ends::Well))
}

/// Limits each partition of the first kind.
fn each(running: u32) -> Step {
    Step::Limit(3, Limit::running(running))
}

/// Sets the weight of a partition of the first kind.
fn weigh(partition: usize, weight: u32) -> Step {
    Step::Limit(SCOPES + partition, Limit::none().weight(weight))
}

/// The weight of a partition changes while it waits for its turn among others.
#[cfg(feature = "redis")]
pub(super) fn changed_weight() -> Vec<Step> {
    let inserts = [(1, 32), (4, 9), (3, 30), (0, 32), (2, 35)].map(insert);
    let then = [weigh(2, 3), claim(17), weigh(0, 10), claim(4), claim(12)];
    inserts.into_iter().chain(then).collect()
}

/// All partitions are full after some turns. Then there is another one, and all may run.
#[cfg(feature = "redis")]
pub(super) fn full_and_new() -> Vec<Step> {
    vec![each(10), insert((0, 40)), insert((1, 40)), claim(40), insert((2, 40)), each(20), claim(8)]
}

/// A history of limits, rates, holds and pauses.
fn of_lanes() -> impl Strategy<Value = Vec<Step>> {
    let delay = || prop::sample::select(vec![0, 0, 0, 1, 30, 60, 400]);
    let partition = prop::option::weighted(0.8, 0..4usize);
    let insert = (0..4usize, partition, delay(), expires(), 1..6usize).prop_map(
        |(kind, partition, delay, expires, many)| {
            Step::Insert(Drawn { kind, partition, delay, expires, ..Drawn::default() }, many)
        },
    );
    let claim = (1..9usize, prop::sample::select(vec![1, 2, 3, 100]), any::<bool>())
        .prop_map(|(limit, in_lanes, suspects)| Step::Claim { limit, in_lanes, suspects });
    let limit = (
        prop::option::weighted(0.8, 1..4u32),
        prop::option::weighted(0.4, prop::sample::select(vec![1, 2, 3, 10])),
    )
        .prop_map(|(running, weight)| {
            let limit = running.map_or(Limit::none(), Limit::running);
            weight.map_or(limit, |weight| limit.weight(weight))
        });
    let rate =
        |(jobs, per, burst)| Limit::none().rate(jobs, Duration::from_millis(per)).burst(burst);
    let rates =
        (1..5u32, prop::sample::select(vec![1, 50, 100, 700, 5000]), 1..4u32).prop_map(rate);
    // Versions of a program that disagree.
    let disagreeing =
        prop::sample::select(vec![(2, 100, 1), (2, 100, 3), (5, 700, 2)]).prop_map(rate);
    let step = prop_oneof![
        8 => insert,
        12 => claim,
        6 => end_well(),
        1 => (0..99usize, delay()).prop_map(|(pick, delay)| end(pick, Ends::Again(delay))),
        1 => (0..99usize).prop_map(|pick| end(pick, Ends::Expired)),
        1 => (0..99usize).prop_map(Step::Release),
        1 => (0..99usize).prop_map(Step::Cancel),
        1 => (0..99usize, delay()).prop_map(|(pick, delay)| Step::Reschedule(pick, delay)),
        1 => (0..3usize, 0..4usize, prop::bool::weighted(0.4))
            .prop_map(|(kind, of, pauses)| Step::Pause(kind, of, pauses)),
        2 => (0..9usize, limit).prop_map(|(scope, limit)| Step::Limit(scope, limit)),
        2 => (0..9usize, rates).prop_map(|(scope, rate)| Step::Limit(scope, rate)),
        1 => (0..3usize, disagreeing).prop_map(|(scope, rate)| Step::Limit(scope, rate)),
        1 => (0..9usize, prop::sample::select(vec![0, 30, 400])).prop_map(|(scope, ms)| Step::Hold(scope, ms)),
        3 => prop::sample::select(vec![1, 10, 100, 1000]).prop_map(Step::Advance),
        1 => prop::sample::select(vec![-1, -40, -400]).prop_map(Step::Advance),
        1 => Just(Step::Restart(4)),
    ];
    prop::collection::vec(step, 1..80)
}

fn drawn() -> impl Strategy<Value = Drawn> {
    let kind = prop::sample::select(vec![0, 0, 0, 0, 1, 3]);
    let key = prop::option::weighted(0.25, 0..2usize);
    let delay = prop::sample::select(vec![0, 0, 0, 30, 400, 7_200_000]);
    let partition = prop::option::weighted(0.2, Just(0));
    let marks = (any::<bool>(), prop::bool::weighted(0.2));
    let again = prop::option::weighted(0.05, 0..99usize);
    (kind, partition, key, delay, marks, again, expires()).prop_map(
        |(kind, partition, key, delay, (leaves, wanted), again, expires)| Drawn {
            expires,
            kind,
            partition,
            key,
            leaves,
            delay,
            wanted,
            again,
        },
    )
}

/// A history of groups, keys and a schedule.
fn of_groups() -> impl Strategy<Value = Vec<Step>> {
    let callback = drawn().prop_map(|drawn| Drawn { kind: 1, key: None, ..drawn });
    let group = (
        prop::collection::vec(drawn(), 0..4),
        prop::option::weighted(0.8, callback),
        (prop::bool::weighted(0.6), prop::bool::weighted(0.3), prop::bool::weighted(0.8)),
        prop::option::weighted(0.3, 0..9usize),
        prop::option::weighted(0.2, 0..9usize),
    )
        .prop_map(|(members, callback, (is_sealed, waits, keeps), within, again)| {
            Step::Group {
                within: within.filter(|_| callback.is_some()),
                members,
                callback,
                is_sealed,
                waits,
                keeps,
                again,
            }
        });
    let (well, again) = (Ends::Well, Ends::Again(30));
    let old = Ends::Expired;
    let ends = prop::sample::select(vec![well, well, well, Ends::Dead, Ends::Dead, old, again]);
    let ends = prop::collection::vec(ends, 1..4);
    let then = prop::collection::vec(drawn(), 0..2);
    let claim =
        (1..9usize).prop_map(|limit| Step::Claim { limit, in_lanes: limit, suspects: true });
    let step = prop_oneof![
        2 => drawn().prop_map(|drawn| Step::Insert(drawn, 1)),
        5 => group,
        3 => (0..9usize, prop::collection::vec(drawn(), 1..3)).prop_map(|(of, jobs)| Step::Add(of, jobs)),
        3 => (0..9usize).prop_map(Step::Seal),
        1 => (0..9usize, prop::bool::weighted(0.8)).prop_map(|(of, all)| Step::CancelGroup(of, all)),
        6 => claim,
        9 => (0..99usize, ends, then, prop::option::weighted(0.2, 0..9usize))
            .prop_map(|(pick, ends, then, seal)| Step::Finish { pick, ends, then, seal }),
        1 => (0..99usize).prop_map(Step::Release),
        3 => (0..99usize).prop_map(Step::Cancel),
        1 => Just(Step::CancelKeys),
        3 => (prop::sample::select(vec![0, 1, 1, 1, 2, 3, 300]), prop::bool::weighted(0.9))
            .prop_map(|(many, is_expected)| Step::Occur(many, is_expected)),
        3 => (0..99usize).prop_map(Step::Retry),
        2 => (0..99usize).prop_map(Step::Delete),
        4 => prop::sample::select(vec![1, 1000, 7_200_000, -3_600_000, -7_200_000]).prop_map(Step::Advance),
        1 => prop::sample::select(vec![1, 4, 4]).prop_map(Step::Restart),
        1 => Just(Step::Crashes),
        4 => prop::sample::select(vec![0, 2, 2]).prop_map(Step::Later),
    ];
    prop::collection::vec(step, 1..60)
}
