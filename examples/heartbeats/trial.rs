//! Server, clients and wheel together, from the first heartbeat to the shutdown.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{self, Receiver};
use std::thread::{self, ScopedJoinHandle};
use std::time::{Duration, Instant};

use tickwheel::{Stats, Wheel};

use crate::clients::{self, Client, Sent};
use crate::machine;
use crate::network::Pair;
use crate::options::Options;
use crate::report::Progress;
use crate::server::{Connection, Eviction, Reader, Served};

/// The number of threads that read for the server, and of threads that write for the clients.
const THREADS: usize = 2;

/// One client in this number falls silent.
const SILENT_SHARE: usize = 10;

/// How long a silent connection may stay after the end of the run before it counts as kept.
const GRACE: Duration = Duration::from_secs(10);

/// The result of a trial.
pub(crate) struct Outcome {
    /// When each client was to fall silent.
    pub(crate) silences: Vec<Option<Instant>>,
    /// The result of each client.
    pub(crate) sent: Vec<Sent>,
    /// The result of each reader.
    pub(crate) served: Vec<Served>,
    pub(crate) evictions: Vec<Eviction>,
    /// How many timers the shutdown handed back.
    pub(crate) unfired: usize,
    pub(crate) heartbeats: u64,
    pub(crate) elapsed: Duration,
    /// Processor time, if the system reports it.
    pub(crate) cpu: Option<Duration>,
    /// The wheel's counters just before its shutdown.
    pub(crate) stats: Stats,
}

pub(crate) fn run(options: &Options, pairs: Vec<Pair>) -> Outcome {
    let wheel = Wheel::new();
    let cpu_before = machine::cpu_time();
    let started = Instant::now();
    let silences = draw_silences(pairs.len(), started, options.last_silence());
    let (evicted, evictions) = mpsc::channel();
    let (mut connections, mut clients) = (Vec::new(), Vec::new());
    for (id, pair) in pairs.into_iter().enumerate() {
        connections.push(Connection::open(id, pair.server, &wheel, options.idle, evicted.clone()));
        clients.push(Client::new(id, pair.client, silences[id], started));
    }
    let (stop, heartbeats) = (&AtomicBool::new(false), &AtomicU64::new(0));

    thread::scope(|scope| {
        let start_reader = |share| {
            let reader = Reader::new(share, wheel.scheduler(), options.idle);
            scope.spawn(move || reader.run(started, stop, heartbeats))
        };
        let start_sender =
            |share| scope.spawn(move || clients::run(share, started, options.interval, stop));
        let readers: Vec<_> = deal(connections).into_iter().map(start_reader).collect();
        let senders: Vec<_> = deal(clients).into_iter().map(start_sender).collect();

        let mut gone = watch(options, started, &silences, heartbeats, &evictions);
        let (stats, elapsed) = (wheel.stats(), started.elapsed());
        // The wheel ends first: when the readers have ended, timers of live connections would come
        // due.
        let unfired = wheel.shutdown().len();
        stop.store(true, Ordering::Relaxed);
        gone.extend(evictions.try_iter());

        let served = join(readers);
        let mut sent: Vec<Sent> = join(senders).into_iter().flatten().collect();
        sent.sort_by_key(|sent| sent.id);
        let cpu = machine::cpu_time().zip(cpu_before).map(|(after, before)| after - before);
        let heartbeats = heartbeats.load(Ordering::Relaxed);
        Outcome {
            silences,
            sent,
            served,
            evictions: gone,
            unfired,
            heartbeats,
            elapsed,
            cpu,
            stats,
        }
    })
}

/// Shows the progress and collects evictions until the run is over and the silent ones are gone.
fn watch(
    options: &Options,
    started: Instant,
    silences: &[Option<Instant>],
    heartbeats: &AtomicU64,
    evictions: &Receiver<Eviction>,
) -> Vec<Eviction> {
    let silent = silences.iter().flatten().count();
    let mut gone = Vec::new();
    let mut progress = Progress::new();
    loop {
        thread::sleep(Duration::from_millis(50));
        gone.extend(evictions.try_iter());
        let elapsed = started.elapsed();
        progress.show(elapsed, heartbeats.load(Ordering::Relaxed), gone.len());
        let silent_gone = gone.iter().filter(|eviction| silences[eviction.id].is_some()).count();
        let end = if silent_gone < silent { options.run + GRACE } else { options.run };
        if elapsed >= end {
            progress.end();
            return gone;
        }
    }
}

/// Returns when each client falls silent, if it does: the same in every run.
fn draw_silences(count: usize, started: Instant, last: Duration) -> Vec<Option<Instant>> {
    let mut random = 0;
    let mut draw = || started + last.mul_f64(fraction(&mut random));
    (0..count).map(|id| (id % SILENT_SHARE == 0).then(&mut draw)).collect()
}

/// Returns the next pseudo-random number in 0..1, by splitmix64.
fn fraction(state: &mut u64) -> f64 {
    *state = state.wrapping_add(0x9E37_79B9_7F4A_7C15);
    let mut bits = *state;
    bits = (bits ^ (bits >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    bits = (bits ^ (bits >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    bits ^= bits >> 31;
    (bits >> 11) as f64 / (1_u64 << 53) as f64
}

/// Distributes the items over the threads in turn. A thread without a share is not started.
fn deal<T>(items: Vec<T>) -> Vec<Vec<T>> {
    let mut shares: Vec<Vec<T>> = (0..THREADS).map(|_| Vec::new()).collect();
    for (number, item) in items.into_iter().enumerate() {
        shares[number % THREADS].push(item);
    }
    shares.retain(|share| !share.is_empty());
    shares
}

fn join<T>(threads: Vec<ScopedJoinHandle<'_, T>>) -> Vec<T> {
    threads.into_iter().map(|thread| thread.join().expect("a thread panicked")).collect()
}
