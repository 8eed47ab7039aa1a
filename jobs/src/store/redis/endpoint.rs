//! The addresses of servers: the URLs of one server, of a cluster, or of sentinels that name the server; and how to
//! connect to an address with a limit on every wait.
//!
//! ```text
//! redis://[user][:password@]host[:port][/database]
//! redis-cluster://[user][:password@]host[:port][,host[:port]..]
//! redis-sentinel://[user][:password@]host[:port][,host[:port]..][/database]?master=NAME
//!                  [&sentinel_user=NAME][&sentinel_password=PASSWORD]
//! ```
//!
//! With `rediss` instead of `redis`, each uses TLS. User, password and database belong to the servers that
//! have jobs. A sentinel has its own login.
//!
//! Ground rules:
//!
//! - Every wait for a server has a limit, also the waits for the answers to a login. So this code sends the
//!   login: the redis crate would wait for those answers without a limit. The system's resolver, which
//!   finds the address of a name, has its own limits.
//! - A password goes only to its server: no error contains it. An error says which host or parameter is wrong. It
//!   quotes only the names of parameters, and no other part of the URL: a password without its `@` looks like a host.

use std::time::{Duration, Instant};

#[cfg(feature = "redis-tls")]
use redis::{ClientTlsConfig, TlsCertificates};
use redis::{
    Cmd, ConnectionAddr, ConnectionInfo, ConnectionLike, ErrorKind, IntoConnectionInfo,
    RedisConnectionInfo, RedisError, ServerErrorKind, Value,
};
#[cfg(feature = "redis-tls")]
use rustls::pki_types::CertificateDer;
#[cfg(feature = "redis-tls")]
use rustls::pki_types::pem::PemObject;

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
pub(super) struct WaitLimits {
    /// The longest time of one wait.
    pub(super) each: Duration,
    /// When all waits end. A wait may go on beyond this by [`SHORTEST_WAIT`].
    pub(super) until: Option<Instant>,
}

/// Every wait may last this long, even one that begins after the limit: an answer may have arrived already.
const SHORTEST_WAIT: Duration = Duration::from_millis(10);

impl WaitLimits {
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

    pub(super) fn host(&self) -> Option<&str> {
        match self.info.addr() {
            ConnectionAddr::Tcp(host, _) | ConnectionAddr::TcpTls { host, .. } => Some(host),
            _ => None,
        }
    }

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
    pub(super) fn connect(&self, limit: WaitLimits) -> Result<redis::Connection, OpenError> {
        self.dial(limit).map_err(|error| {
            self.error(match error.is_timeout() && self.is_tls() {
                // A port without TLS waits for the end of a line, and a handshake has none.
                true => ServerProblem::Unreachable(NO_TLS.to_owned()),
                false => problem_of(&error),
            })
        })
    }

    fn dial(&self, limit: WaitLimits) -> Result<redis::Connection, RedisError> {
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
            WaitLimits { until: None, ..limit }.apply(&connection)?;
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

/// A parsed URL.
pub(super) struct Parsed {
    /// The addresses in the order of the URL: at least one.
    pub(super) addresses: Vec<Endpoint>,
    pub(super) way: AddressRole,
}

/// The role of the addresses of a URL.
#[derive(Clone)]
pub(super) enum AddressRole {
    /// The address of the server itself.
    Direct,
    /// Nodes of a cluster, each of which knows the others.
    Cluster,
    /// Sentinels that know the address of the master with this name. The login is for that master.
    Sentinel { master: String, login: RedisConnectionInfo },
}

/// The port of a sentinel if the URL names none.
const SENTINEL_PORT: u16 = 26379;

pub(super) fn parse(url: &str) -> Result<Parsed, OpenError> {
    let (scheme, rest) = url.split_once("://").unwrap_or(("", url));
    let (plain, is_cluster) = match scheme {
        "redis-cluster" => ("redis", true),
        "rediss-cluster" => ("rediss", true),
        "redis-sentinel" => ("redis", false),
        "rediss-sentinel" => ("rediss", false),
        _ => {
            refuse_unknown(url)?;
            let addresses = vec![address(url, "")?];
            return Ok(Parsed { addresses, way: AddressRole::Direct });
        }
    };
    let (authority, tail) = rest.split_at(rest.find(['/', '?', '#']).unwrap_or(rest.len()));
    let (login, hosts) = match authority.rsplit_once('@') {
        Some((login, hosts)) => (format!("{login}@"), hosts),
        None => (String::new(), authority),
    };
    let urls = hosts.split(',').enumerate().map(|(n, host)| match host.is_empty() {
        true => Err(wrong(&format!("host {} is empty", n + 1))),
        false => Ok((format!("{plain}://{login}{host}{tail}"), format!("host {}: ", n + 1))),
    });
    let urls: Vec<(String, String)> = urls.collect::<Result<_, _>>()?;
    let found = urls.iter().map(|(url, which)| address(url, which));
    let addresses: Vec<Endpoint> = found.collect::<Result<_, _>>()?;
    let parameters = Parameters::of(&urls[0].0)?;
    match is_cluster {
        true => cluster(addresses, &parameters),
        false => sentinel(addresses, &urls, parameters),
    }
}

fn cluster(addresses: Vec<Endpoint>, parameters: &Parameters) -> Result<Parsed, OpenError> {
    if let Some(name) = &parameters.first {
        return Err(wrong(&format!("a cluster takes no parameter {name:?}")));
    }
    if addresses[0].login().db() != 0 {
        return Err(wrong("a cluster has no database but 0"));
    }
    Ok(Parsed { addresses, way: AddressRole::Cluster })
}

fn sentinel(
    addresses: Vec<Endpoint>,
    urls: &[(String, String)],
    parameters: Parameters,
) -> Result<Parsed, OpenError> {
    let Parameters { master, user, password, unknown, .. } = parameters;
    if let Some(name) = unknown {
        return Err(wrong(&format!("sentinels take no parameter {name:?}")));
    }
    let Some(master) = master.filter(|name| !name.is_empty()) else {
        return Err(wrong(
            "the parameter \"master\" is missing: the name by which sentinels know it",
        ));
    };
    if user.is_some() && password.is_none() {
        return Err(wrong("\"sentinel_user\" needs a \"sentinel_password\""));
    }
    let mut own = RedisConnectionInfo::default();
    if let Some(user) = user {
        own = own.set_username(user);
    }
    if let Some(password) = password {
        own = own.set_password(password);
    }
    let login = addresses[0].login().clone();
    let addresses = addresses.into_iter().zip(urls).map(|(address, (url, _))| {
        let has_port = redis::parse_redis_url(url).is_some_and(|url| url.port().is_some());
        let host = address.host().filter(|_| !has_port).map(str::to_owned);
        host.map_or(address.clone(), |host| address.at(host, SENTINEL_PORT)).with_login(own.clone())
    });
    Ok(Parsed { addresses: addresses.collect(), way: AddressRole::Sentinel { master, login } })
}

/// Returns the address in a URL with one host. An error begins with `which`.
fn address(url: &str, which: &str) -> Result<Endpoint, OpenError> {
    refuse_protocol(url)?;
    let info = url.into_connection_info();
    let info = info.map_err(|error| wrong(&format!("{which}{error}")))?;
    if info.redis_settings().db() < 0 {
        return Err(wrong(&format!("{which}databases are numbered from 0 on")));
    }
    Ok(Endpoint::new(info))
}

/// Refuses the parameter `protocol`: it would have no effect here, and the errors of the redis crate quote its
/// value.
fn refuse_protocol(url: &str) -> Result<(), OpenError> {
    let parsed = redis::parse_redis_url(url);
    match parsed.is_some_and(|url| url.query_pairs().any(|(name, _)| name == "protocol")) {
        true => Err(wrong("there is no parameter \"protocol\"")),
        false => Ok(()),
    }
}

/// Refuses a parameter that would have no effect: a user who writes `?password=` expects one.
fn refuse_unknown(url: &str) -> Result<(), OpenError> {
    let Some(parsed) = redis::parse_redis_url(url) else { return Ok(()) };
    let known: &[&str] = match parsed.scheme().contains("unix") {
        true => &["db", "user", "pass"],
        false => &[],
    };
    match parsed.query_pairs().find(|(name, _)| !known.contains(&&**name)) {
        Some((name, _)) => Err(wrong(&format!("one server takes no parameter {name:?}"))),
        None => Ok(()),
    }
}

fn wrong(reason: &str) -> OpenError {
    OpenError::Config(format!("the URL of the server: {reason}"))
}

/// The parameters behind the `?`.
#[derive(Default)]
struct Parameters {
    master: Option<String>,
    user: Option<String>,
    password: Option<String>,
    /// The name of an unknown parameter.
    unknown: Option<String>,
    /// The name of the first parameter.
    first: Option<String>,
}

impl Parameters {
    fn of(url: &str) -> Result<Parameters, OpenError> {
        let mut found = Parameters::default();
        let Some(url) = redis::parse_redis_url(url) else { return Ok(found) };
        for (name, value) in url.query_pairs() {
            found.first.get_or_insert_with(|| name.to_string());
            let place = match &*name {
                "master" => &mut found.master,
                "sentinel_user" => &mut found.user,
                "sentinel_password" => &mut found.password,
                _ => {
                    found.unknown = Some(name.into_owned());
                    continue;
                }
            };
            if place.replace(value.into_owned()).is_some() {
                return Err(wrong(&format!("the parameter {name:?} is there twice")));
            }
        }
        Ok(found)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn addresses(url: &str) -> Vec<String> {
        parse(url).unwrap().addresses.iter().map(Endpoint::name).collect()
    }

    fn refused(url: &str) -> String {
        match parse(url) {
            Err(OpenError::Config(reason)) => reason,
            Err(other) => panic!("{url}: {other:?}"),
            Ok(_) => panic!("{url} is taken"),
        }
    }

    /// A URL of every form yields its addresses, with the usual port where it names none.
    #[test]
    fn url_names_its_addresses_in_every_form() {
        let forms: [(&str, &[&str]); 7] = [
            ("redis://a/3", &["a:6379"]),
            ("redis-cluster://a", &["a:6379"]),
            ("redis-cluster://a:1,b,c:3", &["a:1", "b:6379", "c:3"]),
            ("redis-cluster://u:p@a:1,[::1]:2,[fe80::1]/", &["a:1", "[::1]:2", "[fe80::1]:6379"]),
            ("redis-cluster://:p%40%2C%2F@10.0.0.1:1/0", &["10.0.0.1:1"]),
            ("redis-sentinel://a,b:7/2?master=m", &["a:26379", "b:7"]),
            ("redis-sentinel://[::1],[::2]:7?master=m", &["[::1]:26379", "[::2]:7"]),
        ];
        for (url, wanted) in forms {
            assert_eq!(addresses(url), wanted, "{url}");
        }
    }

    /// The user and password of a URL go to the servers alone, and those of its `sentinel_` parameters to the
    /// sentinels alone.
    #[test]
    fn logins_of_a_url_go_to_the_servers_or_to_the_sentinels() {
        let of = |login: &RedisConnectionInfo| {
            let text = |text: Option<&str>| text.unwrap_or("-").to_owned();
            format!("{} {} {}", text(login.username()), text(login.password()), login.db())
        };
        let parsed = parse("redis-cluster://u:p%40,@a,b").unwrap();
        for address in &parsed.addresses {
            assert_eq!(of(address.login()), "u p@, 0");
        }
        let url = "redis-sentinel://u:p@a,b/5?master=m+y&sentinel_user=s&sentinel_password=q%26%2F";
        let parsed = parse(url).unwrap();
        for address in &parsed.addresses {
            assert_eq!(of(address.login()), "s q&/ 0");
        }
        let AddressRole::Sentinel { master, login } = parsed.way else { panic!("no sentinels") };
        assert_eq!((&*master, &*of(&login)), ("m y", "u p 5"));
        let parsed = parse("redis-sentinel://:p@a?master=m").unwrap();
        assert_eq!(of(parsed.addresses[0].login()), "- - 0");
    }

    /// A malformed URL is refused with the reason, and the error does not contain its password.
    #[test]
    fn url_that_is_malformed_is_refused_without_its_password() {
        let malformed = [
            ("redis-cluster://", "host 1 is empty"),
            ("redis-cluster://u:secret@", "host 1 is empty"),
            ("redis-cluster://:secret@a,,b", "host 2 is empty"),
            ("redis-cluster://:secret@a,b:70000", "host 2: "),
            ("redis-cluster://:secret@a,b:x", "host 2: "),
            ("redis-cluster://user:secret", "host 1: "),
            ("redis-cluster://:secret@a,[::1", "host 2: "),
            ("redis-cluster://:secret@a/1", "no database but 0"),
            ("redis-cluster://:secret@a/x", "database"),
            ("redis-cluster://:secret@a?master=m", "no parameter \"master\""),
            ("redis-cluster://a?sentinel_password=secret", "no parameter \"sentinel_password\""),
            ("redis-cluster://a?timeout=secret", "no parameter \"timeout\""),
            ("redis-sentinel://:secret@a,b", "\"master\" is missing"),
            ("redis-sentinel://:secret@a,b?master=", "\"master\" is missing"),
            ("redis-sentinel://:secret@?master=m", "host 1 is empty"),
            ("redis-sentinel://a/x?master=m", "database"),
            ("redis-sentinel://a?master=m&master=n", "\"master\" is there twice"),
            ("redis-sentinel://a?master=m&sentinel_pass=secret", "no parameter \"sentinel_pass\""),
            ("redis-sentinel://a?master=m&sentinel_user=u", "needs a \"sentinel_password\""),
            ("redis-sentinels://:secret@a", "did not parse"),
            ("redis://:secret@a?protocol=secret", "no parameter \"protocol\""),
            ("redis-cluster://:secret@a?protocol=secret", "no parameter \"protocol\""),
            ("redis-sentinel://a?master=m&protocol=secret", "no parameter \"protocol\""),
            ("redis://a?password=secret", "no parameter \"password\""),
            ("unix:///s?password=secret", "no parameter \"password\""),
            ("redis://:secret@a/-1", "numbered from 0 on"),
            ("redis-sentinel://:secret@a,b/-1?master=m", "host 1: databases are numbered"),
            ("unix:///s?db=-1&pass=secret", "numbered from 0 on"),
            ("a,b", "did not parse"),
        ];
        for (url, wanted) in malformed {
            let reason = refused(url);
            assert!(reason.contains(wanted), "{url}: {reason}");
            assert!(!reason.contains("secret"), "{reason}");
        }
    }

    /// A server that a cluster or a sentinel names is reached by TLS if the URL asks for TLS.
    #[cfg(feature = "redis-tls")]
    #[test]
    fn tls_is_used_for_every_server_that_a_tls_url_leads_to() {
        for url in ["rediss-cluster://a,b", "rediss-sentinel://a,b?master=m"] {
            for address in parse(url).unwrap().addresses {
                let found = address.at("c".to_owned(), 1);
                assert!(address.is_tls() && found.is_tls(), "{url}");
            }
        }
    }

    /// A URL with TLS is refused, and the error names TLS, if the feature is off.
    #[cfg(not(feature = "redis-tls"))]
    #[test]
    fn tls_needs_its_feature() {
        for url in ["rediss-cluster://a", "rediss-sentinel://a?master=m", "rediss://a"] {
            assert!(refused(url).contains("TLS"), "{url}");
        }
    }
}
