//! The rules, and the breaches of them that the persistence of a server explains.
//!
//! A server that is killed comes back without the changes that it had not written. So an insert may
//! be gone, a job that was done may run again, and a cancelled one may run. These are no faults of
//! the jobs, as long as the persistence explains each of them:
//!
//! | persistence | a violation is explained if |
//! | --- | --- |
//! | AOF, `appendfsync always` | never |
//! | AOF, `appendfsync everysec` | something happened to the job in the two seconds before a kill |
//! | none | something happened to the job before a kill |
//! | a right is missing for a moment | it is no loss, and something happened to the job without `ZADD` |
//! | a replica takes over | something happened to the job since its link had stood still |
//!
//! A claim is in no log: it happened between the deadline of its run and the start. The result of a
//! handler is sent after its end, within a second unless the server is away.

use std::collections::BTreeMap;

use super::history::{History, JobHistory};
use super::record::{Event, FileEnd, Tag};
use super::rules::{Violation, check};

/// What the server writes to disk, and when.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Persistence {
    Always,
    EverySecond,
    None,
    /// As always; a right is missing for a moment.
    Rights,
    /// A replica that may lack so much takes over, in microseconds.
    Replicated(u64),
}

/// What the server may have answered and not yet written: a write waits for a sync that takes long,
/// for two seconds at most.
const UNWRITTEN_US: u64 = 2_000_000;
/// Within which time the end of a run is with the server.
const SENT_WITHIN_US: u64 = 1_000_000;
/// What no missing right explains.
const NEVER_EXPLAINED: [&str; 6] = ["R1", "R13", "R15", "R17", "R18", "R19"];

/// What the rules found.
#[derive(Debug)]
pub(crate) struct Verdict {
    pub(crate) violations: Vec<Violation>,
    /// How often each rule found something that the persistence explains.
    pub(crate) explained: BTreeMap<&'static str, usize>,
}

pub(crate) fn judge(log: &[Event], end: &FileEnd, persistence: Persistence) -> Verdict {
    let history = History::new(log, end);
    let mut verdict = Verdict { violations: Vec::new(), explained: BTreeMap::new() };
    for violation in check(log, end) {
        let by_job = |tag: &Tag| {
            let job = history.jobs.get(tag);
            job.is_some_and(|job| is_explained(&history, job, persistence))
        };
        // A schedule that is lost stays so until the next child sets it.
        let by_schedule = violation.rule == "R10"
            && persistence != Persistence::Always
            && (!history.away.is_empty() || history.denials.iter().any(|denial| denial.2));
        let never = persistence == Persistence::Rights && NEVER_EXPLAINED.contains(&violation.rule);
        if !never && (violation.jobs.iter().any(by_job) || by_schedule) {
            *verdict.explained.entry(violation.rule).or_default() += 1;
        } else {
            verdict.violations.push(violation);
        }
    }
    verdict
}

fn is_explained(history: &History<'_>, job: &JobHistory, persistence: Persistence) -> bool {
    let calls = job.inserts.iter().chain(&job.calls).map(|&n| &history.calls[n]);
    let calls = calls.map(|call| {
        let answered = call.answer.as_ref().map_or(call.at, |answered| answered.at);
        (call.at, answered)
    });
    let runs = job.starts.iter().map(|(_, life, start)| {
        let ended = job.end_of(start).map(|(.., end)| end.at + SENT_WITHIN_US);
        // A run without an end may have gone on until its process ended.
        let ended = ended.or(job.told_at(start));
        let ended = ended.unwrap_or_else(|| history.lives[life].gone_at.max(start.at));
        (start.since().min(start.due * 1000), ended)
    });
    let mut spans = calls.chain(runs);
    let lost = |(from, to): (u64, u64)| {
        if persistence == Persistence::Rights {
            let denied = |&(since, until, half_done): &(u64, u64, bool)| {
                half_done && from <= until && since <= to
            };
            return history.denials.iter().any(denied);
        }
        history.away.iter().any(|&(killed, _)| {
            let since = match persistence {
                Persistence::Always | Persistence::Rights => return false,
                Persistence::EverySecond => killed.saturating_sub(UNWRITTEN_US),
                Persistence::None => 0,
                Persistence::Replicated(lack) => killed.saturating_sub(lack),
            };
            from <= killed && since <= to
        })
    };
    spans.any(lost)
}
