//! Why a Redis server cannot be used.

use core::fmt;

/// Why a Redis server cannot be used.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum ServerProblem {
    /// No connection, or no answer: the system's message.
    Unreachable(String),
    /// The server rejects the name or the password, or denies a right that the jobs need: its message.
    Denied(String),
    /// The program that answers is no Redis server: its answer.
    NotRedis(String),
    /// Its version is below 6.2.
    TooOld(String),
    /// It takes no writes, because it is a replica.
    ReadOnly,
    /// Its `maxmemory-policy` deletes keys when memory is full. It has to be `noeviction`.
    Evicts(String),
    /// Another version has laid out the keys of the queue in another way, so this version must not change them.
    Layout {
        /// The layout of the queue.
        found: String,
        /// The layout that this version knows.
        known: String,
    },
    /// Any other problem, for example no database of this number, or a server that is still loading: its
    /// message.
    Other(String),
}

impl fmt::Display for ServerProblem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ServerProblem::Unreachable(error) => write!(f, "the server cannot be reached: {error}"),
            ServerProblem::Denied(error) => write!(f, "the server denies access: {error}"),
            ServerProblem::NotRedis(found) => write!(f, "no Redis server answers there: {found}"),
            ServerProblem::TooOld(version) => {
                write!(f, "Redis {version} is too old: at least 6.2 is needed")
            }
            ServerProblem::ReadOnly => f.write_str("the server is a replica, and takes no writes"),
            ServerProblem::Evicts(policy) => write!(
                f,
                "maxmemory-policy is {policy}, so the server deletes jobs when its memory is full: \
                 it has to be noeviction"
            ),
            ServerProblem::Layout { found, known } => write!(
                f,
                "the queue has the layout {found}, and this program knows the layout {known}"
            ),
            ServerProblem::Other(error) => f.write_str(error),
        }
    }
}
