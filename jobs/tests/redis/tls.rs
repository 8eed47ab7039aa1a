//! Connections by TLS, with certificates of the tests' own. The server has to be built with it, as Debian's is.

use std::time::Duration;

use tickwheel_jobs::{Jobs, OpenError, ServerProblem, Tls};

use crate::secured::{Authority, Secured};
use crate::sentinel_servers::NAME;
use crate::server::{Server, wait_until};
use crate::support::{Log, Order, each_runs_once, noting};

/// Starts a sentinel that watches a server.
fn sentinel(authority: &Authority, watched: u16) -> Secured {
    Secured::with(authority, "127.0.0.1", |settings| {
        let settings = settings.iter().map(|(name, value)| format!("{name} {value}\n"));
        let config: String = settings.collect();
        let more = "tls-auth-clients no\ntls-replication yes\n";
        Server::sentinel(&format!("{config}{more}sentinel monitor {NAME} 127.0.0.1 {watched} 1\n"))
    })
}

/// Returns what the error says.
fn refused(url: &str, tls: &Tls) -> String {
    match Jobs::redis_with_tls(url, tls.clone()).unwrap_err() {
        OpenError::Server { problem: ServerProblem::Unreachable(reason), .. } => reason,
        other => panic!("{other:?}"),
    }
}

/// Returns what the error says.
fn makes_no_sense(url: &str, tls: Tls) -> String {
    match Jobs::redis_with_tls(url, tls).unwrap_err() {
        OpenError::Config(reason) => reason,
        other => panic!("{other:?}"),
    }
}

/// Runs jobs of two nodes at this URL.
fn jobs_run(url: &str, tls: &Tls) {
    let open = || Jobs::redis_with_tls(url, tls.clone()).unwrap();
    let log = Log::default();
    let jobs = noting(open(), &log);
    let client = open().client().unwrap();
    for n in 0..20 {
        client.insert(Duration::ZERO, Order(n)).unwrap();
    }
    each_runs_once(&jobs.client(), jobs, &log, 20);
}

/// Jobs run over TLS, and notifications come over it too.
#[test]
fn tls_carries_jobs_and_notifications() {
    let authority = Authority::new("an authority");
    let server = Secured::start(&authority, "127.0.0.1", "no");
    let tls = Tls::new().trust(authority.pem());
    jobs_run(&server.url(), &tls);
    let jobs = noting(Jobs::redis_with_tls(server.url(), tls).unwrap(), &Log::default());
    wait_until("it listens", || server.server.listeners("jobs") > 0);
    jobs.shutdown().unwrap();
}

/// A `rediss-sentinel` URL reaches the sentinels and the server that they name by TLS.
#[test]
fn tls_reaches_sentinels_and_the_server_that_they_name() {
    let authority = Authority::new("an authority");
    let server = Secured::start(&authority, "127.0.0.1", "no");
    let sentinel = sentinel(&authority, server.port);
    let url = format!("rediss-sentinel://127.0.0.1:{}/?master={NAME}", sentinel.port);
    jobs_run(&url, &Tls::new().trust(authority.pem()));
}

/// A certificate of an unknown authority or of another host is refused, and the error names the reason.
#[test]
fn certificate_of_another_authority_or_host_is_refused() {
    let authority = Authority::new("an authority");
    let server = Secured::start(&authority, "127.0.0.1", "no");
    let other = Tls::new().trust(Authority::new("another").pem());
    let reason = refused(&server.url(), &other);
    assert!(reason.contains("invalid peer certificate: UnknownIssuer"), "{reason}");
    // Nor does the system know the authority.
    let reason = refused(&server.url(), &Tls::new());
    assert!(reason.contains("invalid peer certificate: UnknownIssuer"), "{reason}");
    let elsewhere = Secured::start(&authority, "127.0.0.2", "no");
    let reason = refused(&elsewhere.url(), &Tls::new().trust(authority.pem()));
    assert!(reason.contains("certificate not valid for name \"127.0.0.1\""), "{reason}");
}

/// A port where only one side speaks TLS is refused, and the error mentions TLS or names the port.
#[test]
fn port_with_tls_on_one_side_only_is_named() {
    let authority = Authority::new("an authority");
    let server = Secured::start(&authority, "127.0.0.1", "no");
    let tls = Tls::new().trust(authority.pem());
    let plain = format!("rediss://127.0.0.1:{}/", server.server.port);
    let reason = refused(&plain, &tls);
    assert!(reason.contains("is it a port for TLS?"), "{reason}");
    let error = Jobs::redis(format!("redis://127.0.0.1:{}/", server.port)).unwrap_err();
    let OpenError::Server { server: name, problem } = &error else { panic!("{error:?}") };
    assert_eq!(*name, format!("127.0.0.1:{}", server.port));
    assert!(matches!(problem, ServerProblem::Unreachable(_)), "{error:?}");
}

/// A server that wants a certificate of its clients gets it. The debug text does not contain the private key.
#[test]
fn client_certificate_is_sent_to_a_server_that_wants_it() {
    let authority = Authority::new("an authority");
    let server = Secured::start(&authority, "127.0.0.1", "yes");
    let tls = Tls::new().trust(authority.pem());
    let reason = refused(&server.url(), &tls);
    assert!(reason.contains("CertificateRequired"), "{reason}");
    let (certificate, key) = authority.sign("jobs");
    let identified = tls.identity(certificate, key.clone());
    assert!(!format!("{identified:?}").contains(&key), "{identified:?}");
    jobs_run(&server.url(), &identified);
}

/// Certificates and keys that make no sense are refused, and the error names the setting.
#[test]
fn certificates_that_make_no_sense_are_refused() {
    let authority = Authority::new("an authority");
    let (certificate, key) = authority.sign("jobs");
    let trusting = || Tls::new().trust(authority.pem());
    let url = "rediss://127.0.0.1:1/";
    let reason = makes_no_sense("redis://127.0.0.1:1/", trusting());
    assert!(reason.contains("begins with \"rediss\""), "{reason}");
    let reason = makes_no_sense(url, Tls::new().trust("nothing"));
    assert!(reason.contains("`Tls::trust` has no certificate"), "{reason}");
    let reason = makes_no_sense(url, trusting().identity("nothing", key));
    assert!(reason.contains("`Tls::identity` has no certificate"), "{reason}");
    let reason = makes_no_sense(url, trusting().identity(certificate, "nothing"));
    assert!(reason.contains("private key"), "{reason}");
}
