//! What a hostile file, a time at the end of the calendar and a user who
//! may only read come to.

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::os::unix::process::CommandExt;
use std::process::Command;
use std::time::SystemTime;

use serde::{Deserialize, Serialize};
use tickwheel_jobs::{Durability, Fail, Job, Retry, Schedule};

use super::*;

/// Characters that steer a terminal, or turn round or break the line that they stand in.
const STEERING: &str =
    "\u{1b}\u{7f}\u{80}\u{85}\u{9b}\u{9f}\u{2028}\u{2029}\u{202a}\u{202e}\u{2066}\u{2069}";

#[derive(Serialize, Deserialize)]
struct Hostile(String);

impl Job for Hostile {
    const KIND: &'static str = "kind\u{9b}31m\u{202e}\u{2028}";
}

/// P78: Text of a job, a schedule or a queue is printed without control characters, for people and as JSON. A
/// parser of the JSON still finds the text.
#[test]
fn text_of_a_file_is_printed_without_control_characters() {
    let folder = Folder::new();
    let file = folder.file("jobs.db");
    let jobs = Jobs::open(&file).unwrap();
    let jobs = jobs
        .durability(Durability::Written)
        .retry(Retry::never())
        .handle(|job: Hostile, _| Err(Fail::dead(job.0)))
        .start()
        .unwrap();
    let text = format!("a{STEERING}b");
    let id = jobs.keyed(&text).insert(HOUR, Hostile(text.clone())).unwrap().to_string();
    let dead = jobs.insert(Duration::ZERO, Hostile(text.clone())).unwrap().to_string();
    jobs.schedule(&text, Schedule::every(HOUR), Hostile(text.clone())).unwrap();
    wait_until(|| jobs.count().unwrap().dead == 1);
    let queue = format!("q{STEERING}");
    let conn = Connection::open(&file).unwrap();
    conn.execute_batch(&format!("CREATE TABLE \"tickwheel_{queue}__meta\" (a)")).unwrap();
    drop(conn);

    let calls: [&[&str]; 8] = [
        &["list"],
        &["list", "dead"],
        &["list", "schedules"],
        &["show", &id],
        &["show", &dead],
        &["stats"],
        &["top", "--once"],
        &["--queue", "absent", "stats"],
    ];
    for args in calls.into_iter().flat_map(|args| [args.to_vec(), [args, &["--json"]].concat()]) {
        let Ended { out, err, .. } = call(&file, &args);
        let printed = format!("{out}{err}");
        let steers = |c: char| c != '\n' && STEERING.contains(c);
        assert!(!printed.contains(steers), "{args:?}: {printed:?}");
    }
    let shown = &json(&file, &["show", &id, "--json"])[0];
    assert_eq!((&shown["key"], &shown["kind"]), (&(*text).into(), &Hostile::KIND.into()));
    let payload: Hostile = serde_json::from_value(shown["payload"].clone()).unwrap();
    assert_eq!(payload.0, text);
    assert_eq!(json(&file, &["list", "dead", "--json"])[0]["error"], *text);
    let stats = &json(&file, &["stats", "--json"])[0];
    assert_eq!(stats["queues"], serde_json::json!([queue]));
    assert_eq!(stats["kinds"][0]["kind"], Hostile::KIND);
}

/// A reschedule takes every time of the calendar. A time that has passed, also one before 1970, makes the job
/// due now. The last day of the year 9999 is valid.
#[test]
fn reschedule_takes_the_ends_of_the_calendar() {
    let folder = Folder::new();
    let file = folder.file("jobs.db");
    let client = Jobs::open(&file).unwrap().client().unwrap();
    let id = client.insert(HOUR, Close(1)).unwrap();
    let ends = [
        ("9999-12-31", "9999-12-31T00:00:00.000Z"),
        ("9999-12-31T23:59:59.999Z", "9999-12-31T23:59:59.999Z"),
        ("9999-12-31 10:00", "9999-12-31T10:00:00.000Z"),
        ("9999-12-31T23:00:00+01:00", "9999-12-31T22:00:00.000Z"),
        ("1969-07-20", "1970-01-01T00:00:00.000Z"),
        ("1969-07-20T20:17:40Z", "1970-01-01T00:00:00.000Z"),
        ("1970-01-01", "1970-01-01T00:00:00.000Z"),
    ];
    for (at, due) in ends {
        let moved = ok(&file, &["reschedule", &id.to_string(), "--at", at]);
        assert!(moved.contains(&format!("is due {due}")), "{at}: {moved}");
        // A warning says that no process runs the jobs that are due.
        let listed = lines(&call(&file, &["list", "--json", "--from", due, "--to", due]).out);
        assert_eq!(listed.len(), 1, "{at}");
        assert_eq!(json(&file, &["show", &id.to_string(), "--json"])[0]["due"], due);
    }
    assert!(client.get(id).unwrap().unwrap().due <= SystemTime::now());
    for late in ["10000-01-01", "9999-12-31T23:00:00-05:00", "9999-12-31T25:00:00Z"] {
        assert_eq!(call(&file, &["reschedule", &id.to_string(), "--at", late]).code, 2, "{late}");
    }
}

/// P78: A user who may only read the file can use every verb that only reads, while the application runs. A verb
/// that changes something is refused.
#[test]
fn user_who_may_only_read_the_file_can_use_reading_verbs() {
    let folder = Folder::new();
    let file = folder.file("jobs.db");
    let jobs = Jobs::open(&file).unwrap().handle(|_: Close, _| Ok(())).start().unwrap();
    let id = jobs.insert(HOUR, Close(1)).unwrap().to_string();
    jobs.schedule("sweep", HOUR, Close(2)).unwrap();
    let program = folder.file("tickwheel-jobs");
    fs::copy(env!("CARGO_BIN_EXE_tickwheel-jobs"), &program).unwrap();
    let is_root = fs::metadata(&file).unwrap().uid() == 0;
    let set_mode = |path: &Path, mode: u32| {
        fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
    };
    let names = ["jobs.db", "jobs.db-wal", "jobs.db-shm"].map(|name| folder.file(name));
    names.iter().for_each(|name| set_mode(name, 0o444));
    set_mode(folder.path(), 0o555);
    let call = |args: &[&str]| {
        let mut command = Command::new(&program);
        command.arg(&file).args(args).current_dir("/");
        if is_root {
            // Root may write to every file, so the command runs as another user.
            command.uid(65534).gid(65534);
        }
        Ended::of(&mut command)
    };
    let looks: [&[&str]; 7] = [
        &["list"],
        &["list", "dead"],
        &["list", "schedules"],
        &["show", &id],
        &["stats"],
        &["check"],
        &["top", "--once"],
    ];
    let looked = looks.map(call);
    let changes: [&[&str]; 18] = [
        &["cancel", &id],
        &["reschedule", &id, "--in", "5m"],
        &["retry", &id],
        &["delete", &id],
        &["insert", "close-order", "7"],
        &["run-schedule", "sweep"],
        &["remove-schedule", "sweep"],
        &["seal-group", &id],
        &["cancel-group", &id],
        &["limit", "--running", "7"],
        &["hold", "1h"],
        &["release"],
        &["pause"],
        &["resume"],
        &["pause", "--kind", "close-order"],
        &["pause", "--schedule", "sweep"],
        &["head-start", "1m", "--kind", "close-order"],
        &["keep", "--last", "7", "--kind", "close-order"],
    ];
    let changed = changes.map(call);
    set_mode(folder.path(), 0o755);
    names.iter().for_each(|name| set_mode(name, 0o644));
    for (args, ended) in looks.iter().zip(&looked) {
        assert_eq!((ended.code, &*ended.err), (0, ""), "{args:?}");
    }
    assert!(looked[0].out.contains(&id) && looked[3].out.contains(&id), "{}", looked[0].out);
    for (args, ended) in changes.iter().zip(&changed) {
        let is_refused = ended.code == 2 && ended.err.contains("jobs.db");
        assert!(is_refused, "{args:?}: {} {}", ended.code, ended.err);
    }
    assert_eq!((jobs.count().unwrap().pending, jobs.queue().limits().unwrap()), (1, vec![]));
    assert!(!jobs.queue().is_paused().unwrap() && jobs.schedules().list().unwrap().len() == 1);
    // Without the application the files by which SQLite reads the log would be made, and be this user's:
    // the application could not write to them.
    jobs.shutdown().unwrap();
    set_mode(&names[0], 0o444);
    set_mode(folder.path(), 0o555);
    let alone = call(&["list"]);
    set_mode(folder.path(), 0o777);
    let with_folder = call(&["list"]);
    set_mode(folder.path(), 0o755);
    assert_eq!(alone.code, 2, "{}", alone.out);
    assert!(alone.err.contains("jobs.db"), "{}", alone.err);
    assert_eq!(with_folder.code, 2, "{}", with_folder.out);
    assert!(with_folder.err.contains("no application has it open"), "{}", with_folder.err);
    assert!(!names[1].exists() && !names[2].exists());
}

/// `stats` has the sizes of the file and of its log. The log is where SQLite has it, beside the file that a symbolic link
/// leads to.
#[test]
fn stats_has_the_sizes_behind_a_symbolic_link() {
    let app = application().unwrap();
    app.jobs.insert(HOUR, Close(1)).unwrap();
    let folder = Folder::new();
    let link = folder.file("link.db");
    std::os::unix::fs::symlink(&app.store, &link).unwrap();
    let stats = &json(&link, &["stats", "--json"])[0];
    assert_eq!(stats["pending"], 1);
    for size in ["file_bytes", "wal_bytes"] {
        assert!(stats[size].as_u64().unwrap() > 0, "{size}");
    }
}
