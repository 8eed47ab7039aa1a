//! Everything that a client sees, and what of it the parent notes.

use std::thread;
use std::time::{Duration, Instant, SystemTime};

use tickwheel_jobs::{
    Builder, Client, Counts, HistoryEntry, Job, JobInfo, JobState, ScheduleInfo, Step,
};

use super::child::{Other, Senseless, Tick, Waits, Work, handlers, ms};
use super::lives::Result;
use super::record::{FileEnd, Look, Seen, occurrence};

/// Everything that a client sees.
#[derive(PartialEq, Debug)]
pub(crate) struct Contents {
    pub(crate) pending: Vec<JobInfo>,
    pub(crate) running: Vec<JobInfo>,
    pub(crate) dead: Vec<JobInfo>,
    pub(crate) schedules: Vec<ScheduleInfo>,
    pub(crate) counts: Counts,
}

impl Contents {
    pub(crate) fn of(client: &Client) -> Result<Contents> {
        let (mut pending, mut running, mut dead) =
            (client.pending(), client.running(), client.dead());
        let mut counts = client.count()?;
        // More jobs become overdue as the clock goes on.
        (counts.overdue, counts.oldest_overdue) = Default::default();
        let contents = Contents {
            pending: pending.by_ref().collect(),
            running: running.by_ref().collect(),
            dead: dead.by_ref().collect(),
            schedules: client.schedules().list()?,
            counts,
        };
        match [&pending, &running, &dead].iter().find_map(|pages| pages.error()) {
            Some(error) => Err(error.clone().into()),
            None => Ok(contents),
        }
    }

    fn seen(&self) -> Vec<Seen> {
        let jobs = self.pending.iter().chain(&self.running).chain(&self.dead);
        jobs.map(seen).collect()
    }
}

pub(crate) fn seen(job: &JobInfo) -> Seen {
    let due = ms(job.due);
    let tag = match &*job.kind {
        Work::KIND => {
            let work = job.job::<Work>().map(|job| job.tag);
            work.or_else(|_| job.job::<Senseless>().map(|job| job.tag))
        }
        Other::KIND => job.job::<Other>().map(|job| job.0.tag),
        Waits::KIND => job.job::<Waits>().map(|job| job.0.tag),
        _ => job.job::<Tick>().map(|tick| occurrence(tick.name, due)),
    };
    Seen {
        tag: tag.unwrap_or(u64::MAX),
        id: job.id,
        due,
        dead: job.state == JobState::Dead,
        key: job.key.clone(),
        failures: job.failures,
        interruptions: job.interruptions,
    }
}

/// Says what of the history does not add up: each job that was inserted has ended, or is there.
pub(crate) fn history_violation(client: &Client) -> Result<Option<String>> {
    let ever = SystemTime::UNIX_EPOCH..SystemTime::now() + Duration::from_secs(3600);
    let history = client.queue().history(Step::Hour, ever)?;
    let sum = |of: fn(&HistoryEntry) -> u64| history.iter().map(of).sum::<u64>();
    let inserted = sum(|entry| entry.inserted);
    let gone = sum(|entry| entry.completed + entry.cancelled + entry.expired);
    let Counts { pending, claimed, running, dead, .. } = client.count()?;
    let there = pending + claimed + running + dead;
    let text = || format!("P34: {inserted} inserts, {gone} jobs gone, {there} there: {history:?}");
    Ok((inserted != gone + there).then(text))
}

/// Opens the store twice, and compares.
pub(crate) fn look(open: impl Fn() -> Result<Client>) -> Result<Look> {
    let first = Contents::of(&open()?)?;
    let client = open()?;
    let violation = client.check().err().map(|violation| violation.to_string());
    let second = Contents::of(&client)?;
    Ok(Look { violation, same: first == second, jobs: second.seen() })
}

/// Lets jobs purge what has ended, and returns what is left: `jobs` before the purge, and the rows that are not to
/// stay.
pub(crate) fn purged(
    jobs: Vec<Seen>,
    builder: Builder,
    rows: impl Fn() -> Result<Vec<(String, u64)>>,
) -> Result<FileEnd> {
    // The purge leaves what was remembered in the same millisecond.
    thread::sleep(Duration::from_millis(3));
    let purging = handlers(builder).keep_dead(Duration::ZERO).start()?;
    let begun = Instant::now();
    while begun.elapsed() < Duration::from_secs(60) && rows()?.iter().any(|(_, rows)| *rows > 0) {
        thread::sleep(Duration::from_millis(5));
    }
    purging.shutdown()?;
    Ok(FileEnd { jobs, rows: rows()?, ..FileEnd::default() })
}
