//! Why a run should stop.

/// Why a run should stop.
#[non_exhaustive]
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Cancellation {
    /// The program shuts down. The end of the run counts if it comes within the shutdown's limit. A handler
    /// that cannot end by then returns [`Fail::interrupted`](crate::Fail::interrupted): another process, or the
    /// next start, runs the job again at once.
    Shutdown = 1,
    /// The job was cancelled. It is gone when the run has ended, even if the handler fails.
    Requested = 2,
    /// The run has reached the [time limit](crate::Builder::time_limit) of its kind. If its handler returns
    /// within the grace, its end counts, and [`Fail::interrupted`](crate::Fail::interrupted) is a failure. After
    /// the grace the run has failed, and the end of its handler does not count.
    TimeLimit = 3,
    /// The lease was lost: another process may run the job by now. The end of this run does not count.
    LeaseLost = 4,
}

impl Cancellation {
    /// Returns the reason with this number.
    pub(crate) fn of(number: u8) -> Option<Cancellation> {
        let all = [
            Cancellation::Shutdown,
            Cancellation::Requested,
            Cancellation::TimeLimit,
            Cancellation::LeaseLost,
        ];
        all.into_iter().find(|why| *why as u8 == number)
    }
}
