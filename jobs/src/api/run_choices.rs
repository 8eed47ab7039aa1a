//! The builder's choices about runs: their reports, and their time limits.

use std::sync::Arc;
use std::time::Duration;

use super::builder::Builder;
use crate::values::job::Job;
use crate::values::run_report::RunReport;

impl Builder {
    /// Sets the function that is called at the start and at the end of every run: for traces, logs and counters
    /// of your own. The counters of [`Stats::kinds`](crate::Stats::kinds) need no such function.
    ///
    /// - **The start** is reported before the handler is called, on the thread that is about to call it. The
    ///   function may make every call there. Its time is part of the run, and of the run's
    ///   [time limit](Builder::time_limit).
    /// - **The end** is reported after the commit that ends the run, on the dispatcher's thread, as an
    ///   [`Event`](crate::Event) is: the function must be short, and calls that would wait are refused there.
    ///   The end of a run that does not count is reported when that is known: the run lost its lease, a shutdown
    ///   waited for it no longer, or the jobs stopped. The outcome is then
    ///   [`Outcome::Interrupted`](crate::Outcome::Interrupted), and the handler may still be running. If that
    ///   happens while the start is being reported, the end follows on the thread of the start.
    ///
    /// The end of a run is reported after its start, and exactly once, also at a shutdown. No end is reported if
    /// the process ends before it. A panic of the function is caught, and the run goes on. No lock is held while
    /// the function runs, so it runs on several threads at once.
    ///
    /// On a manual clock ([`Builder::manual`](crate::Builder::manual)) the end is reported on the thread that
    /// makes the commit, where the function may make any call.
    ///
    /// ```
    /// use std::sync::{Arc, Mutex};
    /// use std::time::Duration;
    /// use serde::{Deserialize, Serialize};
    /// use tickwheel_jobs::{Fail, Job, Jobs};
    ///
    /// #[derive(Serialize, Deserialize)]
    /// struct Push(String);
    /// impl Job for Push {
    ///     const KIND: &'static str = "push";
    /// }
    ///
    /// let log = Arc::new(Mutex::new(Vec::new()));
    /// let lines = Arc::clone(&log);
    /// let (jobs, driver) = Jobs::memory()
    ///     .handle(|push: Push, _| Err(Fail::dead(format!("there is no user {}", push.0))))
    ///     .on_run(move |run| {
    ///         lines.lock().unwrap().push(match (run.outcome, &run.error) {
    ///             (None, _) => format!("{} begins", run.kind),
    ///             (Some(outcome), Some(error)) => format!("{} is {outcome}: {error}", run.kind),
    ///             (Some(outcome), None) => format!("{} is {outcome}", run.kind),
    ///         });
    ///     })
    ///     .manual()?;
    /// jobs.insert(Duration::ZERO, Push("ann".to_owned()))?;
    /// driver.advance(Duration::ZERO);
    /// assert_eq!(*log.lock().unwrap(), ["push begins", "push is dead: there is no user ann"]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[doc(alias("hook", "middleware", "callback", "trace", "telemetry"))]
    pub fn on_run(self, report: impl Fn(&RunReport) + Send + Sync + 'static) -> Builder {
        Builder { on_run: Some(Arc::new(report)), ..self }
    }

    /// Limits the time that a run of this kind may take, from its start on. By default there is no limit. Of two
    /// limits for one kind the last one counts.
    ///
    /// At the limit [`Run::is_cancelled`](crate::Run::is_cancelled) becomes true, and
    /// [`Run::cancellation`](crate::Run::cancellation) returns
    /// [`Cancellation::TimeLimit`](crate::Cancellation::TimeLimit). Then a grace begins, as long as
    /// [`Builder::lease`], on a file and in memory too. If the handler returns within the grace, its end counts,
    /// and [`Fail::interrupted`](crate::Fail::interrupted) is a failure.
    ///
    /// After the grace the run has failed with the error "took longer than 30s": the job is retried by its
    /// policy, or is dead. A thread cannot be stopped from outside, so the handler goes on. It keeps its slot of
    /// [`Builder::max_in_flight`] until it returns, and its end does not count. **The next run of the job may
    /// begin beside it.** If two runs of a job must not overlap, set no limit, or return when the run is
    /// cancelled.
    ///
    /// The start refuses a limit of zero, and one for a kind without a handler, with
    /// [`OpenError::Config`](crate::OpenError::Config).
    ///
    /// ```
    /// use std::time::Duration;
    /// use serde::{Deserialize, Serialize};
    /// use tickwheel_jobs::{Cancellation, Fail, Job, Jobs};
    ///
    /// #[derive(Serialize, Deserialize)]
    /// struct Import {
    ///     pages: u32,
    /// }
    /// impl Job for Import {
    ///     const KIND: &'static str = "import";
    /// }
    ///
    /// let jobs = Jobs::memory()
    ///     .time_limit::<Import>(Duration::from_secs(600))
    ///     .handle(|import: Import, run| {
    ///         for _page in 0..import.pages {
    ///             if run.cancellation() == Some(Cancellation::TimeLimit) {
    ///                 return Err(Fail::dead("too many pages for ten minutes"));
    ///             }
    ///         }
    ///         Ok(())
    ///     })
    ///     .start()?;
    /// # drop(jobs);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[doc(alias("timeout", "max_runtime", "deadline", "job_timeout"))]
    pub fn time_limit<J: Job>(mut self, limit: Duration) -> Builder {
        self.time_limits.push((J::KIND, limit));
        self
    }
}
