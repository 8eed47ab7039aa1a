//! One file has one runner, under every name by which it is opened; and a file that is not there any more
//! takes no jobs.

#![cfg(unix)]

use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tickwheel_jobs::rusqlite::Connection;
use tickwheel_jobs::{Driver, InsertErrorKind, JobId, Jobs, NewJob, OpenError, Run, StoreError};

use super::files::{contents, file, make, start};
use crate::disk::task::{Plan, Task};

const HOUR: Duration = Duration::from_secs(3600);

fn beside(path: &Path, suffix: &str) -> PathBuf {
    PathBuf::from(format!("{}{suffix}", path.display()))
}

fn counted(path: &Path, count: &Arc<AtomicU64>) -> (Jobs, Driver) {
    let count = Arc::clone(count);
    let builder = Jobs::open(path).expect("the file is in order");
    let count = move |_: Task, _: &Run| {
        count.fetch_add(1, Ordering::Relaxed);
        Ok(())
    };
    builder.handle(count).manual().expect("the jobs start")
}

/// P10: A second runner is refused by any name of the file, so no other process can take a claim. The
/// lock lay beside the name that was used, so a symbolic link had a lock of its own, and two runners ran the
/// same jobs.
#[test]
fn second_runner_is_refused_by_any_name_of_the_file() {
    let (folder, path) = file();
    make(&path, 3);
    let (link, folder_link) = (folder.path().join("link.db"), folder.path().join("folder"));
    symlink(&path, &link).expect("a link");
    symlink(folder.path(), &folder_link).expect("a link");
    let (jobs, _driver) = start(&link).expect("the link leads to the file");
    let above = folder.path().join("..").join(folder.path().file_name().expect("a name"));
    let here = std::env::current_dir().expect("the folder of the crate");
    let root: PathBuf = here.components().skip(1).map(|_| "..").collect();
    let others = [
        path.clone(),
        link.clone(),
        folder_link.join("jobs.db"),
        folder_link.join("link.db"),
        above.join("jobs.db"),
        root.join(path.strip_prefix("/").expect("the path begins at the root")),
    ];
    for other in others {
        match start(&other) {
            Err(OpenError::InUse { path: named }) => assert_eq!(named, other),
            opened => panic!("a second runner by the name {other:?}: {opened:?}"),
        }
    }
    assert!(!beside(&link, "-runner").exists(), "the lock lies beside the file");
    jobs.insert(HOUR, Task::new(7, Plan::Succeed)).expect("an insert");
    let log = fs::metadata(beside(&path, "-wal")).expect("the log").len();
    assert_eq!(jobs.stats().wal_bytes, log, "the size of the log is told");
}

/// P74: A symbolic link whose target is absent makes that target, also through a second link. A link into a folder
/// that is absent is refused. Links were refused although the target could be made.
#[test]
fn link_to_an_absent_file_makes_that_file() {
    let folder = tempfile::tempdir().expect("there is room");
    let data = folder.path().join("data");
    fs::create_dir(&data).expect("a folder");
    let (path, link, other) =
        (data.join("jobs.db"), folder.path().join("link.db"), data.join("other.db"));
    symlink("data/other.db", &link).expect("a link");
    symlink("jobs.db", &other).expect("a link");
    let (jobs, _driver) = start(&link).expect("the file is made");
    jobs.insert(HOUR, Task::new(7, Plan::Succeed)).expect("an insert");
    for link in [&link, &other] {
        assert!(fs::symlink_metadata(link).expect("the link").is_symlink(), "it stays a link");
    }
    assert!(fs::symlink_metadata(&path).expect("the file").is_file());
    assert!(matches!(start(&path), Err(OpenError::InUse { .. })), "it is the same file");

    let nowhere = folder.path().join("nowhere.db");
    symlink("absent/jobs.db", &nowhere).expect("a link");
    assert!(matches!(start(&nowhere), Err(OpenError::Io { .. })));
    symlink("loop.db", folder.path().join("loop.db")).expect("a link");
    assert!(matches!(start(&folder.path().join("loop.db")), Err(OpenError::Io { .. })));
}

/// Names the folder to the child of the test below.
const CHDIR: &str = "TICKWHEEL_TEST_CHDIR";

/// P74: A relative path is that of the working directory when the file was opened, also if the working directory
/// changes later. A process has one working directory, so a child changes it.
#[test]
fn relative_path_names_one_file_in_any_working_directory() {
    let folder = tempfile::tempdir().expect("there is room");
    for name in ["first", "second"] {
        fs::create_dir(folder.path().join(name)).expect("a folder");
    }
    let child = Command::new(std::env::current_exe().expect("this program"))
        .args(["--exact", "faults::names::child_that_changes_its_directory", "--nocapture"])
        .env(CHDIR, folder.path())
        .current_dir(folder.path().join("first"))
        .output()
        .expect("a child");
    assert!(child.status.success(), "{}", String::from_utf8_lossy(&child.stderr));
    let (jobs, _driver) = start(&folder.path().join("first/jobs.db")).expect("the file");
    assert_eq!(jobs.count().expect("the counts").pending, 2);
    assert_eq!(fs::read_dir(folder.path().join("second")).expect("the folder").count(), 0);
}

/// The child of the test above. Without that test it does nothing.
#[test]
fn child_that_changes_its_directory() {
    let Some(folder) = std::env::var_os(CHDIR) else { return };
    let builder = Jobs::open("jobs.db").expect("a file");
    std::env::set_current_dir(Path::new(&folder).join("second")).expect("another directory");
    let jobs = builder.handle(|_: Task, _: &Run| Ok(())).start().expect("the jobs start");
    jobs.insert(HOUR, Task::new(1, Plan::Succeed)).expect("an insert");
    // A question opens the file once more, and a client has a path of its own.
    assert_eq!(jobs.pending().next_page().expect("a page").len(), 1);
    let client = Jobs::open("../first/jobs.db").expect("the file").client().expect("a client");
    std::env::set_current_dir("/").expect("another directory");
    client.insert(HOUR, Task::new(2, Plan::Succeed)).expect("an insert");
    assert_eq!(jobs.count().expect("the counts").pending, 2);
    jobs.check().expect("the file is in order");
    jobs.shutdown().expect("an end");
}

/// P10: A runner whose lock was removed, and whose jobs another one has taken over, writes nothing and starts
/// nothing any more. Its calls return `StoreError::Overtaken`.
#[test]
fn runner_that_was_overtaken_starts_nothing_and_says_so() {
    let (_folder, path) = file();
    let (first_ran, second_ran) = (Arc::default(), Arc::default());
    let (first, first_driver) = counted(&path, &first_ran);
    let batch = (0..20).map(|n| (HOUR, Task::new(n, Plan::Succeed)));
    first.insert_batch(batch).expect("a batch");
    // These are claimed already when the second runner comes.
    let soon = Duration::from_millis(40);
    first.insert_batch((20..25).map(|n| (soon, Task::new(n, Plan::Succeed)))).expect("a batch");
    first_driver.advance(Duration::from_millis(1));
    assert_eq!(first.stats().in_flight, 5);

    fs::remove_file(beside(&path, "-runner")).expect("the lock is a file");
    let (second, second_driver) = counted(&path, &second_ran);
    let refused = first.insert(HOUR, Task::new(99, Plan::Succeed)).expect_err("an insert");
    assert_eq!(*refused.kind(), InsertErrorKind::Store(StoreError::Overtaken));
    assert_eq!(first.count(), Err(StoreError::Overtaken));
    assert_eq!(first_driver.advance(2 * HOUR), 0);
    assert_eq!(second_driver.advance(2 * HOUR), 25);
    assert_eq!(first_ran.load(Ordering::Relaxed), 0);
    assert_eq!(second_ran.load(Ordering::Relaxed), 25);
    second.check().expect("the store is in order");
    let _ = first.shutdown_timeout(Duration::from_secs(5));
    second.check().expect("the store is in order");
    second.shutdown().expect("the disk works");
}

/// P10: The lock counts if it is the file that has the name now, and no other one.
#[test]
fn lock_file_that_was_made_again_keeps_a_third_runner_out() {
    let (_folder, path) = file();
    let (first, _driver) = start(&path).expect("a new file");
    fs::remove_file(beside(&path, "-runner")).expect("the lock is a file");
    let (second, _driver) = start(&path).expect("nothing keeps it out");
    drop(first);
    assert!(matches!(start(&path), Err(OpenError::InUse { .. })));
    second.shutdown().expect("the disk works");
}

/// P75: An acknowledged job is in the file that has the name. A file that was removed went on taking jobs that no
/// other process would ever see.
#[test]
fn file_that_is_removed_takes_no_jobs_until_it_comes_back() {
    let (folder, path) = file();
    let away = folder.path().join("away.db");
    let (jobs, driver) = start(&path).expect("a new file");
    let task = || Task::new(1, Plan::Succeed);
    jobs.insert(HOUR, task()).expect("an insert");
    fs::rename(&path, &away).expect("the file moves");
    driver.advance(Duration::from_secs(2));
    let refused = jobs.insert(HOUR, task()).expect_err("the file is away");
    let named = path.display().to_string();
    let is_named = |error: &StoreError| matches!(error, StoreError::Io(text) if text.contains(&named) && text.contains("removed"));
    assert!(matches!(refused.kind(), InsertErrorKind::Store(error) if is_named(error)));
    fs::rename(&away, &path).expect("the file moves back");
    driver.advance(Duration::from_secs(2));
    jobs.insert(HOUR, task()).expect("the file is there again");
    assert_eq!(jobs.count().expect("the jobs are counted").pending, 2);
    fs::remove_file(&path).expect("the file goes");
    assert!(jobs.shutdown().is_err_and(|error| is_named(&error)), "the end says so");
}

/// P75: The same holds if the log of the file is away. A run that ends meanwhile does not hide that at the end.
#[test]
fn log_that_is_removed_takes_no_jobs_until_it_comes_back() {
    let (folder, path) = file();
    let (log, away) = (beside(&path, "-wal"), folder.path().join("away"));
    let (jobs, driver) = start(&path).expect("a new file");
    let task = || Task::new(1, Plan::Succeed);
    jobs.insert(HOUR, task()).expect("an insert");
    driver.advance(Duration::from_secs(2));
    fs::rename(&log, &away).expect("the log moves");
    driver.advance(Duration::from_secs(2));
    let refused = jobs.insert(HOUR, task()).expect_err("the log is away");
    let is_named =
        |error: &StoreError| matches!(error, StoreError::Io(text) if text.contains("removed"));
    assert!(
        matches!(refused.kind(), InsertErrorKind::Store(error) if is_named(error)),
        "{refused}"
    );
    fs::rename(&away, &log).expect("the log moves back");
    driver.advance(Duration::from_secs(2));
    jobs.insert(HOUR, task()).expect("the log is there again");
    jobs.check().expect("no damage");
    fs::remove_file(&log).expect("the log goes");
    assert!(jobs.shutdown().is_err_and(|error| is_named(&error)), "the end says so");
    // The connection that had the log has moved it to the file.
    let (jobs, driver) = start(&path).expect("the file is in order");
    assert_eq!(jobs.count().expect("the jobs are counted").pending, 2);
    drop((jobs, driver));
}

/// P75: If the file is removed under a run, the end of the jobs names that, and not the lock that the run could not
/// get.
#[test]
fn file_that_is_removed_under_a_run_is_named_at_the_end() {
    let (_folder, path) = file();
    let (started, at_start) = std::sync::mpsc::channel();
    let (release, may_end) = std::sync::mpsc::channel::<()>();
    let may_end = std::sync::Mutex::new(may_end);
    let handler = move |_: Task, _: &Run| {
        started.send(()).expect("the test waits");
        may_end.lock().expect("one run").recv().expect("the test ends the run");
        Ok(())
    };
    let jobs =
        Jobs::open(&path).and_then(|builder| builder.handle(handler).start()).expect("a file");
    jobs.insert(Duration::ZERO, Task::new(1, Plan::Succeed)).expect("an insert");
    at_start.recv().expect("the run starts");
    fs::remove_file(&path).expect("the file goes");
    let takes_jobs = || {
        std::thread::park_timeout(Duration::from_millis(20));
        jobs.insert(HOUR, Task::new(2, Plan::Succeed)).is_ok()
    };
    assert!((0..3000).any(|_| !takes_jobs()), "the file takes jobs");
    release.send(()).expect("the run waits");
    let end = jobs.shutdown().expect_err("the file is gone");
    assert!(matches!(&end, StoreError::Io(text) if text.contains("removed")), "{end}");
}

/// P74: `insert_in` works on the file of these jobs, also if the symbolic link that led there is gone.
#[test]
fn insert_in_finds_the_file_behind_a_link_that_is_gone() {
    let folder = tempfile::tempdir().expect("there is room");
    let (path, link) = (folder.path().join("jobs.db"), folder.path().join("link.db"));
    make(&path, 0);
    symlink(&path, &link).expect("a link");
    let client = Jobs::open(&link).and_then(|builder| builder.client()).expect("a client");
    fs::remove_file(&link).expect("the link goes");
    insert_in(&client, &path);
}

/// P74: `insert_in` works on a file whose path is no UTF-8.
#[test]
fn insert_in_finds_a_file_whose_path_is_no_utf8() {
    let folder = tempfile::tempdir().expect("there is room");
    let path = folder.path().join(OsStr::from_bytes(b"jobs-\xff.db"));
    let client = Jobs::open(&path).and_then(|builder| builder.client()).expect("a client");
    insert_in(&client, &path);
    let other = Connection::open(folder.path().join("other.db")).expect("a database");
    other.execute_batch("CREATE TABLE t (a)").expect("a table");
    let transaction = other.unchecked_transaction().expect("a transaction");
    let refused = client.insert_in(&transaction, HOUR, Task::new(2, Plan::Succeed));
    assert!(refused.is_err(), "another file");
}

fn insert_in(client: &tickwheel_jobs::Client, path: &Path) {
    let conn = Connection::open(path).expect("the file");
    let transaction = conn.unchecked_transaction().expect("a transaction");
    let id = client.insert_in(&transaction, HOUR, Task::new(1, Plan::Succeed)).expect("an insert");
    transaction.commit().expect("a commit");
    assert!(client.get(id).expect("a look").is_some());
}

/// P76: A process that makes a file removes no file of another process. The name of a new file was made of the
/// process's number, and in every container that is 1.
#[test]
fn new_file_leaves_the_new_files_of_others_alone() {
    let (folder, path) = file();
    let others: Vec<PathBuf> =
        (0..64).map(|n| beside(&path, &format!("-new-{}-{n}", std::process::id()))).collect();
    for other in &others {
        fs::write(other, "half made").expect("it can be written");
    }
    make(&path, 1);
    assert!(others.iter().all(|other| other.exists()), "a file of another process is gone");
    let new = |path: &PathBuf| path.to_string_lossy().contains("-new-") && !others.contains(path);
    assert_eq!(contents(folder.path()).keys().filter(|path| new(path)).count(), 0);
}

/// P20: An error names the file of the caller. For a name that is too long it named the temporary file.
#[test]
fn file_name_that_is_too_long_is_named_in_the_error() {
    let folder = tempfile::tempdir().expect("there is room");
    let path = folder.path().join("j".repeat(245));
    let refused = start(&path).expect_err("the files beside it have longer names");
    assert!(matches!(&refused, OpenError::Io { path: named, .. } if *named == path), "{refused:?}");
    assert!(!refused.to_string().contains("-new-"), "{refused}");
}

/// P81: Every dead job is listed. The list began after the id 0.
#[test]
fn dead_job_with_the_id_0_is_listed() {
    let folder = tempfile::tempdir().expect("there is room");
    let (jobs, driver) = start_to_die(&folder.path().join("jobs.db"));
    let id = JobId::from_u128(0);
    jobs.insert_job(NewJob::new(Task::new(1, Plan::Succeed)).at(Duration::ZERO).id(id))
        .expect("an insert");
    driver.advance(HOUR);
    assert_eq!(jobs.count().expect("the jobs are counted").dead, 1);
    assert_eq!(jobs.dead().map(|job| job.id).collect::<Vec<_>>(), [id]);
}

fn start_to_die(path: &Path) -> (Jobs, Driver) {
    let builder = Jobs::open(path).expect("a new file");
    let dies = |_: Task, _: &Run| Err(tickwheel_jobs::Fail::dead("as planned"));
    builder.handle(dies).manual().expect("the jobs start")
}
