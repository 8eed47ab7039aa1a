//! The server: a timer for each connection, pushed back by every heartbeat, whose job evicts.
//!
//! Each of a few threads reads its share of the connections in rounds, because the standard library
//! cannot wait for many sockets at once. In a server that can, the code of the timers is the same.

use std::io::{self, ErrorKind, Read};
use std::net::{Shutdown, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::Sender;
use std::thread;
use std::time::{Duration, Instant};

use tickwheel::{Handle, Scheduler, Wheel};

/// The sleep after a round, also after a round that found heartbeats: with thousands of connections
/// every round finds some, and the rounds would take every processor. A heartbeat counts later by
/// this time, which is little beside an idle timeout.
const REST: Duration = Duration::from_millis(25);

/// The job of a timer ran.
pub(crate) struct Eviction {
    pub(crate) id: usize,
    pub(crate) at: Instant,
}

/// The server's record of one connection.
pub(crate) struct Seen {
    pub(crate) id: usize,
    /// When the last heartbeat that pushed the timer back was read, measured before the reset.
    pub(crate) last: Instant,
    /// When a reset was first refused, because the timer was no longer pending.
    pub(crate) refused: Option<Instant>,
}

/// An open connection, with its timer.
pub(crate) struct Connection {
    socket: Arc<TcpStream>,
    timer: Handle,
    seen: Seen,
}

impl Connection {
    pub(crate) fn open(
        id: usize,
        socket: TcpStream,
        wheel: &Wheel,
        idle: Duration,
        evicted: Sender<Eviction>,
    ) -> Connection {
        let socket = Arc::new(socket);
        let closing = Arc::clone(&socket);
        let last = Instant::now();
        let timer = wheel.insert(idle, move || evict(id, &closing, &evicted));
        Connection { socket, timer, seen: Seen { id, last, refused: None } }
    }

    fn push_back(&mut self, scheduler: &Scheduler, idle: Duration) -> bool {
        let read = Instant::now();
        let pending = scheduler.reset(self.timer, idle);
        if pending {
            self.seen.last = read;
        } else {
            self.seen.refused.get_or_insert_with(Instant::now);
        }
        pending
    }
}

/// The job of the timer. The reader finds the connection ended, and drops it.
fn evict(id: usize, socket: &TcpStream, evicted: &Sender<Eviction>) {
    // The receiver may be gone, and the client too. Both are fine.
    let _ = evicted.send(Eviction { id, at: Instant::now() });
    let _ = socket.shutdown(Shutdown::Both);
}

/// A thread's share of the connections.
pub(crate) struct Reader {
    open: Vec<Connection>,
    scheduler: Scheduler,
    idle: Duration,
    served: Served,
}

/// The result of a reader.
pub(crate) struct Served {
    pub(crate) seen: Vec<Seen>,
    pub(crate) resets: u64,
    /// Connections that ended without an eviction.
    pub(crate) lost: usize,
    /// The longest time from the start of one round to the start of the next.
    pub(crate) slowest_round: Duration,
}

impl Reader {
    pub(crate) fn new(open: Vec<Connection>, scheduler: Scheduler, idle: Duration) -> Reader {
        let seen = Vec::with_capacity(open.len());
        let served = Served { seen, resets: 0, lost: 0, slowest_round: Duration::ZERO };
        Reader { open, scheduler, idle, served }
    }

    /// Reads until `stop` is set. Adds the number of heartbeats to `heartbeats`.
    pub(crate) fn run(
        mut self,
        started: Instant,
        stop: &AtomicBool,
        heartbeats: &AtomicU64,
    ) -> Served {
        let mut round = started;
        while !stop.load(Ordering::Relaxed) {
            round = self.note_round(round);
            heartbeats.fetch_add(self.go_round(), Ordering::Relaxed);
            thread::sleep(REST);
        }
        self.note_round(round);
        self.served.seen.extend(self.open.into_iter().map(|connection| connection.seen));
        self.served
    }

    /// Notes that a round begins, after the one that began at `before`. Returns the present.
    fn note_round(&mut self, before: Instant) -> Instant {
        let now = Instant::now();
        self.served.slowest_round = self.served.slowest_round.max(now - before);
        now
    }

    /// Reads every connection once. Returns how many heartbeats had come.
    fn go_round(&mut self) -> u64 {
        let Reader { open, scheduler, idle, served } = self;
        let mut heartbeats = 0;
        let ended = open.extract_if(.., |connection| match drain(&connection.socket) {
            Ok(0) => false,
            Ok(read) => {
                heartbeats += read;
                served.resets += u64::from(connection.push_back(scheduler, *idle));
                false
            }
            Err(_) => true,
        });
        for connection in ended {
            // A connection that ends by itself cancels its timer.
            served.lost += usize::from(scheduler.cancel(connection.timer));
            served.seen.push(connection.seen);
        }
        heartbeats
    }
}

/// Returns how many bytes have come, each of which is a heartbeat, or an error if the connection
/// has ended.
fn drain(mut socket: &TcpStream) -> io::Result<u64> {
    let mut buffer = [0; 64];
    let mut bytes = 0;
    loop {
        match socket.read(&mut buffer) {
            Ok(0) => return Err(ErrorKind::UnexpectedEof.into()),
            Ok(read) => bytes += read as u64,
            Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(bytes),
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
}
