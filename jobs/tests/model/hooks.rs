//! Functions of the program that the jobs call, and that call every verb: `on_event`, a middleware, and the drop of the
//! values that a handler has captured.
//!
//! A thread of the jobs cannot wait for itself, so the calls of a hook there are refused. A manual clock has no such
//! thread, so calls in `on_event` are done. Calls in a drop at the end are refused, because the jobs have ended. A
//! refused call has done nothing, which the lists after the step show. A handler may leave its plan to its middleware,
//! which then makes each call and ends each run.

use std::fmt::Debug;
use std::sync::{Arc, LazyLock};
use std::time::Duration;

use tickwheel_jobs::view::View;
use tickwheel_jobs::{
    CallError, Client, Event, Fail, GroupId, InsertError, InsertErrorKind, JobId, JobInfo, Jobs,
    Keep, Limit, NewJob, Next, Run, Step, StoreError, Violation, tickwheel::When,
};

use crate::batches;
use crate::calls::{call, key_name};
use crate::ops::{Ending, NAMES, Op, Plan, QUICK, Task, system};
use crate::oracle::{Outcome, ensure};
use crate::schedules;
use crate::world::{Shared, handle};

/// How a call ended.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum End {
    Done,
    Closed,
    /// Because it was made in a hook.
    Refused,
    Else(String),
}

impl From<StoreError> for End {
    fn from(error: StoreError) -> End {
        match error {
            StoreError::Closed => End::Closed,
            StoreError::Other(reason) if reason.contains("hook") => End::Refused,
            other => End::Else(format!("{other:?}")),
        }
    }
}

trait Answer {
    fn end(self) -> End;
}

impl<T: Debug> Answer for Result<T, StoreError> {
    fn end(self) -> End {
        self.map_or_else(End::from, |_| End::Done)
    }
}

impl<T, J> Answer for Result<T, InsertError<J>> {
    fn end(self) -> End {
        self.map_err(|refused| refused.kind().clone()).end()
    }
}

impl<T> Answer for Result<T, InsertErrorKind> {
    fn end(self) -> End {
        match self {
            Ok(_) => End::Done,
            Err(InsertErrorKind::Closed) => End::Closed,
            Err(InsertErrorKind::Store(error)) => error.into(),
            Err(other) => End::Else(format!("{other:?}")),
        }
    }
}

impl<T: Debug> Answer for Result<T, CallError> {
    fn end(self) -> End {
        match self {
            Ok(_) => End::Done,
            Err(CallError::Store(error)) => error.into(),
            Err(CallError::Insert(InsertErrorKind::Closed)) => End::Closed,
            Err(CallError::Insert(InsertErrorKind::Store(error))) => error.into(),
            Err(other) => End::Else(format!("{other:?}")),
        }
    }
}

impl Answer for Result<(), Violation> {
    fn end(self) -> End {
        match self.map_err(|violation| violation.to_string()) {
            Ok(()) => End::Done,
            Err(text) if text.contains("shut down") => End::Closed,
            Err(text) if text.contains("hook") => End::Refused,
            Err(text) => End::Else(text),
        }
    }
}

fn task() -> Task<0> {
    Task(Plan { tag: 11, acts: Vec::new(), ends: vec![Ending::Done], partition: None })
}

const HOUR: Duration = Duration::from_secs(3600);

/// A job that was read. A thread of its own reads it, because no verb of any queue works in a hook.
static ONE_JOB: LazyLock<JobInfo> = LazyLock::new(|| {
    let read = std::thread::spawn(|| {
        let (jobs, _driver) = Jobs::memory().handle(|_: Task<0>, _| Ok(())).manual().unwrap();
        jobs.insert(HOUR, task()).unwrap();
        jobs.pending().next().unwrap()
    });
    read.join().unwrap()
});

/// Calls every verb, those that name a job with each of these, and says how each call ended.
pub(crate) fn every_verb(client: &Client, ids: &[JobId], mut ended: impl FnMut(&str, End)) {
    let when = || When::wall(system(4_000_000_000_000_000));
    client.nudge();
    let _ = client.stats();
    ended("insert", client.insert(when(), task()).end());
    ended("insert_job", client.insert_job(NewJob::new(task()).at(when()).id(JobId::new())).end());
    ended("insert_batch", client.insert_batch([(when(), task())]).end());
    ended("insert_copy", client.insert_copy(&ONE_JOB, when()).end());
    for id in ids {
        ended("cancel", client.cancel(*id).end());
        ended("cancel_batch", client.cancel_batch([*id]).end());
        ended("reschedule", client.reschedule(*id, when()).end());
        ended("retry", client.retry(*id).end());
        ended("delete", client.delete(*id).end());
        ended("get", client.get(*id).end());
        ended("wait", client.wait(*id, Duration::ZERO).end());
        ended("why_pending", client.why_pending(*id).end());
    }
    for key in 0..3 {
        let keyed = client.keyed(&key_name(key));
        ended("keyed insert", keyed.insert(when(), task()).end());
        ended("insert_keeping_time", keyed.insert_keeping_time(when(), task()).end());
        ended("insert_if_absent", keyed.insert_if_absent(when(), task()).end());
        ended("keyed reset", keyed.reschedule(when()).end());
        ended("keyed get", keyed.get().end());
        ended("remaining", keyed.remaining().end());
        ended("keyed cancel", keyed.cancel().end());
        ended("cancel_keys", client.cancel_keys([key_name(key)]).end());
        ended("throttle", keyed.throttle(HOUR, task()).end());
        ended("debounce", keyed.debounce(HOUR, HOUR, task()).end());
    }
    for name in ["repeat-0", "repeat-1"] {
        ended("schedule", client.schedule(name, Duration::from_secs(7), task()).end());
        ended("run_schedule", client.schedules().run_once(name, JobId::new()).end());
        ended("unschedule", client.schedules().remove(name).end());
        ended("pause_schedule", client.schedules().pause(name).end());
        ended("resume_schedule", client.schedules().resume(name).end());
    }
    ended("schedules", client.schedules().list().end());
    ended("count", client.count().end());
    ended("kinds", client.queue().kinds().end());
    ended("unhandled", client.unhandled().end());
    ended("pending", client.pending().next_page().end());
    ended("running", client.running().next_page().end());
    ended("dead", client.dead().next_page().end());
    ended("ended", client.ended().next_page().end());
    ended("call", client.call::<_, ()>(task(), Duration::ZERO).end());
    ended("nodes", client.nodes().end());
    ended("dead_by_error", client.dead_by_error(9).end());
    ended("history", client.queue().history(Step::Hour, system(0)..system(1)).end());
    ended("metrics", client.metrics().end());
    ended("pause", client.queue().pause().end());
    ended("resume", client.queue().resume().end());
    ended("limit", client.queue().limit(Limit::running(1)).end());
    ended("limits", client.queue().limits().end());
    let kind = client.kind::<Task<0>>();
    ended("keep_completed", kind.keep_completed(Keep::last(1)).end());
    ended("head_start", kind.head_start(HOUR).end());
    ended("kind pause", kind.pause().end());
    ended("kind resume", kind.resume().end());
    ended("kind limit", kind.limit(Limit::running(1)).end());
    ended("limit_each", kind.limit_each(Limit::running(1)).end());
    let partition = kind.partition("acme");
    ended("partition limit", partition.limit(Limit::running(1)).end());
    ended("partition pause", partition.pause().end());
    ended("partition resume", partition.resume().end());
    ended("is_paused", client.queue().is_paused().end());
    ended("hold", client.queue().hold(Duration::from_millis(1)).end());
    ended("kind is_paused", kind.is_paused().end());
    ended("kind hold", kind.hold(Duration::from_millis(1)).end());
    ended("kind history", kind.history(Step::Hour, system(0)..system(1)).end());
    ended("partition hold", partition.hold(Duration::from_millis(1)).end());
    ended("groups", client.groups().end());
    ended("results", client.group_by_id(GroupId::new()).results().next_page().end());
    ended("by_ids", client.by_ids([JobId::new()]).next_page().end());
    ended(
        "bulk by ids",
        client.by_ids([JobId::new()]).cancel_all().and_then(|mut it| it.run()).end(),
    );
    ended("bulk", client.dead().delete_all().and_then(|it| it.at_most(0).next_step()).end());
    ended("overview", View::new(client.clone()).overview().end());
    ended("flush", client.flush().end());
    ended("check", client.check().end());
}

/// Says which verb ended otherwise than `right` says.
pub(crate) fn every_verb_ends(
    client: &Client,
    ids: &[JobId],
    right: impl Fn(&End) -> bool,
) -> Outcome {
    let mut wrong = Ok(());
    every_verb(client, ids, |verb, end| {
        if !right(&end) && wrong.is_ok() {
            wrong = Err(format!("{verb} in a hook: {end:?}"));
        }
    });
    wrong
}

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
        Event::Unreadable { what, .. } => return shared.lock().unreadable.push(what),
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
    if shared.lock().foreign {
        // A question that meets an unreadable row returns an error.
        return;
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

/// What a handler has captured: when it is dropped, it calls every verb.
pub(crate) struct CallsInDrop(pub(crate) Arc<Shared>);

impl Drop for CallsInDrop {
    fn drop(&mut self) {
        let (client, ids) = {
            let mut state = self.0.lock();
            let ids: Vec<JobId> = state.oracle.ids.iter().rev().take(3).copied().collect();
            (state.client.take(), ids)
        };
        let Some(client) = client else { return };
        self.0.lock().dropped = true;
        let right = |end: &End| matches!(end, End::Closed | End::Refused);
        self.0
            .note(every_verb_ends(&client, &ids, right).map_err(|wrong| format!("drop: {wrong}")));
    }
}
