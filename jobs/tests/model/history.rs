//! The figures of the queue: what its history has counted since the step before is what the oracle has seen (P34), the
//! groups of the dead are those of the list of the dead, and the overdue jobs are those of the oracle.
//!
//! Ground rules:
//!
//! - A history of 90 days is kept, by the latest clock that any process has read. So a step is not compared whose clock
//!   is long before that.
//! - A step is not compared in which a process crashed, another one made a change by the clock of the machine, calls
//!   crossed an end, or the wall clock was set.
//! - Inserts are not compared by themselves, because an occurrence comes at some time. But each job that is inserted or
//!   retried by hand completes, dies, is cancelled, or is there.

use std::collections::BTreeMap;
use std::time::Duration;

use tickwheel_jobs::{Counts, DeadByError, HistoryEntry, JobInfo, JobState, Step};

use crate::ops::{NAMES, Op, system};
use crate::oracle::{Oracle, Outcome, ensure};
use crate::record::Record;
use crate::world::World;

const MINUTE: i64 = 60_000_000;
const HOUR: i64 = 60 * MINUTE;

/// What has happened to the jobs of a kind.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub(crate) struct Happened {
    pub(crate) completed: i64,
    pub(crate) retried: i64,
    pub(crate) snoozed: i64,
    pub(crate) dead: i64,
    pub(crate) cancelled: i64,
    pub(crate) expired: i64,
    /// Runs that have started. Each of them has ended.
    pub(crate) runs: i64,
    /// Dead jobs that a caller has made pending.
    pub(crate) revived: i64,
}

impl Happened {
    fn since(self, before: Happened) -> Happened {
        Happened {
            completed: self.completed - before.completed,
            retried: self.retried - before.retried,
            snoozed: self.snoozed - before.snoozed,
            dead: self.dead - before.dead,
            cancelled: self.cancelled - before.cancelled,
            expired: self.expired - before.expired,
            runs: self.runs - before.runs,
            revived: self.revived - before.revived,
        }
    }
}

/// What a history says of a kind: of each minute or hour, and what else it counts.
type Entries = BTreeMap<i64, (Happened, Besides)>;

#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
struct Besides {
    inserted: i64,
    interrupted: i64,
}

/// What there was after a step.
pub(crate) struct Noted {
    wall: i64,
    happened: [Happened; 4],
    alive: [i64; 4],
    hours: [Entries; 4],
    minutes: [Entries; 4],
}

/// Says whether the figures of a step can be compared.
pub(crate) fn is_compared(op: &Op) -> bool {
    !matches!(
        op,
        Op::SetWall(_)
            | Op::Jump(..)
            | Op::Cross { .. }
            | Op::Foreign(..)
            | Op::Restart(..)
            | Op::WaitAcross(..)
            | Op::CallAcross(..)
            | Op::Other(_)
    )
}

fn entries(found: Vec<HistoryEntry>) -> Entries {
    let of = |entry: HistoryEntry| {
        let many = |many: u64| i64::try_from(many).expect("few jobs");
        let happened = Happened {
            completed: many(entry.completed),
            retried: many(entry.retried),
            snoozed: many(entry.snoozed),
            dead: many(entry.dead),
            cancelled: many(entry.cancelled),
            expired: many(entry.expired),
            runs: many(entry.run_time.iter().sum()),
            revived: 0,
        };
        let besides =
            Besides { inserted: many(entry.inserted), interrupted: many(entry.interrupted) };
        (crate::ops::micros(entry.begin), (happened, besides))
    };
    found.into_iter().map(of).collect()
}

/// Adds up how entries have grown that begin at this time or later.
fn grown(before: &Entries, after: &Entries, from: i64) -> (Happened, Besides) {
    let sum = |entries: &Entries| {
        let mut sums = (Happened::default(), Besides::default());
        for (happened, besides) in entries.range(from..).map(|(_, entry)| entry) {
            sums.0.completed += happened.completed;
            sums.0.retried += happened.retried;
            sums.0.snoozed += happened.snoozed;
            sums.0.dead += happened.dead;
            sums.0.cancelled += happened.cancelled;
            sums.0.expired += happened.expired;
            sums.0.runs += happened.runs;
            sums.1.inserted += besides.inserted;
            sums.1.interrupted += besides.interrupted;
        }
        sums
    };
    let (before, after) = (sum(before), sum(after));
    let besides = Besides {
        inserted: after.1.inserted - before.1.inserted,
        interrupted: after.1.interrupted - before.1.interrupted,
    };
    (after.0.since(before.0), besides)
}

impl World {
    /// Compares what the history has counted since the step before, unless that step or this one is not compared.
    pub(crate) fn history_agrees(&mut self, is_compared: bool) -> Outcome {
        let jobs = self.jobs.as_ref().expect("the jobs run");
        let mut alive = [0; 4];
        for job in jobs.pending() {
            let kind = NAMES.iter().position(|name| *name == job.kind);
            alive[kind.ok_or("no such kind")?] += 1;
        }
        let read = |kind: usize, step| {
            let ever = system(0)..system(i64::MAX / 64);
            let found = jobs.kind_named(NAMES[kind]).history(step, ever);
            found.map(entries).map_err(|error| format!("the history: {error}"))
        };
        let (mut hours, mut minutes) = <([Entries; 4], [Entries; 4])>::default();
        for kind in 0..4 {
            hours[kind] = read(kind, Step::Hour)?;
            minutes[kind] = read(kind, Step::Minute)?;
        }
        let (wall, happened) = {
            let oracle = &self.shared.lock().oracle;
            (oracle.wall, oracle.happened)
        };
        self.latest = self.latest.max(wall);
        let oldest = self.latest - 80 * 24 * HOUR;
        let now = Noted { wall, happened, alive, hours, minutes };
        let before = self.noted.replace(now);
        if let Some(before) = before.filter(|before| is_compared && before.wall > oldest) {
            let now = self.noted.as_ref().expect("it is there");
            for (kind, name) in NAMES.iter().enumerate() {
                now.agrees(&before, kind)
                    .map_err(|wrong| format!("the history of {name}: {wrong}"))?;
            }
        }
        Ok(())
    }
}

impl Noted {
    fn agrees(&self, before: &Noted, kind: usize) -> Outcome {
        // Occurrences come a little before their time, and their minute with them.
        let from = before.wall.div_euclid(HOUR) * HOUR;
        let (found, besides) = grown(&before.hours[kind], &self.hours[kind], from);
        let seen = self.happened[kind].since(before.happened[kind]);
        ensure(found == Happened { revived: 0, ..seen }, || format!("{found:?}, not {seen:?}"))?;
        ensure(besides.interrupted == 0, || format!("nothing was interrupted: {besides:?}"))?;
        let come = besides.inserted + seen.revived;
        let gone = found.completed + found.dead + found.cancelled + found.expired;
        let more = self.alive[kind] - before.alive[kind];
        ensure(come - gone == more, || {
            format!("{besides:?}, {found:?}, {seen:?}, and {more} more are there")
        })?;
        if self.wall == before.wall {
            // All of it was in this minute.
            let minute = self.wall.div_euclid(MINUTE) * MINUTE;
            // A clock that was ahead has left a minute from which the store counts its 48 hours.
            let newest =
                before.minutes[kind].keys().chain(self.minutes[kind].keys()).max().copied();
            let from = from.max(newest.map_or(from, |newest| newest - 47 * HOUR));
            let (in_it, other) = (minute..minute + MINUTE, |entries: &Entries| {
                let other = entries.range(from..).filter(|(begin, _)| **begin != minute);
                other.map(|(begin, entry)| (*begin, *entry)).collect::<Entries>()
            });
            let (was, is) = (other(&before.minutes[kind]), other(&self.minutes[kind]));
            ensure(was == is, || format!("{is:?} outside of {in_it:?}, and before {was:?}"))?;
        }
        Ok(())
    }
}

/// Compares the groups of dead jobs with the list of the dead.
pub(crate) fn dead_by_error_agrees(
    groups: &[DeadByError],
    oracle: &Oracle,
    dead: &[JobInfo],
) -> Outcome {
    let sorted = groups.is_sorted_by_key(|group| std::cmp::Reverse(group.jobs));
    ensure(sorted, || format!("the largest group comes first: {groups:?}"))?;
    let mut expected: BTreeMap<(&str, &str), u64> = BTreeMap::new();
    for job in dead {
        let error = job.error.as_deref().unwrap_or_default();
        let line = error.split('\n').next().unwrap_or_default();
        *expected.entry((&*job.kind, line)).or_default() += 1;
    }
    for group in groups {
        let its = dead.iter().filter(|job| {
            let error = job.error.as_deref().unwrap_or_default();
            job.kind == group.kind && error.split('\n').next() == Some(&*group.error)
        });
        let span = group.first_died..=group.last_died;
        let is_in_it = its.clone().all(|job| span.contains(&job.died));
        ensure(is_in_it, || format!("{group:?}: {:?}", its.collect::<Vec<_>>()))?;
    }
    let many = groups.len();
    let found: BTreeMap<(&str, &str), u64> =
        groups.iter().map(|group| ((&*group.kind, &*group.error), group.jobs)).collect();
    ensure(found.len() == many, || format!("a group is there twice: {groups:?}"))?;
    // What is past its retention may go between the two questions.
    let perhaps = oracle.jobs.iter().any(|job| job.state == JobState::Dead && job.perhaps);
    ensure(found == expected || perhaps, || format!("{found:?}, not {expected:?}"))
}

/// Compares the overdue jobs. One whose kind is handled may be claimed already.
pub(crate) fn overdue_agree(oracle: &Oracle, counts: &Counts) -> Outcome {
    let pending = |job: &&Record| job.state == JobState::Pending;
    let dues = |is_sure: bool| {
        let pending = oracle.jobs.iter().filter(pending);
        let waits =
            pending.filter(move |job| !is_sure || !job.perhaps && !oracle.may_run(job.kind));
        // The millisecond of the present may be rounded either way.
        let margin = if is_sure { -1000 } else { 1000 };
        waits.map(|job| job.due).filter(move |due| due * 1000 < oracle.wall + margin)
    };
    let (least, most) = (dues(true).count() as u64, dues(false).count() as u64);
    let right = (least..=most).contains(&counts.overdue.count) && counts.overdue.is_exact;
    ensure(right, || format!("{counts:?}: not {least} to {most} are overdue"))?;
    let age = |due: Option<i64>| {
        due.map(|due| Duration::from_micros((oracle.wall - due * 1000).max(0) as u64))
    };
    let (least, most) = (age(dues(true).min()), age(dues(false).min()));
    let slack = Duration::from_millis(1);
    let right = match counts.oldest_overdue {
        None => least.is_none(),
        Some(age) => {
            least.is_none_or(|least| age + slack >= least)
                && most.is_some_and(|most| age <= most + slack)
        }
    };
    let is_any = counts.overdue.count > 0;
    ensure(right && counts.oldest_overdue.is_some() == is_any, || {
        format!("{counts:?}: not {least:?} to {most:?}")
    })
}
