//! The counters of a wheel for Prometheus: one snapshot of `Wheel::stats` for each scrape, as
//! OpenMetrics text over HTTP.
//!
//! ```sh
//! cargo run --release --example prometheus                    # http://127.0.0.1:9464/metrics
//! cargo run --release --example prometheus -- 0.0.0.0:9464    # for other machines, too
//! cargo run --release --example prometheus -- --short         # scrapes itself once and ends
//! ```
//!
//! | file | what it holds |
//! | --- | --- |
//! | `collector.rs` | the part to copy: from `Stats` to metrics, a crate writes the format |
//! | `server.rs` | HTTP on a plain listener; a program with a server adds a route instead |
//!
//! Before you copy this:
//!
//! - Counters are sums since the wheel began, as Prometheus expects: `rate()` makes a rate of them,
//!   and `Stats::since` is for programs that have no Prometheus.
//! - Do not take a snapshot for each metric: `inserted = pending + cancelled + in_flight +
//!   completed + discarded` holds within one snapshot, but not across two. A snapshot takes every
//!   shard's lock for a moment, so scrape every few seconds and not in a loop.
//! - The wheel's 496 buckets are an eighth wide. Folded into six, a job counts as late by the upper
//!   end of its bucket: `le="0.001"` has the jobs that were surely no later than a millisecond.
//! - Alert on `pending` and on `ticks_behind`, and for the pool on `start`: if its lateness grows,
//!   jobs wait for a thread.
//! - Names must not repeat. For several wheels, one collector writes every metric once, with a
//!   label for each wheel (`MetricEncoder::encode_family`).

#![forbid(unsafe_code)]
// A program may sleep; the library may not.
#![allow(clippy::disallowed_methods)]

mod collector;
mod server;

use std::error::Error;
use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::process::ExitCode;
use std::time::Duration;
use std::{env, thread};

use tickwheel::{Wheel, When};

/// The port is that of OpenTelemetry's exporter for Prometheus.
const ADDRESS: &str = "127.0.0.1:9464";

fn main() -> ExitCode {
    let result = match env::args().nth(1).as_deref() {
        Some("--short") => scrape_once(),
        address => serve(address.unwrap_or(ADDRESS)),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("prometheus: {error}");
            ExitCode::FAILURE
        }
    }
}

/// Serves the metrics of a wheel with some work, until the process is ended.
fn serve(address: &str) -> Result<(), Box<dyn Error>> {
    let listener = TcpListener::bind(address)?;
    let wheel = Wheel::new();
    let scheduler = wheel.scheduler();
    wheel.every(Duration::from_millis(100), move || {
        let soon = When::after(Duration::from_secs(1)).jitter(Duration::from_secs(1));
        let timeouts = (0..100).map(|_| (soon, || ()));
        let handles = scheduler.insert_batch(timeouts).expect("a wheel without a bound has room");
        scheduler.cancel_batch(&handles[..90]);
    })?;
    let registry = collector::registry(&wheel);
    println!("http://{}/metrics", listener.local_addr()?);
    loop {
        if let Err(error) = server::serve_one(&listener, &registry) {
            eprintln!("prometheus: {error}");
            // If the process is out of file descriptors, the next `accept` fails at once, too.
            thread::sleep(Duration::from_millis(100));
        }
    }
}

/// Runs some jobs, scrapes the wheel, and prints and checks the answer.
fn scrape_once() -> Result<(), Box<dyn Error>> {
    let wheel = Wheel::new();
    for delay in 0..100 {
        wheel.insert(Duration::from_millis(delay), || ());
    }
    wheel.wait_idle();
    wheel.insert(Duration::from_secs(3600), || ());

    let text = scrape(&wheel, "GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n")?;
    println!("{text}");
    assert!(text.starts_with("HTTP/1.1 200 OK\r\n") && text.ends_with("\n# EOF\n"));
    for line in
        ["inserted_total 101", "completed_total 100", "pending 1", "start_seconds_count 100"]
    {
        assert!(text.contains(&format!("\ntickwheel_{line}\n")), "{line}");
    }
    Ok(())
}

/// Serves one request from a free port. Returns the answer, with its head.
fn scrape(wheel: &Wheel, request: &str) -> io::Result<String> {
    let listener = TcpListener::bind(SocketAddr::from(([127, 0, 0, 1], 0)))?;
    let registry = collector::registry(wheel);
    let mut client = TcpStream::connect(listener.local_addr()?)?;
    // Both wait in the buffers of the system: the connection, and a request as short as this.
    client.write_all(request.as_bytes())?;
    server::serve_one(&listener, &registry)?;
    let mut answer = String::new();
    client.read_to_string(&mut answer)?;
    Ok(answer)
}

#[cfg(test)]
mod tests {
    use super::*;
    use tickwheel::Stats;

    const SECOND: Duration = Duration::from_secs(1);
    const GET: &str = "GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n";

    /// A manual wheel, whose counters change only by its verbs. They differ where they can.
    fn used() -> Wheel {
        let (wheel, driver) = Wheel::builder().max_pending(12).manual().unwrap();
        let handles: Vec<_> =
            (1..=12).map(|hour| wheel.insert(hour * 3600 * SECOND, || ())).collect();
        assert!(wheel.try_insert(SECOND, || ()).is_err(), "it is full");
        assert_eq!(wheel.cancel_batch(&handles[..2]), [true; 2]);
        handles[2..5].iter().for_each(|&handle| assert!(wheel.reset(handle, 3600 * SECOND)));
        wheel.insert(SECOND, || panic!("a planted panic"));
        assert_eq!(driver.advance(3600 * SECOND), 4);
        wheel
    }

    /// The value of a sample.
    fn sample(text: &str, name: &str) -> f64 {
        let value = text.lines().find_map(|line| line.strip_prefix(&format!("tickwheel_{name} ")));
        value.unwrap_or_else(|| panic!("no {name} in {text}")).parse().unwrap()
    }

    fn counters(stats: &Stats) -> [(&'static str, u64); 13] {
        [
            ("pending", stats.pending as u64),
            ("in_flight", stats.in_flight as u64),
            ("busy_threads", stats.busy_threads as u64),
            ("ticks_behind", stats.ticks_behind.get()),
            ("inserted_total", stats.inserted),
            ("refused_total", stats.refused),
            ("cancelled_total", stats.cancelled),
            ("resets_total", stats.resets),
            ("fired_total", stats.fired),
            ("completed_total", stats.completed),
            ("discarded_total", stats.discarded),
            ("panicked_total", stats.panicked),
            ("wakeups_total", stats.wakeups),
        ]
    }

    #[test]
    fn a_scrape_agrees_with_the_stats() {
        let wheel = used();
        let text = scrape(&wheel, GET).unwrap();
        let stats = wheel.stats();
        for (name, value) in counters(&stats) {
            assert_eq!(sample(&text, name), value as f64, "{name}");
        }
        let counted = [stats.refused, stats.cancelled, stats.resets, stats.completed];
        assert_eq!((counted, stats.pending, stats.inserted), ([1, 2, 3, 4], 7, 13));
    }

    /// On a real pool, because on a manual wheel no job is late.
    #[test]
    fn buckets_are_cumulative_and_end_with_the_count() {
        let wheel = Wheel::builder().threads(1).build().unwrap();
        wheel.insert(Duration::ZERO, || thread::sleep(Duration::from_millis(20)));
        for _ in 0..10 {
            wheel.insert(Duration::from_millis(2), || ());
        }
        wheel.wait_idle();
        let text = scrape(&wheel, GET).unwrap();
        let stats = wheel.stats();
        for (name, lateness) in [("handover", stats.handover), ("start", stats.start)] {
            let bounds = ["0.0001", "0.001", "0.01", "0.1", "1.0", "+Inf"];
            let jobs =
                bounds.map(|le| sample(&text, &format!("{name}_seconds_bucket{{le=\"{le}\"}}")));
            assert!(jobs.is_sorted(), "{name}: {jobs:?}");
            assert_eq!(jobs[5], 11.0);
            assert_eq!(sample(&text, &format!("{name}_seconds_count")), 11.0);
            let sum = sample(&text, &format!("{name}_seconds_sum"));
            assert_eq!(sum, lateness.sum.as_secs_f64());
        }
    }

    #[test]
    fn the_text_is_whole_and_says_what_it_is() {
        let text = scrape(&used(), GET).unwrap();
        let (head, body) = text.split_once("\r\n\r\n").unwrap();
        assert!(head.starts_with("HTTP/1.1 200 OK\r\n"));
        assert!(head.contains("Content-Type: application/openmetrics-text; version=1.0.0;"));
        assert!(head.contains(&format!("Content-Length: {}\r\n", body.len())));
        assert!(body.ends_with("\n# EOF\n"));
        assert_eq!(body.lines().filter(|line| line.starts_with("# TYPE ")).count(), 15);
        assert!(body.contains("# TYPE tickwheel_start_seconds histogram\n"));
    }

    #[test]
    fn counters_do_not_fall_back_when_the_wheel_ends() {
        let wheel = used();
        drop(wheel.close());
        let text = scrape(&wheel, GET).unwrap();
        assert_eq!((sample(&text, "pending"), sample(&text, "inserted_total")), (0.0, 13.0));
        assert_eq!(sample(&text, "discarded_total"), 7.0);
    }

    #[test]
    fn other_requests_get_an_answer_and_broken_ones_an_end() {
        let wheel = Wheel::builder().manual().unwrap().0;
        let status = |request: &str| scrape(&wheel, request).unwrap()[..12].to_owned();
        assert_eq!(status("GET / HTTP/1.1\r\n\r\n"), "HTTP/1.1 404");
        assert_eq!(status("POST /metrics HTTP/1.1\r\n\r\n"), "HTTP/1.1 405");
        assert_eq!(status("\r\n\r\n"), "HTTP/1.1 405");
        assert!(scrape(&wheel, "GET /metrics HTTP/1.1\r\n").is_err(), "the head has no end");
        assert!(scrape(&wheel, &"x".repeat(20_000)).is_err(), "the head is too long");
    }
}
