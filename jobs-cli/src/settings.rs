//! The commands that set how the jobs of a scope start, and which completed jobs are kept: `limit`, `hold`, `release`,
//! `pause`, `resume`, `head-start`, `keep`. Also the line about pauses, holds and limits set by hand.
//!
//! Ground rules:
//!
//! - A command prints the setting before the change, and the setting that the store has after it. `pause` and `resume`
//!   print only the new state. If two users change one setting at once, the later change counts. If they change
//!   different parts of a limit, both changes count.
//! - `limit` sets a limit by hand: the limit holds until `--none` lifts it. Then the earlier limit holds again.
//! - A part of a limit stays as it is if no option names it. A rate and its burst are one part.

use std::io::Write;
use std::time::{Duration, SystemTime};

use serde_json::{Value, json};
use tickwheel_jobs::view::{KindRow, Slowdowns, Time, View};
use tickwheel_jobs::{Client, Keep, Limit, LimitInfo, LimitScope, StoreError, StoredLimit};

use crate::args::{self, Hold, Paused, Release, Scope, Told};
use crate::text::{self, dated, json, now, plain, span};
use crate::{Answer, Outcome, find};

/// The most pauses, holds and limits that `line` names.
const MOST_NAMED: usize = 6;

/// A setting, in words and as JSON.
struct InForce {
    words: String,
    json: Value,
}

/// Makes a change, unless it is a dry run, and prints the setting before and after it. `after` reads the setting after
/// the change. A dry run prints `planned` instead.
fn change(
    of: &str,
    told: &Told,
    (before, planned): (InForce, InForce),
    make: impl FnOnce() -> Result<(), StoreError>,
    after: impl FnOnce() -> Answer<InForce>,
    out: &mut impl Write,
) -> Answer {
    let now = match told.dry_run {
        true => planned,
        false => {
            make()?;
            after()?
        }
    };
    print(of, told, before, now, out)?;
    Ok(Outcome::Done)
}

/// Prints the setting before and after a change.
fn print(of: &str, told: &Told, before: InForce, now: InForce, out: &mut impl Write) -> Answer<()> {
    if told.json {
        let said = json!({ "of": of, "before": before.json, "now": now.json });
        writeln!(out, "{}", json(&said)?)?;
    } else {
        let would = if told.dry_run { "it would be: " } else { "" };
        writeln!(out, "{}: {would}{} (before: {})", plain(of), now.words, before.words)?;
    }
    Ok(())
}

impl Scope {
    /// Returns the scope, and its name for the output. The name of a kind selects the flow of the kind. The name of a
    /// flow that has a limit selects that flow. Any other name is an error.
    fn resolve(&self, client: &Client, each: bool) -> Answer<(LimitScope, String)> {
        let Some(kind) = &self.of.kind else {
            return Ok((LimitScope::Queue, "the queue".to_owned()));
        };
        let of_flow = |info: &LimitInfo| info.scope == LimitScope::Flow(kind.clone());
        if let Err(error) = find::check_kind(client, Some(kind))
            && (each || self.partition.is_some() || !client.queue().limits()?.iter().any(of_flow))
        {
            return Err(error);
        }
        Ok(match &self.partition {
            Some(partition) => {
                let scope =
                    LimitScope::Partition { kind: kind.clone(), partition: partition.clone() };
                (scope, format!("the partition {partition} of {kind}"))
            }
            None if each => (LimitScope::Each(kind.clone()), format!("each partition of {kind}")),
            None => match client.kind_named(kind).stored_flow()? {
                flow if flow == *kind => (LimitScope::Flow(flow), format!("the kind {kind}")),
                flow => {
                    let name = format!("the flow {flow} of the kind {kind}");
                    (LimitScope::Flow(flow), name)
                }
            },
        })
    }
}

/// Returns the stored limit and hold of the scope, or `None` if it has neither.
fn info(client: &Client, scope: &LimitScope) -> Answer<Option<LimitInfo>> {
    Ok(client.queue().limits()?.into_iter().find(|info| info.scope == *scope))
}

/// Sets the limit of a scope.
pub(crate) fn limit(client: &Client, args: &args::Limit, out: &mut impl Write) -> Answer {
    let args::Limit { of, each, told, .. } = args;
    let (scope, name) = of.resolve(client, *each)?;
    if args.weight.is_some() && !each && of.partition.is_none() {
        return Err("--weight: only a partition has one: --each, or --partition NAME".into());
    }
    let mut before = StoredLimit::default();
    let plan = |stored| {
        before = stored;
        args.plan(stored)
    };
    let now = match told.dry_run {
        true => client.stored_limit(&scope).map_err(Into::into).and_then(plan)?,
        false => client.change_limit_by_hand(&scope, plan)?,
    };
    print(&name, told, limit_in_force(before.limit), limit_in_force(now.limit), out)?;
    if args.lifts() && before == now {
        let more = match now.limit == Limit::none() {
            true => "",
            false => "; the program has set the one it has, and --none --program removes that",
        };
        eprintln!("tickwheel-jobs: {} has no limit set by hand{more}", plain(&name));
        return Ok(Outcome::Missed);
    }
    if before.limit != now.limit && !told.dry_run && !told.json {
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

    /// Returns the new limit of a scope.
    fn plan(&self, stored: StoredLimit) -> Answer<StoredLimit> {
        Ok(match stored.before {
            _ if !self.lifts() => stored.by_hand(self.merged(stored.limit)?),
            _ if self.program => StoredLimit::default(),
            Some(_) => stored.lifted(),
            None => stored,
        })
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

fn limit_in_force(limit: Limit) -> InForce {
    let (rate, per) = limit.start_rate().unzip();
    let json = json!({
        "most_running": limit.most_running(), "rate": rate,
        "per_ms": per.map(|per| per.as_millis() as u64),
        "burst": limit.start_burst(), "weight": limit.turn_weight(),
    });
    let words = Some(parts(limit).join(", ")).filter(|words| !words.is_empty());
    InForce { words: words.unwrap_or_else(|| "no stored limit".to_owned()), json }
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
    let Hold { time, of: Release { of, told } } = hold;
    let (scope, name) = of.resolve(client, false)?;
    let held = || -> Answer<Option<SystemTime>> {
        Ok(info(client, &scope)?.and_then(|info| info.held_until))
    };
    let before = held()?;
    let planned = match time.is_zero() {
        true => None,
        false => before.max(now().checked_add(*time)),
    };
    let make = || client.hold_by_hand(&scope, *time);
    let in_force = (hold_in_force(before), hold_in_force(planned));
    let outcome = change(&name, told, in_force, make, || Ok(hold_in_force(held()?)), out)?;
    if planned.is_some() && planned == before {
        eprintln!("tickwheel-jobs: the hold before is longer, so it stays: `release` lifts it");
    }
    Ok(outcome)
}

fn hold_in_force(until: Option<SystemTime>) -> InForce {
    let words = match until {
        Some(until) => format!("held until {}", dated(until, now())),
        None => "not held".to_owned(),
    };
    InForce { words, json: json!({ "held_until": until.map(Time::from) }) }
}

/// Ends a hold.
pub(crate) fn release(client: &Client, of: Release, out: &mut impl Write) -> Answer {
    hold(client, &Hold { time: Duration::ZERO, of }, out)
}

/// Pauses the queue, a kind, a partition or a schedule, or ends its pause.
pub(crate) fn pause(client: &Client, of: &Paused, pauses: bool, out: &mut impl Write) -> Answer {
    let effect = if pauses { "is paused" } else { "goes on" };
    let Paused { of: Scope { of, partition }, schedule } = of;
    find::check_kind(client, of.kind.as_deref())?;
    let of = match (schedule, &of.kind, partition) {
        (Some(name), ..) => {
            let schedules = client.schedules();
            let changed = if pauses { schedules.pause(name) } else { schedules.resume(name) };
            if let Err(StoreError::NoSchedule(_)) = changed {
                return Ok(find::no_schedule(name, &schedules.list()?));
            }
            changed?;
            format!("the schedule {name}")
        }
        (None, Some(kind), Some(partition)) => {
            let its = client.kind_named(kind).partition(partition);
            if pauses { its.pause() } else { its.resume() }?;
            format!("the partition {partition} of {kind}")
        }
        (None, Some(kind), None) => {
            let its = client.kind_named(kind);
            if pauses { its.pause() } else { its.resume() }?;
            format!("the kind {kind}")
        }
        (None, None, _) => {
            let queue = client.queue();
            if pauses { queue.pause() } else { queue.resume() }?;
            "the queue".to_owned()
        }
    };
    writeln!(out, "{} {effect}", plain(&of))?;
    Ok(Outcome::Done)
}

/// Returns the row of a kind.
fn row(client: &Client, kind: &str) -> Answer<KindRow> {
    find::check_kind(client, Some(kind))?;
    Ok(View::new(client.clone()).kind(kind, 0)?.kind)
}

/// Sets the head start of a kind.
pub(crate) fn head_start(client: &Client, args: &args::HeadStart, out: &mut impl Write) -> Answer {
    let args::HeadStart { by, kind, told } = args;
    let in_force = |ms: Option<u64>| InForce {
        words: match ms.map(Duration::from_millis) {
            Some(by) => format!("a head start of {}", span(by)),
            None => "no head start".to_owned(),
        },
        json: json!({ "head_start_ms": ms }),
    };
    let stored = || -> Answer<InForce> { Ok(in_force(row(client, kind)?.head_start_ms)) };
    let ms = u64::try_from(by.as_millis()).ok().filter(|ms| *ms > 0);
    let make = || client.kind_named(kind).head_start(*by);
    change(&format!("the kind {kind}"), told, (stored()?, in_force(ms)), make, stored, out)
}

/// Sets how many completed jobs of a kind are kept.
pub(crate) fn keep(client: &Client, args: &args::Keep, out: &mut impl Write) -> Answer {
    let args::Keep { kind, last, age, bytes, none, told } = args;
    let last = if *none { 0 } else { last.unwrap_or(u64::MAX) };
    let keep = Keep::last(last).age(age.unwrap_or(Duration::MAX)).bytes(bytes.unwrap_or(u64::MAX));
    let in_force = |words: Option<String>| InForce {
        words: words
            .as_ref()
            .map_or("no completed job is kept".to_owned(), |it| format!("kept: {it}")),
        json: json!({ "keeps": words }),
    };
    let stored = || -> Answer<InForce> { Ok(in_force(row(client, kind)?.keeps)) };
    let planned = Some(keep.to_string()).filter(|_| !none);
    let make = || client.kind_named(kind).keep_completed(keep);
    change(&format!("the kind {kind}"), told, (stored()?, in_force(planned)), make, stored, out)
}

/// Returns one line about the pauses, the holds and the limits set by hand, or `None` if there are none.
pub(crate) fn line(slowdowns: &Slowdowns) -> Option<String> {
    let rows = slowdowns.rows.iter().take(MOST_NAMED);
    let named: Vec<_> = rows.map(|row| plain(&row.text)).collect();
    let more = slowdowns.total.saturating_sub(named.len() as u64);
    let more = if more > 0 { format!(" And {more} more.") } else { String::new() };
    (!named.is_empty()).then(|| named.join(" ") + &more)
}
