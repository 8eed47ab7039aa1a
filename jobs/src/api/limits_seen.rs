//! The limits of a queue as the dashboard and the metrics show them: those of some scopes, with the jobs that wait.
//!
//! Ground rules:
//!
//! - Without a limit, a hold and a paused partition no question is asked.
//! - The tokens of the shown scopes are read, and no others. So the cost has a bound if the caller bounds the scopes.

use std::collections::{BTreeMap, HashSet};

use super::caller::Caller;
use super::client::Client;
use super::limits_read::{flows_in, limited};
use super::request;
use crate::store::KindGauges;
use crate::values::error::StoreError;
use crate::values::limit::Limit;
use crate::values::limit_info::LimitInfo;
use crate::values::limits::{self, LimitScope};
use crate::values::setting;

/// A scope with a limit, as it is shown.
pub(crate) struct SeenLimit {
    pub(crate) info: LimitInfo,
    /// Its overdue jobs. `None`: it is a partition, whose jobs the store does not count.
    pub(crate) waiting: Option<u64>,
    /// It is paused by itself.
    #[cfg_attr(not(feature = "web"), expect(dead_code, reason = "the dashboard shows it"))]
    pub(crate) is_paused: bool,
}

/// The scopes that have something to show, in their order: the queue, flows, each partition of a kind, partitions.
pub(crate) struct Scopes(pub(crate) Vec<(Limit, LimitScope)>);

impl Scopes {
    /// Keeps the scopes that the caller shows.
    pub(crate) fn only(mut self, mut is_shown: impl FnMut(&LimitScope) -> bool) -> Scopes {
        self.0.retain(|(_, scope)| is_shown(scope));
        self
    }
}

impl Client {
    /// Returns the scopes among the stored settings that have a limit, are held now, or are paused partitions.
    pub(crate) fn scopes_in(&self, stored: &[(String, String)]) -> Scopes {
        let now = self.dispatcher.clock.now().millis();
        let found = limited(stored, now).into_iter();
        let mut found: BTreeMap<LimitScope, Limit> =
            found.map(|(limit, scope)| (scope, limit)).collect();
        for scope in stored.iter().filter_map(|(name, _)| limits::pause_in(name)) {
            found.entry(scope).or_default();
        }
        Scopes(found.into_iter().map(|(scope, limit)| (limit, scope)).collect())
    }

    /// Returns what is shown of these scopes. `kinds`: the gauges of the store, if they are known already.
    pub(super) async fn seen_limits(
        &self,
        caller: Caller,
        stored: &[(String, String)],
        scopes: Scopes,
        kinds: Option<&[KindGauges]>,
    ) -> Result<Vec<SeenLimit>, StoreError> {
        if scopes.0.is_empty() {
            return Ok(Vec::new());
        }
        let now = self.dispatcher.clock.now().millis();
        let infos = self.counted_limits(caller, stored, scopes.0, now).await?;
        let asked = match kinds {
            Some(_) => Vec::new(),
            None => self.ask(caller, request::gauges()).await?,
        };
        let (flows, kinds) = (flows_in(stored), kinds.unwrap_or(&asked));
        let mut waiting: BTreeMap<&str, u64> = BTreeMap::new();
        for kind in kinds {
            *waiting.entry(flows.get(&*kind.kind).unwrap_or(&&*kind.kind)).or_default() +=
                kind.overdue;
        }
        let names = stored.iter().map(|(name, _)| &**name);
        let pauses: HashSet<&str> = names.filter(|name| name.starts_with("pause")).collect();
        let seen = |info: LimitInfo| SeenLimit {
            waiting: match &info.scope {
                LimitScope::Queue => Some(waiting.values().sum()),
                LimitScope::Flow(flow) => Some(waiting.get(&**flow).copied().unwrap_or(0)),
                LimitScope::Each(_) | LimitScope::Partition { .. } => None,
            },
            is_paused: match &info.scope {
                LimitScope::Queue => pauses.contains(&*setting::pause(None)),
                LimitScope::Partition { kind, partition } => {
                    pauses.contains(&*limits::pause(kind, partition))
                }
                LimitScope::Flow(_) | LimitScope::Each(_) => false,
            },
            info,
        };
        Ok(infos.into_iter().map(seen).collect())
    }
}
