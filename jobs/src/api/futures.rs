//! Handlers that are futures: how one is registered, on which runtime they run, and how many at once.

use tokio::runtime::Handle;

use super::builder::Builder;
use crate::dispatch::handlers::{Called, Handler};
use crate::dispatch::run::Run;
use crate::values::fail::Fail;
use crate::values::job::Job;
use crate::values::retry::Retry;

impl Builder {
    /// Handles the jobs of a kind with a future, on a tokio runtime. With feature `tokio`.
    ///
    /// The handler is a closure that returns a future, an async closure, or the name of an `async fn`. What it
    /// needs beside the job it captures, or asks its run for: [`Builder::state`]. The runtime is that of
    /// [`Builder::runtime`], or else the one that [`Builder::start`] is called in.
    ///
    /// `Ok` ends the job. An error fails the run: see [`Fail`]. So does a panic, as an error. The future counts
    /// as in flight until it ends, and holds no thread: [`Builder::max_async_runs`] bounds how many there are.
    /// A runtime that is shut down drops it: its job is tried again then, by the policy.
    ///
    /// ```
    /// use std::time::Duration;
    /// use serde::{Deserialize, Serialize};
    /// use tickwheel_jobs::{Fail, Job, Jobs, Run};
    ///
    /// #[derive(Serialize, Deserialize)]
    /// struct Mail {
    ///     to: String,
    /// }
    /// impl Job for Mail {
    ///     const KIND: &'static str = "mail";
    /// }
    ///
    /// async fn send(mail: Mail, run: Run) -> Result<(), Fail> {
    ///     println!("to {}, as {}", mail.to, run.id());
    ///     Ok(())
    /// }
    ///
    /// #[tokio::main]
    /// async fn main() -> Result<(), Box<dyn std::error::Error>> {
    ///     let jobs = Jobs::memory().handle_async(send).start()?; // on the runtime of `main`
    ///     jobs.insert_async(Duration::from_millis(1), Mail { to: "ann".to_owned() }).await?;
    ///     jobs.shutdown_async().await?;
    ///     Ok(())
    /// }
    /// ```
    #[doc(alias("on_async", "register", "worker", "process", "consumer", "spawn"))]
    pub fn handle_async<J, F, Fut>(self, handler: F) -> Builder
    where
        J: Job,
        F: Fn(J, Run) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<(), Fail>> + Send + 'static,
    {
        self.add_async(None, handler)
    }

    /// The same as [`Builder::handle_async`], with a policy of its own for failed runs.
    #[doc(alias("on_async_with"))]
    pub fn handle_async_with<J, F, Fut>(self, retry: Retry, handler: F) -> Builder
    where
        J: Job,
        F: Fn(J, Run) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<(), Fail>> + Send + 'static,
    {
        self.add_async(Some(retry), handler)
    }

    fn add_async<J, F, Fut>(mut self, retry: Option<Retry>, handler: F) -> Builder
    where
        J: Job,
        F: Fn(J, Run) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<(), Fail>> + Send + 'static,
    {
        let call = move |payload: &[u8], run: Run| match J::decode(payload) {
            Ok(job) => Called::Future(Box::pin(handler(job, run))),
            Err(error) => Called::Undecodable(error),
        };
        self.handlers.add(J::KIND, Handler { call: Box::new(call), retry, is_async: true });
        self
    }

    /// Sets the runtime on which the handlers that are futures run. Unless it is set, it is the one that
    /// [`Builder::start`] or [`Builder::manual`] is called in; outside of any, the start is refused with
    /// [`OpenError::Config`](crate::OpenError::Config) if there is such a handler. With feature `tokio`.
    ///
    /// The runtime is the program's: it must live until [`Jobs::shutdown`](crate::Jobs::shutdown) has
    /// returned.
    pub fn runtime(mut self, runtime: Handle) -> Builder {
        self.handlers.runtime = Some(runtime);
        self
    }

    /// Limits how many runs of a kind whose handler is a future are under way at once, in this process: 64 of
    /// each such kind unless it is set. Zero is refused at the start. With feature `tokio`.
    ///
    /// Such a run holds no thread, so nothing else keeps a thousand due jobs from asking the same service at
    /// the same moment. More jobs of the kind wait in the store, where another process of a server may claim
    /// them, and keep no job of another kind back. Claimed jobs whose time comes within 50 ms are counted as
    /// well. [`Builder::max_in_flight`] bounds the runs of all kinds together.
    #[doc(alias("concurrency", "max_concurrent", "parallelism", "limit"))]
    pub fn max_async_runs(self, runs: usize) -> Builder {
        Builder { max_async_runs: runs, ..self }
    }
}
