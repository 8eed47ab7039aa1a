//! The command `tickwheel-jobs` on a Redis server, beside a running application: this process.

#![expect(clippy::disallowed_methods, reason = "another process is the subject, so time is real")]

#[allow(dead_code, reason = "the tests of the store use the rest")]
#[path = "../../jobs/tests/redis/server.rs"]
mod server;
#[allow(dead_code, reason = "the tests of the store use the rest")]
#[path = "../../jobs/tests/redis/cluster_servers.rs"]
mod cluster_servers;
#[path = "../../jobs/tests/redis/fake_time.rs"]
mod fake_time;
#[path = "../../jobs/tests/redis/installed.rs"]
mod installed;
#[path = "cli/by_hand.rs"]
mod by_hand;
#[path = "cli/chosen.rs"]
mod chosen;
#[path = "cli/follow.rs"]
mod follow;
#[path = "cli/queue.rs"]
mod queue;
#[path = "cli/restored.rs"]
mod restored;
#[cfg(feature = "redis-tls")]
#[allow(dead_code, reason = "the tests of the store use the rest")]
#[path = "../../jobs/tests/redis/secured.rs"]
mod secured;
#[path = "cli/shared.rs"]
mod shared;
#[cfg(feature = "redis-tls")]
#[path = "cli/tls.rs"]
mod tls;
#[path = "cli/settings.rs"]
mod settings;
#[path = "cli/top.rs"]
mod top;
#[path = "cli/two_builds.rs"]
mod two_builds;
#[path = "cli/verbs.rs"]
mod verbs;

use std::time::{Duration, SystemTime};

use tickwheel_jobs::{Builder, Jobs};

use cluster_servers::Cluster;
use installed::server;
use server::{Server, free_port};
use shared::*;

type Place = Server;

fn place() -> Option<Server> {
    server(&[])
}

impl Server {
    fn store(&self) -> String {
        self.url()
    }

    fn builder(&self) -> Builder {
        Jobs::redis(self.url()).unwrap()
    }
}

/// A relative time counts by the clock of the server, and not by that of this machine. `list --from` counted
/// by this machine's.
#[test]
fn relative_time_counts_by_the_clock_of_the_server() {
    let Some(library) = fake_time::library() else { return };
    let Some(app) = application() else { return };
    let made: Vec<String> =
        (1..4).map(|hour| app.jobs.insert(hour * HOUR, Close(1)).unwrap().to_string()).collect();
    for clock in ["+9h", "-9h"] {
        let far_off = |args: &[&str]| {
            let mut command = command(&app.store, args);
            Ended::of(command.env("LD_PRELOAD", &library).env("FAKETIME", clock)).ok()
        };
        let list = ["list", "--json", "--from", "1h 30m", "--to", "2h 30m"];
        let listed = far_off(&list);
        assert_eq!(ids(&lines(&listed)), made[1..2], "{clock}");
        far_off(&["reschedule", &made[2], "--at", "5h"]);
        let moved = app.jobs.get(made[2].parse().unwrap()).unwrap().unwrap();
        let left = moved.due.duration_since(SystemTime::now()).unwrap();
        assert!(left > 4 * HOUR && left <= 5 * HOUR, "{clock}: {left:?}");
    }
}

/// A queue that the server does not have is not made. Another database of the server has no queue at all.
#[test]
fn queue_that_is_absent_is_not_made() {
    let Some(server) = server(&[]) else { return };
    let none = call(server.url(), &["stats"]);
    assert_eq!(none.code, 2);
    assert!(none.err.contains("no queue \"jobs\"; it has none"), "{}", none.err);
    assert_eq!(server.ask::<u64>(&["DBSIZE"]), 0);

    server.builder().client().unwrap().insert(HOUR, Close(1)).unwrap();
    let before: u64 = server.ask(&["DBSIZE"]);
    let wrong = call(server.url(), &["--queue", "mail", "list"]);
    assert_eq!(wrong.code, 2);
    assert!(wrong.err.contains("no queue \"mail\"; it has \"jobs\""), "{}", wrong.err);
    assert_eq!(server.ask::<u64>(&["DBSIZE"]), before);
    let other = call(format!("{}1", server.url()), &["list"]);
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
    let lines = json(&url, &["queues", "--json"]);
    let of = |line: &serde_json::Value| {
        (line["queue"].as_str().unwrap().to_owned(), line["pending"].as_u64().unwrap())
    };
    assert_eq!(
        lines.iter().map(of).collect::<Vec<_>>(),
        wanted.iter().map(|name| (name.to_string(), 1)).collect::<Vec<_>>()
    );
}

/// The queues of a server are listed without a walk over its keys, and one whose keys were removed is not among them.
#[test]
fn queues_are_listed_without_a_scan() {
    let Some(server) = server(&[]) else { return };
    for queue in ["mail", "shop"] {
        let client = Jobs::redis(server.url()).unwrap().queue(queue).client().unwrap();
        client.insert(HOUR, Close(1)).unwrap();
    }
    let _: String = server.ask(&["ACL", "SETUSER", "default", "-scan", "-keys"]);
    let names = || {
        let lines = json(server.url(), &["queues", "--json"]);
        let name = |line: &serde_json::Value| line["queue"].as_str().unwrap().to_owned();
        lines.iter().map(name).collect::<Vec<_>>()
    };
    assert_eq!(names(), ["mail", "shop"]);
    // There is no default queue, so none is named.
    let stats = ok(server.url(), &["--queue", "mail", "stats"]);
    assert!(stats.contains("queues     mail, shop\n"), "{stats}");
    let _: u64 = server.ask(&["DEL", "tw:{mail}:kinds"]);
    assert_eq!(names(), ["shop"]);
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
    let wrong = call(url.replace("shop", ""), &["stats"]);
    assert_eq!(wrong.code, 2);
    assert!(wrong.err.contains("\"master\"") && !wrong.err.contains("sesame"), "{}", wrong.err);
}

/// A server that is absent or denies access is named by its address, without the password.
#[test]
fn server_that_cannot_be_used_is_named() {
    let absent = format!("127.0.0.1:{}", free_port());
    let refused = call(format!("redis://{absent}/"), &["stats"]);
    assert_eq!((refused.code, &*refused.out), (2, ""));
    assert!(refused.err.contains(&absent), "{}", refused.err);
    let wrong = call("redis://127.0.0.1:port/", &["stats"]);
    assert_eq!(wrong.code, 2);
    assert!(wrong.err.contains("URL"), "{}", wrong.err);

    let Some(server) = server(&["--requirepass", "open sesame"]) else { return };
    let address = format!("127.0.0.1:{}", server.port);
    for login in ["", ":mellon@"] {
        let denied = call(format!("redis://{login}{address}/"), &["stats"]);
        assert_eq!(denied.code, 2);
        assert!(denied.err.contains(&address), "{}", denied.err);
        assert!(!denied.err.contains("mellon"), "{}", denied.err);
    }
    let url = format!("redis://:open%20sesame@{address}/");
    let jobs = Jobs::redis(&url).unwrap().client().unwrap();
    jobs.insert(HOUR, Close(1)).unwrap();
    let stats = ok(&url, &["stats"]);
    assert!(stats.contains(&address) && !stats.contains("sesame"), "{stats}");
}

/// P105: The command takes every form of URL that the library takes, and prints no password of any: neither
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
        let denied = call(url.replace("sesame", "mellon"), &["stats"]);
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

/// P105: The password need not be an argument, which every user of the machine can read: it may come from a file or
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
        Ended::of(command.env("TICKWHEEL_STORE_PASSWORD", password).args(file))
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
