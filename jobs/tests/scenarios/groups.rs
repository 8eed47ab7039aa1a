//! What is promised of groups, for every store.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde::{Deserialize, Serialize};
use tickwheel_jobs::{
    Builder, Cancel, Client, Driver, Fail, Group, GroupError, GroupHandle, GroupId, GroupInfo,
    InsertErrorKind, InvalidInput, Job, JobId, JobState, Jobs, NewJob, Retry, Run, StoreError,
};

use super::{DAY, HOUR, MINUTE, MS, Mail, SECOND, Store, run_all, run_for};
use crate::support::on_stores;

/// A row of an import. A number above 1,000 fails for good; one above 100 has a follow-up, the row less 100.
#[derive(Serialize, Deserialize, Clone, PartialEq, Eq, Debug)]
struct Row(u64);

impl Job for Row {
    const KIND: &'static str = "row";
}

/// The callback of a group.
#[derive(Serialize, Deserialize, Clone, PartialEq, Eq, Debug)]
struct Report(u64);

impl Job for Report {
    const KIND: &'static str = "report";
}

/// The reports that came, with what they saw of their group.
type Reports = Arc<Mutex<Vec<(u64, GroupInfo)>>>;

fn row(row: Row, run: &Run) -> Result<(), Fail> {
    if row.0 > 1000 {
        return Err(Fail::dead("as planned"));
    }
    if row.0 > 100 {
        run.then(Duration::ZERO, Row(row.0 - 100))?;
        run.client().insert(DAY, Mail(row.0))?;
    }
    assert!(run.group()?.is_some(), "every row of these tests is a member");
    Ok(())
}

fn start(store: &Store<'_>) -> (Jobs, Driver, Reports) {
    start_with(store.open())
}

fn start_with(builder: Builder) -> (Jobs, Driver, Reports) {
    let reports = Reports::default();
    let noted = Arc::clone(&reports);
    let report = move |report: Report, run: &Run| -> Result<(), Fail> {
        let group = run.group()?.ok_or("a report without a group")?;
        assert_eq!(group.callback, Some(run.id()));
        noted.lock().unwrap().push((report.0, group));
        Ok(())
    };
    let builder = builder.handle_with(Retry::never(), row).handle(report);
    let (jobs, driver) = builder.handle(|_: Mail, _| Ok(())).manual().unwrap();
    (jobs, driver, reports)
}

/// The numbers of the reports that came.
fn came(reports: &Reports) -> Vec<u64> {
    reports.lock().unwrap().iter().map(|(number, _)| *number).collect()
}

fn counts(info: &GroupInfo) -> [u64; 5] {
    [info.total, info.open, info.completed, info.dead, info.cancelled]
}

fn counts_of(client: &Client, id: GroupId) -> [u64; 5] {
    counts(&client.group_by_id(id).info().unwrap().unwrap())
}

fn refused(error: GroupError) -> StoreError {
    StoreError::Group(error)
}

/// P31: The callback comes once, when the last member has ended: completed, dead, cancelled, or replaced under its key.
/// It sees how many did. A member whose insert leaves another job in its place is none.
#[test]
fn callback_comes_once_when_every_member_has_ended() {
    on_stores(|store| {
        let (jobs, driver, reports) = start(store);
        let [late, known] = ["late", "known"].map(JobId::named);
        jobs.keyed("taken").insert(9 * DAY, Mail(1)).unwrap();
        jobs.insert_job(NewJob::new(Mail(2)).at(9 * DAY).id(known)).unwrap();
        let group = jobs
            .group()
            .add_all([(MS, Row(1)), (MS, Row(2)), (MS, Row(1001))])
            .add_job(NewJob::new(Row(3)).at(DAY).key("three"))
            .add_job(NewJob::new(Row(4)).at(DAY).id(JobId::named("four")))
            .add_job(NewJob::new(Row(5)).at(2 * DAY).id(late))
            .add_job(NewJob::new(Row(6)).at(MS).key("taken").if_absent())
            .add_job(NewJob::new(Row(7)).at(MS).id(known))
            .then(Report(7));
        let id = group.insert().unwrap();
        assert_eq!(counts_of(&jobs, id), [6, 6, 0, 0, 0]);
        run_for(&driver, SECOND);
        assert_eq!(counts_of(&jobs, id), [6, 3, 2, 1, 0]);
        // Replaced by a job that is no member.
        jobs.keyed("three").insert(DAY, Mail(3)).unwrap();
        assert_eq!(jobs.cancel(JobId::named("four")).unwrap(), Cancel::Cancelled);
        assert_eq!(counts_of(&jobs, id), [6, 1, 2, 1, 2]);
        run_for(&driver, DAY);
        assert!(came(&reports).is_empty(), "a member is left");
        jobs.check().unwrap();
        run_for(&driver, DAY);
        let (number, seen) = reports.lock().unwrap()[0].clone();
        assert_eq!((number, counts(&seen)), (7, [6, 0, 3, 1, 2]));
        assert!(seen.ended.is_some() && seen.is_sealed && !seen.is_cancelled);
        run_for(&driver, DAY);
        assert_eq!(came(&reports), [7]);
        assert_eq!(jobs.groups().unwrap().len(), 1);
        jobs.check().unwrap();
    });
}

/// P31: A callback is due at the end that inserts it, also if the clock was set back since the group was inserted.
/// Before a fix it was due at the time of that insert.
#[test]
fn callback_is_due_at_once_though_the_clock_was_set_back() {
    on_stores(|store| {
        let (jobs, driver, reports) = start(store);
        let member = NewJob::new(Row(1)).at(DAY).id(JobId::named("member"));
        jobs.group().add_job(member).then(Report(1)).insert().unwrap();
        driver.set_wall(driver.wall_now() - 3600 * SECOND);
        assert_eq!(jobs.cancel(JobId::named("member")).unwrap(), Cancel::Cancelled);
        run_for(&driver, SECOND);
        assert_eq!(came(&reports), [1]);
        jobs.check().unwrap();
    });
}

/// P31: A group that is open does not end before it is sealed, though every member has. An empty one ends when it is
/// sealed.
#[test]
fn callback_never_comes_before_the_group_is_sealed() {
    on_stores(|store| {
        let (jobs, driver, reports) = start(store);
        let open = jobs.group().then(Report(1)).open().unwrap();
        open.add(MS, Row(1)).unwrap();
        run_for(&driver, SECOND);
        assert_eq!((came(&reports), counts_of(&jobs, open.id())), (vec![], [1, 0, 1, 0, 0]));
        let more = (0..600).map(|n| (DAY, Row(n % 100)));
        assert_eq!(open.add_all(more).unwrap().len(), 600);
        assert!(open.seal().unwrap());
        assert!(!open.seal().unwrap(), "it was sealed");
        let sealed = open.add(MS, Row(2)).unwrap_err();
        assert_eq!(sealed.kind(), &InsertErrorKind::Store(refused(GroupError::Sealed)));
        assert_eq!(sealed.into_inner(), Row(2));
        jobs.check().unwrap();
        run_for(&driver, DAY);
        run_all(&driver);
        assert_eq!((came(&reports), counts_of(&jobs, open.id())), (vec![1], [601, 0, 601, 0, 0]));
        assert_eq!(open.seal(), Err(refused(GroupError::Ended)));
        let empty = jobs.group().then(Report(2)).open().unwrap();
        run_for(&driver, DAY);
        assert_eq!(came(&reports), [1]);
        empty.seal().unwrap();
        run_for(&driver, MS);
        assert_eq!(came(&reports), [1, 2]);
        jobs.group().then(Report(3)).insert().unwrap();
        run_for(&driver, MS);
        assert_eq!(came(&reports), [1, 2, 3], "it was sealed, and had no member");
        jobs.check().unwrap();
    });
}

/// P31: A group that waits for the dead ends once each dead member was retried and has completed, or was deleted.
#[test]
fn group_that_waits_for_the_dead_ends_when_none_is_left() {
    on_stores(|store| {
        let (jobs, driver, reports) = start(store);
        let (first, second) = (JobId::named("first"), JobId::named("second"));
        let dead = |id| NewJob::new(Row(1001)).at(MS).id(id);
        let group = jobs.group().waits_for_the_dead().add_job(dead(first)).add_job(dead(second));
        let id = group.then(Report(1)).insert().unwrap();
        run_for(&driver, SECOND);
        assert_eq!((came(&reports), counts_of(&jobs, id)), (vec![], [2, 0, 0, 2, 0]));
        assert!(jobs.retry(first).unwrap());
        assert_eq!(counts_of(&jobs, id), [2, 1, 0, 1, 0]);
        jobs.check().unwrap();
        run_for(&driver, SECOND);
        assert_eq!((came(&reports), counts_of(&jobs, id)), (vec![], [2, 0, 0, 2, 0]));
        assert!(jobs.delete(first).unwrap());
        assert_eq!((came(&reports), counts_of(&jobs, id)), (vec![], [2, 0, 0, 1, 1]));
        assert!(jobs.delete(second).unwrap());
        run_for(&driver, MS);
        assert_eq!((came(&reports), counts_of(&jobs, id)), (vec![1], [2, 0, 0, 0, 2]));
        jobs.check().unwrap();
    });
}

/// P31: If a dead member is retried after its group has ended, the group stays as it was and no second callback comes.
/// Before that, the member is open again.
#[test]
fn dead_member_that_is_retried_is_open_until_the_group_has_ended() {
    on_stores(|store| {
        let (jobs, driver, reports) = start(store);
        let dead = JobId::named("dead");
        let group = jobs.group().add_job(NewJob::new(Row(1001)).at(MS).id(dead)).add(DAY, Row(1));
        let id = group.then(Report(1)).insert().unwrap();
        run_for(&driver, SECOND);
        assert_eq!(jobs.get(dead).unwrap().unwrap().group, Some(id), "also a dead member says so");
        assert!(jobs.retry(dead).unwrap());
        assert_eq!(counts_of(&jobs, id), [2, 2, 0, 0, 0]);
        assert!(jobs.pending().all(|job| job.group == Some(id)));
        run_for(&driver, SECOND);
        assert_eq!(counts_of(&jobs, id), [2, 1, 0, 1, 0]);
        run_for(&driver, DAY);
        assert_eq!((came(&reports), counts_of(&jobs, id)), (vec![1], [2, 0, 1, 1, 0]));
        assert!(jobs.retry(dead).unwrap());
        assert_eq!(jobs.get(dead).unwrap().unwrap().state, JobState::Pending);
        jobs.check().unwrap();
        assert_eq!(jobs.cancel(dead).unwrap(), Cancel::Cancelled);
        run_for(&driver, DAY);
        assert_eq!((came(&reports), counts_of(&jobs, id)), (vec![1], [2, 0, 1, 1, 0]));
        jobs.check().unwrap();
    });
}

/// P31: A cancel ends the pending members. The group takes no more members then, and waits for no dead member. The
/// callback comes, and sees the cancel.
#[test]
fn cancelled_group_ends_without_its_pending_members() {
    on_stores(|store| {
        let (jobs, driver, reports) = start(store);
        let group = jobs.group().waits_for_the_dead().add(MS, Row(1)).add(MS, Row(1001));
        let open = group.then(Report(1)).open().unwrap();
        open.add_all((0..300).map(|_| (DAY, Row(1)))).unwrap();
        run_for(&driver, SECOND);
        let changed = open.cancel().unwrap();
        assert_eq!((changed.seen, changed.changed), (300, 300));
        let refusal = open.add(MS, Row(2)).unwrap_err();
        assert_eq!(refusal.kind(), &InsertErrorKind::Store(refused(GroupError::Cancelled)));
        run_for(&driver, MS);
        let (_, seen) = reports.lock().unwrap()[0].clone();
        assert_eq!(counts(&seen), [302, 0, 1, 1, 300]);
        assert!(seen.is_cancelled);
        assert_eq!(open.cancel(), Err(refused(GroupError::Ended)));
        jobs.check().unwrap();
    });
}

fn why(group: Group) -> GroupError {
    let refused = group.insert().unwrap_err();
    match refused.kind() {
        InsertErrorKind::Store(StoreError::Group(error)) => *error,
        other => panic!("{other:?}"),
    }
}

/// P31: The follow-ups of a member join its group before it leaves. Jobs of `Run::client` do not.
#[test]
fn follow_ups_of_a_member_are_members() {
    on_stores(|store| {
        let (jobs, driver, reports) = start(store);
        let id = jobs.group().add(MS, Row(301)).then(Report(1)).insert().unwrap();
        run_for(&driver, SECOND);
        // 301, 201, 101, 1.
        assert_eq!((came(&reports), counts_of(&jobs, id)), (vec![1], [4, 0, 4, 0, 0]));
        assert_eq!(jobs.pending().kind::<Mail>().count(), 3);
        jobs.check().unwrap();
    });
}

/// P31: A group that cannot be is refused as a whole, with its reason, and comes back.
#[test]
fn group_that_cannot_be_is_refused_as_a_whole() {
    on_stores(|store| {
        let (jobs, driver, _) = start(store);
        let many = |many: u64| jobs.group().add_all((0..many).map(|n| (DAY, Row(n))));
        assert_eq!(why(many(257)), GroupError::TooMany);
        assert_eq!(
            why(many(1).then_job(NewJob::new(Report(1)).key("k"))),
            GroupError::CallbackHasKey
        );
        assert_eq!(why(many(1).within(GroupId::new())), GroupError::NoCallback);
        assert_eq!(why(many(1).then(Report(1)).within(GroupId::new())), GroupError::Unknown);
        let id = GroupId::named("import");
        assert_eq!(many(256).id(id).insert().unwrap(), id);
        assert_eq!(why(many(2).id(id)), GroupError::Exists);
        let too_late = many(1).add(Duration::from_secs(u64::MAX / 4), Row(1)).insert().unwrap_err();
        assert!(
            matches!(too_late.kind(), InsertErrorKind::Invalid(InvalidInput::DelayTooLong(_))),
            "{too_late}"
        );
        assert_eq!(jobs.count().unwrap().pending, 256);
        assert_eq!(jobs.groups().unwrap().len(), 1);
        let unknown = jobs.group_by_id(GroupId::new());
        assert_eq!(unknown.info(), Ok(None));
        assert_eq!(unknown.seal(), Err(refused(GroupError::Unknown)));
        assert_eq!(unknown.cancel(), Err(refused(GroupError::Unknown)));
        assert!(unknown.add(MS, Row(1)).is_err());
        jobs.check().unwrap();
        drop(driver);
    });
}

/// P31: However many groups have ended, all of them are forgotten once their retention is over.
#[test]
fn ended_groups_are_forgotten_however_many_there_are() {
    on_stores(|store| {
        let (jobs, driver) = store.open().keep_dead(MINUTE).handle(row).manual().unwrap();
        for _ in 0..300 {
            jobs.group().add(MS, Row(1)).insert().unwrap();
        }
        run_for(&driver, SECOND);
        assert_eq!(jobs.groups().unwrap().len(), 300);
        run_for(&driver, 20 * MINUTE);
        assert_eq!(jobs.groups().unwrap(), []);
        jobs.check().unwrap();
    });
}

/// P31: A group that has ended is there as long as a dead job names it. So a dead job of a group counts in no later
/// group with the same id, whose callback it would bring too early.
#[test]
fn group_that_is_made_again_counts_only_its_own_members() {
    on_stores(|store| {
        let (jobs, driver, reports) = start_with(store.open().keep_dead(DAY));
        let dead = ["deleted", "retried"].map(JobId::named);
        let open = jobs.group().id(GroupId::named("import")).then(Report(1)).open().unwrap();
        for id in dead {
            open.add_job(NewJob::new(Row(1001)).at(MS).id(id)).unwrap();
        }
        run_for(&driver, SECOND);
        // The clock is set back. So the retention of the group is over before that of its dead members.
        driver.set_wall(driver.wall_now() - HOUR);
        open.seal().unwrap();
        run_for(&driver, DAY + 700 * SECOND);
        let is_there = || {
            jobs.nudge();
            run_for(&driver, SECOND);
            open.info().unwrap().is_some()
        };
        assert!(is_there() && jobs.count().unwrap().dead == 2);
        let again = || jobs.group().id(open.id()).add(DAY, Row(1)).then(Report(2));
        assert_eq!(why(again()), GroupError::Exists);
        assert!(jobs.delete(dead[0]).unwrap());
        run_for(&driver, 700 * SECOND);
        assert!(is_there(), "a dead job names it");
        jobs.check().unwrap();
        assert!(jobs.retry(dead[1]).unwrap());
        assert_eq!(jobs.cancel(dead[1]).unwrap(), Cancel::Cancelled);
        run_for(&driver, 700 * SECOND);
        assert!(!is_there());
        again().insert().unwrap();
        run_for(&driver, HOUR);
        assert_eq!((came(&reports), counts_of(&jobs, open.id())), (vec![1], [1, 1, 0, 0, 0]));
        run_for(&driver, DAY);
        assert_eq!(came(&reports), [1, 2]);
        jobs.check().unwrap();
    });
}

/// P31: A job that is added to a group with the client of follow-ups is refused, since it would not wait for the end of
/// the run.
#[test]
fn follow_up_joins_no_other_group() {
    on_stores(|store| {
        let id = GroupId::named("other");
        let errors: Arc<Mutex<Vec<InsertErrorKind>>> = Arc::default();
        let noted = Arc::clone(&errors);
        let handler = move |_: Mail, run: &Run| {
            let refused = run.next().group_by_id(id).add(MS, Row(1)).unwrap_err();
            noted.lock().unwrap().push(refused.kind().clone());
            Ok(())
        };
        let (jobs, driver) = store.open().handle(handler).handle(row).manual().unwrap();
        let open = jobs.group().id(id).open().unwrap();
        jobs.insert(MS, Mail(1)).unwrap();
        run_for(&driver, SECOND);
        let expected = InsertErrorKind::Store(refused(GroupError::NoFollowUp));
        assert_eq!(*errors.lock().unwrap(), [expected]);
        assert_eq!(open.info().unwrap().unwrap().total, 0);
    });
}

/// P31: A group whose callback has the id of another job is refused. Until the group ends, no other job takes the id of
/// its callback. So an outer group does not wait for a callback that never comes.
#[test]
fn callback_with_a_taken_id_is_refused_with_its_group() {
    on_stores(|store| {
        let (jobs, driver, reports) = start(store);
        let report = |number, id| NewJob::new(Report(number)).id(JobId::named(id));
        let outer = jobs.group().then(Report(9)).open().unwrap();
        let inner = |number| jobs.group().add(DAY, Row(1)).then_job(report(number, "inner"));
        inner(1).within(outer.id()).insert().unwrap();
        assert_eq!(why(inner(2).within(outer.id())), GroupError::CallbackKnown);
        assert_eq!(why(inner(3)), GroupError::CallbackKnown);
        let own = NewJob::new(Row(1)).at(MS).id(JobId::named("own"));
        let own = jobs.group().add_job(own).then_job(report(4, "own"));
        assert_eq!(why(own), GroupError::CallbackKnown);
        jobs.insert_job(NewJob::new(Mail(1)).at(2 * DAY).id(JobId::named("pending"))).unwrap();
        assert_eq!(why(jobs.group().then_job(report(5, "pending"))), GroupError::CallbackKnown);
        let taking = NewJob::new(Mail(2)).at(MS).id(JobId::named("inner"));
        assert!(!jobs.insert_job(taking).unwrap().is_new);
        assert_eq!(jobs.get(JobId::named("inner")).unwrap(), None);
        assert!(!jobs.delete(JobId::named("inner")).unwrap());
        outer.seal().unwrap();
        assert_eq!(counts_of(&jobs, outer.id()), [1, 1, 0, 0, 0]);
        assert_eq!(jobs.groups().unwrap().len(), 2);
        jobs.check().unwrap();
        run_for(&driver, DAY);
        assert_eq!(came(&reports), [1, 9]);
        assert_eq!(why(inner(6)), GroupError::CallbackKnown, "its id is remembered");
        jobs.check().unwrap();
    });
}

/// P31: A group is forgotten when it has ended and its retention is over. A dead member that is forgotten counts as
/// deleted.
#[test]
fn ended_group_is_forgotten_after_its_retention() {
    on_stores(|store| {
        let came = Arc::new(Mutex::new(0));
        let noted = Arc::clone(&came);
        let report = move |_: Report, _: &Run| {
            *noted.lock().unwrap() += 1;
            Ok(())
        };
        let builder = store.open().keep_dead(DAY).handle_with(Retry::never(), row).handle(report);
        let (jobs, driver) = builder.manual().unwrap();
        let group = jobs.group().waits_for_the_dead().add(MS, Row(1001)).then(Report(1));
        let handle: GroupHandle = jobs.group_by_id(group.insert().unwrap());
        run_for(&driver, SECOND);
        assert_eq!((*came.lock().unwrap(), handle.info().unwrap().unwrap().dead), (0, 1));
        for _ in 0..3 {
            run_for(&driver, DAY / 2 + 700 * SECOND);
            jobs.nudge();
            run_for(&driver, SECOND);
        }
        assert_eq!(*came.lock().unwrap(), 1, "the dead member was forgotten");
        assert!(handle.info().unwrap().is_some());
        for _ in 0..4 {
            run_for(&driver, DAY / 2 + 700 * SECOND);
            jobs.insert(MS, Row(1001)).unwrap();
            run_for(&driver, SECOND);
        }
        assert_eq!(handle.info().unwrap(), None);
        assert_eq!(jobs.groups().unwrap(), []);
        jobs.check().unwrap();
    });
}
