//! The commands about the whole queue: `errors`, `history`, `nodes`, `pause`, `resume`; and `list ended`.

use std::time::Duration;

use tickwheel_jobs::Keep;

use super::shared::*;

fn push(to: &str) -> Push {
    Push { to: to.to_owned() }
}

/// `errors` groups the dead jobs by the first line of their error. `nodes` names this process.
#[test]
fn errors_and_nodes_are_listed() {
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
}

/// `history` counts what happened, for the queue and for a kind.
#[test]
fn history_counts_what_happened() {
    let Some(app) = application() else { return };
    for to in ["ann", "bob"] {
        app.jobs.insert(Duration::ZERO, push(to)).unwrap();
    }
    app.wait_for_dead(2);
    for args in [&["history", "--json"][..], &["history", "--json", "--kind", "push"]] {
        for step in ["minute", "hour"] {
            let entries = json(&app.store, &[args, &["--step", step]].concat());
            let sum =
                |name: &str| entries.iter().map(|entry| entry[name].as_u64().unwrap()).sum::<u64>();
            assert_eq!((sum("inserted"), sum("dead")), (2, 2), "{entries:?}");
        }
    }
    assert!(ok(&app.store, &["history"]).contains("99% LATE"));
    let earlier = ["history", "--json", "--from", "-3h", "--to", "-2h"];
    assert_eq!(json(&app.store, &earlier).len(), 0);
    assert_eq!(json(&app.store, &["history", "--json", "--kind", "other"]).len(), 0);
    assert_eq!(call(&app.store, &["history", "--kind", "unknown"]).code, 2);
}

/// `pause` stops a kind or the queue in the application, and `resume` lets it go on.
#[test]
fn pause_and_resume_reach_the_application() {
    let Some(app) = application() else { return };
    let unknown = call(&app.store, &["pause", "--kind", "close-ordre"]);
    assert!(unknown.code == 2 && unknown.err.contains("close-ordre"), "{}", unknown.err);
    assert_eq!(ok(&app.store, &["pause"]), "the queue is paused\n");
    assert!(app.jobs.is_paused().unwrap());
    assert_eq!(ok(&app.store, &["resume"]), "the queue goes on\n");
    app.jobs.insert(HOUR, push("ann")).unwrap();
    assert_eq!(ok(&app.store, &["pause", "--kind", "push"]), "the kind push is paused\n");
    assert!(app.jobs.kind_named("push").is_paused().unwrap() && !app.jobs.is_paused().unwrap());
    ok(&app.store, &["resume", "--kind", "push"]);
    assert!(!app.jobs.kind_named("push").is_paused().unwrap());
}

/// `list ended` shows completed jobs that are kept.
#[test]
fn ended_jobs_are_listed() {
    let Some(app) = application() else { return };
    app.jobs.kind::<Close>().keep_completed(Keep::last(10)).unwrap();
    let id = app.jobs.insert(Duration::ZERO, Close(7)).unwrap();
    wait_until(|| app.jobs.ended().count() == 1);
    let ended = json(&app.store, &["list", "ended", "--json"]);
    assert_eq!(
        (ended[0]["id"].as_str(), &ended[0]["state"]),
        (Some(&*id.to_string()), &"completed".into())
    );
    assert!(ended[0]["took_ms"].is_u64() && ended[0]["ended"].is_string());
    let page = ok(&app.store, &["show", &id.to_string()]);
    assert!(page.contains("completed") && page.contains("took"), "{page}");
}
