//! A connection to the server of a queue: made when it is needed, and given up after any error of it.
//!
//! Ground rules:
//!
//! - A connection on which something has timed out or failed is dropped, since a late answer would be
//!   taken for that of the next question.
//! - So is one whose server says that the queue is elsewhere, or that it cannot write: the next
//!   connection is made to whoever is found then (`place.rs`).

use std::sync::Arc;
use std::time::Instant;

use redis::{Cmd, RedisError, Value};

use super::address::{present, text_of};
use super::place::{Found, Server};
use super::replies::is_worth_a_search;
use crate::values::error::StoreError;
use crate::values::server_time::ServerTime;

/// Why something that was asked has no answer.
#[derive(Debug)]
pub(super) struct Failure {
    pub(super) error: StoreError,
    /// It was sent, so it may have been done.
    pub(super) sent: bool,
    /// The other side has closed the connection, which may be as old as that.
    pub(super) dropped: bool,
}

/// Sends what is packed and reads the answers, until one does not come: the connection is of no use
/// then, and the others need not be waited for.
fn answers(
    connection: &mut redis::Connection,
    packed: &[u8],
    many: usize,
) -> Result<Vec<Value>, RedisError> {
    connection.send_packed_command(packed)?;
    (0..many).map(|_| connection.recv_response()).collect()
}

/// A connection that is made when it is needed.
pub(super) struct Connection {
    pub(super) server: Server,
    open: Option<redis::Connection>,
    /// The address of the server that was found last.
    pub(super) name: String,
    pub(super) time: Arc<ServerTime>,
}

impl Connection {
    pub(super) fn new(server: Server, found: Found, time: ServerTime) -> Connection {
        let Found { connection, address } = found;
        server.note_found(&address);
        Connection { server, open: Some(connection), name: address.name(), time: Arc::new(time) }
    }

    pub(super) fn close(&mut self) {
        self.open = None;
    }

    /// Sends the commands together, and returns the answer to each, which may be an error of the
    /// server's; and when they were sent and answered.
    pub(super) fn send(
        &mut self,
        commands: &[Cmd],
    ) -> Result<(Vec<Value>, Instant, Instant), Failure> {
        let mut open = match self.open.take() {
            Some(open) => open,
            None => self.connect()?,
        };
        let packed: Vec<u8> = commands.iter().flat_map(Cmd::get_packed_command).collect();
        let sent = present();
        match answers(&mut open, &packed, commands.len()) {
            Ok(answers) => {
                if !answers.iter().any(is_worth_a_search) {
                    self.open = Some(open);
                }
                Ok((answers, sent, present()))
            }
            Err(error) => Err(Failure {
                error: StoreError::Io(format!("{}: {}", self.name, text_of(&error))),
                sent: true,
                dropped: error.is_connection_dropped(),
            }),
        }
    }

    fn connect(&mut self) -> Result<redis::Connection, Failure> {
        let found = self.server.connect().map_err(|error| Failure {
            error: StoreError::Io(error.to_string()),
            sent: false,
            dropped: false,
        })?;
        self.server.note_found(&found.address);
        let name = found.address.name();
        if name != self.name {
            // Another server has another clock.
            self.time.forget();
            self.name = name;
        }
        Ok(found.connection)
    }
}
