//! The proxy: a client says in its first byte which origin it wants, then sends requests. An answer
//! is as long as its request.
//!
//! | timeout | begins | over when |
//! | --- | --- | --- |
//! | connect | when the client has chosen | the origin has not accepted |
//! | read | with each read of the first byte, or of an answer | nothing has come |
//! | idle | with each answer that is sent | the client has sent no request |

use std::io;
use std::net::SocketAddr;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

use crate::timers::Timers;

#[derive(Clone, Copy)]
pub(crate) struct Limits {
    pub(crate) connect: Duration,
    pub(crate) read: Duration,
    pub(crate) idle: Duration,
}

/// How many connections were closed because a time was over.
#[derive(Default)]
pub(crate) struct Closed {
    pub(crate) connect: AtomicU64,
    pub(crate) read: AtomicU64,
    pub(crate) idle: AtomicU64,
}

/// Where the connections lead to, by their first byte.
pub(crate) type Routes = Vec<(u8, SocketAddr)>;

struct Shared<T> {
    routes: Routes,
    limits: Limits,
    closed: Arc<Closed>,
    timers: T,
}

/// Serves for ever.
pub(crate) async fn serve<T: Timers>(
    listener: TcpListener,
    routes: Routes,
    limits: Limits,
    closed: Arc<Closed>,
    timers: T,
) -> io::Result<()> {
    let shared = Arc::new(Shared { routes, limits, closed, timers });
    loop {
        let (client, _) = listener.accept().await?;
        let shared = Arc::clone(&shared);
        // What a peer breaks concerns its connection alone.
        tokio::spawn(async move { forward(client, &shared).await.unwrap_or_default() });
    }
}

async fn forward<T: Timers>(mut client: TcpStream, shared: &Shared<T>) -> io::Result<()> {
    let Shared { routes, limits, closed, timers } = shared;
    client.set_nodelay(true)?;
    let Some(first) = timers.timeout(limits.read, client.read_u8()).await else {
        return count(&closed.read);
    };
    let first = first?;
    let route = routes.iter().find(|(byte, _)| *byte == first);
    let (_, address) = route.ok_or(io::ErrorKind::InvalidInput)?;
    let Some(origin) = timers.timeout(limits.connect, TcpStream::connect(address)).await else {
        return count(&closed.connect);
    };
    let mut origin = origin?;
    origin.set_nodelay(true)?;
    let mut idle = pin!(timers.sleep(limits.idle));
    let mut buffer = [0; 1024];
    loop {
        let mut missing = tokio::select! {
            // A request that is there wins over a time that has passed.
            biased;
            request = client.read(&mut buffer) => request?,
            () = &mut idle => return count(&closed.idle),
        };
        if missing == 0 {
            return Ok(());
        }
        origin.write_all(&buffer[..missing]).await?;
        while missing > 0 {
            let answer = timers.timeout(limits.read, origin.read(&mut buffer)).await;
            let Some(answer) = answer else {
                return count(&closed.read);
            };
            let answer = answer?;
            if answer == 0 {
                return Ok(());
            }
            client.write_all(&buffer[..answer]).await?;
            missing = missing.saturating_sub(answer);
        }
        T::reset(idle.as_mut(), limits.idle);
    }
}

/// Counts a connection that is closed now.
fn count(closed: &AtomicU64) -> io::Result<()> {
    closed.fetch_add(1, Ordering::SeqCst);
    Ok(())
}
