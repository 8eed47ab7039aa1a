//! The promises about changes of many jobs and about lists by filter, for every store.

use std::sync::{Arc, Mutex};

use tickwheel_jobs::view::{JobFilter, ListState, Number, View};
use tickwheel_jobs::{InvalidInput, JobId, JobState, NewJob, Run, Step, StoreError, Until};

use super::{Charge, HOUR, MS, Mail, SECOND, manual, run_all};
use crate::support::on_stores;

/// P93: A bulk by ids changes those jobs, once each, and no other. It passes over a job that is gone or in another
/// state.
#[test]
fn bulk_by_ids_changes_these_jobs_alone() {
    on_stores(|store| {
        let (jobs, driver) = manual(store.open());
        let batch = (0..600).map(|n| (HOUR, Mail(n)));
        let ids = jobs.insert_batch(batch).unwrap();
        let dead = jobs.insert(MS, Charge(13)).unwrap();
        run_all(&driver);
        let unknown = JobId::named("never inserted");
        let chosen = ids.iter().copied().step_by(2).chain([dead, unknown]);
        let listed: Vec<JobId> = jobs.by_ids(chosen.clone()).map(|job| job.id).collect();
        assert_eq!(listed, chosen.clone().filter(|id| *id != unknown).collect::<Vec<_>>());
        let counts = jobs.by_ids(chosen).cancel_all().unwrap().run().unwrap();
        assert_eq!((counts.seen, counts.changed, counts.passed_over), (302, 300, 2));
        let left: Vec<u64> = jobs.pending().map(|job| job.job::<Mail>().unwrap().0).collect();
        assert_eq!(left, (0..600).filter(|n| n % 2 == 1).collect::<Vec<_>>());
        // A reschedule reads the jobs: what has moved already is left out. A choice by `only` reads them too.
        let moved = ids[1..4].iter().copied();
        let later =
            tickwheel_jobs::tickwheel::When::wall(jobs.pending().next().unwrap().due + HOUR);
        for changed in [2, 0] {
            let mut bulk = jobs.by_ids(moved.clone()).reschedule_all(later).unwrap();
            assert_eq!(bulk.run().unwrap().changed, changed);
        }
        let mut bulk = jobs.by_ids([dead, ids[5]]).retry_all().unwrap();
        assert_eq!(bulk.run().unwrap().changed, 1);
        let bulk = jobs.by_ids([ids[5], ids[7]]).cancel_all().unwrap();
        let seven = ids[7];
        assert_eq!(bulk.only(move |job| job.id == seven).run().unwrap().seen, 1);
        // A change by ids leaves out jobs of other kinds and of other times, as the list does.
        let charge = jobs.insert(HOUR, Charge(1)).unwrap();
        let both = || jobs.by_ids([ids[9], charge]);
        assert_eq!(both().kind::<Charge>().map(|job| job.id).collect::<Vec<_>>(), [charge]);
        assert_eq!(both().kind::<Charge>().cancel_all().unwrap().run().unwrap().changed, 1);
        let now = driver.wall_now();
        let soon = || jobs.by_ids([ids[9]]).between(now, now + SECOND);
        assert_eq!(soon().count(), 0);
        assert_eq!(soon().cancel_all().unwrap().run().unwrap().changed, 0);
        assert!(jobs.get(ids[9]).unwrap().is_some() && jobs.get(charge).unwrap().is_none());
        jobs.check().unwrap();
    });
}

/// P93: A bulk changes no more jobs than it was told, and says that there are more.
#[test]
fn bulk_changes_no_more_jobs_than_it_was_told() {
    on_stores(|store| {
        let (jobs, _driver) = manual(store.open());
        jobs.insert_batch((0..700).map(|n| (HOUR, Mail(n)))).unwrap();
        let mut left = 700;
        for (most, has_more) in [(0, true), (1, true), (256, true), (400, true), (43, false)] {
            let mut bulk = jobs.pending().cancel_all().unwrap().at_most(most);
            assert_eq!(bulk.run().unwrap().changed, most);
            assert_eq!(bulk.has_more(), has_more, "{most} of {left}");
            left -= most;
            assert_eq!(jobs.count().unwrap().pending, left);
        }
        let ids = jobs.insert_batch((0..9).map(|n| (HOUR, Mail(n)))).unwrap();
        let mut bulk = jobs.by_ids(ids).cancel_all().unwrap().at_most(4);
        assert_eq!((bulk.run().unwrap().changed, bulk.has_more()), (4, true));
    });
}

/// P93: For each filter, the list, the number and the bulk are about the same jobs.
#[test]
fn filter_means_the_same_jobs_in_a_list_a_number_and_a_bulk() {
    on_stores(|store| {
        let (jobs, driver) = manual(store.open());
        let view = View::new(jobs.client());
        jobs.insert_batch((0..5).map(|n| (n as u32 * HOUR + HOUR, Mail(n)))).unwrap();
        let dead = [13, 13, 14].map(Charge);
        jobs.insert_batch(dead.into_iter().map(|charge| (MS, charge))).unwrap();
        jobs.keyed("k").insert(9 * HOUR, Mail(9)).unwrap();
        run_all(&driver);
        driver.advance(SECOND);
        let now = view.now().to_system();
        let group = view.dead(9).unwrap().groups[0].clone();
        assert_eq!((group.jobs, &*group.error), (2, "bad luck"));
        let filter = |state, narrow: &dyn Fn(&mut JobFilter)| {
            let mut filter = JobFilter::new(state);
            narrow(&mut filter);
            filter
        };
        let (pending, dead) = (ListState::Pending, ListState::Dead);
        let key = |it: &mut JobFilter| it.key = Some("k".to_owned());
        let cases = [
            (filter(pending, &|_| {}), 6),
            (filter(pending, &|it| it.to = Some(now + 2 * HOUR)), 2),
            (filter(pending, &key), 1),
            (filter(ListState::Retrying, &key), 0),
            (filter(ListState::Running, &key), 0),
            (filter(dead, &key), 0),
            (filter(pending, &|it| it.text = Some("3".to_owned())), 1),
            (filter(ListState::Overdue, &|_| {}), 0),
            (filter(dead, &|_| {}), 3),
            (filter(dead, &|it| it.kind = Some("mail".to_owned())), 0),
            (filter(dead, &|it| it.group = Some(group.group)), 2),
            (filter(dead, &|it| it.error = Some("more of it".to_owned())), 2),
            (filter(dead, &|it| it.error = Some("such card".to_owned())), 1),
        ];
        for (filter, many) in cases {
            let list = view.jobs(&filter, None, 100).unwrap();
            assert_eq!((list.rows.len() as u64, list.next), (many, None), "{filter}");
            assert_eq!(view.count(&filter).unwrap(), Number::exactly(many), "{filter}");
            let matching: Vec<JobId> = view.matching(&filter).map(|job| job.id).collect();
            assert_eq!(matching, list.rows.iter().map(|row| row.id).collect::<Vec<_>>());
            let pages = view.matching(&filter);
            let bulk = if filter.state == dead { pages.retry_all() } else { pages.cancel_all() };
            // Nothing is changed, so that the next case finds the same jobs.
            let counts = bulk.unwrap().at_most(0).run().unwrap();
            assert_eq!(counts.seen, 0, "{filter}");
        }
        assert_eq!(jobs.dead().filter(|job| job.state == JobState::Dead).count(), 3);
        // A page is as long as it may be, if it is asked for more.
        let all = view.jobs(&JobFilter::new(pending), None, usize::MAX).unwrap();
        assert_eq!((all.rows.len(), all.next), (6, None));
        let hours = view.history(None, Step::Hour, usize::MAX).unwrap().entries;
        assert_eq!(
            (hours.len(), hours.iter().map(|hour| hour.inserted).sum::<u64>()),
            (90 * 24, 9)
        );
    });
}

/// P93: A job that runs and has a key is in the list of what runs, in its number, and in a bulk of it.
#[test]
fn running_job_is_found_by_its_key() {
    on_stores(|store| {
        let found = Arc::new(Mutex::new(None));
        let noted = Arc::clone(&found);
        let looks = move |_: Mail, run: &Run| {
            let view = View::new(run.client());
            let mut filter = JobFilter::new(ListState::Running);
            filter.key = Some("k".to_owned());
            let listed = view.jobs(&filter, None, 9)?.rows.len();
            let counted = view.count(&filter)?;
            *noted.lock().unwrap() = Some((listed, counted, view.matching(&filter).count()));
            Ok(())
        };
        let (jobs, driver) = store.open().handle(looks).manual().unwrap();
        let new = NewJob::new(Mail(1)).key("k").unique_until(Until::Ended);
        jobs.insert_job(new).unwrap();
        run_all(&driver);
        assert_eq!(found.lock().unwrap().take(), Some((1, Number::exactly(1), 1)));
    });
}

/// P93: A key that no job can have is an error of the list, of the number and of the bulk.
#[test]
fn key_that_no_job_can_have_is_an_error_of_list_number_and_bulk() {
    on_stores(|store| {
        let (jobs, _driver) = manual(store.open());
        let view = View::new(jobs.client());
        let mut long = JobFilter::new(ListState::Pending);
        long.key = Some("x".repeat(300));
        assert!(view.jobs(&long, None, 9).is_err() && view.count(&long).is_err());
        assert!(view.matching(&long).cancel_all().unwrap().run().is_err());
        let mut short = JobFilter::new(ListState::Retrying);
        short.key = Some("ann".to_owned());
        assert!(view.jobs(&short, None, 9).unwrap().searched.is_none());
    });
}

/// A bulk that does not apply to its list says which state the list has.
#[test]
fn bulk_that_does_not_apply_names_the_state() {
    on_stores(|store| {
        let (jobs, _driver) = manual(store.open());
        for state in [JobState::Completed, JobState::Cancelled, JobState::Dead] {
            let error = jobs.ended().state(state).cancel_all().unwrap_err();
            let (verb, listed) = ("cancel_all", state.word());
            assert_eq!(error, StoreError::Invalid(InvalidInput::NotApplicable { verb, listed }));
            assert_eq!(jobs.ended().state(state).delete_all().unwrap().run().unwrap().seen, 0);
        }
    });
}
