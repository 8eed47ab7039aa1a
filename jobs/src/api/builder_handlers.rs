//! Handlers of the builder beside the plain one: futures, with their runtime and their limit, and batches, one call for
//! several jobs of a kind. And the middleware round every handler.

#[cfg(feature = "tokio")]
use std::sync::Arc;
use std::time::Duration;

#[cfg(feature = "tokio")]
use tokio::runtime::Handle;

use super::builder::Builder;
use crate::dispatch::handlers::{BatchSize, Called, HandlerCall};
use crate::dispatch::middleware::Next;
#[cfg(feature = "tokio")]
use crate::dispatch::middleware::NextAsync;
use crate::dispatch::run::Run;
use crate::values::fail_and_retry::{Fail, Retry};
use crate::values::job::Job;

impl Builder {
    /// Sets a handler that gets up to `most` jobs of a kind at once, for work that is cheaper together: rows in one
    /// transaction, documents in one request. The handler runs on a thread of the pool, and holds one thread for all
    /// jobs of a batch.
    ///
    /// Due jobs are collected until there are `most` of them, or until the first of them has waited for `wait`. A
    /// wait of zero takes what is due now. The jobs of a batch are in the order of their due times, then of their
    /// ids. A batch is no unit in the store: each job keeps its own claim, attempt, fence and end, and its next run
    /// may be in another batch.
    ///
    /// - `Ok` completes the jobs. [`Run::fail`] fails one of them.
    /// - An error or a panic fails every job that [`Run::fail`] has not failed. Each is retried by its own policy.
    /// - A payload that does not decode makes its own job dead. The handler gets the others.
    /// - A job that is cancelled or rescheduled before the handler is called is not in the batch. From then on
    ///   [`Run::is_cancelled`] of its run says so. Look at each run of a long batch.
    /// - A [time limit](Builder::time_limit) counts from the call of the handler.
    /// - A shutdown gives back the jobs that wait for the rest of their batch.
    /// - **A crash** interrupts every job of the batch. A job that was interrupted is then a batch by itself, until a
    ///   run of it has ended. So a job that ends its process does not do so together with the same jobs again.
    ///
    /// Limits count jobs and not batches: [`Builder::max_in_flight`] too. A job that waits for the rest of its batch
    /// is claimed, so it counts, and no other process can start it. On a server a process claims a batch for each
    /// thread and one more. It gives the jobs back that have not started a second after the end of their wait.
    ///
    /// The start refuses a `most` of zero, and one above [`Builder::max_in_flight`], with
    /// [`OpenError::Config`](crate::OpenError::Config). The `cookbook` has an example.
    #[doc(alias("bulk", "chunk", "aggregate", "batch_size"))]
    pub fn handle_batch<J, F>(self, most: usize, wait: Duration, handler: F) -> Builder
    where
        J: Job,
        F: Fn(&[(J, Run)]) -> Result<(), Fail> + Send + Sync + 'static,
    {
        self.add_batch(BatchSize { most, wait }, None, handler)
    }

    /// The same as [`Builder::handle_batch`], with a retry policy for this kind.
    pub fn handle_batch_with<J, F>(
        self,
        retry: Retry,
        most: usize,
        wait: Duration,
        handler: F,
    ) -> Builder
    where
        J: Job,
        F: Fn(&[(J, Run)]) -> Result<(), Fail> + Send + Sync + 'static,
    {
        self.add_batch(BatchSize { most, wait }, Some(retry), handler)
    }

    fn add_batch<J: Job>(
        self,
        size: BatchSize,
        retry: Option<Retry>,
        handler: impl Fn(&[(J, Run)]) -> Result<(), Fail> + Send + Sync + 'static,
    ) -> Builder {
        let call = HandlerCall::batch(size, move |jobs, middleware| {
            Called::Ended(middleware.call(jobs, |jobs| handler(&jobs)))
        });
        self.add::<J>(retry, false, call)
    }

    /// Sets a future as the handler of batches of a kind: see [`Builder::handle_batch`] for what a batch is, and
    /// [`Builder::handle_async`] for where the future runs. With feature `tokio`.
    ///
    /// The future owns the jobs and their runs. [`Builder::max_async_runs`] counts jobs, so the start refuses a
    /// `most` above it with [`OpenError::Config`](crate::OpenError::Config): the default of 64 is one batch of 64 at a
    /// time.
    #[cfg(feature = "tokio")]
    #[doc(alias("bulk", "chunk", "aggregate", "batch_size"))]
    pub fn handle_batch_async<J, F, Fut>(self, most: usize, wait: Duration, handler: F) -> Builder
    where
        J: Job,
        F: Fn(Vec<(J, Run)>) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<(), Fail>> + Send + 'static,
    {
        self.add_batch_async(BatchSize { most, wait }, None, handler)
    }

    /// The same as [`Builder::handle_batch_async`], with a retry policy for this kind.
    #[cfg(feature = "tokio")]
    pub fn handle_batch_async_with<J, F, Fut>(
        self,
        retry: Retry,
        most: usize,
        wait: Duration,
        handler: F,
    ) -> Builder
    where
        J: Job,
        F: Fn(Vec<(J, Run)>) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<(), Fail>> + Send + 'static,
    {
        self.add_batch_async(BatchSize { most, wait }, Some(retry), handler)
    }

    #[cfg(feature = "tokio")]
    fn add_batch_async<J: Job, Fut: Future<Output = Result<(), Fail>> + Send + 'static>(
        self,
        size: BatchSize,
        retry: Option<Retry>,
        handler: impl Fn(Vec<(J, Run)>) -> Fut + Send + Sync + 'static,
    ) -> Builder {
        let handler = Arc::new(handler);
        let call = HandlerCall::batch(size, move |jobs, middleware| {
            Called::Future(middleware.future(jobs, &handler))
        });
        self.add::<J>(retry, true, call)
    }

    /// Adds a function round each run: for code that every handler needs, such as a tenant, a transaction, or a report
    /// of errors. The function gets the run, or the runs of a batch (at least one). It calls [`Next::run`], which calls
    /// the next middleware, or the handler. [`Builder::on_run`] only observes the runs.
    ///
    /// It is for handlers that are functions, also for those that the builder has already. Handlers that are futures
    /// have `Builder::middleware_async`. If a builder has middleware of one form only, and a handler of the other form,
    /// that handler would run without middleware. So the start refuses it, with
    /// [`OpenError::Config`](crate::OpenError::Config).
    ///
    /// - **The order**: the first middleware is the outermost.
    /// - **The end**: the run ends as if the handler had returned the value of the outermost middleware. A middleware
    ///   may return another value than [`Next::run`] does. If it does not call [`Next::run`], the run ends without its
    ///   handler: `Ok` completes the job, an error fails the run, and [`Fail::snooze`] puts the job off. [`Run::fail`]
    ///   counts above all of them.
    /// - **A batch** is one call. Its value holds for each run, as the value of a handler of batches does.
    /// - **A panic** of the handler passes through the middleware, which drops its values and may catch the panic. A
    ///   panic of the middleware fails the run.
    /// - **Everything else is as in the handler**: a middleware may make the same calls, the span of the run is current
    ///   in it, and its time is part of the run. A cancel, a time limit and a shutdown ask its run to stop.
    /// - **A payload that does not decode** makes its job dead, and no middleware is called. [`Builder::on_run`]
    ///   reports that end.
    ///
    /// A [`Builder::client`] runs no jobs, and ignores middleware. A test with a [`TestRun`](crate::TestRun) calls the
    /// handler by itself, and calls no middleware. A builder without middleware costs each run one look at an empty
    /// list.
    ///
    /// ```
    /// use std::time::Duration;
    /// # use serde::{Deserialize, Serialize};
    /// use tickwheel_jobs::{Fail, Job, Jobs, NewJob};
    ///
    /// # #[derive(Serialize, Deserialize)]
    /// # struct Bill;
    /// # impl Job for Bill { const KIND: &'static str = "bill"; }
    /// let (jobs, driver) = Jobs::memory()
    ///     .handle(|_: Bill, _| Ok(()))
    ///     .middleware(|runs, next| match runs[0].header("tenant") {
    ///         Some("gone") => Err(Fail::dead("the tenant has left")),
    ///         _ => next.run(),
    ///     })
    ///     .manual()?;
    /// for tenant in ["acme", "gone"] {
    ///     jobs.insert_job(NewJob::new(Bill).header("tenant", tenant))?;
    /// }
    /// driver.advance(Duration::ZERO);
    /// assert_eq!((jobs.stats().completed, jobs.count()?.dead), (1, 1));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[doc(alias("layer", "around", "interceptor", "wrap"))]
    pub fn middleware<F>(mut self, middleware: F) -> Builder
    where
        F: Fn(&[Run], Next<'_>) -> Result<(), Fail> + Send + Sync + 'static,
    {
        self.handlers.middleware.add(middleware);
        self
    }

    /// Adds a future round each run whose handler is a future: see [`Builder::middleware`]. With feature `tokio`.
    ///
    /// The closure and the handler are called on the runtime, when the future around them is polled. If the runtime
    /// drops that future, it also drops the future of each middleware, and the run fails. A middleware with a time
    /// limit of its own may drop the future of [`NextAsync::run`] before its end. A middleware that spawns that future
    /// must wait for it, because the run ends when the outermost middleware returns. The `cookbook` has an example.
    #[cfg(feature = "tokio")]
    #[doc(alias("layer", "around", "interceptor", "wrap", "tower"))]
    pub fn middleware_async<F, Fut>(mut self, middleware: F) -> Builder
    where
        F: Fn(Vec<Run>, NextAsync) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<(), Fail>> + Send + 'static,
    {
        self.handlers.middleware.add_async(middleware);
        self
    }
}

#[cfg(feature = "tokio")]
impl Builder {
    /// Sets a future as the handler of a kind. It runs on a tokio runtime. With feature `tokio`. The data of the job
    /// are decoded on a thread of the jobs. The code of a closure before its future runs on that thread too, or inside
    /// of the innermost [`Builder::middleware_async`]: do not block there, and do not call `tokio::spawn` outside of
    /// the future.
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
    /// # use serde::{Deserialize, Serialize};
    /// use tickwheel_jobs::{Fail, Job, Jobs, Run};
    ///
    /// # #[derive(Serialize, Deserialize)]
    /// # struct Mail { to: String }
    /// # impl Job for Mail { const KIND: &'static str = "mail"; }
    /// async fn send(mail: Mail, run: Run) -> Result<(), Fail> {
    ///     println!("to {}, as {}", mail.to, run.id());
    ///     Ok(())
    /// }
    ///
    /// #[tokio::main]
    /// async fn main() -> Result<(), Box<dyn std::error::Error>> {
    ///     let jobs = Jobs::memory().handle_async(send).start()?; // on the runtime of `main`
    ///     jobs.asynchronous().insert(Duration::from_millis(1), Mail { to: "ann".to_owned() }).await?;
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

    fn add_async<J: Job, Fut: Future<Output = Result<(), Fail>> + Send + 'static>(
        self,
        retry: Option<Retry>,
        handler: impl Fn(J, Run) -> Fut + Send + Sync + 'static,
    ) -> Builder {
        let handler = Arc::new(move |(job, run): (J, Run)| handler(job, run));
        let call = HandlerCall::one(move |job, middleware| {
            Called::Future(middleware.future(job, &handler))
        });
        self.add::<J>(retry, true, call)
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
