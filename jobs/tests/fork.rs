//! A fork is refused: the child has the parent's connection and its locks, and writing through them
//! would damage the file.
//!
//! One test in a program of its own. Of the threads of a program only the one that forks goes on in the
//! child, so no other test may hold a lock at that moment.

#![cfg(unix)]

use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::sys::wait::{WaitPidFlag, WaitStatus, waitpid};
use nix::unistd::{ForkResult, fork};
use serde::{Deserialize, Serialize};
use tickwheel_jobs::{Client, InsertErrorKind, Job, JobId, Jobs, StoreError};

#[derive(Serialize, Deserialize)]
struct Close(u64);

impl Job for Close {
    const KIND: &'static str = "close";
}

const HOUR: Duration = Duration::from_secs(3600);

/// Returns the number of the first call that was not refused, or zero.
fn first_that_is_not_refused(client: &Client, id: JobId) -> i32 {
    let inserted = client.insert(HOUR, Close(2));
    let refused = inserted.err().map(|error| error.kind().clone());
    let calls = [
        refused == Some(InsertErrorKind::Store(StoreError::Forked)),
        client.cancel(id) == Err(StoreError::Forked),
        client.reschedule(id, Duration::ZERO) == Err(StoreError::Forked),
        client.get(id) == Err(StoreError::Forked),
        client.keyed("k").cancel() == Err(StoreError::Forked),
        client.count().is_err_and(|error| error == StoreError::Forked),
        client.check().is_err(),
    ];
    calls.iter().position(|refused| !refused).map_or(0, |at| at as i32 + 1)
}

/// P55: Every call in a forked process is refused, its drops return, and the parent goes on.
#[test]
#[expect(clippy::disallowed_methods, reason = "a child that hangs is found by the real clock")]
fn forked_process_is_refused_and_the_parent_goes_on() {
    let folder = std::env::temp_dir().join(format!("tickwheel-fork-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let path = folder.join("jobs.db");
    let jobs = Jobs::open(&path).unwrap().handle(|_: Close, _| Ok(())).start().unwrap();
    let client = Jobs::open(&path).unwrap().client().unwrap();
    let id = jobs.insert(HOUR, Close(1)).unwrap();

    // SAFETY: the child makes the calls that are to be refused, and leaves without a destructor. What
    // it allocates, the allocator of the C library allows after a fork.
    let child = match unsafe { fork() }.unwrap() {
        ForkResult::Parent { child } => child,
        ForkResult::Child => {
            let runner = first_that_is_not_refused(&jobs, id);
            let other = first_that_is_not_refused(&client, id);
            let code = if runner != 0 {
                runner
            } else if other != 0 {
                10 + other
            } else {
                0
            };
            // Neither waits for a thread that is not there.
            drop((jobs, client));
            // SAFETY: it ends the process, and runs nothing of the parent's.
            unsafe { nix::libc::_exit(code) }
        }
    };
    let since = Instant::now();
    let status = loop {
        match waitpid(child, Some(WaitPidFlag::WNOHANG)).unwrap() {
            WaitStatus::StillAlive if since.elapsed() > Duration::from_secs(60) => {
                kill(child, Signal::SIGKILL).unwrap();
                panic!("the child waits for what it does not have");
            }
            WaitStatus::StillAlive => std::thread::sleep(Duration::from_millis(5)),
            status => break status,
        }
    };
    assert_eq!(status, WaitStatus::Exited(child, 0));

    assert!(jobs.reschedule(id, 2 * HOUR).unwrap());
    assert_eq!(client.count().unwrap().pending, 1);
    jobs.check().unwrap();

    // P10: A child that still has the parent's files keeps no later runner out, such as one that another thread is about
    // to start with a program of its own.
    // SAFETY: the child makes no call but this.
    let ForkResult::Parent { child } = unsafe { fork() }.unwrap() else {
        loop {
            nix::unistd::pause();
        }
    };
    jobs.shutdown().unwrap();
    let again = Jobs::open(&path).unwrap().handle(|_: Close, _| Ok(())).start().map(drop);
    kill(child, Signal::SIGKILL).unwrap();
    waitpid(child, None).unwrap();
    again.unwrap();
    drop(client);
    std::fs::remove_dir_all(folder).unwrap();
}
