//! The metrics of a queue against a list of what happened: `history.rs` makes it.

use std::collections::BTreeMap;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use tickwheel_jobs::{Client, JobInfo, Outcome};

use super::history::{Happened, What};
use super::{DAY, Mail, Store};

/// The samples of a text, each under its name and labels.
pub(crate) struct Samples {
    queue: String,
    samples: BTreeMap<String, f64>,
}

impl Samples {
    pub(crate) fn of(queue: &str, text: &str) -> Samples {
        let samples = text.lines().filter(|line| !line.starts_with('#'));
        let sample = |line: &str| {
            let (name, value) = line.rsplit_once(' ').unwrap();
            (name.to_owned(), value.parse().unwrap())
        };
        let samples: Vec<(String, f64)> = samples.map(sample).collect();
        let many = samples.len();
        let samples: BTreeMap<String, f64> = samples.into_iter().collect();
        assert_eq!(samples.len(), many, "each set of labels once:\n{text}");
        Samples { queue: queue.to_owned(), samples }
    }

    /// Returns the value of a kind.
    pub(crate) fn of_kind(&self, name: &str, kind: &str) -> f64 {
        self.labelled(name, &format!("kind=\"{kind}\""))
    }

    /// Returns the value with these labels beside that of the queue.
    pub(crate) fn labelled(&self, name: &str, labels: &str) -> f64 {
        let queue = format!("queue=\"{}\"", self.queue);
        let mut labels: Vec<&str> = labels.split(',').filter(|label| !label.is_empty()).collect();
        labels.push(&queue);
        labels.sort_unstable();
        let sample = format!("tickwheel_jobs_{name}{{{}}}", labels.join(","));
        self.samples
            .get(&sample)
            .copied()
            .unwrap_or_else(|| panic!("no {sample} in {:#?}", self.samples))
    }

    /// Returns every sample of a metric.
    pub(crate) fn all(&self, name: &str) -> Vec<f64> {
        let start = format!("tickwheel_jobs_{name}{{");
        let samples = self.samples.iter().filter(|(name, _)| name.starts_with(&start));
        samples.map(|(_, value)| *value).collect()
    }
}

/// Compares the counters with what happened: each event is one insert, or one end of a run, or the cancel of a job that
/// did not run.
fn compare_counters(found: &Samples, happened: &Happened) {
    let happened = happened.0.lock().unwrap();
    for kind in ["order", "push"] {
        let count = |what| happened.iter().filter(|(_, of, it)| *of == kind && *it == what).count();
        assert_eq!(found.of_kind("inserted_total", kind), count(What::Inserted) as f64);
        let mut runs = 0;
        for (outcome, wanted) in [
            (Outcome::Completed, count(What::Completed)),
            (Outcome::Retried, count(What::Retried)),
            (Outcome::Snoozed, count(What::Snoozed)),
            (Outcome::Dead, count(What::Dead)),
            (Outcome::Cancelled, 0),
            (Outcome::Interrupted, 0),
        ] {
            let labels = format!("kind=\"{kind}\",outcome=\"{outcome}\"");
            let ended = found.labelled("ended_total", &labels);
            assert_eq!(ended, wanted as f64, "{kind} {outcome}");
            if wanted > 0 {
                assert_eq!(found.labelled("run_duration_seconds_count", &labels), ended);
            }
            runs += wanted;
        }
        assert_eq!(found.of_kind("started_total", kind), runs as f64);
        assert_eq!(found.of_kind("start_lateness_seconds_count", kind), runs as f64);
        assert_eq!(found.of_kind("running", kind), 0.0);
    }
}

/// Compares the gauges with the lists of the jobs.
fn compare_gauges(found: &Samples, client: &Client, now: SystemTime) {
    let (pending, dead): (Vec<JobInfo>, Vec<JobInfo>) =
        (client.pending().collect(), client.dead().collect());
    for kind in ["order", "push", "mail"] {
        let of = |jobs: &[JobInfo]| jobs.iter().filter(|job| job.kind == kind).count() as f64;
        // On a file a job is claimed a little before its time.
        let waiting = found.of_kind("pending", kind) + found.of_kind("claimed", kind);
        assert_eq!(waiting, of(&pending), "{kind}");
        assert_eq!(found.of_kind("dead", kind), of(&dead), "{kind}");
        let late = |job: &JobInfo| now.duration_since(job.due).ok().filter(|late| !late.is_zero());
        let late: Vec<Duration> =
            pending.iter().filter(|job| job.kind == kind).filter_map(late).collect();
        assert_eq!(found.of_kind("overdue", kind), late.len() as f64, "{kind}");
        let oldest = late.iter().max().copied().unwrap_or_default();
        let oldest = Duration::from_millis(oldest.as_millis() as u64);
        assert_eq!(found.of_kind("oldest_overdue_seconds", kind), oldest.as_secs_f64(), "{kind}");
    }
}

/// Compares the metrics of a process with what happened to its jobs, and those of a client without handlers, which has
/// the same gauges and no counters.
pub(super) fn compare(
    store: &Store,
    queue: &str,
    jobs: &Client,
    now: SystemTime,
    happened: &Happened,
) {
    jobs.schedule("nightly", DAY, Mail(1)).unwrap();
    let found = Samples::of(queue, &jobs.metrics().unwrap().to_string());
    compare_counters(&found, happened);
    compare_gauges(&found, jobs, now);
    assert_eq!(found.of_kind("unhandled", "mail"), 1.0);
    assert_eq!(found.of_kind("unhandled", "order"), 0.0);
    assert_eq!(found.labelled("nodes", ""), 1.0);
    let next = jobs.schedules().list().unwrap()[0].next.duration_since(UNIX_EPOCH).unwrap();
    let name = "schedule_next_timestamp_seconds";
    assert_eq!(found.labelled(name, "name=\"nightly\""), next.as_secs_f64());
    let commits = found.labelled("store_commits_total", "");
    let steps = found.labelled("store_commit_duration_seconds_count", "");
    assert!(0.0 < steps && steps <= commits, "{steps} of {commits}");
    // In memory there are no other clients.
    if let Ok(client) = store.open().queue(queue).client() {
        let text = client.metrics().unwrap().to_string();
        assert!(!text.contains("_total") && !text.contains("running"), "{text}");
        let its = Samples::of(queue, &text);
        for kind in ["order", "push", "mail"] {
            for gauge in ["pending", "claimed", "dead"] {
                assert_eq!(its.of_kind(gauge, kind), found.of_kind(gauge, kind));
            }
        }
        assert_eq!(client.process_metrics().to_string(), "");
    }
}
