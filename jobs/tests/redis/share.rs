//! Nodes share the work: each claims what its threads can start, and gives back the rest.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, mpsc};
use std::thread;
use std::time::Duration;

use tickwheel_jobs::{Jobs, Run, hook};

use crate::scenarios::holding;
use crate::server::{Server, pause, wait_until};
use crate::support::{Log, MS, Order, in_hand, noting, now, open};

/// Starts a node whose handler takes 300 ms.
fn slow_node(server: &Server, threads: usize, log: &Log) -> Jobs {
    let log = log.clone();
    let slow = move |order: Order, _: &Run| {
        log.add(order.0);
        pause(300 * MS);
        Ok(())
    };
    open(server).threads(threads).handle(slow).start().unwrap()
}

/// Three nodes share `jobs` jobs of 300 ms that are due at once. One node starts late. Each node runs at least `least`
/// jobs. A node lists the runs that it has started as running. Another process lists no job as running.
fn nodes_share(threads: usize, jobs: u64, late: Duration, least: u64) {
    let server = Server::start();
    let log = Log::default();
    let client = open(&server).client().unwrap();
    client.insert_batch((0..jobs).map(|n| (Duration::ZERO, Order(n)))).unwrap();
    let node = || slow_node(&server, threads, &log);
    let begun = now();
    let mut nodes = vec![node(), node()];
    pause(late);
    nodes.push(node());
    wait_until("all ran", || {
        for node in &nodes {
            let running = node.count().unwrap().running;
            assert!(running <= threads as u64, "{running} are listed by one of {threads} threads");
        }
        assert_eq!(client.count().unwrap().running, 0, "only a node knows what has started");
        log.len() as u64 == jobs
    });
    wait_until("all ended", || in_hand(&client) == 0);
    let started: Vec<u64> = nodes.iter().map(|node| node.stats().started).collect();
    println!("{started:?} runs, the last ended after {:?}", now() - begun);
    assert!(started.iter().all(|many| *many >= least), "{started:?}");
    client.check().unwrap();
    log.each_once(jobs as usize);
}

/// Redis P6: Jobs that take a while run on all nodes, not on the one that saw them first: twelve on each are fair, and of
/// one thread each thirty, or twenty of the one that comes three seconds late; a busy machine has favourites. The test
/// prints when the last run ended: 9 s, and 10 s, would be perfect for one thread each.
#[test]
fn nodes_have_a_fair_share_each_of_jobs_that_take_a_while() {
    nodes_share(2, 36, Duration::ZERO, 4);
    nodes_share(1, 90, Duration::ZERO, 22);
    nodes_share(1, 90, 3000 * MS, 14);
}

/// Redis P6: A node whose threads are held claims nothing that another node could start.
#[test]
fn jobs_do_not_wait_behind_a_handler_while_another_node_is_idle() {
    let server = Server::start();
    let (handler, starts, release) = holding(|order: &Order| order.0 == 0);
    let busy = open(&server).threads(1).handle(handler).start().unwrap();
    busy.insert(Duration::ZERO, Order(0)).unwrap();
    starts.recv_timeout(Duration::from_secs(60)).unwrap();
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
    assert_eq!(starts.try_iter().count(), 0);
}

/// Redis P6: Claimed jobs that cannot start go back, and another node runs them. The node expected short runs, and a
/// long one came.
#[test]
fn claim_that_cannot_start_goes_back_to_the_other_nodes() {
    let server = Server::start();
    let (release, released) = mpsc::channel::<()>();
    let released = Mutex::new(released);
    let here = Log::default();
    let noted = here.clone();
    let busy = open(&server)
        .threads(1)
        .handle(move |order: Order, _: &Run| {
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

/// The thread that hears a notification makes its step: an idle node claims a job without a change to the thread of its
/// dispatcher.
#[test]
fn thread_of_the_notifications_claims_for_an_idle_node() {
    static STEPS: AtomicUsize = AtomicUsize::new(0);
    hook::set(|point| {
        if point == "before the answers"
            && thread::current().name() == Some("tickwheel-jobs-notifications")
        {
            STEPS.fetch_add(1, Ordering::Relaxed);
        }
    });
    let server = Server::start();
    let log = Log::default();
    let jobs = noting(open(&server), &log);
    let client = open(&server).client().unwrap();
    let mut inserted = 0;
    wait_until("it has made a step", || {
        inserted += 1;
        client.insert(Duration::ZERO, Order(inserted)).unwrap();
        wait_until("the job has run", || log.of(inserted) == 1);
        STEPS.load(Ordering::Relaxed) > 0
    });
    client.check().unwrap();
    jobs.shutdown().unwrap();
    log.each_once(usize::try_from(inserted).unwrap());
}

/// Runs that are futures take no thread: a node with one thread holds many of them.
#[cfg(feature = "tokio")]
#[test]
fn futures_are_claimed_beyond_the_number_of_threads() {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).build().unwrap();
    let server = Server::start();
    let log = Log::default();
    let noted = log.clone();
    let jobs = open(&server)
        .threads(1)
        .runtime(runtime.handle().clone())
        .max_async_runs(300)
        .handle_async(move |order: Order, run| {
            noted.add(order.0);
            async move {
                run.cancelled().await;
                Ok(())
            }
        })
        .start()
        .unwrap();
    jobs.insert_batch((0..300).map(|n| (Duration::ZERO, Order(n)))).unwrap();
    wait_until("all have begun", || log.len() == 300);
    // The shutdown tells them, and they end.
    jobs.shutdown().unwrap();
    log.each_once(300);
}

/// P46: A node claims at most `max_async_runs` jobs of a kind whose handler is a future, 64 unless it is set. Another
/// node has the rest, and jobs of another kind are not delayed.
#[cfg(feature = "tokio")]
#[test]
fn futures_of_a_kind_are_claimed_up_to_max_async_runs() {
    #[derive(serde::Serialize, serde::Deserialize)]
    struct Other(u64);
    impl tickwheel_jobs::Job for Other {
        const KIND: &'static str = "other";
    }

    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).build().unwrap();
    let server = Server::start();
    let node = |log: &Log, most: Option<usize>| {
        let (noted, others) = (log.clone(), log.clone());
        let builder = match most {
            Some(most) => open(&server).max_async_runs(most),
            None => open(&server),
        };
        builder
            .threads(1)
            .runtime(runtime.handle().clone())
            .handle(move |other: Other, _| {
                others.add(other.0);
                Ok(())
            })
            .handle_async(move |order: Order, run| {
                noted.add(order.0);
                async move {
                    run.cancelled().await;
                    Ok(())
                }
            })
            .start()
            .unwrap()
    };
    let (here, there) = (Log::default(), Log::default());
    let first = node(&here, None);
    first.insert_batch((0..100).map(|n| (Duration::ZERO, Order(n)))).unwrap();
    wait_until("the first node has its share", || here.len() == 64);
    first.insert(Duration::ZERO, Other(1000)).unwrap();
    wait_until("the other kind has run", || here.of(1000) == 1);
    let second = node(&there, Some(30));
    wait_until("the second node has its share", || there.len() == 30);
    let counts = first.count().unwrap();
    assert_eq!((counts.running, counts.claimed, counts.pending, here.len()), (64, 30, 6, 65));
    // The shutdown tells them, and they end.
    second.shutdown().unwrap();
    first.shutdown().unwrap();
}
