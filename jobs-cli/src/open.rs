//! Opens an existing store: a file, or a queue on a Redis server, whose URL is read as a user writes it.
//!
//! Ground rules:
//!
//! - `Jobs::open` makes a file and the tables of a queue that are absent, and the first insert makes a queue on a
//!   server. So the command calls them only after it has seen the queue.
//! - No password is printed. Of a URL only the scheme is printed, since any other part may have a password in it: one
//!   without its `@` looks like a host.
//! - A connection to a file that can only read first checks that the file has the tables of the queue, because
//!   `Jobs::open` would make them.
//! - If SQLite cannot read the file, `Jobs::open` reports why.
//! - A user who may only read the file must not make files beside it: the application could not write to them.
//! - `StoreUrl` of the library decides whether a text is a URL, so the command opens the same stores as
//!   `Jobs::connect`.

use core::fmt;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::{fs, io};

use tickwheel_jobs::rusqlite::{self, Connection, OpenFlags};
use tickwheel_jobs::{Builder, Client, Durability, Jobs, OpenError, StoreUrl};

use crate::Answer;
#[cfg(feature = "redis")]
use crate::open_server;

#[derive(Clone, Debug)]
pub(crate) enum Target {
    File(PathBuf),
    Server(ServerUrl),
    /// A URL that names no store.
    Wrong(ServerUrl, OpenError),
}

impl From<OsString> for Target {
    fn from(text: OsString) -> Target {
        let Some(url) = StoreUrl::parse(&text.to_string_lossy()) else {
            return Target::File(text.into());
        };
        let server = ServerUrl(url.as_str().to_owned());
        if text.to_str().is_none() {
            let reason = "the URL of the store is not UTF-8".to_owned();
            return Target::Wrong(server, OpenError::Config(reason));
        }
        match url.file() {
            Ok(Some(path)) => Target::File(path),
            Ok(None) => Target::Server(server),
            Err(error) => Target::Wrong(server, error),
        }
    }
}

impl Target {
    /// Returns the path, or of a URL the part that may be printed.
    pub(crate) fn printable(&self) -> String {
        match self {
            Target::File(path) => path.display().to_string(),
            Target::Server(url) | Target::Wrong(url, _) => url.printable(),
        }
    }

    /// Returns an argument of the command line as a URL, if it is the URL of this store, or certainly one.
    pub(crate) fn url_of(&self, argument: &str) -> Option<ServerUrl> {
        let own = match self {
            Target::Server(own) | Target::Wrong(own, _) => Some(own),
            Target::File(_) => None,
        };
        let url = ServerUrl::of_store(argument).filter(|url| own == Some(url));
        url.or_else(|| ServerUrl::parse(argument))
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Access {
    /// The command changes nothing, so it needs no right to write.
    Look,
    Change(Durability),
}

pub(crate) struct Place {
    /// The path, or the address of the server.
    pub(crate) name: String,
    pub(crate) queue: Option<String>,
    /// The file or server has a default queue.
    pub(crate) has_default: bool,
    /// All queues of the file or server but the default one.
    pub(crate) queues: Vec<String>,
    pub(crate) sizes: Sizes,
}

#[derive(Clone, Copy)]
pub(crate) enum Sizes {
    File {
        file: u64,
        log: u64,
    },
    #[cfg(feature = "redis")]
    Server(Option<u64>),
}

/// A queue, `None` for the default one, and a client of it.
pub(crate) type Queue = (Option<String>, Client);

/// Returns every queue of the file or server, the default one first.
pub(crate) fn queues(target: &Target, password_file: Option<&Path>) -> Answer<Vec<Queue>> {
    match target {
        Target::File(path) if password_file.is_none() => all_queues_of_file(path),
        #[cfg(feature = "redis")]
        Target::Server(url) => open_server::all_queues(&with_password(url, password_file)?),
        // The reasons are those of a single queue.
        _ => Ok(vec![(None, client(target, password_file, None, Access::Look)?.0)]),
    }
}

pub(crate) fn client(
    target: &Target,
    password_file: Option<&Path>,
    queue: Option<&str>,
    access: Access,
) -> Answer<(Client, Place)> {
    match target {
        Target::File(_) if password_file.is_some() => {
            Err("--store-password-file: only a server has a password".into())
        }
        Target::File(path) => client_of_file(path, queue, access),
        #[cfg(feature = "redis")]
        Target::Server(url) => open_server::client(&with_password(url, password_file)?, queue),
        #[cfg(not(feature = "redis"))]
        Target::Server(_) => {
            Err("this command was built without the feature `redis`, so it reads files only".into())
        }
        Target::Wrong(_, error) => Err(error.clone().into()),
    }
}

const PREFIX: &str = "tickwheel_";
const TABLES: &str = "SELECT name FROM sqlite_schema \
     WHERE type = 'table' AND (name = 'tickwheel_meta' OR name GLOB 'tickwheel_?*__meta') ORDER BY name";

pub(crate) fn client_of_file(
    file: &Path,
    queue: Option<&str>,
    access: Access,
) -> Answer<(Client, Place)> {
    if let Err(error) = fs::metadata(file) {
        return Err(format!("{}: {error}", file.display()).into());
    }
    if may_only_read_alone(file) {
        let reason = "this user may only read it, and no application has it open";
        return Err(format!("{}: {reason}", file.display()).into());
    }
    let found = queues_of_file(file);
    if let Ok(queues) = &found
        && !queues.contains(&queue.map(str::to_owned))
    {
        return Err(absent(file, queue, queues).into());
    }
    let builder = match access {
        Access::Look => Jobs::open_to_look(file)?,
        Access::Change(durability) => Jobs::open(file)?.durability(durability),
    };
    let client = of_queue(builder, queue)?;
    let found = found?;
    let has_default = found.contains(&None);
    let queues = found.into_iter().flatten().collect();
    let (name, queue) = (file.display().to_string(), queue.map(str::to_owned));
    Ok((client, Place { name, queue, has_default, queues, sizes: sizes(file) }))
}

pub(crate) fn of_queue(builder: Builder, queue: Option<&str>) -> Answer<Client> {
    let builder = match queue {
        Some(queue) => builder.queue(queue),
        None => builder,
    };
    Ok(builder.client()?)
}

pub(crate) fn all_queues_of_file(file: &Path) -> Answer<Vec<Queue>> {
    // A file that cannot be read has no list: the client of the default queue says why.
    let mut names = match fs::metadata(file).is_ok() && !may_only_read_alone(file) {
        true => queues_of_file(file).unwrap_or_default(),
        false => Vec::new(),
    };
    if names.is_empty() {
        names.push(None);
    }
    names.sort_unstable();
    let open = |name: Option<String>| {
        let (client, _) = client_of_file(file, name.as_deref(), Access::Look)?;
        Ok((name, client))
    };
    names.into_iter().map(open).collect()
}

/// Says whether this user may only read the file, and no application has it open.
fn may_only_read_alone(file: &Path) -> bool {
    may_only_read(file) && !beside(file, "-shm").exists()
}

/// Says whether this user may not write to the file. It must be called before this process has a connection to
/// the file: closing the descriptor would drop the connection's locks.
fn may_only_read(file: &Path) -> bool {
    let opened = fs::File::options().write(true).open(file);
    opened.is_err_and(|error| error.kind() == io::ErrorKind::PermissionDenied)
}

/// Returns the queues of a file: `None` is the default one.
fn queues_of_file(file: &Path) -> rusqlite::Result<Vec<Option<String>>> {
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    // The path is made absolute, since a relative one might begin with "file:".
    let path = std::path::absolute(file).unwrap_or_else(|_| file.to_owned());
    let conn = Connection::open_with_flags(path, flags)?;
    let mut statement = conn.prepare(TABLES)?;
    let tables = statement.query_map([], |row| row.get::<_, String>(0))?;
    let queue = |table: String| {
        let rest = table.strip_prefix(PREFIX);
        rest.and_then(|rest| rest.strip_suffix("__meta")).map(str::to_owned)
    };
    tables.map(|table| table.map(queue)).collect()
}

fn absent(file: &Path, queue: Option<&str>, queues: &[Option<String>]) -> String {
    let file = file.display();
    let Some(queue) = queue else {
        return format!("{file} is no store of jobs: an SQLite database without tables of jobs");
    };
    let name = |queue: &Option<String>| match queue {
        None => "the default one".to_owned(),
        Some(queue) => format!("{queue:?}"),
    };
    let queues: Vec<String> = queues.iter().map(name).collect();
    let has = if queues.is_empty() { "none".to_owned() } else { queues.join(", ") };
    format!("{file} has no queue {queue:?}; it has {has}")
}

fn sizes(file: &Path) -> Sizes {
    let size = |path: &Path| fs::metadata(path).map_or(0, |file| file.len());
    Sizes::File { file: size(file), log: size(&beside(file, "-wal")) }
}

/// Returns the path of a file that SQLite keeps beside the database: beside the target of symbolic links.
fn beside(file: &Path, suffix: &str) -> PathBuf {
    let file = fs::canonicalize(file).unwrap_or_else(|_| file.to_owned());
    let mut path = file.into_os_string();
    path.push(suffix);
    path.into()
}

pub(crate) const PASSWORD_VARIABLE: &str = "TICKWHEEL_STORE_PASSWORD";

/// The schemes of a socket in the file system. Their URLs have the password as a parameter.
const SOCKETS: [&str; 3] = ["unix", "redis+unix", "valkey+unix"];

#[derive(Clone, PartialEq, Eq)]
pub(crate) struct ServerUrl(String);

impl ServerUrl {
    /// Returns the text as a URL if it would be one in the place of the store.
    pub(crate) fn of_store(text: &str) -> Option<ServerUrl> {
        StoreUrl::parse(text).map(|url| ServerUrl(url.as_str().to_owned()))
    }

    /// Returns the text as a URL if it is one in any place. The key of a job is no URL, although it may look like a host
    /// with a password (`user:ann@example.com`).
    pub(crate) fn parse(text: &str) -> Option<ServerUrl> {
        let is_url = |url: &StoreUrl| !url.scheme().is_empty() || url.as_str().contains("//");
        StoreUrl::parse(text).filter(is_url).map(|url| ServerUrl(url.as_str().to_owned()))
    }

    /// Returns the whole URL, for the library only.
    #[cfg(feature = "redis")]
    pub(crate) fn as_str(&self) -> &str {
        &self.0
    }

    pub(crate) fn printable(&self) -> String {
        let url = StoreUrl::parse(&self.0);
        format!("{}:..", url.as_ref().map_or("", StoreUrl::scheme))
    }

    /// Returns the URL with this password, or `None` if it has one already.
    pub(crate) fn with_password(&self, password: &str) -> Option<ServerUrl> {
        let (scheme, rest) = self.0.split_once(':').unwrap_or(("", &self.0));
        let password = percent_encoded(password);
        if SOCKETS.iter().any(|socket| scheme.eq_ignore_ascii_case(socket)) {
            let rest = rest.split('#').next().unwrap_or_default();
            let (path, query) = rest.split_once('?').unwrap_or((rest, ""));
            if query.split('&').any(|pair| pair.starts_with("pass=")) {
                return None;
            }
            let and = if query.is_empty() { "" } else { "&" };
            return Some(ServerUrl(format!("{scheme}:{path}?{query}{and}pass={password}")));
        }
        let rest = rest.strip_prefix("//").unwrap_or(rest);
        let (authority, tail) = rest.split_at(rest.find(['/', '?', '#']).unwrap_or(rest.len()));
        let (login, hosts) = authority.rsplit_once('@').unwrap_or(("", authority));
        let (user, has_password) = match login.split_once(':') {
            Some((user, password)) => (user, !password.is_empty()),
            None => (login, false),
        };
        let with = || ServerUrl(format!("{scheme}://{user}:{password}@{hosts}{tail}"));
        (!has_password).then(with)
    }
}

/// Returns the URL with the password from the file, or else from the environment. If the URL has its own password,
/// a file is an error, since the user gave both; the environment is ignored, since it is set for every call.
pub(crate) fn with_password(url: &ServerUrl, file: Option<&Path>) -> Answer<ServerUrl> {
    if let Some(file) = file {
        let text = std::fs::read_to_string(file);
        let text = text.map_err(|error| format!("{}: {error}", file.display()))?;
        let password = text.strip_suffix('\n').unwrap_or(&text);
        let password = password.strip_suffix('\r').unwrap_or(password);
        if password.is_empty() {
            return Err(format!("{} has no password in it", file.display()).into());
        }
        let given = url.with_password(password);
        return given
            .ok_or_else(|| "two passwords: in the URL, and in --store-password-file".into());
    }
    let Some(password) = std::env::var_os(PASSWORD_VARIABLE).filter(|text| !text.is_empty()) else {
        return Ok(url.clone());
    };
    let Ok(password) = password.into_string() else {
        return Err(format!("{PASSWORD_VARIABLE} is not UTF-8").into());
    };
    Ok(url.with_password(&password).unwrap_or_else(|| url.clone()))
}

fn percent_encoded(text: &str) -> String {
    let encoded = text.bytes().map(|byte| match byte.is_ascii_alphanumeric() {
        true => char::from(byte).to_string(),
        false => format!("%{byte:02X}"),
    });
    encoded.collect()
}

impl fmt::Debug for ServerUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.printable())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The command prints only the scheme of a URL, so it prints no password. The URL of a file becomes a path.
    #[test]
    fn url_is_printed_without_the_rest() {
        for text in [
            "redis://:secret@h",
            "redsi://:secret@h",
            "redis:secret@h",
            "unix:/s?pass=secret",
            "'redis://:secret@h'",
            "redis//:secret@h",
            "redis//secret@h",
        ] {
            let url = ServerUrl::parse(text).unwrap_or_else(|| panic!("{text} is no URL"));
            assert!(!format!("{url:?} {}", url.printable()).contains("secret"), "{url:?}");
        }
        assert_eq!(ServerUrl::parse("shop.db"), None);
        assert_eq!(ServerUrl::parse("user:ann@example.com"), None);
        assert!(matches!(Target::from(OsString::from("u:secret@h")), Target::Wrong(..)));
        assert!(
            matches!(Target::from(OsString::from("file:a%20b")), Target::File(path) if path == Path::new("a b"))
        );
        assert!(matches!(Target::from(OsString::from("redsi://h")), Target::Wrong(..)));
    }

    /// A separate password is put into the URL where `redis` reads it. It is refused if the URL has a password
    /// already.
    #[test]
    fn password_is_put_into_the_url_where_redis_rs_reads_it() {
        let with = |url: &str| {
            let url = ServerUrl::parse(url).unwrap().with_password("a/@:+ é");
            url.map(|url| url.0.replace("a%2F%40%3A%2B%20%C3%A9", "PASSWORD"))
        };
        let cases = [
            ("redis://h", "redis://:PASSWORD@h"),
            ("redis://h:1/2?protocol=3", "redis://:PASSWORD@h:1/2?protocol=3"),
            ("redis://user@h", "redis://user:PASSWORD@h"),
            ("redis://user:@h/1", "redis://user:PASSWORD@h/1"),
            ("rediss-cluster://u@a:1,b:2", "rediss-cluster://u:PASSWORD@a:1,b:2"),
            ("redis-sentinel://a,b/3?master=m", "redis-sentinel://:PASSWORD@a,b/3?master=m"),
            ("unix:///s", "unix:///s?pass=PASSWORD"),
            ("unix:///s?db=1", "unix:///s?db=1&pass=PASSWORD"),
        ];
        for (url, wanted) in cases {
            assert_eq!(with(url).as_deref(), Some(wanted));
        }
        for url in ["redis://:p@h", "redis-cluster://u:p@a,b", "unix:///s?db=1&pass=p"] {
            assert_eq!(with(url), None, "{url}");
        }
    }
}
