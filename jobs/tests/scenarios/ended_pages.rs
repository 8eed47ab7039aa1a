//! Pages of jobs that have ended.

use std::collections::HashSet;

use serde::{Deserialize, Serialize};
use tickwheel_jobs::{Fail, Job, JobInfo, Keep, Retry};

use super::MS;
use crate::support::on_stores;

/// So large that a page has nine of them at most.
#[derive(Serialize, Deserialize)]
struct Picture(String);

impl Job for Picture {
    const KIND: &'static str = "picture";
}

#[derive(Serialize, Deserialize)]
struct Note(u64);

impl Job for Note {
    const KIND: &'static str = "note";
}

/// The list of jobs that have ended has each of them once, the latest end first, although a page of large jobs of one
/// kind is shorter than a page of small ones of another. Once a page went on behind the small jobs, and left out
/// the large ones between them.
#[test]
fn list_of_ended_jobs_has_each_once() {
    on_stores(|store| {
        let builder = store.open().handle(|_: Picture, _| Ok(())).handle_with(
            Retry::never(),
            |note: Note, _| match note.0 % 7 {
                0 => Err(Fail::dead("a seventh note")),
                _ => Ok(()),
            },
        );
        let (jobs, driver) = builder.manual().unwrap();
        jobs.kind::<Picture>().keep_completed(Keep::last(1000)).unwrap();
        jobs.kind::<Note>().keep_completed(Keep::last(1000)).unwrap();
        for n in 0..40 {
            jobs.insert(MS, Picture("x".repeat(120_000))).unwrap();
            for m in 0..10 {
                jobs.insert(MS, Note(10 * n + m)).unwrap();
            }
            while driver.advance(MS) > 0 {}
        }
        let all: Vec<JobInfo> = jobs.ended().collect();
        let ids: HashSet<_> = all.iter().map(|job| job.id).collect();
        assert_eq!((all.len(), ids.len()), (440, 440));
        assert!(all.is_sorted_by_key(|job| core::cmp::Reverse((job.ended, job.id))));
        let pictures = jobs.ended().kind::<Picture>().count();
        assert_eq!((pictures, jobs.dead().count()), (40, 58));
        jobs.shutdown().unwrap();
    });
}
