//! Tests that no row of a view costs more for a longer queue: on a file, in steps of SQLite's machine.

use std::path::Path;
use std::sync::mpsc::channel;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::jobs::{JobFilter, ListState};
use super::kinds_and_limits::KindFilter;
use super::queue::View;
use crate::store::sqlite::tests::steps;
use crate::values::error::StoreError;
use crate::values::id::JobId;
use crate::{Builder, Driver, Fail, Job, Jobs, Keep, Limit, Retry, Run, RunReport, Step};

#[derive(Serialize, Deserialize)]
struct Mail(String);

impl Job for Mail {
    const KIND: &'static str = "mail";
}

#[derive(Serialize, Deserialize)]
struct Charge(u64);

impl Job for Charge {
    const KIND: &'static str = "charge";
}

type Question = fn(&View, JobId) -> Result<(), StoreError>;

/// Every question, with the id of a pending job.
const QUESTIONS: [(&str, Question); 26] = [
    ("overview", |view, _| view.overview().map(drop)),
    ("kinds", |view, _| view.kinds(&KindFilter::default(), None, 100).map(drop)),
    ("kinds by jobs", |view, _| {
        let by_jobs = KindFilter { by_jobs: true, ..KindFilter::default() };
        view.kinds(&by_jobs, None, 100).map(drop)
    }),
    ("kind", |view, _| view.kind("mail", 100).map(drop)),
    ("limits", |view, _| view.limits(100).map(drop)),
    ("slowdowns", |view, _| view.slowdowns(5).map(drop)),
    ("pending", |view, _| list(view, ListState::Pending, |_| {})),
    ("pending of a kind", |view, _| list(view, ListState::Pending, of_mail)),
    ("overdue", |view, _| list(view, ListState::Overdue, |_| {})),
    ("running", |view, _| list(view, ListState::Running, |_| {})),
    ("retrying", |view, _| list(view, ListState::Retrying, |_| {})),
    ("dead", |view, _| list(view, ListState::Dead, |_| {})),
    ("dead of a kind", |view, _| list(view, ListState::Dead, of_mail)),
    ("dead of a group", |view, _| {
        let group = view.dead(100)?.groups[7].group;
        list(view, ListState::Dead, |filter| filter.group = Some(group))
    }),
    ("completed", |view, _| list(view, ListState::Completed, |_| {})),
    ("by key", |view, _| list(view, ListState::Pending, |its| its.key = Some("absent".into()))),
    ("by text", |view, _| list(view, ListState::Pending, |its| its.text = Some("absent".into()))),
    ("by error", |view, _| list(view, ListState::Dead, |its| its.error = Some("absent".into()))),
    ("number of pending", |view, _| number(view, ListState::Pending)),
    ("number of dead", |view, _| number(view, ListState::Dead)),
    ("job", |view, id| view.job(id).map(drop)),
    ("groups of dead jobs", |view, _| view.dead(100).map(drop)),
    ("groups", |view, _| view.groups(100).map(drop)),
    ("schedules and nodes", |view, _| view.schedules(None, 100).and(view.nodes(100)).map(drop)),
    ("store", |view, _| view.store().map(drop)),
    ("history", |view, _| view.history(Some("mail"), Step::Hour, 48).map(drop)),
];

fn list(
    view: &View,
    state: ListState,
    narrow: impl FnOnce(&mut JobFilter),
) -> Result<(), StoreError> {
    let mut filter = JobFilter::new(state);
    narrow(&mut filter);
    view.jobs(&filter, None, 100).map(drop)
}

fn number(view: &View, state: ListState) -> Result<(), StoreError> {
    let mut filter = JobFilter::new(state);
    filter.text = Some("absent".to_owned());
    view.count(&filter).map(drop)
}

fn of_mail(filter: &mut JobFilter) {
    filter.kind = Some("mail".to_owned());
}

/// More than a page looks at: overdue jobs, records of a search.
const MORE_THAN_READ: u64 = 10_200;
const MINUTE: Duration = Duration::from_secs(60);

fn mail(n: u64) -> Mail {
    Mail(format!("error {}", n % 20))
}

fn open(path: &Path) -> Builder {
    Jobs::open(path)
        .unwrap()
        .handle_with(Retry::never(), |mail: Mail, _: &Run| Err(Fail::dead(mail.0)))
        .handle(|_: Charge, _: &Run| Ok(()))
}

/// Fills a file with dead jobs, and 500 completed ones.
fn fill_with_ended(path: &Path, dead: u64) {
    let (ended, ends) = channel();
    let on_run = move |run: &RunReport| run.outcome.iter().for_each(|_| ended.send(()).unwrap());
    let jobs = open(path).on_run(on_run).start().unwrap();
    jobs.kind::<Charge>().keep_completed(Keep::last(1000)).unwrap();
    jobs.insert_batch((0..dead).map(|n| (Duration::ZERO, mail(n)))).unwrap();
    jobs.insert_batch((0..500).map(|n| (Duration::ZERO, Charge(n)))).unwrap();
    (0..dead + 500).for_each(|_| ends.recv_timeout(Duration::from_secs(60)).unwrap());
    jobs.shutdown().unwrap();
}

/// Adds pending jobs, of which [`MORE_THAN_READ`] are overdue and a thousand are due in each later hour. Returns one of
/// them.
fn fill(jobs: &Jobs, driver: &Driver, pending: u64, dead: u64) -> JobId {
    jobs.queue().pause().unwrap();
    jobs.schedule("report", 60 * MINUTE, Charge(0)).unwrap();
    jobs.insert_batch((0..MORE_THAN_READ).map(|n| (Duration::ZERO, mail(n)))).unwrap();
    // After this one, no job is the last of its kind: each goes to the table of later hours.
    let id = jobs.insert(1_000_000 * MINUTE, mail(0)).unwrap();
    for hour in 0..(pending - MORE_THAN_READ) / 1000 {
        let due = |n: u64| (60 * (5 + hour as u32) + n as u32 % 60) * MINUTE;
        jobs.insert_batch((0..1000).map(|n| (due(n), mail(n)))).unwrap();
    }
    // More than are read, also with few jobs.
    limit_and_group(jobs, pending / 20);
    driver.advance(MINUTE);
    let counts = jobs.count().unwrap();
    assert_eq!((counts.dead, counts.overdue.count), (dead, 10_000));
    id
}

/// Limits the flow of the mails and more partitions than a page shows, and inserts groups.
fn limit_and_group(jobs: &Jobs, groups: u64) {
    let (mails, limit) = (jobs.kind::<Mail>(), Limit::running(3).rate(100, MINUTE));
    mails.limit(limit).unwrap();
    for n in 0..120 {
        mails.partition(&format!("customer {n}")).limit(limit).unwrap();
    }
    for n in 0..groups {
        jobs.group().add(2_000_000 * MINUTE, Charge(n)).insert().unwrap();
    }
}

fn steps_of_questions(path: &Path, pending: u64, dead: u64) -> Vec<i64> {
    fill_with_ended(path, dead);
    let (jobs, driver) = open(path).manual().unwrap();
    let id = fill(&jobs, &driver, pending, dead);
    steps::count(path);
    let view = View::new(jobs.client());
    // The first question also has the steps of the changes before it.
    view.store().unwrap();
    steps::take(path);
    let of_question = |(_, ask): &(&str, Question)| {
        ask(&view, id).unwrap();
        steps::take(path)
    };
    let each = QUESTIONS.iter().map(of_question).collect();
    jobs.shutdown().unwrap();
    each
}

/// P88: Each question of a view takes as many steps with 50,200 pending and 15,300 dead jobs as with 20,200 and 10,200,
/// which are more than it looks at.
#[test]
fn views_cost_as_many_steps_however_long_the_queue_is() {
    let folder = tempfile::tempdir().unwrap();
    let few = steps_of_questions(&folder.path().join("few.db"), 20_200, 10_200);
    let many = steps_of_questions(&folder.path().join("many.db"), 50_200, 15_300);
    for (((name, _), few), many) in QUESTIONS.iter().zip(few).zip(many) {
        println!("{name}: {few} steps, {many} with more jobs");
        assert!(many <= few + few / 10 + 50, "{name}: {few} steps, and {many} with more jobs");
        assert!(many < 1_000_000, "{name}: {many} steps");
    }
}
