//! The dashboard of a queue on a Redis server: its paths, and what its pages cost the server.

use std::sync::mpsc::channel;
use std::time::Duration;

use tickwheel_jobs::{Jobs, Keep, Limit, RunReport};

use crate::ask::{Charge, Mail, full, get, group, handled, mail, manual_on, run_due};
use crate::installed;
use crate::paths::{JSON, PAGES};
use crate::server::Server;

const HOUR: Duration = Duration::from_secs(3600);

/// Paths beside the pages and the JSON. In the place of `ID` comes the id of a job.
const MORE: [&str; 18] = [
    "/kind?kind=mail",
    "/jobs?state=pending&kind=mail",
    "/jobs?state=overdue",
    "/jobs?state=running",
    "/jobs?state=retrying",
    "/jobs?state=dead&kind=mail",
    "/jobs?state=dead&group=GROUP",
    "/jobs?state=completed",
    "/jobs?state=pending&key=absent",
    "/jobs?state=pending&text=absent",
    "/jobs?state=dead&text=absent",
    "/jobs/ID",
    "/jobs/ID/payload",
    "/metrics",
    "/healthz",
    "/api/v1/kind?kind=mail",
    "/api/v1/jobs/ID",
    "/api/v1/history?step=hour&kind=mail",
];

fn paths() -> Vec<String> {
    let json = JSON.iter().map(|name| format!("/api/v1/{name}"));
    PAGES.iter().chain(&MORE).map(|path| (*path).to_owned()).chain(json).collect()
}

/// Fills the server with dead jobs, and 200 completed ones.
fn fill_with_ended(server: &Server, dead: u64) {
    let (ended, ends) = channel();
    let on_run = move |run: &RunReport| run.outcome.iter().for_each(|_| ended.send(()).unwrap());
    let jobs = handled(Jobs::redis(server.url()).unwrap()).on_run(on_run).start().unwrap();
    jobs.kind::<Mail>().keep_completed(Keep::last(1000)).unwrap();
    let failing = (0..dead).map(|n| (Duration::ZERO, mail(&format!("fail {}", n % 20))));
    jobs.insert_batch(failing).unwrap();
    jobs.insert_batch((0..200).map(|_| (Duration::ZERO, mail("done")))).unwrap();
    (0..dead + 200).for_each(|_| ends.recv_timeout(Duration::from_secs(60)).unwrap());
    jobs.shutdown().unwrap();
}

/// Returns how many commands each path takes.
fn commands_of_pages(server: &Server, pending: u64, dead: u64) -> Vec<u64> {
    fill_with_ended(server, dead);
    let (jobs, driver) = manual_on(Jobs::redis(server.url()).unwrap());
    jobs.queue().pause().unwrap();
    jobs.schedule("report", HOUR, Charge { card: String::new() }).unwrap();
    let id = jobs.insert(HOUR, mail("one")).unwrap();
    for part in 0..pending / 1000 {
        // A tenth is overdue.
        let due = |n: u64| if n.is_multiple_of(10) { Duration::ZERO } else { 2 * HOUR };
        jobs.insert_batch((0..1000).map(|n| (due(n), mail(&format!("{part} {n}"))))).unwrap();
    }
    let (mails, limit) = (jobs.kind::<Mail>(), Limit::running(3).rate(100, HOUR));
    mails.limit(limit).unwrap();
    for n in 0..120 {
        mails.partition(&format!("customer {n}")).limit(limit).unwrap();
    }
    for n in 0..pending / 100 {
        let charge = Charge { card: n.to_string() };
        jobs.group().add(1000 * HOUR, charge).insert().unwrap();
    }
    run_due(&driver);
    let counts = jobs.count().unwrap();
    assert_eq!((counts.dead, counts.overdue.count), (dead, pending / 10));
    let group = group(&full(jobs.client()), "fail 7");
    let of_page = |page: &String| {
        let path = page.replace("ID", &id.to_string()).replace("GROUP", &group);
        // An answer is kept for a second, and the JSON has that of its page: a dashboard of its own has none.
        let dashboard = full(jobs.client());
        server.cost(|| assert_eq!(get(&dashboard, &path).status, 200, "{page}"))
    };
    paths().iter().map(of_page).collect()
}

/// P88: Each page and each path of the JSON takes as many commands of the server with 30,000 pending and 16,000 dead
/// jobs as with 12,000 and 11,000: a page looks at 10,000 at most. The commands themselves take the logarithm of their
/// number.
#[test]
fn pages_cost_as_many_commands_however_long_the_queue_is() {
    let of = |pending, dead| {
        installed::server(&[]).map(|server| commands_of_pages(&server, pending, dead))
    };
    let (Some(few), Some(many)) = (of(12_000, 11_000), of(30_000, 16_000)) else { return };
    for ((path, few), many) in paths().iter().zip(few).zip(many) {
        println!("{path}: {few} commands, {many} with more jobs");
        assert!(many <= few + few / 10 + 20, "{path}: {few} commands, and {many} with more jobs");
    }
}

/// P97: A page of a list and a page of a search read few large jobs: the server sends no more than the search says that
/// it reads, whatever state the jobs have.
#[test]
fn searches_read_few_bytes_of_a_server() {
    let Some(server) = installed::server(&[]) else { return };
    let (jobs, driver) = manual_on(Jobs::redis(server.url()).unwrap());
    let large = "x".repeat(1 << 19);
    for n in 0..48 {
        jobs.insert(HOUR, mail(&large)).unwrap();
        let text = if n < 24 { "done" } else { "fail" };
        jobs.insert(Duration::ZERO, mail(&format!("{text} {large}"))).unwrap();
    }
    run_due(&driver);
    let dashboard = full(jobs.client());
    let sent = || {
        let stats: String = server.ask(&["INFO", "stats"]);
        let sent = stats.lines().find_map(|line| line.strip_prefix("total_net_output_bytes:"));
        sent.unwrap().parse::<u64>().unwrap()
    };
    for (query, most) in [
        ("state=pending&text=needle", 10 << 20),
        ("state=dead&text=needle", 10 << 20),
        ("state=completed&text=needle", 10 << 20),
        ("state=running&text=needle", 1 << 20),
        ("state=pending&limit=1", 2 << 20),
    ] {
        let before = sent();
        let page = get(&dashboard, &format!("/api/v1/jobs?{query}")).ok();
        let sent = sent() - before;
        assert!(sent <= most, "{query}: the server sent {sent} bytes: {}", page["searched"]);
    }
}

/// P89: When the server has gone, the health check and every question fail with a reason, and both answer again after
/// it has come back.
#[test]
fn dashboard_says_that_the_server_has_gone() {
    let Some(mut server) = installed::server(&[]) else { return };
    let client = Jobs::redis(server.url()).unwrap();
    let client = client.call_timeout(Duration::from_millis(500)).client().unwrap();
    let dashboard = full(client);
    assert_eq!(get(&dashboard, "/healthz").status, 200);
    assert_eq!(get(&dashboard, "/api/v1/store").ok()["sort"], "server");
    server.kill();
    let health = get(&dashboard, "/healthz");
    assert!(health.status == 503 && !health.text().is_empty(), "{health:?}");
    let page = get(&dashboard, "/");
    assert!(page.status >= 500, "{page:?}");
    server.run();
    crate::server::wait_until("the dashboard answers", || {
        get(&dashboard, "/healthz").status == 200
    });
    assert_eq!(get(&dashboard, "/").status, 200);
}
