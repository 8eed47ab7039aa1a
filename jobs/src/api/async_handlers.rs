//! Handlers that are futures: their registration, their runtime, and their limit.

use tokio::runtime::Handle;

use super::builder::Builder;
use crate::dispatch::handlers::{Call, Called, Handler};
use crate::dispatch::run::Run;
use crate::values::fail::Fail;
use crate::values::job::Job;
use crate::values::retry::Retry;

impl Builder {
    /// Sets a future as the handler of a kind. It runs on a tokio runtime. With feature `tokio`. The data of the job
    /// are decoded on a thread of the jobs. What a closure does before it returns its future runs there too: do not
    /// block there, and do not call `tokio::spawn` outside of the future.
    ///
    /// The handler is a closure that returns a future, an async closure, or the name of an `async fn`. It
    /// captures the values that it needs beside the job, or gets them from its run: [`Builder::state`]. The
    /// runtime is that of [`Builder::runtime`], or else the one that [`Builder::start`] is called in.
    ///
    /// `Ok` completes the job. An error or a panic fails the run: see [`Fail`]. The run is in flight until the
    /// future ends, and holds no thread: [`Builder::max_async_runs`] limits the number of such runs. If the
    /// runtime is shut down, it drops the future: the run fails, and its job is retried by the policy.
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

    /// The same as [`Builder::handle_async`], with a retry policy for this kind.
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
        let (call, flow) = (Call::One(Box::new(call)), J::FLOW);
        self.handlers.add(J::KIND, Handler { call, retry, flow, is_async: true });
        self
    }

    /// Sets the runtime of the handlers that are futures. The default is the one in which [`Builder::start`] or
    /// [`Builder::manual`] is called. If there is none and a handler is a future, the start is refused with
    /// [`OpenError::Config`](crate::OpenError::Config). With feature `tokio`.
    ///
    /// The runtime is the program's: it must live until [`Jobs::shutdown`](crate::Jobs::shutdown) has
    /// returned.
    pub fn runtime(mut self, runtime: Handle) -> Builder {
        self.handlers.runtime = Some(runtime);
        self
    }

    /// Limits the runs of each kind whose handler is a future, in this process. The default is 64 of each such
    /// kind. The start refuses zero. With feature `tokio`.
    ///
    /// Such a run holds no thread, so without this limit a thousand due jobs would call the same service at the
    /// same moment. Further jobs of the kind wait in the store and delay no job of another kind; on a server
    /// another process may claim them. Claimed jobs that are due within 50 ms are counted too.
    /// [`Builder::max_in_flight`] limits the runs of all kinds together.
    #[doc(alias("concurrency", "max_concurrent", "parallelism", "limit"))]
    pub fn max_async_runs(self, runs: usize) -> Builder {
        Builder { max_async_runs: runs, ..self }
    }
}
