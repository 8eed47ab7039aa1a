//! Why a Redis server cannot be used.

use core::fmt;

/// Why a Redis server cannot be used.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum ServerProblem {
    /// No connection, or no answer: what the system said.
    Unreachable(String),
    /// The server wants another name or password, or does not allow what is needed: what it said.
    Denied(String),
    /// What answers there is no Redis server: what it said.
    NotRedis(String),
    /// Its version is below 6.2.
    TooOld(String),
    /// It takes no writes, because it is a replica.
    ReadOnly,
    /// Its `maxmemory-policy` deletes keys when memory is full. It has to be `noeviction`.
    Evicts(String),
    /// It has no database of this number, or is still loading: what it said.
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
            ServerProblem::Other(error) => f.write_str(error),
        }
    }
}
