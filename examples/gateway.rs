//! A TCP gateway on tokio, with its timers on a wheel: each line of a client goes to an upstream service, and
//! the answer comes back.
//!
//! ```sh
//! cargo run --release --features async --example gateway
//! ```
//!
//! The program is also two clients of the gateway, and prints the lines that come back: answers in capitals, a
//! `timeout` for the request `hang`, which the service never answers, and some `ping`. In the end one
//! client is silent for too long and gets `idle`, the other gets `bye`. `serve` and `connection` are the part to
//! copy.
//!
//! - **Idle**: a connection without a line for some time is closed. This is a sleep, which `reset` moves
//!   after each answer. When a line and the end of the sleep come together, `select!` takes either.
//! - **Ping**: an interval for each connection. A beat that comes during a request is sent after the
//!   answer.
//! - **Request**: `timeout` goes around any future. An answer that comes later is dropped.
//! - **A connection that ends** drops its timers, because its task owns them: also if it fails, or if its
//!   task is aborted.
//! - **The end**: no new connections, a `bye` to each that waits, some time for the requests under way,
//!   and an abort for the rest. In a program, `stop` is `tokio::signal::ctrl_c()`.
//!
//! What to know before this is copied:
//!
//! - **The timers are futures** (feature `async`) and not jobs: the ticker wakes the task, and the wheel
//!   needs no pool. The runtime needs no `enable_time`.
//! - **The wheel stays outside the runtime**, and ends after it: a wheel that has ended leaves its sleeps
//!   pending for ever. Parts of an async program take a `Scheduler`.
//! - **In a test the wheel is manual** (`Builder::manual`): a minute passes at once, while tokio and the
//!   sockets are real.

#![forbid(unsafe_code)]

use std::future::pending;
use std::net::SocketAddr;
use std::pin::pin;
use std::time::Duration;

use tickwheel::{Repeat, Scheduler, Wheel};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, TcpStream};
use tokio::runtime;
use tokio::sync::watch;
use tokio::task::JoinSet;

type Result<T, E = Box<dyn std::error::Error + Send + Sync>> = std::result::Result<T, E>;

// Short, so that the program is. Usual are a minute, ten seconds, five seconds, three seconds.
/// How long a connection may be silent.
const IDLE: Duration = Duration::from_millis(400);
/// The period of the pings.
const PING: Duration = Duration::from_millis(150);
/// How long the upstream service may take.
const REQUEST: Duration = Duration::from_millis(50);
/// How long the gateway waits for its connections at its end.
const END: Duration = Duration::from_millis(1000);

/// Serves clients until `stop` is done, and ends their connections then.
async fn serve(timers: &Scheduler, listener: TcpListener, stop: impl Future) -> Result<()> {
    let (end, ending) = watch::channel(());
    let mut connections = JoinSet::new();
    let mut stop = pin!(stop);
    loop {
        tokio::select! {
            client = listener.accept() => {
                let (client, _address) = client?;
                connections.spawn(connection(timers.clone(), client, ending.clone()));
            }
            Some(ended) = connections.join_next() => if let Ok(Err(error)) = ended {
                eprintln!("a connection failed: {error}");
            },
            _ = &mut stop => break,
        }
    }
    end.send_replace(());
    let ended = async { while connections.join_next().await.is_some() {} };
    if timers.timeout(END, ended).await.is_err() {
        connections.shutdown().await; // aborts them
    }
    Ok(())
}

async fn connection(
    timers: Scheduler,
    mut client: TcpStream,
    mut ending: watch::Receiver<()>,
) -> Result<()> {
    let (reader, mut writer) = client.split();
    let mut lines = BufReader::new(reader).lines();
    let mut silent = timers.sleep(IDLE);
    let mut pings = timers.interval(Repeat::every(PING))?;
    loop {
        tokio::select! {
            line = lines.next_line() => {
                let Some(line) = line? else { return Ok(()) };
                let answer = timers.timeout(REQUEST, upstream(&line)).await;
                let answer = answer.unwrap_or_else(|_elapsed| "timeout".to_owned());
                writer.write_all(format!("{answer}\n").as_bytes()).await?;
                silent.reset(IDLE);
            }
            Some(_) = pings.tick() => writer.write_all(b"ping\n").await?,
            () = &mut silent => return Ok(writer.write_all(b"idle\n").await?),
            _ = ending.changed() => return Ok(writer.write_all(b"bye\n").await?),
        }
    }
}

/// Stands for the call of another service.
async fn upstream(line: &str) -> String {
    if line == "hang" { pending().await } else { line.to_uppercase() }
}

/// Sends two requests, and prints what comes back until the gateway ends the connection.
async fn client(gateway: SocketAddr, name: &str, answers_pings: bool) -> Result<()> {
    let (reader, mut writer) = TcpStream::connect(gateway).await?.into_split();
    writer.write_all(b"hello\nhang\n").await?;
    let mut lines = BufReader::new(reader).lines();
    while let Some(line) = lines.next_line().await? {
        println!("{name}: {line}");
        if answers_pings && line == "ping" {
            writer.write_all(b"still here\n").await?;
        }
    }
    Ok(())
}

fn main() -> Result<()> {
    let wheel = Wheel::new();
    runtime::Builder::new_current_thread().enable_io().build()?.block_on(async {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let address = listener.local_addr()?;
        let active = tokio::spawn(client(address, "active", true));
        let mut silent = Ok(());
        let stop = async { silent = client(address, "silent", false).await };
        serve(&wheel.scheduler(), listener, stop).await?;
        // An error means that a line of the client and the `bye` crossed.
        let _ = active.await?;
        silent
    })?;
    assert_eq!(wheel.stats().sleeping, 0, "no timer is left");
    Ok(())
}
