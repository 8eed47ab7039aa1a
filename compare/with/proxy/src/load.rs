//! The clients: most are busy, and some make a timeout come.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::Semaphore;
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

use crate::origins::{ECHO, MUTE, UNREACHABLE};
use crate::process::{Counts, Proxy};
use crate::proxy::Limits;

/// How many connect at a time.
const CONNECTING: usize = 64;
/// How late a connection may be closed on a machine that has much else to do.
const GRACE: Duration = Duration::from_secs(2);

/// How many clients there are of each kind.
pub(crate) struct Clients {
    /// Send a request after the other.
    pub(crate) busy: usize,
    /// Never say anything.
    pub(crate) silent: usize,
    /// Say nothing more after some requests.
    pub(crate) idle: usize,
    /// Get no answer from their origin.
    pub(crate) unanswered: usize,
    /// Have an origin that cannot be reached.
    pub(crate) lost: usize,
}

impl Clients {
    /// How many are not busy.
    pub(crate) fn others(&self) -> usize {
        self.silent + self.idle + self.unanswered + self.lost
    }
}

pub(crate) struct Load {
    pub(crate) clients: Clients,
    /// For how long is measured.
    pub(crate) window: Duration,
    /// How long a busy client waits between two requests, on average.
    pub(crate) pause: Duration,
}

/// What one run has measured.
pub(crate) struct Run {
    pub(crate) requests: usize,
    pub(crate) window: Duration,
    /// Ascending.
    pub(crate) latencies: Vec<Duration>,
    /// Of the proxy, during the window.
    pub(crate) processor_time: Duration,
    /// By how much the connections were closed late, ascending.
    pub(crate) late: Vec<Duration>,
    pub(crate) wrong: Vec<String>,
}

impl Run {
    /// Compares what the proxy says that it has closed with what it should have.
    pub(crate) fn check(&mut self, clients: &Clients, closed: Counts) {
        let count = |clients: usize| clients as u64;
        let expected = Counts {
            connect: count(clients.lost),
            read: count(clients.silent + clients.unanswered),
            idle: count(clients.idle),
        };
        if closed != expected {
            self.wrong.push(format!("closed {closed:?}, not {expected:?}"));
        }
    }
}

/// Loads the proxy for a window of time.
pub(crate) async fn run(load: &Load, limits: Limits, proxy: &Proxy) -> Run {
    let stop = Arc::new(AtomicBool::new(false));
    let connecting = Arc::new(Semaphore::new(CONNECTING));
    let mut busy = JoinSet::new();
    let (ready, mut connected) = tokio::sync::mpsc::unbounded_channel();
    for number in 0..load.clients.busy {
        let (address, pause) = (proxy.address, load.pause);
        let (stop, connecting, ready) = (Arc::clone(&stop), Arc::clone(&connecting), ready.clone());
        busy.spawn(async move {
            let permit = connecting.acquire_owned().await.expect("it is not closed");
            let stream = connect(address, Some(ECHO)).await?;
            drop((permit, ready));
            requests(stream, number, pause, &stop).await
        });
    }
    drop(ready);
    let _: Option<()> = connected.recv().await;
    // All are connected. From here on it is measured.
    let (begin, used) = (Instant::now(), proxy.processor_time());
    let others = ends(load, limits, proxy);
    sleep(load.window).await;
    let (end, used_then) = (Instant::now(), proxy.processor_time());
    stop.store(true, Ordering::SeqCst);
    let mut run = Run {
        requests: 0,
        window: end - begin,
        latencies: Vec::new(),
        processor_time: used_then - used,
        late: Vec::new(),
        wrong: Vec::new(),
    };
    for done in busy.join_all().await {
        match done {
            Ok(done) => run.latencies.extend(
                done.into_iter().filter(|(at, _)| (begin..end).contains(at)).map(|(_, took)| took),
            ),
            Err(error) => run.wrong.push(format!("a busy connection ended: {error}")),
        }
    }
    run.latencies.sort_unstable();
    run.requests = run.latencies.len();
    for ended in others.join_all().await {
        match ended {
            Ok(late) => run.late.push(late),
            Err(wrong) => run.wrong.push(wrong),
        }
    }
    run.late.sort_unstable();
    run
}

async fn connect(address: std::net::SocketAddr, route: Option<u8>) -> io::Result<TcpStream> {
    let mut stream = TcpStream::connect(address).await?;
    stream.set_nodelay(true)?;
    if let Some(route) = route {
        stream.write_all(&[route]).await?;
    }
    Ok(stream)
}

/// Sends one request and waits for its answer.
async fn request(stream: &mut TcpStream) -> io::Result<()> {
    let mut buffer = *b"a request of sixty-four bytes, which comes back as it was sent..";
    stream.write_all(&buffer).await?;
    stream.read_exact(&mut buffer).await?;
    Ok(())
}

/// Sends requests until the stop. Returns when each began, and how long it took.
async fn requests(
    mut stream: TcpStream,
    number: usize,
    pause: Duration,
    stop: &AtomicBool,
) -> io::Result<Vec<(Instant, Duration)>> {
    let mut done = Vec::new();
    let mut random = number as u32;
    while !stop.load(Ordering::Relaxed) {
        let begin = Instant::now();
        request(&mut stream).await?;
        done.push((begin, begin.elapsed()));
        if pause > Duration::ZERO {
            // Between nothing and twice the pause, other for each client and each time.
            random = random.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            sleep(pause * (random >> 22) / 512).await;
        }
    }
    Ok(done)
}

/// Starts the clients whose connection the proxy has to close. Each returns how late that was, or
/// what was wrong.
fn ends(load: &Load, limits: Limits, proxy: &Proxy) -> JoinSet<Result<Duration, String>> {
    let clients = &load.clients;
    // The name, how many, the origin, requests with an answer, whether one without follows, and
    // which time is over.
    let kinds = [
        ("silent", clients.silent, None, 0, false, limits.read),
        ("idle", clients.idle, Some(ECHO), 3, false, limits.idle),
        ("unanswered", clients.unanswered, Some(MUTE), 0, true, limits.read),
        ("lost", clients.lost, Some(UNREACHABLE), 0, false, limits.connect),
    ];
    let mut tasks = JoinSet::new();
    for (name, count, route, answered, asks, limit) in kinds {
        for _ in 0..count {
            let address = proxy.address;
            tasks.spawn(async move {
                let mut begin = Instant::now();
                let starts = async {
                    let mut stream = connect(address, route).await?;
                    for _ in 0..answered {
                        begin = Instant::now();
                        request(&mut stream).await?;
                    }
                    if asks {
                        stream.write_all(b"is there anybody?").await?;
                    }
                    io::Result::Ok(stream)
                };
                let mut stream = starts.await.map_err(|error| format!("{name}: {error}"))?;
                let ended = timeout(limit + GRACE, stream.read(&mut [0])).await;
                let after = begin.elapsed();
                match ended {
                    Err(_) => Err(format!("{name}: open after {after:?}")),
                    Ok(Err(error)) if error.kind() != io::ErrorKind::ConnectionReset => {
                        Err(format!("{name}: {error}"))
                    }
                    Ok(Ok(1..)) => Err(format!("{name}: an answer")),
                    Ok(_) if after < limit => Err(format!("{name}: closed early, {after:?}")),
                    Ok(_) => Ok(after - limit),
                }
            });
        }
    }
    tasks
}
