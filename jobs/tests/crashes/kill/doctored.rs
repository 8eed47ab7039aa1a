//! R14: each rule finds what it is for. A log is written by hand, with one violation in it.

use std::collections::BTreeSet;

use tickwheel_jobs::JobId;

use super::checker::check;
use super::child::THREADS;
use super::handmade::{BEGINNING, DUE, Log, dead, ids, seen};
use super::record::{
    Answer, Event, FileEnd, How, LATER_MS, Level, Look, Mode, RETRY_MS, Record, Verb, occurrence,
};

/// Does what every rule allows.
fn good() -> Log {
    let mut log = Log::new(Level::Synced);
    log.insert(1, DUE);
    log.asked(Verb::Batch { first: 10, count: 3, due: DUE }, ids(10, 3));
    log.keyed(20, DUE + 500);
    log.keyed(21, DUE);
    log.insert(30, DUE);
    log.asked(Verb::Cancel { tag: 30 }, Answer::Cancelled);
    log.insert(40, DUE);
    log.asked(Verb::Reschedule { tag: 40, due: DUE + 90 }, Answer::Done(true));
    log.asked(Verb::Schedule { name: 1, period: 100 }, Answer::Done(true));
    log.call(Verb::Batch { first: 50, count: 2, due: DUE });
    log.again();
    log.looked([1, 10, 11, 12, 21, 40].map(|tag| seen(tag, None)).into());
    for tag in [10, 11, 12, 21] {
        log.run(tag, DUE, 1);
    }
    log.start(1, DUE, 1);
    log.ended(1, 1, How::Failed);
    let again = log.now + RETRY_MS;
    log.start(1, again, 2);
    log.again();
    log.run(1, again, 3);
    log.run(40, DUE + 90, 1);
    for n in 1..4 {
        log.run(occurrence(1, BEGINNING + n * 100), BEGINNING + n * 100, 1);
    }
    log.asked(Verb::Unschedule { name: 1 }, Answer::Done(true));
    log.closed();
    log
}

/// A log that does everything that the rules allow passes.
#[test]
fn log_without_a_violation_passes() {
    assert_eq!(check(&good().events, &FileEnd::default()), []);
}

/// Says that exactly this rule is broken, and by which story.
#[track_caller]
fn caught(rule: &'static str, doctor: impl FnOnce(&mut Log)) {
    caught_at(Level::Synced, rule, doctor);
}

#[track_caller]
fn caught_at(level: Level, rule: &'static str, doctor: impl FnOnce(&mut Log)) {
    let mut log = Log::new(level);
    doctor(&mut log);
    assert_eq!(log.broken(), BTreeSet::from([rule]), "{:#?}", check(&log.events, &log.end));
}

/// R1 finds a job that was stored and never runs.
#[test]
fn r1_finds_a_job_that_never_runs() {
    caught("R1", |log| {
        log.insert(1, DUE);
        log.closed();
    });
}

/// R1 finds a job whose run was cut off by a kill and that never runs again.
#[test]
fn r1_finds_a_job_whose_run_was_cut_off_for_good() {
    caught("R1", |log| {
        log.insert(1, DUE);
        log.start(1, DUE, 1);
        log.again();
        log.closed();
    });
}

/// R2 finds a run that starts before its due time.
#[test]
fn r2_finds_a_run_before_its_due_time() {
    caught("R2", |log| {
        log.insert(1, DUE);
        log.start_now(1, DUE, 1, 1);
        log.ended(1, 1, How::Done);
        log.closed();
    });
}

/// R2 finds a run at the due time from before a reschedule.
#[test]
fn r2_finds_a_reschedule_that_was_forgotten() {
    caught("R2", |log| {
        log.insert(1, DUE);
        log.asked(Verb::Reschedule { tag: 1, due: DUE + 900 }, Answer::Done(true));
        log.run(1, DUE, 1);
        log.closed();
    });
}

/// R2 finds a retry that starts before its wait is over.
#[test]
fn r2_finds_a_retry_that_does_not_wait() {
    caught("R2", |log| {
        log.insert(1, DUE);
        log.start(1, DUE, 1);
        log.ended(1, 1, How::Failed);
        log.run(1, DUE + 3, 2);
        log.closed();
    });
}

/// R3 finds a run that starts after a cancel was answered `Cancelled`.
#[test]
fn r3_finds_a_start_after_cancelled() {
    caught("R3", |log| {
        log.insert(1, DUE);
        log.asked(Verb::Cancel { tag: 1 }, Answer::Cancelled);
        log.run(1, DUE, 1);
        log.closed();
    });
}

/// R3 finds a retry after a cancel was answered `Running`.
#[test]
fn r3_finds_a_retry_after_a_cancel_of_a_run() {
    caught("R3", |log| {
        log.insert(1, DUE);
        log.start(1, DUE, 1);
        log.asked(Verb::Cancel { tag: 1 }, Answer::Running);
        log.ended(1, 1, How::Failed);
        log.run(1, log.now + RETRY_MS, 2);
        log.closed();
    });
}

/// R3 finds a cancel that was answered `Cancelled` while the job ran.
#[test]
fn r3_finds_a_run_whose_cancel_was_answered_cancelled() {
    caught("R3", |log| {
        log.insert(1, DUE);
        log.start(1, DUE, 1);
        log.asked(Verb::Cancel { tag: 1 }, Answer::Cancelled);
        log.ended(1, 1, How::Done);
        log.closed();
    });
}

/// R3 finds a job that is dead after four kills: five are needed.
#[test]
fn r3_finds_a_death_after_four_kills() {
    caught("R3", |log| {
        log.insert(1, DUE);
        (0..4).for_each(|_| log.again());
        log.closed();
        log.end.jobs.push(dead(1, 5));
    });
}

/// R4 finds two runs of a job with one fence.
#[test]
fn r4_finds_a_fence_that_two_runs_have() {
    caught("R4", |log| {
        log.insert(1, DUE);
        log.start(1, DUE, 9);
        log.again();
        log.run(1, DUE, 9);
        log.closed();
    });
}

/// R4 finds a run that has the attempt number of the run before.
#[test]
fn r4_finds_an_attempt_that_is_not_counted() {
    caught("R4", |log| {
        log.insert(1, DUE);
        log.start(1, DUE, 1);
        log.again();
        log.start_now(1, DUE, 2, 1);
        log.ended(1, 2, How::Done);
        log.closed();
    });
}

/// R4 finds an attempt that is not counted after a failure with a wait of its own, and none after a snooze.
#[test]
fn r4_lets_only_a_snooze_leave_the_attempt_uncounted() {
    let story = |how: How| {
        move |log: &mut Log| {
            log.insert(1, DUE);
            log.start(1, DUE, 1);
            log.ended(1, 1, how);
            log.now += LATER_MS;
            log.start_now(1, log.now, 2, 1);
            log.ended(1, 2, How::Done);
            log.closed();
        }
    };
    caught("R4", story(How::Later));
    let mut log = Log::new(Level::Synced);
    story(How::Snoozed)(&mut log);
    assert_eq!(check(&log.events, &FileEnd::default()), []);
}

/// R5 finds a second run in the process whose first run ended well.
#[test]
fn r5_finds_two_runs_in_one_process() {
    caught("R5", |log| {
        log.insert(1, DUE);
        log.run(1, DUE, 1);
        log.run(1, DUE, 2);
        log.closed();
    });
}

/// R5 finds a second run after a shutdown, which records every end.
#[test]
fn r5_finds_a_run_that_a_shutdown_did_not_record() {
    caught("R5", |log| {
        log.insert(1, DUE);
        log.run(1, DUE, 1);
        log.closed();
        log.born(Level::Synced);
        log.run(1, DUE, 2);
        log.closed();
    });
}

/// R6 finds a run of a job that no call inserted.
#[test]
fn r6_finds_a_run_of_a_job_without_an_insert() {
    caught("R6", |log| {
        log.run(1, DUE, 1);
        log.closed();
    });
}

/// R6 finds a run of a job whose insert was refused.
#[test]
fn r6_finds_a_run_of_a_refused_job() {
    caught("R6", |log| {
        log.asked(Verb::Insert { tag: 1, due: DUE }, Answer::Refused("full".to_owned()));
        log.run(1, DUE, 1);
        log.closed();
    });
}

/// R6 finds one insert that has become two jobs.
#[test]
fn r6_finds_an_insert_that_was_stored_twice() {
    caught("R6", |log| {
        log.call(Verb::Insert { tag: 1, due: DUE });
        log.again();
        log.run(1, DUE, 1);
        log.again();
        log.run(1, DUE, 2);
        if let Some(Event { record: Record::Start(start), .. }) = log.events.iter_mut().nth_back(1)
        {
            start.id = JobId::named("another");
        }
        log.closed();
    });
}

/// R6 finds a run of a job after the store answered that it is gone.
#[test]
fn r6_finds_a_start_after_the_job_was_gone() {
    caught("R6", |log| {
        log.insert(1, DUE);
        log.run(1, DUE, 1);
        log.asked(Verb::Get { tag: 1 }, Answer::Gone);
        log.again();
        log.run(1, DUE, 2);
        log.closed();
    });
}

/// R7 finds a run of a job that was replaced under its key.
#[test]
fn r7_finds_a_run_of_a_replaced_job() {
    caught("R7", |log| {
        log.keyed(1, DUE);
        log.keyed(2, DUE);
        log.run(1, DUE, 1);
        log.run(2, DUE, 1);
        log.closed();
    });
}

/// R7 finds two pending jobs under one key.
#[test]
fn r7_finds_two_jobs_under_one_key() {
    caught("R7", |log| {
        log.keyed(1, DUE);
        log.call(Verb::Keyed { key: 7, tag: 2, due: DUE, mode: Mode::Replace });
        log.killed();
        log.looked(vec![seen(1, Some("7")), seen(2, Some("7"))]);
        log.born(Level::Synced);
        log.run(2, DUE, 1);
        log.closed();
    });
}

/// R8 finds a batch of which a part is stored.
#[test]
fn r8_finds_half_of_a_batch() {
    caught("R8", |log| {
        log.call(Verb::Batch { first: 1, count: 3, due: DUE });
        log.again();
        log.run(1, DUE, 1);
        log.run(3, DUE, 1);
        log.closed();
    });
}

/// R9 finds a run that starts a minute after its due time.
#[test]
fn r9_finds_a_run_that_starts_too_late() {
    caught("R9", |log| {
        log.insert(1, DUE);
        log.now = DUE + 60_000;
        log.run(1, DUE, 1);
        log.closed();
    });
}

/// Starts long runs, and another one when they have ended.
fn queued_behind(log: &mut Log, long_runs: u64) {
    for job in 1..=long_runs + 1 {
        log.insert(job, DUE);
    }
    log.now = DUE;
    for job in 1..=long_runs {
        log.start(job, DUE, job);
    }
    log.now = DUE + 60_000;
    for job in 1..=long_runs {
        log.ended(job, job, How::Done);
    }
    log.run(long_runs + 1, DUE, long_runs + 1);
    log.closed();
}

/// R9 allows a run to wait for a thread.
#[test]
fn r9_allows_a_run_to_wait_for_a_thread() {
    let mut log = Log::new(Level::Synced);
    queued_behind(&mut log, THREADS as u64);
    assert_eq!(log.broken(), BTreeSet::new());
}

/// R9 finds a run that waits although a thread is free.
#[test]
fn r9_finds_a_late_run_beside_a_free_thread() {
    caught("R9", |log| queued_behind(log, THREADS as u64 - 1));
}

/// R10 finds a gap between the occurrences of a schedule.
#[test]
fn r10_finds_an_occurrence_that_is_missing() {
    caught("R10", |log| {
        log.asked(Verb::Schedule { name: 1, period: 100 }, Answer::Done(true));
        for n in [1, 2, 4] {
            log.run(occurrence(1, BEGINNING + n * 100), BEGINNING + n * 100, 1);
        }
        log.closed();
    });
}

/// Writes a log in which seven occurrences of a schedule are missing. The first child is killed, the second one acts
/// for `acts_for` milliseconds and is killed, and the third one makes the later occurrences.
fn with_an_outage(log: &mut Log, acts_for: u64) {
    let run = |log: &mut Log, n: u64| {
        log.run(occurrence(1, BEGINNING + n * 100), BEGINNING + n * 100, n);
    };
    log.asked(Verb::Schedule { name: 1, period: 100 }, Answer::Done(true));
    (1..=6).for_each(|n| run(log, n));
    log.again();
    log.now = BEGINNING + 1_050;
    run(log, 7);
    log.now += acts_for;
    log.asked(Verb::Flush, Answer::Done(true));
    log.again();
    (15..=20).for_each(|n| run(log, n));
    log.asked(Verb::Unschedule { name: 1 }, Answer::Done(true));
    log.closed();
}

/// R10 allows a gap if the child in its middle is killed at once, because that child had no time to make the
/// occurrences. R10 finds the gap if that child acts for longer.
#[test]
fn r10_allows_an_outage_with_a_child_that_is_killed_at_once() {
    let mut log = Log::new(Level::Synced);
    with_an_outage(&mut log, 10);
    assert_eq!(log.broken(), BTreeSet::new());
    caught("R10", |log| with_an_outage(log, 400));
}

/// Writes a log in which children are killed at once before and after the only one that acts for long. `early` and
/// `late` occurrences are missing on its two sides.
fn with_outages_at_both_ends(log: &mut Log, early: u64, late: u64) {
    let run = |log: &mut Log, n: u64| {
        log.run(occurrence(1, BEGINNING + n * 100), BEGINNING + n * 100, n);
    };
    log.asked(Verb::Schedule { name: 1, period: 100 }, Answer::Done(true));
    run(log, 1);
    log.again();
    let middle = 2 + early;
    (middle..middle + 5).for_each(|n| run(log, n));
    log.again();
    run(log, middle + 5 + late);
    log.asked(Verb::Unschedule { name: 1 }, Answer::Done(true));
    log.closed();
}

/// R10 allows a gap after a first child that was killed at once, and one before a last child that acts for a short
/// time.
#[test]
fn r10_allows_an_outage_at_the_beginning_and_at_the_end() {
    for (early, late) in [(15, 0), (0, 15)] {
        let mut log = Log::new(Level::Synced);
        with_outages_at_both_ends(&mut log, early, late);
        assert_eq!(log.broken(), BTreeSet::new(), "{early} and {late} are missing");
        caught("R10", |log| with_outages_at_both_ends(log, early.min(3), late.min(3)));
    }
}

/// R10 finds a schedule that stops before it is removed.
#[test]
fn r10_finds_a_schedule_that_stops() {
    caught("R10", |log| {
        log.asked(Verb::Schedule { name: 1, period: 100 }, Answer::Done(true));
        log.run(occurrence(1, BEGINNING + 100), BEGINNING + 100, 1);
        for n in 1..40 {
            log.now = BEGINNING + n * 100;
            log.asked(Verb::Flush, Answer::Done(true));
        }
        log.asked(Verb::Unschedule { name: 1 }, Answer::Done(true));
        log.closed();
    });
}

/// R10 finds an occurrence at a wrong time, and one after its schedule was removed.
#[test]
fn r10_finds_a_schedule_that_drifts_or_does_not_end() {
    caught("R10", |log| {
        log.asked(Verb::Schedule { name: 1, period: 100 }, Answer::Done(true));
        log.run(occurrence(1, BEGINNING + 100), BEGINNING + 100, 1);
        log.run(occurrence(1, BEGINNING + 203), BEGINNING + 203, 1);
        log.closed();
    });
    caught("R10", |log| {
        log.asked(Verb::Schedule { name: 1, period: 100 }, Answer::Done(true));
        log.asked(Verb::Unschedule { name: 1 }, Answer::Done(true));
        log.run(occurrence(1, BEGINNING + 100), BEGINNING + 100, 1);
        log.closed();
    });
}

/// R11 finds a claim that stays, a file that is too large, and a log that is not empty.
#[test]
fn r11_finds_a_claim_that_stays_and_a_file_that_grows() {
    caught("R11", |log| log.end.rows = vec![("claim".to_owned(), 1)]);
    caught("R11", |log| log.end.bytes = 50 << 20);
    caught("R11", |log| log.end.log_bytes = 1);
}

/// R12 finds a file that changes when it is opened, and one that does not pass `check`.
#[test]
fn r12_finds_a_file_that_reopening_changes_or_that_is_wrong() {
    caught("R12", |log| log.add(Record::Looked(Look { same: false, ..Look::default() })));
    let violation = Some("F5: keys of no job".to_owned());
    caught("R12", |log| log.add(Record::Looked(Look { violation, same: true, jobs: vec![] })));
}

/// R13 finds a job that was stored at `Synced` or `Written` and is gone after a kill.
#[test]
fn r13_finds_a_stored_job_that_is_gone_after_a_kill() {
    for level in [Level::Synced, Level::Written] {
        caught_at(level, "R13", |log| {
            log.insert(1, DUE);
            log.again();
            log.closed();
        });
    }
    // A look finds it before the end does.
    caught("R13", |log| {
        log.insert(1, DUE);
        log.killed();
        log.looked(Vec::new());
        log.born(Level::Synced);
        log.run(1, DUE, 1);
        log.closed();
    });
}

/// R13 allows the loss of a buffered insert before a flush was answered, and finds it after.
#[test]
fn r13_counts_a_buffered_insert_only_after_a_flush() {
    let mut log = Log::new(Level::Buffered);
    log.insert(1, DUE);
    log.again();
    log.closed();
    assert_eq!(log.broken(), BTreeSet::new());
    caught_at(Level::Buffered, "R13", |log| {
        log.insert(1, DUE);
        log.asked(Verb::Flush, Answer::Done(true));
        log.again();
        log.closed();
    });
}
