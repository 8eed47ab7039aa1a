//! Where the jobs of a history are, by which names, and what a crash leaves there.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use tickwheel_jobs::{Builder, Durability, Jobs};

/// What kind of store a history runs on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Kind {
    Memory,
    File,
    /// A Redis server on this port.
    #[cfg(feature = "redis")]
    Server(u16),
    /// A cluster of nodes on these ports.
    #[cfg(feature = "redis")]
    Cluster([u16; 3]),
}

impl Kind {
    /// Returns how long before its time a job may be claimed there, in milliseconds.
    pub(crate) fn ahead(self) -> i64 {
        match self {
            Kind::Memory | Kind::File => 50,
            #[cfg(feature = "redis")]
            Kind::Server(_) | Kind::Cluster(_) => 0,
        }
    }
}

/// How a history's store is set up.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Setup {
    pub(crate) store: Kind,
    pub(crate) durability: Durability,
    pub(crate) in_flight: usize,
    /// In milliseconds.
    pub(crate) retention: i64,
    /// The queue of a file has a name.
    pub(crate) named: bool,
}

/// A store.
#[derive(Clone, Debug)]
pub(crate) enum Place {
    Memory,
    /// A file, and whether the queue has a name.
    File(PathBuf, bool),
    #[cfg(feature = "redis")]
    Queue(Nodes, String),
}

/// The port of a server, or those of a cluster.
#[cfg(feature = "redis")]
#[derive(Clone, Copy, Debug)]
pub(crate) enum Nodes {
    One(u16),
    Cluster([u16; 3]),
}

/// The name of a file's queue, if it has one.
const QUEUE: &str = "model";

static PLACES: AtomicU64 = AtomicU64::new(0);

/// Returns a number that no other store has.
pub(crate) fn number() -> u64 {
    PLACES.fetch_add(1, Ordering::Relaxed)
}

impl Place {
    /// Returns an empty store.
    pub(crate) fn new(kind: Kind, folder: &Path, named: bool) -> Place {
        match kind {
            Kind::Memory => Place::Memory,
            Kind::File => {
                std::fs::create_dir_all(folder).expect("a folder for the file");
                Place::File(folder.join("jobs.db"), named)
            }
            #[cfg(feature = "redis")]
            Kind::Server(port) => Nodes::One(port).empty(),
            #[cfg(feature = "redis")]
            Kind::Cluster(ports) => Nodes::Cluster(ports).empty(),
        }
    }

    pub(crate) fn is_memory(&self) -> bool {
        matches!(self, Place::Memory)
    }

    /// Says whether a claim of a process that crashed ends with its lease.
    pub(crate) fn has_leases(&self) -> bool {
        !matches!(self, Place::Memory | Place::File(..))
    }

    pub(crate) fn file(&self) -> Option<&Path> {
        match self {
            Place::File(path, _) => Some(path),
            _ => None,
        }
    }

    pub(crate) fn builder(&self) -> Builder {
        match self {
            Place::Memory => Jobs::memory(),
            Place::File(path, named) => {
                let builder = Jobs::open(path).expect("the file opens");
                if *named { builder.queue(QUEUE) } else { builder }
            }
            #[cfg(feature = "redis")]
            Place::Queue(nodes, queue) => {
                Jobs::redis(nodes.url()).expect("the server is there").queue(queue)
            }
        }
    }

    /// Returns the name of the queue. Empty: it has none.
    pub(crate) fn queue(&self) -> &str {
        match self {
            Place::File(_, true) => QUEUE,
            #[cfg(feature = "redis")]
            Place::Queue(_, queue) => queue,
            _ => "",
        }
    }

    /// Returns a copy of the store as it is: what a crash now leaves.
    pub(crate) fn copy(&self) -> Place {
        match self {
            Place::Memory => Place::Memory,
            Place::File(path, named) => Place::File(copy_of(path), *named),
            #[cfg(feature = "redis")]
            Place::Queue(nodes, queue) => {
                let copy = format!("model_{}", number());
                nodes.copy(queue, &copy);
                Place::Queue(*nodes, copy)
            }
        }
    }

    /// Returns where the next process finds a copy, once the process that has crashed is gone. A queue has its name
    /// again, because ids are made of it.
    pub(crate) fn recovered(&self, copy: Place) -> Place {
        match (self, copy) {
            #[cfg(feature = "redis")]
            (Place::Queue(nodes, queue), Place::Queue(_, copy)) => {
                let mut connection = nodes.connection(queue);
                for key in nodes.keys(queue) {
                    redis::cmd("DEL").arg(key).exec(&mut connection).expect("a key that is gone");
                }
                nodes.copy(&copy, queue);
                self.clone()
            }
            (_, copy) => copy,
        }
    }
}

#[cfg(feature = "redis")]
impl Nodes {
    /// Returns a queue on empty servers.
    fn empty(self) -> Place {
        let ports = match self {
            Nodes::One(port) => vec![port],
            Nodes::Cluster(ports) => ports.to_vec(),
        };
        for port in ports {
            redis::cmd("FLUSHALL").exec(&mut connection(port)).expect("an empty server");
        }
        Place::Queue(self, format!("model_{}", number()))
    }

    fn keys(self, queue: &str) -> Vec<String> {
        let mut keys = redis::cmd("KEYS");
        keys.arg(format!("tw:{{{queue}}}:*"));
        keys.query(&mut self.connection(queue)).expect("the keys of the queue")
    }

    fn copy(self, queue: &str, copy: &str) {
        let (mut from, mut to) = (self.connection(queue), self.connection(copy));
        for key in self.keys(queue) {
            let name = key.replace(&format!("{{{queue}}}"), &format!("{{{copy}}}"));
            let dump: Vec<u8> =
                redis::cmd("DUMP").arg(&key).query(&mut from).expect("the value of the key");
            let mut restore = redis::cmd("RESTORE");
            restore.arg(name).arg(0).arg(dump).exec(&mut to).expect("a copy");
        }
    }

    fn url(self) -> String {
        match self {
            Nodes::One(port) => format!("redis://127.0.0.1:{port}/"),
            Nodes::Cluster(ports) => crate::cluster_servers::url(&ports),
        }
    }

    /// Returns a connection to the server that has a queue.
    pub(crate) fn connection(self, queue: &str) -> redis::Connection {
        match self {
            Nodes::One(port) => connection(port),
            Nodes::Cluster(ports) => connection(crate::cluster_servers::owner(ports[0], queue)),
        }
    }
}

fn copy_of(path: &Path) -> PathBuf {
    let copy = path.with_file_name(format!("crashed-{}.db", number()));
    for suffix in ["", "-wal"] {
        let with = |path: &Path| PathBuf::from(format!("{}{suffix}", path.display()));
        let copied = std::fs::copy(with(path), with(&copy));
        assert!(copied.is_ok() || suffix == "-wal", "{copied:?}");
    }
    copy
}

#[cfg(feature = "redis")]
fn connection(port: u16) -> redis::Connection {
    let client = redis::Client::open(format!("redis://127.0.0.1:{port}/")).unwrap();
    client.get_connection().expect("the server is there")
}
