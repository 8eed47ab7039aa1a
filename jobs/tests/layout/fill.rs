//! Fills a queue with a job of each sort, reads everything that a client sees of it, and runs what is pending.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use serde::{Deserialize, Serialize};
use serde_json::json;
use tickwheel_jobs::{
    Builder, Cancel, Client, Driver, Fail, Job, JobId, JobState, Jobs, Keep, Missed, NewJob, Retry,
    Run, Schedule, Step, Until,
};

const HOUR: Duration = Duration::from_secs(3600);
const DAY: Duration = Duration::from_secs(24 * 3600);
/// Longer than any test of any version waits.
const AGE: Duration = Duration::from_secs(200 * 365 * 24 * 3600);

/// The first of January 2100. A job that is due then stays pending.
fn then() -> SystemTime {
    UNIX_EPOCH + Duration::from_secs(4_102_444_800)
}

/// The time at which the queue is filled.
fn now() -> SystemTime {
    UNIX_EPOCH + Duration::from_secs(1_796_083_200)
}

#[derive(Serialize, Deserialize)]
pub(crate) struct Order {
    pub(crate) number: u64,
    pub(crate) fails: bool,
}

impl Job for Order {
    const KIND: &'static str = "order";
}

#[derive(Serialize, Deserialize)]
struct Mail(String);

impl Job for Mail {
    const KIND: &'static str = "mail";
}

fn order(number: u64) -> NewJob<Order> {
    let id = JobId::named(&format!("order {number}"));
    NewJob::new(Order { number, fails: false }).id(id).at(then())
}

fn failing(number: u64) -> NewJob<Order> {
    let id = JobId::named(&format!("order {number}"));
    NewJob::new(Order { number, fails: true }).id(id).at(now() + HOUR)
}

fn manual(builder: Builder) -> (Jobs, Driver) {
    let handler = |order: Order, run: &Run| match order.fails && run.due() < then() {
        true => Err(Fail::retry("no route\nto the warehouse")),
        false => run.set_result(&order.number),
    };
    let builder = builder.handle_with(Retry::fixed(HOUR).max_retries(6), handler);
    builder.handle(|_: Mail, _: &Run| Ok(())).keep_dead(AGE).manual().unwrap()
}

/// Inserts a job of each sort.
pub(crate) fn fill(builder: Builder) {
    let (jobs, driver) = manual(builder);
    driver.set_wall(now());
    let kind = jobs.kind::<Order>();
    kind.keep_completed(Keep::last(100).bytes(1 << 20)).unwrap();
    kind.head_start(HOUR).unwrap();
    jobs.insert_job(failing(1)).unwrap();
    jobs.insert_job(failing(2).retry(Retry::fixed(AGE / 2).max_retries(1))).unwrap();
    jobs.insert_job(order(3).at(now() + HOUR)).unwrap();
    for number in 4..8 {
        let plain = order(number);
        jobs.insert_job(match number {
            4 => plain
                .header("traceparent", "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"),
            5 => plain.key("customer-5").unique_until(Until::Ended),
            6 => plain.key("customer-6").retry(Retry::never()),
            _ => plain.at(now() + 50 * HOUR).expires(then() + AGE),
        })
        .unwrap();
    }
    jobs.insert_job(NewJob::new(Mail("ann".to_owned())).id(JobId::named("mail")).at(then()))
        .unwrap();
    let gone = jobs.insert_job(order(8)).unwrap().id;
    assert_eq!(jobs.cancel(gone).unwrap(), Cancel::Cancelled);
    jobs.schedule("nightly", Schedule::every(DAY).missed(Missed::Skip), Mail("all".to_owned()))
        .unwrap();
    for _ in 0..10 {
        driver.advance(HOUR);
    }
    jobs.kind::<Mail>().pause().unwrap();
    jobs.check().unwrap();
    jobs.shutdown().unwrap();
}

/// Returns everything that a client sees, as JSON.
pub(crate) fn contents(client: &Client) -> String {
    let list =
        |jobs: tickwheel_jobs::Pages| serde_json::to_value(jobs.collect::<Vec<_>>()).unwrap();
    let ever = UNIX_EPOCH..then() + DAY;
    let by_id = |name: &str| client.get(JobId::named(name)).unwrap().is_some();
    let there = ["order 1", "order 3", "order 8"].map(by_id);
    let contents = json!({
        "pending": list(client.pending()),
        "ended": list(client.ended()),
        "schedules": client.schedules().list().unwrap(),
        "kinds": client.queue().kinds().unwrap(),
        "dead_by_error": client.dead_by_error(10).unwrap(),
        "history": client.queue().history(Step::Hour, ever.clone()).unwrap(),
        "history of orders": client.kind::<Order>().history(Step::Hour, ever).unwrap(),
        "mails are paused": client.kind::<Mail>().is_paused().unwrap(),
        "the key's job": client.keyed("customer-5").get().unwrap(),
        "there": there,
    });
    serde_json::to_string_pretty(&contents).unwrap() + "\n"
}

/// Runs all that is pending, and checks that an id is remembered.
pub(crate) fn run_all(builder: Builder) {
    let (jobs, driver) = manual(builder);
    let kept = |jobs: &Jobs| -> Vec<_> {
        jobs.ended().filter(|job| job.state == JobState::Completed).map(|job| job.id).collect()
    };
    let before = kept(&jobs);
    assert!(!before.is_empty());
    let again = jobs.insert_job(order(8)).unwrap();
    assert!(!again.is_new, "the id of a cancelled job is remembered");
    jobs.schedules().remove("nightly").unwrap();
    jobs.kind::<Mail>().resume().unwrap();
    driver.set_wall(then() + 3 * AGE / 10);
    while driver.advance(Duration::from_millis(1)) > 0 {}
    let counts = jobs.count().unwrap();
    assert_eq!((counts.pending, counts.running, counts.dead), (0, 0, 1), "{counts:?}");
    // The latest end comes first.
    let after = kept(&jobs);
    assert!(after.len() > before.len() && after.ends_with(&before), "{after:?} after {before:?}");
    before.iter().for_each(|id| assert!(jobs.get(*id).unwrap().is_some()));
    jobs.check().unwrap();
    jobs.shutdown().unwrap();
}
