//! R14: each rule finds what it is for. A log is written by hand, with one violation in it.
//!
//! A row is a head and, indented, a log: `handmade.rs` says how to read it. The head has the rules that the log breaks,
//! or `none`. Some rows are about a server, and its persistence: a rule in parentheses is broken, and what the server
//! had not written explains that.

use std::collections::BTreeSet;

use super::handmade::Log;
use crate::deaths::judge::{Persistence, Verdict, judge};

const LOGS: &str = "
none: everything that the rules allow
    insert 1; batch 10 +3; keyed 20 @550; keyed 21; insert 30; cancel 30;
    insert 40; reschedule 40 @140; schedule; batch 50 +2 -> nothing; again;
    look 1 10 11 12 21 40; run 10; run 11; run 12; run 21; start 1; end 1 failed;
    start 1 #2 @retry; again; run 1 #3 @retry; run 40 @140; tick 100 to 300; unschedule; closed

R1: a job that was stored never runs
    insert 1; closed
R1: a run was cut off by a kill, and the job never runs again
    insert 1; start 1; again; closed
R1: a job that was pending when a call asked for it never runs
    insert 1; get 1; closed
R1: a cancel was refused, and the job is gone all the same
    keyed 1; cancel 1 -> refused; ending; closed
R1: a cancel of a key was refused, and the job is gone all the same
    keyed 1; cancel-key -> refused; ending; closed
R1: an insert under a key was refused, and has replaced a job all the same
    keyed 1; keyed 2 -> refused; closed
R1: a buffered insert before a shutdown is gone, and no event names it
    born buffered; insert 1; ending; closed
none: a buffered insert before a shutdown is gone, and an event names it
    born buffered; insert 1; ending; named 1; closed

R2: a run starts before its due time
    insert 1; begin 1; end 1; closed
R2: a reschedule was forgotten
    insert 1; reschedule 1 @950; run 1; closed
R2: a retry does not wait
    insert 1; start 1; end 1 failed; run 1 #2 @53; closed
R2: a reschedule was refused, and has an effect all the same
    insert 1; reschedule 1 @950 -> refused; run 1 @950; closed

R3: a run starts after a cancel
    insert 1; cancel 1; run 1; closed
R3: a run is tried again after it was cancelled
    insert 1; start 1; cancel 1 -> running; end 1 failed; run 1 #2 @retry; closed
R3: a cancel is answered as if the job had been pending, and the job runs
    insert 1; start 1; cancel 1; end 1; closed
R3: a job is dead after four kills, and five are needed
    insert 1; again; again; again; again; closed; dead 1 i5
none: a job is dead after five kills
    insert 1; again; again; again; again; again; closed; dead 1 i5

R4: two runs have one fence
    insert 1; start 1 #9; again; run 1 #9; closed
R4: a run has the attempt number of the run before
    insert 1; start 1; again; start 1 #2 x1; end 1 #2; closed
R4: a failure with a wait of its own is not counted as an attempt
    insert 1; start 1; end 1 later; start 1 #2 x1 @later; end 1 #2; closed
none: a snooze is not counted as an attempt
    insert 1; start 1; end 1 snoozed; start 1 #2 x1 @later; end 1 #2; closed

R5: a job runs twice in one process
    insert 1; run 1; run 1 #2; closed
R5: a shutdown did not record a run
    insert 1; run 1; closed; born; run 1 #2; closed
R5: a shutdown did not record a run that ended while it waited
    insert 1; start 1; ending; end 1; closed; born; start 1 #2; end 1 #2; closed
none: a drop did not record a run, which is no attempt
    insert 1; start 1; ending; end 1; drop; gone; born; start 1 #2 x1; end 1 #2; closed

none: a run finds the progress that an earlier run has stored, or a later one
    insert 1; start 1; set 1 p5; stored 1 p5; again; start 1 #2 p5; set 1 #2 p6; again;
    start 1 #3 p6; set 1 #3 p7; again; start 1 #4 p6; set 1 #4 p8; end 1 #4 failed;
    start 1 #5 p8 @retry; end 1 #5; closed
R20: a run has stored its progress, which is lost with its process
    insert 1; start 1; set 1 p5; stored 1 p5; again; run 1 #2; closed
R20: a run finds a progress that is older than the stored one
    insert 1; start 1; set 1 p5; set 1 p6; stored 1 p6; again; run 1 #2 p5; closed
R20: a run finds a progress that no run has set
    insert 1; start 1; set 1 p5; again; run 1 #2 p7; closed
R20: the end of a run has lost its latest progress
    insert 1; start 1; set 1 p5; set 1 p6; end 1 failed; start 1 #2 p5 @retry; end 1 #2; closed

R6: nobody has inserted the job of a run
    run 1; closed
R6: the insert of the job was refused
    insert 1 -> refused; run 1; closed
R6: one insert has become two jobs
    insert 1 -> nothing; again; run 1; again; run 1 #2; renamed; closed
R6: a run starts after the store has said that its job is gone
    insert 1; run 1; get 1 -> gone; again; run 1 #2; closed

R7: a job that was replaced under its key runs
    keyed 1; keyed 2; run 1; run 2; closed
R7: two jobs are pending under one key
    keyed 1; keyed 2 -> nothing; gone; look 1/7 2/7; born; run 2; closed

R8: a part of a batch is stored
    batch 1 +3 -> nothing; again; run 1; run 3; closed

R9: a run starts a minute late
    insert 1; until 60050; run 1; closed
R9: a run is late, and one of three threads is free
    insert 1; insert 2; insert 3; start 1; start 2; until 60050; end 1; end 2; run 3; closed
none: a run is late, and no thread is free
    insert 1; insert 2; insert 3; insert 4; start 1; start 2; start 3;
    until 60050; end 1; end 2; end 3; run 4; closed

R10: an occurrence is missing
    schedule; tick 100; tick 200; tick 400; closed
R10: an occurrence comes at a wrong time
    schedule; tick 100; tick 203; closed
R10: an occurrence comes after the end of its schedule
    schedule; unschedule; tick 100; closed
R10: a schedule stops before it is removed
    schedule; tick 100; flush to 3900; unschedule; closed
R10: a child that acts for long makes up for no outage
    schedule; tick 100 to 600; again; until 1050; tick 700; wait 400; flush; again;
    tick 1500 to 2000; unschedule; closed
none: a child that is killed at once has no time to make up for an outage
    schedule; tick 100 to 600; again; until 1050; tick 700; wait 10; flush; again;
    tick 1500 to 2000; unschedule; closed
R10: occurrences are missing after a first child that was killed at once
    schedule; tick 100; again; tick 500 to 900; again; tick 1000; unschedule; closed
none: there is an outage after a first child that was killed at once
    schedule; tick 100; again; tick 1700 to 2100; again; tick 2200; unschedule; closed
R10: occurrences are missing before a last child that acts for a short time
    schedule; tick 100; again; tick 200 to 600; again; tick 1000; unschedule; closed
none: there is an outage before a last child that acts for a short time
    schedule; tick 100; again; tick 200 to 600; again; tick 2200; unschedule; closed

none: occurrences without overlap follow each other, the killed one too
    schedule alone; run alone 100; start alone 200; again; start alone 200 #2; end alone 200 #2;
    run alone 400; closed
R10: an occurrence without overlap starts beside another one
    schedule alone; start alone 100; start alone 200; end alone 100; end alone 200; closed
R10: an occurrence without overlap starts in one process beside another one in another process
    up; schedule alone; start alone 100; born; start alone 200; end alone 200; end alone 100; closed
R10: an occurrence without overlap starts before one that a kill has cut off runs again
    schedule alone; start alone 100; again; run alone 200; run alone 100 #2; closed
none: an occurrence without overlap follows one that has died of five kills
    schedule alone; start alone 100; again; start alone 100 #2; again; start alone 100 #3; again;
    start alone 100 #4; again; start alone 100 #5; again; run alone 200; closed; dead alone 100 i5
R10: an occurrence without overlap starts, and a later one has run
    schedule alone; run alone 200; run alone 100; closed

R11: a claim is left
    left claim
R11: an empty file is large
    left bytes
R11: the log of an empty file is not empty
    left log

R12: to open a file changes it
    look changed
R12: a file does not pass the check
    look wrong

R13: a synced insert is gone after a kill
    born synced; insert 1; again; closed
R13: a written insert is gone after a kill
    born written; insert 1; again; closed
R13: a job is not in the file between two children
    insert 1; gone; look; born; run 1; closed
R13: a buffered insert is gone after a flush and a kill
    born buffered; insert 1; flush; again; closed
none: a buffered insert is gone after a kill
    born buffered; insert 1; again; closed
R13: a buffered insert before a drop is gone, and no event names it
    born buffered; insert 1; ending; drop; gone
none: a buffered insert before a drop is gone, and an event names it
    born buffered; insert 1; ending; named 1; drop; gone

none: a call after a shutdown is refused
    ending; close; get 1 -> refused
R15: a call after a shutdown has an answer
    ending; close; get 1 -> gone
R15: a call after a drop may have been made
    ending; drop; get 1 -> unknown
R15: a run starts after a shutdown
    insert 1; ending; close; run 1

R16: a run is told to stop without a cause
    insert 1; start 1; told 1; again; run 1 #2; closed
R16: a run is told to stop after a cancel that was refused
    insert 1; start 1; cancel 1 -> refused; told 1; again; run 1 #2; closed
none: a run is told to stop by a cancel
    insert 1; start 1; cancel 1 -> nothing; told 1; again; run 1 #2; closed
none: a run is told to stop by the end of the jobs
    insert 1; start 1; ending; told 1; again; run 1 #2; closed

none: what was written by hand is reported and set aside
    foreign job 1; unreadable job 1; aside job 1
R17: something is reported that nobody has written by hand
    unreadable job 1
R17: something is set aside that nobody has written by hand
    aside job 1
R17: what was written by hand is not set aside
    foreign job 1; aside
R17: a claim fails, and no right is missing
    unreadable the jobs that are due
none: a claim fails because a right is missing
    denied; unreadable the jobs that are due

none: a job that its handler cannot decode is dead
    senseless 1; closed; dead 1 f1
R1: a job that its handler cannot decode is gone
    senseless 1; closed
R18: a job that its handler cannot decode runs
    senseless 1; run 1; closed

none: a job runs before its expiry, and another one never
    expiring 1 =90; expiring 2 =90; run 1; wait 400; closed
R19: a job runs after its expiry
    expiring 1 =90; wait 400; begin 1; end 1; closed
R19: the retry of a job runs after its expiry
    expiring 1 =90; start 1; wait 400; end 1 failed; run 1 #2 @retry; closed
R1: a job never runs, and has not expired
    expiring 1 =90000; wait 400; closed

none: on a server, a kill is a cause of a second run
    up; insert 1; start 1; gone; born; run 1 #2; closed
R5: on a server, a new process is no cause of a second run
    up; insert 1; start 1; born; run 1 #2; closed
none: a process that stood still is a cause of a second run
    up; insert 1; start 1; stop; go-on; born; run 1 #2; closed
none: a drop is a cause of a second run
    up; insert 1; start 1; ending; drop; born; run 1 #2; closed
none: a connection that stood still is a cause of a second run
    up; insert 1; start 1; stall 300; born; run 1 #2; closed
R5: a moment without the server is no cause of a second run
    up; insert 1; start 1; down; up; born; run 1 #2; closed
none: the time of a lease without the server is a cause of a second run
    up; insert 1; start 1; down; wait 2000; up; born; run 1 #2; closed

none: a node that stood still reports its start after a later run
    up; insert 1; stop; start 1 #2; end 1 #2; go-on; begin 1; end 1; closed

none: another process may have claimed a job whose cancel was answered `Running`
    up; insert 1; cancel 1 -> running; start 1; end 1 failed; closed
R3: a job runs twice after its cancel was answered `Running`
    up; insert 1; cancel 1 -> running; start 1; end 1 failed; start 1 #2; end 1 #2 failed; closed
R3: a job runs after its cancel was answered `Cancelled`
    up; insert 1; cancel 1; start 1; end 1 failed; closed
none: a node that was killed may have started a replaced job, which was due by then
    up; keyed 1 @450; reschedule 1 @50; until 50; keyed 2 @70; run 2 @70; wait 1000;
    begin 1 #2 @50; end 1 #2; closed
R7: a replaced job runs, which was not yet due when it was replaced
    up; keyed 1 @450; reschedule 1 @140; until 50; keyed 2 @70; run 2 @70; wait 1000;
    begin 1 #2 @140; end 1 #2; closed

R1 with rights: a missing right explains no loss
    up; insert 1; denied half; allowed half; closed
(R5) with rights: a script that failed midway explains a second run
    up; insert 1; denied half; run 1; run 1 #2; allowed half; closed
R5 with rights: a right without which no script fails midway explains no second run
    up; insert 1; denied; run 1; run 1 #2; allowed; closed

R1 with always: a job is gone although every write is synced
    up; insert 1; wait 10; down; up; closed
(R1) with everysec: a job came 10 ms before the server was killed
    up; insert 1; wait 10; down; up; closed
R1 with everysec: a job came 3 s before the server was killed
    up; insert 1; wait 3000; down; up; closed
(R1) with nothing: a job came 3 s before a server was killed that writes nothing
    up; insert 1; wait 3000; down; up; closed
R1 with nothing: a job came after the server was started again
    up; down; up; batch 10 +1; closed
(R1) with replica 4000: a job came 3 s before a replica took over that may lack 4 s
    up; insert 1; wait 3000; down; up; closed
R1 with replica 1000: a job came 3 s before a replica took over that may lack 1 s
    up; insert 1; wait 3000; down; up; closed
";

/// Each row: its head, and its log.
fn rows() -> Vec<(&'static str, String)> {
    let mut rows: Vec<(&str, String)> = Vec::new();
    for line in LOGS.lines().filter(|line| !line.is_empty()) {
        match line.strip_prefix("    ") {
            None => rows.push((line, String::new())),
            Some(steps) => rows.last_mut().expect("a head comes first").1.push_str(steps),
        }
    }
    rows
}

fn persistence(name: &str) -> Persistence {
    match name.split_once(' ').unwrap_or((name, "0")) {
        ("always", _) => Persistence::Always,
        ("everysec", _) => Persistence::EverySecond,
        ("nothing", _) => Persistence::None,
        ("rights", _) => Persistence::Rights,
        ("replica", ms) => Persistence::Replicated(1000 * ms.parse::<u64>().expect("a number")),
        _ => panic!("no persistence is called {name}"),
    }
}

/// The rules that are broken, as a head has them.
fn told(verdict: &Verdict) -> String {
    let broken: BTreeSet<_> = verdict.violations.iter().map(|found| found.rule).collect();
    let explained = verdict.explained.keys().map(|rule| format!("({rule})"));
    let rules: Vec<_> = broken.iter().map(|rule| (*rule).to_owned()).chain(explained).collect();
    if rules.is_empty() { "none".to_owned() } else { rules.join(" ") }
}

/// Each log breaks the rules in its head and no other, and each rule is broken by some log.
#[test]
fn each_doctored_log_breaks_its_rule_alone() {
    let (mut wrong, mut rules) = (Vec::new(), BTreeSet::new());
    for (head, steps) in rows() {
        let (wanted, _) = head.split_once(": ").expect("a head has a colon");
        let (wanted, kept) = wanted.split_once(" with ").unwrap_or((wanted, "always"));
        let log = Log::read(&steps);
        let verdict = judge(&log.events, &log.end, persistence(kept));
        rules.insert(wanted);
        if told(&verdict) != wanted {
            wrong.push(format!("{head}\n    {steps}\n{verdict:#?}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    let table = include_str!("../../deaths/rules.rs").lines();
    let all = table.filter_map(|row| row.strip_prefix("//! | R")?.split(' ').next());
    let all: Vec<_> = all.map(|number| format!("R{number}")).collect();
    assert!(all.len() >= 19, "{all:?}");
    let unproved: Vec<_> = all.into_iter().filter(|rule| !rules.contains(&**rule)).collect();
    assert!(unproved.is_empty(), "no log breaks {unproved:?}");
}
