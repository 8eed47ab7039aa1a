//! `tickwheel-jobs serve` as a process on the loopback: its answers, its password, slow clients, and its end.
//!
//! No test measures time. The server has to answer in the end, and each limit that ends a wait shows in an answer.

#![cfg(unix)]
#![expect(clippy::disallowed_methods, reason = "another process is the subject, so time is real")]

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::os::unix::fs::OpenOptionsExt;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde::{Deserialize, Serialize};
use tempfile::TempDir;
use tickwheel_jobs::rusqlite::Connection;
use tickwheel_jobs::{Client, Job, Jobs};

/// A test that waits longer than this for a byte has failed.
const PATIENCE: Duration = Duration::from_secs(240);

#[derive(Serialize, Deserialize)]
struct Push;

impl Job for Push {
    const KIND: &'static str = "push";
}

/// Returns the command on the file `jobs.db` of a folder.
fn command(folder: &TempDir, address: &str, options: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_tickwheel-jobs"));
    command.current_dir(folder.path()).env_remove("TICKWHEEL_PASSWORD");
    command.args(["jobs.db", "serve", "--listen", address]).args(options);
    command
}

/// The command on a file with one job.
struct Served {
    child: Child,
    address: String,
    client: Client,
    folder: TempDir,
}

impl Served {
    fn start(options: &[&str]) -> Served {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("password"), "secret\n").unwrap();
        let file = folder.path().join("jobs.db");
        let client = Jobs::open(&file).unwrap().client().unwrap();
        client.insert(Duration::from_secs(3600), Push).unwrap();
        let mut child = command(&folder, "127.0.0.1:0", options);
        let mut child = child.stdin(Stdio::null()).stdout(Stdio::piped()).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let address = line.trim_end().strip_prefix("http://").unwrap().trim_end_matches('/');
        Served { child, address: address.to_owned(), client, folder }
    }

    /// Opens a connection, and sends the beginning of a request.
    fn send(&self, text: &str) -> TcpStream {
        let mut stream = TcpStream::connect(&self.address).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        stream.write_all(text.as_bytes()).unwrap();
        stream
    }

    /// Sends a request, and returns its answer with the headers.
    fn get(&self, path: &str, host: &str, more: &str) -> String {
        let text =
            format!("GET {path} HTTP/1.1\r\nhost: {host}\r\nconnection: close\r\n{more}\r\n");
        rest(self.send(&text))
    }

    /// Begins an action. When this returns, the request is under way: the server has asked for its body, which has
    /// two bytes.
    fn begin(&self, action: &str) -> TcpStream {
        let stream = self.send(&format!(
            "POST /api/v1/{action} HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n\
             expect: 100-continue\r\ncontent-length: 2\r\n\r\n"
        ));
        let mut line = [0; 25];
        (&stream).read_exact(&mut line).unwrap();
        assert_eq!(&line, b"HTTP/1.1 100 Continue\r\n\r\n");
        stream
    }

    /// Sends an action, and returns its answer with the headers.
    fn post(&self, action: &str, body: &str) -> String {
        let length = body.len();
        rest(self.send(&format!(
            "POST /api/v1/{action} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\
             content-type: application/json\r\ncontent-length: {length}\r\n\r\n{body}",
        )))
    }

    /// Begins a cancel of all pending jobs. `confirm`: their number, as JSON.
    fn cancel_all(&self, confirm: &str) {
        let body =
            format!(r#"{{"action":"cancel","state":"pending","all":true,"confirm":{confirm}}}"#);
        let answer = self.post("bulk", &body);
        assert_eq!(status(&answer), 202, "{answer}");
    }

    fn audit_file(&self) -> String {
        std::fs::read_to_string(self.folder.path().join("audit.jsonl")).unwrap()
    }

    fn signal(&self, signal: Signal) {
        kill(Pid::from_raw(self.child.id().try_into().unwrap()), signal).unwrap();
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

/// Returns the text until the server closes the connection.
fn rest(mut stream: TcpStream) -> String {
    let mut bytes = Vec::new();
    stream.read_to_end(&mut bytes).unwrap();
    String::from_utf8(bytes).unwrap()
}

/// Returns the status of an answer.
fn status(answer: &str) -> u16 {
    let status = answer.strip_prefix("HTTP/1.1 ").and_then(|rest| rest.get(..3));
    status.and_then(|digits| digits.parse().ok()).unwrap_or_else(|| panic!("{answer:?}"))
}

/// Says whether an answer has the headers that keep other sites out.
fn has_headers(answer: &str) -> bool {
    [
        "content-security-policy: default-src 'none'",
        "x-content-type-options: nosniff",
        "x-frame-options: DENY",
        "cache-control: no-store",
    ]
    .iter()
    .all(|header| answer.contains(header))
}

/// Without a password the names of the loopback get an answer, and a foreign name gets none: a page of another site
/// can let its name lead to this machine.
#[test]
fn serve_answers_to_the_names_of_the_loopback() {
    let served = Served::start(&[]);
    let health = served.get("/healthz", &served.address, "");
    assert!(status(&health) == 200 && health.ends_with("ok\n"), "{health}");
    let page = served.get("/", "localhost", "");
    assert!(status(&page) == 200 && page.contains("<!DOCTYPE html>"), "{page}");
    for host in ["shop.example", "127.0.0.1.shop.example", ""] {
        let answer = served.get("/", host, "");
        assert!(status(&answer) == 421 && !answer.contains("html"), "{answer}");
        assert!(has_headers(&answer), "{answer}");
    }
    for hosts in ["host: shop.example\r\n", "host: localhost\r\n"] {
        let answer = served.get("/", "localhost", hosts);
        assert!(status(&answer) == 400 && has_headers(&answer), "{answer}");
    }
    let without_host = rest(served.send("GET / HTTP/1.0\r\n\r\n"));
    assert!(without_host.contains(" 421 "), "{without_host}");
}

/// With `--read-only`, every job is shown and none is changed.
#[test]
fn serve_that_is_read_only_changes_nothing() {
    let served = Served::start(&["--read-only"]);
    assert_eq!(status(&served.get("/jobs", "localhost", "")), 200);
    let answer = served.post("queue/pause", "{}");
    assert!(status(&answer) == 403 && answer.contains("read_only"), "{answer}");
    assert!(!served.client.queue().is_paused().unwrap());
}

/// `serve` appends a line to the audit file for each change that a request makes.
#[test]
fn serve_notes_what_was_set() {
    let served = Served::start(&["--audit-file", "audit.jsonl"]);
    let answer = served.post("scopes/limit", r#"{"scope":"queue","running":7}"#);
    assert_eq!(status(&answer), 200, "{answer}");
    let text = served.audit_file();
    assert!(text.contains("at most 7 run at once") && text.contains("\"queue\":null"), "{text}");
}

/// A change of many jobs that is under way at a signal is stopped, and has its line in the audit file before the process
/// ends.
#[test]
fn serve_notes_what_a_signal_stops() {
    let mut served = Served::start(&["--audit-file", "audit.jsonl"]);
    let hour = Duration::from_secs(3600);
    served.client.insert_batch((0..20_000).map(|_| (hour, Push))).unwrap();
    // The first commit of the change waits for this transaction.
    let other = Connection::open(served.folder.path().join("jobs.db")).unwrap();
    other.execute_batch("BEGIN IMMEDIATE").unwrap();
    served.cancel_all("\"10000+\"");
    served.signal(Signal::SIGTERM);
    // The server has ended, and its dashboard with it.
    while TcpStream::connect(&served.address).is_ok() {
        std::thread::sleep(Duration::from_millis(1));
    }
    other.execute_batch("ROLLBACK").unwrap();
    assert!(served.child.wait().unwrap().success());
    let text = served.audit_file();
    assert!(text.contains("serve: cancel") && text.lines().count() == 1, "{text}");
    assert!(text.contains("the dashboard has ended"), "{text}");
    assert!(served.client.count().unwrap().pending > 0);
}

/// At a signal, `serve` fails if the audit line of a change cannot be written in time.
#[test]
fn serve_fails_at_a_signal_if_a_line_is_not_written() {
    let folder = tempfile::tempdir().unwrap();
    let pipe = folder.path().join("audit");
    nix::unistd::mkfifo(&pipe, nix::sys::stat::Mode::S_IRWXU).unwrap();
    // The pipe is full, and no process reads from it.
    let mut file = std::fs::File::options();
    let file = file.read(true).write(true).custom_flags(nix::libc::O_NONBLOCK).open(&pipe).unwrap();
    while (&file).write(b" ").is_ok() {}
    let mut served = Served::start(&["--audit-file", pipe.to_str().unwrap()]);
    served.cancel_all("1");
    served.signal(Signal::SIGTERM);
    assert_eq!(served.child.wait().unwrap().code(), Some(2));
    drop(file);
}

/// What could have no effect is refused: a zone for the pages, and a password that is too long for a request.
#[test]
fn serve_refuses_what_has_no_effect() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("jobs.db");
    Jobs::open(&file).unwrap().client().unwrap().insert(Duration::ZERO, Push).unwrap();
    std::fs::write(folder.path().join("password"), "x".repeat(1025)).unwrap();
    for (address, options, reason) in [
        // No machine has this address (RFC 5737). So a command that goes on ends all the same.
        ("192.0.2.1:0", &["--local"][..], "--local"),
        ("127.0.0.1:0", &["--password-file", "password"], "a password has at most 1024 bytes"),
    ] {
        let output = command(&folder, address, options).output().unwrap();
        let said = String::from_utf8(output.stderr).unwrap();
        assert!(output.status.code() == Some(2) && said.contains(reason), "{said}");
    }
}

/// P95: The password of the file opens the pages under any host. After ten wrong ones the next ones have to wait, and
/// the right one is let in after the wait.
#[test]
fn serve_slows_down_wrong_passwords() {
    let served = Served::start(&["--password-file", "password"]);
    assert!(served.folder.path().join("password").exists());
    let of = |code| format!("authorization: Basic {code}\r\n");
    let (right, wrong) = (of("OnNlY3JldA=="), of("Ong="));
    let refused = served.get("/", "localhost", "");
    assert!(status(&refused) == 401 && refused.contains("www-authenticate: Basic"), "{refused}");
    assert!(has_headers(&refused), "{refused}");
    // A browser has the password, and sends it with the form of another site too.
    let form = "content-type: application/x-www-form-urlencoded\r\ncontent-length: 0";
    let forged = rest(served.send(&format!(
        "POST /api/v1/queue/pause HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n{right}{form}\r\n\r\n"
    )));
    assert!(status(&forged) == 403 && forged.contains("cross_origin"), "{forged}");
    assert!(!served.client.queue().is_paused().unwrap());
    assert_eq!(status(&served.get("/", "shop.example", &right)), 200);
    for _ in 0..10 {
        assert_eq!(status(&served.get("/", "localhost", &wrong)), 401);
    }
    // A machine that stands still lets a wait pass. Each wait is longer than the one before, up to 30 seconds.
    let slowed = (0..40)
        .map(|_| served.get("/", "localhost", &wrong))
        .find(|answer| status(answer) != 401)
        .expect("a wait");
    assert!(status(&slowed) == 429 && slowed.contains("retry-after: "), "{slowed}");
    assert!(has_headers(&slowed), "{slowed}");
    while status(&served.get("/", "localhost", &right)) != 200 {
        std::thread::sleep(Duration::from_millis(100));
    }
}

/// P99: Half of a request, a body that does not come and headers without an end hold up no other request. The headers
/// are refused at their limit.
#[test]
fn serve_is_not_held_up_by_slow_clients() {
    let served = Served::start(&[]);
    let half = served.send("GET / HTTP/1.1\r\nhost: local");
    let without_body = served.begin("queue/pause");
    let mut endless = served.send("GET / HTTP/1.1\r\nhost: localhost\r\n");
    let header = format!("x-more: {}\r\n", "a".repeat(1000));
    // The server closes the connection while the headers still come.
    let sent = (0..65_536).take_while(|_| endless.write_all(header.as_bytes()).is_ok()).count();
    assert!(sent < 65_536, "64 MiB of headers");
    assert_eq!(status(&served.get("/healthz", "localhost", "")), 200);
    drop((half, without_body));
    assert_eq!(status(&served.get("/healthz", "localhost", "")), 200);
}

/// A signal lets the requests that are under way be answered, and ends the process. A request that gets no body holds
/// that up no longer: not until the limit of a request, whose answer would be the status 408.
#[test]
fn serve_answers_what_is_under_way_at_a_signal() {
    for signal in [Signal::SIGTERM, Signal::SIGINT] {
        let mut served = Served::start(&[]);
        // It writes nothing: on a loaded machine, a commit might not be done in the five seconds that are left.
        let mut under_way = served.begin("bulk/7/stop");
        let half = served.send("GET / HTTP/1.1\r\nhost: local");
        let without_body = served.begin("queue/pause");
        // The signal and the body are both there when the process goes on.
        served.signal(Signal::SIGSTOP);
        served.signal(signal);
        under_way.write_all(b"{}").unwrap();
        served.signal(Signal::SIGCONT);
        let answer = rest(under_way);
        assert!(status(&answer) == 404 && answer.contains("there is no change 7"), "{answer}");
        assert_eq!(rest(without_body), "");
        assert!(served.child.wait().unwrap().success());
        drop(half);
        assert!(!served.client.queue().is_paused().unwrap());
    }
}

/// P99: A body of a gigabyte is refused before it is read: one that says its length at its headers, one that does not
/// while it comes.
#[test]
fn serve_refuses_a_body_of_a_gigabyte() {
    const GIGABYTE: usize = 1 << 30;
    let served = Served::start(&[]);
    let head =
        "POST /api/v1/bulk HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n";
    // No byte of the body is sent, so an answer does not depend on one.
    let refused = rest(
        served.send(&format!("{head}connection: close\r\ncontent-length: {GIGABYTE}\r\n\r\n")),
    );
    assert!(status(&refused) == 413 && refused.contains("body_too_long"), "{refused}");
    let mut without_length = served.send(&format!("{head}transfer-encoding: chunked\r\n\r\n"));
    let chunk = format!("10000\r\n{}\r\n", " ".repeat(0x10000));
    let chunks =
        (0..GIGABYTE / 0x10000).take_while(|_| without_length.write_all(chunk.as_bytes()).is_ok());
    let sent = chunks.count() * 0x10000;
    assert!(sent < GIGABYTE / 8, "{sent} bytes were taken");
    assert_eq!(status(&served.get("/healthz", "localhost", "")), 200);
    assert!(!served.client.queue().is_paused().unwrap());
}

/// P99: Ten thousand connections that say nothing take the places of the server until each has waited too long, and
/// then others are answered. Meanwhile the process that runs the jobs of the file runs them. Where the limit of open
/// files is lower, the test opens as many connections as it may.
#[test]
fn serve_outlives_ten_thousand_connections() {
    const CONNECTIONS: usize = 10_000;
    /// Descriptors for the requests of this test and for the files of the jobs.
    const SPARE: usize = 40;
    let served = Served::start(&[]);
    let (ran, runs) = std::sync::mpsc::channel();
    let builder = Jobs::open(served.folder.path().join("jobs.db")).unwrap();
    let handler = move |_: Push, _: &tickwheel_jobs::Run| Ok(ran.send(())?);
    let jobs = builder.handle(handler).start().unwrap();
    let run_one = || {
        served.client.insert(Duration::ZERO, Push).unwrap();
        runs.recv_timeout(PATIENCE).unwrap();
    };
    run_one();
    assert_eq!(status(&served.get("/healthz", "localhost", "")), 200);
    let mut open: Vec<TcpStream> =
        (0..CONNECTIONS).map_while(|_| TcpStream::connect(&served.address).ok()).collect();
    println!("{} connections", open.len());
    if open.len() < CONNECTIONS {
        open.truncate(open.len() - SPARE);
    }
    assert!(open.len() > 512, "too few for the limit of the server: {}", open.len());
    (0..20).for_each(|_| run_one());
    // A connection above the limit of the server is closed without an answer.
    let ask = || -> std::io::Result<String> {
        let mut stream = TcpStream::connect(&served.address)?;
        stream.set_read_timeout(Some(PATIENCE))?;
        stream
            .write_all(b"GET /healthz HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n")?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer)?;
        Ok(answer)
    };
    while !ask().is_ok_and(|answer| answer.starts_with("HTTP/1.1 200 ")) {
        run_one();
        std::thread::sleep(Duration::from_millis(50));
    }
    run_one();
    drop(open);
    jobs.shutdown().unwrap();
}
