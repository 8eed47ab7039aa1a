//! Nodes share the work: each claims what its threads can start, and gives back the rest.

use std::sync::{Mutex, mpsc};
use std::time::Duration;

#[cfg(feature = "tokio")]
use tickwheel_jobs::StoreError;
use tickwheel_jobs::{Jobs, Run};

use crate::server::{Server, pause, wait_until};
use crate::support::{Log, MS, Order, noting, open};

/// Jobs that take a while run on all nodes, not on the one that saw them first.
#[test]
fn nodes_share_jobs_that_take_a_while() {
    let server = Server::start();
    let log = Log::default();
    let client = open(&server).client().unwrap();
    client.insert_batch((0..36).map(|n| (Duration::ZERO, Order(n)))).unwrap();
    let node = || -> Jobs {
        let log = log.clone();
        let slow = move |order: Order, _: &Run| {
            log.add(order.0);
            pause(300 * MS);
            Ok(())
        };
        open(&server).threads(2).on(slow).start().unwrap()
    };
    let nodes = [node(), node(), node()];
    wait_until("all ran", || log.len() == 36);
    wait_until("all ended", || client.count().unwrap().running == 0);
    let started: Vec<u64> = nodes.iter().map(|node| node.stats().started).collect();
    // Twelve are fair.
    assert!(started.iter().all(|many| *many >= 4), "{started:?}");
    client.check().unwrap();
    log.each_once(36);
}

/// A node whose threads are held claims nothing that another node could start.
#[test]
fn jobs_do_not_wait_behind_a_handler_while_another_node_is_idle() {
    let server = Server::start();
    let (started, at_start) = mpsc::channel();
    let (release, released) = mpsc::channel::<()>();
    let released = Mutex::new(released);
    let held = Log::default();
    let noted = held.clone();
    let busy = open(&server)
        .threads(1)
        .on(move |order: Order, _: &Run| {
            noted.add(order.0);
            if order.0 == 0 {
                started.send(()).unwrap();
                released.lock().unwrap().recv()?;
            }
            Ok(())
        })
        .start()
        .unwrap();
    busy.insert(Duration::ZERO, Order(0)).unwrap();
    at_start.recv().unwrap();
    let client = open(&server).client().unwrap();
    client.insert_batch((1..=10).map(|n| (Duration::ZERO, Order(n)))).unwrap();
    // The busy node has had every chance to claim them before this one is there.
    pause(300 * MS);
    let log = Log::default();
    let idle = noting(open(&server), &log);
    wait_until("the idle node has run them", || log.len() == 10);
    release.send(()).unwrap();
    for jobs in [busy, idle] {
        jobs.shutdown().unwrap();
    }
    assert_eq!(held.len(), 1);
}

/// What was claimed before a thread was taken goes back: short runs were expected, and a long one came.
#[test]
fn what_cannot_start_goes_back_to_the_others() {
    let server = Server::start();
    let (release, released) = mpsc::channel::<()>();
    let released = Mutex::new(released);
    let here = Log::default();
    let noted = here.clone();
    let busy = open(&server)
        .threads(1)
        .on(move |order: Order, _: &Run| {
            noted.add(order.0);
            if order.0 == 500 {
                released.lock().unwrap().recv()?;
            }
            Ok(())
        })
        .start()
        .unwrap();
    // Many short runs: it claims ahead. Then one that holds the thread, and more behind it.
    busy.insert_batch((0..1000).map(|n| (Duration::ZERO, Order(n)))).unwrap();
    wait_until("the long run has begun", || here.of(500) == 1);
    let there = Log::default();
    let idle = noting(open(&server), &there);
    wait_until("the idle node has run the rest", || here.len() + there.len() == 1000);
    release.send(()).unwrap();
    for jobs in [busy, idle] {
        jobs.shutdown().unwrap();
    }
    let both: Vec<u64> = (0..1000).filter(|n| here.of(*n) + there.of(*n) != 1).collect();
    assert!(both.is_empty(), "{both:?}");
}

/// Runs that are futures take no thread: a node with one thread holds many of them.
#[cfg(feature = "tokio")]
#[test]
fn runs_that_are_futures_are_claimed_whatever_the_threads_do() {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).build().unwrap();
    let server = Server::start();
    let log = Log::default();
    let noted = log.clone();
    let jobs = open(&server)
        .threads(1)
        .on_async(runtime.handle().clone(), move |order: Order, run| {
            noted.add(order.0);
            async move {
                run.lost().await;
                Ok(())
            }
        })
        .start()
        .unwrap();
    jobs.insert_batch((0..300).map(|n| (Duration::ZERO, Order(n)))).unwrap();
    wait_until("all have begun", || log.len() == 300);
    assert_eq!(jobs.shutdown_timeout(Duration::ZERO), Err(StoreError::StillRunning(300)));
    log.each_once(300);
}
