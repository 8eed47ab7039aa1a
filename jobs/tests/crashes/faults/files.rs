//! Files that are refused, by a typed error that names them; and they stay as they are, to the byte.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use tempfile::TempDir;
use tickwheel_jobs::rusqlite::Connection;
use tickwheel_jobs::{Driver, Jobs, OpenError, Run};

use crate::disk::task::{Plan, Task};

pub(crate) fn start(path: &Path) -> Result<(Jobs, Driver), OpenError> {
    Jobs::open(path)?.handle(|_: Task, _: &Run| Ok(())).manual()
}

/// Makes a file with jobs on it.
pub(crate) fn make(path: &Path, jobs: u64) {
    let (made, driver) = start(path).expect("a new file");
    let hour = Duration::from_secs(3600);
    let batch = (0..jobs).map(|n| (hour, Task::new(n, Plan::Succeed)));
    made.insert_batch(batch).expect("a batch");
    made.shutdown().expect("the disk works");
    drop(driver);
}

/// Returns a folder, which is removed when it is dropped, and the path of a file in it.
pub(crate) fn file() -> (TempDir, PathBuf) {
    // No test here waits for a disk to be sure of it, so a file system in memory will do.
    let memory = Path::new("/dev/shm");
    let folder = match memory.is_dir() {
        true => tempfile::tempdir_in(memory),
        false => tempfile::tempdir(),
    };
    let folder = folder.expect("there is room");
    let path = folder.path().join("jobs.db");
    (folder, path)
}

/// Returns the bytes of each file of a folder.
pub(crate) fn contents(folder: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let files = fs::read_dir(folder).expect("the folder is there");
    let paths = files.map(|entry| entry.expect("the folder can be read").path());
    let files = paths.filter(|path| path.is_file());
    files.map(|path| (path.clone(), fs::read(path).expect("it can be read"))).collect()
}

/// The file is refused, nothing in the folder changes, and the error names the file.
pub(crate) fn is_refused(folder: &TempDir, path: &Path, expected: fn(&OpenError) -> bool) {
    let before = contents(folder.path());
    let refused = start(path).err().unwrap_or_else(|| panic!("{} is opened", path.display()));
    assert!(expected(&refused), "{refused:?}");
    assert!(refused.to_string().contains(&path.display().to_string()), "{refused} names no file");
    let after = contents(folder.path());
    // The lock of the runner is a file of its own, and empty; the index of the log, which whoever reads
    // makes, has nothing of its own.
    let index = |path: &Path| path.to_string_lossy().ends_with("-shm");
    let changed = |(path, bytes): &(&PathBuf, &Vec<u8>)| {
        !bytes.is_empty() && !index(path) && before.get(*path) != Some(*bytes)
    };
    let changed: Vec<&PathBuf> = after.iter().filter(changed).map(|(path, _)| path).collect();
    assert!(changed.is_empty(), "changed: {changed:?}");
    assert!(before.keys().all(|path| after.contains_key(path)), "a file is gone");
}

/// P20: A file that is no database is refused by name, and stays as it is.
#[test]
fn file_that_is_no_database_is_refused() {
    let (folder, path) = file();
    for text in ["hello", &"a letter to the editor\n".repeat(500)] {
        fs::write(&path, text).expect("it can be written");
        let is = |error: &OpenError| {
            matches!(error, OpenError::Foreign { .. } | OpenError::Damaged { .. })
        };
        is_refused(&folder, &path, is);
    }
    for empty in ["", "x"] {
        fs::write(&path, empty).expect("it can be written");
        is_refused(&folder, &path, |error| matches!(error, OpenError::Damaged { .. }));
    }
}

/// P20: A database with the application id of another program is refused by name.
#[test]
fn database_with_another_application_id_is_refused() {
    let (folder, path) = file();
    let other = Connection::open(&path).expect("a database");
    other
        .execute_batch("PRAGMA application_id = 77; CREATE TABLE t (a); INSERT INTO t VALUES (1)")
        .expect("a table");
    drop(other);
    is_refused(&folder, &path, |error| matches!(error, OpenError::Foreign { .. }));
}

/// P80: The tables of an application in the same file are its own: one that needs a collation which no other program
/// knows, and one whose rows break a constraint, keep no queue from opening, and are no damage.
#[test]
fn tables_of_the_application_are_not_checked() {
    let (_folder, path) = file();
    let other = Connection::open(&path).expect("a database");
    other
        .execute_batch(
            "CREATE TABLE customer (name TEXT COLLATE NOCASE); CREATE INDEX customer_name ON customer (name);
             INSERT INTO customer VALUES ('ann');
             PRAGMA ignore_check_constraints = 1;
             CREATE TABLE price (cents INTEGER CHECK (cents > 0)); INSERT INTO price VALUES (-1);
             PRAGMA writable_schema = 1;
             UPDATE sqlite_schema SET sql = replace(sql, 'NOCASE', 'de_DE');
             -- A comment that is no UTF-8.
             UPDATE sqlite_schema SET sql = CAST(CAST(sql AS BLOB) || x'2d2de9' AS TEXT) WHERE name = 'price';",
        )
        .expect("the tables of an application");
    drop(other);
    make(&path, 10);
    for _ in 0..2 {
        let (jobs, driver) = start(&path).expect("the tables of the queue are in order");
        jobs.check().expect("no damage");
        drop((jobs, driver));
    }
}

/// P20: A file of a later version is refused, and the error names both versions.
#[test]
fn file_of_a_later_version_is_refused() {
    let (folder, path) = file();
    make(&path, 10);
    let conn = Connection::open(&path).expect("the file");
    conn.execute("UPDATE tickwheel_meta SET value = 99 WHERE name = 'version'", []).expect("a row");
    drop(conn);
    let is = |error: &OpenError| matches!(error, OpenError::Newer { version: 99, .. });
    is_refused(&folder, &path, is);
}

/// A folder, and a path in a folder that is absent, are refused.
#[test]
fn path_that_is_no_file_is_refused() {
    let folder = tempfile::tempdir().expect("there is room");
    let is = |error: &OpenError| matches!(error, OpenError::Io { .. });
    is_refused(&folder, folder.path(), is);
    is_refused(&folder, &folder.path().join("missing").join("jobs.db"), is);
}

/// A file that this user may only read is refused.
#[test]
fn file_that_is_read_only_is_refused() {
    let (folder, path) = file();
    make(&path, 10);
    let mut rights = fs::metadata(&path).expect("the file").permissions();
    rights.set_readonly(true);
    fs::set_permissions(&path, rights).expect("it is ours");
    if fs::OpenOptions::new().write(true).open(&path).is_ok() {
        eprintln!("skipped: this user may write to files that are read-only");
        return;
    }
    is_refused(&folder, &path, |error| matches!(error, OpenError::Io { .. }));
}

/// P20: A file that another connection has locked is refused, and opens once it is free.
#[test]
fn file_that_is_locked_is_refused() {
    let (folder, path) = file();
    make(&path, 10);
    let other = Connection::open(&path).expect("the file");
    other.execute_batch("PRAGMA locking_mode = EXCLUSIVE; BEGIN EXCLUSIVE").expect("the lock");
    other.execute("UPDATE tickwheel_meta SET value = value", []).expect("the lock");
    is_refused(&folder, &path, |error| matches!(error, OpenError::InUse { .. }));
    other.execute_batch("ROLLBACK").expect("the lock");
    drop(other);
    let (jobs, _driver) = start(&path).expect("it is free again");
    assert_eq!(jobs.count().expect("the jobs are counted").pending, 10);
}
