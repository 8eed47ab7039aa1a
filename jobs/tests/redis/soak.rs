//! Every fault of connections and servers, mixed at random, while nodes run what a producer
//! inserts.
//!
//! `TICKWHEEL_REDIS_SOAK_SECONDS` says for how long, `TICKWHEEL_REDIS_SOAK_SEED` with which seed.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use fastrand::Rng;
use tickwheel_jobs::{Cancel, Client, InsertErrorKind, JobId, Jobs, NewJob};

use crate::lost::hash_of;
use crate::proxy::{End, Fate, Proxy};
use crate::server::{Server, pause, wait_until};
use crate::support::{Events, Log, MS, Order, noting, now};

const LEASE: Duration = Duration::from_millis(2400);
const FAULTS: u64 = 12;

fn variable(name: &str) -> Option<u64> {
    std::env::var(name).ok()?.parse().ok()
}

/// What the producer knows.
#[derive(Default)]
struct Produced {
    /// Answered, or inserted again under their id until they were.
    stored: BTreeSet<u64>,
    cancelled: BTreeSet<u64>,
}

/// Inserts until it is told to stop, and cancels some of it.
fn produce(client: &Client, mut draw: Rng, stop: &AtomicBool) -> Produced {
    let mut produced = Produced::default();
    for order in 0.. {
        if stop.load(Ordering::Acquire) {
            break;
        }
        // Many run at once, and are gone before a copy arrives.
        let wait = draw.u64(..3).min(1) as u32 * draw.u32(..400) * MS;
        let inserted = match draw.u64(..2) {
            0 => client.insert(wait, Order(order)).ok(),
            _ => Some(insert_until_answered(client, wait, order)),
        };
        // Without an answer it is there or not.
        let Some(id) = inserted else { continue };
        produced.stored.insert(order);
        if draw.u64(..10) == 0 {
            // An answer that does not come leaves it open.
            match client.cancel(id) {
                Ok(Cancel::Gone) => {}
                Ok(Cancel::Cancelled | Cancel::Running) | Err(_) => {
                    produced.cancelled.insert(order);
                }
            }
        }
        pause(draw.u32(..8) * MS);
    }
    produced
}

fn insert_until_answered(client: &Client, wait: Duration, order: u64) -> JobId {
    let id = JobId::new();
    while let Err(refused) = client.insert_job(NewJob::new(Order(order)).at(wait).id(id)) {
        let kind = refused.kind();
        let again = matches!(kind, InsertErrorKind::Unknown(_) | InsertErrorKind::Store(_));
        assert!(again, "{refused:?}");
    }
    id
}

/// Does one thing to a connection or to the server. Returns its name.
fn fault(kind: u64, draw: &mut Rng, proxy: &Proxy, server: &mut Server) -> &'static str {
    let script = ["change", "claim", "complete", "insert_many"][draw.usize(..4)];
    let how = [End::Close, End::Reset][draw.usize(..2)];
    let some = draw.usize(..700);
    let plan = |fate| proxy.plan(&hash_of(script), &[fate]);
    match kind {
        0 => (plan(Fate::CutRequest(some, how)), "a request is cut").1,
        1 => (plan(Fate::CutReply(some % 80, how)), "a reply is cut").1,
        2 => (plan(Fate::Hold), "a request comes late").1,
        3 => (plan(Fate::CloseToServer), "closed to the server").1,
        4 => (plan(Fate::CloseToClient), "closed to the client").1,
        5 => (proxy.end_all(how), "every connection ends").1,
        6 => (proxy.hold_all(), "every connection dies in silence").1,
        7 => {
            proxy.stall(true);
            pause(draw.u32(..700) * MS);
            (proxy.stall(false), "stalled").1
        }
        8 => (server.ask::<()>(&["SCRIPT", "FLUSH"]), "scripts forgotten").1,
        9 => (server.ask::<i64>(&["CLIENT", "KILL", "TYPE", "normal"]), "clients killed").1,
        10 => {
            let (time, mode) = (draw.u64(..600).to_string(), ["ALL", "WRITE"][some % 2]);
            (server.ask::<()>(&["CLIENT", "PAUSE", &time, mode]), "paused").1
        }
        _ => {
            server.kill();
            pause(draw.u32(..200) * MS);
            (server.run(), "killed").1
        }
    }
}

/// Redis P6: Faults of every kind, mixed at random, lose no job. A job runs again only if a lease was lost.
#[test]
fn faults_of_every_kind_at_random_lose_no_job() {
    let seed = variable("TICKWHEEL_REDIS_SOAK_SEED").unwrap_or(7);
    let time = Duration::from_secs(variable("TICKWHEEL_REDIS_SOAK_SECONDS").unwrap_or(10));
    let mut server = Server::durable();
    let proxy = Proxy::to(server.port);
    let (log, events) = (Log::default(), Events::default());
    let node = || noting(events.of(Jobs::redis(proxy.url()).unwrap().lease(LEASE)), &log);
    let nodes = [node(), node(), node()];
    let client = Jobs::redis(proxy.url()).unwrap().lease(LEASE).client().unwrap();
    let stop = Arc::new(AtomicBool::new(false));
    let stopped = Arc::clone(&stop);
    let producer = std::thread::spawn(move || produce(&client, Rng::with_seed(seed ^ 1), &stopped));
    let (mut draw, began, mut met) = (Rng::with_seed(seed), now(), Vec::new());
    while began.elapsed() < time {
        // Each kind in turn, so that a slow machine meets all of them, and then at random.
        let kind = (met.len() as u64).min(FAULTS).wrapping_mul(5) % FAULTS;
        let kind = if met.len() as u64 >= FAULTS { draw.u64(..FAULTS) } else { kind };
        met.push(fault(kind, &mut draw, &proxy, &mut server));
        pause(draw.u32(..200) * MS);
        if draw.u64(..3) == 0 {
            proxy.go_on();
        }
    }
    proxy.plan(b"", &[]);
    proxy.go_on();
    stop.store(true, Ordering::Release);
    let Produced { stored, cancelled } = producer.join().unwrap();
    let direct = Jobs::redis(server.url()).unwrap().client().unwrap();
    let missing = || stored.difference(&cancelled).filter(|order| log.of(**order) == 0).count();
    let left =
        || direct.count().map_or(1, |counts| counts.pending + counts.claimed + counts.running);
    println!("seed {seed}: {} inserts, {} faults: {met:?}", stored.len(), met.len());
    wait_until("no job is left", || left() == 0);
    assert_eq!(missing(), 0, "jobs were lost, with seed {seed}");
    // A run that was interrupted may not have been told, because it had ended.
    let (runs, lost) = (log.runs(), events.leases_lost());
    let twice = runs - log.len();
    println!("{runs} runs, {twice} of them again; {lost} leases lost");
    assert!(twice <= lost, "{twice} runs again, and {lost} leases lost, with seed {seed}");
    direct.check().unwrap();
    assert_eq!(direct.count().unwrap().dead, 0);
    for node in nodes {
        node.shutdown().unwrap();
    }
}
