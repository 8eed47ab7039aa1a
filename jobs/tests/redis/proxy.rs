//! A proxy between a client and its server: it cuts, it stalls, and it drops replies.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, Shutdown, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use crate::server::pause;

/// Forwards from a port of its own to a server's.
pub(crate) struct Proxy {
    pub(crate) port: u16,
    state: Arc<State>,
}

#[derive(Default)]
struct State {
    ended: AtomicBool,
    /// Requests with these bytes are forwarded, and the connection is cut instead of the reply.
    swallow: Mutex<Vec<u8>>,
    /// How many of them.
    left: AtomicI64,
    swallowed: AtomicU64,
    /// Nothing is forwarded, and nothing is cut.
    stalled: AtomicBool,
    /// New connections are closed at once, and old ones at their next byte.
    cut: AtomicBool,
    /// How many requests were forwarded.
    requests: AtomicU64,
}

impl Proxy {
    pub(crate) fn to(port: u16) -> Proxy {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let own = listener.local_addr().unwrap().port();
        let state = Arc::new(State::default());
        let shared = Arc::clone(&state);
        thread::spawn(move || {
            for client in listener.incoming() {
                if shared.ended.load(Ordering::Acquire) {
                    return;
                }
                let Ok(client) = client else { continue };
                let state = Arc::clone(&shared);
                thread::spawn(move || serve(&client, port, &state));
            }
        });
        Proxy { port: own, state }
    }

    pub(crate) fn url(&self) -> String {
        format!("redis://127.0.0.1:{}/", self.port)
    }

    /// Drops the replies to the next requests that contain this.
    pub(crate) fn swallow(&self, text: &[u8], times: i64) {
        *self.state.swallow.lock().unwrap() = text.to_vec();
        self.state.left.store(times, Ordering::Release);
    }

    pub(crate) fn swallowed(&self) -> u64 {
        self.state.swallowed.load(Ordering::Acquire)
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
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.state.ended.store(true, Ordering::Release);
        let _ = TcpStream::connect((Ipv4Addr::LOCALHOST, self.port));
    }
}

fn serve(client: &TcpStream, port: u16, state: &Arc<State>) {
    let Ok(server) = TcpStream::connect((Ipv4Addr::LOCALHOST, port)) else { return };
    let _ = (client.set_nodelay(true), server.set_nodelay(true));
    let (from, to) = (server.try_clone().unwrap(), client.try_clone().unwrap());
    let dropped = Arc::new(AtomicBool::new(false));
    let (state_back, dropped_back) = (Arc::clone(state), Arc::clone(&dropped));
    let back = thread::spawn(move || {
        copy(&from, &to, &state_back, |_| !dropped_back.load(Ordering::Acquire));
        let _ = to.shutdown(Shutdown::Both);
    });
    copy(client, &server, state, |request| {
        state.requests.fetch_add(1, Ordering::AcqRel);
        let wanted = state.swallow.lock().unwrap().clone();
        let hit = !wanted.is_empty() && request.windows(wanted.len()).any(|part| part == wanted);
        if hit && state.left.fetch_sub(1, Ordering::AcqRel) > 0 {
            dropped.store(true, Ordering::Release);
            state.swallowed.fetch_add(1, Ordering::AcqRel);
        }
        true
    });
    let _ = server.shutdown(Shutdown::Both);
    let _ = back.join();
    let _ = client.shutdown(Shutdown::Both);
}

/// Copies until an end closes, or `forwards` says that something is not to arrive.
fn copy(from: &TcpStream, to: &TcpStream, state: &State, forwards: impl Fn(&[u8]) -> bool) {
    let (mut from, mut to) = (from, to);
    let mut buffer = vec![0; 1 << 16];
    while let Ok(many) = from.read(&mut buffer) {
        while state.stalled.load(Ordering::Acquire) && !state.ended.load(Ordering::Acquire) {
            pause(Duration::from_millis(5));
        }
        let over = many == 0 || state.cut.load(Ordering::Acquire);
        if over || !forwards(&buffer[..many]) || to.write_all(&buffer[..many]).is_err() {
            return;
        }
    }
}
