//! What the first release stored, every later version opens: a file, and the keys of a server.
//!
//! | file | contents |
//! | --- | --- |
//! | `fill.rs` | fills a queue with a job of each sort, and reads everything that a client sees |
//! | `server_keys.rs` | the keys of a server as lines of text, and back |
//! | `../data/file-5.db`, `../data/server-1.json` | stored jobs; the number is that of the layout |
//! | `../data/server-1-lists.json` | the keys of a server with completed jobs in lists |
//! | `../data/seen.json` | what a client of that version saw in both |
//!
//! With `TICKWHEEL_WRITE_LAYOUT=1` the tests write these files anew. That is right only before a release, or for a
//! new number.

#![forbid(unsafe_code)]
#![allow(clippy::disallowed_methods)]

mod fill;
#[path = "../redis/installed.rs"]
mod installed;
#[allow(dead_code, reason = "the tests of the store use the rest")]
#[path = "../redis/server.rs"]
mod server;
mod server_keys;

use std::path::{Path, PathBuf};
use std::{env, fs};

use serde_json::Value;
use tickwheel_jobs::{Builder, JobState, Jobs, Keep};

fn data(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data").join(name)
}

fn writes() -> bool {
    env::var_os("TICKWHEEL_WRITE_LAYOUT").is_some()
}

/// Returns a JSON text without the members that are null: a later version has more of them.
fn set_members(json: &str) -> Value {
    fn strip(value: &mut Value) {
        match value {
            Value::Object(members) => {
                members.retain(|_, value| !value.is_null());
                members.values_mut().for_each(strip);
            }
            Value::Array(values) => values.iter_mut().for_each(strip),
            _ => {}
        }
    }
    let mut value = serde_json::from_str(json).unwrap();
    strip(&mut value);
    value
}

/// Compares what a client sees with what one saw when the data were written; then runs all that is pending.
fn opens(open: impl Fn() -> Builder) {
    let client = open().client().unwrap();
    client.check().unwrap();
    let seen = fill::contents(&client);
    if writes() {
        fs::write(data("seen.json"), &seen).unwrap();
    }
    let seen_before = fs::read_to_string(data("seen.json")).unwrap();
    assert_eq!(set_members(&seen), set_members(&seen_before));
    drop(client);
    fill::run_all(open());
}

/// P44: A file of layout 5 is opened, shows what it showed, and its jobs run.
#[test]
fn file_of_layout_5_is_opened() {
    let folder = tempfile::tempdir().unwrap();
    if writes() {
        let path = folder.path().join("written.db");
        fill::fill(Jobs::open(&path).unwrap());
        fs::copy(path, data("file-5.db")).unwrap();
    }
    let path = folder.path().join("jobs.db");
    fs::copy(data("file-5.db"), &path).unwrap();
    opens(|| Jobs::open(&path).unwrap());
}

/// P44: The keys of layout 1 on a server are read, show what they showed, and their jobs run.
#[test]
fn keys_of_layout_1_are_read() {
    let Some(server) = installed::server(&["--appendonly", "no"]) else { return };
    let open = || Jobs::redis(server.url()).unwrap();
    if writes() {
        fill::fill(open());
        fs::write(data("server-1.json"), server_keys::read(&server)).unwrap();
        let _: String = server.ask(&["FLUSHALL"]);
    }
    server_keys::write(&server, &fs::read_to_string(data("server-1.json")).unwrap());
    opens(open);
}

/// Lists of completed jobs, which a server of layout 1 has kept, are read, and their jobs can be deleted.
#[test]
fn lists_of_layout_1_are_read() {
    const KEPT: usize = 90;
    let Some(server) = installed::server(&["--appendonly", "no"]) else { return };
    let open = || Jobs::redis(server.url()).unwrap();
    if writes() {
        let wait = std::time::Duration::from_millis(20);
        let jobs = open().handle_batch(100, wait, |_: &[(fill::Order, _)]| Ok(())).start().unwrap();
        jobs.kind::<fill::Order>().keep_completed(Keep::last(1000)).unwrap();
        let now = std::time::Duration::ZERO;
        let order = |number| (now, fill::Order { number, fails: false });
        jobs.insert_batch((0..KEPT as u64).map(order)).unwrap();
        server::wait_until("every job is kept", || jobs.ended().count() == KEPT);
        jobs.shutdown().unwrap();
        fs::write(data("server-1-lists.json"), server_keys::read(&server)).unwrap();
        let _: String = server.ask(&["FLUSHALL"]);
    }
    server_keys::write(&server, &fs::read_to_string(data("server-1-lists.json")).unwrap());
    let client = open().client().unwrap();
    client.check().unwrap();
    let kept: Vec<_> = client.ended().kind::<fill::Order>().state(JobState::Completed).collect();
    assert_eq!(kept.len(), KEPT);
    for job in kept {
        assert!(client.delete(job.id).unwrap());
    }
    client.check().unwrap();
    assert_eq!(client.ended().count(), 0);
}
