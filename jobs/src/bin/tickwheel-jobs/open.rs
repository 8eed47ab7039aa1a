//! Opens a store that is there: a file, or a queue on a Redis server.
//!
//! Ground rules:
//!
//! - What makes what is absent (`Jobs::open` a file and the tables of a queue, the first insert a
//!   queue on a server) is called only once the queue was seen.
//! - A password in a URL is printed nowhere.

use std::error::Error;
use std::ffi::OsString;
use std::path::PathBuf;

use tickwheel_jobs::{Client, Durability};

use crate::file;
#[cfg(feature = "redis")]
use crate::server;

/// Where the jobs are said to be.
#[derive(Clone, Debug)]
pub(crate) enum Target {
    File(PathBuf),
    /// The URL of a server.
    Server(String),
}

/// How a URL of a server begins.
const URLS: [&str; 6] = [
    "redis://",
    "rediss://",
    "redis-cluster://",
    "rediss-cluster://",
    "redis-sentinel://",
    "rediss-sentinel://",
];

impl From<OsString> for Target {
    fn from(text: OsString) -> Target {
        let is_url = |url: &str| URLS.iter().any(|head| url.starts_with(head));
        match text.into_string() {
            Ok(url) if is_url(&url) => Target::Server(url),
            Ok(path) => Target::File(path.into()),
            Err(path) => Target::File(path.into()),
        }
    }
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
    queue: Option<&str>,
    durability: Durability,
) -> Result<(Client, Place), Box<dyn Error>> {
    match target {
        Target::File(path) => file::client(path, queue, durability),
        #[cfg(feature = "redis")]
        Target::Server(url) => server::client(url, queue),
        #[cfg(not(feature = "redis"))]
        Target::Server(_) => {
            Err("this command was built without the feature `redis`, so it reads files only".into())
        }
    }
}
