//! The verbs that hold a scope: none of its jobs starts for some time.
//!
//! Ground rules:
//!
//! - A hold is stored as the time at which it ends, so it needs no one to end it.
//! - Of two holds the later end counts, whoever stores it: each caller gets the time that it asked for.

use std::time::Duration;

use super::caller::{Caller, on_thread};
use super::client::Client;
use super::kind::Kind;
use super::limits::Partition;
use super::request;
use crate::values::error::StoreError;
use crate::values::limits::LimitScope;

impl Client {
    /// Starts no job of the queue for this time. Runs go on, and so do inserts. Of two holds the later end counts. A
    /// hold of zero ends a hold.
    ///
    /// The hold is stored, and survives restarts. It holds in this process once the call has returned, and in any other a
    /// second later; on a server it holds for each claim that comes after it. Its end is a time of the wall clock.
    ///
    /// # Errors
    ///
    /// As [`Client::limit`].
    #[doc(alias("retry_after", "backoff", "rate_limit"))]
    pub fn hold(&self, time: Duration) -> Result<(), StoreError> {
        on_thread(self.hold_by(Caller::Thread, &LimitScope::Queue, time))
    }

    /// [`Client::hold`], as a future.
    ///
    /// # Errors
    ///
    /// As [`Client::hold`].
    pub async fn hold_async(&self, time: Duration) -> Result<(), StoreError> {
        self.hold_by(Caller::Future, &LimitScope::Queue, time).await
    }

    async fn hold_by(
        &self,
        caller: Caller,
        scope: &LimitScope,
        time: Duration,
    ) -> Result<(), StoreError> {
        let Some(name) = scope.hold() else { return Ok(()) };
        if time.is_zero() {
            return self.set(caller, name, None).await;
        }
        self.check_scopes(caller, &name).await?;
        let until = self.dispatcher.clock.latest().millis().plus(time);
        self.ask(caller, request::hold(name, until)).await.map(drop)
    }
}

impl Kind {
    /// Starts no job of the flow of this kind for this time ([`Job::FLOW`](crate::Job::FLOW)), as [`Client::hold`] does
    /// for the queue. A handler calls it if a provider answers that it has too many requests:
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use serde::{Deserialize, Serialize};
    /// # use tickwheel_jobs::{Fail, Job, Jobs};
    /// #[derive(Serialize, Deserialize)]
    /// struct Charge(u64);
    /// impl Job for Charge {
    ///     const KIND: &'static str = "charge";
    /// }
    /// # fn pay(_: u64) -> Result<(), Duration> { Err(Duration::from_secs(30)) }
    ///
    /// let (jobs, driver) = Jobs::memory()
    ///     .handle(|charge: Charge, run| {
    ///         // `Err`: the time of the header Retry-After of a response with the status 429.
    ///         pay(charge.0).or_else(|retry_after| {
    ///             run.client().kind::<Charge>().hold(retry_after)?;
    ///             Err(Fail::snooze(retry_after))
    ///         })
    ///     })
    ///     .manual()?;
    /// jobs.insert_batch([(Duration::ZERO, Charge(1)), (Duration::ZERO, Charge(2))])?;
    /// assert_eq!(driver.advance(Duration::from_secs(1)), 1);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// As [`Client::limit`], and as [`Kind::pause`].
    #[doc(alias("retry_after", "backoff", "rate_limit"))]
    pub fn hold(&self, time: Duration) -> Result<(), StoreError> {
        on_thread(self.hold_by(Caller::Thread, time))
    }

    /// [`Kind::hold`], as a future.
    ///
    /// # Errors
    ///
    /// As [`Kind::hold`].
    pub async fn hold_async(&self, time: Duration) -> Result<(), StoreError> {
        self.hold_by(Caller::Future, time).await
    }

    async fn hold_by(&self, caller: Caller, time: Duration) -> Result<(), StoreError> {
        let flow = self.its_flow(caller).await?;
        self.client().hold_by(caller, &LimitScope::Flow(flow), time).await
    }
}

impl Partition {
    /// Starts no job of the partition for this time, as [`Client::hold`] does for the queue.
    ///
    /// # Errors
    ///
    /// As [`Partition::limit`].
    #[doc(alias("retry_after", "backoff", "rate_limit"))]
    pub fn hold(&self, time: Duration) -> Result<(), StoreError> {
        on_thread(self.hold_by(Caller::Thread, time))
    }

    /// [`Partition::hold`], as a future.
    ///
    /// # Errors
    ///
    /// As [`Partition::limit`].
    pub async fn hold_async(&self, time: Duration) -> Result<(), StoreError> {
        self.hold_by(Caller::Future, time).await
    }

    async fn hold_by(&self, caller: Caller, time: Duration) -> Result<(), StoreError> {
        self.check()?;
        self.client().hold_by(caller, &self.scope(), time).await
    }
}
