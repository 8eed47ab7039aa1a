//! Groups on a server: when it is full, when several nodes end the members, and what is sent.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use serde::{Deserialize, Serialize};
use tickwheel_jobs::{Builder, Fail, Job, JobId, NewJob, Run};

use crate::half_done::{spoil, unchanged};
use crate::scenarios::limits::charge;
use crate::server::{Server, wait_until};
use crate::support::{Gate, Log, Order, in_hand, noting, open};

const NOW: Duration = Duration::ZERO;
const HOUR: Duration = Duration::from_secs(3600);

/// The callback of a group.
#[derive(Serialize, Deserialize, Clone, PartialEq, Eq, Debug)]
struct Report(u64);

impl Job for Report {
    const KIND: &'static str = "report";
}

/// Counts the reports that ran.
fn counting(builder: Builder, reports: &Arc<AtomicU64>) -> Builder {
    let reports = Arc::clone(reports);
    builder.handle(move |_: Report, run: &Run| -> Result<(), Fail> {
        let group = run.group()?.ok_or("no group")?;
        assert_eq!((group.open, group.total), (0, group.completed), "{group:?}");
        if group.keeps_results {
            let results = run.group_results()?.collect::<Result<Vec<_>, _>>()?;
            assert_eq!(results.len() as u64, group.completed, "{results:?}");
        }
        reports.fetch_add(1, Ordering::AcqRel);
        Ok(())
    })
}

/// Redis P31, P110: A full server takes the end of every member, also of the last one: it has had the callback since the
/// insert of the group. It takes no new group.
#[test]
fn callback_comes_though_the_server_is_full() {
    let server = Server::start();
    let (log, reports) = (Log::default(), Arc::new(AtomicU64::new(0)));
    let gate = Gate::default();
    let (noted, its_gate) = (log.clone(), gate.clone());
    let builder = counting(open(&server).threads(4), &reports).handle(move |order: Order, run| {
        its_gate.wait();
        noted.add(order.0);
        run.set_result(&order.0)
    });
    let jobs = builder.start().unwrap();
    let members = (0..100).map(|n| (NOW, Order(n)));
    let id = jobs.group().keep_results().add_all(members).then(Report(1)).insert().unwrap();
    wait_until("some run", || in_hand(&jobs) >= 4);
    server.limit_memory("1mb");
    gate.open();
    wait_until("the report ran", || reports.load(Ordering::Acquire) == 1);
    assert!(jobs.group().add(NOW, Order(200)).insert().is_err(), "a full server takes no job");
    assert_eq!(jobs.group_by_id(id).info().unwrap().unwrap().completed, 100);
    server.limit_memory("0");
    wait_until("all ended", || in_hand(&jobs) == 0);
    jobs.check().unwrap();
    jobs.shutdown().unwrap();
    log.each_once(100);
}

/// Redis P31: Three nodes end the members of many groups at once: each group has one report. Clients fill a part of the
/// groups while their members end.
#[test]
fn callback_comes_once_though_several_nodes_end_the_members() {
    let server = Server::start();
    let (log, reports) = (Log::default(), Arc::new(AtomicU64::new(0)));
    let node = || noting(counting(open(&server), &reports), &log);
    let nodes = [node(), node(), node()];
    std::thread::scope(|scope| {
        for thread in 0..4 {
            let client = open(&server).client().unwrap();
            scope.spawn(move || {
                for n in 0..25 {
                    let first = (thread * 25 + n) * 20;
                    let orders = |from: u64| (from..from + 10).map(|n| (NOW, Order(n)));
                    let group = client.group().keep_results().add_all(orders(first));
                    let group = group.then(Report(first));
                    let group = group.open().unwrap();
                    group.add_all(orders(first + 10)).unwrap();
                    group.seal().unwrap();
                }
            });
        }
    });
    wait_until("every report ran", || reports.load(Ordering::Acquire) == 100);
    wait_until("all ended", || nodes.iter().all(|node| node.stats().in_flight == 0));
    let groups = nodes[0].groups().unwrap();
    assert!(groups.len() == 100 && groups.iter().all(|group| group.completed == 20));
    nodes[0].check().unwrap();
    nodes.into_iter().for_each(|node| node.shutdown().unwrap());
    assert_eq!(reports.load(Ordering::Acquire), 100);
    log.each_once(2000);
}

/// Redis P31: A change of a group or of a member changes nothing if a key of groups has another type.
#[test]
fn change_of_a_member_is_not_half_done_if_a_key_has_another_type() {
    let server = Server::start();
    for name in ["groups", "members"] {
        let _: String = server.ask(&["FLUSHALL"]);
        let client = open(&server).client().unwrap();
        let group = client.group().add(HOUR, Order(1)).open().unwrap();
        let id = group.add(HOUR, Order(2)).unwrap();
        let before = spoil(&server, name);
        client.cancel(id).unwrap_err();
        unchanged(&server, &before, &format!("a cancel, {name}"));
        group.add(HOUR, Order(3)).unwrap_err();
        group.seal().unwrap_err();
        unchanged(&server, &before, &format!("an add and a seal, {name}"));
    }
    // The end of the last member inserts the callback, which has a partition here.
    for name in ["wait", "turn", "lanes"] {
        let _: String = server.ask(&["FLUSHALL"]);
        let client = open(&server).client().unwrap();
        let id = JobId::named("member");
        let member = NewJob::new(Order(1)).at(HOUR).id(id);
        client.group().add_job(member).then(charge("acme")).insert().unwrap();
        let before = spoil(&server, name);
        client.cancel(id).unwrap_err();
        unchanged(&server, &before, &format!("an end, {name}"));
    }
}

/// If someone has removed the callback of a group, its id is free once the group has ended.
#[test]
fn id_of_a_lost_callback_is_free() {
    let server = Server::start();
    let client = open(&server).client().unwrap();
    let (member, callback) = (JobId::named("member"), JobId::named("callback"));
    let of = |order, id| NewJob::new(Order(order)).at(HOUR).id(id);
    let group = client.group().add_job(of(1, member)).then_job(of(2, callback)).insert().unwrap();
    assert!(!client.insert_job(of(3, callback)).unwrap().is_new);
    let field = [&group.to_u128().to_be_bytes()[..], b"c"].concat();
    assert_eq!(server.by_hand::<i64>("HDEL", "groups", &[&field]), 1);
    assert!(client.cancel(member).unwrap().is_cancelled());
    assert!(client.insert_job(of(3, callback)).unwrap().is_new);
}

/// P110: The results of members go to the server if their group keeps them, and no others.
#[test]
fn group_that_keeps_no_results_is_sent_none() {
    let server = Server::start();
    let sent = || {
        let info: String = server.ask(&["INFO", "stats"]);
        let line = info.lines().find_map(|line| line.strip_prefix("total_net_input_bytes:"));
        line.unwrap().parse::<u64>().unwrap()
    };
    let jobs = open(&server).handle(|_: Order, run: &Run| run.set_result(&"r".repeat(50 << 10)));
    let jobs = jobs.start().unwrap();
    let orders = || (0..100).map(|n| (NOW, Order(n)));
    for keeps in [false, true] {
        let before = sent();
        let group = if keeps { jobs.group().keep_results() } else { jobs.group() };
        let open = group.add_all(orders()).open().unwrap();
        open.add_all(orders()).unwrap();
        wait_until("all ended", || open.info().unwrap().unwrap().completed == 200);
        let sent = sent() - before;
        assert_eq!(sent > 200 * (50 << 10), keeps, "{sent} bytes");
        assert!(keeps || sent < 5 << 20, "{sent} bytes");
    }
    jobs.check().unwrap();
    jobs.shutdown().unwrap();
}
