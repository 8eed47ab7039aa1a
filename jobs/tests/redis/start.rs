//! Servers that cannot be used are refused by name, when the jobs are opened.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, TcpListener};
use std::time::Duration;

use tickwheel_jobs::{Event, InsertErrorKind, Jobs, OpenError, ServerProblem, StoreError};

use crate::server::{Server, free_port, wait_until};
use crate::support::{Events, Log, Order, in_hand, noting, open};

fn refused(url: &str) -> ServerProblem {
    match Jobs::redis(url).unwrap_err() {
        OpenError::Server { server, problem } => {
            assert!(server.starts_with("127.0.0.1:"), "{server}");
            assert!(!problem.to_string().contains("secret"));
            problem
        }
        other => panic!("{other:?}"),
    }
}

/// Redis P20: A port without a server is refused as `Unreachable`.
#[test]
fn server_that_is_not_there_is_refused() {
    let problem = refused(&format!("redis://127.0.0.1:{}/", free_port()));
    assert!(matches!(problem, ServerProblem::Unreachable(_)), "{problem:?}");
}

/// Redis P20: A missing or wrong login is refused as `Denied`.
#[test]
fn password_that_is_wrong_is_refused() {
    let server = Server::with(&["--requirepass", "right"]);
    for login in ["", ":secret@", "nobody:secret@"] {
        let problem = refused(&format!("redis://{login}127.0.0.1:{}/", server.port));
        assert!(matches!(problem, ServerProblem::Denied(_)), "{login} {problem:?}");
    }
    let right = format!("redis://:right@127.0.0.1:{}/3", server.port);
    Jobs::redis(&right).unwrap().client().unwrap().check().unwrap();
    Jobs::connect(right).unwrap().client().unwrap().check().unwrap();
}

/// Redis P20, D6: A server that evicts keys is refused, and the error names its policy.
#[test]
fn server_that_evicts_is_refused() {
    let server = Server::with(&["--maxmemory-policy", "allkeys-lru"]);
    assert_eq!(refused(&server.url()), ServerProblem::Evicts("allkeys-lru".to_owned()));
}

/// Redis P20: A replica is refused as `ReadOnly`.
#[test]
fn replica_is_refused_as_read_only() {
    let primary = Server::start();
    let replica = Server::with(&["--replicaof", "127.0.0.1", &primary.port.to_string()]);
    assert_eq!(refused(&replica.url()), ServerProblem::ReadOnly);
}

/// Redis P20: A server of another protocol is refused as `NotRedis`, and a silent one as `Unreachable`.
#[test]
fn server_that_is_not_redis_is_refused() {
    for (answer, is_silent) in [(&b"HTTP/1.1 400 Bad Request\r\n\r\n"[..], false), (b"", true)] {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let port = listener.local_addr().unwrap().port();
        let serve = std::thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            let mut buffer = [0; 256];
            let _ = stream.read(&mut buffer);
            let _ = stream.write_all(answer);
            // Open until the client closes it.
            let _ = stream.read(&mut buffer);
        });
        let problem = refused(&format!("redis://127.0.0.1:{port}/"));
        match is_silent {
            false => assert!(matches!(problem, ServerProblem::NotRedis(_)), "{problem:?}"),
            true => assert!(matches!(problem, ServerProblem::Unreachable(_)), "{problem:?}"),
        }
        serve.join().unwrap();
    }
}

/// A URL that makes no sense is refused.
#[test]
fn url_of_a_server_that_makes_no_sense_is_refused() {
    for url in ["", "postgres://127.0.0.1/", "redis://"] {
        let refused = Jobs::redis(url).unwrap_err();
        assert!(matches!(refused, OpenError::Config(_) | OpenError::Server { .. }), "{refused:?}");
    }
}

/// Redis P4: A server without persistence causes one warning.
#[test]
fn server_without_persistence_causes_a_warning() {
    let warned = |server: &Server| {
        let events = Events::default();
        let jobs = events.of(open(server)).handle(|_: Order, _| Ok(())).start().unwrap();
        jobs.flush().unwrap();
        jobs.shutdown().unwrap();
        events.all(|event| matches!(event, Event::Warning { .. }).then_some(())).len()
    };
    assert_eq!(warned(&Server::start()), 1);
    assert_eq!(warned(&Server::durable()), 0);
}

/// D4: A full server refuses inserts, and runs the jobs that it has.
#[test]
fn full_server_refuses_jobs_and_runs_those_that_it_has() {
    let server = Server::start();
    let log = Log::default();
    let client = open(&server).client().unwrap();
    for n in 0..20 {
        client.insert(Duration::from_millis(300), Order(n)).unwrap();
    }
    server.limit_memory("1mb");
    let many = (0..1000).map(|n| (Duration::ZERO, Order(1000 + n)));
    let refused = client.insert_batch(many).unwrap_err();
    println!("{:?}", refused.kind());
    assert_eq!(refused.into_inner().len(), 1000);
    assert_eq!(client.count().unwrap().pending, 20);
    let jobs = noting(open(&server), &log);
    wait_until("all ran", || log.len() == 20);
    wait_until("all ended", || in_hand(&client) == 0);
    client.check().unwrap();
    server.limit_memory("0");
    jobs.insert(Duration::ZERO, Order(21)).unwrap();
    wait_until("it ran", || log.len() == 21);
    jobs.shutdown().unwrap();
}

/// Redis P15, D4: A batch that fills the server fails with the number of stored jobs, a multiple of 256.
#[test]
fn batch_beyond_256_says_how_many_jobs_were_stored() {
    let server = Server::start();
    let client = open(&server).client().unwrap();
    client.insert(Duration::from_secs(60), Order(0)).unwrap();
    let used: String = server.ask(&["INFO", "memory"]);
    let used = used.lines().find_map(|line| line.strip_prefix("used_memory:")).unwrap();
    let used: u64 = used.trim().parse().unwrap();
    server.limit_memory(&(used + 1_500_000).to_string());
    let many = (0..100_000).map(|n| (Duration::from_secs(60), Order(n)));
    let refused = client.insert_batch(many).unwrap_err();
    let InsertErrorKind::Store(StoreError::Incomplete { done, error }) = refused.kind() else {
        panic!("{refused:?}");
    };
    assert_eq!(**error, StoreError::Full);
    assert!(*done > 0 && done % 256 == 0, "{done}");
    assert_eq!(client.count().unwrap().pending, *done as u64 + 1);
    server.limit_memory("0");
    client.check().unwrap();
}

/// A queue of another layout is refused by name, and not touched.
#[test]
fn queue_of_another_layout_is_refused_and_left_unchanged() {
    let server = Server::start();
    let jobs = open(&server).handle(|_: Order, _| Ok(())).start().unwrap();
    jobs.insert(Duration::from_secs(3600), Order(1)).unwrap();
    jobs.shutdown().unwrap();
    let layout = |value: &str| server.ask::<i64>(&["HSET", "tw:{jobs}:meta", "layout", value]);
    layout("2");
    let refused = open(&server).client().unwrap_err();
    let is_named = matches!(
        &refused,
        OpenError::Server { problem: ServerProblem::Layout { found, .. }, .. } if found == "2"
    );
    assert!(is_named, "{refused:?}");
    let _: i64 = server.ask(&["HDEL", "tw:{jobs}:meta", "layout"]);
    assert!(open(&server).client().is_err(), "an earlier version wrote none");
    assert_eq!(server.ask::<i64>(&["HLEN", "tw:{jobs}:jobs"]), 1);
    layout("1");
    assert_eq!(open(&server).client().unwrap().count().unwrap().pending, 1);
}

/// A builder that names no queue has the queue `jobs` of a server: both have the same jobs, and make the same ids.
#[test]
fn queue_named_jobs_is_the_unnamed_one() {
    let server = Server::start();
    let unnamed = open(&server).client().unwrap();
    let named = open(&server).queue("Jobs").client().unwrap();
    let year = Duration::from_secs(365 * 24 * 3600);
    assert!(unnamed.keyed("a").throttle(year, Order(1)).unwrap().is_new);
    assert!(!named.keyed("a").throttle(year, Order(2)).unwrap().is_new);
    assert_eq!(named.count().unwrap().pending, 1);
}
