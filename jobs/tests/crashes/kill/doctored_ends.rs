//! R14 for the rules R15 to R18, and for calls that were refused.

use std::collections::BTreeSet;

use super::checker::check;
use super::child::named;
use super::handmade::{DUE, Log, dead, ids};
use super::record::{Answer, How, Level, Mode, Record, Verb};

/// Says that exactly this rule is broken, or none.
#[track_caller]
fn is_broken(rule: Option<&'static str>, doctor: impl FnOnce(&mut Log)) {
    let mut log = Log::new(Level::Synced);
    doctor(&mut log);
    let wanted: BTreeSet<_> = rule.into_iter().collect();
    assert_eq!(log.broken(), wanted, "{:#?}", check(&log.events, &log.end));
}

fn ending(log: &mut Log) {
    log.add(Record::Ending { at: log.at() });
}

fn told(log: &mut Log, tag: u64, fence: u64) {
    log.add(Record::Told { at: log.at(), tag, fence });
}

fn refused() -> Answer {
    Answer::Refused("the jobs are shut down".to_owned())
}

/// R15 finds a call that is answered after a shutdown or a drop, and allows a refusal.
#[test]
fn r15_finds_a_call_that_is_answered_after_the_end() {
    let after = |end: Record, answer: Answer| {
        move |log: &mut Log| {
            ending(log);
            log.add(end);
            log.asked(Verb::Get { tag: 1 }, answer);
        }
    };
    is_broken(None, after(Record::Closed, refused()));
    is_broken(Some("R15"), after(Record::Closed, Answer::Gone));
    is_broken(Some("R15"), after(Record::Dropped, Answer::Unknown));
}

/// R15 finds a run that starts after a shutdown.
#[test]
fn r15_finds_a_run_that_starts_after_a_shutdown() {
    is_broken(Some("R15"), |log| {
        log.insert(1, DUE);
        ending(log);
        log.add(Record::Closed);
        log.run(1, DUE, 1);
    });
}

/// R1 and R2 find a refused call that has an effect all the same. The call crosses the end.
#[test]
fn refused_call_that_has_an_effect_is_found() {
    for verb in [Verb::Cancel { tag: 1 }, Verb::CancelKey { key: 7 }] {
        is_broken(Some("R1"), |log| {
            log.keyed(1, DUE);
            log.asked(verb, refused());
            ending(log);
            log.closed();
        });
    }
    is_broken(Some("R2"), |log| {
        log.insert(1, DUE);
        log.asked(Verb::Reschedule { tag: 1, due: DUE + 900 }, refused());
        log.run(1, DUE + 900, 1);
        log.closed();
    });
    is_broken(Some("R1"), |log| {
        log.keyed(1, DUE);
        log.asked(Verb::Keyed { key: 7, tag: 2, due: DUE, mode: Mode::Replace }, refused());
        log.closed();
    });
}

/// A buffered insert just before the end is stored, or an event names it. The rules find one that is neither.
#[test]
fn r1_finds_a_buffered_insert_that_is_gone_and_not_named() {
    for end in [Record::Closed, Record::Dropped] {
        for is_named in [true, false] {
            let mut log = Log::new(Level::Buffered);
            log.insert(1, DUE);
            ending(&mut log);
            if is_named {
                log.add(Record::InsertsLost { ids: vec![named(1)] });
            }
            log.add(end.clone());
            log.killed();
            assert_eq!(log.broken().is_empty(), is_named, "{end:?}: {:?}", log.broken());
        }
    }
}

/// R5 allows a second run after a drop, which records no end of a run, and finds one after a shutdown.
#[test]
fn r5_allows_a_second_run_after_a_drop_not_after_a_shutdown() {
    let again = |end: Record| {
        move |log: &mut Log| {
            log.insert(1, DUE);
            log.start(1, DUE, 1);
            ending(log);
            log.ended(1, 1, How::Done);
            log.add(end);
            log.add(Record::Gone { by: "exit status: 0".to_owned() });
            log.born(Level::Synced);
            // It does not count as an attempt.
            log.start_now(1, DUE, 2, if log.has_dropped() { 1 } else { 2 });
            log.ended(1, 2, How::Done);
            log.closed();
        }
    };
    is_broken(None, again(Record::Dropped));
    is_broken(Some("R5"), again(Record::Closed));
}

/// R16 finds a run that is asked to stop without a cause. An end and a cancel are causes; a refused cancel is
/// none.
#[test]
fn r16_finds_a_run_that_is_told_to_stop_without_a_cause() {
    let run = |between: fn(&mut Log)| {
        move |log: &mut Log| {
            log.insert(1, DUE);
            log.start(1, DUE, 1);
            between(log);
            told(log, 1, 1);
            log.again();
            log.run(1, DUE, 2);
            log.closed();
        }
    };
    is_broken(Some("R16"), run(|_| {}));
    is_broken(None, run(ending));
    is_broken(None, run(|log| log.call(Verb::Cancel { tag: 1 })));
    is_broken(Some("R16"), run(|log| log.asked(Verb::Cancel { tag: 1 }, refused())));
}

/// R17 finds a thing that is set aside or reported and was not written by hand, and one that is not set aside in
/// the end. A missing right is a cause to report the jobs that are due.
#[test]
fn r17_finds_records_set_aside_unlike_those_made_by_hand() {
    let by_hand = |log: &mut Log| log.add(Record::Foreign { what: "job 1".to_owned() });
    let said = |log: &mut Log| log.add(Record::Unreadable { what: "job 1".to_owned() });
    let aside = |log: &mut Log| log.add(Record::SetAside { what: vec!["job 1".to_owned()] });
    is_broken(None, |log| {
        by_hand(log);
        said(log);
        aside(log);
    });
    is_broken(Some("R17"), said);
    // A claim that fails names what it would have claimed.
    let due = |log: &mut Log| {
        log.add(Record::Unreadable { what: "the jobs that are due".to_owned() });
    };
    is_broken(Some("R17"), due);
    is_broken(None, |log| {
        log.add(Record::Rights { is_denied: true, half_done: false });
        due(log);
    });
    is_broken(Some("R17"), aside);
    is_broken(Some("R17"), |log| {
        by_hand(log);
        log.add(Record::SetAside { what: Vec::new() });
    });
}

/// R18 finds a run of a job that its handler cannot decode. R1 finds such a job if it is not dead in the end.
#[test]
fn r18_finds_a_run_of_a_job_that_makes_no_sense() {
    let senseless = |log: &mut Log| log.asked(Verb::Senseless { tag: 1, due: DUE }, ids(1, 1));
    let dies = |log: &mut Log| {
        let mut dead = dead(1, 0);
        dead.failures = 1;
        log.end.jobs.push(dead);
    };
    is_broken(None, |log| {
        senseless(log);
        dies(log);
        log.closed();
    });
    is_broken(Some("R1"), |log| {
        senseless(log);
        log.closed();
    });
    is_broken(Some("R18"), |log| {
        senseless(log);
        log.run(1, DUE, 1);
        log.closed();
    });
}
