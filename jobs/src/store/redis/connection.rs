//! A connection to the server of a queue: opened when it is needed, and closed after any error.
//!
//! Ground rules:
//!
//! - After a timeout or an error the connection is closed, since a late answer would be read as the answer to
//!   the next command.
//! - It is also closed if the server does not have the queue or cannot write. The next connection goes to the
//!   server that a new search finds (`discovery.rs`).

use std::sync::Arc;
use std::time::{Duration, Instant};

use redis::{Cmd, RedisError, Value};

use super::decode::{Fault, is_worth_a_search};
use super::discovery::{FoundServer, Server};
use super::endpoint::{WaitLimits, present, text_of};
use crate::values::error::StoreError;
use crate::values::server_time::ServerTime;

/// Sends packed commands and reads `many` answers. Fails at the first answer that does not arrive: the
/// connection is useless then. No wait goes on beyond the limit.
fn answers(
    connection: &mut redis::Connection,
    packed: &[u8],
    many: usize,
    limit: WaitLimits,
) -> Result<Vec<Value>, RedisError> {
    let mut shortened = false;
    // To set a limit costs a system call, so it is set only if less than the usual time is left.
    let mut shorten = |connection: &redis::Connection| match limit.left() < limit.each {
        true => {
            shortened = true;
            limit.apply(connection)
        }
        false => Ok(()),
    };
    shorten(connection)?;
    connection.send_packed_command(packed)?;
    let mut answers = Vec::with_capacity(many);
    for _ in 0..many {
        shorten(connection)?;
        answers.push(connection.recv_response()?);
    }
    if shortened {
        WaitLimits { until: None, ..limit }.apply(connection)?;
    }
    Ok(answers)
}

/// A connection that is opened when it is needed.
pub(super) struct Connection {
    pub(super) server: Server,
    open: Option<redis::Connection>,
    /// The address of the server that was found last.
    pub(super) name: String,
    pub(super) time: Arc<ServerTime>,
    /// When the caller stops waiting: no wait goes on beyond it.
    pub(super) until: Option<Instant>,
}

impl Connection {
    pub(super) fn is_open(&self) -> bool {
        self.open.is_some()
    }

    pub(super) fn new(server: Server, found: FoundServer, time: ServerTime) -> Connection {
        let FoundServer { connection, address } = found;
        server.note_found(&address);
        let (name, time) = (address.name(), Arc::new(time));
        Connection { server, open: Some(connection), name, time, until: None }
    }

    pub(super) fn close(&mut self) {
        self.open = None;
    }

    /// Returns the longest time of the next wait.
    pub(super) fn left(&self) -> Duration {
        self.server.limit(self.until).left()
    }

    /// Sends the commands together. Returns the answer to each, which may be an error of the server; and when
    /// they were sent and answered.
    pub(super) fn send(
        &mut self,
        commands: &[Cmd],
    ) -> Result<(Vec<Value>, Instant, Instant), Fault> {
        let mut open = match self.open.take() {
            Some(open) => open,
            None => self.connect()?,
        };
        let mut packed = Vec::new();
        commands.iter().for_each(|command| command.write_packed_command(&mut packed));
        let sent = present();
        let limit = self.server.limit(self.until);
        match answers(&mut open, &packed, commands.len(), limit) {
            Ok(answers) => {
                if !answers.iter().any(is_worth_a_search) {
                    self.open = Some(open);
                }
                Ok((answers, sent, present()))
            }
            Err(error) => Err(Fault {
                error: StoreError::Io(format!("{}: {}", self.name, text_of(&error))),
                sent: true,
                again: true,
                dropped: error.is_connection_dropped(),
            }),
        }
    }

    fn connect(&mut self) -> Result<redis::Connection, Fault> {
        let found = self.server.connect(self.until);
        let found = found.map_err(|error| {
            let error = StoreError::Io(error.to_string());
            Fault { sent: false, again: true, ..error.into() }
        })?;
        self.server.note_found(&found.address);
        let name = found.address.name();
        if name != self.name {
            // The server is another one, with another clock.
            self.time.forget();
            self.name = name;
        }
        Ok(found.connection)
    }
}

#[cfg(test)]
mod tests {
    use std::net::{Ipv4Addr, TcpListener};

    use super::*;

    /// Returns a URL where the operating system accepts connections, and no process answers.
    fn silent() -> (TcpListener, String) {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let url = format!("redis://127.0.0.1:{}/", listener.local_addr().unwrap().port());
        (listener, url)
    }

    /// No wait of a connection goes on after its caller has stopped waiting. Before a fix, each wait took as long
    /// as an answer may take: three seconds to connect, three for the answer.
    #[test]
    fn connection_waits_end_when_the_caller_stops_waiting() {
        let (listener, url) = silent();
        // A login, the choice of a database and a search wait too.
        let ways = [
            url.replace("redis://", "redis://:secret@"),
            format!("{url}3"),
            url.replace("redis://", "redis-cluster://"),
            format!("{}?master=m", url.replace("redis://", "redis-sentinel://")),
        ];
        for way in ways {
            let server = Server::parse(&way).unwrap();
            let began = present();
            server.connect(Some(began + Duration::from_millis(100))).err().unwrap();
            let took = present() - began;
            assert!(took < Duration::from_millis(2500), "{way}: {took:?}");
        }
        let server = Server::parse(&url).unwrap();
        let found = server.connect(None).ok().unwrap();
        let mut connection = Connection::new(server, found, ServerTime::new(present()));
        for _ in 0..2 {
            let began = present();
            connection.until = Some(began + Duration::from_millis(100));
            connection.send(&[redis::cmd("PING"), redis::cmd("PING")]).err().unwrap();
            let took = present() - began;
            assert!(took < Duration::from_millis(2500), "{took:?}");
        }
        drop(listener);
    }
}
