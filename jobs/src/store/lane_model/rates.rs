//! What the oracle knows of rates: the time of each claim, by scope.
//!
//! Ground rules:
//!
//! - P24 is checked by counting: the claims of a scope in the period that ends now, with the next one, are at most
//!   `jobs + burst - 1`.
//! - P25 is checked by a time from which on a rate may not keep a job back. The sentence behind it: the first `burst` claims
//!   are free, each further one costs `per / jobs`, and the longest delay of a claim is lost once in a period. A
//!   delay counts as lost up to a thirty-second part of the period, or up to a millisecond.
//! - After another rate, and after the clock was set back, claims from before count for neither. A store may then wait for
//!   as long as a whole burst takes.

use std::collections::HashMap;
use std::time::Duration;

use crate::values::limits::{LimitScope, Limits};
use crate::values::time::Millis;

/// Jobs, period in milliseconds, burst.
type Rate = (u32, u64, u32);

#[derive(Default)]
pub(super) struct Starts {
    limits: Limits,
    scopes: HashMap<LimitScope, Scope>,
}

#[derive(Default)]
struct Scope {
    rate: Option<Rate>,
    /// The claims since the rate is what it is.
    starts: Vec<Millis>,
    /// There were claims under another rate, or before the clock was set back.
    had_others: bool,
    /// The first claim of any job since then.
    anew: Option<Millis>,
}

fn rate_of(limits: &Limits, scope: &LimitScope) -> Option<Rate> {
    let limit = match scope {
        LimitScope::Queue => limits.of_queue(),
        LimitScope::Flow(flow) => limits.of_flow(flow),
        LimitScope::Partition { kind, partition } => limits.of_partition(kind, partition),
        LimitScope::Each(_) => return None,
    };
    let (jobs, per) = limit.start_rate()?;
    Some((jobs, per.as_millis() as u64, limit.start_burst().unwrap_or(1)))
}

impl Scope {
    fn begin_anew(&mut self) {
        self.had_others |= !self.starts.is_empty();
        self.starts.clear();
        self.anew = None;
    }
}

impl Starts {
    pub(super) fn limited(&mut self, limits: &Limits) {
        self.limits = limits.clone();
        for (scope, its) in &mut self.scopes {
            let rate = rate_of(limits, scope);
            if rate != its.rate {
                its.rate = rate;
                its.begin_anew();
            }
        }
    }

    pub(super) fn clock_was_set_back(&mut self) {
        self.scopes.values_mut().for_each(Scope::begin_anew);
    }

    /// A claim is made at this time, of any jobs.
    pub(super) fn claim(&mut self, now: Millis) {
        for its in self.scopes.values_mut() {
            its.anew.get_or_insert(now);
        }
    }

    pub(super) fn started(&mut self, scopes: Vec<LimitScope>, now: Millis) {
        for scope in scopes {
            let rate = rate_of(&self.limits, &scope);
            let its = self.scopes.entry(scope).or_default();
            its.rate = rate;
            its.anew.get_or_insert(now);
            its.starts.push(now);
        }
    }

    /// Says whether one more claim would be too many in the period that ends now.
    pub(super) fn is_used_up(&self, scope: &LimitScope, now: Millis) -> bool {
        let Some(its) = self.scopes.get(scope) else { return false };
        let Some((jobs, per, burst)) = its.rate else { return false };
        let begin = now.minus(Duration::from_millis(per));
        let in_period = its.starts.iter().filter(|time| **time > begin && **time <= now).count();
        in_period >= (jobs + burst - 1) as usize
    }

    /// Returns the time from which on the rate of the scope may not keep back a job.
    pub(super) fn free_from(&self, scope: &LimitScope, now: Millis) -> Millis {
        let Some(its) = self.scopes.get(scope) else { return now };
        let Some((jobs, per, burst)) = its.rate else { return now };
        let each = (per * 1000).div_ceil(u64::from(jobs));
        let delay = (per * 1000 / 32).max(1000);
        let after = |time: Millis, micros: u64| time.plus(Duration::from_micros(micros + 2000));
        let mut free = now;
        for (n, start) in its.starts.iter().enumerate() {
            let since = (its.starts.len() - n) as u64;
            let beyond = since.saturating_sub(u64::from(burst) - 1);
            if beyond > 0 {
                let delays = since / u64::from(jobs) + 1;
                free = free.max(after(*start, beyond * each + delays * delay));
            }
        }
        if its.had_others {
            let anew = its.anew.unwrap_or(now);
            let claims = its.starts.len() as u64 + u64::from(burst);
            free = free.max(after(anew, claims * each + (claims / u64::from(jobs) + 1) * delay));
        }
        free
    }
}
