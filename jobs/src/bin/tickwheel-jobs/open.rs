//! Opens a store that is there: a file, or a queue on a Redis server.
//!
//! Ground rules:
//!
//! - What makes what is absent (`Jobs::open` a file and the tables of a queue, the first insert a
//!   queue on a server) is called only once the queue was seen.
//! - A password is printed nowhere, wherever it comes from: of a URL only the scheme is printed.

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

/// Where the jobs are said to be.
#[derive(Clone, Debug)]
pub(crate) enum Target {
    File(PathBuf),
    #[cfg_attr(not(feature = "redis"), expect(dead_code, reason = "no server is connected to"))]
    Server(ServerUrl),
    /// A URL that is no Unicode text, so no server's.
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

/// What a command does to the jobs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Access {
    /// It changes nothing, so it need not be allowed to write.
    Look,
    Change(Durability),
}

/// Where the jobs are.
pub(crate) struct Place {
    /// The path, or the address of the server.
    pub(crate) name: String,
    pub(crate) queue: Option<String>,
    /// The other queues that are there, without the default one.
    pub(crate) queues: Vec<String>,
    pub(crate) sizes: Sizes,
}

/// How much room the jobs take, in bytes.
#[derive(Clone, Copy)]
pub(crate) enum Sizes {
    File {
        file: u64,
        log: u64,
    },
    /// The memory of the queue, if the server says.
    #[cfg(feature = "redis")]
    Server(Option<u64>),
}

/// Returns a client of a queue that is there.
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
