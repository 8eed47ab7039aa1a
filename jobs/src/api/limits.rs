//! The verbs of limits: they set how many jobs of a scope run at once and how often they start, hold a scope, pause a
//! partition, and read what is known of the scopes, for programs, the dashboard and the metrics.
//!
//! Ground rules:
//!
//! - A limit is stored, as each setting of `kind.rs` is. The limit of a program counts only while none is stored, so
//!   two versions of a program do not disagree.
//! - An operator's limit stays until an operator lifts it. If a program sets a limit meanwhile, that limit is stored
//!   behind it. So no restart undoes an operator's change in an incident.
//! - A limit is written only if the stored limit is still the one that was read. Otherwise it is read again. So no
//!   program that starts undoes an operator's change.
//! - A verb that sets a limit first reads how many scopes have one, because each process reads all of them.
//! - A hold is stored as the time at which it ends, so it needs no one to end it.
//! - Of two holds the later end counts, whoever stores it: each caller gets the time that it asked for.
//! - What is shown: without a limit, a hold and a paused partition no question is asked. The tokens of the shown scopes
//!   are read, and no others. So the cost has a bound if the caller bounds the scopes.
//! - The jobs that run are counted when a caller asks: from the claims, and never from a counter.
//! - Of a rate the tokens are read, which tell when the next job may start.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::time::Duration;

use tickwheel::When;

use super::asynchronous::both;
use super::builder::Builder;
use super::client::{Client, check_name};
use super::kind::{Kind, Queue};
use super::request::{self, Caller, on_thread};
use crate::store::{KindGauges, MOST_COUNTED};
use crate::values::error::{OpenError, StoreError};
use crate::values::info::{JobInfo, Number};
use crate::values::job::Job;
use crate::values::limit::{Limit, MOST_SCOPES, StoredLimit};
use crate::values::setting;
use crate::values::stored_limits::{self, LimitInfo, LimitScope, Limits, Slowed};
use crate::values::time::Millis;

/// How often a setting is read again because other processes change it. One of these processes succeeds each time.
const MOST_TRIES: usize = 64;

/// How a person changes a setting.
#[doc(hidden)]
#[non_exhaustive]
#[derive(Clone, Copy, Default, Debug)]
pub struct HowChanged<'a> {
    /// The change is checked, and not made.
    pub dry_run: bool,
    /// The change is made only if the store still has this text of the setting. An empty text: it has none.
    pub was: Option<&'a str>,
}

impl<'a> HowChanged<'a> {
    #[must_use]
    pub fn new(dry_run: bool, was: Option<&'a str>) -> HowChanged<'a> {
        HowChanged { dry_run, was }
    }
}

/// One partition of a kind: [`Kind::partition`] returns it.
#[derive(Clone, Debug)]
pub struct Partition {
    kind: Kind,
    name: String,
}

both! {
    Queue:
    /// Limits how many jobs of the queue run at once and how often they start, on all machines together.
    /// [`Limit::none`] removes the limit.
    ///
    /// It is stored, and holds from the next claim on, also across restarts. Another process on a file notices it
    /// within a second. Runs that are under way go on. The queue has no weight.
    ///
    /// If an operator has set a limit with the dashboard or the command, that limit holds until the operator lifts it,
    /// and the limit of this call is stored behind it. The same is true for each scope.
    ///
    /// # Errors
    ///
    /// [`StoreError::Invalid`] if the limit is not valid, [`StoreError::TooManyScopes`] if 10,000 scopes have one, are
    /// held, or are paused partitions. Another error if the store could not be changed.
    #[doc(alias("concurrency", "global_concurrency"))]
    pub fn limit(&self, limit: Limit) -> Result<(), StoreError> = |it, caller| {
        it.0.put_limit(caller, LimitScope::Queue, limit).await
    };

    /// Returns each scope that has a limit or is held, with the number of its jobs that are claimed now. A limit of
    /// [`Builder::limit_unless_set`](crate::Builder::limit_unless_set) is not stored, and not listed.
    ///
    /// It reads all claimed jobs.
    ///
    /// # Errors
    ///
    /// If the store could not be read.
    pub fn limits(&self) -> Result<Vec<LimitInfo>, StoreError> = |it, caller| {
        let client = &it.0;
        let stored = client.ask(caller, request::settings()).await?;
        let now = client.dispatcher.clock.now().millis();
        client.counted_limits(caller, &stored, limited(&stored, now), now).await
    };

    /// Starts no job of the queue for this time. Runs go on, and so do inserts. Of two holds the later end counts. A
    /// hold of zero ends a hold.
    ///
    /// The hold is stored, and survives restarts. It holds in this process once the call has returned, and in any other
    /// a second later; on a server it holds for each claim that comes after it. Its end is a time of the wall clock.
    ///
    /// # Errors
    ///
    /// As [`Queue::limit`], and if it would end after the year 9999
    /// ([`InvalidInput::DelayTooLong`](crate::InvalidInput::DelayTooLong)).
    #[doc(alias("retry_after", "backoff", "rate_limit"))]
    pub fn hold(&self, time: Duration) -> Result<(), StoreError> = |it, caller| {
        it.0.hold_by(caller, &LimitScope::Queue, time).await
    };
}

impl Client {
    async fn put_limit(
        &self,
        caller: Caller,
        scope: LimitScope,
        limit: Limit,
    ) -> Result<(), StoreError> {
        let limit = limit.checked(scope.has_turns())?;
        let plan = |text: Option<&str>| {
            let stored = text.map(StoredLimit::from_text).unwrap_or_default();
            Ok::<_, StoreError>(stored.of_program(limit).to_text())
        };
        let how = HowChanged::default();
        self.change_setting(caller, &scope.setting(), how, plan).await.map(drop)
    }

    /// Changes a setting: `plan` gets its text and returns the new one. If another process has changed the setting
    /// between the read and the write, it reads again and calls `plan` again. Returns the text that was stored before.
    pub(super) async fn change_setting<E: From<StoreError>>(
        &self,
        caller: Caller,
        name: &str,
        how: HowChanged<'_>,
        mut plan: impl FnMut(Option<&str>) -> Result<Option<String>, E>,
    ) -> Result<Option<String>, E> {
        let now = self.dispatcher.clock.latest().millis();
        for _ in 0..MOST_TRIES {
            let stored = self.ask(caller, request::settings()).await?;
            let before = text_of(&stored, name).map(str::to_owned);
            if how.was.is_some_and(|was| was != before.as_deref().unwrap_or_default()) {
                return Ok(before);
            }
            let value = plan(before.as_deref())?;
            if value.as_ref().is_some_and(|value| stored_limits::is_of_a_scope(name, value, now)) {
                self.check_scopes_in(&stored, name)?;
            }
            let replace = request::replace_setting(name.to_owned(), before.clone(), value);
            if how.dry_run || self.ask(caller, replace).await? {
                return Ok(before);
            }
        }
        Err(StoreError::Other(format!("other processes go on changing the setting {name}")).into())
    }

    /// Refuses one more setting of a scope, if the queue has too many.
    pub(super) async fn check_scopes(&self, caller: Caller, name: &str) -> Result<(), StoreError> {
        self.check_scopes_in(&self.ask(caller, request::settings()).await?, name)
    }

    pub(super) fn check_scopes_in(
        &self,
        stored: &[(String, String)],
        name: &str,
    ) -> Result<(), StoreError> {
        let now = self.dispatcher.clock.latest().millis();
        let counts = |(its, value): &&(String, String)| {
            its != name && stored_limits::is_of_a_scope(its, value, now)
        };
        let scopes = stored.iter().filter(counts).count();
        match scopes >= MOST_SCOPES {
            true => Err(StoreError::TooManyScopes(scopes)),
            false => Ok(()),
        }
    }

    pub(super) async fn hold_by(
        &self,
        caller: Caller,
        scope: &LimitScope,
        time: Duration,
    ) -> Result<(), StoreError> {
        let Some(name) = scope.hold() else { return Ok(()) };
        if time.is_zero() {
            return self.set(caller, name, None).await;
        }
        let until = self.dispatcher.clock.latest().resolve(When::after(time), 0)?;
        self.check_scopes(caller, &name).await?;
        self.ask(caller, request::hold(name, until)).await.map(drop)
    }
}

both! {
    Kind:
    /// Limits how many jobs of the kind run at once and how often they start, together with the other kinds of its flow
    /// ([`Job::FLOW`]). By default a flow is the kind alone. [`Limit::none`] removes the limit.
    ///
    /// It is stored, and holds as that of the queue does. A flow has no weight.
    ///
    /// # Errors
    ///
    /// As [`Queue::limit`], and as [`Kind::pause`].
    #[doc(alias("concurrency", "semaphore"))]
    pub fn limit(&self, limit: Limit) -> Result<(), StoreError> = |it, caller| {
        let flow = it.its_flow(caller).await?;
        it.client.put_limit(caller, LimitScope::Flow(flow), limit).await
    };

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
    /// As [`Queue::limit`], and as [`Kind::pause`].
    #[doc(alias("concurrency_key", "group_concurrency"))]
    pub fn limit_each(&self, limit: Limit) -> Result<(), StoreError> = |it, caller| {
        check_name("kind's name", &it.name)?;
        let scope = LimitScope::Each(it.name.clone());
        it.client.put_limit(caller, scope, limit).await
    };

    /// Starts no job of the flow of this kind for this time ([`Job::FLOW`]), as [`Queue::hold`] does
    /// for the queue. A handler calls it if a provider answers that it has too many requests: the `cookbook` has an
    /// example.
    ///
    /// # Errors
    ///
    /// As [`Queue::hold`], and as [`Kind::pause`].
    #[doc(alias("retry_after", "backoff", "rate_limit"))]
    pub fn hold(&self, time: Duration) -> Result<(), StoreError> = |it, caller| {
        let flow = it.its_flow(caller).await?;
        it.client.hold_by(caller, &LimitScope::Flow(flow), time).await
    };
}

impl Kind {
    /// Returns the flow of the kind: for the command `tickwheel-jobs`, which does not know the types.
    #[doc(hidden)]
    pub fn stored_flow(&self) -> Result<String, StoreError> {
        on_thread(self.its_flow(Caller::Thread))
    }

    /// Returns the flow of the kind: of its type, or else the stored one.
    pub(super) async fn its_flow(&self, caller: Caller) -> Result<String, StoreError> {
        check_name("kind's name", &self.name)?;
        let flow = match self.flow {
            Some(flow) => flow.to_owned(),
            None => flow_in(&self.client.ask(caller, request::settings()).await?, &self.name),
        };
        check_name("name", &flow)?;
        Ok(flow)
    }

    /// Returns one partition of the kind. It may have no job.
    #[must_use]
    pub fn partition(&self, name: &str) -> Partition {
        Partition { kind: self.clone(), name: name.to_owned() }
    }
}

both! {
    Partition:
    /// Limits how many jobs of the partition run at once and how often they start, and sets its weight. A number, a
    /// rate or a weight that it does not set is that of [`Kind::limit_each`]. [`Limit::none`] removes the limit.
    ///
    /// # Errors
    ///
    /// As [`Queue::limit`], and as [`Kind::pause`]; [`InvalidInput::TooLong`](crate::InvalidInput::TooLong) if the name
    /// of the partition is empty or longer than 255 bytes.
    pub fn limit(&self, limit: Limit) -> Result<(), StoreError> = |it, caller| {
        it.check()?;
        it.kind.client.put_limit(caller, it.scope(), limit).await
    };

    /// Pauses the partition, as [`Kind::pause`] pauses a kind: none of its jobs starts, runs go on, and inserts go
    /// on. It is stored, and holds until [`Partition::resume`], also across restarts.
    ///
    /// # Errors
    ///
    /// As [`Partition::limit`].
    pub fn pause(&self) -> Result<(), StoreError> = |it, caller| it.pause_by(caller, true).await;

    /// Ends a pause of the partition.
    ///
    /// # Errors
    ///
    /// As [`Partition::limit`].
    pub fn resume(&self) -> Result<(), StoreError> = |it, caller| it.pause_by(caller, false).await;

    /// Starts no job of the partition for this time, as [`Queue::hold`] does for the queue.
    ///
    /// # Errors
    ///
    /// As [`Queue::hold`], and as [`Partition::limit`].
    #[doc(alias("retry_after", "backoff", "rate_limit"))]
    pub fn hold(&self, time: Duration) -> Result<(), StoreError> = |it, caller| {
        it.check()?;
        it.kind.client.hold_by(caller, &it.scope(), time).await
    };
}

impl Partition {
    async fn pause_by(&self, caller: Caller, pauses: bool) -> Result<(), StoreError> {
        self.check()?;
        let client = &self.kind.client;
        let now = client.dispatcher.clock.latest().millis();
        let name = stored_limits::partition_pause_setting(&self.kind.name, &self.name);
        if pauses {
            client.check_scopes(caller, &name).await?;
        }
        client.set(caller, name, pauses.then(|| now.get().to_string())).await
    }

    pub(super) fn check(&self) -> Result<(), StoreError> {
        check_name("kind's name", &self.kind.name)?;
        check_name("partition", &self.name)
    }

    pub(super) fn scope(&self) -> LimitScope {
        let (kind, partition) = (self.kind.name.clone(), self.name.clone());
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

impl Client {
    /// Returns the scopes of a job that hold it back: the queue, its flow or its partition is held, or has reached a
    /// stored limit.
    pub(super) async fn reached_limits(
        &self,
        caller: Caller,
        stored: &[(String, String)],
        job: &JobInfo,
    ) -> Result<Vec<LimitInfo>, StoreError> {
        let limits = Limits::with_flows(stored, &[], core::iter::empty());
        if limits.is_empty() {
            return Ok(Vec::new());
        }
        let mut scopes = vec![LimitScope::Queue, LimitScope::Flow(flow_in(stored, &job.kind))];
        if let Some(partition) = job.partition.clone() {
            scopes.push(LimitScope::Partition { kind: job.kind.clone(), partition });
        }
        let with_limit = |scope: LimitScope| {
            let limit = limits.of_scope(&scope);
            (scope, limit)
        };
        let found = scopes.into_iter().map(with_limit).collect();
        let claimed = self.ask(caller, request::claimed()).await?.jobs;
        // A job that is claimed and has not started has its place.
        if claimed.iter().any(|other| other.id == job.id) {
            return Ok(Vec::new());
        }
        let is_own = |name: &LimitScope| stored.iter().any(|(its, _)| *its == name.setting());
        let now = self.dispatcher.clock.now().millis();
        let mut reached = self.counted(caller, found, stored, claimed, now).await?;
        for info in &mut reached {
            if info.scope.has_turns() && !is_own(&info.scope) && info.held_until.is_none() {
                info.scope = LimitScope::Each(job.kind.clone());
            }
        }
        reached.retain(LimitInfo::is_reached);
        Ok(reached)
    }

    /// Returns these scopes, with the number of their claimed jobs and their times.
    pub(super) async fn counted_limits(
        &self,
        caller: Caller,
        stored: &[(String, String)],
        found: Scopes,
        now: Millis,
    ) -> Result<Vec<LimitInfo>, StoreError> {
        if found.is_empty() {
            return Ok(Vec::new());
        }
        let claimed = self.ask(caller, request::claimed()).await?.jobs;
        self.counted(caller, found, stored, claimed, now).await
    }

    /// Returns these scopes with the number of their jobs among the claimed ones, and with the times until which they
    /// are held, or wait for a token.
    async fn counted(
        &self,
        caller: Caller,
        found: Scopes,
        stored: &[(String, String)],
        claimed: Vec<JobInfo>,
        now: Millis,
    ) -> Result<Vec<LimitInfo>, StoreError> {
        let flows = flows_in(stored);
        let mut running: HashMap<LimitScope, u64> = HashMap::new();
        for job in claimed {
            let flow = flows.get(&*job.kind).copied().unwrap_or(&job.kind).to_owned();
            *running.entry(LimitScope::Queue).or_default() += 1;
            *running.entry(LimitScope::Flow(flow)).or_default() += 1;
            if let Some(partition) = job.partition {
                let each = LimitScope::Each(job.kind.clone());
                let of_it = running.entry(LimitScope::Partition { kind: job.kind, partition });
                let of_it = of_it.and_modify(|running| *running += 1).or_insert(1);
                let of_it = *of_it;
                let most = running.entry(each).or_default();
                *most = of_it.max(*most);
            }
        }
        let holds = stored.iter().filter_map(|(name, value)| stored_limits::hold_in(name, value));
        let holds: HashMap<LimitScope, Millis> = holds.filter(|(_, until)| *until > now).collect();
        let with_rate = found.iter().filter(|(_, limit)| limit.tokens().is_some());
        let names: Vec<String> = with_rate.map(|(scope, _)| scope.setting()).collect();
        let tokens = match names.is_empty() {
            true => Vec::new(),
            false => self.ask(caller, request::tokens(names)).await?,
        };
        let mut tokens = tokens.into_iter();
        let info = |(scope, limit): (LimitScope, Limit)| {
            let rate = limit.tokens();
            let next = rate.and_then(|rate| {
                let mut tokens = tokens.next()??;
                tokens.follow(rate, now);
                Some(tokens.next())
            });
            LimitInfo {
                limit,
                running: running.get(&scope).copied().unwrap_or(0),
                held_until: holds.get(&scope).map(|until| until.to_system()),
                next_start: next.filter(|next| *next > now).map(Millis::to_system),
                scope,
            }
        };
        Ok(found.into_iter().map(info).collect())
    }

    /// Returns the scopes among the stored settings that have a limit, are held now, or are paused partitions.
    pub(crate) fn scopes_in(&self, stored: &[(String, String)]) -> Scopes {
        let now = self.dispatcher.clock.now().millis();
        let mut found = limited(stored, now);
        for scope in stored.iter().filter_map(|(name, _)| stored_limits::pause_in(name)) {
            found.entry(scope).or_default();
        }
        found
    }

    /// Returns the pauses, holds and operators' limits, in the order of the scopes.
    pub(crate) fn slowed_in(&self, stored: &[(String, String)]) -> Vec<(LimitScope, Slowed)> {
        let now = self.dispatcher.clock.now().millis();
        let slowed = |(name, value): &(String, String)| stored_limits::slowed_in(name, value, now);
        let mut all: Vec<(LimitScope, Slowed)> = stored.iter().filter_map(slowed).collect();
        all.sort_by(|(a, _), (b, _)| a.cmp(b));
        all
    }

    /// Returns what is shown of these scopes. `kinds`: the gauges of the store.
    pub(crate) fn limits_of(
        &self,
        stored: &[(String, String)],
        scopes: Scopes,
        kinds: &[KindGauges],
    ) -> Result<Vec<SeenLimit>, StoreError> {
        on_thread(self.seen_limits(Caller::Thread, stored, scopes, kinds))
    }

    /// Returns what is shown of these scopes. `kinds`: the gauges of the store.
    pub(super) async fn seen_limits(
        &self,
        caller: Caller,
        stored: &[(String, String)],
        scopes: Scopes,
        kinds: &[KindGauges],
    ) -> Result<Vec<SeenLimit>, StoreError> {
        if scopes.is_empty() {
            return Ok(Vec::new());
        }
        let now = self.dispatcher.clock.now().millis();
        let infos = self.counted_limits(caller, stored, scopes, now).await?;
        let flows = flows_in(stored);
        // A file stops counting overdue jobs at about this number. A server counts all of them.
        let overdue: u64 = kinds.iter().map(|kind| kind.overdue).sum();
        let is_exact = self.dispatcher.shared || overdue < MOST_COUNTED;
        let waits = |count| Some(Number { count, is_exact });
        let mut waiting: BTreeMap<&str, u64> = BTreeMap::new();
        for kind in kinds {
            *waiting.entry(flows.get(&*kind.kind).unwrap_or(&&*kind.kind)).or_default() +=
                kind.overdue;
        }
        let names = stored.iter().map(|(name, _)| &**name);
        let pauses: HashSet<&str> = names.filter(|name| name.starts_with("pause")).collect();
        let before = |(name, value): &(String, String)| {
            Some((LimitScope::of_setting(name)?, StoredLimit::from_text(value).before?))
        };
        let by_hand: HashMap<LimitScope, Limit> = stored.iter().filter_map(before).collect();
        let seen = |info: LimitInfo| SeenLimit {
            before: by_hand.get(&info.scope).copied(),
            waiting: match &info.scope {
                LimitScope::Queue => waits(overdue),
                LimitScope::Flow(flow) => waits(waiting.get(&**flow).copied().unwrap_or(0)),
                LimitScope::Each(_) | LimitScope::Partition { .. } => None,
            },
            is_paused: match &info.scope {
                LimitScope::Queue => pauses.contains(&*setting::pause_setting(None)),
                LimitScope::Partition { kind, partition } => {
                    pauses.contains(&*stored_limits::partition_pause_setting(kind, partition))
                }
                LimitScope::Flow(_) | LimitScope::Each(_) => false,
            },
            info,
        };
        Ok(infos.into_iter().map(seen).collect())
    }
}

/// Returns the text of a setting.
pub(super) fn text_of<'a>(stored: &'a [(String, String)], name: &str) -> Option<&'a str> {
    stored.iter().find(|(its, _)| its == name).map(|(_, text)| &**text)
}

/// Returns each scope that has a limit or is held now, in the order of the scopes.
fn limited(stored: &[(String, String)], now: Millis) -> Scopes {
    let limit = |(name, value): &(String, String)| {
        let limit = Limit::from_text(value).filter(|limit| !limit.is_none())?;
        Some((LimitScope::of_setting(name)?, limit))
    };
    let mut found: Scopes = stored.iter().filter_map(limit).collect();
    for (name, value) in stored {
        if let Some((scope, until)) = stored_limits::hold_in(name, value)
            && until > now
        {
            found.entry(scope).or_default();
        }
    }
    found
}

/// Returns the kinds whose flow is not the kind itself, with their flows.
pub(crate) fn flows_in(stored: &[(String, String)]) -> HashMap<&str, &str> {
    let flows = stored.iter().filter_map(|(name, flow)| Some((name.strip_prefix("flow:")?, flow)));
    flows.map(|(kind, flow)| (kind, &**flow)).collect()
}

/// Returns the flow of a kind by the stored settings.
pub(crate) fn flow_in(stored: &[(String, String)], kind: &str) -> String {
    text_of(stored, &stored_limits::flow_setting(kind)).unwrap_or(kind).to_owned()
}

/// A scope with a limit, as it is shown.
pub(crate) struct SeenLimit {
    pub(crate) info: LimitInfo,
    /// Its overdue jobs. `None`: it is a partition, whose jobs the store does not count.
    pub(crate) waiting: Option<Number>,
    /// It is paused by itself.
    pub(crate) is_paused: bool,
    /// The limit of the scope before an operator set the present one.
    pub(crate) before: Option<Limit>,
}

/// Scopes and their limits, in the order of the scopes: the queue, flows, each partition of a kind, partitions.
pub(crate) type Scopes = BTreeMap<LimitScope, Limit>;
