//! The verbs that read limits: which there are, what runs under them, and which of them a job has reached.
//!
//! Ground rules:
//!
//! - The jobs that run are counted when a caller asks: from the claims, and never from a counter.
//! - Of a rate the tokens are read, which tell when the next job may start.

use std::collections::{BTreeMap, HashMap};

use super::caller::{Caller, on_thread};
use super::client::Client;
use super::request;
use crate::values::error::StoreError;
use crate::values::info::JobInfo;
use crate::values::limit::Limit;
use crate::values::limit_info::LimitInfo;
use crate::values::limits::{self, LimitScope, Limits};
use crate::values::time::Millis;

impl Client {
    /// Returns each scope that has a limit or is held, with the number of its jobs that are claimed now. A limit of
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
        let flow = flow_in(stored, &job.kind);
        let mut scopes = vec![LimitScope::Queue, LimitScope::Flow(flow.clone())];
        if let Some(partition) = job.partition.clone() {
            scopes.push(LimitScope::Partition { kind: job.kind.clone(), partition });
        }
        let found = scopes.into_iter().map(|scope| (limits.of_scope(&scope), scope)).collect();
        let claimed = self.ask(caller, request::claimed()).await?.jobs;
        // A job that is claimed and has not started has its place.
        if claimed.iter().any(|other| other.id == job.id) {
            return Ok(Vec::new());
        }
        let is_own = |name: &LimitScope| stored.iter().any(|(its, _)| *its == name.setting());
        let now = self.dispatcher.clock.now().millis();
        let mut reached = self.with_times(caller, found, stored, now).await?;
        for info in &mut reached {
            let counts = |other: &&JobInfo| match info.scope {
                LimitScope::Queue => true,
                LimitScope::Flow(_) => flow_in(stored, &other.kind) == flow,
                LimitScope::Each(_) | LimitScope::Partition { .. } => {
                    other.kind == job.kind && other.partition == job.partition
                }
            };
            info.running = claimed.iter().filter(counts).count() as u64;
            if info.scope.has_turns() && !is_own(&info.scope) && info.held_until.is_none() {
                info.scope = LimitScope::Each(job.kind.clone());
            }
        }
        reached.retain(LimitInfo::is_reached);
        Ok(reached)
    }

    async fn limits_by(&self, caller: Caller) -> Result<Vec<LimitInfo>, StoreError> {
        let stored = self.ask(caller, request::settings()).await?;
        let now = self.dispatcher.clock.now().millis();
        let found = limited(&stored, now);
        self.counted_limits(caller, &stored, found, now).await
    }

    /// Returns these scopes, with the number of their claimed jobs and their times.
    pub(super) async fn counted_limits(
        &self,
        caller: Caller,
        stored: &[(String, String)],
        found: Vec<(Limit, LimitScope)>,
        now: Millis,
    ) -> Result<Vec<LimitInfo>, StoreError> {
        if found.is_empty() {
            return Ok(Vec::new());
        }
        let flows = flows_in(stored);
        let mut running: HashMap<LimitScope, u64> = HashMap::new();
        for job in self.ask(caller, request::claimed()).await?.jobs {
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
        let mut all = self.with_times(caller, found, stored, now).await?;
        for info in &mut all {
            info.running = running.get(&info.scope).copied().unwrap_or(0);
        }
        Ok(all)
    }

    /// Returns these scopes with the times until which they are held, or wait for a token.
    async fn with_times(
        &self,
        caller: Caller,
        found: Vec<(Limit, LimitScope)>,
        stored: &[(String, String)],
        now: Millis,
    ) -> Result<Vec<LimitInfo>, StoreError> {
        let holds = stored.iter().filter_map(|(name, value)| limits::hold_in(name, value));
        let holds: HashMap<LimitScope, Millis> = holds.filter(|(_, until)| *until > now).collect();
        let with_rate = found.iter().filter(|(limit, _)| limit.tokens().is_some());
        let names: Vec<String> = with_rate.map(|(_, scope)| scope.setting()).collect();
        let tokens = match names.is_empty() {
            true => Vec::new(),
            false => self.ask(caller, request::tokens(names)).await?,
        };
        let mut tokens = tokens.into_iter();
        let info = |(limit, scope): (Limit, LimitScope)| {
            let rate = limit.tokens();
            let next = rate.and_then(|rate| {
                let mut tokens = tokens.next()??;
                tokens.follow(rate, now);
                Some(tokens.next())
            });
            LimitInfo {
                limit,
                running: 0,
                held_until: holds.get(&scope).map(|until| until.to_system()),
                next_start: next.filter(|next| *next > now).map(Millis::to_system),
                scope,
            }
        };
        Ok(found.into_iter().map(info).collect())
    }
}

/// Returns each scope that has a limit or is held now, in the order of the scopes.
pub(super) fn limited(stored: &[(String, String)], now: Millis) -> Vec<(Limit, LimitScope)> {
    let limit = |(name, value): &(String, String)| {
        let limit = Limit::from_text(value).filter(|limit| !limit.is_none())?;
        Some((LimitScope::of_setting(name)?, limit))
    };
    let mut found: BTreeMap<LimitScope, Limit> = stored.iter().filter_map(limit).collect();
    for (name, value) in stored {
        if let Some((scope, until)) = limits::hold_in(name, value)
            && until > now
        {
            found.entry(scope).or_default();
        }
    }
    found.into_iter().map(|(scope, limit)| (limit, scope)).collect()
}

/// Returns the kinds whose flow is not the kind itself, with their flows.
pub(crate) fn flows_in(stored: &[(String, String)]) -> HashMap<&str, &str> {
    let flows = stored.iter().filter_map(|(name, flow)| Some((name.strip_prefix("flow:")?, flow)));
    flows.map(|(kind, flow)| (kind, &**flow)).collect()
}

/// Returns the flow of a kind by the stored settings.
pub(super) fn flow_in(stored: &[(String, String)], kind: &str) -> String {
    let name = limits::flow(kind);
    let flow = stored.iter().find(|(its, _)| *its == name);
    flow.map_or(kind, |(_, flow)| flow).to_owned()
}
