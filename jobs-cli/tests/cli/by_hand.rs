//! Jobs that are made by hand, and kinds that are not there, on a file and on a server.

use super::*;

/// A job that is inserted by hand runs as any other, at its due time and under its key.
#[test]
fn insert_makes_a_job_from_json() {
    let Some(app) = application() else { return };
    // The runner has made the kinds known; so it may be the first job of its kind.
    let said = ok(&app.store, &["insert", "close-order", "7"]);
    assert!(said.contains("is inserted, due now"), "{said}");
    assert_eq!(app.closed.recv_timeout(LONG), Ok(7));

    let at = "2126-11-22T10:00:00Z";
    let args = ["insert", "push", " {\"to\": \"ann\"} ", "--at", at, "--key", "ann"];
    let said = ok(&app.store, &args);
    let job = &json(&app.store, &["show", "ann", "--json"])[0];
    assert!(
        said.starts_with(job["id"].as_str().unwrap()) && said.contains("2126-11-22T10"),
        "{said}"
    );
    assert_eq!(
        (&job["payload"]["to"], &job["due"]),
        (&"ann".into(), &"2126-11-22T10:00:00.000Z".into())
    );
    for more in [&[][..], &["--dry-run"]] {
        let taken = call(&app.store, &[&args[..], more].concat());
        assert_eq!((taken.code, &*taken.out), (1, ""));
        assert!(taken.err.contains(job["id"].as_str().unwrap()), "{}", taken.err);
    }
    ok(&app.store, &[&args[..], &["--replace"]].concat());
    let jobs = json(&app.store, &["list", "--json"]);
    assert!(jobs.len() == 1 && jobs[0]["id"] != job["id"], "{jobs:?}");
    let in_time = ok(&app.store, &["insert", "close-order", "-1", "--in", "2h"]);
    assert!(in_time.contains("in 1h 59m") || in_time.contains("in 2h"), "{in_time}");

    assert_eq!(app.jobs.count().unwrap().pending, 2);
    let args = ["insert", "close-order", "8", "--at", at, "--expires", "2126-11-22T10:05:00Z"];
    let said = ok(&app.store, &args);
    let job = &json(&app.store, &["show", said.split(' ').next().unwrap(), "--json"])[0];
    assert_eq!(job["expires"], "2126-11-22T10:05:00.000Z");
    app.jobs.check().unwrap();
}

/// `run-schedule` runs the job of a schedule now, once for each call. The schedule goes on as before.
#[test]
fn run_schedule_makes_an_occurrence_now() {
    let Some(app) = application() else { return };
    app.jobs.schedule("sweep", HOUR, Close(3)).unwrap();
    let before = app.jobs.schedules().list().unwrap();
    for _ in 0..2 {
        assert!(ok(&app.store, &["run-schedule", "sweep"]).contains("is inserted"));
        assert_eq!(app.closed.recv_timeout(LONG), Ok(3));
    }
    assert_eq!(app.jobs.schedules().list().unwrap(), before);
    let absent = call(&app.store, &["run-schedule", "sweeps"]);
    assert_eq!((absent.code, &*absent.out), (1, ""));
    assert!(absent.err.contains("\"sweeps\"; there is \"sweep\""), "{}", absent.err);
}
