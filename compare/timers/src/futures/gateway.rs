//! A gateway and a proxy: what their timers cost in whole programs.
//!
//! - `gateway`: each connection is a task. It waits for its next request, for the end of its silence
//!   (an idle timeout of 30 s, which each request sets anew), and for its heartbeat every 5 s. A
//!   request has 200 ms for its answer, which comes at once from another task. 20,000 requests a
//!   second, for five seconds.
//! - `proxy`: each request has three limits, one within the other: for the whole, for the
//!   connection, and for the answer. No heartbeats. 50,000 requests a second.
//!
//! Figures: `cpu`, the processor time of the whole process in ms; `late_p50` and `late_p99`, how
//! long after their time heartbeats ran, in µs; and `wakeups`, how often the system switched to a
//! thread other than the one that makes the requests, for each heartbeat (for each thousand
//! requests of the proxy).

use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use ::tokio::sync::{mpsc, oneshot};
use futures_lite::FutureExt;
use harness::Fallible;
use harness::case::{Figures, figure};

use super::tasks::Tasks;
use super::timer::Futures;
use crate::threads::processor::Usage;
use crate::threads::runs::quantile;
use crate::threads::timer::Timer;

const IDLE: Duration = Duration::from_secs(30);
const BEAT: Duration = Duration::from_secs(5);
const ANSWER: Duration = Duration::from_millis(200);
const CONNECT: Duration = Duration::from_millis(500);
const WHOLE: Duration = Duration::from_secs(10);

/// Connections of the proxy.
const PROXY_CONNECTIONS: usize = 1_000;

type Request = oneshot::Sender<()>;
type Late = Arc<Mutex<Vec<f64>>>;

/// The events that end the wait of a connection.
enum Event {
    Request,
    Beat,
    Silent,
    Closed,
}

pub(super) fn gateway<F: Futures>(connections: usize, short: bool) -> Fallible<Figures> {
    let Tasks { futures, runtime } = Tasks::<F>::start();
    let late = Late::default();
    let (upstream, requests) = mpsc::unbounded_channel();
    runtime.spawn(answer(requests));
    let begin = Instant::now();
    let clients: Vec<_> = (0..connections)
        .map(|number| {
            let (client, requests) = mpsc::unbounded_channel();
            let beat = begin + BEAT.mul_f64((number + 1) as f64 / connections as f64);
            let connection =
                connection(futures.clone(), requests, upstream.clone(), beat, Arc::clone(&late));
            runtime.spawn(connection);
            client
        })
        .collect();
    thread::sleep(Duration::from_secs(1).min(BEAT / 20));
    late.lock().expect("no task panics").clear();
    let used = drive(&clients, 20, short)?;
    let mut late = std::mem::take(&mut *late.lock().expect("no task panics"));
    late.sort_unstable_by(f64::total_cmp);
    if late.is_empty() {
        return Err("no heartbeat ran".to_owned());
    }
    Ok(vec![
        figure("cpu", used.cpu * 1e3),
        figure("late_p50", quantile(&late, 0.5)),
        figure("late_p99", quantile(&late, 0.99)),
        figure("wakeups", (used.sleeps + used.yields) / late.len() as f64),
    ])
}

async fn connection<F: Futures>(
    futures: F,
    mut requests: mpsc::UnboundedReceiver<()>,
    upstream: mpsc::UnboundedSender<Request>,
    mut beat_at: Instant,
    late: Late,
) {
    let mut silent = Box::pin(futures.sleep(IDLE));
    let mut beat = Box::pin(futures.sleep_until(beat_at));
    loop {
        let request = async { requests.recv().await.map_or(Event::Closed, |()| Event::Request) };
        let beats = async {
            beat.as_mut().await;
            Event::Beat
        };
        let silence = async {
            silent.as_mut().await;
            Event::Silent
        };
        match request.or(beats).or(silence).await {
            Event::Request => {
                let (request, answered) = oneshot::channel();
                if upstream.send(request).is_err() {
                    return;
                }
                let _ = futures.limit(ANSWER, answered).await;
                futures.reset(silent.as_mut(), IDLE);
            }
            Event::Beat => {
                late.lock().expect("no task panics").push(beat_at.elapsed().as_secs_f64() * 1e6);
                beat_at += BEAT;
                futures.reset_at(beat.as_mut(), beat_at);
            }
            Event::Silent | Event::Closed => return,
        }
    }
}

pub(super) fn proxy<F: Futures>(short: bool) -> Fallible<Figures> {
    let Tasks { futures, runtime } = Tasks::<F>::start();
    let (upstream, requests) = mpsc::unbounded_channel();
    runtime.spawn(answer(requests));
    let clients: Vec<_> = (0..PROXY_CONNECTIONS)
        .map(|_| {
            let (client, requests) = mpsc::unbounded_channel();
            runtime.spawn(forward(futures.clone(), requests, upstream.clone()));
            client
        })
        .collect();
    thread::sleep(Duration::from_millis(100));
    let used = drive(&clients, 50, short)?;
    let requests = 50.0 * milliseconds(short) as f64;
    Ok(vec![
        figure("cpu", used.cpu * 1e3),
        figure("wakeups", (used.sleeps + used.yields) / requests * 1e3),
    ])
}

async fn forward<F: Futures>(
    futures: F,
    mut requests: mpsc::UnboundedReceiver<()>,
    upstream: mpsc::UnboundedSender<Request>,
) {
    while requests.recv().await.is_some() {
        let (connect, connected) = oneshot::channel();
        let (request, answered) = oneshot::channel();
        let whole = async {
            upstream.send(connect).ok()?;
            futures.limit(CONNECT, connected).await?.ok()?;
            upstream.send(request).ok()?;
            futures.limit(ANSWER, answered).await?.ok()
        };
        if futures.limit(WHOLE, whole).await.flatten().is_none() {
            return;
        }
    }
}

/// The service behind them.
async fn answer(mut requests: mpsc::UnboundedReceiver<Request>) {
    while let Some(request) = requests.recv().await {
        let _ = request.send(());
    }
}

fn milliseconds(short: bool) -> u64 {
    if short { 100 } else { 5_000 }
}

/// Sends that many requests in each millisecond, to one connection after the other.
fn drive(
    clients: &[mpsc::UnboundedSender<()>],
    each_millisecond: usize,
    short: bool,
) -> Fallible<Usage> {
    let (begin, before) = (Instant::now(), Usage::now()?);
    let mut clients = clients.iter().cycle();
    for millisecond in 1..=milliseconds(short) {
        for client in clients.by_ref().take(each_millisecond) {
            client.send(()).map_err(|_| "a connection has ended")?;
        }
        let next = begin + Duration::from_millis(millisecond);
        thread::sleep(next.saturating_duration_since(Instant::now()));
    }
    Ok(Usage::now()?.since(before))
}
