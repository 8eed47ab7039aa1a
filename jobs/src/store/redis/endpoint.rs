//! One address of a server, and how to connect to it with a limit on every wait.
//!
//! Ground rules:
//!
//! - Every wait for a server has a limit, also the waits for the answers to a login. So this code sends the
//!   login: the redis crate would wait for those answers without a limit. The system's resolver, which
//!   finds the address of a name, has its own limits.
//! - A password goes only to its server: no error contains it.

use std::time::{Duration, Instant};

#[cfg(feature = "redis-tls")]
use redis::{ClientTlsConfig, TlsCertificates};
use redis::{Cmd, ConnectionAddr, ConnectionInfo, ConnectionLike, ErrorKind};
use redis::{RedisConnectionInfo, RedisError, ServerErrorKind, Value};
#[cfg(feature = "redis-tls")]
use rustls::pki_types::{CertificateDer, pem::PemObject};

use crate::values::error::{OpenError, ServerProblem};
#[cfg(feature = "redis-tls")]
use crate::values::tls::Tls;

/// The address of one server, and the login.
#[derive(Clone)]
pub(super) struct Endpoint {
    /// The address. It contains no login, so the redis crate sends no command when it connects.
    info: ConnectionInfo,
    login: RedisConnectionInfo,
}

/// The limits of the waits for one server.
#[derive(Clone, Copy)]
pub(super) struct Limit {
    /// The longest time of one wait.
    pub(super) each: Duration,
    /// When all waits end. A wait may go on beyond this by [`SHORTEST_WAIT`].
    pub(super) until: Option<Instant>,
}

/// Every wait may last this long, even one that begins after the limit: an answer may have arrived already.
const SHORTEST_WAIT: Duration = Duration::from_millis(10);

impl Limit {
    /// Returns the longest time of a wait that begins now.
    pub(super) fn left(self) -> Duration {
        let left = self.until.map(|until| until.saturating_duration_since(present()));
        left.map_or(self.each, |left| left.max(SHORTEST_WAIT).min(self.each))
    }

    /// Says whether `until` has passed.
    pub(super) fn is_over(self) -> bool {
        self.until.is_some_and(|until| until <= present())
    }

    /// Sets the limit for the next waits of a connection.
    pub(super) fn apply(self, connection: &redis::Connection) -> Result<(), RedisError> {
        let left = self.left();
        connection.set_read_timeout(Some(left))?;
        connection.set_write_timeout(Some(left))
    }
}

const NO_TLS: &str = "it does not answer in time; is it a port for TLS?";

impl Endpoint {
    pub(super) fn new(info: ConnectionInfo) -> Endpoint {
        let login = info.redis_settings().clone();
        let bare = RedisConnectionInfo::default().set_skip_set_lib_name();
        Endpoint { info: info.set_redis_settings(bare), login }
    }

    pub(super) fn with_login(self, login: RedisConnectionInfo) -> Endpoint {
        Endpoint { login, ..self }
    }

    pub(super) fn login(&self) -> &RedisConnectionInfo {
        &self.login
    }

    /// Returns the endpoint of another address, with the same login, and with TLS if this one has it.
    pub(super) fn at(&self, host: String, port: u16) -> Endpoint {
        let addr = match self.info.addr() {
            ConnectionAddr::TcpTls { insecure, tls_params, .. } => {
                let (insecure, tls_params) = (*insecure, tls_params.clone());
                ConnectionAddr::TcpTls { host, port, insecure, tls_params }
            }
            _ => ConnectionAddr::Tcp(host, port),
        };
        Endpoint { info: self.info.clone().set_addr(addr), login: self.login.clone() }
    }

    /// Returns the host, if the address has one.
    pub(super) fn host(&self) -> Option<&str> {
        match self.info.addr() {
            ConnectionAddr::Tcp(host, _) | ConnectionAddr::TcpTls { host, .. } => Some(host),
            _ => None,
        }
    }

    /// Sets the certificates.
    #[cfg(feature = "redis-tls")]
    pub(super) fn with_tls(self, tls: &Tls) -> Result<Endpoint, OpenError> {
        if !self.is_tls() {
            let reason = "`Jobs::redis_with_tls` needs a URL that begins with \"rediss\"";
            return Err(OpenError::Config(reason.to_owned()));
        }
        let certificates = tls.identity.iter().map(|(certificate, _)| ("identity", certificate));
        let given = tls.trusted.iter().map(|trusted| ("trust", trusted)).chain(certificates);
        for (what, pem) in given {
            if !matches!(CertificateDer::pem_slice_iter(pem).next(), Some(Ok(_))) {
                return Err(OpenError::Config(format!("`Tls::{what}` has no certificate in PEM")));
            }
        }
        let identity = tls.identity.clone();
        let certificates = TlsCertificates {
            client_tls: identity
                .map(|(client_cert, client_key)| ClientTlsConfig { client_cert, client_key }),
            root_cert: tls.trusted.clone(),
        };
        let client = redis::Client::build_with_tls(self.info, certificates)
            .map_err(|error| OpenError::Config(error.to_string()))?;
        Ok(Endpoint { info: client.get_connection_info().clone(), login: self.login })
    }

    pub(super) fn is_tls(&self) -> bool {
        matches!(self.info.addr(), ConnectionAddr::TcpTls { .. })
    }

    /// Returns the address as text, for errors.
    pub(super) fn name(&self) -> String {
        match self.info.addr() {
            ConnectionAddr::Tcp(host, port) | ConnectionAddr::TcpTls { host, port, .. }
                if host.contains(':') =>
            {
                format!("[{host}]:{port}")
            }
            addr => addr.to_string(),
        }
    }

    /// Connects, logs in and selects the database.
    pub(super) fn connect(&self, limit: Limit) -> Result<redis::Connection, OpenError> {
        self.dial(limit).map_err(|error| {
            self.error(match error.is_timeout() && self.is_tls() {
                // A port without TLS waits for the end of a line, and a handshake has none.
                true => ServerProblem::Unreachable(NO_TLS.to_owned()),
                false => problem_of(&error),
            })
        })
    }

    fn dial(&self, limit: Limit) -> Result<redis::Connection, RedisError> {
        let client = redis::Client::open(self.info.clone())?;
        let mut connection = client.get_connection_with_timeout(limit.left())?;
        limit.apply(&connection)?;
        if self.is_tls() {
            // To wait for an answer forces the handshake, within the limit. The answer does not matter.
            connection.req_command(&redis::cmd("PING"))?;
        }
        if let Some(password) = self.login.password() {
            let mut auth = redis::cmd("AUTH");
            auth.arg(self.login.username()).arg(password);
            limit.apply(&connection)?;
            ask(&mut connection, &auth)?;
        }
        if self.login.db() != 0 {
            limit.apply(&connection)?;
            ask(&mut connection, redis::cmd("SELECT").arg(self.login.db()))?;
        }
        if limit.until.is_some() {
            Limit { until: None, ..limit }.apply(&connection)?;
        }
        Ok(connection)
    }

    pub(super) fn error(&self, problem: ServerProblem) -> OpenError {
        OpenError::Server { server: self.name(), problem }
    }
}

/// Sends one command, and returns the answer. An error of the server is an error.
pub(super) fn ask(connection: &mut redis::Connection, cmd: &Cmd) -> Result<Value, RedisError> {
    match connection.req_command(cmd)? {
        Value::ServerError(error) => Err(error.into()),
        value => Ok(value),
    }
}

/// Returns the problem that an error means.
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
