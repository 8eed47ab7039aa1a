//! Warnings of the overview: each names the true cause, and leads to what it promises.

use std::sync::mpsc;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::Value;
use tickwheel_jobs::{Fail, Job, JobByHand, Jobs, Limit};
use tickwheel_jobs_web::Dashboard;

use crate::ask::{Charge, Mail, full, get, mail, manual, run_due};

/// A mail in a partition.
#[derive(Serialize, Deserialize)]
struct OfAcme {
    text: String,
}

impl Job for OfAcme {
    const KIND: &'static str = "mail";

    fn partition(&self) -> Option<String> {
        Some("acme".to_owned())
    }
}

/// A warning: its word, what stops the jobs, its text, its cure, and a text of the page that it leads to.
type Case = (&'static str, fn(&Jobs), &'static str, &'static str, &'static str);

const HOUR: Duration = Duration::from_secs(3600);

/// Returns the warnings, each as its word and its text.
fn warnings(dashboard: &Dashboard) -> Vec<(String, String)> {
    let overview = get(dashboard, "/api/v1/overview").ok();
    let text = |warning: &Value, of: &str| warning[of].as_str().unwrap().to_owned();
    let warnings = overview["warnings"].as_array().unwrap().iter();
    warnings.map(|warning| (text(warning, "what"), text(warning, "text"))).collect()
}

/// Follows the link of each warning on the page, and asserts that the page there has the text.
fn leads_to(dashboard: &Dashboard, cure: &str, text: &str) {
    let page = get(dashboard, "/");
    let (before, _) = page.text().split_once(&format!("{cure}</a>")).expect(cure);
    let (_, link) = before.rsplit_once("href=\"").unwrap();
    let link = link.split('"').next().unwrap().replace("&amp;", "&");
    let path = link.trim_start_matches("./").split('#').next().unwrap();
    let there = get(dashboard, &format!("/{path}"));
    assert_eq!(there.status, 200, "{link}");
    assert!(there.text().contains(text), "{link} has no {text:?}");
    if let Some((_, part)) = link.split_once('#') {
        assert!(there.text().contains(&format!("id=\"{part}\"")), "{link}");
    }
}

/// P96: Jobs of a store on a manual clock are overdue for one cause after another. Each warning has its word and its
/// cause, and its link leads to a page that has the cure.
#[test]
fn warning_names_the_true_cause_and_leads_to_its_cure() {
    let cases: [Case; 7] = [
        (
            "paused",
            |jobs| jobs.queue().pause().unwrap(),
            "no further job starts",
            "Resume the queue.",
            "Resume the queue",
        ),
        (
            "kind_paused",
            |jobs| jobs.kind::<Mail>().pause().unwrap(),
            "\"mail\" are overdue: the kind is paused",
            "Resume the kind.",
            "api/v1/kinds/resume",
        ),
        (
            "limit",
            |jobs| jobs.kind::<Mail>().hold(HOUR).unwrap(),
            "the flow mail is held until",
            "Look at the limits.",
            "Hold ends",
        ),
        (
            "limit",
            |jobs| {
                let rate = Limit::none().rate(1, HOUR);
                jobs.kind::<Mail>().limit(rate).unwrap();
            },
            "by its rate, the flow mail starts the next job at",
            "Look at the limits.",
            "1 in 1",
        ),
        (
            "partition_paused",
            |jobs| jobs.kind::<Mail>().partition("acme").pause().unwrap(),
            "the partition of the oldest is paused",
            "Look at the oldest job.",
            "Why it waits",
        ),
        ("", |_| {}, "", "", ""),
        ("", |jobs| jobs.kind::<Charge>().pause().unwrap(), "", "", ""),
    ];
    for (what, stop, text, cure, there) in cases {
        let (jobs, driver) = manual();
        stop(&jobs);
        for _ in 0..2 {
            jobs.insert(Duration::ZERO, OfAcme { text: "due".to_owned() }).unwrap();
        }
        // A job of another kind that is due tomorrow is no cause.
        jobs.insert(24 * HOUR, Charge { card: String::new() }).unwrap();
        for _ in 0..4 {
            run_due(&driver);
        }
        let dashboard = full(jobs.client());
        let found = warnings(&dashboard);
        if what.is_empty() {
            assert_eq!(found, []);
            continue;
        }
        assert_eq!(found.len(), 1, "{what}: {found:?}");
        assert_eq!(found[0].0, what, "{found:?}");
        assert!(found[0].1.contains(text), "{found:?}");
        leads_to(&dashboard, cure, there);
    }
}

/// P96: Kinds without a handler that are overdue are named, and not those that are due later. Several causes are
/// several warnings.
#[test]
fn warning_names_kinds_without_a_handler_that_are_overdue() {
    let (jobs, driver) = Jobs::memory().handle(|_: Mail, _| Ok(())).manual().unwrap();
    jobs.kind::<Mail>().pause().unwrap();
    jobs.insert(Duration::ZERO, mail("due")).unwrap();
    jobs.insert(Duration::ZERO, Charge { card: String::new() }).unwrap();
    jobs.insert_by_hand(24 * HOUR, JobByHand::new("tomorrow", *b"{}")).unwrap();
    for _ in 0..4 {
        run_due(&driver);
    }
    let dashboard = full(jobs.client());
    let all = warnings(&dashboard);
    assert!(all.iter().all(|(_, text)| !text.contains("tomorrow")), "{all:?}");
    let mut words: Vec<String> = warnings(&dashboard).into_iter().map(|it| it.0).collect();
    words.sort_unstable();
    assert_eq!(words, ["kind_paused", "no_handler"]);
    leads_to(&dashboard, "or cancel them.", "charge");
}

/// P96: The busy threads of a process are the cause if nothing else is, with the number of runs that it can have at
/// once.
#[test]
fn warning_says_that_processes_are_busy() {
    let (freed, waits) = mpsc::channel::<()>();
    let waits = std::sync::Mutex::new(waits);
    let jobs = Jobs::memory()
        .threads(1)
        // Further jobs are claimed ahead, and are not overdue then.
        .max_in_flight(1)
        .handle(move |_: Mail, _| waits.lock().unwrap().recv().map_err(Fail::retry))
        .start()
        .unwrap();
    jobs.insert_batch((0..3).map(|_| (Duration::ZERO, mail("long")))).unwrap();
    let dashboard = full(jobs.client());
    let mut found = warnings(&dashboard);
    for _ in 0..300 {
        if !found.is_empty() {
            break;
        }
        std::thread::park_timeout(Duration::from_millis(200));
        found = warnings(&dashboard);
    }
    let overview = get(&dashboard, "/api/v1/overview").ok();
    assert_eq!((&overview["capacity"], &overview["running"]), (&1.into(), &1.into()));
    assert_eq!(found[0].0, "overdue", "{found:?}");
    assert!(found[0].1.contains("They can run 1 job at once"), "{found:?}");
    leads_to(&dashboard, "or start more of them.", "Threads");
    drop(freed);
    jobs.shutdown().unwrap();
    // The jobs that a process claims ahead are not in its capacity.
    let jobs = Jobs::memory().threads(4).handle(|_: Mail, _| Ok(())).start().unwrap();
    let dashboard = full(jobs.client());
    assert_eq!(get(&dashboard, "/api/v1/overview").ok()["capacity"], 4);
    assert_eq!(get(&dashboard, "/api/v1/nodes").ok()["rows"][0]["most_runs"], 4);
    jobs.shutdown().unwrap();
}
