//! The actions on a job, a kind, the queue, a schedule or a group, and on a setting; the start of a bulk; and the
//! latest outcomes, which the next page shows in a sentence.
//!
//! Ground rules:
//!
//! - A browser gets a question before an action that loses something or cannot be taken back (`delete`, `cancel`,
//!   `unschedule`, `seal`), that pauses, that changes a setting (`settings.rs`), or that inserts or runs a job:
//!   `insert`, `run`, `again`, a `reschedule` to now. It gets no question before `retry`, `resume`, `release`, `stop`
//!   and a later time. A JSON client gets no question: it names the job itself. A bulk asks both: without `confirm` it
//!   answers its number and scope, and does nothing.
//! - The `confirm` of a bulk is the number that the question had, and bounds the change. A bulk that matches more by
//!   then asks again.
//! - An action is audited when it is done or has failed. Its outcome is remembered before that, so an audit that panics
//!   lets no form be taken twice.
//! - A form has an id of its own, the field `once`. The first request with it does the action; a further one has the
//!   answer of the first. The ids of the latest [`MOST`] actions are remembered.
//! - A page shows the outcome that its parameter `said` names, for [`SHOWN`]. Its text comes from here, never from the
//!   link.

use core::hash::BuildHasher;
use std::collections::VecDeque;
use std::hash::RandomState;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{LazyLock, Mutex, PoisonError};
use std::time::{Duration, Instant};

use serde::Serialize;

use super::bulks::{Bulks, UnderWay};
use super::options::Action;
use super::page::{absolute, capital, counted};
use super::params::{self, Params, wrong};
use super::read::{Query, Reader, not_found};
use super::request::Task;
use super::route::{Act, GroupVerb, JobVerb, Pause, Paused, ScheduleVerb, is_page};
use super::settings::{self, Asked, Setting};
use super::views::{Did, Filter, Problem, Progress, Question};
use tickwheel_jobs::tickwheel::When;
use tickwheel_jobs::view::{JobFilter, Number, Time};
use tickwheel_jobs::{Cancel, Client, GroupError, GroupId, JobId, LimitScope, StoreError};

#[derive(Clone)]
pub(crate) enum Done {
    Question(Question),
    Started(Progress),
    Changed(Changed),
}

#[derive(Clone, Serialize)]
pub(crate) struct Changed {
    action: &'static str,
    scope: String,
    #[serde(flatten)]
    pub(crate) did: Did,
}

/// Does an action or asks about it. What was done is given to `remember`.
pub(crate) fn act(
    reader: &Reader<'_>,
    bulks: &mut Bulks,
    task: &Task,
    act: &Act,
    remember: impl FnOnce(&Done),
) -> Result<Done, Problem> {
    let setting = match act {
        Act::Setting(verb) => Some(Setting::of(reader, &task.params, *verb)?),
        _ => None,
    };
    let mut jobs = Vec::new();
    let scope = match act {
        Act::Job(id, _) => {
            jobs.push(*id);
            format!("the job {id}")
        }
        Act::Bulk => {
            let done = bulk(reader, bulks, task)?;
            if matches!(done, Done::Started(_)) {
                remember(&done);
            }
            return Ok(done);
        }
        Act::StopBulk(id) => format!("the change {id}"),
        Act::Pause(of, _) => in_words(&paused_scope(&task.params, *of)?),
        Act::Setting(_) => setting.as_ref().map_or(String::new(), |it| it.subject.clone()),
        Act::Schedule(_) => format!("the schedule {:?}", task.params.required("schedule")?),
        Act::Group(id, _) => format!("the group {id}"),
    };
    if let Some(question) = question(reader, task, act, setting.as_ref(), &scope)? {
        return Ok(Done::Question(question));
    }
    let name = name(act);
    let mut queue = reader.queue().name.clone();
    let did = match act {
        Act::StopBulk(id) => bulks.stop(*id).map(|progress| {
            queue = progress.queue;
            let text = match progress.ended {
                None => "The change ends with the jobs that it is changing now.",
                Some(_) => "It had ended already.",
            };
            Did::all(text.to_owned(), 0)
        }),
        Act::Job(id, verb) => do_job(reader, &task.params, *id, *verb),
        Act::Pause(of, verb) => paused_scope(&task.params, *of)
            .and_then(|scope| do_pause(reader.client(), &scope, *verb)),
        Act::Schedule(verb) => do_schedule(reader, &task.params, *verb),
        Act::Group(id, verb) => do_group(reader, *id, *verb),
        Act::Setting(_) | Act::Bulk => match setting {
            Some(setting) => setting.apply(reader),
            None => unreachable!("a bulk has returned"),
        },
    };
    let changed = did.as_ref().map_or(0, |did| did.changed);
    let text = did.as_ref().map_or(String::new(), |did| did.text.clone());
    let done = did.map(|did| Done::Changed(Changed { action: name, scope: scope.clone(), did }));
    if let Ok(done) = &done {
        remember(done);
    }
    let problem = done.as_ref().err().map(|problem| problem.message.clone());
    let request = std::sync::Arc::clone(&task.request);
    bulks.audit(&Action { name, queue, scope, jobs, changed, text, problem, request });
    done
}

/// Returns the question before an action of a browser, if the action needs one and the request does not confirm it.
fn question(
    reader: &Reader<'_>,
    task: &Task,
    act: &Act,
    setting: Option<&Setting>,
    scope: &str,
) -> Result<Option<Question>, Problem> {
    let name = name(act);
    let runs_now = is_run_now(reader, act, &task.params);
    let loses = matches!(name, "delete" | "cancel" | "unschedule" | "seal");
    let changes_setting = setting.is_some() && name != "release";
    let asks = loses || changes_setting || matches!(name, "pause" | "run" | "again") || runs_now;
    let is_confirmed = task.params.is_set("confirm")?;
    if !task.wants_html || !asks || is_confirmed {
        return Ok(None);
    }
    let is_job = matches!(act, Act::Job(..));
    let plain = |scope| Asked { scope, loses, note: None, was: None };
    let asked = match (act, setting) {
        (Act::Group(id, _), _) => {
            let group = reader.client().group_by_id(*id).info()?.ok_or_else(|| no_group(*id))?;
            plain(format!("{scope} with {}", counted(group.open, "open job", "open jobs")))
        }
        (_, Some(setting)) => setting.question(reader)?,
        _ => plain(scope.to_owned()),
    };
    let mut fields = fields(&task.params, "yes".to_owned());
    fields.extend(asked.was.map(|was| ("was".to_owned(), was)));
    Ok(Some(Question {
        action: if runs_now { "run" } else { name },
        jobs: (loses && is_job).then_some(Number::exactly(1)),
        confirmed: None,
        scope: asked.scope,
        loses: asked.loses,
        note: asked.note,
        target: target(act),
        fields,
        back: back_of(&task.params, act),
    }))
}

/// The scope that is paused or resumed: a kind, one of its partitions, or the queue if no kind is given.
type PausedScope = (Option<String>, Option<String>);

fn paused_scope(params: &Params, of: Paused) -> Result<PausedScope, Problem> {
    let word = match of {
        Paused::Queue => "queue".to_owned(),
        Paused::Kind => "kind".to_owned(),
        Paused::Scope => settings::scope_word(params)?,
    };
    let named = |name| params.required(name).map(Some);
    match &*word {
        "queue" => Ok((None, None)),
        "kind" => Ok((named("kind")?, None)),
        "partition" => Ok((named("kind")?, named("partition")?)),
        _ => Err(wrong("a pause is of the queue, a kind or one partition")),
    }
}

fn in_words(scope: &PausedScope) -> String {
    match scope.clone() {
        (Some(kind), Some(partition)) => LimitScope::Partition { kind, partition }.to_string(),
        (Some(kind), None) => format!("the kind {kind:?}"),
        (None, _) => LimitScope::Queue.to_string(),
    }
}

/// Says whether a job is made due now: a reschedule without a time, or to one that has come. The action itself refuses
/// a time that cannot be read.
fn is_run_now(reader: &Reader<'_>, act: &Act, params: &Params) -> bool {
    let now = reader.view().now().to_system();
    matches!(act, Act::Job(_, JobVerb::Reschedule))
        && params.when(now).is_ok_and(|when| when <= now)
}

fn wrong_state(message: String) -> Problem {
    Problem::new(409, "wrong_state", message)
}

fn no_group(id: GroupId) -> Problem {
    Problem::not_found(format!("there is no group {id}"))
}

fn bulk(reader: &Reader<'_>, bulks: &mut Bulks, task: &Task) -> Result<Done, Problem> {
    let (params, now) = (&task.params, reader.view().now());
    let mut actions = ["retry", "delete", "cancel", "reschedule"].into_iter();
    let action = actions.find(|action| params.get("action") == Some(action));
    let action = action.ok_or_else(|| wrong("action is retry, delete, cancel or reschedule"))?;
    let ids = params.ids()?;
    let wanted = if ids.is_empty() { Some(list(params, reader)?) } else { None };
    let mut of_list = Filter::NAMES.iter().chain(&["all"]);
    if let Some(name) = of_list.find(|name| wanted.is_none() && params.get(name).is_some()) {
        return Err(wrong(format!("a bulk has ids or a list: {name} has no meaning beside id")));
    }
    if let Some(Query { filter, .. }) = &wanted
        && !filter.state.changes().contains(&action)
    {
        let message = format!("{action} does not apply to {} jobs", filter.state.word());
        return Err(Problem::new(400, "not_applicable", message));
    }
    let (of, scope) = match &wanted {
        Some(Query { filter, texts }) => {
            (reader.view().count(filter)?, scope(reader, filter, texts)?)
        }
        None => {
            let count = ids.len() as u64;
            (Number::exactly(count), counted(count, "chosen job", "chosen jobs"))
        }
    };
    let due = match action {
        "reschedule" => params.when(now.to_system())?,
        _ => now.to_system(),
    };
    let confirmed = params.confirmed()?;
    let Some(confirmed) = confirmed.filter(|confirmed| confirmed.covers(of)) else {
        return Ok(Done::Question(Question {
            action,
            jobs: Some(of),
            confirmed,
            scope,
            loses: matches!(action, "delete" | "cancel"),
            note: None,
            target: target(&Act::Bulk),
            fields: fields(params, of.to_string()),
            back: back_of(params, &Act::Bulk),
        }));
    };
    let pages = match &wanted {
        Some(wanted) => reader.view().matching(&wanted.filter),
        None => reader.client().by_ids(ids.iter().copied()),
    };
    let bulk = match action {
        "retry" => pages.retry_all()?,
        "delete" => pages.delete_all()?,
        "cancel" => pages.cancel_all()?,
        _ => pages.reschedule_all(When::wall(due))?,
    };
    let bulk = if confirmed.is_exact { bulk.at_most(confirmed.count) } else { bulk };
    let (request, back) = (std::sync::Arc::clone(&task.request), back_of(params, &Act::Bulk));
    let progress = Progress {
        queue: reader.queue().name.clone(),
        action,
        scope,
        started: now,
        state: "running",
        of: confirmed,
        back,
        ..Progress::default()
    };
    bulks.start(UnderWay { at: reader.at, bulk, ids, request, progress }).map(Done::Started)
}

/// Reads the list of a bulk. All jobs of a state need a word of their own, so that no filter is lost by mistake.
fn list(params: &Params, reader: &Reader<'_>) -> Result<Query, Problem> {
    if params.get("state").is_none() {
        return Err(wrong("a bulk needs the ids of jobs, or the state of a list"));
    }
    let query = Query::of(params, reader)?;
    match (query.filter.is_set(), params.is_set("all")?) {
        (false, false) => {
            let state = query.filter.state.word();
            Err(wrong(format!("without a filter, a bulk of all {state} jobs needs all=yes")))
        }
        (true, true) => Err(wrong("all=yes has no meaning beside a filter")),
        _ => Ok(query),
    }
}

/// Returns a sentence that says which jobs these are: that of the filter, with the error of its group in the place of
/// the group's name, and with times as they were given.
fn scope(reader: &Reader<'_>, filter: &JobFilter, texts: &Filter) -> Result<String, Problem> {
    let mut rest = filter.clone();
    (rest.from, rest.to) = (None, None);
    let group =
        match rest.group.take() {
            Some(group) => {
                let groups = reader.view().dead(usize::MAX)?.groups;
                let error = groups.into_iter().find(|its| its.group == group).map(|its| its.error);
                Some(error.map_or(format!(" of the group {group}"), |it| {
                    format!(" with the error {it:?}")
                }))
            }
            None => None,
        };
    let mut scope = rest.to_string() + &group.unwrap_or_default();
    for (name, value) in [("from", &texts.from), ("until", &texts.to)] {
        if let Some(value) = value {
            scope += &format!(", due {name} {value}");
        }
    }
    Ok(scope)
}

/// Returns the name of an action, which is the last segment of its path.
fn name(act: &Act) -> &'static str {
    match act {
        Act::Job(_, verb) => verb.name(),
        Act::Bulk => "bulk",
        Act::StopBulk(_) => "stop",
        Act::Pause(_, verb) => verb.name(),
        Act::Setting(verb) => verb.name(),
        Act::Schedule(verb) => verb.name(),
        Act::Group(_, verb) => verb.name(),
    }
}

pub(crate) fn target(act: &Act) -> String {
    let of = match act {
        Act::Job(id, _) => format!("jobs/{id}/"),
        Act::StopBulk(id) => format!("bulk/{id}/"),
        Act::Pause(of, _) => format!("{}/", of.place()),
        Act::Setting(verb) => format!("{}/", verb.place()),
        Act::Schedule(_) => "schedules/".to_owned(),
        Act::Group(id, _) => format!("groups/{id}/"),
        Act::Bulk => String::new(),
    };
    format!("api/v1/{of}{}", name(act))
}

/// Returns the page to which an action leads if its form names none.
pub(crate) fn default_back(act: &Act) -> String {
    match act {
        Act::Job(id, JobVerb::Retry | JobVerb::Reschedule | JobVerb::Again) => format!("jobs/{id}"),
        Act::Job(..) | Act::Bulk => "jobs".to_owned(),
        Act::StopBulk(id) => format!("bulk/{id}"),
        Act::Pause(..) | Act::Setting(_) => "kinds".to_owned(),
        Act::Schedule(_) => "schedules".to_owned(),
        Act::Group(..) => "groups".to_owned(),
    }
}

pub(crate) fn back_of(params: &Params, act: &Act) -> String {
    let back = params.get("back").filter(|back| is_page(back));
    back.map_or_else(|| default_back(act), str::to_owned)
}

/// Returns the fields that a question sends again.
fn fields(params: &Params, confirm: String) -> Vec<(String, String)> {
    let mut fields: Vec<(String, String)> = params
        .pairs()
        .filter(|(name, _)| !matches!(&**name, "confirm" | "queue" | "once" | "was"))
        .map(|(name, value)| match &*name {
            "payload" => (name, settings::without_lines(&value)),
            _ => (name, value),
        })
        .collect();
    fields.push(("confirm".to_owned(), confirm));
    fields
}

fn do_pause(client: &Client, scope: &PausedScope, verb: Pause) -> Result<Did, Problem> {
    let (kind, partition) = scope;
    let pauses = verb == Pause::Pause;
    let is_known = match (kind, partition) {
        (Some(kind), None) if pauses => client.queue().kinds()?.iter().any(|(its, _)| its == kind),
        _ => true,
    };
    let changes = client.pause_by_hand(kind.as_deref(), partition.as_deref(), pauses)?;
    let effect = match kind {
        None => "no further job starts",
        Some(_) => "no further job of it starts",
    };
    let mut did = paused(&capital(&in_words(scope)), verb, changes, effect);
    if !is_known {
        did.text += " The queue has had no job of this kind. The pause holds for jobs that come.";
    }
    Ok(did)
}

/// Returns what a pause or its end has done. `effect`: what a pause stops.
fn paused(subject: &str, verb: Pause, changes: bool, effect: &str) -> Did {
    let text = match (verb, changes) {
        (Pause::Pause, true) => format!("{subject} is paused: {effect}."),
        (Pause::Pause, false) => format!("{subject} was paused already."),
        (Pause::Resume, true) => format!("{subject} goes on."),
        (Pause::Resume, false) => format!("{subject} was not paused."),
    };
    Did::all(text, changes.into())
}

fn do_job(reader: &Reader<'_>, params: &Params, id: JobId, verb: JobVerb) -> Result<Did, Problem> {
    let client = reader.client();
    let (changed, text) = match verb {
        JobVerb::Retry => (client.retry(id)?, format!("The job {id} is due again, at once.")),
        JobVerb::Again => {
            let job = client.get(id)?.ok_or_else(|| not_found(id))?;
            if job.ended.is_none() {
                (false, String::new())
            } else {
                let new = match reader.made_from_form(&format!("again {id}"))? {
                    Some(new) => client.insert_copy_once(&job, new)?,
                    None => client.insert_copy(&job, Duration::ZERO)?,
                };
                let text = format!("The job {new} was inserted as a copy, and is due now.");
                return Ok(Did { job: Some(new), ..Did::all(text, 1) });
            }
        }
        JobVerb::Delete => (client.delete(id)?, format!("The job {id} is deleted.")),
        JobVerb::Reschedule => {
            let due = params.when(reader.view().now().to_system())?;
            let time = Time::from(due);
            let text = match params.get("when") {
                None => format!("The job {id} is due now."),
                Some(_) => format!("The job {id} is due at {}.", absolute(time)),
            };
            (client.reschedule(id, due)?, text)
        }
        JobVerb::Cancel => match client.cancel(id)? {
            Cancel::Cancelled => (true, format!("The job {id} is cancelled.")),
            Cancel::Running => {
                let text = format!(
                    "The job {id} runs, so it was asked to stop. It is cancelled if its handler stops."
                );
                return Ok(Did { result: "asked_to_stop", job: Some(id), ..Did::all(text, 0) });
            }
            Cancel::Gone => (false, String::new()),
        },
    };
    if changed {
        return Ok(Did::all(text, 1));
    }
    let job = client.get(id)?.ok_or_else(|| not_found(id))?;
    Err(wrong_state(format!("the job is {}: it was left as it is", job.state)))
}

fn do_group(reader: &Reader<'_>, id: GroupId, verb: GroupVerb) -> Result<Did, Problem> {
    let group = reader.client().group_by_id(id);
    let problem = |error| match error {
        StoreError::Group(GroupError::Unknown) => no_group(id),
        StoreError::Group(error) => wrong_state(error.to_string()),
        other => other.into(),
    };
    match verb {
        GroupVerb::Seal => {
            let is_new = group.seal().map_err(problem)?;
            let text = match is_new {
                true => format!("The group {id} is sealed: it takes no more members."),
                false => format!("The group {id} was sealed already."),
            };
            Ok(Did::all(text, is_new.into()))
        }
        GroupVerb::Cancel => {
            let counts = group.cancel().map_err(problem)?;
            let (jobs, runs) = (counts.changed, counts.asked_to_stop);
            let text = format!(
                "The group {id} is cancelled: {} with it, and {} asked to stop.",
                counted(jobs, "pending job", "pending jobs"),
                counted(runs, "run was", "runs were"),
            );
            Ok(Did::all(text, jobs))
        }
    }
}

fn do_schedule(reader: &Reader<'_>, params: &Params, verb: ScheduleVerb) -> Result<Did, Problem> {
    let (client, name) = (reader.client(), &params.required("schedule")?);
    let gone = || Problem::not_found(format!("there is no schedule {name:?}"));
    if verb == ScheduleVerb::Run {
        let id = match reader.made_from_form(&format!("run {} {name}", name.len()))? {
            Some(id) => client.schedules().run_once(name, id)?,
            None => client.schedules().run(name)?,
        };
        let id = id.ok_or_else(gone)?;
        let text = format!("The schedule {name:?} has made the job {id}, which is due now.");
        return Ok(Did { job: Some(id), ..Did::all(text, 1) });
    }
    if verb == ScheduleVerb::Unschedule {
        let is_done = client.schedules().remove(name)?;
        let text = format!("The schedule {name:?} has ended. The jobs that it has made stay.");
        return is_done.then(|| Did::all(text, 1)).ok_or_else(gone);
    }
    let schedules = client.schedules().list()?;
    let was_paused = schedules.iter().any(|its| its.name == *name && its.is_paused);
    let (verb, changed) = match verb {
        ScheduleVerb::Pause => (Pause::Pause, client.schedules().pause(name)),
        _ => (Pause::Resume, client.schedules().resume(name)),
    };
    match changed {
        Err(StoreError::NoSchedule(_)) => Err(gone()),
        Err(other) => Err(other.into()),
        Ok(()) => {
            let schedule = format!("The schedule {name:?}");
            let changes = was_paused != (verb == Pause::Pause);
            Ok(paused(&schedule, verb, changes, "it makes no further job"))
        }
    }
}

const MOST: usize = 1024;
const SHOWN: Duration = Duration::from_secs(60);

struct Outcome {
    /// The form that it came from, if that has an id.
    form: Option<u64>,
    /// The value of `said`.
    name: String,
    /// When it was answered last.
    at: Instant,
    done: Done,
}

#[derive(Default)]
pub(crate) struct Outcomes(Mutex<VecDeque<Outcome>>);

/// Returns a new id of a form or an outcome, which cannot be guessed: 32 hexadecimal digits.
pub(crate) fn new_id() -> String {
    static RANDOM: LazyLock<[RandomState; 2]> =
        LazyLock::new(|| [RandomState::new(), RandomState::new()]);
    static LAST: AtomicU64 = AtomicU64::new(0);
    let number = LAST.fetch_add(1, Ordering::Relaxed);
    RANDOM.iter().map(|random| format!("{:016x}", random.hash_one(number))).collect()
}

/// Returns the form that a request has sent, if it has an id.
pub(crate) fn form(act: &Act, params: &Params) -> Result<Option<u64>, Problem> {
    static RANDOM: LazyLock<RandomState> = LazyLock::new(RandomState::new);
    let form = |_| RANDOM.hash_one((format!("{act:?}"), params));
    params.name("once").map(|once| once.map(form))
}

impl Outcomes {
    pub(crate) fn add(&self, form: Option<u64>, done: Done) -> String {
        let name = new_id();
        let outcome = Outcome { form, name: name.clone(), at: params::now(), done };
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let over = (all.len() + 1).saturating_sub(MOST);
        let gone: Vec<Outcome> = all.drain(..over).collect();
        all.push_back(outcome);
        drop(all);
        drop(gone);
        name
    }

    /// Returns the outcome of a form that was sent before, and its name.
    pub(crate) fn taken(&self, form: u64) -> Option<(String, Done)> {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let outcome = all.iter_mut().find(|outcome| outcome.form == Some(form))?;
        outcome.at = params::now();
        Some((outcome.name.clone(), outcome.done.clone()))
    }

    /// Returns what the outcome of this name has changed, for the page that follows it.
    pub(crate) fn said(&self, name: &str) -> Option<Did> {
        let all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let outcome = all.iter().find(|outcome| outcome.name == name)?;
        match &outcome.done {
            Done::Changed(changed) if params::now().duration_since(outcome.at) < SHOWN => {
                Some(changed.did.clone())
            }
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The memory of outcomes is bounded, and ids of forms differ.
    #[test]
    fn outcomes_are_bounded_and_ids_differ() {
        let outcomes = Outcomes::default();
        let done = || {
            let did = Did::all(String::new(), 0);
            Done::Changed(Changed { action: "pause", scope: String::new(), did })
        };
        let first = outcomes.add(Some(0), done());
        let mut names = std::collections::HashSet::from([first.clone()]);
        for form in 1..=MOST as u64 {
            names.insert(outcomes.add(Some(form), done()));
        }
        assert_eq!((names.len(), outcomes.0.lock().unwrap().len()), (MOST + 1, MOST));
        assert!(outcomes.taken(0).is_none() && outcomes.said(&first).is_none());
        assert!(outcomes.taken(1).is_some_and(|(name, _)| outcomes.said(&name).is_some()));
    }
}
