//! The stores that the model of the claims tests.

use std::time::Duration;

use super::AHEAD;
#[cfg(feature = "redis")]
use super::server;
use crate::store::Store;
use crate::store::memory::Memory;
#[cfg(feature = "sqlite-unbundled")]
use crate::store::sqlite::{Sqlite, open::Location};

/// Which store is tested.
#[derive(Clone)]
pub(super) enum Place {
    Memory,
    #[cfg(feature = "sqlite-unbundled")]
    File(Location),
    #[cfg(feature = "redis")]
    Server(server::Queue),
}

impl Place {
    /// Opens the store. It keeps dead jobs for this long.
    pub(super) fn open(&self, keep_dead: Duration) -> Box<dyn Store> {
        match self {
            Place::Memory => Box::new(Memory::new(keep_dead, false)),
            #[cfg(feature = "sqlite-unbundled")]
            Place::File(location) => {
                let mut location = location.clone();
                location.history = false;
                location.keep_dead = keep_dead;
                let conn = location.open().unwrap();
                Box::new(Sqlite::new(location, conn, true, None))
            }
            #[cfg(feature = "redis")]
            Place::Server(queue) => queue.open(keep_dead),
        }
    }

    /// Says whether several processes share the store: it reads the limits by itself, claims nothing ahead, and a claim
    /// outlasts its process by its lease.
    pub(super) fn is_shared(&self) -> bool {
        match self {
            Place::Memory => false,
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
