//! The command `tickwheel-jobs` on a Redis server, beside a running application: this process.

#![expect(clippy::disallowed_methods, reason = "another process is the subject, so time is real")]

#[allow(dead_code, reason = "the tests of the store use the rest")]
#[path = "redis/server.rs"]
mod server;
#[allow(dead_code, reason = "the tests of the store use the rest")]
#[path = "redis/cluster_servers.rs"]
mod cluster_servers;
#[path = "redis/fake_time.rs"]
mod fake_time;
#[path = "redis/installed.rs"]
mod installed;

use std::process::Command;
use std::sync::mpsc::{self, Receiver, Sender};
use std::time::{Duration, Instant, SystemTime};

use serde::{Deserialize, Serialize};
use serde_json::Value;
use tickwheel_jobs::{Fail, Job, JobId, Jobs, Retry};

use cluster_servers::Cluster;
use installed::server;
use server::{Server, free_port, wait_until};

const HOUR: Duration = Duration::from_secs(3600);
/// Longer than anything takes on a loaded machine.
const LONG: Duration = Duration::from_secs(60);

#[derive(Serialize, Deserialize)]
struct Close(u64);

impl Job for Close {
    const KIND: &'static str = "close-order";
}

#[derive(Serialize, Deserialize)]
struct Push {
    to: String,
}

impl Job for Push {
    const KIND: &'static str = "push";
}

/// What a call of the command gave.
struct Ended {
    code: i32,
    out: String,
    err: String,
}

fn command(url: &str, args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_tickwheel-jobs"));
    command.arg(url).args(args);
    command
}

fn call(url: &str, args: &[&str]) -> Ended {
    let ended = command(url, args).output().unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    let code = ended.status.code().unwrap();
    Ended { code, out: text(ended.stdout), err: text(ended.stderr) }
}

/// Calls the command, which has nothing to complain about.
fn ok(url: &str, args: &[&str]) -> String {
    let Ended { code, out, err } = call(url, args);
    assert_eq!((code, &*err), (0, ""), "{args:?}: {out}");
    out
}

fn json(url: &str, args: &[&str]) -> Vec<Value> {
    ok(url, args).lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

fn ids(lines: &[Value]) -> Vec<&str> {
    lines.iter().map(|line| line["id"].as_str().unwrap()).collect()
}

/// An application that closes orders, and whose pushes fail unless they are allowed.
struct Application {
    jobs: Jobs,
    url: String,
    closed: Receiver<u64>,
    allow: Sender<()>,
}

fn application(server: &Server) -> Application {
    let (closing, closed) = mpsc::channel();
    let (allow, allowed) = mpsc::channel();
    let allowed = std::sync::Mutex::new(allowed);
    let jobs = Jobs::redis(server.url())
        .unwrap()
        .handle(move |close: Close, _| Ok(closing.send(close.0)?))
        .handle_with(Retry::never(), move |push: Push, _| {
            let allowed = allowed.lock().unwrap().try_recv();
            allowed.map_err(|_| Fail::dead(format!("no route to {:?}", push.to)))
        })
        .start()
        .unwrap();
    Application { jobs, url: server.url(), closed, allow }
}

impl Application {
    fn wait_for_gone(&self, id: &str) {
        let id: JobId = id.parse().unwrap();
        wait_until("the job is gone", || self.jobs.get(id).unwrap().is_none());
    }

    fn wait_for_dead(&self, wanted: u64) {
        wait_until("jobs are dead", || self.jobs.count().unwrap().dead == wanted);
    }
}

/// `list` and `show` print the jobs of a server as they print those of a file.
#[test]
fn jobs_are_listed_and_shown() {
    let Some(server) = server(&[]) else { return };
    let app = application(&server);
    let base = SystemTime::now() + 24 * HOUR;
    let close = |hour: u32| app.jobs.insert(base + hour * HOUR, Close(hour.into())).unwrap();
    let made: Vec<String> = (0..4).map(|hour| close(hour).to_string()).collect();
    let push = Push { to: "Zoë\n\u{1b}[2J".into() };
    let push = app.jobs.keyed("user 7").insert(base, push).unwrap().to_string();

    let listed = json(&app.url, &["list", "--json", "--kind", "close-order"]);
    assert_eq!(ids(&listed), made);
    assert_eq!((&listed[1]["payload"], &listed[1]["state"]), (&1.into(), &"pending".into()));
    let later = json(&app.url, &["list", "--json", "--from", "24h 30m", "--to", "26h 30m"]);
    assert_eq!(ids(&later), made[1..3]);
    let some = call(&app.url, &["list", "--json", "--limit", "2"]);
    assert_eq!((some.code, some.out.lines().count()), (0, 2));
    assert!(some.err.contains("more than 2"), "{}", some.err);

    let shown = ok(&app.url, &["show", &push]);
    assert!(shown.contains("user 7") && !shown.contains('\u{1b}'), "{shown:?}");
    let shown = &json(&app.url, &["show", "--json", &push])[0];
    assert_eq!((&shown["key"], &shown["kind"]), (&"user 7".into(), &"push".into()));
    let absent = call(&app.url, &["show", &JobId::new().to_string()]);
    assert_eq!((absent.code, &*absent.out), (1, ""));
}

/// A relative time counts by the clock of the server, and not by that of this machine. `list --from` counted
/// by this machine's.
#[test]
fn relative_time_counts_by_the_clock_of_the_server() {
    let Some(library) = fake_time::library() else { return };
    let Some(server) = server(&[]) else { return };
    let app = application(&server);
    let made: Vec<String> =
        (1..4).map(|hour| app.jobs.insert(hour * HOUR, Close(1)).unwrap().to_string()).collect();
    for clock in ["+9h", "-9h"] {
        let far_off = |args: &[&str]| {
            let mut command = Command::new(env!("CARGO_BIN_EXE_tickwheel-jobs"));
            command.arg(&app.url).args(args).env("LD_PRELOAD", &library).env("FAKETIME", clock);
            let ended = command.output().unwrap();
            assert!(ended.status.success(), "{}", String::from_utf8_lossy(&ended.stderr));
            String::from_utf8(ended.stdout).unwrap()
        };
        let list = ["list", "--json", "--from", "1h 30m", "--to", "2h 30m"];
        let listed = far_off(&list);
        let listed: Vec<Value> =
            listed.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        assert_eq!(ids(&listed), made[1..2], "{clock}");
        far_off(&["reschedule", &made[2], "--at", "5h"]);
        let moved = app.jobs.get(made[2].parse().unwrap()).unwrap().unwrap();
        let left = moved.due.duration_since(SystemTime::now()).unwrap();
        assert!(left > 4 * HOUR && left <= 5 * HOUR, "{clock}: {left:?}");
    }
}

/// A job that `cancel` names never runs. A job that `reschedule` names runs at its new due time.
#[test]
fn jobs_are_cancelled_and_moved() {
    let Some(server) = server(&[]) else { return };
    let app = application(&server);
    let cancelled = app.jobs.insert(HOUR, Close(1)).unwrap().to_string();
    let moved = app.jobs.insert(2 * HOUR, Close(2)).unwrap().to_string();
    assert!(ok(&app.url, &["cancel", &cancelled]).contains("cancelled"));
    assert_eq!(app.jobs.get(cancelled.parse().unwrap()).unwrap(), None);
    let again = call(&app.url, &["cancel", &cancelled]);
    assert_eq!(again.code, 1);
    assert!(again.err.contains(&cancelled), "{}", again.err);

    let at = "2126-11-22T10:00:00Z";
    assert!(ok(&app.url, &["reschedule", &moved, "--at", at]).contains("2126-11-22T10:00:00.000Z"));
    let later = ok(&app.url, &["reschedule", &moved, "--in", "2h 30m"]);
    assert!(later.contains("in 2h 29m") || later.contains("in 2h 30m"), "{later}");
    assert!(app.closed.try_recv().is_err());
    ok(&app.url, &["reschedule", &moved, "--in", "200ms"]);
    assert_eq!(app.closed.recv_timeout(LONG), Ok(2));
    app.wait_for_gone(&moved);
    let gone = call(&app.url, &["reschedule", &moved, "--in", "1s"]);
    assert_eq!(gone.code, 1);
    assert!(gone.err.contains(&moved), "{}", gone.err);
    app.jobs.shutdown().unwrap();
    assert!(app.closed.try_recv().is_err());
}

/// `cancel` of a running job sets `Run::is_cancelled`, and exits with 1 because the job has started.
#[test]
fn cancel_of_a_running_job_reaches_its_run() {
    let Some(server) = server(&[]) else { return };
    let (started, starts) = mpsc::channel();
    let jobs = Jobs::redis(server.url())
        .unwrap()
        .handle(move |_: Close, run| {
            started.send(())?;
            wait_until("the run is told", || run.is_cancelled());
            Err(Fail::interrupted())
        })
        .start()
        .unwrap();
    let id = jobs.insert(Duration::ZERO, Close(1)).unwrap().to_string();
    starts.recv_timeout(LONG).unwrap();
    assert_eq!(ids(&json(&server.url(), &["list", "running", "--json"])), [&*id]);
    let moved = call(&server.url(), &["reschedule", &id, "--in", "1h"]);
    assert_eq!(moved.code, 1);
    assert!(moved.err.contains(&format!("{id} was claimed")), "{}", moved.err);
    let late = call(&server.url(), &["cancel", &id]);
    assert_eq!(late.code, 1);
    assert!(late.err.contains("asked to stop"), "{}", late.err);
    wait_until("the job is gone", || jobs.get(id.parse().unwrap()).unwrap().is_none());
    jobs.shutdown().unwrap();
}

/// Dead jobs are listed with their error, and can be retried and deleted, one by one and with `--all`.
#[test]
fn dead_jobs_are_listed_retried_and_deleted() {
    let Some(server) = server(&[]) else { return };
    let app = application(&server);
    let push = |to: &str| Push { to: to.to_owned() };
    let retried = app.jobs.insert(Duration::ZERO, push("ann")).unwrap().to_string();
    let other = app.jobs.insert(Duration::ZERO, push("bob")).unwrap().to_string();
    app.wait_for_dead(2);
    let listed = json(&app.url, &["list", "dead", "--json"]);
    assert_eq!(ids(&listed), [&*retried, &*other]);
    assert_eq!(listed[0]["error"], "no route to \"ann\"");
    assert!(listed[0]["died"].is_string());
    let wrong = call(&app.url, &["cancel", &retried]);
    assert_eq!(wrong.code, 1);
    assert!(wrong.err.contains("is dead: retry it"), "{}", wrong.err);

    app.allow.send(()).unwrap();
    assert!(ok(&app.url, &["retry", &retried]).contains("retried"));
    app.wait_for_gone(&retried);
    assert_eq!(call(&app.url, &["retry", &retried]).code, 1);
    assert!(ok(&app.url, &["delete", &other]).contains("deleted"));
    assert_eq!(call(&app.url, &["delete", &other]).code, 1);

    // More than a page has.
    app.jobs.insert_batch((0..300).map(|n| (Duration::ZERO, push(&n.to_string())))).unwrap();
    app.wait_for_dead(300);
    let none = call(&app.url, &["retry", "--all", "--kind", "close-order"]);
    assert_eq!((none.code, &*none.out), (1, "0 jobs are retried\n"));
    (0..200).for_each(|_| app.allow.send(()).unwrap());
    assert_eq!(ok(&app.url, &["retry", "--all", "--yes"]), "300 jobs are retried\n");
    app.wait_for_dead(100);
    assert_eq!(
        ok(&app.url, &["delete", "--all", "--kind", "push", "--yes"]),
        "100 jobs are deleted\n"
    );
    assert_eq!(app.jobs.count().unwrap().dead, 0);
    app.jobs.check().unwrap();
}

/// `stats`, `check`, `watch` and `list schedules` work on a server.
#[test]
fn stats_check_and_watch() {
    let Some(server) = server(&[]) else { return };
    let app = application(&server);
    app.jobs.insert(HOUR, Close(1)).unwrap();
    app.jobs.insert(2 * HOUR, Close(2)).unwrap();
    app.jobs.schedule("sweep", HOUR, Push { to: "all".into() }).unwrap();
    let stats = &json(&app.url, &["stats", "--json"])[0];
    assert_eq!((&stats["pending"], &stats["schedules"]), (&2.into(), &1.into()));
    let kinds = stats["kinds"].as_array().unwrap();
    let close = kinds.iter().find(|kind| kind["kind"] == "close-order").unwrap();
    assert_eq!((&close["jobs"], &close["overdue"]), (&2.into(), &false.into()));
    assert_eq!(stats["next_due"], close["next_due"]);
    assert!(stats["memory_bytes"].as_u64().unwrap() > 100);
    assert!(stats.get("file_bytes").is_none());
    let text = ok(&app.url, &["stats"]);
    assert!(text.contains(&format!("redis://127.0.0.1:{}/0", server.port)), "{text}");

    let schedules = json(&app.url, &["list", "schedules", "--json"]);
    assert_eq!((&schedules[0]["name"], &schedules[0]["kind"]), (&"sweep".into(), &"push".into()));
    assert_eq!(ok(&app.url, &["check"]), "ok: 2 jobs, 0 dead\n");
    let begun = Instant::now();
    let lines = json(&app.url, &["watch", "--times", "2", "--json"]);
    assert!(begun.elapsed() >= Duration::from_secs(1));
    assert_eq!((&lines[1]["pending"], &lines[1]["running"]), (&2.into(), &0.into()));
}

/// `--queue` opens an existing queue. For an absent one the command names those that exist, and makes none.
#[test]
fn queue_is_opened_by_its_name_and_never_made() {
    let Some(server) = server(&[]) else { return };
    let none = call(&server.url(), &["stats"]);
    assert_eq!(none.code, 2);
    assert!(none.err.contains("no queue \"jobs\"; it has none"), "{}", none.err);
    assert_eq!(server.ask::<u64>(&["DBSIZE"]), 0);

    let app = application(&server);
    let mails = Jobs::redis(&app.url).unwrap().queue("Mails").client().unwrap();
    let id = mails.insert(HOUR, Close(1)).unwrap().to_string();
    assert_eq!(ids(&json(&app.url, &["--queue", "mails", "list", "--json"])), [&*id]);
    assert_eq!(ids(&json(&app.url, &["--queue", "MAILS", "list", "--json"])), [&*id]);
    assert_eq!(call(&app.url, &["show", &id]).code, 1);
    let listed = json(&app.url, &["stats", "--json", "--queue", "mails"]);
    assert_eq!((&listed[0]["queue"], &listed[0]["pending"]), (&"mails".into(), &1.into()));
    assert_eq!(listed[0]["queues"], serde_json::json!(["mails"]));
    let before: u64 = server.ask(&["DBSIZE"]);
    let wrong = call(&app.url, &["--queue", "mail", "list"]);
    assert_eq!(wrong.code, 2);
    let wanted = "no queue \"mail\"; it has \"jobs\", \"mails\"";
    assert!(wrong.err.contains(wanted), "{}", wrong.err);
    assert_eq!(server.ask::<u64>(&["DBSIZE"]), before);
    // Another database of the server has no queue at all.
    let other = call(&format!("{}1", app.url), &["list"]);
    assert_eq!(other.code, 2);
    assert!(other.err.contains("/1 has no queue \"jobs\""), "{}", other.err);
}

/// Every queue of a cluster is found, on any of its nodes.
#[test]
fn queues_of_a_cluster_are_found_on_every_node() {
    if server(&[]).is_none() {
        return;
    }
    let cluster = Cluster::start(3, Duration::from_secs(10));
    let url = cluster.url(&[2]);
    // One on each node.
    let on = |node: usize| {
        let mut names = (0..).map(|n| format!("queue_{n}"));
        names.find(|name| cluster.node_of(name, 0) == node).unwrap()
    };
    let queues = [on(0), on(1), on(2)];
    for queue in &queues {
        let client = Jobs::redis(&url).unwrap().queue(queue).client().unwrap();
        let id = client.insert(HOUR, Close(1)).unwrap().to_string();
        assert_eq!(ids(&json(&url, &["--queue", queue, "list", "--json"])), [&*id]);
        ok(&url, &["--queue", queue, "check"]);
    }
    let stats = &json(&url, &["--queue", &queues[0], "stats", "--json"])[0];
    let mut listed: Vec<&str> =
        stats["queues"].as_array().unwrap().iter().map(|queue| queue.as_str().unwrap()).collect();
    let mut wanted: Vec<&str> = queues.iter().map(|queue| &**queue).collect();
    listed.sort_unstable();
    wanted.sort_unstable();
    assert_eq!(listed, wanted);
    assert!(stats["memory_bytes"].as_u64().unwrap() > 100);
    let none = call(&url, &["stats"]);
    assert_eq!(none.code, 2);
    assert!(queues.iter().all(|queue| none.err.contains(queue)), "{}", none.err);
}

/// A URL of sentinels leads to the server that they name. No password is printed.
#[test]
fn server_that_sentinels_name_is_used() {
    let Some(server) = server(&["--requirepass", "sesame"]) else { return };
    let config = format!(
        "sentinel monitor shop 127.0.0.1 {} 1\nsentinel auth-pass shop sesame\n",
        server.port
    );
    let sentinel = Server::sentinel(&config);
    let url = format!("redis-sentinel://:sesame@127.0.0.1:{}/?master=shop", sentinel.port);
    let jobs = Jobs::redis(&url).unwrap().client().unwrap();
    let id = jobs.insert(HOUR, Close(1)).unwrap().to_string();
    assert_eq!(ids(&json(&url, &["list", "--json"])), [&*id]);
    let stats = ok(&url, &["stats"]);
    assert!(stats.contains(&format!("redis://127.0.0.1:{}/0", server.port)), "{stats}");
    assert!(!stats.contains("sesame"), "{stats}");
    let wrong = call(&url.replace("shop", ""), &["stats"]);
    assert_eq!(wrong.code, 2);
    assert!(wrong.err.contains("\"master\"") && !wrong.err.contains("sesame"), "{}", wrong.err);
}

/// A server that is absent or denies access is named by its address, without the password.
#[test]
fn server_that_cannot_be_used_is_named() {
    let absent = format!("127.0.0.1:{}", free_port());
    let refused = call(&format!("redis://{absent}/"), &["stats"]);
    assert_eq!((refused.code, &*refused.out), (2, ""));
    assert!(refused.err.contains(&absent), "{}", refused.err);
    let wrong = call("redis://127.0.0.1:port/", &["stats"]);
    assert_eq!(wrong.code, 2);
    assert!(wrong.err.contains("URL"), "{}", wrong.err);

    let Some(server) = server(&["--requirepass", "open sesame"]) else { return };
    let address = format!("127.0.0.1:{}", server.port);
    for login in ["", ":mellon@"] {
        let denied = call(&format!("redis://{login}{address}/"), &["stats"]);
        assert_eq!(denied.code, 2);
        assert!(denied.err.contains(&address), "{}", denied.err);
        assert!(!denied.err.contains("mellon"), "{}", denied.err);
    }
    let url = format!("redis://:open%20sesame@{address}/");
    let jobs = Jobs::redis(&url).unwrap().client().unwrap();
    jobs.insert(HOUR, Close(1)).unwrap();
    let stats = ok(&url, &["stats"]);
    assert!(stats.contains(&address) && !stats.contains("sesame"), "{stats}");
    let named = call(&url, &["cancel", "seventeen"]);
    assert_eq!(named.code, 2);
    assert!(named.err.contains("\"seventeen\""), "{}", named.err);
}

/// The command takes every form of URL that the library takes, and prints no password of any: neither
/// of a server that answers, nor of one that does not, nor when the URL stands in the wrong place.
#[test]
fn url_of_every_form_is_taken_and_its_password_stays_hidden() {
    let socket = std::env::temp_dir().join(format!("tickwheel-cli-{}.sock", std::process::id()));
    let socket = socket.to_str().unwrap();
    let Some(server) = server(&["--requirepass", "sesame", "--unixsocket", socket]) else { return };
    let address = format!("127.0.0.1:{}", server.port);
    let url = format!("redis://:sesame@{address}");
    Jobs::redis(&url).unwrap().client().unwrap().insert(HOUR, Close(1)).unwrap();
    let urls = [
        url.clone(),
        format!("valkey://:sesame@{address}"),
        format!("REDIS://:sesame@{address}"),
        format!(" redis://:sesame@{address}"),
        format!("unix://{socket}?pass=sesame"),
        format!("redis+unix://{socket}?pass=sesame"),
        format!("valkey+unix://{socket}?pass=sesame"),
    ];
    for url in urls {
        assert!(Jobs::redis(&url).is_ok(), "{url}");
        let stats = ok(&url, &["stats"]);
        assert!(stats.contains("pending    1") && !stats.contains("sesame"), "{stats}");
        let denied = call(&url.replace("sesame", "mellon"), &["stats"]);
        assert_eq!((denied.code, &*denied.out), (2, ""), "{url}");
        assert!(!denied.err.contains("mellon"), "{}", denied.err);
    }
    let nobody = ["valkeys://:sesame@h", "unix:///no/such?pass=sesame", "redsi://:sesame@h"];
    for url in nobody {
        let refused = call(url, &["stats"]);
        assert_eq!((refused.code, &*refused.out), (2, ""), "{url}");
        assert!(!refused.err.contains("sesame"), "{}", refused.err);
    }
    for args in [["list", &url], [&url, &url], [&url, "--help"]] {
        let printed = call(args[0], &args[1..]);
        assert!(!format!("{}{}", printed.out, printed.err).contains("sesame"), "{}", printed.err);
    }
    let places: [(&[&str], i32); 5] = [
        (&["show", &url], 1),
        (&["run-schedule", &url], 1),
        (&["cancel", &url], 2),
        (&["list", "--kind", &url], 2),
        (&["insert", &url, "1"], 2),
    ];
    for (args, code) in places {
        let wrong = call(&url, args);
        assert_eq!(wrong.code, code, "{}", wrong.err);
        assert!(wrong.err.contains("redis:..") && !wrong.err.contains("sesame"), "{}", wrong.err);
    }
}

/// The password need not be an argument, which every user of the machine can read: it may come from a file or
/// from the environment. The password of the URL goes before that of the environment. A URL with a password
/// beside a password file is an error.
#[test]
fn password_comes_from_a_file_or_from_the_environment() {
    let Some(server) = server(&["--requirepass", "open: sesame/?"]) else { return };
    let url = format!("redis://127.0.0.1:{}/", server.port);
    let own = url.replace("//", "//:open%3A%20sesame%2F%3F@");
    Jobs::redis(&own).unwrap().client().unwrap().insert(HOUR, Close(1)).unwrap();
    let with = |url: &str, password: &str, file: &[&str]| {
        let mut command = command(url, &["stats"]);
        let ended = command.env("TICKWHEEL_STORE_PASSWORD", password).args(file).output().unwrap();
        let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
        let code = ended.status.code().unwrap();
        Ended { code, out: text(ended.stdout), err: text(ended.stderr) }
    };
    let file = std::env::temp_dir().join(format!("tickwheel-cli-{}.password", std::process::id()));
    let option = ["--store-password-file", file.to_str().unwrap()];
    let absent = with(&url, "", &option);
    assert_eq!(absent.code, 2);
    assert!(absent.err.contains(option[1]), "{}", absent.err);
    assert_eq!(with(&url, "open: sesame/?", &[]).code, 0);
    assert_eq!(with(&own, "mellon", &[]).code, 0);
    let denied = with(&url, "mellon", &[]);
    assert_eq!(denied.code, 2);
    assert!(denied.err.contains("denies access"), "{}", denied.err);
    assert!(!denied.err.contains("mellon"), "{}", denied.err);
    for text in ["open: sesame/?", "open: sesame/?\n", "open: sesame/?\r\n"] {
        std::fs::write(&file, text).unwrap();
        let given = with(&url, "mellon", &option);
        assert_eq!((given.code, &*given.err), (0, ""), "{text:?}");
    }
    let two = with(&own, "", &option);
    assert_eq!(two.code, 2);
    assert!(two.err.contains("two passwords") && !two.err.contains("sesame"), "{}", two.err);
    std::fs::write(&file, "\n").unwrap();
    let empty = with(&url, "open: sesame/?", &option);
    assert!(empty.code == 2 && empty.err.contains("no password"), "{}", empty.err);
    std::fs::remove_file(&file).unwrap();
}

/// The verbs for work by hand do on a server what they do on a file: the beginning of an id, keys, `--all`
/// with filters, `insert`, and `run-schedule`. Times are those of the server.
#[test]
fn verbs_by_hand_work_on_a_server() {
    let Some(server) = server(&[]) else { return };
    let app = application(&server);
    let order = app.jobs.keyed("order-1").insert(HOUR, Close(1)).unwrap().to_string();
    let other = app.jobs.insert(2 * HOUR, Close(2)).unwrap().to_string();
    let digits = order.bytes().zip(other.bytes()).take_while(|(one, two)| one == two).count();
    assert_eq!(json(&app.url, &["show", "--json", &order[..=digits]])[0]["id"], *order);
    assert_eq!(json(&app.url, &["show", "--json", "order-1"])[0]["id"], *order);
    let both = call(&app.url, &["cancel", &order[..digits]]);
    assert_eq!((both.code, &*both.out), (2, ""));
    assert!(both.err.contains(&order) && both.err.contains(&other), "{}", both.err);
    ok(&app.url, &["cancel", &other[..=digits]]);

    let push = |to: &str| Push { to: to.to_owned() };
    for to in ["ann", "bob", "bob"] {
        app.jobs.insert(Duration::ZERO, push(to)).unwrap();
    }
    app.wait_for_dead(3);
    let bobs = ["delete", "--all", "--error", "\"bob\""];
    let refused = call(&app.url, &bobs);
    assert_eq!((refused.code, &*refused.out), (2, ""));
    assert!(refused.err.contains("2 jobs would be deleted"), "{}", refused.err);
    assert_eq!(app.jobs.count().unwrap().dead, 3);
    assert!(
        ok(&app.url, &[&bobs[..], &["--dry-run"]].concat()).ends_with("2 jobs would be deleted\n")
    );
    assert_eq!(ok(&app.url, &[&bobs[..], &["--yes"]].concat()), "2 jobs are deleted\n");
    assert_eq!(ok(&app.url, &["delete", "--all"]), "1 jobs are deleted\n");
    let unknown = call(&app.url, &["list", "--kind", "pusch"]);
    assert!(unknown.code == 2 && unknown.err.contains("\"push\""), "{}", unknown.err);

    let later = ["insert", "close-order", "7", "--in", "1h", "--key", "order-7"];
    assert!(ok(&app.url, &later).contains("(in "));
    let taken = call(&app.url, &later);
    assert!(taken.code == 1 && taken.err.contains("--replace"), "{}", taken.err);
    ok(&app.url, &["insert", "close-order", "8", "--key", "order-7", "--replace"]);
    assert_eq!(app.closed.recv_timeout(LONG), Ok(8));
    app.jobs.schedule("sweep", HOUR, Close(9)).unwrap();
    let next = app.jobs.schedules().unwrap()[0].next;
    ok(&app.url, &["run-schedule", "sweep"]);
    assert_eq!(app.closed.recv_timeout(LONG), Ok(9));
    assert_eq!(app.jobs.schedules().unwrap()[0].next, next);
    assert_eq!(ids(&json(&app.url, &["list", "--json"])), [&*order]);
    app.jobs.check().unwrap();
}
