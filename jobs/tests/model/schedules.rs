//! Repeated jobs, done to the store and told to the oracle.

use std::time::Duration;

use tickwheel_jobs::{Client, Missed, Schedule, StoreError};

use crate::calls::ok;
use crate::insert::of_kind;
use crate::ops::{Plan, Policy, Task, micros};
use crate::oracle::{Outcome, Record, Repeated, ensure};
use crate::world::Shared;

/// Repeats a job under one of a few names.
pub(crate) fn schedule(
    shared: &Shared,
    client: &Client,
    (name, kind): (usize, usize),
    period: u64,
    policy: Policy,
    plan: &Plan,
) -> Outcome {
    let missed = match policy {
        Policy::Skip => Missed::Skip,
        Policy::Once => Missed::Once,
        Policy::Burst(most) => Missed::Burst(most),
    };
    shared.look_at_the_clocks(false);
    let mut plan = plan.clone();
    let number = shared.lock().oracle.number();
    plan.tag = number;
    let schedule = Schedule::every(Duration::from_millis(period)).missed(missed);
    let text = format!("repeat-{name}");
    let repeated = of_kind!(kind, N => client.schedule(&text, schedule, Task::<N>(plan.clone())));
    if period == 0 {
        return ensure(repeated.is_err(), || "a period of zero".to_owned());
    }
    ok(repeated)?;
    let oracle = &mut shared.lock().oracle;
    let period = period as i64;
    let known = oracle.schedules.iter().position(|schedule| schedule.name == text);
    let mut is_paused = false;
    if let Some(at) = known {
        let known = &mut oracle.schedules[at];
        if (known.kind, known.period) == (kind, period) {
            // The same schedule goes on, with other data.
            known.policy = policy;
            known.plan = plan.clone();
            let number = known.number;
            for job in &mut oracle.jobs {
                if job.id.is_none() && job.occurs.is_some_and(|(of, _)| of == number) {
                    job.plan = plan.clone();
                }
            }
            return Ok(());
        }
        is_paused = oracle.schedules.remove(at).is_paused;
    }
    let (number, next) = (number * 10 + name as u64, oracle.now() + period);
    let repeated = Repeated { number, name: text, kind, period, next, policy, plan, is_paused };
    oracle.schedules.push(repeated);
    Ok(())
}

/// Pauses a schedule, or resumes it.
pub(crate) fn pause(shared: &Shared, client: &Client, name: usize, pauses: bool) -> Outcome {
    let name = format!("repeat-{name}");
    // What is due becomes jobs before the pause.
    (0..4).for_each(|_| client.nudge());
    shared.look_at_the_clocks(false);
    let got = match pauses {
        true => client.schedules().pause(&name),
        false => client.schedules().resume(&name),
    };
    let schedules = ok(client.schedules().list())?;
    let oracle = &mut shared.lock().oracle;
    let now = oracle.now();
    let latest = now + oracle.ahead;
    let Some(of) = oracle.schedules.iter_mut().find(|schedule| schedule.name == name) else {
        let none = StoreError::NoSchedule(name);
        return ensure(got == Err(none), || format!("a schedule that is not there: {got:?}"));
    };
    ok(got)?;
    if of.is_paused && !pauses && of.next <= now {
        of.next += ((now - of.next) / of.period + 1) * of.period;
    }
    if pauses && !of.is_paused {
        // An occurrence that is made ahead of its time was made before the pause, or is not made.
        let found = schedules.iter().find(|schedule| schedule.name == name);
        let found = found.map_or(i64::MAX, |found| micros(found.next) / 1000);
        let is_early = found < of.next && found > now && found <= latest;
        let (number, expected) = (of.number, of.next);
        ensure(found == expected || is_early, || format!("paused at {found}, not {expected}"))?;
        of.next = found;
        let is_left_out = |job: &Record| {
            job.id.is_none() && job.occurs.is_some_and(|(by, time)| by == number && time >= found)
        };
        of.is_paused = true;
        oracle.jobs.retain(|job| !is_left_out(job));
        return Ok(());
    }
    of.is_paused = pauses;
    Ok(())
}

pub(crate) fn unschedule(shared: &Shared, client: &Client, name: usize) -> Outcome {
    let name = format!("repeat-{name}");
    let got = ok(client.schedules().remove(&name))?;
    let oracle = &mut shared.lock().oracle;
    let before = oracle.schedules.len();
    oracle.schedules.retain(|schedule| schedule.name != name);
    ensure(got == (oracle.schedules.len() < before), || format!("unschedule: {got}"))
}
