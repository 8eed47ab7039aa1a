//! A UDP server that evicts silent clients: each client has a timer, and each heartbeat pushes it back.
//!
//! ```sh
//! cargo run --release --example heartbeats             # ten thousand clients, about 7 seconds
//! cargo run --release --example heartbeats -- --short  # five hundred clients, about 2 seconds
//! ```
//!
//! Every tenth client falls silent after two to four heartbeats. When the server has evicted all of
//! these, the program prints how many heartbeats came, who was evicted, and how late. `Server` is the part
//! to copy.
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
use std::sync::mpsc::{self, Sender};
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
    for round in 0.. {
        for client in 0..clients {
            let last_round = 1 + client / SILENT_SHARE % 3;
            if !falls_silent(client) || round <= last_round {
                socket.send_to(&client.to_be_bytes(), server)?;
            }
            if client % BURST == 0 {
                thread::sleep(interval * BURST / clients);
            }
        }
    }
    Ok(())
}

fn main() -> Result<()> {
    let (clients, interval) = match env::args().nth(1).as_deref() {
        None => (10_000, Duration::from_secs(1)),
        Some("--short") => (500, Duration::from_millis(200)),
        Some(_) => return Err("usage: heartbeats [--short]".into()),
    };
    let wheel = Wheel::new();
    let (evicted, evictions) = mpsc::channel();
    let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0))?;
    let address = socket.local_addr()?;
    let server = Server { socket, idle: interval * 3, timers: Keyed::new(&wheel), evicted };
    let began = Instant::now();
    thread::spawn(move || server.serve());
    thread::spawn(move || send_heartbeats(address, clients, interval));

    let (mut silent, mut live) = (0, 0);
    while silent < clients / SILENT_SHARE {
        match falls_silent(evictions.recv_timeout(LONG)?) {
            true => silent += 1,
            false => live += 1, // its heartbeats were lost, or the machine stalled
        }
    }
    let stats = wheel.stats();
    println!("{clients} clients, {} of them fell silent", clients / SILENT_SHARE);
    println!("evicted: {silent} silent clients, {live} others");
    println!("{} heartbeats in {:.1?}", stats.inserted + stats.resets, began.elapsed());
    for (what, late) in [("due to pool", &stats.handover), ("pool to start", &stats.start)] {
        println!("{what:<14} p50 {:.1?}, p99 {:.1?}, max {:.1?}", late.p50, late.p99, late.max);
    }
    Ok(())
}
