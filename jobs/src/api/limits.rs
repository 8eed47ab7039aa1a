//! The limits of a queue: how many jobs of a scope run at once, and the turns of partitions.
//!
//! Ground rules:
//!
//! - A limit is stored, as each setting of `kind.rs` is. The limit of a program counts only while none is stored, so
//!   two versions of a program do not disagree.
//! - A verb that sets a limit first reads how many scopes have one, because each process reads all of them.
//! - The jobs that run are counted when a caller asks: from the claims, and never from a counter.

use std::collections::HashMap;

use super::builder::Builder;
use super::caller::{Caller, on_thread};
use super::client::{Client, check_name};
use super::kind::Kind;
use super::request;
use crate::values::error::{OpenError, StoreError};
use crate::values::info::JobInfo;
use crate::values::job::Job;
use crate::values::limit::{Limit, LimitError, MOST_SCOPES};
use crate::values::limits::{self, LimitInfo, LimitScope};

/// One partition of a kind: [`Kind::partition`] returns it.
#[derive(Clone, Debug)]
pub struct Partition {
    kind: Kind,
    name: String,
}

impl Client {
    /// Limits how many jobs of the queue run at once, on all machines together. [`Limit::none`] removes the limit.
    ///
    /// It is stored, and holds from the next claim on, also across restarts. Runs that are under way go on. The queue
    /// has no weight.
    ///
    /// # Errors
    ///
    /// [`StoreError::Limit`] if the limit is not valid, or if 10,000 scopes have one. Another error if the store
    /// could not be changed.
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

    /// Returns each scope that has a limit, with the number of its jobs that are claimed now. A limit of
    /// [`Builder::limit_unless_set`](crate::Builder::limit_unless_set) is not stored, and not listed.
    ///
    /// It reads all claimed jobs.
    ///
    /// # Errors
    ///
    /// If the store could not be read.
    pub fn limits(&self) -> Result<Vec<LimitInfo>, StoreError> {
        on_thread(self.limits_by(Caller::Thread))
    }

    /// [`Client::limits`], as a future.
    ///
    /// # Errors
    ///
    /// As [`Client::limits`].
    pub async fn limits_async(&self) -> Result<Vec<LimitInfo>, StoreError> {
        self.limits_by(Caller::Future).await
    }

    /// Returns the stored limits that a job of these settings has reached: of the queue, of its flow, of its
    /// partition.
    pub(super) async fn reached_limits(
        &self,
        caller: Caller,
        stored: &[(String, String)],
        job: &JobInfo,
    ) -> Result<Vec<LimitInfo>, StoreError> {
        let limit_of = |scope: &LimitScope| {
            let name = scope.setting();
            let (_, value) = stored.iter().find(|(its, _)| *its == name)?;
            Limit::from_text(value).filter(|limit| limit.running.is_some())
        };
        let flow = flow_in(stored, &job.kind);
        let mut scopes = vec![LimitScope::Queue, LimitScope::Flow(flow.clone())];
        if let Some(partition) = job.partition.clone() {
            let its = LimitScope::Partition { kind: job.kind.clone(), partition };
            let each = LimitScope::Each(job.kind.clone());
            scopes.push(if limit_of(&its).is_some() { its } else { each });
        }
        let limited = scopes.into_iter().filter_map(|scope| Some((limit_of(&scope)?, scope)));
        let limited: Vec<(Limit, LimitScope)> = limited.collect();
        if limited.is_empty() {
            return Ok(Vec::new());
        }
        let claimed = self.ask(caller, request::claimed()).await?.jobs;
        // A job that is claimed and has not started has its place.
        if claimed.iter().any(|other| other.id == job.id) {
            return Ok(Vec::new());
        }
        let reached = |(limit, scope): (Limit, LimitScope)| {
            let counts = |other: &&JobInfo| match scope {
                LimitScope::Queue => true,
                LimitScope::Flow(_) => flow_in(stored, &other.kind) == flow,
                LimitScope::Each(_) | LimitScope::Partition { .. } => {
                    other.kind == job.kind && other.partition == job.partition
                }
            };
            let running = claimed.iter().filter(counts).count() as u64;
            let is_reached = limit.running.is_some_and(|most| running >= u64::from(most));
            is_reached.then_some(LimitInfo { scope, limit, running })
        };
        Ok(limited.into_iter().filter_map(reached).collect())
    }

    async fn limits_by(&self, caller: Caller) -> Result<Vec<LimitInfo>, StoreError> {
        let stored = self.ask(caller, request::settings()).await?;
        let limit = |(name, value): &(String, String)| {
            Some((LimitScope::of_setting(name)?, Limit::from_text(value)?))
        };
        let mut found: Vec<(LimitScope, Limit)> = stored.iter().filter_map(limit).collect();
        if found.is_empty() {
            return Ok(Vec::new());
        }
        let mut running: HashMap<LimitScope, u64> = HashMap::new();
        for job in self.ask(caller, request::claimed()).await?.jobs {
            *running.entry(LimitScope::Queue).or_default() += 1;
            *running.entry(LimitScope::Flow(flow_in(&stored, &job.kind))).or_default() += 1;
            if let Some(partition) = job.partition {
                let each = LimitScope::Each(job.kind.clone());
                let of_it = running.entry(LimitScope::Partition { kind: job.kind, partition });
                let of_it = of_it.and_modify(|running| *running += 1).or_insert(1);
                let of_it = *of_it;
                let most = running.entry(each).or_default();
                *most = of_it.max(*most);
            }
        }
        found.sort_unstable_by(|(a, _), (b, _)| a.cmp(b));
        let info = |(scope, limit)| {
            let running = running.get(&scope).copied().unwrap_or(0);
            LimitInfo { scope, limit, running }
        };
        Ok(found.into_iter().map(info).collect())
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
        if value.is_none() {
            return self.set(caller, name, None).await;
        }
        let stored = self.ask(caller, request::settings()).await?;
        let others = stored.iter().filter(|(its, _)| *its != name);
        let scopes = others.filter(|(its, _)| limits::is_of_a_scope(its)).count();
        if scopes >= MOST_SCOPES {
            return Err(StoreError::Limit(LimitError::TooManyScopes(scopes)));
        }
        self.set(caller, name, value).await
    }
}

impl Kind {
    /// Limits how many jobs of the kind run at once, together with the other kinds of its flow ([`Job::FLOW`]). By
    /// default a flow is the kind alone. [`Limit::none`] removes the limit.
    ///
    /// It is stored, and holds from the next claim on, in every process and across restarts. Runs that are under way
    /// go on. A flow has no weight.
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
        check_name("kind's name", self.name())?;
        let flow = match self.flow() {
            Some(flow) => flow.to_owned(),
            None => {
                let name = limits::flow(self.name());
                let stored = self.client().ask(caller, request::settings()).await?;
                let flow = stored.into_iter().find(|(its, _)| *its == name);
                flow.map_or_else(|| self.name().to_owned(), |(_, flow)| flow)
            }
        };
        check_name("name", &flow)?;
        self.client().put_limit(caller, LimitScope::Flow(flow), limit).await
    }

    /// Limits how many jobs of each partition of the kind run at once ([`Job::partition`]), unless the partition has
    /// a limit of its own. Jobs without a partition are not limited. [`Limit::none`] removes the limit.
    ///
    /// With `Limit::running(1)` two jobs of a partition run side by side only as the guarantee P9 allows for two runs
    /// of one job.
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
    /// Limits how many jobs of the partition run at once, and sets its weight. A number or a weight that it does not
    /// set is that of [`Kind::limit_each`]. [`Limit::none`] removes the limit.
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

    fn check(&self) -> Result<(), StoreError> {
        check_name("kind's name", self.kind.name())?;
        check_name("partition", &self.name)
    }

    async fn limit_by(&self, caller: Caller, limit: Limit) -> Result<(), StoreError> {
        self.check()?;
        let (kind, partition) = (self.kind.name().to_owned(), self.name.clone());
        let scope = LimitScope::Partition { kind, partition };
        self.kind.client().put_limit(caller, scope, limit).await
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

/// Returns the flow of a kind by the stored settings.
fn flow_in(stored: &[(String, String)], kind: &str) -> String {
    let name = limits::flow(kind);
    let flow = stored.iter().find(|(its, _)| *its == name);
    flow.map_or(kind, |(_, flow)| flow).to_owned()
}
