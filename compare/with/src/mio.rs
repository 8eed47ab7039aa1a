//! mio: a server on `Poll` that closes a connection whose peer is silent for too long, in two ways.
//! In [`serve_events`] the ticker's thread wakes the poll when an event has come. In
//! [`serve_driven`] the wheel has no thread: the loop waits no longer than the wheel lets it, and
//! turns it.
//!
//! Both cost one timer for each connection. A packet resets it to later: one reading of the clock,
//! one lock and one store. The second saves the thread and the wake-up, and a write to an eventfd
//! for each batch of events.

use std::collections::HashMap;
use std::io::{self, ErrorKind, Read, Write};
use std::sync::Arc;
use std::sync::mpsc;
use std::task::{Wake, Waker};
use std::time::Duration;

use mio::net::{TcpListener, TcpStream};
use mio::{Interest, Poll, Registry, Token};
use tickwheel::{Events, Handle, LoopDriver, Scheduler, Wheel};

const LISTENER: Token = Token(0);
const WAKER: Token = Token(1);

/// Wakes a poll: what the standard library has a trait for, and mio has a type.
pub struct PollWaker(mio::Waker);

impl PollWaker {
    /// Returns a waker of the poll that `registry` is of. A poll may have one of them.
    pub fn waker(registry: &Registry) -> io::Result<Waker> {
        Ok(Waker::from(Arc::new(PollWaker(mio::Waker::new(registry, WAKER)?))))
    }
}

impl Wake for PollWaker {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        // It fails only if the poll is gone, and then there is nothing to wake.
        let _ = self.0.wake();
    }
}

/// A connection and its timer.
struct Connection {
    stream: TcpStream,
    idle: Handle,
}

/// Whether a connection goes on.
enum Flow {
    Continues,
    Ends,
}

/// Sends back what has come. A loop of more than an example would keep what the peer does not take.
fn echo(stream: &mut TcpStream) -> io::Result<Flow> {
    let mut buffer = [0; 1024];
    loop {
        match stream.read(&mut buffer) {
            Ok(0) => return Ok(Flow::Ends),
            Ok(read) => stream.write_all(&buffer[..read])?,
            Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(Flow::Continues),
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
}

/// The connections of a server. It does not know what kind of timers they have.
struct Server {
    listener: TcpListener,
    connections: HashMap<Token, Connection>,
    next: usize,
}

impl Server {
    fn new(mut listener: TcpListener, registry: &Registry) -> io::Result<Server> {
        registry.register(&mut listener, LISTENER, Interest::READABLE)?;
        Ok(Server { listener, connections: HashMap::new(), next: 2 })
    }

    /// Takes every connection that waits. `insert` starts the timer of a connection.
    fn accept(
        &mut self,
        registry: &Registry,
        mut insert: impl FnMut(Token) -> Handle,
    ) -> io::Result<()> {
        loop {
            let mut stream = match self.listener.accept() {
                Ok((stream, _)) => stream,
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(()),
                Err(error) => return Err(error),
            };
            let token = Token(self.next);
            self.next += 1;
            registry.register(&mut stream, token, Interest::READABLE)?;
            self.connections.insert(token, Connection { stream, idle: insert(token) });
        }
    }

    /// Serves a connection that has something to read. Returns its timer, which the caller resets
    /// or cancels.
    fn read(&mut self, token: Token) -> Option<(Handle, Flow)> {
        let connection = self.connections.get_mut(&token)?;
        let (idle, flow) = (connection.idle, echo(&mut connection.stream).unwrap_or(Flow::Ends));
        if let Flow::Ends = flow {
            self.connections.remove(&token);
        }
        Some((idle, flow))
    }
}

/// Serves until `count` connections were closed because they were silent for `limit`. Any wheel
/// will do: its ticker sends the events and wakes the poll.
pub fn serve_events(
    listener: TcpListener,
    wheel: &Scheduler,
    limit: Duration,
    mut count: usize,
) -> io::Result<()> {
    let mut poll = Poll::new()?;
    let (timers, silent) = Events::unbounded(wheel);
    timers.on_ready(PollWaker::waker(poll.registry())?);
    let mut server = Server::new(listener, poll.registry())?;
    let mut ready = mio::Events::with_capacity(64);
    while count > 0 {
        // Without a timeout: events come through the waker.
        match poll.poll(&mut ready, None) {
            Err(error) if error.kind() == ErrorKind::Interrupted => continue,
            polled => polled?,
        }
        for event in &ready {
            match event.token() {
                LISTENER => server.accept(poll.registry(), |token| {
                    timers.insert(limit, token).expect("the receiver is there, and the wheel")
                })?,
                // One wake-up may stand for several events, so the loop receives until the channel is empty.
                WAKER => {
                    for due in silent.try_iter() {
                        // A connection may have ended while its event was in the channel.
                        count -= usize::from(server.connections.remove(&due.value).is_some());
                    }
                }
                token => match server.read(token) {
                    Some((idle, Flow::Continues)) => drop(timers.reset(idle, limit)),
                    Some((idle, Flow::Ends)) => drop(timers.cancel(idle)),
                    None => {}
                },
            }
        }
    }
    Ok(())
}

/// The same on a wheel without threads, which [`Builder::driven`](tickwheel::Builder::driven) has
/// made. Everything runs on the thread that calls this.
pub fn serve_driven(
    listener: TcpListener,
    (wheel, driver): (&Wheel, &LoopDriver),
    limit: Duration,
    mut count: usize,
) -> io::Result<()> {
    let mut poll = Poll::new()?;
    // For inserts by other threads. A loop alone with its wheel needs none.
    driver.on_earlier(PollWaker::waker(poll.registry())?);
    let mut server = Server::new(listener, poll.registry())?;
    let mut ready = mio::Events::with_capacity(64);
    let (close, silent) = mpsc::channel();
    while count > 0 {
        match poll.poll(&mut ready, driver.timeout()) {
            Err(error) if error.kind() == ErrorKind::Interrupted => continue,
            polled => polled?,
        }
        // What has come is read first: it may put off a timer that is due.
        for event in &ready {
            match event.token() {
                LISTENER => server.accept(poll.registry(), |token| {
                    let close = close.clone();
                    wheel.insert(limit, move || {
                        let _ = close.send(token);
                    })
                })?,
                // The loop asks for its timeout anew, and that is all.
                WAKER => {}
                token => match server.read(token) {
                    Some((idle, Flow::Continues)) => drop(wheel.reset(idle, limit)),
                    Some((idle, Flow::Ends)) => drop(wheel.cancel(idle)),
                    None => {}
                },
            }
        }
        driver.run_due();
        for token in silent.try_iter() {
            count -= usize::from(server.connections.remove(&token).is_some());
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::SocketAddr;
    use std::thread;
    use std::time::Instant;

    const LIMIT: Duration = Duration::from_millis(500);

    /// Connects a silent client and one that talks for longer than the limit. Both are closed.
    fn talk(address: SocketAddr) {
        let begin = Instant::now();
        let mut silent = std::net::TcpStream::connect(address).unwrap();
        let mut busy = std::net::TcpStream::connect(address).unwrap();
        let mut last_packet = begin;
        for _ in 0..12 {
            last_packet = Instant::now();
            busy.write_all(b"ping").unwrap();
            let mut pong = [0; 4];
            busy.read_exact(&mut pong).unwrap();
            assert_eq!(&pong, b"ping");
            thread::sleep(LIMIT / 10);
        }
        assert_eq!(silent.read(&mut [0; 1]).unwrap(), 0, "closed by the server");
        assert!(begin.elapsed() >= LIMIT);
        assert_eq!(busy.read(&mut [0; 1]).unwrap(), 0, "closed by the server");
        assert!(last_packet.elapsed() >= LIMIT && begin.elapsed() >= 11 * LIMIT / 10);
    }

    fn listen() -> (TcpListener, SocketAddr) {
        let listener = TcpListener::bind("127.0.0.1:0".parse().unwrap()).unwrap();
        let address = listener.local_addr().unwrap();
        (listener, address)
    }

    #[test]
    fn events_wake_the_poll_that_closes_silent_connections() {
        let wheel = Wheel::new();
        let ((listener, address), scheduler) = (listen(), wheel.scheduler());
        let server = thread::spawn(move || serve_events(listener, &scheduler, LIMIT, 2));
        talk(address);
        server.join().unwrap().unwrap();
        assert_eq!(wheel.stats().events_pending, 0);
    }

    #[test]
    fn a_loop_that_turns_its_wheel_closes_silent_connections() {
        let (wheel, driver) = Wheel::builder().driven().unwrap();
        let ((listener, address), scheduler) = (listen(), wheel.scheduler());
        let server = thread::spawn(move || {
            serve_driven(listener, (&wheel, &driver), LIMIT, 2).map(|()| wheel)
        });
        // An insert of another thread, which is earlier than the loop means to wake.
        let (sender, runs) = mpsc::channel();
        let job = move || sender.send(thread::current().id()).unwrap();
        scheduler.insert(Duration::from_millis(1), job).unwrap();
        assert_eq!(runs.recv(), Ok(server.thread().id()));
        talk(address);
        let wheel = server.join().unwrap().unwrap();
        assert_eq!((wheel.len(), wheel.stats().panicked), (0, 0));
    }
}
