//! A proxy between clients and their server: it cuts, it resets, it stalls, and it delivers late.
//!
//! Ground rules:
//!
//! - A fate is planned for the next requests that contain some bytes: `swallow`, or `plan`.
//! - What is kept back is delivered when its connection goes on, also if the client is gone by then,
//!   as a network does that was cut in two.
//! - The target may change: connections that are made from then on go there.

use std::collections::VecDeque;
use std::io::{Read, Write};
use std::net::{Ipv4Addr, Shutdown, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU16, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use crate::server::{pause, wait_until};

/// Forwards from a port of its own to a server's.
pub(crate) struct Proxy {
    pub(crate) port: u16,
    state: Arc<State>,
}

/// What becomes of a request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Fate {
    /// Only a number of its bytes arrive, and its connection ends.
    CutRequest(usize, End),
    /// All of it arrives, only a number of bytes of the reply come back, and its connection ends.
    CutReply(usize, End),
    /// Its connection stands still before it, until `deliver_first` or `go_on`.
    Hold,
    /// It arrives, and is counted.
    Arrive,
    /// It arrives, and then the side to the server is closed for writing.
    CloseToServer,
    /// The side to the client is closed for writing, and then it arrives.
    CloseToClient,
}

/// How a connection ends.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum End {
    Close,
    /// What is under way is lost.
    Reset,
}

#[derive(Default)]
struct State {
    ended: AtomicBool,
    target: AtomicU16,
    /// Requests with these bytes meet the fates.
    wanted: Mutex<(Vec<u8>, VecDeque<Fate>)>,
    /// How many did.
    met: AtomicU64,
    /// Nothing is forwarded, and nothing is cut.
    stalled: AtomicBool,
    /// New connections are closed at once, and old ones at their next byte.
    cut: AtomicBool,
    /// Messages of channels are dropped.
    deaf: AtomicBool,
    /// How many requests were forwarded.
    requests: AtomicU64,
    connections: Mutex<Vec<Arc<Connection>>>,
}

/// A connection of a client, and the one to the server that belongs to it.
struct Connection {
    client: TcpStream,
    server: TcpStream,
    held: AtomicBool,
    /// It goes on although all others stand still.
    freed: AtomicBool,
    /// How many requests were forwarded that had been held.
    delivered: AtomicU64,
    /// How many bytes may come back.
    allowed: AtomicI64,
    /// It is reset when that is over.
    then_resets: AtomicBool,
    is_reset: AtomicBool,
    listens: AtomicBool,
}

impl Proxy {
    pub(crate) fn to(port: u16) -> Proxy {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let own = listener.local_addr().unwrap().port();
        let state = Arc::new(State { target: AtomicU16::new(port), ..State::default() });
        let shared = Arc::clone(&state);
        thread::spawn(move || {
            for client in listener.incoming() {
                if shared.ended.load(Ordering::Acquire) {
                    return;
                }
                let Ok(client) = client else { continue };
                let state = Arc::clone(&shared);
                thread::spawn(move || serve(client, &state));
            }
        });
        Proxy { port: own, state }
    }

    pub(crate) fn url(&self) -> String {
        format!("redis://127.0.0.1:{}/", self.port)
    }

    /// Drops the replies to the next requests that contain this.
    pub(crate) fn swallow(&self, text: &[u8], times: usize) {
        self.plan(text, &vec![Fate::CutReply(0, End::Close); times]);
    }

    /// The next requests that contain this meet these fates, instead of those that were planned
    /// before.
    pub(crate) fn plan(&self, text: &[u8], fates: &[Fate]) {
        *self.state.wanted.lock().unwrap() = (text.to_vec(), fates.iter().copied().collect());
    }

    /// Returns how many requests have met the fate that was planned.
    pub(crate) fn met(&self) -> u64 {
        self.state.met.load(Ordering::Acquire)
    }

    pub(crate) fn requests(&self) -> u64 {
        self.state.requests.load(Ordering::Acquire)
    }

    pub(crate) fn stall(&self, stalled: bool) {
        self.state.stalled.store(stalled, Ordering::Release);
    }

    pub(crate) fn cut(&self, cut: bool) {
        self.state.cut.store(cut, Ordering::Release);
    }

    /// Drops the messages of channels, or forwards them again.
    pub(crate) fn deafen(&self, deaf: bool) {
        self.state.deaf.store(deaf, Ordering::Release);
    }

    /// New connections go to this port.
    pub(crate) fn retarget(&self, port: u16) {
        self.state.target.store(port, Ordering::Release);
    }

    /// The connections that there are stand still. New ones do not.
    pub(crate) fn hold_all(&self) {
        for connection in &*self.state.connections.lock().unwrap() {
            connection.held.store(true, Ordering::Release);
        }
    }

    /// The connection that was held first goes on, and all others as they did. Returns when what it
    /// kept back is with the server.
    pub(crate) fn deliver_first(&self) {
        let list = self.state.connections.lock().unwrap().clone();
        let is_held = |connection: &&Arc<Connection>| connection.held.load(Ordering::Acquire);
        list.iter().find(is_held).expect("no connection is held").deliver();
    }

    /// Every connection goes on that was held by [`Fate::Hold`]. Returns when what they kept back is with
    /// the server.
    pub(crate) fn deliver_all(&self) {
        let list = self.state.connections.lock().unwrap().clone();
        let held = list.iter().filter(|connection| connection.held.load(Ordering::Acquire));
        held.for_each(|connection| connection.deliver());
    }

    /// All connections go on that were held.
    pub(crate) fn go_on(&self) {
        for connection in &*self.state.connections.lock().unwrap() {
            connection.held.store(false, Ordering::Release);
        }
    }

    /// Ends every connection that there is.
    pub(crate) fn end_all(&self, how: End) {
        for connection in &*self.state.connections.lock().unwrap() {
            connection.end(how);
        }
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.state.ended.store(true, Ordering::Release);
        let _ = TcpStream::connect((Ipv4Addr::LOCALHOST, self.port));
        self.end_all(End::Close);
    }
}

impl Connection {
    /// Ends both ways. Both threads notice, and leave.
    fn end(&self, how: End) {
        if how == End::Reset && !self.is_reset.swap(true, Ordering::AcqRel) {
            let _ = (linger_not(&self.client), linger_not(&self.server));
        }
        // The last close of a socket resets the connection. This call only wakes its readers.
        let which = match self.is_reset.load(Ordering::Acquire) {
            true => Shutdown::Read,
            false => Shutdown::Both,
        };
        let _ = (self.client.shutdown(which), self.server.shutdown(which));
    }

    /// Goes on, and returns when what it kept back is with the server.
    fn deliver(&self) {
        self.freed.store(true, Ordering::Release);
        wait_until("what was held is delivered", || self.delivered.load(Ordering::Acquire) > 0);
    }

    fn waits(&self, state: &State) -> bool {
        let stands = state.stalled.load(Ordering::Acquire) || self.held.load(Ordering::Acquire);
        let goes = self.freed.load(Ordering::Acquire) || state.ended.load(Ordering::Acquire);
        stands && !goes
    }
}

/// A socket that is closed resets its connection.
#[cfg(unix)]
fn linger_not(stream: &TcpStream) -> nix::Result<()> {
    use nix::sys::socket::{setsockopt, sockopt};
    setsockopt(stream, sockopt::Linger, &nix::libc::linger { l_onoff: 1, l_linger: 0 })
}

#[cfg(not(unix))]
fn linger_not(_stream: &TcpStream) {}

fn serve(client: TcpStream, state: &Arc<State>) {
    let port = state.target.load(Ordering::Acquire);
    let Ok(server) = TcpStream::connect((Ipv4Addr::LOCALHOST, port)) else { return };
    let _ = (client.set_nodelay(true), server.set_nodelay(true));
    let connection = Arc::new(Connection {
        client,
        server,
        held: AtomicBool::default(),
        freed: AtomicBool::default(),
        delivered: AtomicU64::default(),
        allowed: AtomicI64::new(i64::MAX),
        then_resets: AtomicBool::default(),
        is_reset: AtomicBool::default(),
        listens: AtomicBool::default(),
    });
    state.connections.lock().unwrap().push(Arc::clone(&connection));
    let (back, back_state) = (Arc::clone(&connection), Arc::clone(state));
    let back = thread::spawn(move || replies(&back, &back_state));
    requests(&connection, state);
    connection.end(End::Close);
    let _ = back.join();
    state.connections.lock().unwrap().retain(|other| !Arc::ptr_eq(other, &connection));
}

/// Forwards what the client says.
fn requests(connection: &Connection, state: &State) {
    let (mut from, mut to) = (&connection.client, &connection.server);
    let mut buffer = vec![0; 1 << 16];
    while let Ok(many @ 1..) = from.read(&mut buffer) {
        let request = &buffer[..many];
        let has = |text: &[u8]| request.windows(text.len()).any(|part| part == text);
        if has(b"SUBSCRIBE") {
            connection.listens.store(true, Ordering::Release);
        }
        let mut wanted = state.wanted.lock().unwrap();
        let hit = !wanted.1.is_empty() && has(&wanted.0);
        let fate = if hit { wanted.1.pop_front() } else { None };
        drop(wanted);
        state.met.fetch_add(u64::from(hit), Ordering::AcqRel);
        if fate == Some(Fate::Hold) {
            connection.held.store(true, Ordering::Release);
        }
        let was_held = connection.waits(state);
        while connection.waits(state) {
            pause(Duration::from_millis(5));
        }
        if state.cut.load(Ordering::Acquire) {
            return;
        }
        let arrives = match fate {
            Some(Fate::CutRequest(bytes, _)) => &request[..bytes.min(many)],
            _ => request,
        };
        match fate {
            Some(Fate::CutReply(bytes, how)) => {
                connection.allowed.store(i64::try_from(bytes).unwrap(), Ordering::Release);
                connection.then_resets.store(how == End::Reset, Ordering::Release);
            }
            Some(Fate::CloseToClient) => drop(connection.client.shutdown(Shutdown::Write)),
            _ => {}
        }
        if to.write_all(arrives).is_err() {
            return;
        }
        state.requests.fetch_add(1, Ordering::AcqRel);
        connection.delivered.fetch_add(u64::from(was_held), Ordering::AcqRel);
        match fate {
            Some(Fate::CutRequest(_, how)) => return connection.end(how),
            Some(Fate::CloseToServer) => drop(connection.server.shutdown(Shutdown::Write)),
            _ => {}
        }
    }
}

/// Forwards what the server says.
fn replies(connection: &Connection, state: &State) {
    let (mut from, mut to) = (&connection.server, &connection.client);
    let mut buffer = vec![0; 1 << 16];
    while let Ok(many @ 1..) = from.read(&mut buffer) {
        while connection.waits(state) {
            pause(Duration::from_millis(5));
        }
        if state.cut.load(Ordering::Acquire) {
            break;
        }
        let reply = &buffer[..many];
        let is_message = reply.windows(7).any(|part| part == b"message");
        if is_message && connection.listens.load(Ordering::Acquire) && is_deaf(state) {
            continue;
        }
        let allowed = connection.allowed.fetch_sub(many as i64, Ordering::AcqRel).max(0);
        let arrives = &reply[..many.min(allowed as usize)];
        if to.write_all(arrives).is_err() {
            break;
        }
        if arrives.len() < many {
            let resets = connection.then_resets.load(Ordering::Acquire);
            return connection.end(if resets { End::Reset } else { End::Close });
        }
    }
    connection.end(End::Close);
}

fn is_deaf(state: &State) -> bool {
    state.deaf.load(Ordering::Acquire)
}
