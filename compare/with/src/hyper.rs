//! hyper: a server that gives a client ten seconds for the head of its request, so that one which
//! dribbles does not hold a connection for ever. The feature `hyper` has the timer.
//!
//! A request costs a reset, in the box of the request before.

use std::convert::Infallible;
use std::time::Duration;

use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::TokioIo;
use tickwheel::HyperTimer;
use tokio::net::TcpStream;

/// Serves one connection.
pub async fn serve(stream: TcpStream, timer: HyperTimer, limit: Duration) -> hyper::Result<()> {
    let answer = service_fn(|request: Request<Incoming>| async move {
        Ok::<_, Infallible>(Response::new(request.uri().path().to_owned()))
    });
    http1::Builder::new()
        .timer(timer)
        .header_read_timeout(limit)
        .serve_connection(TokioIo::new(stream), answer)
        .await
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Instant;
    use tickwheel::Wheel;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::TcpListener;

    #[test]
    fn a_client_that_dribbles_is_cut_off_and_others_are_not() {
        let wheel = Wheel::new();
        let timer = HyperTimer::new(&wheel);
        let limit = Duration::from_millis(500);
        // Without `enable_time`: no timer of tokio is used.
        let runtime = ::tokio::runtime::Builder::new_current_thread().enable_io().build().unwrap();
        runtime.block_on(async {
            let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
            let address = listener.local_addr().unwrap();
            let connect = async || {
                let client = TcpStream::connect(address).await.unwrap();
                let (stream, _) = listener.accept().await.unwrap();
                (client, ::tokio::spawn(serve(stream, timer.clone(), limit)))
            };
            let (mut slow, slow_server) = connect().await;
            let (mut quick, quick_server) = connect().await;
            let begin = Instant::now();
            slow.write_all(b"GET /slow HTTP/1.1\r\nHost: ").await.unwrap();
            // Several requests on one connection: the timer is reset for each.
            for _ in 0..12 {
                quick.write_all(b"GET /quick HTTP/1.1\r\nHost: localhost\r\n\r\n").await.unwrap();
                let mut buffer = [0; 1024];
                let read = quick.read(&mut buffer).await.unwrap();
                let answer = String::from_utf8_lossy(&buffer[..read]);
                assert!(
                    answer.starts_with("HTTP/1.1 200") && answer.ends_with("/quick"),
                    "{answer}"
                );
                wheel.sleep(limit / 10).await;
            }
            let mut rest = Vec::new();
            slow.read_to_end(&mut rest).await.unwrap();
            assert!(begin.elapsed() >= limit);
            assert!(slow_server.await.unwrap().unwrap_err().is_timeout());
            drop(quick);
            let _ = quick_server.await.unwrap();
        });
        assert_eq!(wheel.stats().sleeping, 0);
    }
}
