//! A connection to the server of a queue: opened when it is needed, and closed after any error; and the errors after
//! which the same commands may be sent again, there or elsewhere.
//!
//! Ground rules:
//!
//! - After a timeout or an error the connection is closed, since a late answer would be read as the answer to
//!   the next command.
//! - It is also closed if the server does not have the queue or cannot write. The next connection goes to the
//!   server that a new search finds (`discovery.rs`).

use std::sync::Arc;
use std::time::{Duration, Instant};

use redis::{Cmd, RedisError, ServerError, Value};

use super::discovery::{FoundServer, Server};
use super::endpoint::{WaitLimits, present, text_of};
use crate::values::error::StoreError;
use crate::values::server_time::ServerTime;

/// The errors of a server that does not have the queue, or that cannot write at the moment. A new search may
/// find another server, or the same one once it can write.
const ELSEWHERE: [&str; 8] =
    ["ASK", "CLUSTERDOWN", "LOADING", "MASTERDOWN", "MOVED", "NOREPLICAS", "READONLY", "TRYAGAIN"];
/// The errors of a server that did nothing, but can do it later.
const LATER: [&str; 2] = ["BUSY", "UNKILLABLE"];

/// Returns the code of an error. Before Redis 7, the code of a command in a script stands in the text.
fn code_of(error: &ServerError) -> &str {
    let details = error.details().unwrap_or_default();
    let is_said = |code: &&&str| {
        let at = details.find(**code);
        at.is_some_and(|at| details[..at].ends_with(": -"))
    };
    match error.code() {
        "ERR" => ELSEWHERE.iter().find(is_said).copied().unwrap_or("ERR"),
        code => code,
    }
}

/// Says whether the answer is one of the errors in [`ELSEWHERE`].
pub(super) fn is_worth_a_search(value: &Value) -> bool {
    matches!(value, Value::ServerError(error) if ELSEWHERE.contains(&code_of(error)))
}

/// Says whether the same commands may be sent again.
pub(super) fn may_pass(error: &ServerError) -> bool {
    let code = code_of(error);
    ELSEWHERE.contains(&code) || LATER.contains(&code)
}

/// Why commands have no answers.
#[derive(Debug)]
pub(super) struct Failure {
    pub(super) error: StoreError,
    /// The commands were sent, so they may have been done.
    pub(super) sent: bool,
    /// The server has closed the connection, perhaps long before the commands were sent.
    pub(super) dropped: bool,
}

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
    ) -> Result<(Vec<Value>, Instant, Instant), Failure> {
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
            Err(error) => Err(Failure {
                error: StoreError::Io(format!("{}: {}", self.name, text_of(&error))),
                sent: true,
                dropped: error.is_connection_dropped(),
            }),
        }
    }

    fn connect(&mut self) -> Result<redis::Connection, Failure> {
        let found = self.server.connect(self.until).map_err(|error| Failure {
            error: StoreError::Io(error.to_string()),
            sent: false,
            dropped: false,
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

    fn said(text: &str) -> ServerError {
        let reply = redis::parse_redis_value(format!("-{text}\r\n").as_bytes());
        match reply.unwrap() {
            Value::ServerError(error) => error,
            other => panic!("{other:?}"),
        }
    }

    /// A batch is sent again if its error may be over later or on another server. In the second case the client
    /// searches for that server first.
    #[test]
    fn batch_is_sent_again_after_an_error_that_may_pass() {
        let again = [
            ("MOVED 3999 127.0.0.1:6381", true),
            ("ASK 3999 127.0.0.1:6381", true),
            ("TRYAGAIN Multiple keys request during rehashing of slot", true),
            ("CLUSTERDOWN Hash slot not served", true),
            (
                "READONLY You can't write against a read only replica. script: 1a, on @user_script:9.",
                true,
            ),
            (
                "ERR Error running script (call to f_1a): @user_script:9: @user_script: 9: -READONLY You \
                 can't write against a read only replica.",
                true,
            ),
            ("LOADING Redis is loading the dataset in memory", true),
            ("MASTERDOWN Link with MASTER is down", true),
            ("NOREPLICAS Not enough good replicas to write.", true),
            ("BUSY Redis is busy running a script.", false),
        ];
        for (text, is_elsewhere) in again {
            let error = said(text);
            assert!(may_pass(&error), "{text}");
            assert_eq!(is_worth_a_search(&Value::ServerError(error)), is_elsewhere, "{text}");
        }
        let for_good =
            ["ERR unknown command", "NOPERM no", "ERR a job that says READONLY", "CROSSSLOT"];
        for text in for_good {
            let error = said(text);
            assert!(!may_pass(&error), "{text}");
            assert!(!is_worth_a_search(&Value::ServerError(error)), "{text}");
        }
    }

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
