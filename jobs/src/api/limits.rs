//! The verbs that set limits: how many jobs of a scope run at once and how often they start, and the turns of
//! partitions.
//!
//! Ground rules:
//!
//! - A limit is stored, as each setting of `kind.rs` is. The limit of a program counts only while none is stored, so
//!   two versions of a program do not disagree.
//! - A verb that sets a limit first reads how many scopes have one, because each process reads all of them.

use super::builder::Builder;
use super::caller::{Caller, on_thread};
use super::client::{Client, check_name};
use super::kind::Kind;
use super::limits_read::flow_in;
use super::request;
use crate::values::error::{OpenError, StoreError};
use crate::values::job::Job;
use crate::values::limit::{Limit, LimitError, MOST_SCOPES};
use crate::values::limits::{self, LimitScope};

/// One partition of a kind: [`Kind::partition`] returns it.
#[derive(Clone, Debug)]
pub struct Partition {
    kind: Kind,
    name: String,
}

impl Client {
    /// Limits how many jobs of the queue run at once and how often they start, on all machines together.
    /// [`Limit::none`] removes the limit.
    ///
    /// It is stored, and holds from the next claim on, also across restarts. Another process on a file notices it
    /// within a second. Runs that are under way go on. The queue has no weight.
    ///
    /// # Errors
    ///
    /// [`StoreError::Limit`] if the limit is not valid, or if 10,000 scopes have one, are held, or are paused
    /// partitions. Another error if the store could not be changed.
    #[doc(alias("concurrency", "global_concurrency"))]
    pub fn limit(&self, limit: Limit) -> Result<(), StoreError> {
        on_thread(self.put_limit(Caller::Thread, LimitScope::Queue, limit))
    }

    /// [`Client::limit`], as a future.
    ///
    /// # Errors
    ///
    /// As [`Client::limit`].
    pub async fn limit_async(&self, limit: Limit) -> Result<(), StoreError> {
        self.put_limit(Caller::Future, LimitScope::Queue, limit).await
    }

    async fn put_limit(
        &self,
        caller: Caller,
        scope: LimitScope,
        limit: Limit,
    ) -> Result<(), StoreError> {
        let limit = limit.checked(scope.has_turns()).map_err(StoreError::Limit)?;
        let value = (!limit.is_none()).then(|| limit.to_text());
        self.put_of_a_scope(caller, scope.setting(), value).await
    }

    /// Sets or removes a setting of one scope among many.
    async fn put_of_a_scope(
        &self,
        caller: Caller,
        name: String,
        value: Option<String>,
    ) -> Result<(), StoreError> {
        if value.is_some() {
            self.check_scopes(caller, &name).await?;
        }
        self.set(caller, name, value).await
    }

    /// Refuses one more setting of a scope, if the queue has too many.
    pub(super) async fn check_scopes(&self, caller: Caller, name: &str) -> Result<(), StoreError> {
        let stored = self.ask(caller, request::settings()).await?;
        let now = self.dispatcher.clock.latest().millis();
        let counts = |(its, value): &&(String, String)| {
            its != name && limits::is_of_a_scope(its, value, now)
        };
        let scopes = stored.iter().filter(counts).count();
        match scopes >= MOST_SCOPES {
            true => Err(StoreError::Limit(LimitError::TooManyScopes(scopes))),
            false => Ok(()),
        }
    }
}

impl Kind {
    /// Limits how many jobs of the kind run at once and how often they start, together with the other kinds of its flow
    /// ([`Job::FLOW`]). By default a flow is the kind alone. [`Limit::none`] removes the limit.
    ///
    /// It is stored, and holds from the next claim on, in every process and across restarts. Another process on a file
    /// notices it within a second. Runs that are under way go on. A flow has no weight.
    ///
    /// # Errors
    ///
    /// As [`Client::limit`], and as [`Kind::pause`].
    #[doc(alias("concurrency", "semaphore"))]
    pub fn limit(&self, limit: Limit) -> Result<(), StoreError> {
        on_thread(self.limit_by(Caller::Thread, limit))
    }

    /// [`Kind::limit`], as a future.
    ///
    /// # Errors
    ///
    /// As [`Kind::limit`].
    pub async fn limit_async(&self, limit: Limit) -> Result<(), StoreError> {
        self.limit_by(Caller::Future, limit).await
    }

    async fn limit_by(&self, caller: Caller, limit: Limit) -> Result<(), StoreError> {
        let flow = self.its_flow(caller).await?;
        self.client().put_limit(caller, LimitScope::Flow(flow), limit).await
    }

    /// Returns the flow of the kind: of its type, or else the stored one.
    pub(super) async fn its_flow(&self, caller: Caller) -> Result<String, StoreError> {
        check_name("kind's name", self.name())?;
        let flow = match self.flow() {
            Some(flow) => flow.to_owned(),
            None => flow_in(&self.client().ask(caller, request::settings()).await?, self.name()),
        };
        check_name("name", &flow)?;
        Ok(flow)
    }

    /// Limits how many jobs of each partition of the kind run at once and how often they start ([`Job::partition`]),
    /// unless the partition has a limit of its own. Jobs without a partition are not limited. [`Limit::none`] removes
    /// the limit.
    ///
    /// With `Limit::running(1)` two jobs of a partition run side by side only where two runs of one job may: after a
    /// lost lease, after a drop of the jobs, or after a time limit (P9 in `docs/guarantees.md`).
    ///
    /// ```
    /// # use serde::{Deserialize, Serialize};
    /// # use tickwheel_jobs::{Job, Jobs};
    /// use std::time::Duration;
    /// use tickwheel_jobs::Limit;
    ///
    /// #[derive(Serialize, Deserialize)]
    /// struct Charge {
    ///     customer: u64,
    /// }
    /// impl Job for Charge {
    ///     const KIND: &'static str = "charge";
    ///
    ///     fn partition(&self) -> Option<String> {
    ///         Some(self.customer.to_string())
    ///     }
    /// }
    ///
    /// let (jobs, driver) = Jobs::memory().handle(|_: Charge, _| Ok(())).manual()?;
    /// let charges = jobs.kind::<Charge>();
    /// charges.limit_each(Limit::running(2))?;
    /// charges.partition("7").limit(Limit::running(10).weight(3))?;
    /// jobs.insert(Duration::ZERO, Charge { customer: 7 })?;
    /// assert_eq!(driver.advance(Duration::ZERO), 1);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// As [`Client::limit`], and as [`Kind::pause`].
    #[doc(alias("concurrency_key", "group_concurrency"))]
    pub fn limit_each(&self, limit: Limit) -> Result<(), StoreError> {
        on_thread(self.limit_each_by(Caller::Thread, limit))
    }

    /// [`Kind::limit_each`], as a future.
    ///
    /// # Errors
    ///
    /// As [`Kind::limit_each`].
    pub async fn limit_each_async(&self, limit: Limit) -> Result<(), StoreError> {
        self.limit_each_by(Caller::Future, limit).await
    }

    async fn limit_each_by(&self, caller: Caller, limit: Limit) -> Result<(), StoreError> {
        check_name("kind's name", self.name())?;
        let scope = LimitScope::Each(self.name().to_owned());
        self.client().put_limit(caller, scope, limit).await
    }

    /// Returns one partition of the kind. It may have no job.
    #[must_use]
    pub fn partition(&self, name: &str) -> Partition {
        Partition { kind: self.clone(), name: name.to_owned() }
    }
}

impl Partition {
    /// Limits how many jobs of the partition run at once and how often they start, and sets its weight. A number, a
    /// rate or a weight that it does not set is that of [`Kind::limit_each`]. [`Limit::none`] removes the limit.
    ///
    /// # Errors
    ///
    /// As [`Client::limit`], and as [`Kind::pause`]; [`StoreError::TooLong`] if the name of the partition is empty or
    /// longer than 255 bytes.
    pub fn limit(&self, limit: Limit) -> Result<(), StoreError> {
        on_thread(self.limit_by(Caller::Thread, limit))
    }

    /// [`Partition::limit`], as a future.
    ///
    /// # Errors
    ///
    /// As [`Partition::limit`].
    pub async fn limit_async(&self, limit: Limit) -> Result<(), StoreError> {
        self.limit_by(Caller::Future, limit).await
    }

    /// Pauses the partition, as [`Kind::pause`] pauses a kind: none of its jobs starts, runs go on, and inserts go
    /// on. It is stored, and holds until [`Partition::resume`], also across restarts.
    ///
    /// # Errors
    ///
    /// As [`Partition::limit`].
    pub fn pause(&self) -> Result<(), StoreError> {
        on_thread(self.pause_by(Caller::Thread, true))
    }

    /// [`Partition::pause`], as a future.
    ///
    /// # Errors
    ///
    /// As [`Partition::limit`].
    pub async fn pause_async(&self) -> Result<(), StoreError> {
        self.pause_by(Caller::Future, true).await
    }

    /// Ends a pause of the partition.
    ///
    /// # Errors
    ///
    /// As [`Partition::limit`].
    pub fn resume(&self) -> Result<(), StoreError> {
        on_thread(self.pause_by(Caller::Thread, false))
    }

    /// [`Partition::resume`], as a future.
    ///
    /// # Errors
    ///
    /// As [`Partition::limit`].
    pub async fn resume_async(&self) -> Result<(), StoreError> {
        self.pause_by(Caller::Future, false).await
    }

    async fn pause_by(&self, caller: Caller, pauses: bool) -> Result<(), StoreError> {
        self.check()?;
        let client = self.kind.client();
        let now = client.dispatcher.clock.latest().millis();
        let name = limits::pause(self.kind.name(), &self.name);
        client.put_of_a_scope(caller, name, pauses.then(|| now.get().to_string())).await
    }

    pub(super) fn check(&self) -> Result<(), StoreError> {
        check_name("kind's name", self.kind.name())?;
        check_name("partition", &self.name)
    }

    async fn limit_by(&self, caller: Caller, limit: Limit) -> Result<(), StoreError> {
        self.check()?;
        self.kind.client().put_limit(caller, self.scope(), limit).await
    }

    pub(super) fn client(&self) -> &Client {
        self.kind.client()
    }

    /// Returns the scope of the partition.
    pub(super) fn scope(&self) -> LimitScope {
        let (kind, partition) = (self.kind.name().to_owned(), self.name.clone());
        LimitScope::Partition { kind, partition }
    }
}

impl Builder {
    /// Limits the flow of `J` while no limit of it is stored: a limit that [`Kind::limit`] stores comes first. It
    /// holds in this process, and is not stored.
    ///
    /// A limit that is not valid is refused at the start, with [`OpenError::Config`].
    pub fn limit_unless_set<J: Job>(mut self, limit: Limit) -> Builder {
        self.limits.push((J::FLOW, limit));
        self
    }
}

/// Returns the limits of flows.
pub(super) fn checked_limits(limits: &[(&str, Limit)]) -> Result<Vec<(String, Limit)>, OpenError> {
    let checked = |(flow, limit): &(&str, Limit)| match limit.checked(false) {
        Ok(limit) => Ok(((*flow).to_owned(), limit)),
        Err(error) => {
            Err(OpenError::Config(format!("limit_unless_set of the flow {flow:?}: {error}")))
        }
    };
    limits.iter().map(checked).collect()
}
