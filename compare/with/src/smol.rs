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
    use smol::future::{or, pending, poll_fn};
    use smol::net::TcpListener;
    use std::pin::Pin;
    use std::sync::{Arc, Mutex};
    use std::task::Poll;
    use std::time::Instant;
    use tickwheel::{Repeat, Wheel};

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

    /// One of everything that waits.
    async fn life(scheduler: Scheduler, delay: Duration) {
        let begin = Instant::now();
        scheduler.sleep(delay).await;
        assert!(begin.elapsed() >= delay);
        assert!(scheduler.timeout(delay, pending::<()>()).await.is_err());
        assert_eq!(scheduler.timeout(100 * delay, async { 7 }).await, Ok(7));
        let mut beats = scheduler.interval(Repeat::every(delay)).unwrap();
        let mut far = scheduler.sleep(Duration::MAX);
        for _ in 0..3 {
            let beat = or(async { beats.tick().await.is_some() }, async {
                (&mut far).await;
                false
            });
            assert!(beat.await);
        }
        assert!(begin.elapsed() >= 5 * delay);
    }

    /// Without and with smol as the driver of the wheel.
    #[test]
    fn tasks_of_three_threads_wait_on_one_wheel() {
        three_threads(false);
        three_threads(true);
    }

    fn three_threads(drives: bool) {
        let wheel = Wheel::new();
        let executor = smol::Executor::new();
        let driver = drives.then(|| executor.spawn(wheel.drive(smol::Timer::at)));
        let (stop, stopped) = smol::channel::bounded::<()>(1);
        let tasks: Vec<_> = (1..=300)
            .map(|n| executor.spawn(life(wheel.scheduler(), Duration::from_micros(n * 50))))
            .collect();
        std::thread::scope(|scope| {
            for _ in 0..3 {
                scope.spawn(|| smol::block_on(executor.run(stopped.recv())));
            }
            smol::block_on(async {
                for task in tasks {
                    task.await;
                }
                drop(driver);
                wheel.sleep(Duration::from_millis(5)).await;
            });
            drop(stop);
        });
        assert_eq!(wheel.stats().sleeping, 0);
    }

    #[test]
    fn an_executor_that_is_gone_is_not_missed() {
        let (wheel, driver) = Wheel::builder().manual().unwrap();
        let minute = Duration::from_secs(60);
        let executor = smol::Executor::new();
        // A task polls a sleep that outlives it, and then waits for one of its own.
        let sleep = Arc::new(Mutex::new(wheel.sleep(minute)));
        let (shared, scheduler) = (Arc::clone(&sleep), wheel.scheduler());
        let task = executor.spawn(async move {
            poll_fn(|cx| {
                assert!(Pin::new(&mut *shared.lock().unwrap()).poll(cx).is_pending());
                Poll::Ready(())
            })
            .await;
            scheduler.sleep(minute).await;
        });
        assert!(executor.try_tick());
        assert_eq!(wheel.stats().sleeping, 2);
        drop((executor, task));
        assert_eq!(wheel.stats().sleeping, 1, "the task took its own along");
        driver.advance(minute);
        assert!(sleep.lock().unwrap().is_elapsed());
        assert_eq!((wheel.stats().sleeping, wheel.stats().panicked), (0, 0));
    }
}
