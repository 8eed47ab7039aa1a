//! The verbs, on a file and on a server.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use serde_json::Value;
use tickwheel_jobs::JobId;

use super::*;

/// `list` prints a line for each job that its filters choose, and says if `--limit` left jobs out.
#[test]
fn list_prints_a_line_per_job_and_applies_its_filters() {
    let Some(app) = application() else { return };
    let base = SystemTime::now() + 24 * HOUR;
    let close = |hour: u32| app.jobs.insert(base + hour * HOUR, Close(hour.into())).unwrap();
    let made: Vec<String> = (0..4).map(|hour| close(hour).to_string()).collect();
    let push = Push { to: "Zoë\n\u{1b}[2J".into() };
    let push = app.jobs.keyed("user 7").insert(base, push).unwrap().to_string();
    let listed = json(&app.store, &["list", "--json", "--kind", "close-order"]);
    assert_eq!(ids(&listed), made);
    assert_eq!((&listed[1]["payload"], &listed[1]["state"]), (&1.into(), &"pending".into()));
    assert!(listed[1]["due"].as_str().unwrap().ends_with('Z'));

    let ms = |time: SystemTime| time.duration_since(UNIX_EPOCH).unwrap().as_millis();
    let at = i64::try_from(ms(base + HOUR)).unwrap();
    let at = jiff::Timestamp::from_millisecond(at).unwrap().to_string();
    let window = ["list", "--json", "--from", &at, "--to", "27h", "--kind", "close-order"];
    assert_eq!(ids(&json(&app.store, &window)), made[1..]);
    let two = call(&app.store, &["list", "--json", "--kind", "close-order", "--limit", "2"]);
    assert_eq!((two.code, two.out.lines().count()), (0, 2));
    assert!(two.err.contains("more than 2: --limit"), "{}", two.err);

    let table = ok(&app.store, &["list"]);
    assert_eq!(table.lines().count(), 6, "{table}");
    let row = table.lines().find(|line| line.starts_with(&push)).unwrap();
    for part in ["push", "pending", "in 23h 59m", "user 7", " 0 "] {
        assert!(row.contains(part), "{part:?} in {row:?}");
    }
    let shown = ok(&app.store, &["show", &push]);
    assert!(shown.contains("user 7") && !shown.contains('\u{1b}'), "{shown:?}");
    // What a job says cannot steer the terminal.
    let key = "\u{1b}]0;x\u{7}";
    app.jobs.keyed(key).insert(HOUR, Close(9)).unwrap();
    assert!(!ok(&app.store, &["list"]).contains('\u{1b}'));
    app.jobs.shutdown().unwrap();
}

/// `show` prints every field of a job, and a payload that is no text in hex.
#[test]
fn show_prints_everything_and_bytes_that_are_no_text_in_hex() {
    let Some(app) = application() else { return };
    let id = app.jobs.insert(HOUR, Raw).unwrap().to_string();
    let shown = ok(&app.store, &["show", &id]);
    for part in [&*id, "raw", "pending", "in 59m", "failures", "interruptions", "0xff001b"] {
        assert!(shown.contains(part), "{part:?} in {shown}");
    }
    let shown = json(&app.store, &["show", &id, "--json"]);
    assert_eq!((&shown[0]["payload"], &shown[0]["payload_hex"]), (&Value::Null, &"ff001b".into()));
    let absent = JobId::new().to_string();
    let missed = call(&app.store, &["show", &absent]);
    assert_eq!(missed.code, 1);
    assert!(missed.err.contains(&absent) && missed.out.is_empty(), "{}", missed.err);
}

/// A job that `cancel` names never runs. A job that `reschedule` names runs at its new due time.
#[test]
fn cancel_stops_a_job_and_reschedule_moves_it() {
    let Some(app) = application() else { return };
    let cancelled = app.jobs.insert(HOUR, Close(1)).unwrap().to_string();
    let moved = app.jobs.insert(2 * HOUR, Close(2)).unwrap().to_string();
    assert!(ok(&app.store, &["cancel", &cancelled]).contains("cancelled"));
    assert_eq!(app.jobs.get(cancelled.parse().unwrap()).unwrap(), None);
    let again = call(&app.store, &["cancel", &cancelled]);
    assert_eq!(again.code, 1);
    assert!(again.err.contains(&cancelled), "{}", again.err);

    let at = "2126-11-22T10:00:00Z";
    assert!(
        ok(&app.store, &["reschedule", &moved, "--at", at]).contains("2126-11-22T10:00:00.000Z")
    );
    let later = ok(&app.store, &["reschedule", &moved, "--in", "2h 30m"]);
    assert!(later.contains("in 2h 29m") || later.contains("in 2h 30m"), "{later}");
    assert!(app.closed.try_recv().is_err());
    ok(&app.store, &["reschedule", &moved, "--in", "200ms"]);
    assert_eq!(app.closed.recv_timeout(LONG), Ok(2));
    app.wait_for_gone(&moved);
    let gone = call(&app.store, &["reschedule", &moved, "--in", "1s"]);
    assert_eq!(gone.code, 1);
    assert!(gone.err.contains(&moved), "{}", gone.err);
    app.jobs.shutdown().unwrap();
    assert!(app.closed.try_recv().is_err());
}

/// Dead jobs are listed with their error, and can be retried and deleted.
#[test]
fn dead_jobs_are_listed_retried_and_deleted() {
    let Some(app) = application() else { return };
    let retried = app.jobs.insert(Duration::ZERO, push("ann")).unwrap().to_string();
    let other = app.jobs.insert(Duration::ZERO, push("bob")).unwrap().to_string();
    app.wait_for_dead(2);
    let mut listed = json(&app.store, &["list", "dead", "--json"]);
    listed.sort_by_key(|job| job["error"].to_string());
    assert_eq!(ids(&listed), [&*retried, &*other]);
    assert_eq!(listed[0]["error"], "no route to \"ann\"");
    assert_eq!((&listed[0]["failures"], &listed[0]["state"]), (&1.into(), &"dead".into()));
    assert!(listed[0]["died"].is_string());
    assert!(ok(&app.store, &["list", "dead"]).contains("no route to"));
    let wrong = call(&app.store, &["cancel", &retried]);
    assert_eq!(wrong.code, 1);
    assert!(wrong.err.contains("is dead: retry it"), "{}", wrong.err);

    app.allow.send(()).unwrap();
    assert!(ok(&app.store, &["retry", &retried]).contains("retried"));
    app.wait_for_gone(&retried);
    assert_eq!(call(&app.store, &["retry", &retried]).code, 1);
    assert!(ok(&app.store, &["delete", &other]).contains("deleted"));
    assert_eq!(app.jobs.count().unwrap().dead, 0);
    assert_eq!(call(&app.store, &["delete", &other]).code, 1);
}

/// `stats` counts the jobs of each kind, and names the kinds that are overdue.
#[test]
fn stats_counts_kinds_and_names_those_that_are_overdue() {
    let Some(app) = application() else { return };
    app.jobs.insert(HOUR, Close(1)).unwrap();
    app.jobs.insert(2 * HOUR, Close(2)).unwrap();
    app.jobs.insert(SystemTime::now() - HOUR, Raw).unwrap();
    app.jobs.schedule("sweep", HOUR, Push { to: "all".into() }).unwrap();
    let printed = call(&app.store, &["stats", "--json"]);
    // The kind without a node is warned of.
    assert!(printed.err.contains("the kind \"raw\"") && printed.code == 0, "{}", printed.err);
    let stats = &lines(&printed.out)[0];
    assert_eq!((&stats["pending"], &stats["dead"]), (&3.into(), &0.into()));
    assert_eq!(stats["schedules"], 1);
    let kinds = stats["kinds"].as_array().unwrap();
    let kind = |name: &str| kinds.iter().find(|kind| kind["kind"] == name).unwrap();
    assert_eq!((&kind("close-order")["pending"], &kind("raw")["pending"]), (&2.into(), &1.into()));
    assert!(kind("close-order")["oldest_overdue_ms"].is_null());
    assert!(kind("raw")["oldest_overdue_ms"].as_u64().unwrap() >= 3_600_000);
    assert_eq!(stats["next_due"], kind("raw")["next_due"]);

    let text = call(&app.store, &["stats"]).out;
    assert!(text.contains("kind \"raw\" are overdue: no process"), "{text}");
    let schedules = json(&app.store, &["list", "schedules", "--json"]);
    assert_eq!((&schedules[0]["name"], &schedules[0]["kind"]), (&"sweep".into(), &"push".into()));
    assert!(ok(&app.store, &["list", "schedules"]).contains("every 3600000 ms"));
    assert_eq!(ok(&app.store, &["list", "schedules", "--to", "5m"]).lines().count(), 1);
    assert_eq!(ok(&app.store, &["check"]), "ok: 3 jobs, 0 dead\n");
}

/// A command line that is not valid is refused with exit code 2. The error on stderr names the wrong argument or value,
/// of an unknown kind also the known ones, and nothing is changed.
#[test]
fn argument_that_is_wrong_is_named() {
    let Some(app) = application() else { return };
    let id = app.jobs.insert(HOUR, Close(1)).unwrap().to_string();
    let id = id.as_str();
    let unknown = "no kind \"close-ordre\"; there is \"close-order\"";
    let long = "k".repeat(256);
    let wrong: [(&[&str], &str); 50] = [
        (&["cancel", "seventeen"], "\"seventeen\""),
        (&["reschedule", id, "--in", "soon"], "\"soon\""),
        (&["reschedule", id, "--in", "-5m"], "\"-5m\""),
        (&["reschedule", id, "--at", "tomorrow"], "\"tomorrow\""),
        (&["reschedule", id, "--in", "70000000h"], "9999"),
        (&["reschedule", id], "--in"),
        (&["reschedule", id, "--in", "1h", "--at", "2030-01-01"], "--at"),
        (&["list", "--from", "then"], "\"then\""),
        (&["list", "late"], "late"),
        (&["retry"], "ID"),
        (&["retry", id, "--all"], "--all"),
        (&["delete", id, "--kind", "push"], "--kind"),
        (&["top", "--twice"], "--twice"),
        (&["--queue", "a b", "list"], "\"a b\""),
        (&["list", "--kind", "close-ordre"], unknown),
        (&["list", "dead", "--kind", "close-ordre"], unknown),
        (&["list", "schedules", "--kind", "close-ordre"], unknown),
        (&["retry", "--all", "--kind", "close-ordre"], unknown),
        (&["delete", "--all", "--kind", "close-ordre", "--yes"], unknown),
        (&["cancel", "--all", "--kind", "close-ordre"], unknown),
        (&["insert", "close-order", "seven"], "no JSON"),
        (&["insert", "close-order", "{\"a\":1"], "no JSON"),
        (&["insert", "close-ordre", "7"], unknown),
        (&["insert", "close-order", "7", "--in", "1h", "--at", "2126-11-22"], "--at"),
        (&["insert", "close-order", "7", "--replace"], "--key"),
        (&["insert", "close-order", "7", "--key", &long], "256"),
        (&["insert", "close-order", "7", "--in", "70000000h"], "9999"),
        (&["insert", "close-order", "7", "--in", "2h", "--expires", "1h"], "would expire"),
        (&["limit", "--kind", "push", "--program"], "--none"),
        (&["limit", "--kind", "push", "--none", "--program", "--running", "3"], "--program"),
        (&["limit"], "--none"),
        (&["limit", "--kind", "close-ordre", "--none"], unknown),
        (&["limit", "--kind", "push", "--rate", "0/1s"], "`pause` and `hold` do that"),
        (&["limit", "--kind", "push", "--rate", "10"], "10/1s"),
        (&["limit", "--kind", "push", "--rate", "10/400d"], "366 days"),
        (&["limit", "--kind", "push", "--burst", "3"], "--rate N/PERIOD"),
        (&["limit", "--kind", "push", "--running", "0"], "--running"),
        (&["limit", "--kind", "push", "--weight", "3"], "only a partition"),
        (&["limit", "--each", "--running", "3"], "--kind"),
        (&["limit", "--partition", "acme", "--running", "3"], "--kind"),
        (&["limit", "--kind", "push", "--each", "--partition", "a", "--none"], "--partition"),
        (&["hold"], "TIME"),
        (&["hold", "-1h"], "'-1'"),
        (&["hold", "--for", "5m"], "'--for'"),
        (&["hold", "70000000h"], "9999"),
        (&["hold", "1h", "--kind", "close-ordre"], unknown),
        (&["pause", "--kind", "push", "--schedule", "a"], "--schedule"),
        (&["keep", "--kind", "push"], "--none"),
        (&["keep", "--kind", "push", "--none", "--last", "3"], "--none"),
        (&["head-start", "--kind", "push", "100000d"], "ten years"),
    ];
    for (args, named) in wrong {
        // A dry run refuses what the command refuses.
        let has_dry_run = !["list", "top", "--queue", "pause"].contains(&args[0]);
        for more in [&[][..], &["--dry-run"]].into_iter().take(1 + usize::from(has_dry_run)) {
            let refused = call(&app.store, &[args, more].concat());
            assert_eq!((refused.code, &*refused.out), (2, ""), "{args:?} {more:?}");
            assert!(refused.err.contains(named), "{args:?} {more:?}: {}", refused.err);
        }
    }
    assert!(app.jobs.get(id.parse().unwrap()).unwrap().is_some());
    assert_eq!(
        (app.jobs.count().unwrap().pending, app.jobs.queue().limits().unwrap()),
        (1, vec![])
    );
}

/// `--queue` opens an existing queue. For an absent one the command names those that exist.
#[test]
fn queue_is_opened_by_its_name() {
    let Some(app) = application() else { return };
    let mails = app.place.builder().queue("Mails").client().unwrap();
    let id = mails.insert(HOUR, Close(1)).unwrap().to_string();
    for name in ["mails", "MAILS"] {
        assert_eq!(ids(&json(&app.store, &["--queue", name, "list", "--json"])), [&*id], "{name}");
    }
    assert_eq!(call(&app.store, &["show", &id]).code, 1);
    let listed = json(&app.store, &["stats", "--json", "--queue", "MAILS"]);
    assert_eq!((&listed[0]["queue"], &listed[0]["pending"]), (&"mails".into(), &1.into()));
    assert_eq!(listed[0]["queues"], serde_json::json!(["mails"]));
    let wrong = call(&app.store, &["--queue", "mail", "list"]);
    assert_eq!(wrong.code, 2);
    assert!(wrong.err.contains("no queue \"mail\"; it has"), "{}", wrong.err);
    assert!(wrong.err.contains("\"mails\""), "{}", wrong.err);
}
