//! Where a child's jobs are: on a server.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use tickwheel_jobs::{Builder, Jobs, OpenError, StoreError};

use crate::child::{now_us, report};
use crate::record::{LEASE_MS, Record};
use crate::server::pause;

/// How long a child waits for a server that starts again, or is slow on a busy machine.
const PATIENCE: Duration = Duration::from_secs(10);

/// Starts the jobs of a child. A start makes one attempt, and each answer has an eighth of the lease.
pub(crate) fn start(make: impl Fn() -> Result<Builder, OpenError>) -> Result<Jobs, OpenError> {
    let begun = Instant::now();
    loop {
        match make().and_then(Builder::start) {
            Err(
                OpenError::Server { .. }
                | OpenError::Store(StoreError::Io(_) | StoreError::Other(_)),
            ) if begun.elapsed() < PATIENCE => {
                pause(Duration::from_millis(20));
            }
            started => return started,
        }
    }
}

/// The way to the server stood still if it took longer. A lease is renewed three times as often.
const STALL_US: u64 = LEASE_MS * 1000 / 6;

/// Reports whenever this process, or the way from it to the server and back, stands still: a machine that has
/// other things to do explains a lease that is lost.
pub(crate) fn watch(path: &Path) {
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

/// `path` is the URL.
pub(crate) fn open(path: &Path) -> Result<Builder, OpenError> {
    let url = path.to_str().unwrap_or_default();
    let begun = Instant::now();
    loop {
        match Jobs::redis(url) {
            Err(OpenError::Server { .. }) if begun.elapsed() < PATIENCE => {
                pause(Duration::from_millis(20));
            }
            opened => return Ok(opened?.lease(Duration::from_millis(LEASE_MS))),
        }
    }
}
