//! The dashboard behind a proxy, Debian's nginx: one place that strips its prefix, and ones that do not.

#![cfg(unix)]
#![expect(clippy::disallowed_methods, reason = "other processes are the subject, so time is real")]

mod crawl;
#[path = "../../../jobs-web/tests/web/names.rs"]
mod names;

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use serde::{Deserialize, Serialize};
use tempfile::TempDir;
use tickwheel_jobs::{Fail, Job, JobByHand, Jobs, NewJob, Retry};

use crawl::{Answer, crawl};
use names::names;

/// A test that waits longer than this for a byte has failed.
const PATIENCE: Duration = Duration::from_secs(240);

#[derive(Serialize, Deserialize)]
struct Push(u32);

impl Job for Push {
    const KIND: &'static str = "push/a?b&c";
}

/// A process that is killed when it is dropped.
struct Process(Child);

impl Drop for Process {
    fn drop(&mut self) {
        drop(self.0.kill());
        drop(self.0.wait());
    }
}

/// The command on a file with pending and dead jobs and a schedule, and nginx before it.
struct Proxied {
    _nginx: Process,
    _serve: Process,
    port: u16,
    folder: TempDir,
}

fn fill(folder: &TempDir) {
    let jobs = Jobs::open(folder.path().join("jobs.db")).unwrap();
    let fails =
        |push: Push, _: &tickwheel_jobs::Run| Err(Fail::dead(format!("no route {}", push.0 % 2)));
    let (jobs, driver) = jobs.handle_with(Retry::never(), fails).manual().unwrap();
    jobs.insert_batch((0..8).map(|n| (Duration::ZERO, Push(n)))).unwrap();
    while driver.advance(Duration::from_millis(1)) > 0 {}
    let hour = Duration::from_secs(3600);
    for n in 0..3 {
        jobs.insert_job(NewJob::new(Push(n)).at(hour).key(format!("a/é?&{n}"))).unwrap();
    }
    jobs.schedule("every hour/é?", hour, Push(9)).unwrap();
    for name in names() {
        jobs.schedule(&name, hour, Push(9)).unwrap();
        let mut job = JobByHand::new(&name, *b"{}");
        job.key = Some(name.clone());
        jobs.insert_by_hand(hour, job).unwrap();
    }
    jobs.shutdown().unwrap();
}

/// Starts the command and nginx; or says that there is no nginx, and returns none.
fn start() -> Option<Proxied> {
    if Command::new("nginx").arg("-v").stderr(Stdio::null()).status().is_err() {
        eprintln!(
            "skipped: it starts `nginx`, which is not installed: on Debian it is in the package nginx-light"
        );
        return None;
    }
    let folder = tempfile::tempdir().unwrap();
    fill(&folder);
    let child = Command::new(env!("CARGO_BIN_EXE_tickwheel-jobs"))
        .current_dir(folder.path())
        .env_remove("TICKWHEEL_PASSWORD")
        .args(["jobs.db", "serve", "--listen", "127.0.0.1:0"])
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn();
    let mut serve = Process(child.unwrap());
    let mut line = String::new();
    BufReader::new(serve.0.stdout.take().unwrap()).read_line(&mut line).unwrap();
    let origin = line.trim_end().trim_end_matches('/').to_owned();
    let (nginx, port) = start_nginx(&folder, &origin);
    Some(Proxied { _nginx: nginx, _serve: serve, port, folder })
}

/// Starts nginx with files of its own. Another process may take the free port before it does, so it tries again.
fn start_nginx(folder: &TempDir, origin: &str) -> (Process, u16) {
    let path = folder.path().display();
    for _ in 0..5 {
        let port =
            TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap().local_addr().unwrap().port();
        let config = format!(
            "daemon off; master_process off; pid {path}/nginx.pid; error_log {path}/error.log;\n\
             events {{ worker_connections 64; }}\n\
             http {{\n  access_log off; client_body_temp_path {path}/body; proxy_temp_path {path}/proxy;\n  \
             fastcgi_temp_path {path}/fastcgi; uwsgi_temp_path {path}/uwsgi; scgi_temp_path {path}/scgi;\n  \
             server {{\n    listen 127.0.0.1:{port}; proxy_set_header Host $http_host;\n    \
             location /stripped/ {{ proxy_pass {origin}/; }}\n    \
             location /kept/ {{ proxy_pass {origin}; }}\n    \
             location /kept/by/the-proxy {{ proxy_pass {origin}; }}\n    \
             location / {{ access_log {path}/other.log; return 200 other; }}\n  }}\n}}\n"
        );
        std::fs::write(folder.path().join("nginx.conf"), config).unwrap();
        let child = Command::new("nginx")
            .args(["-p", folder.path().to_str().unwrap(), "-c", "nginx.conf"])
            .args(["-e", folder.path().join("start.log").to_str().unwrap()])
            .stdin(Stdio::null())
            .spawn();
        let mut nginx = Process(child.unwrap());
        for _ in 0..2000 {
            if TcpStream::connect((Ipv4Addr::LOCALHOST, port)).is_ok() {
                return (nginx, port);
            }
            if nginx.0.try_wait().unwrap().is_some() {
                break;
            }
            std::thread::sleep(Duration::from_millis(5));
        }
    }
    let log = std::fs::read_to_string(folder.path().join("start.log")).unwrap_or_default();
    panic!("nginx does not start: {log}");
}

impl Proxied {
    /// Sends a request as a browser does that follows a link or sends a form of a page.
    fn send(&self, path: &str, form: Option<&str>) -> Answer {
        let mut stream = TcpStream::connect((Ipv4Addr::LOCALHOST, self.port)).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        let method = if form.is_some() { "POST" } else { "GET" };
        let body = form.unwrap_or_default();
        write!(
            stream,
            "{method} {path} HTTP/1.1\r\nhost: 127.0.0.1:{}\r\naccept: text/html\r\nconnection: close\r\n\
             origin: http://127.0.0.1:{}\r\ncontent-type: application/x-www-form-urlencoded\r\n\
             content-length: {}\r\n\r\n{body}",
            self.port,
            self.port,
            body.len()
        )
        .unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        let (head, body) = answer.split_once("\r\n\r\n").unwrap();
        let location = head.lines().find_map(|line| {
            let (name, value) = line.split_once(": ")?;
            name.eq_ignore_ascii_case("location").then(|| value.to_owned())
        });
        Answer { status: head[9..12].parse().unwrap(), location, body: body.to_owned() }
    }
}

/// P90, P91: Below a prefix that the proxy strips, and below ones that it does not, every link, form, asset and redirect
/// leads to its place, and no request to another application of the host. The path without its slash is redirected by
/// nginx; where nginx does not know of a slash, by the dashboard.
#[test]
fn proxies_may_strip_the_prefix_or_not() {
    for prefix in ["/stripped/", "/kept/", "/kept/by/the-proxy/"] {
        let Some(proxied) = start() else { return };
        let client = Jobs::open(proxied.folder.path().join("jobs.db")).unwrap().client().unwrap();
        let followed = crawl(prefix, &mut |path, form| proxied.send(path, form));
        println!("{prefix}: {followed:?}");
        assert!(followed.pages > 30 && followed.assets == 2, "{prefix}: {followed:?}");
        assert!(followed.forms > 20 && followed.redirects > 5, "{prefix}: {followed:?}");
        // Each schedule was ended by its own form, also those with unusual names.
        assert_eq!(client.schedules().list().unwrap(), []);
        // Another application of the host has had this request alone.
        assert_eq!(proxied.send("/other/last", None).body, "other");
        let log = std::fs::read_to_string(proxied.folder.path().join("other.log")).unwrap();
        assert!(log.lines().count() == 1 && log.contains("/other/last"), "{log}");
    }
}
