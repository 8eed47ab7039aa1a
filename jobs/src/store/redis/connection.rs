//! A connection to the server: made, checked, and given up after any error of it.
//!
//! Ground rules:
//!
//! - Every wait has a limit. A connection on which something has timed out or failed is dropped, since
//!   a late answer would be taken for that of the next question.
//! - The password goes to the server and nowhere else: no error has it.

use std::sync::Arc;
use std::time::{Duration, Instant};

use redis::{Cmd, ConnectionInfo, ConnectionLike, ErrorKind, IntoConnectionInfo};
use redis::{RedisConnectionInfo, RedisError, ServerErrorKind, Value};

use crate::values::error::{OpenError, ServerProblem, StoreError};
use crate::values::server_time::ServerTime;

/// Where the server is, and how to get in.
#[derive(Clone)]
pub(crate) struct Server {
    /// Without what is sent after the connection is made.
    info: ConnectionInfo,
    login: RedisConnectionInfo,
    /// Its address, as errors name it.
    pub(super) name: String,
    /// How long an answer may take.
    pub(super) timeout: Duration,
}

/// Why something that was asked has no answer.
#[derive(Debug)]
pub(super) struct Failure {
    pub(super) error: StoreError,
    /// It was sent, so it may have been done.
    pub(super) sent: bool,
    /// The other side has closed the connection, which may be as old as that.
    pub(super) dropped: bool,
}

const LONGEST_TIMEOUT: Duration = Duration::from_secs(3);

impl Server {
    /// Reads a URL: `redis://[user][:password@]host[:port][/database]`.
    pub(crate) fn parse(url: &str) -> Result<Server, OpenError> {
        let wrong =
            |error: RedisError| OpenError::Config(format!("the URL of the server: {error}"));
        let info = url.into_connection_info().map_err(wrong)?;
        let name = info.addr().to_string();
        let login = info.redis_settings().clone();
        // The library would wait without a limit for the answers to what it sends by itself.
        let bare = RedisConnectionInfo::default().set_skip_set_lib_name();
        let info = info.set_redis_settings(bare);
        Ok(Server { info, login, name, timeout: LONGEST_TIMEOUT })
    }

    /// Limits how long an answer may take, so that a lease outlives several of them.
    pub(crate) fn with_lease(self, lease: Duration) -> Server {
        Server { timeout: (lease / 8).clamp(Duration::from_millis(100), LONGEST_TIMEOUT), ..self }
    }

    pub(super) fn error(&self, problem: ServerProblem) -> OpenError {
        OpenError::Server { server: self.name.clone(), problem }
    }

    /// Connects, logs in and selects the database.
    pub(super) fn connect(&self) -> Result<redis::Connection, RedisError> {
        let client = redis::Client::open(self.info.clone())?;
        let mut connection = client.get_connection_with_timeout(self.timeout)?;
        connection.set_read_timeout(Some(self.timeout))?;
        connection.set_write_timeout(Some(self.timeout))?;
        if let Some(password) = self.login.password() {
            let mut auth = redis::cmd("AUTH");
            auth.arg(self.login.username()).arg(password);
            ask(&mut connection, &auth)?;
        }
        if self.login.db() != 0 {
            ask(&mut connection, redis::cmd("SELECT").arg(self.login.db()))?;
        }
        Ok(connection)
    }

    pub(super) fn connect_or_fail(&self) -> Result<redis::Connection, Failure> {
        self.connect().map_err(|error| Failure {
            error: StoreError::Io(format!("{}: {}", self.name, text_of(&error))),
            sent: false,
            dropped: false,
        })
    }
}

/// Asks one thing.
pub(super) fn ask(connection: &mut redis::Connection, cmd: &Cmd) -> Result<Value, RedisError> {
    match connection.req_command(cmd)? {
        Value::ServerError(error) => Err(error.into()),
        value => Ok(value),
    }
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
    pub(super) time: Arc<ServerTime>,
}

impl Connection {
    pub(super) fn new(server: Server, open: redis::Connection, time: ServerTime) -> Connection {
        Connection { server, open: Some(open), time: Arc::new(time) }
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
            None => self.server.connect_or_fail()?,
        };
        let packed: Vec<u8> = commands.iter().flat_map(Cmd::get_packed_command).collect();
        let sent = present();
        match answers(&mut open, &packed, commands.len()) {
            Ok(answers) => {
                self.open = Some(open);
                Ok((answers, sent, present()))
            }
            Err(error) => Err(Failure {
                error: StoreError::Io(format!("{}: {}", self.server.name, text_of(&error))),
                sent: true,
                dropped: error.is_connection_dropped(),
            }),
        }
    }
}

/// Returns what is in the way of a connection.
pub(super) fn problem_of(error: &RedisError) -> ServerProblem {
    let text = text_of(error);
    match error.kind() {
        ErrorKind::Server(ServerErrorKind::NoPerm) | ErrorKind::AuthenticationFailed => {
            ServerProblem::Denied(text)
        }
        ErrorKind::Parse | ErrorKind::UnexpectedReturnType => ServerProblem::NotRedis(text),
        ErrorKind::Io => ServerProblem::Unreachable(text),
        _ if ["NOAUTH", "WRONGPASS"].contains(&error.code().unwrap_or("")) => {
            ServerProblem::Denied(text)
        }
        _ if text.contains("invalid password") || text.contains("AUTH") => {
            ServerProblem::Denied(text)
        }
        _ => ServerProblem::Other(text),
    }
}

pub(super) fn text_of(error: &RedisError) -> String {
    if error.is_timeout() {
        return "it does not answer in time".to_owned();
    }
    error.to_string()
}

#[expect(clippy::disallowed_methods, reason = "a trip to the server is measured where it is made")]
pub(super) fn present() -> Instant {
    Instant::now()
}
