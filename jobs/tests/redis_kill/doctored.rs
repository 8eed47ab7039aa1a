//! R14 on a server: what the rules allow there, and what they find.

use std::collections::BTreeSet;

use crate::handmade::{DUE, Log, ids};
use crate::judge::{Persistence, Verdict, judge};
use crate::record::{Answer, How, Level, Record, Verb};

/// A log of children that share a server.
fn shared() -> Log {
    let mut log = Log::new(Level::Synced);
    log.add(Record::Server { is_up: true });
    log
}

fn verdict(log: &Log, persistence: Persistence) -> Verdict {
    judge(&log.events, &log.end, persistence)
}

#[track_caller]
fn passes(log: &Log) {
    assert_eq!(verdict(log, Persistence::Always).violations, []);
}

#[track_caller]
fn caught(log: &Log, rule: &'static str) {
    let found = verdict(log, Persistence::Always).violations;
    let rules: BTreeSet<_> = found.iter().map(|violation| violation.rule).collect();
    assert_eq!(rules, BTreeSet::from([rule]), "{found:#?}");
}

/// A job starts in one life and, `between` having happened, in another.
fn twice(between: impl FnOnce(&mut Log)) -> Log {
    let mut log = shared();
    log.insert(1, DUE);
    log.start(1, DUE, 1);
    between(&mut log);
    log.born(Level::Synced);
    log.run(1, DUE, 2);
    log.closed();
    log
}

/// A kill is a cause of a second run.
#[test]
fn kill_is_a_cause_of_a_second_run() {
    passes(&twice(Log::killed));
}

/// A new process is no cause of a second run while the first process lives.
#[test]
fn new_process_alone_is_no_cause_of_a_second_run() {
    caught(&twice(|_| {}), "R5");
}

/// A process that stood still past its lease is a cause of a second run.
#[test]
fn stop_past_the_lease_is_a_cause_of_a_second_run() {
    passes(&twice(|log| {
        log.add(Record::Stopped { is_stopped: true });
        log.add(Record::Stopped { is_stopped: false });
    }));
}

/// A drop is a cause of a second run, and so is a stall of the process or of its connection.
#[test]
fn drop_and_stall_are_causes_of_a_second_run() {
    passes(&twice(|log| {
        log.add(Record::Ending { at: log.at() });
        log.add(Record::Dropped);
    }));
    passes(&twice(|log| {
        let from = log.at();
        log.now += 300;
        log.add(Record::Stalled { from, to: log.at() });
    }));
}

/// A missing right explains what a script left that failed midway, but not a lost job.
#[test]
fn right_that_was_missing_explains_no_loss() {
    let denied = |half_done: bool, during: fn(&mut Log)| {
        let mut log = shared();
        log.insert(1, DUE);
        log.add(Record::Rights { is_denied: true, half_done });
        during(&mut log);
        log.add(Record::Rights { is_denied: false, half_done });
        log.closed();
        let verdict = verdict(&log, Persistence::Rights);
        let rules: Vec<_> = verdict.violations.iter().map(|violation| violation.rule).collect();
        (rules, verdict.explained.len())
    };
    let nothing: fn(&mut Log) = |_| {};
    let two_runs: fn(&mut Log) = |log| {
        log.run(1, DUE, 1);
        log.run(1, DUE, 2);
    };
    assert_eq!(denied(true, nothing), (vec!["R1"], 0));
    assert_eq!(denied(true, two_runs), (vec![], 1));
    assert_eq!(denied(false, two_runs), (vec!["R5"], 0));
}

/// A moment without the server is no cause of a second run.
#[test]
fn outage_of_a_moment_is_no_cause_of_a_second_run() {
    caught(
        &twice(|log| {
            log.add(Record::Server { is_up: false });
            log.add(Record::Server { is_up: true });
        }),
        "R5",
    );
}

/// A lease's time without the server is a cause of a second run.
#[test]
fn outage_of_a_lease_is_a_cause_of_a_second_run() {
    passes(&twice(|log| {
        log.add(Record::Server { is_up: false });
        log.now += 2000;
        log.add(Record::Server { is_up: true });
    }));
}

/// After a cancel was answered `Running`, the job may start once: another process has claimed it. R3 finds a
/// second start.
#[test]
fn cancel_answered_running_allows_one_more_start() {
    let cancelled = |answer: Answer, runs: u64| {
        let mut log = shared();
        log.insert(1, DUE);
        log.asked(Verb::Cancel { tag: 1 }, answer);
        for run in 1..=runs {
            log.start(1, DUE, run);
            log.ended(1, run, How::Failed);
        }
        log.closed();
        log
    };
    passes(&cancelled(Answer::Running, 1));
    caught(&cancelled(Answer::Cancelled, 1), "R3");
    let again = verdict(&cancelled(Answer::Running, 2), Persistence::Always).violations;
    assert!(again.iter().any(|violation| violation.rule == "R3"), "{again:?}");
}

/// A replaced job may have started before if a reschedule made it due before the replacement.
#[test]
fn replaced_job_may_have_started_after_a_reschedule() {
    let replaced = |reset: u64| {
        let mut log = shared();
        log.keyed(1, DUE + 400);
        log.asked(Verb::Reschedule { tag: 1, due: reset }, Answer::Done(true));
        log.now = log.now.max(DUE);
        // Here a node has claimed it and is killed, and no log has the run.
        log.keyed(2, DUE + 20);
        log.run(2, DUE + 20, 1);
        log.now += 1000;
        log.start_now(1, reset, 2, 2);
        log.ended(1, 2, How::Done);
        log.closed();
        log
    };
    passes(&replaced(DUE));
    caught(&replaced(DUE + 90), "R7");
}

/// A job is stored `before_ms` before the server is killed, and never seen again.
fn lost(before_ms: u64) -> Log {
    let mut log = shared();
    log.insert(1, DUE);
    log.now += before_ms;
    log.add(Record::Server { is_up: false });
    log.add(Record::Server { is_up: true });
    log.closed();
    log
}

/// The persistence of the server explains a loss only within its own time before a kill, and none after the
/// restart.
#[test]
fn loss_must_be_explained_by_the_persistence() {
    let explained = |log: &Log, persistence| {
        let verdict = verdict(log, persistence);
        assert_eq!(verdict.violations.len() + verdict.explained.len(), 1, "{verdict:?}");
        verdict.violations.is_empty()
    };
    assert!(!explained(&lost(10), Persistence::Always));
    assert!(explained(&lost(10), Persistence::EverySecond));
    assert!(!explained(&lost(3000), Persistence::EverySecond));
    assert!(explained(&lost(3000), Persistence::None));
    assert!(explained(&lost(3000), Persistence::Replicated(4_000_000)));
    assert!(!explained(&lost(3000), Persistence::Replicated(1_000_000)));
    // What came after the restart is not.
    let mut after = shared();
    after.add(Record::Server { is_up: false });
    after.add(Record::Server { is_up: true });
    after.asked(Verb::Batch { first: 10, count: 1, due: DUE }, ids(10, 1));
    after.closed();
    assert!(!explained(&after, Persistence::None));
}
