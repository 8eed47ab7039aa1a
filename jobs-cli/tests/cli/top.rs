//! `top --once` and `top --json`, which need no terminal: on a file and on a server.

use std::process::{Command, Stdio};

use serde_json::Value;

use super::*;

/// `top --json` prints one object: the counts, the rates of the last minutes, and a list of each sort.
#[test]
fn top_json_has_the_figures_of_the_queue() {
    let Some(app) = application() else { return };
    app.jobs.insert(HOUR, Close(1)).unwrap();
    app.jobs.insert(Duration::ZERO, push("a")).unwrap();
    app.jobs.insert(Duration::ZERO, Close(2)).unwrap();
    app.wait_for_dead(1);
    wait_until(|| app.jobs.count().unwrap().pending == 1);
    app.jobs.schedule("sweep", tickwheel_jobs::Schedule::every(HOUR), push("b")).unwrap();
    wait_until(|| !app.jobs.nodes().unwrap().is_empty());
    let printed = json(&app.store, &["top", "--json"]);
    assert_eq!(printed.len(), 1);
    let top = &printed[0];
    for (field, number) in [("pending", 1), ("dead", 1), ("schedules", 1), ("alive_nodes", 1)] {
        assert_eq!(top[field], number, "{field}: {top}");
    }
    assert_eq!(top["overdue"], serde_json::json!({ "count": 0, "is_exact": true }));
    let recent = &top["recent"];
    assert_eq!(
        (&recent["completed"], &recent["failed"], &top["all_kinds"]),
        (&1.into(), &1.into(), &2.into())
    );
    assert!(top["capacity"].as_u64().unwrap() > 0);
    assert!((60.0..=125.0).contains(&recent["seconds"].as_f64().unwrap()), "{top}");
    assert!(recent["late_p99_ms"].is_number() && recent["took_p99_ms"].is_number(), "{top}");
    assert!(top["now"].as_str().unwrap().ends_with('Z'));
    assert_eq!((&top["queue"], &top["is_paused"]), (&Value::Null, &false.into()));
    let kind = |name: &str| {
        let kinds = top["kinds"].as_array().unwrap();
        kinds.iter().find(|kind| kind["kind"] == name).unwrap()
    };
    assert_eq!(
        (&kind("close-order")["pending"], &kind("close-order")["recent"]["completed"]),
        (&1.into(), &1.into())
    );
    assert_eq!(kind("push")["dead"], serde_json::json!({ "count": 1, "is_exact": true }));
    assert_eq!(
        (&kind("push")["has_node"], &kind("push")["recent"]["failed"]),
        (&true.into(), &1.into())
    );
    assert_eq!(top["nodes"][0]["pid"], std::process::id());
    assert_eq!(top["runs"], serde_json::json!([]));
    assert_eq!(
        (&top["dead_by_error"][0]["kind"], &top["dead_by_error"][0]["jobs"]),
        (&"push".into(), &1.into())
    );
    assert_eq!(top["next_schedules"][0]["name"], "sweep");
    // The command may stand before the store, and `--once` changes nothing about JSON.
    let turned = command("top", &[&app.store, "--once", "--json"]);
    let turned = lines(&Ended::of(&mut { turned }).ok());
    assert_eq!(turned[0]["store"], top["store"]);
}

/// `top --once` prints a page and ends. Without a terminal, `top` says how to get one. A reader that has gone is no
/// error.
#[test]
fn top_once_prints_a_page() {
    let Some(app) = application() else { return };
    app.jobs.insert(HOUR, Close(1)).unwrap();
    app.jobs.insert(Duration::ZERO, push("a")).unwrap();
    app.wait_for_dead(1);
    let page = ok(&app.store, &["top", "--once"]);
    let lines: Vec<&str> = page.lines().collect();
    assert!(lines[0].contains("queue default") && lines[0].ends_with("1 node"), "{page}");
    assert!(lines[1].starts_with("pending 1  overdue 0  running 0 of "), "{page}");
    assert!(lines[1].contains("  dead 1  ") && lines[1].contains("99% late "), "{page}");
    for table in ["kinds", "nodes", "dead by error"] {
        assert!(lines.contains(&table), "{table}: {page}");
    }
    assert!(!lines.contains(&"running") && !lines.contains(&"schedules"), "{page}");
    assert!(page.contains("no route to"), "{page}");

    let refused = call(&app.store, &["top"]);
    assert_eq!((refused.code, &*refused.out), (2, ""));
    assert!(refused.err.contains("top --once"), "{}", refused.err);

    let mut gone: Command = command(&app.store, &["top", "--once"]);
    let mut gone = gone.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
    drop(gone.stdout.take());
    assert!(gone.wait().unwrap().success());
}

/// `top --json` has a running job with its progress, and counts it with its kind. `stats` counts it as claimed, `show`
/// and `list running` have its progress. `cancel` sets `Run::is_cancelled`, and exits with 1 because the job has started.
#[test]
fn top_json_has_the_jobs_that_run() {
    let Some(place) = place() else { return };
    let handler = |_: Close, run: &tickwheel_jobs::Run| {
        run.set_progress(&[3, 10])?;
        wait_until(|| run.is_cancelled());
        Err(tickwheel_jobs::Fail::interrupted())
    };
    let jobs = place.builder().handle(handler).start().unwrap();
    let id = &*jobs.keyed("first").insert(Duration::ZERO, Close(1)).unwrap().to_string();
    let mut top = Value::Null;
    wait_until(|| {
        top = json(place.store(), &["top", "--json"]).remove(0);
        top["runs"][0]["progress"] == "[3,10]"
    });
    assert_eq!((&top["runs"][0]["id"], &top["runs"][0]["key"]), (&id.into(), &"first".into()));
    assert_eq!((&top["kinds"][0]["running"], &top["kinds"][0]["pending"]), (&1.into(), &0.into()));
    assert_eq!(top["running"], 1);
    let stats = ok(place.store(), &["stats"]);
    assert!(stats.contains("claimed    1\n"), "{stats}");
    let page = ok(place.store(), &["show", id]);
    assert!(page.contains("progress      [3,10]\n"), "{page}");
    let listed = json(place.store(), &["list", "running", "--json"]);
    assert_eq!((ids(&listed), &listed[0]["progress"]), (vec![id], &serde_json::json!([3, 10])));
    let moved = call(place.store(), &["reschedule", id, "--in", "1h"]);
    assert!(moved.code == 1 && moved.err.contains(&format!("{id} was claimed")), "{}", moved.err);
    let late = call(place.store(), &["cancel", id]);
    assert!(late.code == 1 && late.err.contains("asked to stop"), "{}", late.err);
    wait_until(|| jobs.get(id.parse().unwrap()).unwrap().is_none());
    jobs.shutdown().unwrap();
}
