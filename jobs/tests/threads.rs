//! No thread is left behind. A test binary of its own: it counts the threads of the process.

#![cfg(target_os = "linux")]

use std::fs;
use std::sync::mpsc;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use tickwheel_jobs::{Job, Jobs};

#[derive(Serialize, Deserialize)]
struct Close;
impl Job for Close {
    const KIND: &'static str = "close";
}

const HOUR: Duration = Duration::from_secs(3600);

fn threads() -> usize {
    fs::read_dir("/proc/self/task").unwrap().count()
}

fn wait_for(threads_before: usize) {
    let (_sender, never) = mpsc::channel::<()>();
    for _ in 0..6000 {
        if threads() == threads_before {
            return;
        }
        let _ = never.recv_timeout(Duration::from_millis(10));
    }
    panic!("{} threads, and {threads_before} before", threads());
}

fn block_on<T>(future: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(future)
}

/// P61: The threads that the calls of futures need end with the last client, and with the jobs.
#[test]
fn threads_of_futures_end_with_the_jobs() {
    let before = threads();
    let file = Jobs::temporary().unwrap();
    let client = file.client().unwrap();
    client.insert(HOUR, Close).unwrap();
    assert_eq!(threads(), before, "a client that only threads call has no thread");
    let clone = client.clone();
    block_on(client.asynchronous().insert(HOUR, Close)).unwrap();
    assert!(threads() > before);
    drop(client);
    block_on(clone.asynchronous().insert(HOUR, Close)).unwrap();
    drop(clone);
    wait_for(before);

    let jobs = Jobs::temporary().unwrap().handle(|_: Close, _| Ok(())).start().unwrap();
    let client = jobs.client();
    block_on(async {
        client.asynchronous().insert(HOUR, Close).await.unwrap();
        client.asynchronous().count().await.unwrap();
    });
    jobs.shutdown().unwrap();
    wait_for(before);
    block_on(client.asynchronous().count()).unwrap_err();
    block_on(client.asynchronous().insert(HOUR, Close)).unwrap_err();
    assert_eq!(threads(), before, "a call that is refused starts no thread");
}
