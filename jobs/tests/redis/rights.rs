//! Users who may do what is needed and nothing else, and users who may not do all of it.

use std::time::Duration;

use tickwheel_jobs::view::{JobFilter, KindFilter, ListState, View};
use tickwheel_jobs::{
    Builder, Durability, Fail, InsertErrorKind, JobState, Jobs, OpenError, Run, ServerProblem,
};

use crate::limits::everything;
use crate::server::{Server, user_of_the_manual, wait_until};
use crate::support::{Events, Gate, Log, MS, Order, each_runs_once, in_hand, noting, open};

const HOUR: Duration = Duration::from_secs(3600);

/// Makes the user of `docs/redis.md`, as it stands there.
fn make_user(server: &Server) {
    let line = user_of_the_manual();
    let words: Vec<&str> = line.split(' ').collect();
    let _: String = server.ask(&words);
}

fn change_user(server: &Server, rights: &[&str]) {
    let _: String = server.ask(&[&["ACL", "SETUSER", "shop"], rights].concat());
}

fn open_as_user(server: &Server) -> Builder {
    let url = format!("redis://shop:secret@127.0.0.1:{}/", server.port);
    Jobs::redis(url).unwrap().queue("shop")
}

fn nothing_was_denied(server: &Server) {
    let denied: Vec<redis::Value> = server.ask(&["ACL", "LOG"]);
    assert!(denied.is_empty(), "{denied:?}");
}

/// The user of `docs/redis.md` may do everything that clients and nodes do.
#[test]
fn user_of_the_manual_is_denied_nothing() {
    let server = Server::start();
    make_user(&server);
    everything(|| open_as_user(&server));
    nothing_was_denied(&server);
}

/// Redis P20: A missing right is named when the jobs are opened. Before, rights were not checked: jobs were late, lost
/// their leases or were stored although they were refused.
#[test]
fn right_that_is_missing_is_named_at_opening() {
    let server = Server::start();
    make_user(&server);
    let missing = [
        ("-zadd", "+zadd", "ZADD tw:{shop}:jobs", true),
        ("-hgetall", "+hgetall", "HGETALL tw:{shop}:jobs", true),
        ("resetchannels", "&tw:{shop}:wake", "PUBLISH tw:{shop}:wake", true),
        ("-subscribe", "+subscribe", "SUBSCRIBE tw:{shop}:wake", false),
        ("-ping", "+ping", "PING", false),
    ];
    let denied = |opened: Result<(), OpenError>| match opened {
        Err(OpenError::Server { problem: ServerProblem::Denied(what), .. }) => what,
        other => panic!("{other:?}"),
    };
    for (without, with, what, of_clients) in missing {
        change_user(&server, &[without]);
        let node = open_as_user(&server).handle(|_: Order, _| Ok(())).start().map(drop);
        let said = denied(node);
        assert!(said.contains(what), "{without}: {said}");
        let client = open_as_user(&server).client().map(drop);
        match of_clients {
            true => assert!(denied(client).contains(what), "{without}"),
            false => client.unwrap(),
        }
        nothing_was_denied(&server);
        change_user(&server, &[with]);
    }
    open_as_user(&server).handle(|_: Order, _| Ok(())).start().unwrap().shutdown().unwrap();
    nothing_was_denied(&server);
}

/// P101: A right that is missing is not tried at opening, so it does not appear in `ACL LOG`: any right of the manual's
/// user but the two with which the server is asked. Before a fix, six of them were tried, and two were in no list.
#[test]
fn right_that_is_missing_is_not_tried() {
    let server = Server::start();
    make_user(&server);
    let url = format!("redis://shop:secret@127.0.0.1:{}/", server.port);
    let line = user_of_the_manual();
    let rights: Vec<&str> = line.split(" +").skip(1).collect();
    assert!(rights.len() > 30, "{rights:?}");
    for right in rights {
        change_user(&server, &[&format!("-{right}")]);
        let opened = Jobs::redis(&*url)
            .and_then(|jobs| jobs.queue("shop").handle(|_: Order, _| Ok(())).start());
        let problem = match opened.map(drop) {
            Err(OpenError::Server { problem, .. }) => problem,
            other => panic!("{right}: {other:?}"),
        };
        assert!(matches!(problem, ServerProblem::Denied(_)), "{right}: {problem:?}");
        if !["evalsha", "script|load"].contains(&right) {
            nothing_was_denied(&server);
        }
        let _: String = server.ask(&["ACL", "LOG", "RESET"]);
        change_user(&server, &[&format!("+{right}")]);
    }
}

/// A client without the right to write can read. It is not refused for commands that it never sends.
#[test]
fn client_that_may_write_nothing_can_read() {
    let server = Server::start();
    make_user(&server);
    let writer = open(&server).queue("shop").client().unwrap();
    writer.insert(HOUR, Order(1)).unwrap();
    let group = writer.group().keep_results().insert().unwrap();
    change_user(&server, &["-@write", "+evalsha", "-publish"]);
    let reader = open_as_user(&server).client().unwrap();
    assert_eq!(reader.pending().count(), 1);
    let metrics = reader.metrics().unwrap().to_string();
    assert!(
        metrics.contains("tickwheel_jobs_pending{kind=\"order\",queue=\"shop\"} 1\n"),
        "{metrics}"
    );
    let id = reader.pending().next().unwrap().id;
    assert_eq!(reader.why_pending(id).unwrap().len(), 2, "its time, and no node");
    assert_eq!(reader.queue().limits().unwrap(), []);
    assert_eq!(reader.groups().unwrap().len(), 1);
    let mut results = reader.group_by_id(group).results();
    change_user(&server, &["-evalsha"]);
    results.next_page().unwrap_err();
    change_user(&server, &["+evalsha"]);
    let _: String = server.ask(&["ACL", "LOG", "RESET"]);
    assert_eq!(results.next_page().unwrap(), [], "the next call tries again");
    let view = View::new(reader.clone());
    assert_eq!(view.overview().unwrap().pending, 1);
    assert_eq!(view.kinds(&KindFilter::default(), None, 9).unwrap().rows.len(), 1);
    assert_eq!(view.jobs(&JobFilter::new(ListState::Pending), None, 9).unwrap().rows.len(), 1);
    assert!(view.job(id).unwrap().is_some());
    assert_eq!(reader.by_ids([id]).count(), 1);
    assert!(!reader.queue().is_paused().unwrap());
    reader.check().unwrap();
    nothing_was_denied(&server);
    reader.queue().pause().unwrap_err();
    reader.by_ids([id]).cancel_all().unwrap().run().unwrap_err();
    reader.queue().hold(HOUR).unwrap_err();
    reader.group().add(HOUR, Order(3)).insert().unwrap_err();
    reader.insert(HOUR, Order(2)).unwrap_err();
    assert_eq!(reader.count().unwrap().pending, 1);
}

/// P85: Metrics whose gauges the user may not read are an error, and no page without gauges. The counters of the
/// process need no right.
#[test]
fn metrics_without_the_right_to_read_are_refused() {
    let server = Server::start();
    make_user(&server);
    let jobs = open_as_user(&server).handle(|_: Order, _| Ok(())).start().unwrap();
    let client = open_as_user(&server).client().unwrap();
    for right in ["hgetall", "hvals", "zcount"] {
        change_user(&server, &[&format!("-{right}")]);
        for asks in [&client, &jobs.client()] {
            asks.metrics().map(drop).expect_err(right);
        }
        let counters = jobs.process_metrics().to_string();
        assert!(counters.contains("tickwheel_jobs_running_limit"), "{right}: {counters}");
        change_user(&server, &[&format!("+{right}")]);
        client.metrics().unwrap();
    }
    jobs.shutdown().unwrap();
}

/// Redis P5: A refused notification loses no job, and its insert succeeds. It comes after all writes of a script:
/// before a fix, the insert was refused, and the job was stored.
#[test]
fn notification_that_is_refused_loses_no_job() {
    let server = Server::start();
    make_user(&server);
    let log = Log::default();
    let jobs = noting(open_as_user(&server), &log);
    let client = open_as_user(&server).client().unwrap();
    change_user(&server, &["resetchannels"]);
    client.insert(100 * MS, Order(1)).unwrap();
    jobs.insert(100 * MS, Order(2)).unwrap();
    each_runs_once(&client, jobs, &log, 2);
}

/// Redis P6: A claim that lacks a right leaves its jobs pending. Before a fix, it removed them from the pending jobs
/// before it failed: they were in no set, and one that was cancelled then left its fence behind for good.
#[test]
fn claim_that_lacks_a_right_leaves_its_jobs_pending() {
    let server = Server::start();
    make_user(&server);
    let (log, events) = (Log::default(), Events::default());
    let jobs = noting(events.of(open_as_user(&server)), &log);
    let client = open(&server).queue("shop").client().unwrap();
    change_user(&server, &["-zadd"]);
    let cancelled = client.insert(Duration::ZERO, Order(1)).unwrap();
    client.insert(Duration::ZERO, Order(2)).unwrap();
    wait_until("two commits have failed", || events.errors().len() >= 2);
    client.check().unwrap();
    assert_eq!(client.count().unwrap().pending, 2);
    assert!(client.cancel(cancelled).unwrap().is_cancelled());
    client.check().unwrap();
    change_user(&server, &["+zadd"]);
    wait_until("the other one ran", || log.of(2) == 1);
    wait_until("it ended", || in_hand(&client) == 0);
    client.check().unwrap();
    jobs.shutdown().unwrap();
    log.each_once(1);
}

/// The end of a run that lacks a right leaves its claim, and is stored once the right is back. Before a fix, it removed
/// the claim, marked the job as dead, and failed: the job was in no list, and no date was noted after which it goes.
#[test]
fn end_of_a_run_that_lacks_a_right_leaves_its_claim() {
    let server = Server::start();
    make_user(&server);
    let (events, gate) = (Events::default(), Gate::default());
    let its_gate = gate.clone();
    let handler = move |_: Order, _: &Run| -> Result<(), Fail> {
        its_gate.wait();
        Err(Fail::dead("no such order"))
    };
    let jobs = events.of(open_as_user(&server)).handle(handler).start().unwrap();
    let client = open(&server).queue("shop").client().unwrap();
    let id = client.insert(Duration::ZERO, Order(1)).unwrap();
    wait_until("it runs", || in_hand(&client) == 1);
    change_user(&server, &["-zadd"]);
    gate.open();
    for failed in 1..=3 {
        wait_until("a commit has failed", || events.errors().len() >= failed);
        client.check().unwrap();
    }
    assert_eq!(client.count().unwrap().dead, 0);
    change_user(&server, &["+zadd"]);
    wait_until("it is dead", || client.count().unwrap().dead == 1);
    assert_eq!(client.get(id).unwrap().unwrap().state, JobState::Dead);
    client.check().unwrap();
    jobs.shutdown().unwrap();
}

/// Redis P5: An insert whose script fails midway fails with `Unknown`, because the writes of the script stay. Before a
/// fix, it said that nothing was stored.
#[test]
fn insert_whose_script_fails_midway_is_unknown() {
    let server = Server::start();
    make_user(&server);
    let client = open_as_user(&server).client().unwrap();
    client.insert(HOUR, Order(1)).unwrap();
    change_user(&server, &["-hincrby"]);
    let refused = client.insert(HOUR, Order(2)).unwrap_err();
    assert!(matches!(refused.kind(), InsertErrorKind::Unknown(_)), "{:?}", refused.kind());
    // A call that the server refuses as a whole has done nothing.
    change_user(&server, &["+hincrby", "-evalsha"]);
    let refused = client.insert(HOUR, Order(3)).unwrap_err();
    assert!(matches!(refused.kind(), InsertErrorKind::Store(_)), "{:?}", refused.kind());
}

/// A flush fails while the server refuses the inserts before it, and succeeds once they are stored. Before a fix, it
/// said that they were.
#[test]
fn flush_fails_while_inserts_are_refused() {
    let server = Server::start();
    make_user(&server);
    let client = open_as_user(&server).durability(Durability::Buffered).client().unwrap();
    change_user(&server, &["-evalsha"]);
    let id = client.insert(HOUR, Order(1)).unwrap();
    (0..3).for_each(|_| drop(client.flush().unwrap_err()));
    change_user(&server, &["+evalsha"]);
    client.flush().unwrap();
    assert!(client.get(id).unwrap().is_some());
}
