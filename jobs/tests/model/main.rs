//! Every verb against a slow and obvious model, the *oracle*, on a manual clock.
//!
//! The histories are random: calls from outside, from handlers and from another process; handlers that fail,
//! panic, and call back; a wall clock that is set; schedules; restarts, and crashes, of which some happen
//! inside a handler. A crash is the file and its log as they are at that instant, under another name, as
//! `kill -9` leaves them. The oracle shares no code with the crate. It gets each call and each start in
//! their order, and reports every breach of these rules:
//!
//! | | what must hold |
//! | --- | --- |
//! | 1 | a refused insert gives the job back, and leaves nothing (P5) |
//! | 2 | what is due starts, within milliseconds of driven time; nothing is lost (P6, P18, P22) |
//! | 3 | nothing starts early, by the wall clock as it is set (P7, P8) |
//! | 4 | the runs of a job do not overlap, and its fence increases (P9) |
//! | 5 | a job that was cancelled or replaced never starts; a cancelled run is asked to stop, and not tried again (P11) |
//! | 6 | a claimed job that has not started is pending: it is cancelled and moved (P12, P13) |
//! | 7 | a key has one pending job at most, and none beside a run that holds it (P14) |
//! | 8 | a batch is there, or not (P15) |
//! | 9 | jobs of a kind, or of a partition of it, start in the order of deadline, then of insertion (P16) |
//! | 10 | five interruptions in a row make a job dead (P17) |
//! | 11 | occurrences are those of the schedule, once each, and the missed ones as its policy says (P18) |
//! | 12 | an unknown kind waits; a payload that does not decode is dead with its bytes (P19) |
//! | 13 | the dead and the remembered ids stay for their retention (P21) |
//! | 14 | a hook may call every verb on a manual clock, and so may a middleware |
//! | 15 | if the wall clock was set between two calls, the next call goes by the new time (P7, P8) |
//! | 16 | a verb for every job of a list sees each once, and its counts are those of the single verb |
//! | 17 | a completed job of a kind that keeps jobs is there, with result and times, until its number, age or bytes are reached; of other kinds, only jobs are there whose end a caller waits for (P32) |
//! | 18 | a wait says how its job has ended, or that it has not, and returns once it has ended (P33) |
//! | 19 | each process sees a stored progress, and the first progress of a run within a second; the next run finds the latest one, until the job has completed or is cancelled |
//! | 20 | the process that runs the jobs is listed once, with its kinds |
//! | 21 | the history counts each insert and each end once, in its minute (P34); each job that came has ended or is there |
//! | 22 | overdue jobs are counted, with the age of the oldest; dead jobs are counted by kind and error (P21) |
//! | 23 | follow-ups are there if and only if the end of their run is (P30) |
//! | 24 | a debounced job is due after its last call, and not later than its burst allows |
//! | 25 | each job of a batch starts, ends and is interrupted as any other |
//! | 26 | a run that ends in a transaction has completed if the transaction is committed, with any result of its handler; otherwise it ends as its handler says |
//! | 27 | the callback of a group is there if and only if the group is sealed and every member has ended, and comes once; the counts of a group are those of its members (P31) |
//! | 28 | a group that is sealed, was cancelled, has ended or is unknown takes no member, and says why; a callback whose id is taken is refused, and no job takes the id of one that is to come (P31) |
//! | 29 | a group is forgotten once it has ended, its retention is over, and no dead job names it; its id is free then (P31) |
//! | 30 | a group that keeps results has one of each member that has ended, until its callback is gone (P110) |
//!
//! After each step `check()` passes, and every list, count and job is what the oracle has.
//! `TICKWHEEL_JOBS_CASES` says how many histories there are for each store.
//!
//! | file | what it holds |
//! | --- | --- |
//! | `ops.rs`, `draw.rs` | what a history is made of, and how it is drawn |
//! | `oracle.rs`, `record.rs` | the model: jobs, times, ends |
//! | `occurrences.rs` | the model: schedules |
//! | `place.rs` | the store, and what a crash leaves of it |
//! | `world.rs` | the process: handlers, restarts, crashes |
//! | `batches.rs` | the handler of batches |
//! | `end_in.rs` | runs that end in a transaction |
//! | `kept.rs` | the model: jobs that completed or were cancelled, and are kept |
//! | `resume.rs` | the model: what a process finds when it starts, and what a store says of a job |
//! | `calls.rs`, `insert.rs` | every verb, done to both, and compared |
//! | `limits.rs` | limits of scopes, and partitions |
//! | `waits.rs` | waits and calls: those that look once, and those that cross the end |
//! | `run_sets.rs` | the results and the progress that handlers set |
//! | `throttle.rs` | jobs that come too often |
//! | `follow_ups.rs` | the follow-ups of handlers |
//! | `bulk.rs` | the verbs for every job of a list, done to both |
//! | `new_job.rs` | jobs with all that can be said of one; transactions of the caller's |
//! | `groups.rs` | groups, their members and their callbacks |
//! | `schedules.rs` | schedules, done to both |
//! | `hooks.rs` | functions of the program that the jobs call |
//! | `nodes.rs` | the processes that are listed |
//! | `agree.rs` | what is compared after each step |
//! | `history.rs` | the same for figures: the history, the overdue jobs, the dead jobs by error |
//! | `found.rs` | what the model has found, one small history each |

mod agree;
mod batches;
mod bulk;
mod calls;
#[cfg(feature = "redis")]
#[path = "../redis/cluster_servers.rs"]
#[expect(dead_code, reason = "the tests of that store need more of it")]
mod cluster_servers;
mod draw;
mod end_in;
mod follow_ups;
mod found;
mod groups;
mod history;
mod hooks;
mod insert;
#[cfg(feature = "redis")]
#[path = "../redis/installed.rs"]
mod installed;
mod kept;
mod limits;
mod new_job;
mod nodes;
mod occurrences;
mod ops;
mod oracle;
mod place;
mod record;
mod schedules;
mod throttle;
mod resume;
mod run_sets;
#[cfg(feature = "redis")]
#[path = "../redis/server.rs"]
#[expect(dead_code, reason = "the tests of that store need more of it")]
mod server;
mod waits;
mod world;

use std::time::Duration;

use proptest::prelude::*;
use proptest::test_runner::{Config, RngSeed, TestCaseError, TestRunner};
use tickwheel_jobs::Durability;

use ops::{Op, Set, system};
use oracle::{Outcome, ensure};
use place::{Kind, Setup};
use world::World;

const STEPS: usize = 60;

/// How many bytes of stack a history is drawn on.
const DEEP: usize = 16 << 20;

/// In microseconds.
const SHORT_OF_A_LEASE: i64 = 10_000_000;

/// The histories are the same in every run, so that a change which breaks one is what broke it; with
/// `TICKWHEEL_JOBS_CASES` there are as many as it says, and others each time, as at night. A history on a file takes
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
    (durability, in_flight, retention, any::<bool>()).prop_map(
        move |(durability, in_flight, retention, named)| Setup {
            store,
            durability,
            in_flight,
            retention,
            named,
        },
    )
}

impl World {
    /// Does one step, and compares everything.
    fn step(&mut self, op: &Op) -> Outcome {
        let started = self.shared.lock().oracle.started;
        self.shared.lock().batch_ends = false;
        self.act(op)?;
        self.shared.look_at_the_clocks(false);
        if self.recover()? {
            self.agree()?;
            return self.history_agrees(false);
        }
        if let Some(wrong) = self.shared.lock().wrong.take() {
            return Err(wrong);
        }
        let agrees = self.agree().and_then(|()| self.history_agrees(history::is_compared(op)));
        agrees.map_err(|wrong| format!("after {started} starts: {wrong}"))
    }

    fn act(&mut self, op: &Op) -> Outcome {
        match op {
            Op::Advance(ms) => self.advance(Duration::from_millis(*ms)),
            Op::AdvanceMicros(micros) => self.advance(Duration::from_micros(*micros)),
            Op::SetWall(set) => {
                let wanted = self.wanted(*set);
                self.driver().set_wall(system(wanted));
                self.shared.look_at_the_clocks(true);
                Ok(())
            }
            Op::Jump(set, op) => self.jump(*set, op),
            Op::OnEvent(calls) => {
                self.shared.lock().on_event.clone_from(calls);
                Ok(())
            }
            Op::Restart(stop, gap, late) => self.restart(*stop, *gap, *late),
            Op::Pages(kind, from, to) => self.pages_agree(*kind, *from, *to),
            Op::Schedule(name, kind, period, policy, plan) => {
                let name = (*name, *kind);
                schedules::schedule(&self.shared, self.jobs(), name, *period, *policy, plan)
            }
            Op::Unschedule(name) => schedules::unschedule(&self.shared, self.jobs(), *name),
            Op::PauseSchedule(name, pauses) => {
                schedules::pause(&self.shared, self.jobs(), *name, *pauses)
            }
            Op::HeadStart(kind, ms) => {
                let kind_of = self.jobs().kind_named(ops::NAMES[*kind]);
                self.shared.lock().oracle.head_starts[*kind] = *ms as i64;
                calls::ok(kind_of.head_start(Duration::from_millis(*ms)))
            }
            Op::Keep(kind, bounds) => {
                let set = self.jobs().kind_named(ops::NAMES[*kind]).keep_completed(bounds.keep());
                self.shared.lock().oracle.keeps[*kind] = (!bounds.is_nothing()).then_some(*bounds);
                calls::ok(set)
            }
            Op::WaitAcross(pick, ms) => {
                let id = self.shared.lock().oracle.picked(*pick, None);
                self.wait_across(id, *ms)
            }
            Op::CallAcross(kind, ms, plan) => self.call_across(*kind, *ms, plan),
            Op::LateProgress => {
                self.shared.set_late_progress();
                self.jobs().nudge();
                Ok(())
            }
            Op::Limit(scope, running) => self.limit(*scope, *running),
            Op::Pause(kind, pauses) => {
                let jobs = self.jobs();
                let kind_of = kind.map(|kind| jobs.kind_named(ops::NAMES[kind]));
                let set = match (&kind_of, *pauses) {
                    (None, true) => jobs.queue().pause(),
                    (None, false) => jobs.queue().resume(),
                    (Some(kind), true) => kind.pause(),
                    (Some(kind), false) => kind.resume(),
                };
                self.shared.lock().oracle.pause(*kind, *pauses);
                calls::ok(set)
            }
            Op::Other(op) => {
                let Some(other) = &self.other else { return Ok(()) };
                calls::call(&self.shared, other, op, None, true)?;
                self.jobs().nudge();
                Ok(())
            }
            op => calls::call(&self.shared, self.jobs(), op, None, false),
        }
    }

    pub(crate) fn advance(&mut self, by: Duration) -> Outcome {
        // A short period and a long time would be too many runs.
        let fastest = {
            let oracle = &self.shared.lock().oracle;
            oracle.schedules.iter().map(|schedule| schedule.period).min()
        };
        let most = fastest.map_or(Duration::MAX, |ms| Duration::from_millis(ms as u64 * 60));
        let by = by.min(most);
        let driver = self.driver();
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

    /// Returns to what the wall clock is to be set.
    fn wanted(&mut self, set: Set) -> i64 {
        let (wall, _) = self.shared.look_at_the_clocks(false);
        let right = wall - self.shifted;
        let wanted = match set {
            Set::By(ms) => (wall + ms * 1000).max(0),
            Set::Epoch => 0,
            Set::Right => right,
        };
        self.shifted = wanted - right;
        wanted
    }

    /// Sets the wall clock unnoticed, and then makes a step. If the step is one of another process, or a
    /// restart, it comes before the jobs have noticed the new time.
    fn jump(&mut self, set: Set, op: &Op) -> Outcome {
        let (before, _) = self.shared.look_at_the_clocks(false);
        let wanted = self.wanted(set);
        if self.shared.place.has_leases() && wanted - before > SHORT_OF_A_LEASE {
            // A clock of the server that leaps over the end of a lease ends it.
            self.driver().set_wall(system(wanted));
            self.shared.look_at_the_clocks(true);
            return self.act(op);
        }
        self.driver().set_wall_unseen(system(wanted));
        if !self.shared.place.is_memory() && matches!(op, Op::Other(_) | Op::Restart(..)) {
            self.shared.lock().unseen = true;
            self.act(op)?;
            self.shared.lock().unseen = false;
        }
        self.shared.look_at_the_clocks(true);
        if !matches!(op, Op::Other(_) | Op::Restart(..)) {
            self.act(op)?;
        }
        // The jobs ask for another step when they find that the clock was set.
        if !self.shared.lock().crashed() {
            self.jobs().nudge();
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

/// P6, P14, P30, P31, P34, P43, P48, P62: The store in memory answers every call of a random history as the oracle
/// does.
#[test]
fn store_in_memory_agrees_with_the_oracle() {
    agrees(Kind::Memory, 25, draw::op);
}

/// P31, P110: The groups of the store in memory agree with the oracle. The other stores are compared with it: see
/// `store/differential`.
#[test]
fn groups_in_memory_agree_with_the_oracle() {
    agrees(Kind::Memory, 40, draw::group_op);
}

/// P5, P6, P14, P19, P22, P30, P36, P43, P48, P49, P62, P68, P69, P70: The store on a file agrees with the oracle as
/// well, also after crashes.
#[test]
fn store_on_a_file_agrees_with_the_oracle() {
    agrees(Kind::File, 6, draw::op);
}

/// P48, P62, P106, Redis P14, Redis P30: The store on Redis agrees with the oracle. A crash is a copy of the queue,
/// which the next process gets, and a lease that ends.
#[cfg(feature = "redis")]
#[test]
fn the_store_on_redis_agrees_with_the_oracle() {
    let Some(server) = installed::server(&[]) else { return };
    agrees(Kind::Server(server.port), 8, draw::op);
}

/// P106: The store in a cluster agrees with the oracle. A copy has another slot, and mostly another node.
#[cfg(feature = "redis")]
#[test]
fn store_in_a_cluster_agrees_with_the_oracle() {
    if installed::server(&[]).is_none() {
        return;
    }
    let cluster = cluster_servers::Cluster::start(3, Duration::from_secs(10));
    let ports = [0, 1, 2].map(|node| cluster.nodes[node].port);
    agrees(Kind::Cluster(ports), 4, draw::op);
}

/// Compares a store with the oracle in `cases` histories. It does so on a thread of its own, because proptest needs a
/// deep stack to draw a history: a plan has calls, and a call has plans.
fn agrees(store: Kind, cases: u32, step: fn() -> BoxedStrategy<Op>) {
    let compare = move || {
        let history = prop::collection::vec(step(), STEPS / 2..STEPS);
        let one =
            |(setup, history): (Setup, Vec<Op>)| run(setup, &history).map_err(TestCaseError::fail);
        if let Err(wrong) = TestRunner::new(config(cases)).run(&(setup(store), history), one) {
            panic!("{wrong}");
        }
    };
    let thread = std::thread::Builder::new().stack_size(DEEP).spawn(compare).unwrap();
    if let Err(panic) = thread.join() {
        std::panic::resume_unwind(panic);
    }
}
