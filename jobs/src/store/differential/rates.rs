//! What the oracle knows of rates: the time of each claim, by scope.
//!
//! Ground rules:
//!
//! - P24 is checked by counting: the claims of a scope in the period that ends now, with the next one, are at most
//!   `jobs + burst - 1`.
//! - P25 is checked by a time from which on a rate may not keep a job back. The sentence behind it: the first `burst`
//!   claims are free, each further one costs `per / jobs`, and the longest delay of a claim is lost once in a period. A
//!   delay counts as lost up to a thirty-second part of the period, or up to a millisecond.
//! - After another rate, claims from before do not count for it, unless it is one of the latest rates: then all claims
//!   count that came since it was set first, by whichever rate. After the clock was set back, no earlier claim counts.
//! - P25 takes the claims since the rate is what it is. After other claims a store may wait for as long as a period and
//!   a whole burst take.

use std::collections::HashMap;
use std::time::Duration;

use crate::values::stored_limits::{LimitScope, Limits};
use crate::values::time::Millis;

/// Jobs, period in milliseconds, burst.
type Rate = (u32, u64, u32);

/// Of how many rates all claims count.
const RATES: usize = 3;

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
    /// All claims by a rate, since the clock was last set back.
    all: Vec<Millis>,
    /// The latest rates, the last one first, with the number of claims before the first one by that rate.
    latest: Vec<(Rate, Option<usize>)>,
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
    fn set(&mut self, rate: Option<Rate>) {
        self.rate = rate;
        let Some(rate) = rate else { return };
        let before = self.latest.iter().find(|(its, _)| *its == rate).and_then(|(_, since)| *since);
        self.latest.retain(|(its, _)| *its != rate);
        self.latest.insert(0, (rate, before));
        self.latest.truncate(RATES);
    }

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
                its.set(rate);
                its.begin_anew();
            }
        }
    }

    pub(super) fn clock_was_set_back(&mut self) {
        for its in self.scopes.values_mut() {
            its.begin_anew();
            its.all.clear();
            its.latest.iter_mut().for_each(|(_, since)| *since = None);
        }
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
            its.set(rate);
            its.anew.get_or_insert(now);
            its.starts.push(now);
            if let Some((_, since)) = its.latest.first_mut().filter(|_| rate.is_some()) {
                since.get_or_insert(its.all.len());
                its.all.push(now);
            }
        }
    }

    /// Says whether one more claim would be too many in the period that ends now.
    pub(super) fn is_used_up(&self, scope: &LimitScope, now: Millis) -> bool {
        let Some(its) = self.scopes.get(scope) else { return false };
        let Some((jobs, per, burst)) = its.rate else { return false };
        let begin = now.minus(Duration::from_millis(per));
        let since = its.latest.first().and_then(|(_, since)| *since).unwrap_or(its.all.len());
        let in_period = |time: &&Millis| **time > begin && **time <= now;
        let in_period = its.all[since..].iter().filter(in_period).count();
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
            let claims = its.starts.len() as u64 + u64::from(burst) + u64::from(jobs);
            free = free.max(after(anew, claims * each + (claims / u64::from(jobs) + 1) * delay));
        }
        free
    }
}
