//! Tests the claims of the stores against a slow and obvious model: limits, turns, order, and that no job is left.
//!
//! Ground rules:
//!
//! - A history is a list of calls of a store. So claims overlap in any way, which the driver of a manual clock, with
//!   one run at a time, does not show.
//! - The oracle gets each call and each claimed job in their order (`oracle.rs`). It has a list of jobs and shares no
//!   structure with a store.
//!
//! | | what must hold |
//! | --- | --- |
//! | 1 | no job is claimed while as many of its scope are claimed as the limit allows (P23, P29) |
//! | 2 | after a claim with room left, no due job that may run is left (P25), and the store says when the next one is due |
//! | 3 | of any turns that are given while the same partitions may run, each has its share, less one (P26) |
//! | 4 | no job, of the same flow or of another, overtakes a job without a partition (P27) |
//! | 5 | the jobs of a partition are claimed in the order of due time, then of id (P16); none early (P7) |
//! | 6 | a partition that is paused has no claim (P28) |
//! | 7 | a store that has nothing to claim does not ask for a step at once |
//! | 8 | in no period are more jobs of a scope claimed than its rate and burst allow (P24), also across a restart; and after a quiet time the next job may be claimed |
//! | 9 | while a scope is held, none of its jobs is claimed |

mod steps;
mod rates;
mod oracle;
#[cfg(feature = "redis")]
mod server;
mod place;

use std::sync::Arc;
use std::time::Duration;

use proptest::prelude::*;
use proptest::test_runner::{Config, RngSeed};

#[cfg(feature = "sqlite-unbundled")]
use super::sqlite::open::Location;
use super::{Answer, Batch, BatchOutcome, ClaimRequest, Claimed, End, Finish, NewJob, Op, Store};
use crate::values::id::JobId;
use crate::values::info::JobState;
use crate::values::job::Extra;
use crate::values::limit::Limit;
use crate::values::stored_limits::{self, LimitScope, Limits, flow_setting};
use crate::values::time::Millis;
use oracle::Oracle;
use place::Place;
use steps::{Step, steps};

/// The first two kinds share a flow. No process handles the last one.
const KINDS: [&str; 4] = ["charge", "refund", "mail", "unhandled"];
/// Most histories have the first four.
const PARTITIONS: [&str; 6] = ["acme", "beta", "core", "dune", "east", "fire"];
const FLOW: &str = "stripe";
const AHEAD: Duration = Duration::from_millis(50);
/// Longer than any history.
const KEEP_DEAD: Duration = Duration::from_secs(1 << 30);
const LEASE: Duration = Duration::from_secs(30);
/// Half past an hour.
const BEGINNING: i64 = 1_800_001_800_000;

/// A store under test, and the oracle beside it.
struct World {
    place: Place,
    store: Box<dyn Store>,
    oracle: Oracle,
    now: Millis,
    /// The settings, as a store keeps them.
    settings: Vec<(String, String)>,
    claimed: Vec<Claimed>,
    numbers: u128,
    batches: u64,
}

type Checked<T = ()> = Result<T, String>;

impl World {
    fn new(place: Place) -> World {
        let settings =
            [KINDS[0], KINDS[1]].map(|kind| (flow_setting(kind), FLOW.to_owned())).to_vec();
        let mut world = World {
            store: place.open(KEEP_DEAD),
            oracle: Oracle::new(Limits::of(&settings, &[]), place.ahead()),
            place,
            now: Millis::clamped(BEGINNING),
            settings,
            claimed: Vec::new(),
            numbers: 1,
            batches: 0,
        };
        world.start();
        if world.place.is_shared() {
            for (name, value) in world.settings.clone() {
                world.apply(&[Op::PutSetting { name, value: Some(value) }], None);
            }
        }
        world
    }

    fn start(&mut self) {
        let kinds: Vec<Arc<str>> = KINDS[..3].iter().map(|kind| Arc::from(*kind)).collect();
        self.store.start_runner(&kinds, self.now).unwrap();
        self.claimed.clear();
    }

    fn apply(&mut self, ops: &[Op], claim: Option<ClaimRequest>) -> BatchOutcome {
        let (synced, awaited, until, now) = (false, true, None, self.now);
        self.batches += 1;
        let batch = Batch { number: self.batches, ops, claim, synced, awaited, until, now };
        self.store.apply(&batch).unwrap()
    }

    fn step(&mut self, step: &Step) -> Checked {
        let after = |delay: &u64| self.now.plus(Duration::from_millis(*delay));
        match step {
            Step::Insert { kind, partition, delay, many } => {
                self.insert(
                    (KINDS[*kind], partition.map(|of| PARTITIONS[of])),
                    after(delay),
                    *many,
                );
            }
            Step::Claim { limit, in_lanes, suspects } => {
                self.claim(*limit, *in_lanes, *suspects)?
            }
            Step::Finish(pick) => self.end(*pick, |_| End::Completed),
            Step::Retry(pick, delay) => {
                let due = after(delay);
                self.end(*pick, |job| End::Retry { due, errors: job.errors.clone() });
            }
            Step::Release(pick) => {
                if let Some(job) = self.take(*pick) {
                    let (id, fence) = (job.id, job.fence);
                    self.apply(&[Op::Release { id, fence, interrupted: false }], None);
                    self.oracle.waits(id, None);
                }
            }
            Step::Cancel(pick) => {
                if let Some(id) = self.oracle.pending(*pick) {
                    self.apply(&[Op::Cancel(id)], None);
                    self.oracle.ends(id);
                }
            }
            Step::Reschedule(pick, delay) => {
                let due = after(delay);
                if let Some(id) = self.oracle.pending(*pick) {
                    self.apply(&[Op::Reschedule(id, due)], None);
                    self.oracle.waits(id, Some(due));
                }
            }
            Step::Limit(scope, running, weight) => {
                let limit = running.map_or(Limit::none(), Limit::running);
                let weighted = weight.map(|weight| limit.weight(weight));
                let scope = scope_of(*scope);
                self.limit(&scope, weighted.filter(|_| scope.has_turns()).unwrap_or(limit));
            }
            Step::Weigh(partition, weight) => {
                let partition = PARTITIONS[*partition].to_owned();
                let scope = LimitScope::Partition { kind: KINDS[0].to_owned(), partition };
                self.limit(&scope, Limit::none().weight(*weight));
            }
            Step::Rate(scope, (jobs, per, burst)) => {
                let rate = Limit::none().rate(*jobs, Duration::from_millis(*per));
                self.limit(&scope_of(*scope), rate.burst(*burst));
            }
            Step::Hold(scope, ms) => {
                let scope = scope_of(*scope);
                let Some(name) = scope.hold() else { return Ok(()) };
                let until = after(ms);
                self.settings.retain(|(its, _)| *its != name);
                self.settings.push((name.clone(), until.get().to_string()));
                self.put_setting(name);
                self.oracle.held(&scope, until);
                self.oracle.limited(Limits::of(&self.settings, &[]));
            }
            Step::Pause(kind, partition, pauses) => {
                let name =
                    stored_limits::partition_pause_setting(KINDS[*kind], PARTITIONS[*partition]);
                self.settings.retain(|(its, _)| *its != name);
                self.settings.extend(pauses.then(|| (name.clone(), "1".to_owned())));
                self.put_setting(name);
                self.oracle.paused((KINDS[*kind], PARTITIONS[*partition]), *pauses);
                self.oracle.limited(Limits::of(&self.settings, &[]));
            }
            Step::Advance(ms) => self.now = after(ms),
            Step::SetBack(ms) => {
                self.now = self.now.minus(Duration::from_millis(*ms));
                self.oracle.set_back();
            }
            Step::Restart => {
                if !matches!(self.place, Place::Memory) {
                    self.store = self.place.open(KEEP_DEAD);
                }
                self.start();
                if self.place.is_shared() {
                    // The clock may have been set back.
                    self.now = self.now.plus(10 * LEASE);
                    self.store.poll(self.now).unwrap();
                }
                self.oracle.restarted();
                self.look_at_what_was_interrupted();
            }
        }
        self.store.check().map_err(|wrong| format!("check: {wrong}"))
    }

    fn insert(
        &mut self,
        (kind, partition): (&'static str, Option<&'static str>),
        due: Millis,
        many: usize,
    ) {
        let extra = Extra { partition: partition.map(Arc::from), ..Extra::default() }.boxed();
        let insert = |number| {
            let (id, extra) = (JobId::from_u128(number), extra.clone());
            let (key, callers_id, payload) = (None, true, b"{}".to_vec());
            Op::Insert(NewJob { id, kind: Arc::from(kind), due, key, callers_id, extra, payload })
        };
        let numbers = self.numbers..self.numbers + many as u128;
        self.numbers = numbers.end;
        self.apply(&numbers.clone().map(insert).collect::<Vec<_>>(), None);
        for number in numbers {
            self.oracle.inserted(JobId::from_u128(number), kind, partition, due);
        }
    }

    fn claim(&mut self, limit: usize, in_lanes: usize, suspects: bool) -> Checked {
        let until = self.now.plus(self.place.ahead());
        let mut request = ClaimRequest::new(until, limit, limit, Vec::new());
        request.now = self.now;
        request.limits = Limits::of(&self.settings, &[]);
        request.in_lanes = in_lanes;
        if suspects {
            (request.crashed_once, request.poison_pill, request.last_try) = (32, true, true);
        }
        let outcome = self.apply(&[], Some(request));
        self.oracle.claim(&outcome, (self.now, until), limit, in_lanes)?;
        self.claimed.extend(outcome.claimed);
        Ok(())
    }

    /// Takes one of the claimed jobs.
    fn take(&mut self, pick: usize) -> Option<Claimed> {
        let many = self.claimed.len();
        (many > 0).then(|| self.claimed.remove(pick % many))
    }

    fn end(&mut self, pick: usize, end: impl FnOnce(&Claimed) -> End) {
        let Some(job) = self.take(pick) else { return };
        let (id, fence, end) = (job.id, job.fence, end(&job));
        let due = match &end {
            End::Retry { due, .. } => Some(*due),
            _ => None,
        };
        let finish = Finish::of(id, fence, end);
        self.apply(&[Op::Finish(finish)], None);
        match due {
            Some(due) => {
                self.oracle.waits(id, Some(due));
                self.oracle.interrupted(id, 0);
            }
            None => self.oracle.ends(id),
        }
    }

    fn limit(&mut self, scope: &LimitScope, limit: Limit) {
        let name = scope.setting();
        self.settings.retain(|(its, _)| *its != name);
        if !limit.is_none() {
            self.settings.push((name.clone(), limit.to_text()));
        }
        self.put_setting(name);
        self.oracle.limited(Limits::of(&self.settings, &[]));
    }

    /// Stores a setting, if the store reads it by itself.
    fn put_setting(&mut self, name: String) {
        if self.place.is_shared() {
            let stored = self.settings.iter().find(|(its, _)| *its == name);
            let value = stored.map(|(_, value)| value.clone());
            self.apply(&[Op::PutSetting { name, value }], None);
        }
    }

    /// Asks the store how often each claimed job was interrupted.
    fn look_at_what_was_interrupted(&mut self) {
        for id in self.oracle.claimed() {
            let answers = self.apply(&[Op::Get(id)], None).answers;
            match &answers[..] {
                [Answer::Info(Some(job))] if job.state == JobState::Pending => {
                    self.oracle.waits(id, None);
                    self.oracle.interrupted(id, job.interruptions);
                }
                _ => self.oracle.ends(id),
            }
        }
    }
}

fn scope_of(pick: usize) -> LimitScope {
    let kind = KINDS[pick % 3].to_owned();
    match pick {
        0 => LimitScope::Queue,
        1 => LimitScope::Flow(FLOW.to_owned()),
        2 => LimitScope::Flow(kind),
        3..=5 => LimitScope::Each(kind),
        _ => LimitScope::Partition { kind, partition: PARTITIONS[pick % 4].to_owned() },
    }
}

fn config(cases: u32) -> Config {
    let said = std::env::var("TICKWHEEL_JOBS_CASES").ok().and_then(|cases| cases.parse().ok());
    Config {
        cases: said.unwrap_or(cases),
        failure_persistence: None,
        rng_seed: if said.is_some() { RngSeed::Random } else { RngSeed::Fixed(1987) },
        ..Config::default()
    }
}

/// Does a history on a store.
fn agrees(place: Place, steps: &[Step]) -> Result<(), TestCaseError> {
    let mut world = World::new(place);
    for (n, step) in steps.iter().enumerate() {
        world
            .step(step)
            .map_err(|wrong| TestCaseError::fail(format!("step {n}, {step:?}: {wrong}")))?;
    }
    Ok(())
}

proptest! {
    #![proptest_config(config(100))]

    /// P23, P24, P25, P26, P28, P29: The claims of the store in memory keep limits, turns and order, and leave no job
    /// behind.
    #[test]
    fn claims_in_memory_agree_with_the_oracle(steps in steps()) {
        agrees(Place::Memory, &steps)?;
    }
}

#[cfg(feature = "sqlite-unbundled")]
proptest! {
    #![proptest_config(config(10))]

    /// P23, P24, P25, P26, P29: The same on a file.
    #[test]
    fn claims_on_a_file_agree_with_the_oracle(steps in steps()) {
        agrees(Place::File(Location::temporary().unwrap()), &steps)?;
    }
}

/// P23, P24, P25, P26, P29, Redis P23, Redis P24, Redis P25: The same on a server.
#[cfg(feature = "redis")]
#[test]
fn claims_on_a_server_agree_with_the_oracle() {
    let Some(server) = server::Process::start() else { return };
    let number = core::cell::Cell::new(0);
    let mut runner = proptest::test_runner::TestRunner::new(config(10));
    let result = runner.run(&steps(), |steps| {
        number.set(number.get() + 1);
        agrees(Place::Server(server.queue(number.get())), &steps)
    });
    result.unwrap();
}

/// P26: A weight that changes counts from the next claim on, also on a server, where a lane lay among those of its
/// earlier weight until its next turn.
#[cfg(feature = "redis")]
#[test]
fn weight_that_changes_counts_from_the_next_claim_on() {
    let Some(server) = server::Process::start() else { return };
    for place in [Place::Memory, Place::Server(server.queue(1))] {
        agrees(place, &steps::changed_weight()).unwrap();
    }
}

/// P26: A new partition has no turns before those that were full when it came, also on a server, where none of them was
/// in turn then.
#[cfg(feature = "redis")]
#[test]
fn new_partition_begins_behind_those_that_were_full() {
    let Some(server) = server::Process::start() else { return };
    for place in [Place::Memory, Place::Server(server.queue(1))] {
        agrees(place, &steps::full_and_new()).unwrap();
    }
}
