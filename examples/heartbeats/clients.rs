//! The clients: each sends one byte an interval, until it falls silent. A silent client keeps its
//! socket open, as a client does whose machine has hung.

use std::io::Write;
use std::net::TcpStream;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

/// The sleep between rounds. Heartbeats that come due meanwhile are sent together.
const REST: Duration = Duration::from_millis(2);

pub(crate) struct Client {
    id: usize,
    socket: TcpStream,
    /// When to fall silent.
    silence: Option<Instant>,
    /// The client has fallen silent, or has been evicted.
    ended: bool,
    last: Instant,
    longest_gap: Duration,
}

/// The result of a client.
pub(crate) struct Sent {
    pub(crate) id: usize,
    /// The longest time for which it did not send although it should have.
    pub(crate) longest_gap: Duration,
}

impl Client {
    /// Returns a client that counts as having sent at `started`.
    pub(crate) fn new(
        id: usize,
        socket: TcpStream,
        silence: Option<Instant>,
        started: Instant,
    ) -> Client {
        Client { id, socket, silence, ended: false, last: started, longest_gap: Duration::ZERO }
    }

    fn beat(&mut self, now: Instant) {
        if self.ended {
            return;
        }
        let silent = self.silence.is_some_and(|silence| silence <= now);
        self.ended = silent || self.socket.write_all(&[0]).is_err();
        self.note_gap();
        self.last = now;
    }

    /// The gap counts from before the last write to after this one, because the exact time of a
    /// write is not known.
    fn note_gap(&mut self) {
        self.longest_gap = self.longest_gap.max(self.last.elapsed());
    }

    fn leave(mut self) -> Sent {
        if !self.ended {
            self.note_gap();
        }
        Sent { id: self.id, longest_gap: self.longest_gap }
    }
}

/// Sends heartbeats for these clients, spread over the interval, until `stop` is set. There is at
/// least one client.
pub(crate) fn run(
    mut clients: Vec<Client>,
    started: Instant,
    interval: Duration,
    stop: &AtomicBool,
) -> Vec<Sent> {
    let count = clients.len() as u32;
    let pace = interval / count;
    let mut beats = 0;
    while !stop.load(Ordering::Relaxed) {
        let (round, turn) = (beats / count, beats % count);
        let now = Instant::now();
        if now < started + interval * round + pace * turn {
            thread::sleep(REST);
            continue;
        }
        clients[turn as usize].beat(now);
        beats += 1;
    }
    clients.into_iter().map(Client::leave).collect()
}
