//! What a history of groups is made of, and how it is drawn.

use proptest::prelude::*;

/// A job to insert.
#[derive(Clone, Debug)]
pub(super) struct Drawn {
    pub(super) kind: usize,
    pub(super) key: Option<usize>,
    pub(super) leaves: bool,
    pub(super) delay: u64,
    pub(super) partition: bool,
    pub(super) wanted: bool,
    /// The id of a job that was there before.
    pub(super) again: Option<usize>,
}

/// How a run ends.
#[derive(Clone, Copy, Debug)]
pub(super) enum Ends {
    Well,
    Dead,
    Again,
}

/// One step of a history. An index is taken modulo the number of things.
#[derive(Clone, Debug)]
pub(super) enum Step {
    Insert(Drawn),
    Group {
        members: Vec<Drawn>,
        callback: Option<Drawn>,
        is_sealed: bool,
        waits: bool,
        within: Option<usize>,
        /// The id of a group that is or was there.
        again: Option<usize>,
    },
    Add(usize, Vec<Drawn>),
    Seal(usize),
    /// Marks the group, and perhaps cancels its members.
    CancelGroup(usize, bool),
    Claim(usize),
    /// So many runs end in one commit, perhaps together with a seal. Those that end well have follow-ups.
    Finish(usize, Vec<Ends>, Vec<Drawn>, Option<usize>),
    Release(usize),
    Cancel(usize),
    Retry(usize),
    Delete(usize),
    /// The clock goes on, or is set back.
    Advance(i64),
    /// The process ends. The next one keeps dead jobs and groups for so many hours.
    Restart(u32),
    /// Five processes claim all that is due, and end.
    Crashes,
    /// The next process keeps dead jobs and groups for an hour. Two hours pass, and it forgets what is over.
    Later,
}

pub(super) fn drawn() -> impl Strategy<Value = Drawn> {
    let kind = prop::sample::select(vec![0, 0, 0, 0, 1, 2]);
    let key = prop::option::weighted(0.25, 0..2usize);
    let delay = prop::sample::select(vec![0, 0, 0, 30, 400, 7_200_000]);
    let marks = (any::<bool>(), prop::bool::weighted(0.2), prop::bool::weighted(0.2));
    let again = prop::option::weighted(0.05, 0..99usize);
    (kind, key, delay, marks, again).prop_map(
        |(kind, key, delay, (leaves, partition, wanted), again)| Drawn {
            kind,
            key,
            leaves,
            delay,
            partition,
            wanted,
            again,
        },
    )
}

pub(super) fn steps() -> impl Strategy<Value = Vec<Step>> {
    let callback = drawn().prop_map(|drawn| Drawn { kind: 1, key: None, ..drawn });
    let group = (
        prop::collection::vec(drawn(), 0..4),
        prop::option::weighted(0.8, callback),
        prop::bool::weighted(0.6),
        prop::bool::weighted(0.3),
        prop::option::weighted(0.3, 0..9usize),
        prop::option::weighted(0.2, 0..9usize),
    )
        .prop_map(|(members, callback, is_sealed, waits, within, again)| Step::Group {
            within: within.filter(|_| callback.is_some()),
            members,
            callback,
            is_sealed,
            waits,
            again,
        });
    let ends = prop::sample::select(vec![
        Ends::Well,
        Ends::Well,
        Ends::Well,
        Ends::Dead,
        Ends::Dead,
        Ends::Again,
    ]);
    let then = prop::collection::vec(drawn(), 0..2);
    let step = prop_oneof![
        2 => drawn().prop_map(Step::Insert),
        5 => group,
        3 => (0..9usize, prop::collection::vec(drawn(), 1..3)).prop_map(|(of, jobs)| Step::Add(of, jobs)),
        3 => (0..9usize).prop_map(Step::Seal),
        1 => (0..9usize, prop::bool::weighted(0.8)).prop_map(|(of, all)| Step::CancelGroup(of, all)),
        6 => (1..9usize).prop_map(Step::Claim),
        9 => (0..99usize, prop::collection::vec(ends, 1..4), then, prop::option::weighted(0.2, 0..9usize))
            .prop_map(|(pick, ends, then, seal)| Step::Finish(pick, ends, then, seal)),
        1 => (0..99usize).prop_map(Step::Release),
        3 => (0..99usize).prop_map(Step::Cancel),
        3 => (0..99usize).prop_map(Step::Retry),
        2 => (0..99usize).prop_map(Step::Delete),
        4 => prop::sample::select(vec![1, 1000, 7_200_000, -3_600_000, -7_200_000]).prop_map(Step::Advance),
        1 => prop::sample::select(vec![1, 4, 4]).prop_map(Step::Restart),
        1 => Just(Step::Crashes),
        4 => Just(Step::Later),
    ];
    prop::collection::vec(step, 1..60)
}
