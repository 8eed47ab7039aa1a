//! The actions: on one job, a kind, the queue, a schedule; and the start of a bulk.
//!
//! Ground rules:
//!
//! - A browser that asks for an action which loses jobs or a schedule gets a question first. A JSON client does not:
//!   it names the job itself. A bulk asks both: without `confirm` it says its number and scope, and does nothing.
//! - The `confirm` of a bulk is the number that the question had, and bounds the change. A bulk that matches more by
//!   then asks again.
//! - An action is audited when it is done or has failed. Its outcome is remembered before that, so an audit that panics
//!   lets no form be taken twice.

use serde::Serialize;

use super::bulks::{Bulks, Change, Start};
use super::do_one::{Did, do_one, when};
use super::options::Action;
use super::page::text::counted;
use super::params::{Params, wrong};
use super::read::query::Query;
use super::read::{MOST_BYTES, MOST_GROUPS, Reader};
use super::route::{Act, JobVerb, Pause, ScheduleVerb, is_page};
use super::task::Task;
use super::views::action::{Progress, Question};
use super::views::{Number, Problem};
use crate::store::Page;
use crate::values::id::JobId;
use crate::values::info::JobInfo;
use crate::values::time::Millis;

/// The result of an action.
#[derive(Clone)]
pub(crate) enum Done {
    Question(Question),
    Started(Progress),
    Changed(Changed),
}

/// The effect of an action, as JSON.
#[derive(Clone, Serialize)]
pub(crate) struct Changed {
    pub(crate) action: &'static str,
    pub(crate) scope: String,
    /// `done`; of a cancel of a job that runs, `asked_to_stop`.
    pub(crate) result: &'static str,
    /// What was done, as a sentence.
    pub(crate) text: String,
    /// The id of the occurrence that was made.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) job: Option<JobId>,
}

/// Does an action or asks about it. What was done is given to `remember`.
pub(crate) fn act(
    reader: &Reader<'_>,
    bulks: &mut Bulks,
    task: &Task,
    act: &Act,
    wants_html: bool,
    remember: impl FnOnce(&Done),
) -> Result<Done, Problem> {
    let (scope, jobs) = match act {
        Act::Job(id, _) => (format!("the job {id}"), vec![*id]),
        Act::Bulk => {
            let done = bulk(reader, bulks, task)?;
            if matches!(done, Done::Started(_)) {
                remember(&done);
            }
            return Ok(done);
        }
        Act::StopBulk(id) => (format!("the change {id}"), Vec::new()),
        Act::Queue(_) => ("the queue".to_owned(), Vec::new()),
        Act::Kind(_) => (format!("the kind {:?}", task.params.required("kind")?), Vec::new()),
        Act::Schedule(_) => {
            (format!("the schedule {:?}", task.params.required("schedule")?), Vec::new())
        }
    };
    let name = name(act);
    let loses = matches!(name, "delete" | "cancel" | "unschedule");
    let is_confirmed = task.params.is_set("confirm")?;
    if wants_html && loses && !is_confirmed {
        return Ok(Done::Question(Question {
            action: name,
            jobs: (!jobs.is_empty()).then_some(Number { count: 1, is_exact: true }),
            confirmed: None,
            scope,
            loses,
            target: target(act),
            fields: fields(&task.params, "yes".to_owned()),
            back: back_of(&task.params, act),
        }));
    }
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
        _ => do_one(reader, &task.params, act),
    };
    let changed = did.as_ref().map_or(0, |did| did.changed);
    let done = did.map(|Did { result, text, job, .. }| {
        Done::Changed(Changed { action: name, scope: scope.clone(), result, text, job })
    });
    if let Ok(done) = &done {
        remember(done);
    }
    let problem = done.as_ref().err().map(|problem| problem.message.clone());
    let request = std::sync::Arc::clone(&task.request);
    bulks.audit(&Action { name, queue, scope, jobs, changed, problem, request });
    done
}

/// Asks about a bulk, or starts it.
fn bulk(reader: &Reader<'_>, bulks: &mut Bulks, task: &Task) -> Result<Done, Problem> {
    let (params, now) = (&task.params, reader.now());
    let action = match params.get("action") {
        Some("retry") => "retry",
        Some("delete") => "delete",
        Some("cancel") => "cancel",
        Some("reschedule") => "reschedule",
        _ => return Err(wrong("action is retry, delete, cancel or reschedule")),
    };
    let ids = params.ids()?;
    let wanted = if ids.is_empty() { Some(list(params, now)?) } else { None };
    let of_list = ["state", "kind", "key", "text", "group", "from", "to", "all"];
    if let Some(name) = of_list.iter().find(|name| wanted.is_none() && params.get(name).is_some()) {
        return Err(wrong(&format!("a bulk has ids or a list: {name} has no meaning beside id")));
    }
    if let Some(wanted) = &wanted
        && !wanted.state.changes().contains(&action)
    {
        let message = format!("{action} does not apply to {} jobs", wanted.state.word());
        return Err(Problem { status: 400, error: "not_applicable", message });
    }
    let (of, scope) = match &wanted {
        Some(wanted) => size(reader, wanted)?,
        None => {
            let count = ids.len() as u64;
            (Number { count, is_exact: true }, counted(count, "chosen job", "chosen jobs"))
        }
    };
    let change = match action {
        "retry" => Change::Retry,
        "delete" => Change::Delete,
        "cancel" => Change::Cancel,
        _ => Change::Reschedule(when(params, now)?),
    };
    let confirmed = params.confirmed()?;
    let Some(confirmed) = confirmed.filter(|confirmed| confirmed.covers(of)) else {
        return Ok(Done::Question(Question {
            action,
            jobs: Some(of),
            confirmed,
            scope,
            loses: matches!(action, "delete" | "cancel"),
            target: target(&Act::Bulk),
            fields: fields(params, of.to_string()),
            back: back_of(params, &Act::Bulk),
        }));
    };
    let (request, back) = (std::sync::Arc::clone(&task.request), back_of(params, &Act::Bulk));
    let most = confirmed.is_exact.then_some(confirmed.count);
    let start =
        Start { at: reader.at, action, change, of, most, scope, wanted, ids, request, back, now };
    bulks.start(start).map(Done::Started)
}

/// Reads the list of a bulk. All jobs of a state need a word of their own, so that no filter is lost by mistake.
fn list(params: &Params, now: Millis) -> Result<Query, Problem> {
    if params.get("state").is_none() {
        return Err(wrong("a bulk needs the ids of jobs, or the state of a list"));
    }
    let query = Query::of(params, now)?;
    match (query.has_filter(), params.is_set("all")?) {
        (false, false) => {
            let message = format!(
                "without a filter, a bulk of all {} jobs needs all=yes",
                query.state.word()
            );
            Err(wrong(&message))
        }
        (true, true) => Err(wrong("all=yes has no meaning beside a filter")),
        _ => Ok(query),
    }
}

/// Returns how many jobs a list has (at least, if it would have to be read further than a search is), and the list in
/// words.
fn size(reader: &Reader<'_>, wanted: &Query) -> Result<(Number, String), Problem> {
    let client = reader.client();
    let filter = &wanted.view;
    let is_of_groups = filter.state == "dead"
        && filter.key.is_none()
        && filter.text.is_none()
        && filter.from.is_none()
        && filter.to.is_none();
    if is_of_groups && !wanted.has_filter() {
        let count = client.count()?.dead;
        return Ok((Number { count, is_exact: true }, wanted.scope(None)));
    }
    if is_of_groups {
        let groups = client.dead_by_error(MOST_GROUPS)?;
        let is_exact = groups.len() < MOST_GROUPS;
        let (mut count, mut text) = (0, None);
        for group in groups {
            let error = reader.redactor.first_line(&group.kind, &group.error);
            if wanted.takes_group(&group.kind, &error) {
                count += group.jobs;
                text = Some(error);
            }
        }
        return Ok((Number { count, is_exact }, wanted.scope(text.as_deref())));
    }
    let (mut after, mut count, mut records, mut bytes) = (None, 0, 0, 0);
    loop {
        let Page { jobs, next } = client.page(wanted.page(after, 256))?;
        records += jobs.len() as u64;
        bytes += jobs.iter().map(JobInfo::bytes).sum::<usize>();
        count += jobs.iter().filter(|job| wanted.takes(job, reader.redactor)).count() as u64;
        after = next;
        if after.is_none() || records >= reader.most_searched() || bytes >= MOST_BYTES {
            return Ok((Number { count, is_exact: after.is_none() }, wanted.scope(None)));
        }
    }
}

/// Returns the name of an action, which is the last segment of its path.
fn name(act: &Act) -> &'static str {
    match act {
        Act::Job(_, JobVerb::Retry) => "retry",
        Act::Job(_, JobVerb::Delete) => "delete",
        Act::Job(_, JobVerb::Cancel) => "cancel",
        Act::Job(_, JobVerb::Reschedule) => "reschedule",
        Act::Bulk => "bulk",
        Act::StopBulk(_) => "stop",
        Act::Queue(Pause::Pause) | Act::Kind(Pause::Pause) | Act::Schedule(ScheduleVerb::Pause) => {
            "pause"
        }
        Act::Queue(Pause::Resume)
        | Act::Kind(Pause::Resume)
        | Act::Schedule(ScheduleVerb::Resume) => "resume",
        Act::Schedule(ScheduleVerb::Run) => "run",
        Act::Schedule(ScheduleVerb::Unschedule) => "unschedule",
    }
}

/// Returns the path of an action, from the root.
fn target(act: &Act) -> String {
    let of = match act {
        Act::Job(id, _) => format!("jobs/{id}/"),
        Act::StopBulk(id) => format!("bulk/{id}/"),
        Act::Queue(_) => "queue/".to_owned(),
        Act::Kind(_) => "kinds/".to_owned(),
        Act::Schedule(_) => "schedules/".to_owned(),
        Act::Bulk => String::new(),
    };
    format!("api/v1/{of}{}", name(act))
}

/// Returns the way from an action to the root.
pub(crate) fn root(act: &Act) -> &'static str {
    match act {
        Act::Bulk => "../../",
        Act::Queue(_) | Act::Kind(_) | Act::Schedule(_) => "../../../",
        Act::Job(..) | Act::StopBulk(_) => "../../../../",
    }
}

/// Returns the page to which an action leads if its form names none.
pub(crate) fn default_back(act: &Act) -> String {
    match act {
        Act::Job(id, JobVerb::Retry | JobVerb::Reschedule) => format!("jobs/{id}"),
        Act::Job(..) | Act::Bulk => "jobs".to_owned(),
        Act::StopBulk(id) => format!("bulk/{id}"),
        Act::Queue(_) | Act::Kind(_) => "kinds".to_owned(),
        Act::Schedule(_) => "schedules".to_owned(),
    }
}

/// Returns the page to which an action leads.
pub(crate) fn back_of(params: &Params, act: &Act) -> String {
    let back = params.get("back").filter(|back| is_page(back));
    back.map_or_else(|| default_back(act), str::to_owned)
}

/// Returns the fields that a question sends again.
fn fields(params: &Params, confirm: String) -> Vec<(String, String)> {
    let mut fields: Vec<(String, String)> = params
        .pairs()
        .filter(|(name, _)| !matches!(&**name, "confirm" | "queue" | "once"))
        .collect();
    fields.push(("confirm".to_owned(), confirm));
    fields
}
