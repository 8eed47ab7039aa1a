//! Connections on loopback, both ends of each.

use std::io;
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::sync::mpsc::{self, Receiver, Sender};
use std::thread;

/// The two ends of a connection: the server's does not block, the client's does.
pub(crate) struct Pair {
    pub(crate) server: TcpStream,
    pub(crate) client: TcpStream,
}

type Accepted = (TcpStream, SocketAddr);

/// Connects `count` clients, one after the other, with a server that accepts on its own thread.
///
/// It connects one at a time, because the queue of a listener is short (128): a burst would
/// overflow it.
pub(crate) fn connect(count: usize) -> io::Result<Vec<Pair>> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
    let address = listener.local_addr()?;
    let (accepted, ends) = mpsc::channel();
    thread::spawn(move || accept(&listener, &accepted));
    (0..count).map(|_| pair(address, &ends)).collect()
}

/// Accepts until the receiver of the connections is gone, or the program ends.
fn accept(listener: &TcpListener, accepted: &Sender<io::Result<Accepted>>) {
    while accepted.send(listener.accept()).is_ok() {}
}

fn pair(address: SocketAddr, ends: &Receiver<io::Result<Accepted>>) -> io::Result<Pair> {
    let client = TcpStream::connect(address)?;
    client.set_nodelay(true)?;
    let server = end_of(client.local_addr()?, ends)?;
    server.set_nonblocking(true)?;
    Ok(Pair { server, client })
}

/// Returns the accepted end of the connection from `client`. Drops connections from elsewhere.
fn end_of(client: SocketAddr, ends: &Receiver<io::Result<Accepted>>) -> io::Result<TcpStream> {
    loop {
        let (stream, peer) = ends.recv().map_err(io::Error::other)??;
        if peer == client {
            return Ok(stream);
        }
    }
}
