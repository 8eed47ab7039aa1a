//! Opens an existing store: a file, or a queue on a Redis server.
//!
//! Ground rules:
//!
//! - `Jobs::open` makes a file and the tables of a queue that are absent, and the first insert makes a
//!   queue on a server. So the command calls them only after it has seen the queue.
//! - No password is printed. Of a URL only the scheme is printed, since any other part may have a password in it.

use std::error::Error;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

use tickwheel_jobs::{Client, Durability};

use crate::file;
#[cfg(feature = "redis")]
use crate::server;
use crate::url::ServerUrl;
#[cfg(feature = "redis")]
use crate::url::with_password;

/// The store that the command line names.
#[derive(Clone, Debug)]
pub(crate) enum Target {
    File(PathBuf),
    #[cfg_attr(not(feature = "redis"), expect(dead_code, reason = "no server is connected to"))]
    Server(ServerUrl),
    /// A URL that is not UTF-8, so no server has it.
    Unreadable,
}

impl From<OsString> for Target {
    fn from(text: OsString) -> Target {
        match ServerUrl::parse(&text.to_string_lossy()) {
            None => Target::File(text.into()),
            Some(_) if text.to_str().is_none() => Target::Unreadable,
            Some(url) => Target::Server(url),
        }
    }
}

/// How a command uses the jobs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Access {
    /// The command changes nothing, so it needs no right to write.
    Look,
    Change(Durability),
}

/// Where the jobs are.
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

/// The size of the store, in bytes.
#[derive(Clone, Copy)]
pub(crate) enum Sizes {
    File {
        file: u64,
        log: u64,
    },
    /// The memory of the queue, if the server tells it.
    #[cfg(feature = "redis")]
    Server(Option<u64>),
}

/// A queue, `None` for the default one, and a client of it.
pub(crate) type Queue = (Option<String>, Client);

/// Returns every queue of the file or server, the default one first.
pub(crate) fn queues(
    target: &Target,
    password_file: Option<&Path>,
) -> Result<Vec<Queue>, Box<dyn Error>> {
    match target {
        Target::File(path) if password_file.is_none() => file::all_queues(path),
        #[cfg(feature = "redis")]
        Target::Server(url) => server::all_queues(&with_password(url, password_file)?),
        // The reasons are those of a single queue.
        _ => Ok(vec![(None, client(target, password_file, None, Access::Look)?.0)]),
    }
}

/// Returns a client of an existing queue.
pub(crate) fn client(
    target: &Target,
    password_file: Option<&Path>,
    queue: Option<&str>,
    access: Access,
) -> Result<(Client, Place), Box<dyn Error>> {
    match target {
        Target::File(_) if password_file.is_some() => {
            Err("--store-password-file: only a server has a password".into())
        }
        Target::File(path) => file::client(path, queue, access),
        #[cfg(feature = "redis")]
        Target::Server(url) => server::client(&with_password(url, password_file)?, queue),
        #[cfg(not(feature = "redis"))]
        Target::Server(_) => {
            Err("this command was built without the feature `redis`, so it reads files only".into())
        }
        Target::Unreadable => Err("the URL of the server is not UTF-8".into()),
    }
}
