//! The error of an end of a run in a transaction.

use core::fmt;

/// Why a run cannot end in a transaction: see `Run::end_in`.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum EndInError {
    /// The jobs are not on a file: they are in memory or on a server.
    NoFile,
    /// The transaction is on another file than the jobs.
    OtherFile {
        /// The file of the transaction, or "no file" for a database in memory.
        path: String,
    },
    /// The run has ended: in this transaction or an earlier one, because its handler has returned, or because it has
    /// overrun its time limit.
    Ended,
    /// The run has lost its claim: another process runs the jobs of the file now, or a shutdown did not wait for the
    /// run.
    ClaimLost,
}

impl fmt::Display for EndInError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            EndInError::NoFile => f.write_str("the jobs are not on a file"),
            EndInError::OtherFile { path } => {
                write!(f, "the transaction is on {path}, and not on the file of the jobs")
            }
            EndInError::Ended => f.write_str("the run has ended before"),
            EndInError::ClaimLost => f.write_str("the run has lost its claim"),
        }
    }
}

impl std::error::Error for EndInError {}
