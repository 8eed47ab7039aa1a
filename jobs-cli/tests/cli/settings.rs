//! The commands that slow jobs down or stop them, and those that set a kind or remove a schedule, on a file and on a
//! server.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;

use serde::{Deserialize, Serialize};
use serde_json::json;
use tickwheel_jobs::{Job, Limit, LimitScope, Run, Schedule};

use super::*;

/// P24: `limit` slows a kind down on every node while jobs run. On a server there are two nodes. `limit --none` lifts
/// the limit.
#[test]
fn limit_slows_every_node_down_until_it_is_lifted() {
    let Some(place) = place() else { return };
    let runs = Arc::new(AtomicU64::new(0));
    let node = || {
        let counted = Arc::clone(&runs);
        let handler = move |_: Close, _: &Run| {
            counted.fetch_add(1, Ordering::Relaxed);
            thread::sleep(Duration::from_millis(2));
            Ok(())
        };
        place.builder().threads(2).handle(handler).start()
    };
    // A file has one node.
    let nodes = [node(), node()].into_iter().flatten().collect::<Vec<_>>();
    nodes[0].insert_batch((0..60_000).map(|n| (Duration::ZERO, Close(n)))).unwrap();
    // Waits until the number of runs has grown (`grows`) or stood still in `looks` reads in a row.
    let wait = |looks: u32, grows: bool| {
        let (mut last, mut same) = (0, 0);
        wait_until(|| {
            thread::sleep(Duration::from_millis(20));
            let now = runs.load(Ordering::Relaxed);
            same = if (now > last) == grows { same + 1 } else { 0 };
            last = now;
            same >= looks
        });
    };
    wait(5, true);
    let limit = ["limit", "--kind", "close-order"];
    let said = ok(place.store(), &[&limit[..], &["--rate", "1/1h"]].concat());
    assert!(said.starts_with("the kind \"close-order\": rate 1/1h (before: no stored"), "{said}");
    wait(40, false);
    assert!(nodes[0].count().unwrap().pending > 0);
    let said = ok(place.store(), &[&limit[..], &["--none"]].concat());
    assert!(
        said.starts_with("the kind \"close-order\": no stored limit (before: rate 1/1h)"),
        "{said}"
    );
    wait(5, true);
    nodes.into_iter().for_each(|jobs| jobs.shutdown().unwrap());
}

/// `limit` keeps the parts that no option names. It prints the limit before and after, and the options that restore the
/// old limit. With `--dry-run` it changes nothing.
#[test]
fn limit_changes_the_parts_that_are_named() {
    let Some(app) = application() else { return };
    app.jobs.insert(HOUR, push("ann")).unwrap();
    let limit = |args: &[&str]| ok(&app.store, &[&["limit", "--kind", "push"], args].concat());
    let stored = |scope: LimitScope| {
        let limits = app.jobs.queue().limits().unwrap();
        limits.into_iter().find(|info| info.scope == scope).map(|info| info.limit)
    };
    let flow = LimitScope::Flow("push".to_owned());
    let rate = |jobs| Limit::none().rate(jobs, Duration::from_millis(1500));
    limit(&["--rate", "50/1.5s", "--burst", "20"]);
    assert_eq!(stored(flow.clone()), Some(rate(50).burst(20)));
    let said = limit(&["--running", "4", "--dry-run"]);
    let would = "the kind \"push\": it would be: rate 50/1500ms, burst 20, running 4";
    assert!(said.starts_with(would), "{said}");
    assert_eq!(stored(flow.clone()), Some(rate(50).burst(20)));
    limit(&["--running", "4"]);
    let said = limit(&["--rate", "10/1500ms"]);
    // A new rate does not keep the burst of the old rate.
    assert_eq!(stored(flow.clone()), Some(Limit::running(4).rate(10, Duration::from_millis(1500))));
    let back = "the way back: the same command with ";
    let back = said.lines().find_map(|line| line.strip_prefix(back)).unwrap();
    assert_eq!(back, "--none --rate 50/1500ms --burst 20 --running 4");
    limit(&back.split(' ').collect::<Vec<_>>());
    let both = Limit::running(4).rate(50, Duration::from_millis(1500)).burst(20);
    assert_eq!(stored(flow.clone()), Some(both));
    let said = &json(&app.store, &["limit", "--kind", "push", "--none", "--json"])[0];
    let none = json!({ "most_running": null, "rate": null, "per_ms": null, "burst": null, "weight": null });
    assert_eq!((&said["of"], &said["now"]), (&json!("the kind \"push\""), &none));
    assert_eq!((&said["before"]["rate"], &said["before"]["per_ms"]), (&json!(50), &json!(1500)));
    assert_eq!(stored(flow), None);
    limit(&["--each", "--running", "2", "--weight", "3"]);
    assert_eq!(stored(LimitScope::Each("push".into())), Some(Limit::running(2).weight(3)));
    let acme = limit(&["--partition", "acme", "--running", "9"]);
    assert!(acme.starts_with("the partition \"acme\" of the kind \"push\": running 9"), "{acme}");
    ok(&app.store, &["limit", "--running", "7"]);
    // A limit that the program sets now waits until the limit set by hand is lifted.
    app.jobs.queue().limit(Limit::running(5)).unwrap();
    assert_eq!(stored(LimitScope::Queue), Some(Limit::running(7)));
    let said = ok(&app.store, &["limit", "--none", "--dry-run"]);
    assert_eq!(said, "the queue: it would be: running 5 (before: running 7)\n");
    let said = ok(&app.store, &["limit", "--none"]);
    assert!(said.starts_with("the queue: running 5 (before: running 7)"), "{said}");
    assert!(said.ends_with("the same command with --none --running 7\n"), "{said}");
    // The lift of a second operator leaves the limit of the program alone.
    let again = call(&app.store, &["limit", "--none"]);
    assert!(again.code == 1 && again.err.contains("has no limit set by hand; the program"));
    assert_eq!(again.out, "the queue: running 5 (before: running 5)\n");
    assert_eq!(stored(LimitScope::Queue), Some(Limit::running(5)));
    let said = ok(&app.store, &["limit", "--none", "--program"]);
    assert!(said.starts_with("the queue: no stored limit (before: running 5)"), "{said}");
    assert!(said.ends_with("the same command with --none --running 5\n"), "{said}");
    assert_eq!(stored(LimitScope::Queue), None);
    assert_eq!(call(&app.store, &["limit", "--none"]).code, 1);
}

/// `--kind` with a kind of a flow limits the flow. So does `--kind` with the name of a flow that has a limit.
#[test]
fn kind_stands_for_its_flow() {
    #[derive(Serialize, Deserialize)]
    struct Refund;
    impl Job for Refund {
        const KIND: &'static str = "refund";
        const FLOW: &'static str = "bank";
    }
    let Some(place) = place() else { return };
    let jobs = place.builder().handle(|_: Refund, _| Ok(())).start().unwrap();
    jobs.insert(HOUR, Refund).unwrap();
    let (store, flow) = (place.store(), LimitScope::Flow("bank".to_owned()));
    wait_until(|| {
        let said = ok(&store, &["limit", "--kind", "refund", "--running", "3", "--dry-run"]);
        said.starts_with("the flow \"bank\":")
    });
    assert_eq!(call(&store, &["limit", "--kind", "bank", "--none"]).code, 2);
    ok(&store, &["limit", "--kind", "refund", "--running", "3"]);
    assert_eq!(jobs.queue().limits().unwrap()[0].scope, flow);
    let said = ok(&store, &["limit", "--kind", "bank", "--none"]);
    // The name is that of the flow, and no kind has it.
    assert!(said.starts_with("the flow \"bank\": no stored limit (before: running 3)"), "{said}");
    assert_eq!(jobs.queue().limits().unwrap(), []);
    jobs.shutdown().unwrap();
}

/// A shorter hold of a scope that is held changes nothing, and the command reports that. `release` ends the hold.
#[test]
fn hold_lasts_until_it_is_over_or_lifted() {
    let Some(app) = application() else { return };
    app.jobs.insert(HOUR, push("ann")).unwrap();
    let held = || app.jobs.queue().limits().unwrap().iter().any(|info| info.held_until.is_some());
    for of in [&[][..], &["--kind", "push"], &["--kind", "push", "--partition", "acme"]] {
        let args = |first: &[&'static str]| [first, of].concat();
        let said = ok(&app.store, &args(&["hold", "2h", "--dry-run"]));
        assert!(said.contains("it would be: held until") && !held(), "{said}");
        let said = ok(&app.store, &args(&["hold", "2h"]));
        assert!(said.contains(": held until ") && said.contains("(before: not held)"), "{said}");
        assert!(held());
        let shorter = call(&app.store, &args(&["hold", "1m"]));
        assert!(shorter.code == 0 && shorter.err.contains("`release` lifts it"), "{}", shorter.err);
        assert!(shorter.out.contains("(in 1h 59m)"), "{}", shorter.out);
        for lifts in [&["release"][..], &["hold", "0s"]] {
            assert_eq!(call(&app.store, &args(&["hold", "1h"])).code, 0);
            let said = ok(&app.store, &args(lifts));
            assert!(said.contains(": not held (before: held until"), "{said}");
            assert!(!held());
        }
    }
    let said = &json(&app.store, &["hold", "1h", "--json"])[0];
    assert!(said["before"]["held_until"].is_null() && said["now"]["held_until"].is_string());
}

/// `pause` and `resume` take a partition. `stats` and `top` name each pause, each hold and each limit set by hand until
/// it is lifted.
#[test]
fn what_is_in_force_stands_on_every_page() {
    let Some(app) = application() else { return };
    app.jobs.insert(HOUR, push("ann")).unwrap();
    let acme = ["--kind", "push", "--partition", "acme"];
    let said = ok(&app.store, &[&["pause"][..], &acme].concat());
    assert_eq!(said, "the partition \"acme\" of the kind \"push\" is paused\n");
    assert!(ok(&app.store, &["limits"]).contains("paused"));
    ok(&app.store, &["pause"]);
    ok(&app.store, &["pause", "--kind", "close-order"]);
    ok(&app.store, &["limit", "--kind", "push", "--rate", "10/s", "--running", "4"]);
    ok(&app.store, &["hold", "2h", "--kind", "close-order"]);
    let wanted = [
        "Paused: the queue. Paused: the kind \"close-order\". ",
        "Limited by hand: the flow \"push\", at most 4 run at once, at most 10 start in 1 s.",
        ": the flow \"close-order\".",
        "Paused: the partition \"acme\" of the kind \"push\".",
    ];
    let has_line = |page: &str| {
        let line = page.lines().find(|line| line.contains(wanted[0]));
        line.is_some_and(|line| wanted.iter().all(|text| line.contains(text)))
    };
    for page in [&["stats"][..], &["top", "--once"]] {
        let page = ok(&app.store, page);
        assert!(has_line(&page), "{page}");
    }
    let stats = &json(&app.store, &["stats", "--json"])[0];
    assert_eq!(stats["slowdowns"]["total"], 5);
    assert_eq!(
        ok(&app.store, &[&["resume"][..], &acme].concat()),
        "the partition \"acme\" of the kind \"push\" goes on\n"
    );
    ok(&app.store, &["resume"]);
    ok(&app.store, &["resume", "--kind", "close-order"]);
    ok(&app.store, &["release", "--kind", "close-order"]);
    ok(&app.store, &["limit", "--kind", "push", "--none"]);
    for page in [&["stats"][..], &["top", "--once"]] {
        let page = ok(&app.store, page);
        assert!(!page.contains("Paused") && !page.contains("by hand"), "{page}");
    }
}

/// `keep` and `head-start` print the setting before and after the change. `remove-schedule` removes a schedule.
#[test]
fn kinds_and_schedules_are_set_by_hand() {
    let Some(app) = application() else { return };
    let keep = |args: &[&str]| ok(&app.store, &[&["keep", "--kind", "close-order"], args].concat());
    let said = keep(&["--last", "5", "--age", "7d", "--bytes", "16M"]);
    let bounds = "the last 5, for 7 d, up to 16777216 bytes";
    assert_eq!(said, format!("the kind \"close-order\": keeps {bounds} (before: keeps nothing)\n"));
    // The application notices the bounds within a second.
    wait_until(|| {
        app.jobs.insert(Duration::ZERO, Close(7)).unwrap();
        app.jobs.ended().count() > 0
    });
    let said = keep(&["--last", "9", "--dry-run"]);
    assert!(said.contains("it would be: keeps the last 9 (before: keeps the last 5"), "{said}");
    let said: serde_json::Value = serde_json::from_str(&keep(&["--none", "--json"])).unwrap();
    assert_eq!(said["before"], json!({ "keeps": bounds }));
    assert_eq!(said["now"], json!({ "keeps": null }));

    let head_start = |by| ok(&app.store, &["head-start", "--kind", "close-order", by]);
    assert_eq!(
        head_start("1m"),
        "the kind \"close-order\": a head start of 1m (before: no head start)\n"
    );
    let none = ["head-start", "--kind", "close-order", "0s", "--dry-run", "--json"];
    let said = &json(&app.store, &none)[0];
    assert_eq!(said["before"], json!({ "head_start_ms": 60_000 }));
    assert_eq!(said["now"], json!({ "head_start_ms": null }));
    assert!(head_start("0s").contains("no head start (before: a head start of 1m)"));

    app.jobs.schedule("sweep", Schedule::every(HOUR), Close(3)).unwrap();
    let remove = |args: &[&str]| call(&app.store, &[&["remove-schedule", "sweep"], args].concat());
    assert!(remove(&["--dry-run"]).ok().contains("sweep would be removed: jobs close-order"));
    assert_eq!(app.jobs.schedules().list().unwrap().len(), 1);
    assert!(remove(&[]).ok().contains("the schedule sweep is removed"));
    assert_eq!(app.jobs.schedules().list().unwrap(), []);
    let again = remove(&[]);
    assert!(again.code == 1 && again.err.contains("there is none"), "{}", again.err);
}
