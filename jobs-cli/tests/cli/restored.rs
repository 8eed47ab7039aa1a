//! Backups that are restored: of a file, and of a server that takes snapshots or writes a log of its commands.
//! `docs/upgrading.md` has the steps.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Mutex;
use std::sync::mpsc::{self, Receiver};

use tempfile::TempDir;
use tickwheel_jobs::rusqlite::{Connection, OpenFlags};
use tickwheel_jobs::{Builder, Client, JobInfo, Jobs};

use crate::server::{Server, wait_until};
use crate::shared::{Close, HOUR, LONG};

/// Starts an application, and returns the orders that it closes.
fn start(builder: Builder) -> (Jobs, Receiver<u64>) {
    let (sender, closed) = mpsc::channel();
    let sender = Mutex::new(sender);
    let handler = move |close: Close, _: &_| Ok(sender.lock().unwrap().send(close.0)?);
    (builder.handle(handler).start().unwrap(), closed)
}

fn pending(client: &Client) -> Vec<u64> {
    let number = |job: JobInfo| serde_json::from_slice::<Close>(&job.payload).unwrap().0;
    let mut numbers: Vec<u64> = client.pending().map(number).collect();
    numbers.sort_unstable();
    numbers
}

/// Inserts two orders before a backup, which is taken while the application runs. After it the first is closed and a
/// third is inserted.
fn live_on(builder: Builder, backup: impl FnOnce()) {
    let (jobs, closed) = start(builder);
    let first = jobs.insert(HOUR, Close(1)).unwrap();
    jobs.insert(2 * HOUR, Close(2)).unwrap();
    backup();
    assert!(jobs.reschedule(first, HOUR / 3_600_000).unwrap());
    assert_eq!(closed.recv_timeout(LONG), Ok(1));
    jobs.insert(HOUR, Close(3)).unwrap();
    jobs.shutdown().unwrap();
}

/// The restored state is that of the backup: the first order is closed once more, and the third is not known.
fn is_restored(open: impl Fn() -> Builder) {
    let client = open().client().unwrap();
    client.check().unwrap();
    assert_eq!(pending(&client), [1, 2]);
    let (jobs, closed) = start(open());
    let first = client.pending().next().unwrap().id;
    assert!(jobs.reschedule(first, HOUR / 3_600_000).unwrap());
    assert_eq!(closed.recv_timeout(LONG), Ok(1));
    jobs.insert(HOUR, Close(4)).unwrap();
    jobs.shutdown().unwrap();
    assert_eq!(pending(&client), [2, 4]);
    client.check().unwrap();
}

/// Moves a file and its log away, and puts the backup in its place.
fn restore_file(path: &Path, backup: &Path) {
    let old = path.with_file_name("old");
    fs::create_dir(&old).unwrap();
    for suffix in ["", "-wal", "-shm"] {
        let name = format!("shop.db{suffix}");
        let from = path.with_file_name(&name);
        if from.exists() {
            fs::rename(from, old.join(name)).unwrap();
        }
    }
    fs::copy(backup, path).unwrap();
}

/// P45: A backup by `VACUUM INTO` on a connection that only reads is restored, and so are backups by the program
/// `sqlite3`, where that program is installed.
#[test]
fn file_is_restored_from_its_backup() {
    for ask in [None, Some("VACUUM INTO 'backup.db'"), Some(".backup backup.db")] {
        let folder = tempfile::tempdir().unwrap();
        let (path, backup) = (folder.path().join("shop.db"), folder.path().join("backup.db"));
        let version = Command::new("sqlite3").arg("-version").stdout(Stdio::null()).status();
        if ask.is_some() && version.is_err() {
            return eprintln!("skipped: `sqlite3` is not installed");
        }
        live_on(Jobs::open(&path).unwrap(), || match ask {
            Some(ask) => {
                let mut sqlite3 = Command::new("sqlite3");
                sqlite3.args(["-readonly", "shop.db", ask]).current_dir(&folder);
                assert!(sqlite3.stdout(Stdio::null()).status().unwrap().success());
            }
            None => {
                let reads = OpenFlags::SQLITE_OPEN_READ_ONLY;
                let reader = Connection::open_with_flags(&path, reads).unwrap();
                reader.execute("VACUUM INTO ?1", [backup.to_str().unwrap()]).unwrap();
            }
        });
        restore_file(&path, &backup);
        is_restored(|| Jobs::open(&path).unwrap());
    }
}

/// P45: A copy of the file alone, without its log, lacks the latest jobs. So it is no backup.
#[test]
fn copy_of_the_file_alone_lacks_the_latest_jobs() {
    let folder = tempfile::tempdir().unwrap();
    let (path, copy) = (folder.path().join("shop.db"), folder.path().join("copy.db"));
    let (jobs, _closed) = start(Jobs::open(&path).unwrap());
    jobs.insert(HOUR, Close(1)).unwrap();
    fs::copy(&path, &copy).unwrap();
    assert_eq!(pending(&jobs.client()), [1]);
    let copied = Jobs::open(&copy).and_then(|builder| builder.client());
    assert!(copied.is_err() || pending(&copied.unwrap()).is_empty());
}

/// Starts a server that keeps its data in the folder.
fn server(folder: &TempDir, options: &[&str]) -> Option<Server> {
    let folder = folder.path().to_str().unwrap();
    crate::installed::server(&[&["--dir", folder], options].concat())
}

/// P45: A snapshot that a server took while it ran is restored, also to a server that writes a log of its commands.
/// Such a server does not read a snapshot at its start, so the log is turned on after that.
#[test]
fn server_is_restored_from_a_snapshot() {
    for appends in ["no", "yes"] {
        let folder = tempfile::tempdir().unwrap();
        let Some(server) = self::server(&folder, &["--appendonly", appends]) else { return };
        let snapshot = folder.path().join("dump.rdb");
        let backup = tempfile::NamedTempFile::new().unwrap();
        live_on(Jobs::redis(server.url()).unwrap(), || {
            let before: u64 = server.ask(&["LASTSAVE"]);
            // `LASTSAVE` is in seconds.
            crate::server::pause(std::time::Duration::from_millis(1_100));
            let _: String = server.ask(&["BGSAVE"]);
            wait_until("a snapshot", || server.ask::<u64>(&["LASTSAVE"]) > before);
            fs::copy(&snapshot, &backup).unwrap();
        });
        drop(server);

        let folder = tempfile::tempdir().unwrap();
        fs::copy(&backup, folder.path().join("dump.rdb")).unwrap();
        if appends == "yes" {
            let empty = self::server(&folder, &["--appendonly", "yes"]).unwrap();
            assert_eq!(empty.ask::<u64>(&["DBSIZE"]), 0);
            drop(empty);
            fs::remove_dir_all(folder.path().join("appendonlydir")).unwrap();
        }
        let server = self::server(&folder, &["--appendonly", "no"]).unwrap();
        let _: String = server.ask(&["CONFIG", "SET", "appendonly", appends]);
        is_restored(|| Jobs::redis(server.url()).unwrap());
        if appends == "yes" {
            wait_until("the log", || {
                let info: String = server.ask(&["INFO", "persistence"]);
                info.contains("aof_rewrite_in_progress:0")
                    && info.contains("aof_rewrite_scheduled:0")
            });
            drop(server);
            let server = self::server(&folder, &["--appendonly", "yes"]).unwrap();
            assert_eq!(pending(&Jobs::redis(server.url()).unwrap().client().unwrap()), [2, 4]);
        }
    }
}

/// P45: A copy of the log of commands that was made while the server ran is restored.
#[test]
fn server_is_restored_from_a_copy_of_its_log() {
    let options = ["--appendonly", "yes", "--appendfsync", "always"];
    let folder = tempfile::tempdir().unwrap();
    let Some(server) = self::server(&folder, &options) else { return };
    let backup = tempfile::tempdir().unwrap();
    let copy_log = |from: &Path, to: &Path| {
        fs::create_dir(to.join("appendonlydir")).unwrap();
        for file in fs::read_dir(from.join("appendonlydir")).unwrap() {
            let file = file.unwrap();
            fs::copy(file.path(), to.join("appendonlydir").join(file.file_name())).unwrap();
        }
    };
    live_on(Jobs::redis(server.url()).unwrap(), || {
        let _: String = server.ask(&["CONFIG", "SET", "auto-aof-rewrite-percentage", "0"]);
        copy_log(folder.path(), backup.path());
        let _: String = server.ask(&["CONFIG", "SET", "auto-aof-rewrite-percentage", "100"]);
    });
    drop(server);
    let folder = tempfile::tempdir().unwrap();
    copy_log(backup.path(), folder.path());
    let server = self::server(&folder, &options).unwrap();
    is_restored(|| Jobs::redis(server.url()).unwrap());
}
