//! The commands about the whole queue: `errors`, `history`, `nodes`, `pause`, `resume`.

use std::time::Duration;

use tickwheel_jobs::Limit;

use super::shared::*;

/// `errors` groups the dead jobs by the first line of their error. `nodes` names this process. `history` counts what
/// happened, for the queue and for a kind.
#[test]
fn errors_nodes_and_history_are_listed() {
    let Some(app) = application() else { return };
    for to in ["ann", "ann", "bob"] {
        app.jobs.insert(Duration::ZERO, push(to)).unwrap();
    }
    app.wait_for_dead(3);
    let groups = json(&app.store, &["errors", "--json"]);
    assert_eq!((&groups[0]["jobs"], &groups[0]["kind"]), (&2.into(), &"push".into()));
    assert!(groups[0]["error"].as_str().unwrap().contains("ann"), "{groups:?}");
    assert_eq!(json(&app.store, &["errors", "--json", "--limit", "1"]).len(), 1);
    assert!(ok(&app.store, &["errors"]).lines().count() == 3);
    wait_until(|| !app.jobs.nodes().unwrap().is_empty());
    let nodes = json(&app.store, &["nodes", "--json"]);
    assert_eq!(nodes[0]["pid"], std::process::id());
    let kinds = nodes[0]["kinds"].as_array().unwrap();
    assert!(kinds.contains(&"push".into()), "{kinds:?}");
    assert!(ok(&app.store, &["nodes"]).contains(&std::process::id().to_string()));
    for args in [&["history", "--json"][..], &["history", "--json", "--kind", "push"]] {
        for step in ["minute", "hour"] {
            let entries = json(&app.store, &[args, &["--step", step]].concat());
            let sum =
                |name: &str| entries.iter().map(|entry| entry[name].as_u64().unwrap()).sum::<u64>();
            assert_eq!((sum("inserted"), sum("dead")), (3, 3), "{entries:?}");
        }
    }
    assert!(ok(&app.store, &["history"]).contains("99% LATE"));
    let earlier = ["history", "--json", "--from", "-3h", "--to", "-2h"];
    assert_eq!(json(&app.store, &earlier).len(), 0);
    assert_eq!(json(&app.store, &["history", "--json", "--kind", "other"]).len(), 0);
    assert_eq!(call(&app.store, &["history", "--kind", "unknown"]).code, 2);
}

/// `pause` stops a kind, the queue or a schedule in the application, and `resume` lets it go on.
#[test]
fn pause_and_resume_reach_the_application() {
    let Some(app) = application() else { return };
    let unknown = call(&app.store, &["pause", "--kind", "close-ordre"]);
    assert!(unknown.code == 2 && unknown.err.contains("close-ordre"), "{}", unknown.err);
    assert_eq!(ok(&app.store, &["pause"]), "the queue is paused\n");
    assert!(app.jobs.queue().is_paused().unwrap());
    assert_eq!(ok(&app.store, &["resume"]), "the queue goes on\n");
    app.jobs.insert(HOUR, push("ann")).unwrap();
    assert_eq!(ok(&app.store, &["pause", "--kind", "push"]), "the kind \"push\" is paused\n");
    assert!(
        app.jobs.kind_named("push").is_paused().unwrap() && !app.jobs.queue().is_paused().unwrap()
    );
    ok(&app.store, &["resume", "--kind", "push"]);
    assert!(!app.jobs.kind_named("push").is_paused().unwrap());
    let none = call(&app.store, &["pause", "--schedule", "nightly"]);
    assert!(none.code == 1 && none.err.contains("there is none"), "{}", none.err);
    app.jobs.schedule("nightly", 24 * HOUR, push("ann")).unwrap();
    let paused = ok(&app.store, &["pause", "--schedule", "nightly"]);
    assert_eq!(paused, "the schedule nightly is paused\n");
    assert!(app.jobs.schedules().list().unwrap()[0].is_paused);
    assert!(ok(&app.store, &["list", "schedules"]).contains("paused"));
    assert_eq!(json(&app.store, &["list", "schedules", "--json"])[0]["is_paused"], true);
    assert!(ok(&app.store, &["top", "--once"]).contains("paused"));
    let both = call(&app.store, &["pause", "--schedule", "nightly", "--kind", "push"]);
    assert_eq!(both.code, 2);
    let resumed = ok(&app.store, &["resume", "--schedule", "nightly"]);
    assert_eq!(resumed, "the schedule nightly goes on\n");
    assert!(!app.jobs.schedules().list().unwrap()[0].is_paused);
}

/// `groups` lists groups with their counts. `seal-group` and `cancel-group` change one.
#[test]
fn groups_are_listed_sealed_and_cancelled() {
    let Some(app) = application() else { return };
    let open = app.jobs.group().add_all([(HOUR, push("ann")), (HOUR, push("bob"))]).open().unwrap();
    let id = open.id().to_string();
    let listed = json(&app.store, &["groups", "--json"]);
    assert_eq!((&listed[0]["id"], &listed[0]["open"]), (&id.as_str().into(), &2.into()));
    assert!(listed[0]["made"].is_string() && listed[0]["ended"].is_null());
    assert!(ok(&app.store, &["groups"]).contains("open"));
    let member = json(&app.store, &["list", "--json"]).remove(0);
    assert_eq!(member["group"], *id);
    let shown = ok(&app.store, &["show", member["id"].as_str().unwrap()]);
    assert!(shown.contains(&format!("group         {id}")), "{shown}");
    assert_eq!(json(&app.store, &["stats", "--json"])[0]["open_groups"], 1);
    assert!(ok(&app.store, &["stats"]).contains("groups     1 not over"));
    assert_eq!(json(&app.store, &["top", "--json"])[0]["groups"][0]["open"], 2);
    assert_eq!(ok(&app.store, &["seal-group", &id]), format!("{id} is sealed\n"));
    assert_eq!(ok(&app.store, &["seal-group", &id]), format!("{id} was sealed before\n"));
    assert!(ok(&app.store, &["cancel-group", &id]).contains("2 pending jobs with it"));
    assert_eq!(json(&app.store, &["groups", "--json"])[0]["cancelled"], 2);
    assert!(ok(&app.store, &["groups"]).contains("ended"));
    assert_eq!(call(&app.store, &["cancel-group", &id]).code, 1);
    let unknown = call(&app.store, &["seal-group", &"0".repeat(32)]);
    assert!(unknown.code == 1 && unknown.err.contains("no such group"), "{}", unknown.err);
    assert_eq!(call(&app.store, &["seal-group", "what"]).code, 2);
}

/// `limits` lists the limits with what runs, the rate and the end of a hold.
#[test]
fn limits_are_listed() {
    let Some(app) = application() else { return };
    assert_eq!(json(&app.store, &["limits", "--json"]).len(), 0);
    let pushes = app.jobs.kind::<Push>();
    app.jobs.queue().limit(Limit::running(7)).unwrap();
    pushes.limit(Limit::none().rate(10, Duration::from_secs(1)).burst(3)).unwrap();
    pushes.limit_each(Limit::running(2).weight(5)).unwrap();
    pushes.partition("acme").hold(HOUR).unwrap();
    let limits = json(&app.store, &["limits", "--json"]);
    let scopes: Vec<_> = limits.iter().map(|limit| limit["scope"].as_str().unwrap()).collect();
    // The held partition comes first.
    assert_eq!(scopes, ["partition", "queue", "flow", "each_partition"]);
    assert_eq!((&limits[1]["most_running"], &limits[1]["running"]), (&7.into(), &0.into()));
    assert_eq!((&limits[2]["flow"], &limits[2]["rate"]), (&"push".into(), &10.into()));
    assert_eq!((&limits[2]["per_ms"], &limits[2]["burst"]), (&1000.into(), &3.into()));
    assert_eq!((&limits[3]["kind"], &limits[3]["weight"]), (&"push".into(), &5.into()));
    assert_eq!(limits[0]["partition"], "acme");
    assert!(limits[0]["held_until"].is_string() && limits[0]["next_start"].is_null());
    let table = ok(&app.store, &["limits"]);
    assert!(table.contains("partition acme of push") && table.contains("10 in 1s"), "{table}");
    let stats = json(&app.store, &["stats", "--json"]).remove(0);
    assert_eq!((&stats["limits"], &stats["limits_reached"]), (&4.into(), &1.into()));
    let stats = ok(&app.store, &["stats"]);
    assert!(stats.contains("limits     4, 1 of them reached"), "{stats}");
    // The one that lets no job start comes first.
    let top = json(&app.store, &["top", "--json"]).remove(0);
    assert_eq!(top["limits"][0], limits[0]);
    assert_eq!(top["limits"].as_array().unwrap().len(), 4);
    let page = ok(&app.store, &["top", "--once"]);
    assert!(page.contains("\nlimits\n") && page.contains("0 of 7"), "{page}");
}

/// P41: `stats`, `nodes` and `list` warn of jobs that are due while no process handles their kind, and of no others.
#[test]
fn overdue_jobs_without_a_node_are_warned_of() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("shop.db");
    let store = path.to_str().unwrap();
    let builder = || tickwheel_jobs::Jobs::open(&path).unwrap();
    let client = builder().client().unwrap();
    let past = std::time::SystemTime::now() - HOUR;
    client.insert(HOUR, push("ann")).unwrap();
    for verb in ["stats", "nodes", "list"] {
        ok(store, &[verb]);
    }
    client.insert(past, push("bob")).unwrap();
    for args in
        [&["stats"][..], &["nodes"], &["list"], &["list", "dead", "--json"], &["stats", "--json"]]
    {
        let ended = call(store, args);
        assert_eq!(ended.code, 0, "{args:?}");
        assert!(
            ended
                .err
                .contains("warning: Jobs of the kind \"push\" are overdue: no process handles"),
            "{}",
            ended.err
        );
        assert_eq!(ended.err.lines().count(), 1, "{}", ended.err);
    }
    let stats = call(store, &["stats", "--json"]).out;
    assert_eq!(lines(&stats)[0]["kinds"][0]["has_node"], false);
    assert_eq!(lines(&stats)[0]["overdue"]["count"], 1);
    assert!(call(store, &["stats"]).out.contains("overdue    1, the oldest by 1h"));
    // A process that handles the kind, and has no slot for it.
    let (go_on, may_end) = std::sync::mpsc::channel::<()>();
    let may_end = std::sync::Mutex::new(may_end);
    client.insert(past, push("cid")).unwrap();
    let handler = move |_: Push, _: &tickwheel_jobs::Run| {
        let _ = may_end.lock().unwrap().recv_timeout(HOUR);
        Ok(())
    };
    let jobs = builder().threads(1).max_in_flight(1).handle(handler).start().unwrap();
    wait_until(|| jobs.count().unwrap().running == 1 && !jobs.nodes().unwrap().is_empty());
    assert_eq!(jobs.count().unwrap().overdue.count, 1);
    for verb in ["stats", "nodes", "list"] {
        ok(store, &[verb]);
    }
    assert_eq!(json(store, &["stats", "--json"])[0]["kinds"][0]["has_node"], true);
    drop(go_on);
    jobs.shutdown().unwrap();
}

/// `queues` lists every queue of a file with its counts, the default one first, and makes no file.
#[test]
fn queues_are_listed_with_counts() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("shop.db");
    let store = path.to_str().unwrap();
    let missing = call(store, &["queues"]);
    assert!(missing.code == 2 && missing.err.contains("shop.db"), "{}", missing.err);
    assert!(!path.exists());
    let of = |queue: Option<&str>| {
        let builder = tickwheel_jobs::Jobs::open(&path).unwrap();
        queue.into_iter().fold(builder, |builder, queue| builder.queue(queue)).client().unwrap()
    };
    of(Some("mail")).insert_batch([(HOUR, push("ann")), (HOUR, push("bob"))]).unwrap();
    of(None).insert(HOUR, push("cid")).unwrap();
    let listed = json(store, &["queues", "--json"]);
    let found: Vec<_> = listed.iter().map(|line| (&line["queue"], &line["pending"])).collect();
    assert_eq!(found, [(&serde_json::Value::Null, &1.into()), (&"mail".into(), &2.into())]);
    let text = ok(store, &["queues"]);
    assert!(text.contains("the default one") && text.contains("mail"), "{text}");
    assert_eq!(call(store, &["queues", "--queue", "mail"]).code, 2);
}

/// `metrics` prints the gauges of the queue, whichever of command and store comes first, and no counter.
#[test]
fn metrics_are_printed_for_prometheus_and_openmetrics() {
    let Some(app) = application() else { return };
    app.jobs.insert(Duration::from_secs(3600), push("ann")).unwrap();
    let line = "tickwheel_jobs_pending{kind=\"push\",queue=\"default\"} 1\n";
    let text = ok(&app.store, &["metrics"]);
    assert!(text.contains(line) && !text.contains("_total"), "{text}");
    assert!(ok("metrics", &[&app.store]).contains(line));
    let open = ok(&app.store, &["metrics", "--openmetrics"]);
    assert!(open.contains(line) && open.ends_with("# EOF\n"), "{open}");
    let other = app.jobs.insert(Duration::from_secs(3600), push("bob"));
    assert!(other.is_ok() && ok(&app.store, &["metrics"]).contains("queue=\"default\"} 2\n"));
}
