//! What is promised of the results of a group, for every store.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde::{Deserialize, Serialize};
use tickwheel_jobs::{
    Builder, Client, Driver, Fail, GroupError, GroupHandle, GroupId, Job, JobId, JobState, Jobs,
    Keep, MemberResult, NewJob, Retry, Run, StoreError,
};

use super::{Charge, DAY, HOUR, MINUTE, MS, SECOND, run_for};
use crate::support::on_stores;

/// A member of a group. Its result is a text of this many bytes. With 0 it sets no result.
#[derive(Serialize, Deserialize, Clone, Default, Debug)]
struct Part {
    bytes: usize,
    /// It has a follow-up, whose text has one byte.
    then: bool,
    /// It fails for good, until it is healed.
    fails: bool,
}

impl Job for Part {
    const KIND: &'static str = "part";
}

/// The callback.
#[derive(Serialize, Deserialize, Clone, Debug)]
struct Whole;

impl Job for Whole {
    const KIND: &'static str = "whole";
}

fn part(bytes: usize) -> Part {
    Part { bytes, ..Part::default() }
}

struct Test {
    jobs: Jobs,
    driver: Driver,
    /// The results that each run of a callback has read.
    read: Arc<Mutex<Vec<Vec<MemberResult>>>>,
    /// Whether the parts that fail are healed, and whether the callback is.
    healed: Arc<Mutex<[bool; 2]>>,
}

fn start(builder: Builder) -> Test {
    let read = Arc::<Mutex<Vec<_>>>::default();
    let healed = Arc::new(Mutex::new([false, true]));
    let (list, heal) = (Arc::clone(&read), Arc::clone(&healed));
    let whole = move |_: Whole, run: &Run| -> Result<(), Fail> {
        list.lock().unwrap().push(run.group_results()?.collect::<Result<_, _>>()?);
        if heal.lock().unwrap()[1] { Ok(()) } else { Err(Fail::dead("not yet")) }
    };
    let heal = Arc::clone(&healed);
    let of_part = move |it: Part, run: &Run| -> Result<(), Fail> {
        if it.then {
            run.then(Duration::ZERO, part(1))?;
        }
        if it.bytes > 0 {
            run.set_result(&"r".repeat(it.bytes))?;
        }
        if it.fails && !heal.lock().unwrap()[0] { Err(Fail::dead("as planned")) } else { Ok(()) }
    };
    let charge = |charge: Charge, run: &Run| run.set_result(&charge.0);
    let builder = builder.handle_with(Retry::never(), of_part).handle(whole).handle(charge);
    let (jobs, driver) = builder.manual().unwrap();
    Test { jobs, driver, read, healed }
}

fn results(client: &Client, id: GroupId) -> Result<Vec<MemberResult>, StoreError> {
    client.group_by_id(id).results().collect()
}

fn keeps(client: &Client, id: GroupId) -> bool {
    client.group_by_id(id).info().unwrap().unwrap().keeps_results
}

const NONE: StoreError = StoreError::Group(GroupError::NoResults);

/// P110: The callback reads a result of each member, however the member has ended. Another process reads those of the
/// members that have ended by then. Some time after the callback they are gone.
#[test]
fn callback_reads_the_result_of_each_member() {
    on_stores(|store| {
        let Test { jobs, driver, read, .. } = start(store.open());
        jobs.kind::<Charge>().keep_completed(Keep::last(1)).unwrap();
        jobs.kind::<Charge>().pause().unwrap();
        let names = ["text", "none", "dead", "cancelled", "old", "kept", "late"];
        let [text, none, dead, cancelled, old, kept, late] = names.map(JobId::named);
        let new = |part: Part, id| NewJob::new(part).at(MS).id(id);
        let group = jobs.group().keep_results().then(Whole).add_job(new(part(3), text));
        let group = group.add_job(new(Part { then: true, ..part(0) }, none));
        let group = group.add_job(new(Part { fails: true, ..part(3) }, dead));
        let group = group.add_job(new(part(1), cancelled).at(DAY));
        let group = group.add_job(NewJob::new(Charge(7)).at(MS).id(kept));
        let group = group.add_job(NewJob::new(Charge(8)).at(MS).id(old).expires(SECOND));
        let id = group.add_job(new(part(2), late).at(HOUR)).insert().unwrap();
        assert_eq!((results(&jobs, id), keeps(&jobs, id)), (Ok(vec![]), true));
        run_for(&driver, MINUTE);
        jobs.kind::<Charge>().resume().unwrap();
        run_for(&driver, SECOND);
        assert!(jobs.cancel(cancelled).unwrap().is_cancelled());
        jobs.delete(dead).unwrap();
        jobs.check().unwrap();
        assert_eq!(results(&jobs, id).unwrap().len(), 7);
        if store.keeps {
            let other = store.open().client().unwrap();
            assert_eq!(results(&other, id), results(&jobs, id), "another client reads the same");
        }
        run_for(&driver, HOUR);
        let read = read.lock().unwrap().pop().unwrap();
        assert!(read.len() == 8 && read.is_sorted_by_key(|member| member.id), "{read:?}");
        let is = |id, kind: &str, state, result: Option<&str>| {
            let member = read.iter().find(|member| member.id == id).unwrap();
            let found = (&*member.kind, member.state, member.result.as_deref());
            let result = result.map(str::as_bytes);
            assert_eq!(found, (kind, state, result), "{member:?}");
            assert_eq!(member.errors.len(), usize::from(state == JobState::Dead));
            member
        };
        is(text, "part", JobState::Completed, Some("\"rrr\""));
        is(none, "part", JobState::Completed, None);
        assert_eq!(is(dead, "part", JobState::Dead, None).errors[0].error, "as planned");
        is(cancelled, "part", JobState::Cancelled, None);
        is(old, "charge", JobState::Expired, None);
        let kept = is(kept, "charge", JobState::Completed, Some("7"));
        assert_eq!(kept.read::<u64>().unwrap(), Some(7));
        assert!(kept.read::<String>().unwrap_err().to_string().contains("does not decode"));
        is(late, "part", JobState::Completed, Some("\"rr\""));
        jobs.check().unwrap();
        run_for(&driver, HOUR);
        assert_eq!((results(&jobs, id), keeps(&jobs, id)), (Err(NONE), false));
        jobs.check().unwrap();
    });
}

/// P110: A member that is retried has no result until it ends again, and then that of its last end. After the end of
/// the group its result stays as it was. The results stay while the callback is dead, and its retry reads them again.
#[test]
fn results_stay_until_the_callback_has_run_and_are_those_of_the_last_ends() {
    on_stores(|store| {
        let Test { jobs, driver, read, healed } = start(store.open());
        let ids = ["first", "second"].map(JobId::named);
        let fails = |id| NewJob::new(Part { fails: true, ..part(1) }).at(MS).id(id);
        let group = jobs.group().keep_results().add_job(fails(ids[0])).add_job(fails(ids[1]));
        let open = group.then(Whole).open().unwrap();
        run_for(&driver, SECOND);
        assert_eq!(results(&jobs, open.id()).unwrap().len(), 2);
        assert!(jobs.retry(ids[0]).unwrap());
        let [left] = &results(&jobs, open.id()).unwrap()[..] else { panic!("one is open") };
        assert_eq!((left.id, left.state), (ids[1], JobState::Dead));
        jobs.check().unwrap();
        *healed.lock().unwrap() = [true, false];
        run_for(&driver, SECOND);
        open.seal().unwrap();
        run_for(&driver, SECOND);
        let first = read.lock().unwrap().pop().unwrap();
        let states: Vec<_> = ids.iter().map(|id| first.iter().find(|it| it.id == *id)).collect();
        assert_eq!(states[0].unwrap().result.as_deref(), Some(&b"\"r\""[..]));
        assert_eq!(states[1].unwrap().errors.len(), 1);
        assert!(jobs.retry(ids[1]).unwrap());
        run_for(&driver, 2 * HOUR);
        assert_eq!(results(&jobs, open.id()).unwrap(), first, "the callback is dead");
        let callback = jobs.dead().next().unwrap().id;
        *healed.lock().unwrap() = [true, true];
        assert!(jobs.retry(callback).unwrap());
        run_for(&driver, SECOND);
        assert_eq!(read.lock().unwrap().pop(), Some(first));
        jobs.check().unwrap();
        run_for(&driver, HOUR);
        assert_eq!(results(&jobs, open.id()), Err(NONE));
        jobs.check().unwrap();
    });
}

/// Advances until no member is open. A server may find no room for further claims for a moment.
fn end_all(driver: &Driver, group: &GroupHandle) {
    run_for(driver, SECOND);
    for _ in 0..10_000 {
        if group.info().unwrap().unwrap().open == 0 {
            return;
        }
        driver.advance(MS);
    }
    panic!("some members never end: {:?}", group.info());
}

fn pages(group: &GroupHandle) -> Vec<usize> {
    let mut results = group.results();
    let mut pages = Vec::new();
    while pages.len() < 100 {
        let page = results.next_page().unwrap();
        if page.is_empty() {
            return pages;
        }
        pages.push(page.len());
    }
    panic!("the list has no end: {:?}", group.info());
}

/// P110: A page has at most 256 results, and ends with the one with which it reaches 1 MiB.
#[test]
fn page_of_results_is_bounded() {
    on_stores(|store| {
        let Test { jobs, driver, .. } = start(store.open());
        let many = jobs.group().keep_results().open().unwrap();
        many.add_all((0..300).map(|_| (MS, part(0)))).unwrap();
        let large = jobs.group().keep_results().open().unwrap();
        large.add_all((0..40).map(|_| (MS, part(60 << 10)))).unwrap();
        end_all(&driver, &many);
        end_all(&driver, &large);
        assert_eq!((pages(&many), pages(&large)), (vec![256, 44], vec![18, 18, 4]));
    });
}

/// P110: A group without a callback keeps its results as long as itself. However many there are, they are removed, and
/// the group is forgotten after the last of them. A later group with its id has none of them.
#[test]
fn results_of_a_group_without_a_callback_go_with_the_group() {
    on_stores(|store| {
        let Test { jobs, driver, .. } = start(store.open().keep_dead(HOUR));
        let other = jobs.group().add(MS, part(1)).insert().unwrap();
        for n in 0..200 {
            jobs.group().keep_results().id(GroupId::named(&format!("{n}"))).insert().unwrap();
        }
        let open = jobs.group().keep_results().id(GroupId::named("large")).open().unwrap();
        open.add_all((0..2500).map(|_| (MS, part(1)))).unwrap();
        open.seal().unwrap();
        end_all(&driver, &open);
        assert_eq!(results(&jobs, other), Err(NONE), "it keeps none");
        assert_eq!(results(&jobs, GroupId::named("unknown")), Err(NONE));
        run_for(&driver, 40 * MINUTE);
        assert_eq!(open.results().count(), 2500);
        jobs.check().unwrap();
        run_for(&driver, 2 * HOUR);
        assert_eq!(jobs.groups().unwrap(), []);
        jobs.check().unwrap();
        let again = jobs.group().keep_results().id(open.id()).add(MS, part(2)).insert().unwrap();
        run_for(&driver, SECOND);
        assert_eq!(results(&jobs, again).unwrap().len(), 1);
        jobs.check().unwrap();
    });
}

/// P110: A group is forgotten after its last result, also if that is the last one that a purge takes in a commit: of a
/// thousand rows, or of a megabyte. Before a fix, a server kept such a group for ever.
#[test]
fn group_is_forgotten_after_its_last_result() {
    on_stores(|store| {
        let Test { jobs, driver, .. } = start(store.open().keep_dead(HOUR));
        for (many, bytes) in [(960, 10), (64, 60 << 10)] {
            for has_callback in [false, true] {
                let group = jobs.group().keep_results();
                let group = if has_callback { group.then(Whole) } else { group };
                let open = group.open().unwrap();
                for _ in 0..many / 64 {
                    open.add_all((0..64).map(|_| (MS, part(bytes)))).unwrap();
                }
                open.seal().unwrap();
                end_all(&driver, &open);
                run_for(&driver, SECOND);
            }
        }
        run_for(&driver, 3 * HOUR);
        run_for(&driver, HOUR);
        jobs.check().unwrap();
        assert_eq!(jobs.groups().unwrap(), []);
    });
}

/// P110: A list that meets a purge ends with an error, and does not take the rest for the whole.
#[test]
fn list_that_meets_a_purge_ends_with_an_error() {
    on_stores(|store| {
        let Test { jobs, driver, .. } = start(store.open());
        let open = jobs.group().keep_results().then(Whole).open().unwrap();
        open.add_all((0..1500).map(|_| (MS, part(1)))).unwrap();
        open.seal().unwrap();
        end_all(&driver, &open);
        let (mut list, mut items) = (open.results(), open.results());
        assert_eq!(list.next_page().unwrap().len(), 256);
        assert!(items.next().unwrap().is_ok());
        run_for(&driver, HOUR);
        assert_eq!((list.next_page(), keeps(&jobs, open.id())), (Err(NONE), false));
        assert_eq!((items.nth(255), items.next()), (Some(Err(NONE)), None));
    });
}
