//! Functions of the program that the jobs call, and that call every verb: `on_event`, and a middleware.
//!
//! A manual clock has no thread of its own, so calls in `on_event` are done. A handler may leave its plan to its
//! middleware, which then makes each call and ends each run.

use std::sync::Arc;

use tickwheel_jobs::{Client, Event, Fail, JobId, Next, Run, StoreError};

use crate::batches;
use crate::calls::call;
use crate::ops::{NAMES, Op, Plan, QUICK, Task};
use crate::oracle::{Outcome, ensure};
use crate::schedules;
use crate::world::{Shared, handle};

/// The jobs tell something: it is counted, and the calls are made that the history has for it.
pub(crate) fn told(shared: &Arc<Shared>, event: Event) {
    match event {
        Event::Failed { .. } => shared.lock().failures += 1,
        Event::Died { .. } => shared.lock().deaths += 1,
        Event::Expired { id, .. } => {
            shared.look_at_the_clocks(false);
            let expired = shared.lock().oracle.expired(id);
            shared.note(expired);
        }
        other => return shared.note(Err(format!("{other:?}"))),
    }
    let (client, calls) = {
        let mut state = shared.lock();
        if state.crashed() || state.batch_ends {
            return;
        }
        (state.client.clone(), core::mem::take(&mut state.on_event))
    };
    let Some(client) = client.filter(|_| !calls.is_empty()) else { return };
    for op in &calls {
        let done = match op {
            Op::Schedule(name, kind, period, policy, plan) => {
                schedules::schedule(shared, &client, (*name, *kind), *period, *policy, plan)
            }
            Op::Unschedule(name) => schedules::unschedule(shared, &client, *name),
            op => call(shared, &client, op, None, false),
        };
        shared.note(done.map_err(|wrong| format!("in on_event: {wrong}")));
    }
    shared.note(questions(shared, &client).map_err(|wrong| format!("in on_event: {wrong}")));
}

/// Every question, and `flush`, is answered in `on_event` on a manual clock.
fn questions(shared: &Shared, client: &Client) -> Outcome {
    let failed = |error: StoreError| error.to_string();
    client.nudge();
    client.flush().map_err(failed)?;
    client.check().map_err(|violation| format!("check: {violation}"))?;
    let (counts, schedules) =
        (client.count().map_err(failed)?, client.schedules().list().map_err(failed)?);
    client.unhandled().map_err(failed)?;
    let kinds = client.queue().kinds().map_err(failed)?;
    let alive: u64 = kinds.iter().map(|(_, jobs)| jobs).sum();
    ensure(counts.pending + counts.running == alive, || format!("{counts:?}, not {kinds:?}"))?;
    for pages in [client.pending(), client.running(), client.dead()] {
        let mut pages = pages;
        pages.next_page().map_err(failed)?;
    }
    let expected = shared.lock().oracle.schedules.len();
    ensure(schedules.len() == expected, || format!("{schedules:?}, not {expected}"))?;
    let ids: Vec<JobId> = shared.lock().oracle.ids.iter().rev().take(3).copied().collect();
    for id in ids {
        let found = client.get(id).map_err(failed)?.is_some();
        let oracle = &shared.lock().oracle;
        let at = oracle.find(id);
        let kept = oracle.find_kept(id);
        let perhaps =
            at.is_some_and(|at| oracle.jobs[at].perhaps) || kept.is_some_and(|kept| kept.perhaps);
        let is_there = at.is_some() || kept.is_some();
        ensure(perhaps || found == is_there, || format!("get {id}: {found}, not {at:?}"))?;
    }
    Ok(())
}

/// A handler: carries out the plans of its runs, or leaves all of them to its middleware.
pub(crate) fn handle_or_leave<'a>(
    shared: &Shared,
    plans: impl Iterator<Item = &'a Plan>,
    handle: impl FnOnce() -> Result<(), Fail>,
) -> Result<(), Fail> {
    let plans: Vec<Plan> = plans.cloned().collect();
    if plans[0].tag.is_multiple_of(2) || shared.is_over() {
        return handle();
    }
    shared.lock().left = plans;
    Err(Fail::dead("the middleware has the last word"))
}

/// The middleware: carries out the plans that the handler has left.
pub(crate) fn around(shared: &Arc<Shared>, runs: &[Run], next: Next<'_>) -> Result<(), Fail> {
    let ended = next.run();
    let left = core::mem::take(&mut shared.lock().left);
    let Some(first) = left.first() else { return ended };
    if runs[0].kind() == NAMES[QUICK] {
        let jobs: Vec<(Task<1>, Run)> =
            left.into_iter().map(Task).zip(runs.iter().cloned()).collect();
        return batches::handle(shared, &jobs);
    }
    let kind = NAMES.iter().position(|name| *name == runs[0].kind());
    handle(shared, kind.expect("a kind of the history"), first, &runs[0])
}
