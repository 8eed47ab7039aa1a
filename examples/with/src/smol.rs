//! smol: nothing has to be fitted, since a wheel's futures run on every executor. This is a server
//! that closes a connection whose peer is silent for too long.
//!
//! A read costs one timeout: nothing if bytes are there already, else one reading of the clock and
//! two short locks.

use std::io;
use std::time::Duration;

use smol::io::{AsyncReadExt, AsyncWriteExt};
use smol::net::TcpStream;
use tickwheel::Scheduler;

/// Sends back what comes. Returns an error of the kind `TimedOut` when nothing has come for `limit`.
pub async fn echo(mut stream: TcpStream, scheduler: Scheduler, limit: Duration) -> io::Result<()> {
    let mut buffer = [0; 1024];
    loop {
        let read = scheduler.timeout(limit, stream.read(&mut buffer)).await??;
        if read == 0 {
            return Ok(());
        }
        stream.write_all(&buffer[..read]).await?;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use smol::net::TcpListener;
    use std::time::Instant;
    use tickwheel::Wheel;

    #[test]
    fn a_silent_connection_is_closed_and_a_busy_one_is_not() {
        let wheel = Wheel::new();
        let limit = Duration::from_millis(500);
        smol::block_on(async {
            let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
            let address = listener.local_addr().unwrap();
            let accept = async || listener.accept().await.unwrap().0;
            let serve = |stream| smol::spawn(echo(stream, wheel.scheduler(), limit));
            let mut silent = TcpStream::connect(address).await.unwrap();
            let (begin, silent_server) = (Instant::now(), serve(accept().await));
            let mut busy = TcpStream::connect(address).await.unwrap();
            let busy_server = serve(accept().await);
            for _ in 0..12 {
                busy.write_all(b"ping").await.unwrap();
                let mut pong = [0; 4];
                busy.read_exact(&mut pong).await.unwrap();
                assert_eq!(&pong, b"ping");
                wheel.sleep(limit / 10).await;
            }
            assert_eq!(silent.read(&mut [0; 1]).await.unwrap(), 0, "closed by the server");
            assert!(begin.elapsed() >= limit);
            assert_eq!(silent_server.await.unwrap_err().kind(), io::ErrorKind::TimedOut);
            drop(busy);
            busy_server.await.unwrap();
        });
        assert_eq!(wheel.stats().sleeping, 0);
    }
}
