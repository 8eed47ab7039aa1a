//! Tests that no page and no path of the JSON costs more for a longer queue: on a file, in steps of SQLite's machine.

use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc::channel;
use std::time::Duration;

use http::Request;
use serde::{Deserialize, Serialize};

use super::options::Access;
use super::params::Params;
use super::read::jobs::group_of;
use super::read::{DashboardSettings, Queue};
use super::request::{AnswerPlace, Task};
use super::respond::Responder;
use super::route::Route;
use crate::store::sqlite::tests::steps;
use crate::values::id::JobId;
use crate::{Builder, Client, Driver, Fail, Job, Jobs, Keep, Limit, Retry, Run, RunReport};

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

/// Every page and every path of the JSON. In the place of `ID` comes the id of a job.
const PATHS: [&str; 36] = [
    "/",
    "/kinds",
    "/jobs",
    "/jobs?state=pending&kind=mail",
    "/jobs?state=overdue",
    "/jobs?state=running",
    "/jobs?state=retrying",
    "/jobs?state=dead",
    "/jobs?state=dead&kind=mail",
    "/jobs?state=dead&group=GROUP",
    "/jobs?state=completed",
    "/jobs?state=pending&key=absent",
    "/jobs?state=pending&text=absent",
    "/jobs?state=dead&text=absent",
    "/jobs/ID",
    "/jobs/ID/payload",
    "/dead",
    "/groups",
    "/schedules",
    "/nodes",
    "/store",
    "/bulk",
    "/metrics",
    "/healthz",
    "/api/v1/overview",
    "/api/v1/kinds",
    "/api/v1/jobs",
    "/api/v1/jobs/ID",
    "/api/v1/dead",
    "/api/v1/groups",
    "/api/v1/schedules",
    "/api/v1/nodes",
    "/api/v1/store",
    "/api/v1/history",
    "/api/v1/history?step=hour&kind=mail",
    "/api/v1/bulks",
];

fn responder(client: Client) -> Responder {
    let settings = DashboardSettings {
        queues: vec![Queue { name: "default".to_owned(), own: client.clone(), client }],
        title: String::new(),
        access: Arc::new(|_| Access::ReadOnly),
        audit: None,
        redact: None,
        trace_link: None,
    };
    Responder::new(Arc::new(settings), Arc::default(), Arc::default())
}

/// Asks for a page, and asserts that it is one.
fn ask(responder: &mut Responder, path: &str) {
    let (parts, ()) = Request::get(path).body(()).unwrap().into_parts();
    let params = Params::of_query(parts.uri.query().unwrap_or_default()).unwrap();
    let route = Route::of(parts.uri.path());
    let task = Task::new(Arc::new(parts), route, params, false, AnswerPlace::default());
    let answer = responder.answer(&task);
    assert_eq!(answer.status(), 200, "{path}");
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
    jobs.pause().unwrap();
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

/// Returns the steps of each path.
fn steps_of_pages(path: &Path, pending: u64, dead: u64) -> Vec<i64> {
    fill_with_ended(path, dead);
    let (jobs, driver) = open(path).manual().unwrap();
    let id = fill(&jobs, &driver, pending, dead);
    steps::count(path);
    // The first question also has the steps of the changes before it.
    ask(&mut responder(jobs.client()), "/healthz");
    steps::take(path);
    let of_page = |page: &&str| {
        let page = page.replace("ID", &id.to_string());
        // An answer is kept for a second, and the JSON has that of its page: a responder of its own has none.
        ask(&mut responder(jobs.client()), &page.replace("GROUP", &group_of("mail", "error 7")));
        steps::take(path)
    };
    let each = PATHS.iter().map(of_page).collect();
    jobs.shutdown().unwrap();
    each
}

/// P88: Each page and each path of the JSON takes as many steps with 50,200 pending and 15,300 dead jobs as with
/// 20,200 and 10,200, which are more than a page looks at.
#[test]
fn pages_cost_as_many_steps_however_long_the_queue_is() {
    let folder = tempfile::tempdir().unwrap();
    let few = steps_of_pages(&folder.path().join("few.db"), 20_200, 10_200);
    let many = steps_of_pages(&folder.path().join("many.db"), 50_200, 15_300);
    for ((path, few), many) in PATHS.iter().zip(&few).zip(&many) {
        println!("{path}: {few} steps, {many} with more jobs");
    }
    for ((path, few), many) in PATHS.iter().zip(few).zip(many) {
        assert!(many <= few + few / 10 + 50, "{path}: {few} steps, and {many} with more jobs");
        assert!(many < 1_000_000, "{path}: {many} steps");
    }
}
