//! Where a child's jobs are: on a server.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use tickwheel_jobs::{Builder, Jobs, OpenError, StoreError};

use crate::deaths::child::{now_us, report};
use crate::deaths::place::Place;
use crate::deaths::record::{LEASE_MS, Record};
use crate::server::pause;

/// The way to the server stood still if it took longer. A lease is renewed three times as often.
const STALL_US: u64 = LEASE_MS * 1000 / 6;
/// How long a child waits for a server that starts again, or is slow on a busy machine.
const PATIENCE: Duration = Duration::from_secs(10);

/// A server, by its URL.
pub(crate) struct OnServer;

impl Place for OnServer {
    /// A start makes one attempt, and each answer has an eighth of the lease.
    fn start(make: impl Fn() -> Result<Builder, OpenError>) -> Result<Jobs, OpenError> {
        patiently(|| make().and_then(Builder::start))
    }

    /// Reports whenever this process, or the way from it to the server and back, stands still: a machine that has
    /// other things to do explains a lease that is lost.
    fn watch(path: &Path) {
        let url = path.to_str().unwrap_or_default();
        let address =
            url.trim_end_matches('/').rsplit(['/', '@']).next().unwrap_or_default().to_owned();
        thread::spawn(move || {
            let (mut stream, mut answered) = (None, now_us());
            loop {
                let mut answer = [0; 64];
                let connected = stream.take().map_or_else(|| TcpStream::connect(&address), Ok);
                stream = connected.ok().and_then(|mut stream| {
                    let limit = Some(Duration::from_millis(LEASE_MS));
                    stream.set_read_timeout(limit).ok()?;
                    stream.write_all(b"PING\r\n").ok()?;
                    stream.read(&mut answer).ok().filter(|bytes| *bytes > 0)?;
                    Some(stream)
                });
                let (from, to) = (answered, now_us());
                if to - from > STALL_US {
                    report(&Record::Stalled { from, to });
                }
                answered = to;
                pause(Duration::from_millis(20));
            }
        });
    }

    fn open(path: &Path) -> Result<Builder, OpenError> {
        let url = path.to_str().unwrap_or_default();
        Ok(patiently(|| Jobs::redis(url))?.lease(Duration::from_millis(LEASE_MS)))
    }
}

/// Makes attempts until one is answered.
fn patiently<T>(attempt: impl Fn() -> Result<T, OpenError>) -> Result<T, OpenError> {
    let begun = Instant::now();
    loop {
        match attempt() {
            Err(
                OpenError::Server { .. }
                | OpenError::Store(StoreError::Io(_) | StoreError::Other(_)),
            ) if begun.elapsed() < PATIENCE => pause(Duration::from_millis(20)),
            answered => return answered,
        }
    }
}
