//! The invariant that a check found broken.

use core::fmt;

/// An invariant that does not hold, as [`check`](crate::Client::check) found it: which, and where.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Violation(pub(crate) String);

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Violation {}
