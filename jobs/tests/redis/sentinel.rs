//! Servers that sentinels name: real sentinels that promote a replica, and others that say what a test
//! wants.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU16, Ordering};
use std::time::Duration;

use tickwheel_jobs::{Jobs, OpenError, ServerProblem};

use crate::sentinel_servers::{SentinelSet, master, replica_of, url};
use crate::server::{Server, free_port, wait_until};
use crate::support::{Log, Order, in_hand, noting};

const MINUTE: Duration = Duration::from_secs(60);

fn is_master(server: &Server) -> bool {
    let info: String = server.ask(&["INFO", "replication"]);
    info.contains("role:master")
}

/// Redis P6: Nodes go on with the replica that sentinels promote, and each job runs once.
#[test]
fn nodes_go_on_with_the_replica_that_sentinels_promote() {
    let mut set = SentinelSet::start();
    let url = url(&set.ports());
    let open = || Jobs::redis(&url).unwrap().call_timeout(MINUTE);
    let log = Log::default();
    let jobs = noting(open(), &log);
    let client = open().replicas(1).client().unwrap();
    for n in 0..50 {
        client.insert(Duration::ZERO, Order(n)).unwrap();
    }
    let later = client.insert(60 * MINUTE, Order(1000)).unwrap();
    wait_until("all ran", || log.len() == 50);
    wait_until("all ended", || in_hand(&jobs) == 0);
    wait_until("the replica has the ends", || {
        set.replica.ask::<u64>(&["HLEN", "tw:{jobs}:jobs"]) == 1
    });
    // Only now a second of silence is a failure: on a busy machine it may come from nothing.
    set.fails_after("1000");
    set.master.kill();
    // No server has the queue now, and the insert gets no answer before the replica is promoted.
    jobs.insert(Duration::ZERO, Order(50)).unwrap();
    assert!(is_master(&set.replica));
    wait_until("it ran on the new master", || log.of(50) == 1);
    set.fails_after("60000");
    assert!(jobs.get(later).unwrap().is_some());
    wait_until("hints come from the new master", || set.replica.listeners("jobs") > 0);
    // The old master comes back, with nothing, and as a replica for which an insert waits. Sentinels
    // would make it one too, but only after eight seconds.
    set.master.run();
    let _: () = set.master.ask(&["REPLICAOF", "127.0.0.1", &set.replica.port.to_string()]);
    client.insert(Duration::ZERO, Order(51)).unwrap();
    wait_until("it ran too", || log.of(51) == 1);
    wait_until("all ended", || in_hand(&jobs) == 0);
    jobs.check().unwrap();
    jobs.shutdown().unwrap();
    log.each_once(52);
    let servers = [&set.master, &set.replica];
    let roles = servers.map(|server| server.ask::<String>(&["INFO", "replication"]));
    assert!(!is_master(servers[0]) && is_master(servers[1]), "{roles:?}");
}

/// What answers every question with the address of a server of this host.
struct Sentinel {
    port: u16,
    named: Arc<AtomicU16>,
    asked: Arc<AtomicU16>,
    ended: Arc<AtomicBool>,
}

impl Sentinel {
    fn naming(server: u16) -> Sentinel {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let port = listener.local_addr().unwrap().port();
        let (named, ended) = (Arc::new(AtomicU16::new(server)), Arc::new(AtomicBool::new(false)));
        let asked = Arc::new(AtomicU16::new(0));
        let sentinel = Sentinel {
            port,
            named: Arc::clone(&named),
            asked: Arc::clone(&asked),
            ended: Arc::clone(&ended),
        };
        std::thread::spawn(move || {
            for client in listener.incoming() {
                if ended.load(Ordering::Acquire) {
                    return;
                }
                let Ok(mut client) = client else { continue };
                let mut buffer = [0; 256];
                while client.read(&mut buffer).is_ok_and(|many| many > 0) {
                    asked.fetch_add(1, Ordering::AcqRel);
                    let port = named.load(Ordering::Acquire).to_string();
                    let answer = format!("*2\r\n$9\r\n127.0.0.1\r\n${}\r\n{port}\r\n", port.len());
                    let _ = client.write_all(answer.as_bytes());
                }
            }
        });
        sentinel
    }

    fn name(&self, server: u16) {
        self.named.store(server, Ordering::Release);
    }
}

impl Drop for Sentinel {
    fn drop(&mut self) {
        self.ended.store(true, Ordering::Release);
        let _ = TcpStream::connect((Ipv4Addr::LOCALHOST, self.port));
    }
}

/// Redis P20: A sentinel that names a replica is passed over: the client calls the next one. If there is no other, the
/// error names the replica.
#[test]
fn sentinel_that_names_a_replica_is_passed_over() {
    let master = master();
    let replica = replica_of(master.port);
    let late = Sentinel::naming(replica.port);
    let right = Sentinel::naming(master.port);
    let refused = Jobs::redis(url(&[late.port])).unwrap_err();
    let OpenError::Server { server, problem } = refused else { panic!("{refused:?}") };
    assert_eq!((server, problem), (format!("127.0.0.1:{}", replica.port), ServerProblem::ReadOnly));
    let client = Jobs::redis(url(&[late.port, right.port])).unwrap().client().unwrap();
    for n in 0..4 {
        // Each search begins with another of them.
        let _: i64 = master.ask(&["CLIENT", "KILL", "TYPE", "normal"]);
        client.insert(MINUTE, Order(n)).unwrap();
    }
    assert_eq!(master.ask::<u64>(&["HLEN", "tw:{jobs}:jobs"]), 4);
    assert!(late.asked.load(Ordering::Acquire) > 1);
}

/// Each search for the server begins with another sentinel. A sentinel that is cut off with an old master still
/// names it, and that server still says that it is a master.
#[test]
fn search_for_a_server_begins_with_another_sentinel() {
    let left_behind = Server::with(&["--save", "", "--min-replicas-to-write", "1"]);
    let master = master();
    let cut_off = Sentinel::naming(left_behind.port);
    let right = Sentinel::naming(master.port);
    let client = Jobs::redis(url(&[cut_off.port, right.port])).unwrap().client().unwrap();
    for n in 0..4 {
        client.insert(MINUTE, Order(n)).unwrap();
        for server in [&master, &left_behind] {
            let _: i64 = server.ask(&["CLIENT", "KILL", "TYPE", "normal"]);
        }
    }
    assert_eq!(master.ask::<u64>(&["HLEN", "tw:{jobs}:jobs"]), 4);
    assert!(cut_off.asked.load(Ordering::Acquire) > 1);
}

/// The thread that listens for notifications calls no sentinel. On the server that a stale sentinel names it would
/// hear nothing: that server is a master, but the queue is elsewhere.
#[test]
fn listener_for_notifications_calls_no_sentinel() {
    let left_behind = Server::with(&["--save", "", "--min-replicas-to-write", "1"]);
    let master = master();
    let stale = Sentinel::naming(left_behind.port);
    let right = Sentinel::naming(master.port);
    let jobs = noting(Jobs::redis(url(&[stale.port, right.port])).unwrap(), &Log::default());
    wait_until("it listens", || master.listeners("jobs") == 1);
    let asked = || [&stale, &right].map(|sentinel| sentinel.asked.load(Ordering::Acquire));
    let before = asked();
    assert!(before[0] > 0 && before[1] > 0, "{before:?}");
    for _ in 0..3 {
        let ended: u64 = master.ask(&["CLIENT", "KILL", "TYPE", "pubsub"]);
        assert_eq!(ended, 1);
        wait_until("it listens again", || master.listeners("jobs") == 1);
    }
    assert_eq!((asked(), left_behind.listeners("jobs")), (before, 0));
    jobs.shutdown().unwrap();
}

/// P102: A node leaves a server that has become a replica, although the connections to it stay open.
#[test]
fn server_that_became_a_replica_is_left() {
    let first = master();
    let second = replica_of(first.port);
    let sentinel = Sentinel::naming(first.port);
    let log = Log::default();
    let jobs = noting(Jobs::redis(url(&[sentinel.port])).unwrap().call_timeout(MINUTE), &log);
    jobs.insert(Duration::ZERO, Order(1)).unwrap();
    wait_until("it ran", || log.of(1) == 1);
    wait_until("it ended", || in_hand(&jobs) == 0);
    let _: () = second.ask(&["REPLICAOF", "NO", "ONE"]);
    // Its connections stay open.
    let _: () = first.ask(&["REPLICAOF", "127.0.0.1", &second.port.to_string()]);
    sentinel.name(second.port);
    jobs.insert(Duration::ZERO, Order(2)).unwrap();
    wait_until("it ran", || log.of(2) == 1);
    wait_until("it ended", || in_hand(&jobs) == 0);
    wait_until("hints come from the new master", || second.listeners("jobs") > 0);
    jobs.check().unwrap();
    jobs.shutdown().unwrap();
    log.each_once(2);
}

/// Redis P20: A URL that leads to no usable server is refused. The error names each address, and no password.
#[test]
fn url_that_leads_to_no_server_is_refused_without_passwords() {
    let refused = |url: &str| match Jobs::redis(url).unwrap_err() {
        OpenError::Server { server, problem } => {
            let text = format!("{server}: {problem}");
            assert!(!text.contains("secret"), "{text}");
            (server, problem)
        }
        other => panic!("{other:?}"),
    };
    let (gone, gone_too) = (free_port(), free_port());
    for (scheme, tail) in [("redis-cluster", ""), ("redis-sentinel", "/?master=shop")] {
        let (server, problem) =
            refused(&format!("{scheme}://:secret@127.0.0.1:{gone},127.0.0.1:{gone_too}{tail}"));
        let ServerProblem::Unreachable(reason) = &problem else { panic!("{problem:?}") };
        for port in [gone, gone_too] {
            assert!(reason.contains(&port.to_string()), "{reason}");
            assert!(server.contains(&port.to_string()), "{server}");
        }
    }
    let plain = Server::with(&["--requirepass", "right secret"]);
    let (_, problem) = refused(&format!("redis-cluster://:secret@127.0.0.1:{}", plain.port));
    assert!(matches!(problem, ServerProblem::Denied(_)), "{problem:?}");
    let right =
        format!("redis-cluster://:right%20secret@127.0.0.1:{gone},127.0.0.1:{}", plain.port);
    let (server, problem) = refused(&right);
    assert_eq!(server, format!("127.0.0.1:{}", plain.port));
    assert!(
        matches!(&problem, ServerProblem::Other(text) if text.contains("cluster")),
        "{problem:?}"
    );
    let server = master();
    let config = format!("sentinel monitor shop 127.0.0.1 {} 1\n", server.port);
    let sentinel = Server::sentinel(&config);
    let (_, problem) =
        refused(&format!("redis-sentinel://127.0.0.1:{}?master=stock", sentinel.port));
    assert!(matches!(&problem, ServerProblem::Other(text) if text.contains("\"stock\"")));
    // What is no sentinel knows no such question.
    let (_, problem) = refused(&format!("redis-sentinel://127.0.0.1:{}?master=shop", server.port));
    assert!(matches!(problem, ServerProblem::Other(_)), "{problem:?}");
}

/// The server and its sentinels have logins of their own, and the database of the URL is the server's.
#[test]
fn server_and_sentinel_have_logins_and_databases_of_their_own() {
    let server = Server::with(&["--requirepass", "one@secret"]);
    let config = format!(
        "sentinel monitor shop 127.0.0.1 {} 1\n\
         sentinel auth-pass shop one@secret\n\
         requirepass another&secret\n",
        server.port
    );
    let sentinel = Server::sentinel(&config);
    let url = |login: &str, own: &str| {
        let port = sentinel.port;
        format!("redis-sentinel://{login}127.0.0.1:{port}/3?master=shop{own}")
    };
    let right = url(":one%40secret@", "&sentinel_password=another%26secret");
    let client = Jobs::redis(&right).unwrap().client().unwrap();
    client.insert(MINUTE, Order(1)).unwrap();
    let direct = format!("redis://:one%40secret@127.0.0.1:{}/", server.port);
    let mut direct = redis::Client::open(direct).unwrap().get_connection().unwrap();
    let info: String = redis::cmd("INFO").arg("keyspace").query(&mut direct).unwrap();
    assert!(info.contains("db3:") && !info.contains("db0:"), "{info}");
    for (login, own) in [
        (":one%40secret@", ""),
        (":one%40secret@", "&sentinel_password=secret"),
        ("", "&sentinel_password=another%26secret"),
        (":secret@", "&sentinel_password=another%26secret"),
    ] {
        let refused = Jobs::redis(url(login, own)).unwrap_err();
        let OpenError::Server { problem, .. } = &refused else { panic!("{refused:?}") };
        assert!(matches!(problem, ServerProblem::Denied(_)), "{login} {own}: {problem:?}");
        assert!(!refused.to_string().contains("secret"), "{refused}");
    }
}
