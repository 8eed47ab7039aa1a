//! Every verb against a slow and obvious model, the *oracle*, on a manual clock.
//!
//! The histories are random: calls from outside, from handlers and from another process; handlers
//! that fail, panic, and call back; a wall clock that is set; schedules; restarts, and crashes, of
//! which some happen inside a handler. A crash is the file and its log as they are at that instant,
//! under another name: what `kill -9` leaves. The oracle shares nothing with the crate. It is told
//! each call and each start in their order, and says what may not be:
//!
//! | | what must hold |
//! | --- | --- |
//! | 1 | a refused insert gives the job back, and leaves nothing (P5) |
//! | 2 | what is due starts, within milliseconds of driven time; nothing is lost (P6, P18, P22) |
//! | 3 | nothing starts early, by the wall clock as it is set (P7, P8) |
//! | 4 | the runs of a job do not overlap, and its fence increases (P9) |
//! | 5 | what was cancelled or replaced never starts; a cancelled run is told, and not tried again (P11) |
//! | 6 | a claimed job that has not started is pending: it is cancelled and moved (P12, P13) |
//! | 7 | a key has one pending job at most (P14) |
//! | 8 | a batch is there, or not (P15) |
//! | 9 | jobs of a kind start in the order of deadline, then of insertion (P16) |
//! | 10 | five interruptions in a row make a job dead (P17) |
//! | 11 | occurrences are those of the schedule, once each, and the missed ones as its policy says (P18) |
//! | 12 | an unknown kind waits; a payload that does not decode is dead with its bytes (P19) |
//! | 13 | the dead and the remembered ids stay for their retention (P21) |
//!
//! After each step `check()` passes, and every list, count and job is what the oracle has.
//! `TICKWHEEL_JOBS_CASES` says how many histories there are for each store.
//!
//! | file | what it holds |
//! | --- | --- |
//! | `ops.rs` | what a history is made of |
//! | `oracle.rs` | the model: jobs, times, ends |
//! | `occurrences.rs` | the model: schedules |
//! | `place.rs` | the store, and what a crash leaves of it |
//! | `world.rs` | the process: handlers, restarts, crashes |
//! | `resume.rs` | the model: what a process finds when it starts, and what a store says of a job |
//! | `calls.rs`, `insert.rs` | every verb, done to both, and compared |
//! | `agree.rs` | what is compared after each step |
//! | `found.rs` | what the model has found, one small history each |

mod agree;
mod calls;
#[cfg(feature = "redis")]
#[path = "../redis/cluster_servers.rs"]
#[expect(dead_code, reason = "the tests of that store need more of it")]
mod cluster_servers;
mod found;
mod insert;
mod occurrences;
mod ops;
mod resume;
mod oracle;
mod place;
#[cfg(feature = "redis")]
#[path = "../redis/sentinel_servers.rs"]
#[expect(dead_code, reason = "the tests of that store need more of it")]
mod sentinel_servers;
#[cfg(feature = "redis")]
#[path = "../redis/server.rs"]
#[expect(dead_code, reason = "the tests of that store need more of it")]
mod server;
mod world;

use std::time::Duration;

use proptest::prelude::*;
use proptest::test_runner::RngSeed;
use proptest::test_runner::{Config, TestCaseError};
use tickwheel_jobs::{Durability, Missed, Schedule};

use ops::{Op, Policy, Set, system};
use oracle::{Outcome, Repeated, ensure};
use place::Kind;
use world::{Setup, World};

const STEPS: usize = 60;

/// The histories are the same in every run, so that a change which breaks one is what broke it; with
/// `TICKWHEEL_JOBS_CASES` there are as many as it says, and others each time. A history on a file takes
/// some fifty times as long as one in memory, and one on a server some two hundred times.
fn config(cases_unless_said: u32) -> Config {
    let cases = std::env::var("TICKWHEEL_JOBS_CASES").ok().and_then(|cases| cases.parse().ok());
    Config {
        cases: cases.unwrap_or(cases_unless_said),
        failure_persistence: None,
        rng_seed: if cases.is_some() { RngSeed::Random } else { RngSeed::Fixed(1987) },
        ..Config::default()
    }
}

fn setup(store: Kind) -> impl Strategy<Value = Setup> {
    let durability = prop::sample::select(vec![
        Durability::Written,
        Durability::Written,
        Durability::Buffered,
        Durability::Synced,
    ]);
    let in_flight = prop::sample::select(vec![2048, 2048, 2048, 3, 1]);
    let retention = prop::sample::select(vec![0, 3_600_000, 3 * ops::DAY as i64]);
    (durability, in_flight, retention).prop_map(move |(durability, in_flight, retention)| Setup {
        store,
        durability,
        in_flight,
        retention,
    })
}

impl World {
    /// Does one step, and compares everything.
    fn step(&mut self, op: &Op) -> Outcome {
        let started = self.shared.lock().oracle.started;
        self.act(op)?;
        self.shared.look_at_the_clocks(false);
        if self.recover()? {
            return self.agree();
        }
        if let Some(wrong) = self.shared.lock().wrong.take() {
            return Err(wrong);
        }
        self.agree().map_err(|wrong| format!("after {started} starts: {wrong}"))
    }

    fn act(&mut self, op: &Op) -> Outcome {
        match op {
            Op::Advance(ms) => self.advance(Duration::from_millis(*ms)),
            Op::AdvanceMicros(micros) => self.advance(Duration::from_micros(*micros)),
            Op::SetWall(set) => {
                self.set_wall(*set);
                Ok(())
            }
            Op::Restart(stop, gap, late) => self.restart(*stop, *gap, *late),
            Op::Pages(kind, from, to) => self.pages_agree(*kind, *from, *to),
            Op::Repeat(name, kind, period, policy, plan) => {
                self.repeat(*name, *kind, *period, *policy, plan)
            }
            Op::CancelRepeat(name) => self.cancel_repeat(*name),
            Op::Outbox(kind, time, committed, plan) => self.outbox(*kind, *time, *committed, plan),
            Op::Other(op) => {
                let Some(other) = &self.other else { return Ok(()) };
                calls::call(&self.shared, other, op, None, true)?;
                self.jobs.as_ref().expect("the jobs run").nudge();
                Ok(())
            }
            op => {
                let jobs = self.jobs.as_ref().expect("the jobs run");
                calls::call(&self.shared, jobs, op, None, false)
            }
        }
    }

    fn advance(&mut self, by: Duration) -> Outcome {
        // A short period and a long time would be too many runs.
        let fastest = {
            let oracle = &self.shared.lock().oracle;
            oracle.schedules.iter().map(|schedule| schedule.period).min()
        };
        let most = fastest.map_or(Duration::MAX, |ms| Duration::from_millis(ms as u64 * 60));
        let by = by.min(most);
        let driver = self.driver.as_ref().expect("the jobs run");
        let (before, _) = self.shared.look_at_the_clocks(false);
        let begun = self.shared.lock().oracle.started;
        let started = driver.advance(by);
        {
            let state = self.shared.lock();
            if state.crashed() || state.wrong.is_some() {
                return Ok(());
            }
        }
        let (after, _) = self.shared.look_at_the_clocks(false);
        let passed = Duration::from_micros((after - before) as u64);
        ensure(passed == by, || format!("{passed:?} passed, not {by:?}"))?;
        let state = self.shared.lock();
        let expected = state.oracle.started - begun;
        ensure(started as u64 == expected, || format!("advance: {started}, not {expected}"))?;
        state.oracle.nothing_is_overdue()
    }

    fn set_wall(&mut self, set: Set) {
        let (wall, _) = self.shared.look_at_the_clocks(false);
        let right = wall - self.shifted;
        let wanted = match set {
            Set::By(ms) => (wall + ms * 1000).max(0),
            Set::Epoch => 0,
            Set::Right => right,
        };
        self.shifted = wanted - right;
        self.driver.as_ref().expect("the jobs run").set_wall(system(wanted));
        self.shared.look_at_the_clocks(true);
    }

    fn repeat(
        &mut self,
        name: usize,
        kind: usize,
        period: u64,
        policy: Policy,
        plan: &ops::Plan,
    ) -> Outcome {
        let missed = match policy {
            Policy::Skip => Missed::Skip,
            Policy::Once => Missed::Once,
            Policy::Burst(most) => Missed::Burst(most),
        };
        self.shared.look_at_the_clocks(false);
        let mut plan = plan.clone();
        let number = self.shared.lock().oracle.number();
        plan.tag = number;
        let schedule = Schedule::every(Duration::from_millis(period)).missed(missed);
        let text = format!("repeat-{name}");
        let jobs = self.jobs.as_ref().expect("the jobs run");
        let repeated = match kind {
            0 => jobs.repeat(&text, schedule, ops::Task::<0>(plan.clone())),
            1 => jobs.repeat(&text, schedule, ops::Task::<1>(plan.clone())),
            2 => jobs.repeat(&text, schedule, ops::Task::<2>(plan.clone())),
            _ => jobs.repeat(&text, schedule, ops::Task::<3>(plan.clone())),
        };
        if period == 0 {
            return ensure(repeated.is_err(), || "a period of zero".to_owned());
        }
        repeated.map_err(|error| error.to_string())?;
        let oracle = &mut self.shared.lock().oracle;
        let period = period as i64;
        let known = oracle.schedules.iter().position(|schedule| schedule.name == text);
        if let Some(at) = known {
            let known = &mut oracle.schedules[at];
            if (known.kind, known.period) == (kind, period) {
                // The same schedule goes on, with other data.
                known.policy = policy;
                known.plan = plan.clone();
                let number = known.number;
                for job in &mut oracle.jobs {
                    if job.id.is_none() && job.occurs.is_some_and(|(of, _)| of == number) {
                        job.plan = plan.clone();
                    }
                }
                return Ok(());
            }
            oracle.schedules.remove(at);
        }
        let (number, next) = (number * 10 + name as u64, oracle.now() + period);
        oracle.schedules.push(Repeated { number, name: text, kind, period, next, policy, plan });
        Ok(())
    }

    fn cancel_repeat(&mut self, name: usize) -> Outcome {
        let name = format!("repeat-{name}");
        let jobs = self.jobs.as_ref().expect("the jobs run");
        let got = jobs.cancel_repeat(&name).map_err(|error| error.to_string())?;
        let oracle = &mut self.shared.lock().oracle;
        let before = oracle.schedules.len();
        oracle.schedules.retain(|schedule| schedule.name != name);
        ensure(got == (oracle.schedules.len() < before), || format!("cancel_repeat: {got}"))
    }

    fn outbox(
        &mut self,
        kind: usize,
        time: ops::Time,
        committed: bool,
        plan: &ops::Plan,
    ) -> Outcome {
        let Some(path) = self.shared.place.file() else { return Ok(()) };
        let (wall, now) = self.shared.look_at_the_clocks(false);
        let mut plan = plan.clone();
        plan.tag = self.shared.lock().oracle.number();
        let jobs = self.jobs.as_ref().expect("the jobs run");
        let error = |error: tickwheel_jobs::rusqlite::Error| error.to_string();
        let mut file = tickwheel_jobs::rusqlite::Connection::open(path).map_err(error)?;
        let transaction = file.transaction().map_err(error)?;
        let way = insert::Way::In(&transaction);
        let got = insert::insert(jobs, &way, kind, time.when(wall, now), plan.clone());
        let due = time.due(wall);
        ensure(got.is_ok() == due.is_some(), || format!("insert_in: {got:?}"))?;
        if committed {
            transaction.commit().map_err(error)?;
        } else {
            transaction.rollback().map_err(error)?;
        }
        if let (Ok(id), Some(due), true) = (got, due, committed) {
            let oracle = &mut self.shared.lock().oracle;
            oracle.insert(Some(id), kind, due, None, false, plan);
        }
        Ok(())
    }
}

/// Runs a history, and says at which step something was wrong.
fn run(setup: Setup, history: &[Op]) -> Outcome {
    let mut world = World::new(setup);
    for (n, op) in history.iter().enumerate() {
        world.step(op).map_err(|wrong| format!("step {n}, {op:?}: {wrong}"))?;
    }
    Ok(())
}

proptest! {
    #![proptest_config(config(600))]

    #[test]
    fn the_store_in_memory_agrees_with_the_oracle(
        setup in setup(Kind::Memory),
        history in prop::collection::vec(ops::op(), STEPS / 2..STEPS),
    ) {
        run(setup, &history).map_err(TestCaseError::fail)?;
    }
}

proptest! {
    #![proptest_config(config(100))]

    #[test]
    fn the_store_on_a_file_agrees_with_the_oracle(
        setup in setup(Kind::File),
        history in prop::collection::vec(ops::op(), STEPS / 2..STEPS),
    ) {
        run(setup, &history).map_err(TestCaseError::fail)?;
    }
}

/// A crash is a copy of the queue under another name, and a lease that ends.
#[cfg(feature = "redis")]
#[test]
fn the_store_on_redis_agrees_with_the_oracle() {
    let server = server::Server::start();
    on_servers(Kind::Server(server.port), 30);
}

/// The copy has another slot, and mostly another node.
#[cfg(feature = "redis")]
#[test]
fn the_store_in_a_cluster_agrees_with_the_oracle() {
    let cluster = cluster_servers::Cluster::start(3, Duration::from_secs(10));
    let ports = [0, 1, 2].map(|node| cluster.nodes[node].port);
    on_servers(Kind::Cluster(ports), 8);
}

/// Every process, and the one after each crash, asks the sentinels for the server.
#[cfg(feature = "redis")]
#[test]
fn the_store_behind_sentinels_agrees_with_the_oracle() {
    let set = sentinel_servers::SentinelSet::start();
    on_servers(Kind::Sentinels { sentinels: set.ports(), master: set.master.port }, 8);
}

#[cfg(feature = "redis")]
fn on_servers(store: Kind, cases: u32) {
    let mut runner = proptest::test_runner::TestRunner::new(config(cases));
    let history = prop::collection::vec(ops::op(), STEPS / 2..STEPS);
    let histories = (setup(store), history);
    let ran = runner
        .run(&histories, |(setup, history)| run(setup, &history).map_err(TestCaseError::fail));
    if let Err(wrong) = ran {
        panic!("{wrong}");
    }
}
