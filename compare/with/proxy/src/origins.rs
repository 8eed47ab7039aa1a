//! The servers behind the proxy: one answers, one does not, and one cannot be reached.

use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::time::timeout;

/// The first byte of a connection, which says to which origin it leads.
pub(crate) const ECHO: u8 = b'e';
pub(crate) const MUTE: u8 = b'm';
pub(crate) const UNREACHABLE: u8 = b'u';

/// A connect on the loopback that takes as long as this will not end.
const HANGS: Duration = Duration::from_millis(200);

/// How many connections may wait to be accepted. Beyond that, the system drops what a connect sends,
/// and tries again after a second: that would be no timer's fault.
pub(crate) const ROOM: u32 = 4096;

pub(crate) struct Origins {
    /// Sends back what comes.
    pub(crate) echo: SocketAddr,
    /// Takes what comes.
    pub(crate) mute: SocketAddr,
    /// Does not even accept. `None` if the system accepts for it.
    pub(crate) unreachable: Option<SocketAddr>,
    /// Keep the third one full.
    _full: Vec<TcpStream>,
    _listener: TcpListener,
}

impl Origins {
    pub(crate) async fn start() -> io::Result<Origins> {
        let (echo, mute) = (listen(ROOM)?, listen(ROOM)?);
        let addresses = (echo.local_addr()?, mute.local_addr()?);
        tokio::spawn(accept(echo, true));
        tokio::spawn(accept(mute, false));
        // This listener never accepts. Once its queue is full, the system lets a connect wait.
        let listener = listen(1)?;
        let address = listener.local_addr()?;
        let (mut full, mut hangs) = (Vec::new(), false);
        while !hangs && full.len() < 16 {
            match timeout(HANGS, TcpStream::connect(address)).await {
                Ok(stream) => full.push(stream?),
                Err(_) => hangs = true,
            }
        }
        Ok(Origins {
            echo: addresses.0,
            mute: addresses.1,
            unreachable: hangs.then_some(address),
            _full: full,
            _listener: listener,
        })
    }
}

/// Listens on a free port, with room for `room` connections that wait.
pub(crate) fn listen(room: u32) -> io::Result<TcpListener> {
    let socket = TcpSocket::new_v4()?;
    socket.bind((Ipv4Addr::LOCALHOST, 0).into())?;
    socket.listen(room)
}

async fn accept(listener: TcpListener, answers: bool) -> io::Result<()> {
    loop {
        let (stream, _) = listener.accept().await?;
        tokio::spawn(async move { answer(stream, answers).await.unwrap_or_default() });
    }
}

async fn answer(mut stream: TcpStream, answers: bool) -> io::Result<()> {
    stream.set_nodelay(true)?;
    let mut buffer = [0; 1024];
    loop {
        let read = stream.read(&mut buffer).await?;
        if read == 0 {
            return Ok(());
        }
        if answers {
            stream.write_all(&buffer[..read]).await?;
        }
    }
}
