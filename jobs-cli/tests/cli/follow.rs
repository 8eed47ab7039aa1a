//! `follow`, and the file of `--audit-file`, on a file and on a server.

use std::io::{BufRead, BufReader, Read};
use std::process::{Child, ChildStdout, Stdio};
use std::sync::Mutex;
use std::sync::mpsc::channel;

use serde_json::Value;
use tickwheel_jobs::{Fail, Keep, Retry, Run};

use super::*;

/// Starts the command, and lets it write to a pipe.
fn begin(store: &str, args: &[&str]) -> (Child, BufReader<ChildStdout>) {
    let mut begun = command(store, args);
    let mut child = begun.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let out = BufReader::new(child.stdout.take().unwrap());
    (child, out)
}

/// Adds lines of the output to `said` until one has this text.
fn read_until(out: &mut BufReader<ChildStdout>, said: &mut String, text: &str) {
    while !said.lines().last().is_some_and(|line| line.contains(text)) {
        assert!(out.read_line(said).unwrap() > 0, "{text} is not in {said}");
    }
}

fn ended((child, mut out): (Child, BufReader<ChildStdout>), mut said: String) -> Ended {
    out.read_to_string(&mut said).unwrap();
    let output = child.wait_with_output().unwrap();
    let err = String::from_utf8(output.stderr).unwrap();
    Ended { code: output.status.code().unwrap(), out: said, err }
}

/// `follow` prints each change of a job to its end. The exit code is 0 only if the job completed. `list ended` and `show`
/// have the job, which is kept.
#[test]
fn follow_prints_each_change_and_tells_how_the_job_ended() {
    let Some(place) = place() else { return };
    let (go_on, may_go_on) = channel::<()>();
    let may_go_on = Mutex::new(may_go_on);
    let handler = move |close: Close, run: &Run| {
        run.set_progress(&[run.attempt(), 10])?;
        may_go_on.lock().unwrap().recv_timeout(LONG).map_err(|_| Fail::dead("never"))?;
        if run.attempt() == 1 { Err(format!("no route to {}", close.0).into()) } else { Ok(()) }
    };
    let retry = Retry::fixed(Duration::from_millis(600)).max_retries(1);
    let jobs = place.builder().handle_with(retry, handler).start().unwrap();
    jobs.kind::<Close>().keep_completed(Keep::last(9)).unwrap();
    let id = jobs.insert(Duration::from_millis(600), Close(7)).unwrap();
    let mut follows = begin(&place.store(), &["follow", &id.to_string(), "--json"]);
    let mut said = String::new();
    for attempt in [1, 2] {
        read_until(&mut follows.1, &mut said, &format!("[{attempt},10]"));
        go_on.send(()).unwrap();
    }
    let followed = ended(follows, said);
    assert_eq!((followed.code, &*followed.err), (0, ""), "{}", followed.out);
    let seen = lines(&followed.out);
    let mut states: Vec<&str> = seen.iter().map(|job| job["state"].as_str().unwrap()).collect();
    states.dedup();
    // On a loaded machine, `follow` may miss the wait before an attempt.
    states.retain(|state| *state != "pending");
    states.dedup();
    assert_eq!(states, ["claimed", "completed"], "{}", followed.out);
    assert!(seen.iter().any(|job| job["progress"] == serde_json::json!([1, 10])), "{seen:?}");
    assert!(seen.iter().any(|job| job["error"] == "no route to 7"), "{seen:?}");
    assert_eq!(seen.last().unwrap()["attempt"], 2);
    // `follow` of a job that has ended prints its end.
    let again = ok(place.store(), &["follow", &id.to_string()]);
    assert!(again.contains("completed  attempt 2  took ") && again.lines().count() == 1, "{again}");
    let kept = json(place.store(), &["list", "ended", "--json"]);
    assert_eq!((ids(&kept), &kept[0]["state"]), (vec![&*id.to_string()], &"completed".into()));
    assert!(kept[0]["took_ms"].is_u64() && kept[0]["ended"].is_string());
    let page = ok(place.store(), &["show", &id.to_string()]);
    assert!(page.contains("completed") && page.contains("took"), "{page}");
    jobs.shutdown().unwrap();
}

/// The exit code is 1 if the job dies, is cancelled or does not exist. It is 2 after a timeout.
#[test]
fn follow_fails_if_the_job_does_not_complete() {
    let Some(app) = application() else { return };
    let dead = app.jobs.insert(Duration::ZERO, push("ann\u{9b}31m")).unwrap().to_string();
    let followed = call(&app.store, &["follow", &dead]);
    assert_eq!((followed.code, &*followed.err), (1, ""));
    assert!(followed.out.contains("dead       attempt 1") && followed.out.contains("no route to"));
    assert!(!followed.out.contains('\u{9b}'));

    let pending = app.jobs.insert(HOUR, Close(1)).unwrap();
    let id = pending.to_string();
    let over = call(&app.store, &["follow", &id, "--timeout", "300ms"]);
    assert_eq!(over.code, 2, "{}", over.err);
    assert!(over.out.contains("pending    attempt 0  due ") && over.err.contains("has not ended"));
    let mut follows = begin(&app.store, &["follow", &id, "--json", "--timeout", "60s"]);
    let mut said = String::new();
    read_until(&mut follows.1, &mut said, "pending");
    let _ = app.jobs.cancel(pending).unwrap();
    let gone = ended(follows, said);
    let is_gone = gone.out.contains("\"state\":\"gone\"") && gone.err.contains("unless `keep`");
    assert!(gone.code == 1 && is_gone, "{}", gone.err);
    assert_eq!(call(&app.store, &["follow", &id]).code, 1);
}

/// `insert --follow` knows that the job has completed although its kind keeps no completed jobs.
#[test]
fn inserted_job_is_followed_to_its_end() {
    let Some(app) = application() else { return };
    let followed = ok(&app.store, &["insert", "close-order", "7", "--follow"]);
    assert!(followed.contains("is inserted, due now"), "{followed}");
    assert!(followed.lines().last().unwrap().contains("completed  attempt 1"), "{followed}");
    assert_eq!(app.closed.recv_timeout(LONG), Ok(7));
    let dead = call(&app.store, &["insert", "push", "{\"to\":\"ann\"}", "--follow"]);
    assert!(dead.code == 1 && dead.out.contains("dead       attempt 1"), "{}", dead.out);
}

/// If the reader of its output goes, `follow` ends before the job changes, with the exit code 2. The job goes on, and so
/// does a change of many jobs, to its end.
#[cfg(unix)]
#[test]
fn follow_ends_with_its_reader_and_a_change_outlives_it() {
    let Some(app) = application() else { return };
    let insert = |n| app.jobs.insert(HOUR, Close(n)).unwrap().to_string();
    let ids: Vec<String> = (0..300).map(insert).collect();
    let (mut follows, mut out) = begin(&app.store, &["follow", &ids[0], "--timeout", "60s"]);
    read_until(&mut out, &mut String::new(), "pending");
    drop(out);
    assert_eq!(follows.wait().unwrap().code(), Some(2));
    let ids = ids.iter().map(|id| &**id);
    let args: Vec<&str> = ["cancel", "--yes"].into_iter().chain(ids).collect();
    let (mut cancels, out) = begin(&app.store, &args);
    drop(out);
    assert_eq!(cancels.wait().unwrap().code(), Some(0));
    assert_eq!(app.jobs.count().unwrap().pending, 0);
}

/// Each command that may change the store appends one line with the user, the store and the change, and without a
/// password. If the file cannot be opened, nothing is changed.
#[test]
fn audit_file_has_a_line_for_each_change() {
    let Some(app) = application() else { return };
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("audit.jsonl");
    let file = file.to_str().unwrap();
    let id = app.jobs.insert(HOUR, push("ann")).unwrap().to_string();
    let audited = |args: &[&str]| call(&app.store, &[args, &["--audit-file", file]].concat());
    audited(&["pause"]).ok();
    audited(&["limit", "--kind", "push", "--rate", "10/s"]).ok();
    audited(&["cancel", &id]).ok();
    assert_eq!(audited(&["cancel", &id]).code, 1);
    assert_eq!(audited(&["hold", "70000000h"]).code, 2);
    let by_variable = Ended::of(command(&app.store, &["resume"]).env("TICKWHEEL_AUDIT_FILE", file));
    by_variable.ok();
    // These commands change nothing, so they append no line.
    audited(&["stats"]).ok();
    audited(&["limit", "--kind", "push", "--none", "--dry-run"]).ok();
    assert_eq!(audited(&["limit", "--kind", "pusch"]).code, 2);
    // A store that cannot be opened leaves a line too. The text of the URL is a password for the most part.
    let unopened = [
        ("redis://:sesame@127.0.0.1:1/", "redis:.."),
        ("app:sesame@127.0.0.1", ":.."),
        ("'redis:sesame@127.0.0.1'", ":.."),
    ];
    for (store, _) in unopened {
        let args = ["cancel", "user:ann@example.com", "--audit-file", file];
        let refused = call(store, &args);
        assert_eq!(refused.code, 2, "{}", refused.err);
        // Without a valid command, an error of the parser quotes an argument.
        for args in [["retyr", store], [store, "retyr"]] {
            let refused = call(args[0], &args[1..]);
            assert!(refused.code == 2 && !refused.err.contains("sesame"), "{}", refused.err);
        }
    }
    let text = std::fs::read_to_string(file).unwrap();
    let mut written = lines(&text);
    let of_unopened = written.split_off(written.len() - unopened.len());
    for (line, (_, shown)) in of_unopened.iter().zip(unopened) {
        assert_eq!((&line["store"], &line["changed"]), (&shown.into(), &"".into()));
        let command = format!("{shown} cancel user:ann@example.com");
        assert!(line["command"].as_str().unwrap().starts_with(&command), "{line}");
        assert!(line["problem"].is_string(), "{line}");
    }
    let changed: Vec<&str> = written.iter().map(|it| it["changed"].as_str().unwrap()).collect();
    let limited = "the kind \"push\": rate 10/1s (before: no stored limit)\n\
        the way back: the same command with --none";
    let cancelled = format!("{id} is cancelled: it will never start");
    assert_eq!(changed, ["the queue is paused", limited, &cancelled, "", "", "the queue goes on"]);
    let problems: Vec<bool> = written.iter().map(|it| !it["problem"].is_null()).collect();
    assert_eq!(problems, [false, false, false, true, true, false]);
    assert!(written[1]["command"].as_str().unwrap().contains("limit --kind push --rate 10/s"));
    for line in &written {
        let is_text = |name: &str| line[name].as_str().is_some_and(|text| !text.is_empty());
        assert!(
            is_text("user") && is_text("host") && is_text("store") && is_text("time"),
            "{line}"
        );
        assert_eq!(line["queue"], Value::Null);
    }
    assert!(!text.contains("redis:///") && !text.contains("sesame"), "{text}");

    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt;
        assert_eq!(std::fs::metadata(file).unwrap().permissions().mode() & 0o777, 0o600);
    }

    let absent = folder.path().join("absent/audit.jsonl");
    let refused = call(&app.store, &["pause", "--audit-file", absent.to_str().unwrap()]);
    assert_eq!((refused.code, &*refused.out), (2, ""));
    assert!(refused.err.contains("--audit-file") && !app.jobs.queue().is_paused().unwrap());
}
