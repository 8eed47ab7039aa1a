//! The stores that are compared with the store in memory: a file, and a queue of a server.

use std::time::Duration;

use super::AHEAD;
#[cfg(feature = "redis")]
use super::server;
use crate::store::Store;
#[cfg(feature = "sqlite-unbundled")]
use crate::store::sqlite::{Sqlite, open::Location};

/// Which store is compared.
pub(super) enum Place {
    #[cfg(feature = "sqlite-unbundled")]
    File(Location),
    #[cfg(feature = "redis")]
    Server(server::Queue),
}

impl Place {
    /// Opens the store. It keeps dead jobs for this long.
    #[cfg_attr(
        not(any(feature = "sqlite-unbundled", feature = "redis")),
        allow(unused_variables, reason = "no store is compared with memory")
    )]
    pub(super) fn open(&self, keep_dead: Duration) -> Box<dyn Store> {
        match *self {
            #[cfg(feature = "sqlite-unbundled")]
            Place::File(ref location) => {
                let mut location = location.clone();
                location.history = false;
                location.keep_dead = keep_dead;
                let conn = location.open().unwrap();
                Box::new(Sqlite::new(location, conn, true, None))
            }
            #[cfg(feature = "redis")]
            Place::Server(ref queue) => queue.open(keep_dead),
        }
    }

    /// Says whether several processes share the store: it reads the limits by itself, claims nothing ahead, and a claim
    /// outlasts its process by its lease.
    pub(super) fn is_shared(&self) -> bool {
        match *self {
            #[cfg(feature = "sqlite-unbundled")]
            Place::File(_) => false,
            #[cfg(feature = "redis")]
            Place::Server(_) => true,
        }
    }

    pub(super) fn ahead(&self) -> Duration {
        if self.is_shared() { Duration::ZERO } else { AHEAD }
    }
}
