//! The metrics, the alerts and the dashboard before Prometheus itself: `promtool` reads the text and tests the rules,
//! and a server that has scraped a running queue answers every question of the dashboard.

#![expect(clippy::disallowed_methods, reason = "another process is the subject, so time is real")]

use std::collections::BTreeSet;
use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};
use serde_json::Value;
use tickwheel_jobs::tickwheel::Wheel;
use tickwheel_jobs::{Client, Fail, Job, JobByHand, Jobs, Limit, Metrics, Retry};

/// Longer than anything takes on a loaded machine.
const LONG: Duration = Duration::from_secs(120);
/// How often the server scrapes.
const INTERVAL: &str = "1s";

#[derive(Serialize, Deserialize)]
struct Mail(u32);

impl Job for Mail {
    const KIND: &'static str = "mail";
}

/// Of a kind whose name would end its label, its line and its metric.
#[derive(Serialize, Deserialize)]
struct Hostile;

impl Job for Hostile {
    const KIND: &'static str = "a\"} 1\nup 2\n\\\u{1b}[31m\u{202e}";
}

/// A queue in which every outcome occurs.
fn queue(path: &Path) -> Jobs {
    let mail = |mail: Mail, run: &tickwheel_jobs::Run| match mail.0 % 5 {
        0 => Err(Fail::dead("no such address")),
        1 if run.attempt() == 1 => Err(Fail::retry("try later")),
        2 if run.fence().get().is_multiple_of(3) => Err(Fail::snooze(Duration::from_millis(1))),
        _ => Ok(()),
    };
    let retry = Retry::fixed(Duration::from_millis(1)).max_retries(3);
    let builder = Jobs::open(path).unwrap().handle_with(retry, mail);
    let jobs = builder.handle(|_: Hostile, _| Ok(())).start().unwrap();
    let hour = Duration::from_secs(3600);
    jobs.schedule("nightly \"report\"", 24 * hour, Mail(1)).unwrap();
    jobs.insert(hour, Hostile).unwrap();
    jobs.kind::<Mail>().limit(Limit::running(50).rate(1_000_000, hour).burst(1000)).unwrap();
    jobs.kind::<Hostile>().limit(Limit::running(1)).unwrap();
    jobs.kind::<Hostile>().partition("nobody").pause().unwrap();
    jobs.group().add(Duration::from_secs(3600), Mail(0)).insert().unwrap();
    jobs.insert_by_hand(Duration::ZERO, JobByHand::new("forgotten", *b"{}")).unwrap();
    jobs
}

fn insert_some(client: &Client) {
    for n in 0..25 {
        client.insert(Duration::ZERO, Mail(n)).unwrap();
    }
}

/// Says whether Prometheus is installed, and what is missing if it is not.
fn is_installed() -> bool {
    let programs = ["promtool", "prometheus"];
    let is_there =
        |name| Command::new(name).arg("--version").stdout(Stdio::null()).status().is_ok();
    if programs.into_iter().all(is_there) {
        return true;
    }
    eprintln!(
        "skipped: it starts `promtool` and `prometheus`, which are not installed: on Debian they are in the package \
         prometheus"
    );
    false
}

/// Calls `promtool`, and checks that it has nothing to say against it.
fn promtool(args: &[&str], input: &str) {
    let mut command = Command::new("promtool");
    command.args(args).current_dir(folder());
    let mut child = command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    child.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
    let output = child.wait_with_output().unwrap();
    let said = [output.stdout, output.stderr].map(|said| String::from_utf8(said).unwrap());
    assert!(output.status.success(), "promtool {args:?}: {said:?}\n{input}");
    if args[1] == "metrics" {
        assert_eq!(said.concat(), "", "promtool {args:?}\n{input}");
    }
}

/// The folder of the rules and the dashboard.
fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../jobs/docs/prometheus")
}

/// P84: Prometheus reads the text of a queue, of the command and of a wheel, and finds nothing wrong in it.
#[test]
fn text_of_the_metrics_is_read_by_prometheus() {
    if !is_installed() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("jobs.db");
    let jobs = queue(&path);
    insert_some(&jobs);
    wait_until("all runs end", || jobs.stats().completed + jobs.stats().died >= 25);
    let text = jobs.metrics().unwrap().to_string();
    assert!(text.contains("tickwheel_jobs_ended_total"));
    promtool(&["check", "metrics"], &text);
    let wheel = Wheel::new();
    wheel.insert(Duration::ZERO, || ());
    wheel.wait_idle();
    promtool(&["check", "metrics"], &wheel.stats().metrics().to_string());
    let mut both = jobs.metrics().unwrap();
    both.add(wheel.stats().metrics().with_label("wheel", "a \"wheel\""));
    promtool(&["check", "metrics"], &both.to_string());
    for order in [["metrics", path.to_str().unwrap()], [path.to_str().unwrap(), "metrics"]] {
        let mut command = Command::new(env!("CARGO_BIN_EXE_tickwheel-jobs"));
        let output = command.args(order).output().unwrap();
        assert!(output.status.success(), "{output:?}");
        let text = String::from_utf8(output.stdout).unwrap();
        assert!(
            text.contains("\ntickwheel_jobs_unhandled{kind=\"forgotten\",queue=\"default\"} 1\n")
        );
        promtool(&["check", "metrics"], &text);
    }
    jobs.shutdown().unwrap();
}

/// P85: Each alert fires in the histories in which it must, and in no other. It asks only for metrics that there are.
#[test]
fn alerts_fire_when_they_must() {
    if !is_installed() {
        return;
    }
    promtool(&["check", "rules", "alerts.yml"], "");
    promtool(&["test", "rules", "alerts_test.yml"], "");
    let (rules, tests) = (read("alerts.yml"), read("alerts_test.yml"));
    let folder = tempfile::tempdir().unwrap();
    let jobs = queue(&folder.path().join("jobs.db"));
    let text = jobs.metrics().unwrap().to_string();
    let asked = names(&rules);
    assert!(asked.len() > 8, "{asked:?}");
    for name in asked {
        assert!(text.contains(&format!("# TYPE {name} ")), "{name} is no metric");
    }
    for alert in rules.lines().filter_map(|line| line.trim().strip_prefix("- alert: ")) {
        let tested = tests.matches(&format!("alertname: {alert}\n")).count();
        let quiet = tests.matches(&format!("alertname: {alert} }}")).count();
        assert!(tested > 0 && quiet > 0, "{alert} fires in {tested} tests, and not in {quiet}");
    }
    jobs.shutdown().unwrap();
}

/// P85: Every question of the dashboard has an answer in a server that has scraped a queue at work.
#[test]
fn dashboard_shows_every_panel() {
    if !is_installed() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let jobs = queue(&folder.path().join("jobs.db"));
    let asked = Arc::new(Mutex::new(BTreeSet::new()));
    let exporter = Exporter::start(jobs.client().clone(), Arc::clone(&asked));
    let server = Prometheus::start(folder.path(), exporter.port);
    let dashboard: Value = serde_json::from_str(&read("grafana.json")).unwrap();
    let panels = dashboard["panels"].as_array().unwrap();
    let mut questions: Vec<(String, String)> = Vec::new();
    for panel in panels {
        for target in panel["targets"].as_array().unwrap() {
            let expr = target["expr"].as_str().unwrap();
            let expr = expr.replace("$__rate_interval", "30s").replace("$queue", ".*");
            let expr = expr.replace("$kind", ".*");
            assert!(!expr.contains('$'), "{expr}");
            questions.push((panel["title"].as_str().unwrap().to_owned(), expr));
        }
    }
    assert!(questions.len() > 20, "{questions:?}");
    let start = Instant::now();
    while !questions.is_empty() {
        insert_some(&jobs);
        // A rate needs two scrapes, and a quantile of a rate needs a change between them.
        questions.retain(|(_, expr)| !server.answers(expr));
        assert!(start.elapsed() < LONG, "without an answer: {questions:#?}");
        std::thread::sleep(Duration::from_millis(500));
    }
    // Prometheus asks for OpenMetrics first, and has read all that it got.
    assert_eq!(*asked.lock().unwrap(), BTreeSet::from([Metrics::OPENMETRICS]));
    assert!(server.answers("up == 1") && !server.answers("up == 0"));
    assert!(server.answers("scrape_samples_scraped > 100"));
    // The kind that would end its label is one kind.
    assert!(server.answers(r#"count(tickwheel_jobs_pending{kind=~"a\"} 1\nup 2(?s:.*)"}) == 1"#));
    jobs.shutdown().unwrap();
}

fn read(name: &str) -> String {
    fs::read_to_string(folder().join(name)).unwrap()
}

/// Returns the metrics that expressions ask for.
fn names(text: &str) -> BTreeSet<String> {
    let is_part = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let words = text.split(|c| !is_part(c)).filter(|word| word.starts_with("tickwheel_jobs_"));
    words.map(str::to_owned).collect()
}

fn wait_until(what: &str, mut holds: impl FnMut() -> bool) {
    let start = Instant::now();
    while !holds() {
        assert!(start.elapsed() < LONG, "not in time: {what}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// Returns the header of an HTTP request, or what there is of it.
fn header(stream: &TcpStream) -> String {
    let lines = BufReader::new(stream).lines().map_while(Result::ok);
    lines.take_while(|line| !line.is_empty()).map(|line| line + "\n").collect()
}

/// A server of `/metrics`, until it is dropped.
struct Exporter {
    port: u16,
    ends: Arc<AtomicBool>,
}

impl Exporter {
    fn start(client: Client, content_types: Arc<Mutex<BTreeSet<&'static str>>>) -> Exporter {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let port = listener.local_addr().unwrap().port();
        let ends = Arc::new(AtomicBool::new(false));
        let over = Arc::clone(&ends);
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                if over.load(Ordering::Acquire) {
                    return;
                }
                let Ok(mut stream) = stream else { continue };
                let _ = stream.set_read_timeout(Some(Duration::from_secs(5)));
                let header = header(&stream).to_ascii_lowercase();
                let accept = header.lines().find_map(|line| line.strip_prefix("accept: "));
                let Ok(metrics) = client.metrics() else { continue };
                let (content_type, text) = metrics.for_accept(accept);
                content_types.lock().unwrap().insert(content_type);
                let head = format!(
                    "HTTP/1.1 200 OK\r\nContent-Type: {content_type}\r\nContent-Length: {}\r\n\
                     Connection: close\r\n\r\n",
                    text.len()
                );
                let _ = stream.write_all(format!("{head}{text}").as_bytes());
            }
        });
        Exporter { port, ends }
    }
}

impl Drop for Exporter {
    fn drop(&mut self) {
        self.ends.store(true, Ordering::Release);
        let _ = TcpStream::connect((Ipv4Addr::LOCALHOST, self.port));
    }
}

/// A server, killed when it is dropped.
struct Prometheus {
    process: Child,
    port: u16,
}

impl Prometheus {
    /// Starts a server that scrapes this port, with the alerts.
    fn start(data: &Path, scraped: u16) -> Prometheus {
        let config = data.join("prometheus.yml");
        let rules = folder().join("alerts.yml");
        fs::write(
            &config,
            format!(
                "global:\n  scrape_interval: {INTERVAL}\n  evaluation_interval: {INTERVAL}\n\
                 rule_files: ['{}']\nscrape_configs:\n  - job_name: jobs\n    static_configs:\n      \
                 - targets: ['127.0.0.1:{scraped}']\n",
                rules.display()
            ),
        )
        .unwrap();
        let free = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let port = free.local_addr().unwrap().port();
        drop(free);
        let process = Command::new("prometheus")
            .arg(format!("--config.file={}", config.display()))
            .arg(format!("--storage.tsdb.path={}", data.join("data").display()))
            .arg(format!("--web.listen-address=127.0.0.1:{port}"))
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let server = Prometheus { process, port };
        wait_until("the server is ready", || server.get("/-/ready").is_some());
        server
    }

    /// Returns the body of an answer, if it is one of success.
    fn get(&self, path: &str) -> Option<String> {
        let mut stream = TcpStream::connect((Ipv4Addr::LOCALHOST, self.port)).ok()?;
        stream.set_read_timeout(Some(Duration::from_secs(10))).ok()?;
        write!(stream, "GET {path} HTTP/1.0\r\n\r\n").ok()?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer).ok()?;
        let (head, body) = answer.split_once("\r\n\r\n")?;
        head.contains(" 200 ").then(|| body.to_owned())
    }

    /// Says whether a question has an answer with a number. A question that makes no sense is an error.
    fn answers(&self, expr: &str) -> bool {
        let encoded: String = expr.bytes().map(|byte| format!("%{byte:02x}")).collect();
        let body = self.get(&format!("/api/v1/query?query={encoded}"));
        let body = body.unwrap_or_else(|| panic!("this is no question: {expr}"));
        let answer: Value = serde_json::from_str(&body).unwrap();
        assert_eq!(answer["status"], "success", "{expr}: {answer}");
        let found = answer["data"]["result"].as_array().unwrap();
        found.iter().any(|sample| sample["value"][1].as_str() != Some("NaN"))
    }
}

impl Drop for Prometheus {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}
