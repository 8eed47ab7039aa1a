//! The metrics of a queue: what they count, and what may stand in their labels.

use std::time::{Duration, SystemTime};

use tickwheel_jobs::{JobByHand, Jobs, Limit};

use super::scenarios::metrics::Samples;
use super::support::*;

/// P82: The text of a known history, to the letter.
#[test]
fn metrics_of_a_known_history_are_exact() {
    let dies = |_: Push, _: &tickwheel_jobs::Run| Err(tickwheel_jobs::Fail::dead("no such user"));
    let closes = |close: Close, _: &tickwheel_jobs::Run| match close.order {
        1 => Err(tickwheel_jobs::Fail::snooze(HOUR)),
        _ => Ok(()),
    };
    let builder = Jobs::memory().threads(3).handle(closes).handle(dies);
    let (jobs, driver) = builder.manual().unwrap();
    for order in 0..3 {
        jobs.insert(10 * MS, close(order)).unwrap();
    }
    jobs.insert(10 * MS, Push { to: "ann".to_owned() }).unwrap();
    jobs.insert_by_hand(SECOND, JobByHand::new("rate", *b"{}")).unwrap();
    jobs.schedule("nightly", HOUR, close(2)).unwrap();
    driver.advance(10 * MS);
    // It comes ten milliseconds after its time.
    jobs.insert(driver.wall_now() - 10 * MS, close(4)).unwrap();
    driver.advance(3_500 * MS);
    let next =
        jobs.schedules().list().unwrap()[0].next.duration_since(SystemTime::UNIX_EPOCH).unwrap();
    let file = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/guarantees/metrics.txt");
    let expected = std::fs::read_to_string(file).unwrap();
    let expected = expected.replace("VERSION", env!("CARGO_PKG_VERSION"));
    let expected = expected.replace("NEXT", &next.as_secs_f64().to_string());
    // How many commits a step makes is no promise.
    let masked = |line: &str| match line.rsplit_once(' ') {
        Some((sample, _)) if sample.starts_with("tickwheel_jobs_store_commit") => {
            format!("{sample} N\n")
        }
        _ => format!("{line}\n"),
    };
    let text: String = jobs.metrics().unwrap().to_string().lines().map(masked).collect();
    assert_eq!(text, expected, "{text}");
}

/// P84: Metrics name 200 kinds and 200 schedules, and count the others under `other`.
#[test]
fn metrics_name_200_kinds_and_schedules_and_count_the_others() {
    on_each_store(|builder| {
        let (jobs, _driver) = builder.handle(|_: Close, _| Ok(())).manual().unwrap();
        for n in 0..230 {
            jobs.insert_by_hand(HOUR, JobByHand::new(format!("kind-{n:03}"), *b"{}")).unwrap();
            jobs.schedule(&format!("schedule-{n:03}"), HOUR, close(n)).unwrap();
        }
        jobs.insert(HOUR, close(1)).unwrap();
        let found = Samples::of("default", &jobs.metrics().unwrap().to_string());
        for (metric, sum) in [("pending", 231.0), ("unhandled", 230.0), ("inserted_total", 231.0)] {
            let samples = found.all(metric);
            assert!(samples.len() <= 202, "{metric} has {}", samples.len());
            assert_eq!(samples.iter().sum::<f64>(), sum, "{metric}");
        }
        assert_eq!(found.of_kind("pending", "close-order"), 1.0);
        // Of the kinds and this one, 200 have names of their own.
        assert_eq!(found.of_kind("pending", "other"), 31.0);
        assert_eq!(found.all("schedule_next_timestamp_seconds").len(), 201);
    });
}

/// P84: Hostile names of kinds and schedules end neither a label nor a line, and bring no control character.
#[test]
fn metrics_with_hostile_names_have_one_sample_a_line() {
    let hostile =
        ["a\"} 1\nup 2\n", "\\", "\\\"", "\u{1b}[2J\u{9b}31m", "\u{202e}x", "\u{2028}", "\0"];
    on_each_store(|builder| {
        let (jobs, _driver) = builder.handle(|_: Close, _| Ok(())).manual().unwrap();
        for name in hostile {
            jobs.insert_by_hand(HOUR, JobByHand::new(name, *b"{}")).unwrap();
            jobs.schedule(name, HOUR, close(1)).unwrap();
        }
        let text = jobs.metrics().unwrap().to_string();
        assert!(!text.chars().any(|c| c.is_control() && c != '\n'), "{text:?}");
        for line in text.lines() {
            let known = ["# HELP tickwheel_jobs_", "# TYPE tickwheel_jobs_", "tickwheel_jobs_"];
            assert!(known.iter().any(|start| line.starts_with(start)), "{line:?}");
        }
        let found = Samples::of("default", &text);
        assert_eq!(found.all("pending").iter().sum::<f64>(), hostile.len() as f64);
        assert_eq!(found.of_kind("pending", r#"a\"} 1\nup 2\n"#), 1.0);
    });
}

/// Groups that are not over are counted. A queue without groups has no sample of them.
#[test]
fn metrics_count_open_groups() {
    on_each_store(|builder| {
        let (jobs, driver) = builder.handle(|_: Close, _| Ok(())).manual().unwrap();
        let open =
            || Samples::of("default", &jobs.metrics().unwrap().to_string()).all("open_groups");
        assert!(open().is_empty());
        jobs.group().add(Duration::ZERO, close(1)).insert().unwrap();
        jobs.group().add(HOUR, close(2)).insert().unwrap();
        assert_eq!(open(), [2.0]);
        driver.advance(SECOND);
        assert_eq!(open(), [1.0]);
        driver.advance(HOUR);
        assert_eq!(open(), [0.0]);
        jobs.shutdown().unwrap();
    });
}

/// A queue without limits has no metric of limits. With limits, the queue and each flow have samples: at most a hundred
/// of them have. Partitions are counted.
#[test]
fn metrics_of_limits_are_those_of_the_queue_and_of_flows() {
    on_each_store(|builder| {
        let (jobs, driver) = builder.handle(|_: Close, _| Ok(())).manual().unwrap();
        let read = || Samples::of("default", &jobs.metrics().unwrap().to_string());
        let partitions = || {
            let found = read();
            [found.all("limited_partitions"), found.all("paused_partitions")].concat()
        };
        assert!(!jobs.metrics().unwrap().to_string().contains("_limit_"));
        assert!(partitions().is_empty());

        let flow = r#"flow="close-order",scope="flow""#;
        let queue = r#"scope="queue""#;
        let closes = jobs.kind::<Close>();
        closes.limit(Limit::running(2).rate(1, HOUR)).unwrap();
        jobs.insert(Duration::ZERO, close(0)).unwrap();
        driver.advance(SECOND);
        jobs.insert_batch((1..4).map(|n| (Duration::ZERO, close(n)))).unwrap();
        jobs.queue().hold(HOUR).unwrap();
        driver.advance(SECOND);
        let found = read();
        assert_eq!(found.labelled("limit_claimed", flow), 0.0);
        assert_eq!(found.labelled("limit_most_claimed", flow), 2.0);
        assert_eq!(found.labelled("limit_waiting", flow), 3.0);
        let next = found.labelled("limit_next_start_seconds", flow);
        assert!(next > 3500.0 && next <= 3600.0, "{next}");
        assert_eq!(found.labelled("limit_held_seconds", flow), 0.0);
        assert_eq!(found.labelled("limit_held_seconds", queue), 3599.0);
        assert_eq!(found.labelled("limit_waiting", queue), 3.0);
        assert_eq!(found.all("limit_most_claimed").len(), 1);
        assert_eq!(found.all("limit_next_start_seconds").len(), 1);

        jobs.queue().hold(Duration::ZERO).unwrap();
        for n in 0..150 {
            jobs.kind_named(&format!("{n:03}\"\n")).limit(Limit::running(1)).unwrap();
            closes.partition(&n.to_string()).limit(Limit::running(1)).unwrap();
        }
        closes.partition("7").pause().unwrap();
        closes.partition("ann").pause().unwrap();
        assert_eq!(read().all("limit_claimed").len(), 100);
        assert_eq!(partitions(), [150.0, 2.0]);
    });
}

/// P83: The age of the longest run is in the metrics while the run lasts, and falls to zero after it.
#[test]
fn longest_run_is_measured_while_it_lasts() {
    let (jobs, at_start, release) = held(Jobs::memory().threads(1));
    jobs.insert(Duration::ZERO, close(1)).unwrap();
    at_start.recv_timeout(LONG).unwrap();
    let value = |name: &str| {
        let found = Samples::of("default", &jobs.process_metrics().to_string());
        found.of_kind(name, "close-order")
    };
    wait_until("the run is seen", || value("longest_run_seconds") > 0.0);
    assert_eq!(value("running"), 1.0);
    drop(release);
    wait_until("the run is over", || value("running") == 0.0);
    assert_eq!(value("longest_run_seconds"), 0.0);
    jobs.shutdown().unwrap();
}
