//! The error of a follow-up that a run does not take.

use core::fmt;

/// Why a run does not take a follow-up: see [`Run::then`](crate::Run::then). The follow-ups that it has stay.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum FollowUpError {
    /// The run would have more than 255 follow-ups.
    TooMany,
    /// The follow-ups of the run would have payloads of more than 1 MiB.
    TooLarge,
    /// The run has ended, or has overrun its time limit.
    Ended,
}

impl fmt::Display for FollowUpError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            FollowUpError::TooMany => "a run has at most 255 follow-ups",
            FollowUpError::TooLarge => "the payloads of a run's follow-ups have at most 1 MiB",
            FollowUpError::Ended => "the run has ended, and takes no follow-up any more",
        })
    }
}

impl std::error::Error for FollowUpError {}
