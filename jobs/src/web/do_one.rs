//! Does an action on one job, a kind, the queue or a schedule, and says in a sentence what was done.

use super::page::text::absolute;
use super::params::{Params, wrong};
use super::read::Reader;
use super::read::job::not_found;
use super::route::{Act, JobVerb, Pause, ScheduleVerb};
use super::times;
use super::views::{Problem, Time};
use crate::values::error::StoreError;
use crate::values::id::JobId;
use crate::values::info::Cancel;
use crate::values::time::Millis;

/// What an action has done.
pub(crate) struct Did {
    pub(crate) result: &'static str,
    /// What was done, as a sentence.
    pub(crate) text: String,
    pub(crate) job: Option<JobId>,
    /// How many jobs, kinds, queues or schedules are another than before.
    pub(crate) changed: u64,
}

impl Did {
    pub(crate) fn all(text: String, changed: u64) -> Did {
        Did { result: "done", text, job: None, changed }
    }
}

/// Does an action that is not a bulk.
pub(crate) fn do_one(reader: &Reader<'_>, params: &Params, act: &Act) -> Result<Did, Problem> {
    match act {
        Act::Job(id, verb) => do_job(reader, params, *id, *verb),
        Act::Queue(verb) => {
            let (client, was_paused) = (reader.client(), reader.client().settings()?.is_paused);
            let text = match (verb, was_paused) {
                (Pause::Pause, false) => "The queue is paused: no further job starts.",
                (Pause::Pause, true) => "The queue was paused already.",
                (Pause::Resume, true) => "The queue goes on.",
                (Pause::Resume, false) => "The queue was not paused.",
            };
            match verb {
                Pause::Pause => client.pause()?,
                Pause::Resume => client.resume()?,
            }
            let changes = was_paused != (*verb == Pause::Pause);
            Ok(Did::all(text.to_owned(), changes.into()))
        }
        Act::Kind(verb) => {
            let name = params.required("kind")?;
            let (client, kind) = (reader.client(), reader.client().kind_named(&name));
            let was_paused = client.settings()?.paused_kinds.contains(&name);
            let is_known = client.kinds()?.iter().any(|(its, _)| *its == name);
            let mut text = match (verb, was_paused) {
                (Pause::Pause, false) => {
                    format!("The kind {name:?} is paused: no further job of it starts.")
                }
                (Pause::Pause, true) => format!("The kind {name:?} was paused already."),
                (Pause::Resume, true) => format!("The kind {name:?} goes on."),
                (Pause::Resume, false) => format!("The kind {name:?} was not paused."),
            };
            match verb {
                Pause::Pause => kind.pause()?,
                Pause::Resume => kind.resume()?,
            }
            if *verb == Pause::Pause && !is_known {
                text +=
                    " The queue has had no job of this kind. The pause holds for jobs that come.";
            }
            let changes = was_paused != (*verb == Pause::Pause);
            Ok(Did::all(text, changes.into()))
        }
        Act::Schedule(verb) => do_schedule(reader, params, *verb),
        Act::Bulk | Act::StopBulk(_) => unreachable!("not an action of its own"),
    }
}

fn do_job(reader: &Reader<'_>, params: &Params, id: JobId, verb: JobVerb) -> Result<Did, Problem> {
    let client = reader.client();
    let (changed, text) = match verb {
        JobVerb::Retry => (client.retry(id)?, format!("The job {id} is due again, at once.")),
        JobVerb::Delete => (client.delete(id)?, format!("The job {id} is deleted.")),
        JobVerb::Reschedule => {
            let due = when(params, reader.now())?;
            let time = Time::new(due.to_system());
            let text = match params.get("when") {
                None => format!("The job {id} is due now."),
                Some(_) => format!("The job {id} is due at {}.", absolute(time)),
            };
            (client.reschedule(id, due.to_system())?, text)
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
    let message = format!("the job is {}: it was left as it is", job.state);
    Err(Problem { status: 409, error: "wrong_state", message })
}

fn do_schedule(reader: &Reader<'_>, params: &Params, verb: ScheduleVerb) -> Result<Did, Problem> {
    let (client, name) = (reader.client(), &params.required("schedule")?);
    let gone = || {
        let message = format!("there is no schedule {name:?}");
        Problem { status: 404, error: "not_found", message }
    };
    if verb == ScheduleVerb::Run {
        // The id of the job is made from that of the form, so two processes that get the form make one job.
        let queue = &reader.queue().name;
        let id = params.name("once")?.map(|once| {
            let (of_queue, of_name) = (queue.len(), name.len());
            JobId::named(&format!("run {of_queue} {queue} {of_name} {name} {once}"))
        });
        let id = client.run_schedule_once(name, id)?.ok_or_else(gone)?;
        let text = format!("The schedule {name:?} has made the job {id}, which is due now.");
        return Ok(Did { job: Some(id), ..Did::all(text, 1) });
    }
    if verb == ScheduleVerb::Unschedule {
        let is_done = client.unschedule(name)?;
        let text = format!("The schedule {name:?} has ended. The jobs that it has made stay.");
        return is_done.then(|| Did::all(text, 1)).ok_or_else(gone);
    }
    let was_paused = client.settings()?.paused_schedules.contains(name);
    let (changed, text) = match (verb, was_paused) {
        (ScheduleVerb::Pause, false) => {
            (client.pause_schedule(name), "is paused: it makes no further job")
        }
        (ScheduleVerb::Pause, true) => (client.pause_schedule(name), "was paused already"),
        (_, true) => (client.resume_schedule(name), "goes on"),
        (_, false) => (client.resume_schedule(name), "was not paused"),
    };
    match changed {
        Err(StoreError::NoSchedule(_)) => Err(gone()),
        Err(other) => Err(other.into()),
        Ok(()) => {
            let changes = was_paused != (verb == ScheduleVerb::Pause);
            Ok(Did::all(format!("The schedule {name:?} {text}."), changes.into()))
        }
    }
}

/// Reads when a job is to be due. Without the parameter it is now.
pub(crate) fn when(params: &Params, now: Millis) -> Result<Millis, Problem> {
    let Some(text) = params.get("when") else { return Ok(now) };
    let wrong = || wrong("when is a time as 2026-11-22T10:00:00Z, or a distance as 2h 30m");
    times::time(text, now).ok_or_else(wrong)
}
