//! Calls and shutdowns whose limit counts from the call, while the server stands still.

use std::thread;
use std::time::Duration;

use nix::sys::signal::Signal;
use tickwheel_jobs::{Client, InsertErrorKind, JobId, StoreError};

use crate::server::{Server, wait_until};
use crate::support::{Log, MS, Order, noting, now, open, signal};

const HOUR: Duration = Duration::from_secs(3600);
const LIMIT: Duration = Duration::from_millis(500);
/// What a loaded machine may add. Sixteen callers one after the other took more than 90 seconds.
const LOADED: Duration = Duration::from_secs(15);

fn all_are_answered_in_time(client: &Client) {
    let begun = now();
    thread::scope(|scope| {
        for n in 0..16 {
            scope.spawn(move || match n % 4 {
                0 => {
                    let refused = client.insert(HOUR, Order(n)).unwrap_err();
                    let kind = refused.kind();
                    let is_known = matches!(
                        kind,
                        InsertErrorKind::Unknown(_)
                            | InsertErrorKind::Store(StoreError::Busy | StoreError::Io(_))
                    );
                    assert!(is_known, "{kind:?}");
                }
                1 => assert_ne!(client.count().unwrap_err(), StoreError::Unknown),
                2 => drop(client.cancel(JobId::new()).unwrap_err()),
                _ => drop(client.pending().next_page().unwrap_err()),
            });
        }
    });
    let took = begun.elapsed();
    assert!(took < LIMIT + LOADED, "{took:?}");
}

/// The same for futures, whose thread goes on meanwhile.
fn all_futures_are_answered_in_time(client: &Client) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
    let begun = now();
    runtime.block_on(async {
        let calls: Vec<_> = (0..16)
            .map(|n| {
                let client = client.clone();
                tokio::spawn(async move {
                    match n % 4 {
                        0 => drop(client.asynchronous().insert(HOUR, Order(n)).await.unwrap_err()),
                        1 => {
                            let refused = client.asynchronous().count().await.unwrap_err();
                            assert_ne!(refused, StoreError::Unknown);
                        }
                        2 => drop(client.asynchronous().cancel(JobId::new()).await.unwrap_err()),
                        _ => drop(client.pending().asynchronous().next_page().await.unwrap_err()),
                    }
                })
            })
            .collect();
        let mut turns = 0;
        while !calls.iter().all(tokio::task::JoinHandle::is_finished) {
            tokio::time::sleep(MS).await;
            turns += 1;
        }
        assert!(turns > 5, "the thread stood still: {turns}");
        for call in calls {
            call.await.unwrap();
        }
    });
    let took = begun.elapsed();
    assert!(took < LIMIT + LOADED, "{took:?}");
}

/// P59: Threads and futures that share a client or a node are answered within the limit of their own call, and not one
/// after the other. A shutdown of the node ends within its own limit. After that, calls are refused, though the server
/// has not answered yet.
#[test]
fn callers_are_answered_in_time_while_the_server_stands_still() {
    let server = Server::start();
    let client = open(&server).call_timeout(LIMIT).client().unwrap();
    let jobs = noting(open(&server).call_timeout(LIMIT), &Log::default());
    for client in [client, jobs.client()] {
        client.insert(HOUR, Order(100)).unwrap();
        signal(&server, Signal::SIGSTOP);
        all_are_answered_in_time(&client);
        all_futures_are_answered_in_time(&client);
        signal(&server, Signal::SIGCONT);
        wait_until("the server answers again", || client.count().is_ok());
    }
    signal(&server, Signal::SIGSTOP);
    let (client, begun) = (jobs.client(), now());
    let ended = jobs.shutdown_timeout(100 * MS);
    let took = begun.elapsed();
    assert_eq!(client.count().unwrap_err(), StoreError::Closed);
    let refused = client.insert(HOUR, Order(101)).unwrap_err();
    assert_eq!(*refused.kind(), InsertErrorKind::Closed);
    signal(&server, Signal::SIGCONT);
    assert!(took < LOADED, "{took:?}");
    assert!(matches!(ended, Ok(()) | Err(StoreError::Unknown)), "{ended:?}");
}
