//! A TCP gateway on tokio, with the timers of a wheel: each line of a client goes to an upstream
//! service, and the answer comes back.
//!
//! ```sh
//! cargo run --release --features async --example gateway             # 127.0.0.1:7000, until Ctrl-C
//! cargo run --release --features async --example gateway -- --short  # one client, which sees every timer
//! ```
//!
//! A line comes back in capitals; the service never answers to `hang`.
//!
//! - **Idle**: a connection without a line for a minute is closed. Each answer begins the minute anew, so a
//!   connection is not idle while it waits for one. This is a sleep, which `reset` moves.
//! - **Ping**: an interval for each connection. A beat that comes during a request is sent after the
//!   answer.
//! - **Request**: `timeout` goes around any future. An answer that comes later is dropped.
//! - **A connection that ends** drops its timers, because its task owns them: also if it fails, or if its
//!   task is aborted.
//! - **The end**: no new connections, a `bye` to each that waits, three seconds for the requests
//!   under way, and an abort for the rest.
//!
//! Before you copy this:
//!
//! - The timers are futures (feature `async`), and no jobs: the ticker wakes the task, and the wheel
//!   needs no pool. The runtime needs no `enable_time`.
//! - When a line and the end of the minute come together, `select!` takes either.
//! - Parts of an async program take a `Scheduler`. A wheel that has ended leaves its sleeps pending for
//!   ever, so the wheel stays outside the runtime, and ends after it.
//! - The tests move the clock of the wheel: a minute passes at once, while tokio and the sockets
//!   are the real ones.

#![forbid(unsafe_code)]

use std::future::pending;
use std::net::SocketAddr;
use std::pin::pin;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use tickwheel::{Repeat, Scheduler, Wheel};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, TcpStream};
use tokio::runtime;
use tokio::sync::{Notify, watch};
use tokio::task::JoinSet;

type Error = Box<dyn std::error::Error + Send + Sync>;

const LIMITS: Limits = Limits {
    idle: Duration::from_secs(60),
    ping: Duration::from_secs(10),
    request: Duration::from_secs(5),
    end: Duration::from_secs(3),
};

fn main() -> ExitCode {
    let result = match std::env::args().nth(1).as_deref() {
        Some("--short") => one_client(),
        Some(_) => Err("usage: gateway [-- --short]".into()),
        None => until_ctrl_c(),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("gateway: {error}");
            ExitCode::FAILURE
        }
    }
}

fn until_ctrl_c() -> Result<(), Error> {
    let stop = Arc::new(Notify::new());
    let stopped = Arc::clone(&stop);
    ctrlc::set_handler(move || stop.notify_one())?;
    let wheel = Wheel::new();
    let gateway = Gateway { timers: wheel.scheduler(), limits: LIMITS };
    runtime::Builder::new_current_thread().enable_io().build()?.block_on(async {
        let listener = TcpListener::bind("127.0.0.1:7000").await?;
        println!("listens on {}", listener.local_addr()?);
        gateway.serve(listener, stopped.notified()).await
    })?;
    println!("{} timers are left", wheel.stats().sleeping);
    Ok(())
}

/// Runs a gateway with short limits, and a client that sees each of them pass.
fn one_client() -> Result<(), Error> {
    let ms = Duration::from_millis(1);
    let limits = Limits { idle: 400 * ms, ping: 150 * ms, request: 50 * ms, end: 50 * ms };
    let wheel = Wheel::new();
    let gateway = Gateway { timers: wheel.scheduler(), limits };
    runtime::Builder::new_current_thread().enable_io().build()?.block_on(async {
        let listener = TcpListener::bind(SocketAddr::from(([127, 0, 0, 1], 0))).await?;
        let address = listener.local_addr()?;
        let client = async {
            let mut client = BufReader::new(TcpStream::connect(address).await?);
            client.write_all(b"hello\nhang\n").await?;
            let mut heard = Vec::new();
            let mut lines = client.lines();
            while let Some(line) = lines.next_line().await? {
                println!("{line}");
                heard.push(line);
            }
            Ok::<_, Error>(heard)
        };
        let mut result = Ok(Vec::new());
        gateway.serve(listener, async { result = client.await }).await?;
        let heard = result?;
        for line in ["HELLO", "timeout", "ping"] {
            assert!(heard.iter().any(|heard| heard == line), "{line}");
        }
        assert_eq!(heard.last().map(String::as_str), Some("idle"));
        Ok::<(), Error>(())
    })?;
    assert_eq!(wheel.stats().sleeping, 0, "no timer is left");
    Ok(())
}

#[derive(Clone, Copy)]
struct Limits {
    /// How long a connection may be silent.
    idle: Duration,
    /// The period of the pings.
    ping: Duration,
    /// How long the upstream service may take.
    request: Duration,
    /// How long the gateway waits for its connections at its end.
    end: Duration,
}

#[derive(Clone)]
struct Gateway {
    timers: Scheduler,
    limits: Limits,
}

impl Gateway {
    /// Serves clients until `stop` is done, and ends their connections then.
    async fn serve(&self, listener: TcpListener, stop: impl Future) -> Result<(), Error> {
        let (end, ending) = watch::channel(());
        let mut connections = JoinSet::new();
        let mut stop = pin!(stop);
        loop {
            tokio::select! {
                client = listener.accept() => {
                    let (gateway, (client, address)) = (self.clone(), client?);
                    let ending = ending.clone();
                    connections.spawn(async move {
                        if let Err(error) = gateway.connection(client, ending).await {
                            eprintln!("{address}: {error}");
                        }
                    });
                }
                // Removes the connections that have ended.
                Some(_) = connections.join_next() => {}
                _ = &mut stop => break,
            }
        }
        end.send_replace(());
        let ended = async { while connections.join_next().await.is_some() {} };
        if self.timers.timeout(self.limits.end, ended).await.is_err() {
            connections.shutdown().await; // aborts them
        }
        Ok(())
    }

    async fn connection(
        &self,
        mut client: TcpStream,
        mut ending: watch::Receiver<()>,
    ) -> Result<(), Error> {
        let (Limits { idle, ping, request, .. }, timers) = (self.limits, &self.timers);
        let (reader, mut writer) = client.split();
        let mut lines = BufReader::new(reader).lines();
        let mut silent = timers.sleep(idle);
        let mut pings = timers.interval(Repeat::every(ping))?;
        loop {
            tokio::select! {
                line = lines.next_line() => {
                    let Some(line) = line? else { return Ok(()) };
                    let answer = timers.timeout(request, upstream(&line)).await;
                    let answer = answer.unwrap_or_else(|_elapsed| "timeout".to_owned());
                    writer.write_all(format!("{answer}\n").as_bytes()).await?;
                    silent.reset(idle);
                }
                Some(_) = pings.tick() => writer.write_all(b"ping\n").await?,
                () = &mut silent => return Ok(writer.write_all(b"idle\n").await?),
                _ = ending.changed() => return Ok(writer.write_all(b"bye\n").await?),
            }
        }
    }
}

/// Stands for the call of another service.
async fn upstream(line: &str) -> String {
    if line == "hang" { pending().await } else { line.to_uppercase() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tickwheel::Driver;
    use tokio::sync::oneshot;
    use tokio::task::{JoinHandle, yield_now};

    /// The timers of a connection that waits for its client.
    const WAITING: usize = 2;

    /// A gateway whose clock the test moves, and one client. All run on one thread.
    struct Trial {
        wheel: Wheel,
        driver: Driver,
        client: BufReader<TcpStream>,
        stop: oneshot::Sender<()>,
        gateway: JoinHandle<Result<(), Error>>,
    }

    impl Trial {
        /// Runs `test` on a gateway and a client that has got an answer.
        fn run<F: Future<Output = ()>>(test: impl FnOnce(Trial) -> F) {
            let runtime = runtime::Builder::new_current_thread().enable_io().build().unwrap();
            runtime.block_on(async {
                let (wheel, driver) = Wheel::builder().manual().unwrap();
                let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
                let client = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
                let gateway = Gateway { timers: wheel.scheduler(), limits: LIMITS };
                let (stop, stopped) = oneshot::channel::<()>();
                let gateway = tokio::spawn(async move { gateway.serve(listener, stopped).await });
                let client = BufReader::new(client);
                let mut trial = Trial { wheel, driver, client, stop, gateway };
                trial.say("hello").await;
                assert_eq!(trial.hear().await, "HELLO");
                trial.until_timers(WAITING).await;
                test(trial).await;
            });
        }

        async fn say(&mut self, line: &str) {
            self.client.write_all(format!("{line}\n").as_bytes()).await.unwrap();
        }

        /// Returns the next line, or nothing at the end.
        async fn hear(&mut self) -> String {
            let mut line = String::new();
            self.client.read_line(&mut line).await.unwrap();
            line.trim_end().to_owned()
        }

        async fn hear_pings(&mut self, count: usize) {
            for _ in 0..count {
                self.driver.advance(LIMITS.ping);
                assert_eq!(self.hear().await, "ping");
            }
        }

        /// Returns how many timers the wheel has.
        fn timers(&self) -> usize {
            self.wheel.stats().sleeping
        }

        /// Lets the gateway run until the wheel has `count` timers.
        async fn until_timers(&self, count: usize) {
            while self.timers() != count {
                yield_now().await;
            }
        }
    }

    #[test]
    fn a_line_puts_the_end_of_a_connection_off_and_a_ping_does_not() {
        Trial::run(async |mut trial| {
            trial.hear_pings(5).await;
            trial.say("still here").await;
            assert_eq!(trial.hear().await, "STILL HERE");
            trial.hear_pings(5).await;
            trial.driver.advance(LIMITS.ping);
            let mut last = [trial.hear().await, trial.hear().await];
            last.sort(); // the ping may come first, or may not come
            assert!(
                [["", "idle"], ["idle", "ping"]].contains(&last.each_ref().map(String::as_str))
            );
            trial.until_timers(0).await;
        });
    }

    #[test]
    fn a_request_times_out_and_the_connection_goes_on() {
        Trial::run(async |mut trial| {
            trial.say("hang").await;
            trial.until_timers(WAITING + 1).await;
            trial.driver.advance(LIMITS.request);
            assert_eq!(trial.hear().await, "timeout");
            trial.say("hello").await;
            assert_eq!(trial.hear().await, "HELLO");
            trial.until_timers(WAITING).await;
        });
    }

    #[test]
    fn a_client_that_leaves_takes_its_timers_along() {
        Trial::run(async |trial| {
            drop(trial.client);
            while trial.wheel.stats().sleeping > 0 {
                yield_now().await;
            }
        });
    }

    #[test]
    fn the_end_is_at_once_when_no_request_is_under_way() {
        Trial::run(async |mut trial| {
            trial.stop.send(()).unwrap();
            let mut rest = String::new();
            trial.client.read_line(&mut rest).await.unwrap();
            assert_eq!(rest, "bye\n");
            trial.gateway.await.unwrap().unwrap();
            assert_eq!(trial.wheel.stats().sleeping, 0);
        });
    }

    #[test]
    fn the_end_waits_for_a_request_and_aborts_it_at_its_limit() {
        Trial::run(async |mut trial| {
            trial.say("hang").await;
            trial.until_timers(WAITING + 1).await;
            trial.stop.send(()).unwrap();
            while trial.wheel.stats().sleeping < WAITING + 2 {
                yield_now().await;
            }
            trial.driver.advance(LIMITS.end - trial.wheel.tick());
            yield_now().await;
            assert!(!trial.gateway.is_finished());
            trial.driver.advance(trial.wheel.tick());
            trial.gateway.await.unwrap().unwrap();
            assert_eq!(trial.wheel.stats().sleeping, 0);
        });
    }
}
