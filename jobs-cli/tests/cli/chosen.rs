//! Which jobs a command is about: ids that are cut short, keys, filters, a question before many are lost, a dry run;
//! and the times, in the zone of the machine. On a file and on a server.

use serde_json::Value;
use std::time::SystemTime;

use super::*;

/// Returns how many digits two ids begin with together.
fn common(one: &str, two: &str) -> usize {
    one.bytes().zip(two.bytes()).take_while(|(one, two)| one == two).count()
}

/// The beginning of an id is enough for every verb if only one job has it, be it pending, running or dead. If
/// several jobs have it, the verb lists them and does nothing.
#[test]
fn ids_are_cut_short_as_long_as_they_are_unique() {
    let Some(app) = application() else { return };
    let first = app.jobs.insert(HOUR, Close(1)).unwrap().to_string();
    let second = app.jobs.insert(2 * HOUR, Close(2)).unwrap().to_string();
    let dead = app.jobs.insert(Duration::ZERO, push("ann")).unwrap().to_string();
    app.wait_for_dead(1);
    let digits = common(&first, &second);
    let unique = digits.max(common(&first, &dead)).max(common(&second, &dead));
    let (first_digits, second_digits) = (&first[..=unique], &second[..=unique]);
    assert_eq!(json(&app.store, &["show", "--json", first_digits])[0]["id"], *first);
    assert!(
        ok(&app.store, &["reschedule", &second_digits.to_uppercase(), "--in", "3h"])
            .contains(&second)
    );
    for args in [
        &["cancel", &first[..digits], "--yes"] as &[&str],
        &["show", &first[..digits]],
        &["reschedule", &first[..digits], "--in", "1s"],
    ] {
        let several = call(&app.store, args);
        assert_eq!((several.code, &*several.out), (2, ""), "{args:?}");
        let listed = [&*first, &*second].iter().all(|id| several.err.contains(id));
        assert!(listed && several.err.contains("close-order"), "{}", several.err);
    }
    assert_eq!(app.jobs.count().unwrap().pending, 2);
    let absent = call(&app.store, &["cancel", "fffffff"]);
    assert_eq!(absent.code, 1);
    assert!(absent.err.contains("begins with fffffff"), "{}", absent.err);
    ok(&app.store, &["cancel", first_digits]);
    assert!(ok(&app.store, &["delete", &dead[..=unique]]).contains(&dead));
    assert_eq!(app.jobs.count().unwrap().dead, 0);

    // More jobs than are listed.
    app.jobs.insert_batch((0..20).map(|n| (HOUR, Close(n)))).unwrap();
    let many = call(&app.store, &["show", &first[..4]]);
    assert_eq!((many.code, many.err.lines().count()), (2, 11), "{}", many.err);
    assert!(many.err.contains("and more"), "{}", many.err);
}

/// `show` takes the key of a pending or dead job. The pending one goes first.
#[test]
fn show_takes_a_key() {
    let Some(app) = application() else { return };
    let shown = |text: &str| json(&app.store, &["show", "--json", text])[0]["id"].clone();
    // A key may look like the beginning of an id, or like a whole one.
    let keys = ["user 7", "1a", "0123456789abcdef0123456789abcdef"];
    for key in keys {
        let waits = app.jobs.keyed(key).insert(HOUR, Close(1)).unwrap().to_string();
        assert_eq!(shown(key), *waits, "{key}");
        assert_eq!(
            app.jobs.cancel(waits.parse().unwrap()).unwrap(),
            tickwheel_jobs::Cancel::Cancelled
        );
    }
    let dead = app.jobs.keyed("user 7").insert(Duration::ZERO, push("ann")).unwrap().to_string();
    app.wait_for_dead(1);
    assert_eq!(shown("user 7"), *dead);
    let waits = app.jobs.keyed("user 7").insert(HOUR, push("ann")).unwrap().to_string();
    assert_eq!(shown("user 7"), *waits);
    for absent in ["user 8", "ffffff", &"k".repeat(300)] {
        let missed = call(&app.store, &["show", absent]);
        assert_eq!((missed.code, &*missed.out), (1, ""), "{}", missed.err);
        assert!(missed.err.contains(absent), "{}", missed.err);
    }
}

/// Filters by kind, time, key and error apply to a list and to `--all`, also all of them together.
#[test]
fn filters_leave_jobs_out() {
    let Some(app) = application() else { return };
    let insert =
        |key: &str, to: &str| app.jobs.keyed(key).insert(Duration::ZERO, push(to)).unwrap();
    let (ann, bob) = (insert("ann", "ann").to_string(), insert("bob", "bob").to_string());
    let late = app.jobs.insert(SystemTime::now() - 2 * HOUR, push("ann")).unwrap().to_string();
    app.wait_for_dead(3);
    let list = |filter: &[&str]| {
        let lines = json(&app.store, &[&["list", "dead", "--json"], filter].concat());
        let mut found: Vec<String> = ids(&lines).into_iter().map(str::to_owned).collect();
        // They died in any order.
        found.sort_by_key(|id| *id == late);
        found
    };
    assert_eq!(list(&["--key", "bob"]), [&*bob]);
    assert_eq!(list(&["--error", "to \"ann\""]), [&*ann, &*late]);
    assert_eq!(list(&["--error", "ann", "--from", "-1h", "--kind", "push"]), [&*ann]);
    assert_eq!(list(&["--error", "ann", "--limit", "2"]).len(), 2);
    assert!(list(&["--error", "ann", "--key", "bob"]).is_empty());
    let retried = ["retry", "--all", "--error", "ann", "--to", "-1h"];
    assert!(ok(&app.store, &[&retried[..], &["--dry-run"]].concat()).contains(&late));
    assert_eq!(app.jobs.count().unwrap().dead, 3);
    app.allow.send(()).unwrap();
    assert_eq!(ok(&app.store, &retried), "1 jobs are retried\n");
    app.wait_for_gone(&late);
    assert_eq!(ok(&app.store, &["delete", "--all", "--key", "ann"]), "1 jobs are deleted\n");
    assert_eq!(list(&[]), [&*bob]);
    let key = call(&app.store, &["list", "schedules", "--key", "bob"]);
    assert!(key.code == 2 && key.err.contains("--key"), "{}", key.err);
    for filter in ["--key", "--error", "--from", "--to", "--kind"] {
        let value = if filter == "--kind" { "push" } else { "1h" };
        let one = call(&app.store, &["delete", &bob, filter, value]);
        assert!(one.code == 2 && one.err.contains(filter), "{}", one.err);
    }
    assert_eq!(app.jobs.count().unwrap().dead, 1);
}

/// A change of more than one job needs a yes: `--yes`, or an answer at a terminal, which these calls do not have.
/// The question has the number of jobs.
#[test]
fn changes_of_many_jobs_need_a_yes() {
    let Some(app) = application() else { return };
    app.jobs.insert_batch((0..3).map(|n| (Duration::ZERO, push(&n.to_string())))).unwrap();
    app.jobs.insert_batch((0..4).map(|n| (HOUR, Close(n)))).unwrap();
    app.wait_for_dead(3);
    let dead = json(&app.store, &["list", "dead", "--json"]);
    let dead = ids(&dead);
    let pending = json(&app.store, &["list", "--json"]);
    let pending = ids(&pending);
    for (args, number) in [
        (&["delete", "--all"] as &[&str], "3 jobs would be deleted"),
        (&["delete", dead[0], dead[1]], "2 jobs would be deleted"),
        (&["cancel", "--all", "--kind", "close-order"], "4 jobs would be cancelled"),
        (&["cancel", pending[0], pending[1]], "2 jobs would be cancelled"),
        (&["retry", "--all"], "3 jobs would be retried"),
        (&["retry", dead[0], dead[1]], "2 jobs would be retried"),
        (&["reschedule", "--all", "--in", "5m"], "4 jobs would be rescheduled"),
        (&["reschedule", pending[0], pending[1], "--in", "5m"], "2 jobs would be rescheduled"),
    ] {
        let refused = call(&app.store, args);
        assert_eq!((refused.code, &*refused.out), (2, ""), "{args:?}");
        assert!(refused.err.contains(number) && refused.err.contains("--yes"), "{}", refused.err);
    }
    let counts = app.jobs.count().unwrap();
    assert_eq!((counts.dead, counts.pending), (3, 4));
    // One job, and one that is named twice, needs none.
    ok(&app.store, &["delete", dead[0], dead[0]]);
    ok(&app.store, &["cancel", pending[0]]);
    ok(&app.store, &["delete", dead[1], dead[2], "--yes"]);
    assert_eq!(ok(&app.store, &["cancel", "--all", "--yes"]), "3 jobs are cancelled\n");
    let none = call(&app.store, &["cancel", "--all"]);
    assert_eq!((none.code, &*none.out), (1, "0 jobs are cancelled\n"));
    let counts = app.jobs.count().unwrap();
    assert_eq!((counts.dead, counts.pending), (0, 0));
    app.jobs.check().unwrap();
}

/// `reschedule` takes several ids, or with `--all` every pending job that its filters choose. The jobs are chosen
/// before they move: a job that moves within `--from` and `--to` moves once.
#[test]
fn reschedule_moves_the_jobs_that_are_chosen() {
    let Some(app) = application() else { return };
    app.jobs.insert_batch((0..300).map(|n| (HOUR, Close(n)))).unwrap();
    let push = app.jobs.insert(HOUR, push("ann")).unwrap();
    let args =
        ["reschedule", "--all", "--kind", "close-order", "--from", "1m", "--at", "2126-11-22"];
    let listed = ok(&app.store, &[&args[..], &["--dry-run"]].concat());
    assert!(listed.contains("300 jobs would be rescheduled"), "{listed}");
    assert!(listed.contains("they would be due 2126-11-22T00:00:00.000Z"), "{listed}");
    assert_eq!(ok(&app.store, &[&args[..], &["--yes"]].concat()), "300 jobs are rescheduled\n");
    let moved = json(&app.store, &["list", "--json", "--limit", "400", "--from", "2126-11-22"]);
    assert_eq!(moved.len(), 300);
    let again = call(&app.store, &[&args[..], &["--yes"]].concat());
    assert_eq!((again.code, &*again.out), (1, "0 jobs are rescheduled\n"), "{}", again.err);
    let push = push.to_string();
    let two = ok(&app.store, &["reschedule", &push, ids(&moved)[7], "--in", "5m", "--yes"]);
    assert_eq!(two.matches("is due").count(), 2, "{two}");
    let late = call(&app.store, &["reschedule", "--all", "--in", "70000000h", "--yes"]);
    assert!(late.code == 2 && late.err.contains("0 of 301 jobs were rescheduled"), "{}", late.err);
    let missing = call(&app.store, &["reschedule", "--all", "--yes"]);
    assert!(missing.code == 2 && missing.err.contains("--in"), "{}", missing.err);
    app.jobs.check().unwrap();
}

/// With `--json` a change of `--all` prints its counts as one object. `--json` without `--all` is an error.
#[test]
fn counts_of_a_change_are_printed_as_json() {
    let Some(app) = application() else { return };
    let keyed = |key: &str| app.jobs.keyed(key).insert(Duration::ZERO, push(key)).unwrap();
    let (taken, free) = (keyed("ann"), keyed("bob"));
    app.wait_for_dead(2);
    app.jobs.keyed("ann").insert(HOUR, Close(1)).unwrap();
    let refused = call(&app.store, &["retry", &taken.to_string()]);
    assert!(refused.code == 1 && refused.err.contains("its key ann belongs to"), "{}", refused.err);
    app.allow.send(()).unwrap();
    let counts = |args: &[&str]| {
        let Ended { code, out, err } =
            call(&app.store, &[args, &["--all", "--json", "--yes"]].concat());
        assert_eq!(out.lines().count(), 1, "{out}{err}");
        let counts: Value = serde_json::from_str(&out).unwrap();
        let number = |name: &str| counts[name].as_u64().unwrap();
        let numbers = ["seen", "changed", "asked_to_stop", "passed_over"].map(number);
        (code, numbers, err)
    };
    let (code, numbers, err) = counts(&["retry"]);
    assert_eq!((code, numbers), (1, [2, 1, 0, 1]));
    assert!(err.contains(&taken.to_string()) && !err.contains(&free.to_string()), "{err}");
    app.wait_for_gone(&free.to_string());
    assert_eq!(counts(&["delete"]), (0, [1, 1, 0, 0], String::new()));
    assert_eq!(counts(&["delete"]), (1, [0; 4], String::new()));
    app.jobs.insert_batch((0..299).map(|n| (HOUR, Close(n)))).unwrap();
    assert_eq!(counts(&["reschedule", "--in", "2h"]), (0, [300, 300, 0, 0], String::new()));
    assert_eq!(counts(&["cancel", "--kind", "close-order"]), (0, [300, 300, 0, 0], String::new()));
    let one = call(&app.store, &["cancel", &taken.to_string(), "--json"]);
    assert!(one.code == 2 && one.err.contains("--all"), "{}", one.err);
}

/// A dry run lists the jobs, says what would be done, and changes nothing.
#[test]
fn dry_runs_change_nothing() {
    let Some(app) = application() else { return };
    let waits = app.jobs.insert(HOUR, Close(1)).unwrap().to_string();
    app.jobs.insert_batch((0..120).map(|n| (Duration::ZERO, push(&n.to_string())))).unwrap();
    app.jobs.schedule("sweep", HOUR, Close(2)).unwrap();
    app.jobs.kind::<Close>().keep_completed(tickwheel_jobs::Keep::last(9)).unwrap();
    let kept = app.jobs.insert(Duration::ZERO, Close(3)).unwrap().to_string();
    app.wait_for_dead(120);
    wait_until(|| app.jobs.ended().state(tickwheel_jobs::JobState::Completed).count() == 1);
    app.closed.recv_timeout(LONG).unwrap();
    let dead = json(&app.store, &["list", "dead", "--json", "--limit", "120"]).swap_remove(0);
    let dead = dead["id"].as_str().unwrap();
    let before = (app.jobs.count().unwrap(), app.jobs.get(waits.parse().unwrap()).unwrap());
    for (args, said) in [
        (&["cancel", &waits] as &[&str], "1 jobs would be cancelled"),
        (&["cancel", "--all"], "1 jobs would be cancelled"),
        (&["delete", "--all"], "120 jobs would be deleted"),
        (&["delete", &kept], "1 jobs would be deleted"),
        (&["retry", "--all", "--kind", "push"], "120 jobs would be retried"),
        (&["retry", dead], "1 jobs would be retried"),
        (&["reschedule", &waits, "--in", "5m"], "would be due"),
        (&["insert", "close-order", "7", "--at", "2126-11-22"], "2126-11-22T00:00:00.000Z"),
        (&["run-schedule", "sweep"], "close-order of the schedule"),
    ] {
        let out = ok(&app.store, &[args, &["--dry-run"]].concat());
        assert!(out.contains(said), "{args:?}: {out}");
        assert!(out.lines().count() <= 103, "{out}");
    }
    for args in
        [&["cancel", dead] as &[&str], &["retry", &waits], &["reschedule", dead, "--in", "1s"]]
    {
        assert_eq!(call(&app.store, &[args, &["--dry-run"]].concat()).code, 1, "{args:?}");
    }
    let late = call(&app.store, &["reschedule", &waits, "--in", "70000000h", "--dry-run"]);
    assert!(late.code == 2 && late.err.contains("9999"), "{}", late.err);
    let after = (app.jobs.count().unwrap(), app.jobs.get(waits.parse().unwrap()).unwrap());
    assert_eq!(after, before);
    assert!(app.closed.try_recv().is_err());
}

/// With `--local` times are printed in the zone of the machine, and arguments without a zone are read in it.
/// JSON stays UTC.
#[test]
fn times_are_local_by_choice() {
    let Some(app) = application() else { return };
    let id = app.jobs.insert(HOUR, Close(1)).unwrap().to_string();
    let berlin = |args: &[&str]| {
        Ended::of(command(&app.store, args).env("TZ", "CET-1CEST,M3.5.0,M10.5.0/3")).ok()
    };
    let moved = berlin(&["reschedule", &id, "--at", "2126-07-01 10:00", "--local"]);
    assert!(moved.contains("2126-07-01T10:00:00.000+02:00"), "{moved}");
    assert!(berlin(&["show", &id]).contains("2126-07-01T08:00:00.000Z"));
    let list = berlin(&["--local", "list"]);
    assert!(list.contains("DUE (local)") && list.contains("T10:00:00.000+02:00"), "{list}");
    let json = berlin(&["list", "--json", "--local", "--from", "2126-07-01 10:00"]);
    assert!(json.contains("2126-07-01T08:00:00.000Z"), "{json}");
    assert!(berlin(&["list", "--json", "--local", "--from", "2126-07-01T10:00:01"]).is_empty());
    // An offset goes before the zone.
    berlin(&["reschedule", &id, "--at", "2126-01-01T10:00:00Z", "--local"]);
    assert!(berlin(&["--local", "show", &id]).contains("2126-01-01T11:00:00.000+01:00"));
}
