//! R9: a run starts in time, where a thread is free to run it.
//!
//! A job waits while every thread of its process works on longer ones: several handlers of three seconds
//! in a row are no fault of the jobs. So a run is late by the time in which a thread was free.

use super::checker::{BOUND_US, Found};
use super::child::THREADS;
use super::history::{History, JobHistory};
use super::record::Tag;

/// R9 for the runs of one job.
pub(crate) fn in_time(history: &History<'_>, tag: Tag, job: &JobHistory, found: &mut Found) {
    for (_, life, start) in &job.starts {
        let ready = history.lives[life].ready.map_or(0, |(at, _)| at);
        let could = ready.max(start.due * 1000);
        let late = start.at.saturating_sub(could);
        if late <= BOUND_US {
            continue;
        }
        let late = late - busy(history, *life, could, start.at);
        if late > BOUND_US {
            found.add("R9", format!("job {tag:x} starts {} ms late: {start:?}", late / 1000));
        }
    }
}

/// For how long all threads of a life were at work between two times, in microseconds.
fn busy(history: &History<'_>, life: u32, from: u64, until: u64) -> u64 {
    let mut changes = Vec::new();
    for job in history.jobs.values() {
        for (_, _, start) in job.starts.iter().filter(|(_, other, _)| *other == life) {
            let end = job.ends.iter().find(|(.., end)| end.fence == start.fence);
            let told = job.told.iter().find(|(.., fence)| *fence == start.fence);
            let end = end.map(|(.., end)| end.at).or(told.map(|(_, _, at, _)| *at));
            let end = end.unwrap_or(until).min(until);
            let begin = start.at.max(from);
            if begin < end {
                changes.extend([(begin, 1_isize), (end, -1)]);
            }
        }
    }
    // Where a run ends and another begins, the end comes first.
    changes.sort_unstable();
    let (mut at_work, mut since, mut busy) = (0_isize, from, 0);
    for (at, change) in changes {
        if at_work >= THREADS as isize {
            busy += at - since;
        }
        (at_work, since) = (at_work + change, at);
    }
    busy
}
