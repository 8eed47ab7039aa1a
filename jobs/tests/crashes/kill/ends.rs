//! The rules R15 to R18: calls that cross an end, runs that are told to stop, what was written by hand, and what makes
//! no sense.
//!
//! | rule | must hold |
//! | --- | --- |
//! | R15 ends | after a shutdown or a drop every call is refused; after a shutdown no run starts |
//! | R16 leases | a run is asked to stop only if it was cancelled, its jobs end, or its lease could not be renewed |
//! | R17 set aside | only records that were written by hand are set aside and reported, and in the end all of them are |
//! | R18 senseless | a job that its handler cannot decode never runs, and is dead |
//!
//! A refused call has left nothing behind: `may_be_removed` and the deadlines of R2 leave it out. A
//! job that was inserted without waiting before an end is stored, or an event names it as lost:
//! `was_said`.

use std::collections::BTreeSet;

use super::checker::Found;
use super::history::{History, JobHistory};
use super::record::{Answer, Verb};

pub(crate) fn ends(history: &History<'_>, found: &mut Found) {
    found.about([]);
    calls_after_the_end(history, found);
    set_aside(history, found);
    for (&tag, job) in &history.jobs {
        found.about([tag]);
        told_without_a_cause(history, job, found);
        if history.is_senseless(job) && !job.starts.is_empty() {
            found.add("R18", format!("job {tag:x} makes no sense, and runs"));
        }
        for (place, life, start) in &job.starts {
            let life = &history.lives[life];
            if life.closed && life.ended.is_some_and(|ended| ended < *place) {
                found.add("R15", format!("job {tag:x} starts after a shutdown: {start:?}"));
            }
        }
    }
    found.about([]);
}

impl History<'_> {
    /// Says whether the job is one that its handler cannot decode.
    pub(crate) fn is_senseless(&self, job: &JobHistory) -> bool {
        job.inserts.iter().any(|&n| matches!(self.calls[n].verb, Verb::Senseless { .. }))
    }
}

/// R15, of calls.
fn calls_after_the_end(history: &History<'_>, found: &mut Found) {
    for call in &history.calls {
        let ended = history.lives.get(&call.life).and_then(|life| life.ended);
        let Some(answered) = call.answer.as_ref().filter(|_| ended < Some(call.place)) else {
            continue;
        };
        if ended.is_some() && !matches!(answered.answer, Answer::Refused(_)) {
            let text = format!("{:?} after the end is answered {:?}", call.verb, answered.answer);
            found.add("R15", text);
        }
    }
}

/// R16.
fn told_without_a_cause(history: &History<'_>, job: &JobHistory, found: &mut Found) {
    for &(place, life, at, fence) in &job.told {
        let started = job.starts.iter().find(|(.., start)| start.fence == fence);
        let since = started.map_or(0, |(.., start)| start.at);
        let is_cancelled = history.calls_on(job).any(|call| {
            matches!(call.verb, Verb::Cancel { .. }) && call.place < place && !call.is_refused()
        });
        let is_ending = history.lives[&life].ending.is_some_and(|(ending, _)| ending < place);
        if !is_cancelled && !is_ending && !history.is_cut_off(life, since, at) {
            found.add("R16", format!("the run {fence} of life {life} was told to stop"));
        }
    }
}

/// R17.
fn set_aside(history: &History<'_>, found: &mut Found) {
    // What a claim says that fails, for want of a right.
    let due = |what: &&str| !history.denials.is_empty() && *what == "the jobs that are due";
    let told = history.unreadable.iter().filter(|what| !history.foreign.contains(*what));
    for what in told.filter(|what| !due(what)) {
        found.add("R17", format!("{what} was told of, and nobody has written it by hand"));
    }
    let Some(set_aside) = history.set_aside else { return };
    let set_aside: BTreeSet<&str> = set_aside.iter().map(String::as_str).collect();
    for what in set_aside.symmetric_difference(&history.foreign) {
        found.add("R17", format!("{what} was written by hand or is set aside, and not both"));
    }
}
