//! tokio: nothing has to be fitted, and the runtime needs no `enable_time`. This is a connection
//! with a heartbeat, and with one idle timer that every packet puts off.
//!
//! A packet costs a reset to later: one reading of the clock, one lock and one store, from any
//! worker. `reset_at` with a reading that the program has already saves the first.

use std::io;
use std::time::Duration;

use tickwheel::{Repeat, Scheduler};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

/// Sends a dot once a `period`, until the peer has been silent for `idle`. Returns the bytes that
/// came.
pub async fn heartbeat(
    mut stream: TcpStream,
    scheduler: Scheduler,
    period: Duration,
    idle: Duration,
) -> io::Result<usize> {
    let mut beats = scheduler.interval(Repeat::every(period)).map_err(io::Error::other)?;
    // Neither is pinned or boxed, and neither loses anything when another branch wins.
    let mut silent = scheduler.sleep(idle);
    let (mut buffer, mut received) = ([0; 1024], 0);
    loop {
        tokio::select! {
            read = stream.read(&mut buffer) => match read? {
                0 => return Ok(received),
                read => {
                    received += read;
                    silent.reset(idle);
                }
            },
            beat = beats.tick() => match beat {
                Some(_) => stream.write_all(b".").await?,
                None => return Err(io::Error::other("the wheel has ended")),
            },
            () = &mut silent => return Ok(received),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Instant;
    use tickwheel::Wheel;
    use tokio::net::TcpListener;

    #[test]
    fn a_connection_beats_until_its_peer_is_silent() {
        let wheel = Wheel::new();
        let (period, idle) = (Duration::from_millis(40), Duration::from_millis(500));
        let runtime = ::tokio::runtime::Builder::new_multi_thread();
        let runtime = { runtime }.worker_threads(2).enable_io().build().unwrap();
        runtime.block_on(async {
            let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
            let address = listener.local_addr().unwrap();
            let mut peer = TcpStream::connect(address).await.unwrap();
            let (stream, _) = listener.accept().await.unwrap();
            let serves = ::tokio::spawn(heartbeat(stream, wheel.scheduler(), period, idle));
            // Answers the first fifteen beats, which are longer than one silence, and no more.
            for _ in 0..15 {
                assert_eq!(peer.read_u8().await.unwrap(), b'.');
                peer.write_all(b"ok").await.unwrap();
            }
            let begin = Instant::now();
            let mut rest = Vec::new();
            peer.read_to_end(&mut rest).await.unwrap();
            assert!(begin.elapsed() >= idle - period && !rest.is_empty());
            assert_eq!(serves.await.unwrap().unwrap(), 30);
        });
        assert_eq!(wheel.stats().sleeping, 0);
    }
}
