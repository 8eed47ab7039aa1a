//! A UDP server that evicts silent clients: each client has a timer, and each heartbeat pushes it back.
//!
//! ```sh
//! cargo run -p heartbeats             # ten thousand clients, about 7 seconds
//! cargo run -p heartbeats -- --short  # five hundred clients, about 2 seconds
//! ```
//!
//! Every tenth client falls silent after two to four heartbeats. The program prints a line for each interval: the
//! heartbeats that came, the timers that wait, and the clients that were evicted. It ends when all silent clients
//! were evicted, and says how late that was. `Server` is the part to copy.
//!
//! What to know before this is copied:
//!
//! - **`reset` decides between a heartbeat and the eviction.** After `true` the job does not run before
//!   the new time. After `false` it has started, and the heartbeat begins a new timer.
//! - **The job runs on a thread of the pool.** Here it sends the number of the client to the owner of
//!   the clients. A client may come back meanwhile: the owner asks `Keyed::contains` before it forgets
//!   one. On TCP the job calls `TcpStream::shutdown`, which ends the read on another thread.
//! - **UDP loses datagrams, and a machine may stall.** So a client is silent after three intervals, and
//!   not after one.

#![forbid(unsafe_code)]
#![allow(clippy::disallowed_methods, reason = "clients take their time")]

use std::error::Error;
use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::time::{Duration, Instant};
use std::{env, io, thread};

use tickwheel::{InsertErrorKind, Keyed, Wheel};

type Result<T, E = Box<dyn Error + Send + Sync>> = std::result::Result<T, E>;

struct Server {
    socket: UdpSocket,
    /// How long a client may be silent.
    idle: Duration,
    /// A timer for each client, by the number of the client.
    timers: Keyed<u32>,
    /// Receives the number of each client that is evicted.
    evicted: Sender<u32>,
}

impl Server {
    /// Reads heartbeats: datagrams with the number of a client.
    fn serve(&self) -> Result<()> {
        let mut datagram = [0; 4];
        loop {
            if self.socket.recv(&mut datagram)? == datagram.len() {
                self.heartbeat(u32::from_be_bytes(datagram))?;
            }
        }
    }

    fn heartbeat(&self, client: u32) -> Result<(), InsertErrorKind> {
        if self.timers.reset(&client, self.idle) {
            return Ok(());
        }
        // The first heartbeat of a client, or the first one after its eviction.
        let evicted = self.evicted.clone();
        let evict = move || {
            // An error means that the owner of the clients has ended.
            let _ = evicted.send(client);
        };
        self.timers.insert(client, self.idle, evict).map(drop).map_err(|refused| refused.kind())
    }
}

/// One client in this number falls silent.
const SILENT_SHARE: u32 = 10;
/// The number of clients that send together. The socket's buffer holds a few hundred datagrams.
const BURST: u32 = 50;
/// Longer than anything here takes on a loaded machine.
const LONG: Duration = Duration::from_secs(60);

fn falls_silent(client: u32) -> bool {
    client.is_multiple_of(SILENT_SHARE)
}

/// Sends the heartbeats of all clients, spread over the interval, until the program ends.
fn send_heartbeats(server: SocketAddr, clients: u32, interval: Duration) -> io::Result<()> {
    let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0))?;
    let began = Instant::now();
    for round in 0.. {
        for client in 0..clients {
            let last_round = 1 + client / SILENT_SHARE % 3;
            if !falls_silent(client) || round <= last_round {
                socket.send_to(&client.to_be_bytes(), server)?;
            }
            if client % BURST == 0 {
                let next = began + interval * round + interval * client / clients;
                thread::sleep(next.saturating_duration_since(Instant::now()));
            }
        }
    }
    Ok(())
}

/// Prints a line of the table.
fn report(wheel: &Wheel, after: Duration, evicted: u32) {
    let stats = wheel.stats();
    // Each heartbeat has inserted a timer, or pushed one back.
    let heartbeats = stats.inserted + stats.resets;
    println!("{after:>7.1?} {heartbeats:>12} {:>13} {evicted:>9}", wheel.len());
}

fn main() -> Result<()> {
    let (clients, interval) = match env::args().nth(1).as_deref() {
        None => (10_000, Duration::from_secs(1)),
        Some("--short") => (500, Duration::from_millis(200)),
        Some(_) => return Err("usage: heartbeats [--short]".into()),
    };
    let idle = interval * 3;
    let fall_silent = clients / SILENT_SHARE;
    println!(
        "{clients} clients, each with a timer of {idle:?}, which every heartbeat pushes back."
    );
    println!(
        "Each client sends a heartbeat every {interval:?}; {fall_silent} of them fall silent.\n"
    );

    let wheel = Wheel::new();
    let (evicted, evictions) = mpsc::channel();
    let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0))?;
    let address = socket.local_addr()?;
    let server = Server { socket, idle, timers: Keyed::new(&wheel), evicted };
    let began = Instant::now();
    thread::spawn(move || server.serve());
    thread::spawn(move || send_heartbeats(address, clients, interval));

    println!("{:>7} {:>12} {:>13} {:>9}", "after", "heartbeats", "timers wait", "evicted");
    let (mut silent, mut live, mut lines) = (0, 0, 0);
    while silent < fall_silent {
        let next_line = began + interval * (lines + 1);
        match evictions.recv_timeout(next_line.saturating_duration_since(Instant::now())) {
            Ok(client) if falls_silent(client) => silent += 1,
            Ok(_) => live += 1, // its heartbeats were lost, or the machine stalled
            Err(RecvTimeoutError::Timeout) if began.elapsed() < LONG => {
                lines += 1;
                report(&wheel, interval * lines, silent + live);
            }
            Err(error) => return Err(error.into()),
        }
    }
    report(&wheel, began.elapsed(), silent + live);
    println!("\nEvicted: {silent} silent clients, {live} others. How late they were:");
    let stats = wheel.stats();
    for (what, late) in [("due to pool", &stats.handover), ("pool to start", &stats.start)] {
        println!("{what:<14} p50 {:.1?}, p99 {:.1?}, max {:.1?}", late.p50, late.p99, late.max);
    }
    Ok(())
}
