//! The commands that set how the jobs of a scope start, and which completed jobs are kept: `limit`, `hold`, `release`,
//! `pause`, `resume`, `head-start`, `keep`. Also the line about pauses, holds and limits set by hand.
//!
//! Ground rules:
//!
//! - A command prints the setting before and after the change. `pause` and `resume` print only the new state. If two
//!   users change one setting at once, the later change counts. If they change different parts of a limit, both count.
//! - A dry run is the change without its end, so it refuses what the change refuses.
//! - `limit` sets a limit by hand: the limit holds until `--none` lifts it. Then the earlier limit holds again.
//! - A part of a limit stays as it is if no option names it. A rate and its burst are one part.

use std::io::Write;
use std::time::{Duration, SystemTime};

use serde_json::{Value, json};
use tickwheel_jobs::view::{Slowdowns, Time};
use tickwheel_jobs::{
    ChangedByHand, Client, HowChanged, Keep, Limit, LimitScope, StoreError, StoredLimit,
};

use crate::args::{self, ChangeOutput, Hold, Paused, Release, Scope};
use crate::text::{self, dated, json, now, plain, span};
use crate::{Answer, Outcome, find};

const MOST_NAMED: usize = 6;

impl ChangeOutput {
    fn how(&self) -> HowChanged<'static> {
        HowChanged::new(self.dry_run, None)
    }

    /// Prints a setting before and after a change. `shown` returns it in words and as JSON.
    fn print<T: Copy>(
        &self,
        of: &str,
        changed: &ChangedByHand<T>,
        shown: impl Fn(T) -> (String, Value),
        out: &mut impl Write,
    ) -> Answer<()> {
        let ((before, json_before), (now, json_now)) = (shown(changed.before), shown(changed.now));
        if self.json {
            let said = json!({ "of": of, "before": json_before, "now": json_now });
            writeln!(out, "{}", json(&said)?)?;
        } else {
            let would = if self.dry_run { "it would be: " } else { "" };
            writeln!(out, "{}: {would}{now} (before: {before})", plain(of))?;
        }
        Ok(())
    }
}

impl Scope {
    /// Returns the scope, and its name for the output. The name of a kind selects the flow of the kind. The name of a
    /// flow that has a limit selects that flow. Any other name is an error.
    fn resolve(&self, client: &Client, each: bool) -> Answer<(LimitScope, String)> {
        let Some(kind) = &self.of.kind else {
            return Ok((LimitScope::Queue, LimitScope::Queue.to_string()));
        };
        let flow = LimitScope::Flow(kind.clone());
        let scope = match (find::check_kind(client, Some(kind)), self.partition.clone()) {
            (Ok(()), Some(partition)) => LimitScope::Partition { kind: kind.clone(), partition },
            (Ok(()), None) if each => LimitScope::Each(kind.clone()),
            (Ok(()), None) => LimitScope::Flow(client.kind_named(kind).stored_flow()?),
            (Err(error), partition) => {
                let is_flow = client.queue().limits()?.iter().any(|info| info.scope == flow);
                if !is_flow || each || partition.is_some() {
                    return Err(error);
                }
                let name = flow.to_string();
                return Ok((flow, name));
            }
        };
        let name = scope.in_words(Some(kind));
        Ok((scope, name))
    }
}

pub(crate) fn limit(client: &Client, args: &args::Limit, out: &mut impl Write) -> Answer {
    let args::Limit { of, each, output, .. } = args;
    let (scope, name) = of.resolve(client, *each)?;
    let changed = client.limit_by_hand(&scope, output.how(), |stored| args.plan(stored))?;
    output.print(&name, &changed, |stored| limit_shown(stored.limit), out)?;
    let ChangedByHand { before, now, .. } = changed;
    if args.lifts() && !changed.changes {
        let more = match now.limit == Limit::none() {
            true => "",
            false => "; the program has set the one it has, and --none --program removes that",
        };
        eprintln!("tickwheel-jobs: {} has no limit set by hand{more}", plain(&name));
        return Ok(Outcome::Missed);
    }
    if before.limit != now.limit && !output.dry_run && !output.json {
        // Otherwise `--none` alone brings the earlier limit back.
        let is_needed = before.before.is_some() || now.before.is_none();
        let parts = if is_needed { parts(before.limit) } else { Vec::new() };
        let options: String = parts.iter().map(|part| format!(" --{part}")).collect();
        writeln!(out, "the way back: the same command with --none{options}")?;
    }
    Ok(Outcome::Done)
}

impl args::Limit {
    /// Says whether the command line sets no part of the limit, and only lifts it.
    fn lifts(&self) -> bool {
        let sets = self.running.is_some() || self.rate.is_some() || self.weight.is_some();
        self.none && !sets && self.burst.is_none()
    }

    fn plan(&self, stored: StoredLimit) -> Answer<StoredLimit> {
        match self.lifts() {
            true => Ok(stored.lift(self.program).unwrap_or(stored)),
            false => Ok(stored.by_hand(self.merged(stored.limit)?)),
        }
    }

    /// Returns the earlier limit with the parts that the command line names. With `--none` it has only these parts.
    fn merged(&self, before: Limit) -> Answer<Limit> {
        let before = if self.none { Limit::none() } else { before };
        let running = self.running.or(before.most_running());
        let mut limit = running.map_or(Limit::none(), Limit::running);
        if let Some((jobs, per)) = self.rate.or(before.start_rate()) {
            limit = limit.rate(jobs, per);
        } else if self.burst.is_some() {
            return Err("--burst: there is no rate: --rate N/PERIOD sets one".into());
        }
        // A new rate does not keep the burst of the old rate.
        let burst = before.start_burst().filter(|_| self.rate.is_none());
        if let Some(burst) = self.burst.or(burst) {
            limit = limit.burst(burst);
        }
        Ok(match self.weight.or(before.turn_weight()) {
            Some(weight) => limit.weight(weight),
            None => limit,
        })
    }
}

fn limit_shown(limit: Limit) -> (String, Value) {
    let (rate, per) = limit.start_rate().unzip();
    let json = json!({
        "most_running": limit.most_running(), "rate": rate,
        "per_ms": per.map(|per| per.as_millis() as u64),
        "burst": limit.start_burst(), "weight": limit.turn_weight(),
    });
    let words = Some(parts(limit).join(", ")).filter(|words| !words.is_empty());
    (words.unwrap_or_else(|| "no stored limit".to_owned()), json)
}

/// Returns the parts of a limit in the form of the options: `rate 10/1s`, `burst 20`.
fn parts(limit: Limit) -> Vec<String> {
    let rate = limit.start_rate().map(|(jobs, per)| {
        let exact = Some(span(per)).filter(|text| text::rate(&format!("1/{text}")) == Ok((1, per)));
        let exact = exact.filter(|text| !text.contains(' '));
        format!("rate {jobs}/{}", exact.unwrap_or_else(|| format!("{}ms", per.as_millis())))
    });
    let burst = limit.start_burst().map(|jobs| format!("burst {jobs}"));
    let running = limit.most_running().map(|jobs| format!("running {jobs}"));
    let weight = limit.turn_weight().map(|weight| format!("weight {weight}"));
    [rate, burst, running, weight].into_iter().flatten().collect()
}

/// Holds a scope for a time. A time of zero ends the hold.
pub(crate) fn hold(client: &Client, hold: &Hold, out: &mut impl Write) -> Answer {
    let Hold { time, of: Release { of, output } } = hold;
    let (scope, name) = of.resolve(client, false)?;
    let changed = client.hold_by_hand(&scope, *time, output.how())?;
    let shown = |until: Option<SystemTime>| {
        let words = until.map(|until| format!("held until {}", dated(until, now())));
        let json = json!({ "held_until": until.map(Time::from) });
        (words.unwrap_or_else(|| "not held".to_owned()), json)
    };
    output.print(&name, &changed, shown, out)?;
    if !time.is_zero() && !changed.changes {
        eprintln!("tickwheel-jobs: the hold before is longer, so it stays: `release` lifts it");
    }
    Ok(Outcome::Done)
}

pub(crate) fn release(client: &Client, of: Release, out: &mut impl Write) -> Answer {
    hold(client, &Hold { time: Duration::ZERO, of }, out)
}

pub(crate) fn pause(client: &Client, of: &Paused, pauses: bool, out: &mut impl Write) -> Answer {
    let effect = if pauses { "is paused" } else { "goes on" };
    let Paused { of: Scope { of, partition }, schedule } = of;
    find::check_kind(client, of.kind.as_deref())?;
    let of = match (schedule, of.kind.clone(), partition.clone()) {
        (Some(name), ..) => {
            let schedules = client.schedules();
            let changed = if pauses { schedules.pause(name) } else { schedules.resume(name) };
            if let Err(StoreError::NoSchedule(_)) = changed {
                return Ok(find::no_schedule(name, &schedules.list()?));
            }
            changed?;
            format!("the schedule {name}")
        }
        (None, kind, partition) => {
            let _ = client.pause_by_hand(kind.as_deref(), partition.as_deref(), pauses)?;
            match (kind, partition) {
                (Some(kind), Some(partition)) => {
                    LimitScope::Partition { kind, partition }.to_string()
                }
                (Some(kind), None) => format!("the kind {kind:?}"),
                (None, _) => LimitScope::Queue.to_string(),
            }
        }
    };
    writeln!(out, "{} {effect}", plain(&of))?;
    Ok(Outcome::Done)
}

pub(crate) fn head_start(client: &Client, args: &args::HeadStart, out: &mut impl Write) -> Answer {
    let args::HeadStart { by, kind, output } = args;
    find::check_kind(client, Some(kind))?;
    let shown = |by: Duration| {
        let words = match by.is_zero() {
            true => "no head start".to_owned(),
            false => format!("a head start of {}", span(by)),
        };
        let ms = (!by.is_zero()).then_some(by.as_millis() as u64);
        (words, json!({ "head_start_ms": ms }))
    };
    let changed = client.head_start_by_hand(kind, *by, output.how())?;
    output.print(&format!("the kind {kind:?}"), &changed, shown, out)?;
    Ok(Outcome::Done)
}

pub(crate) fn keep(client: &Client, args: &args::Keep, out: &mut impl Write) -> Answer {
    let args::Keep { kind, last, age, bytes, none, output } = args;
    find::check_kind(client, Some(kind))?;
    let keep = Keep::last(last.unwrap_or(u64::MAX));
    let keep = keep.age(age.unwrap_or(Duration::MAX)).bytes(bytes.unwrap_or(u64::MAX));
    let keep = if *none { Keep::nothing() } else { keep };
    let shown = |keep: Keep| {
        let kept = (keep != Keep::nothing()).then(|| keep.to_string());
        (format!("keeps {keep}"), json!({ "keeps": kept }))
    };
    let changed = client.keep_by_hand(kind, keep, output.how())?;
    output.print(&format!("the kind {kind:?}"), &changed, shown, out)?;
    Ok(Outcome::Done)
}

pub(crate) fn line(slowdowns: &Slowdowns) -> Option<String> {
    let rows = slowdowns.rows.iter().take(MOST_NAMED);
    let named: Vec<_> = rows.map(|row| plain(&row.text)).collect();
    let more = slowdowns.total.saturating_sub(named.len() as u64);
    let more = if more > 0 { format!(" And {more} more.") } else { String::new() };
    (!named.is_empty()).then(|| named.join(" ") + &more)
}
