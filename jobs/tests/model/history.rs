//! The figures of the queue: what its history has counted since the step before is what the oracle has seen (P34), the
//! groups of the dead are those of the list of the dead, and the overdue jobs are those of the oracle.
//!
//! Ground rules:
//!
//! - A history of 90 days is kept, by the latest clock that any process has read. So a step is not compared whose clock
//!   is long before that.
//! - A step is not compared in which a process crashed, another one made a change by the clock of the machine, or the
//!   wall clock was set.
//! - Inserts are not compared by themselves, because an occurrence comes at some time. But each job that is inserted or
//!   retried by hand completes, dies, is cancelled, or is there.

use std::collections::BTreeMap;
use std::time::Duration;

use tickwheel_jobs::{Counts, DeadByError, HistoryEntry, JobInfo, JobState, Step};

use crate::calls::ok;
use crate::ops::{NAMES, Op, system};
use crate::oracle::{Oracle, Outcome, ensure};
use crate::record::Record;
use crate::world::World;

const MINUTE: i64 = 60_000_000;
const HOUR: i64 = 60 * MINUTE;

/// The changes of a job that a history may count. The history of a store counts all but the last.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) enum What {
    Inserted,
    Interrupted,
    Completed,
    Retried,
    Snoozed,
    Dead,
    Cancelled,
    Expired,
    /// A run has started. It has ended since.
    Ran,
    /// A caller has made a dead job pending.
    Revived,
}

/// How often each has happened. What has never happened is not there.
#[derive(Clone, Default, PartialEq, Eq, Debug)]
pub(crate) struct Happened(BTreeMap<What, i64>);

impl Happened {
    pub(crate) fn add(&mut self, what: What, times: i64) {
        *self.0.entry(what).or_default() += times;
        self.0.retain(|_, times| *times != 0);
    }

    fn times(&self, what: What) -> i64 {
        self.0.get(&what).copied().unwrap_or(0)
    }

    fn since(mut self, before: &Happened) -> Happened {
        before.0.iter().for_each(|(what, times)| self.add(*what, -times));
        self
    }

    fn without(mut self, left_out: &[What]) -> Happened {
        self.0.retain(|what, _| !left_out.contains(what));
        self
    }
}

/// The counts of a kind, by minute or by hour.
type Entries = BTreeMap<i64, Happened>;

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
            | Op::Restart(..)
            | Op::WaitAcross(..)
            | Op::CallAcross(..)
            | Op::Other(_)
    )
}

fn entries(found: Vec<HistoryEntry>) -> Entries {
    let of = |entry: HistoryEntry| {
        let mut happened = Happened::default();
        for (what, times) in [
            (What::Inserted, entry.inserted),
            (What::Interrupted, entry.interrupted),
            (What::Completed, entry.completed),
            (What::Retried, entry.retried),
            (What::Snoozed, entry.snoozed),
            (What::Dead, entry.dead),
            (What::Cancelled, entry.cancelled),
            (What::Expired, entry.expired),
            (What::Ran, entry.run_time.iter().sum()),
        ] {
            happened.add(what, i64::try_from(times).expect("few jobs"));
        }
        (crate::ops::micros(entry.begin), happened)
    };
    found.into_iter().map(of).collect()
}

/// Adds up the entries that begin at this time or later.
fn sum(entries: &Entries, from: i64) -> Happened {
    let mut sum = Happened::default();
    let all = entries.range(from..).flat_map(|(_, happened)| &happened.0);
    all.for_each(|(what, times)| sum.add(*what, *times));
    sum
}

impl World {
    /// Compares what the history has counted since the step before, unless that step or this one is not compared.
    pub(crate) fn history_agrees(&mut self, is_compared: bool) -> Outcome {
        let jobs = self.jobs();
        let mut alive = [0; 4];
        for job in jobs.pending() {
            let kind = NAMES.iter().position(|name| *name == job.kind);
            alive[kind.ok_or("no such kind")?] += 1;
        }
        let read = |kind: usize, step| {
            let ever = system(0)..system(i64::MAX / 64);
            let found = jobs.kind_named(NAMES[kind]).history(step, ever);
            ok(found).map(entries)
        };
        let (mut hours, mut minutes) = <([Entries; 4], [Entries; 4])>::default();
        for kind in 0..4 {
            hours[kind] = read(kind, Step::Hour)?;
            minutes[kind] = read(kind, Step::Minute)?;
        }
        let (wall, happened) = {
            let oracle = &self.shared.lock().oracle;
            (oracle.wall, oracle.happened.clone())
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
        let found = sum(&self.hours[kind], from).since(&sum(&before.hours[kind], from));
        let seen = self.happened[kind].clone().since(&before.happened[kind]);
        let same = found.clone().without(&[What::Inserted, What::Interrupted])
            == seen.clone().without(&[What::Revived]);
        ensure(same, || format!("{found:?}, not {seen:?}"))?;
        let interrupted = found.times(What::Interrupted);
        ensure(interrupted == 0, || format!("nothing was interrupted: {found:?}"))?;
        let come = found.times(What::Inserted) + seen.times(What::Revived);
        let ends = [What::Completed, What::Dead, What::Cancelled, What::Expired];
        let gone: i64 = ends.into_iter().map(|end| found.times(end)).sum();
        let more = self.alive[kind] - before.alive[kind];
        ensure(come - gone == more, || format!("{found:?}, {seen:?}, and {more} more are there"))?;
        if self.wall == before.wall {
            // All of it was in this minute.
            let minute = self.wall.div_euclid(MINUTE) * MINUTE;
            // A clock that was ahead has left a minute from which the store counts its 48 hours.
            let newest =
                before.minutes[kind].keys().chain(self.minutes[kind].keys()).max().copied();
            let from = from.max(newest.map_or(from, |newest| newest - 47 * HOUR));
            let (in_it, other) = (minute..minute + MINUTE, |entries: &Entries| {
                let other = entries.range(from..).filter(|(begin, _)| **begin != minute);
                other.map(|(begin, entry)| (*begin, entry.clone())).collect::<Entries>()
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
