//! Makes the view of one job.

use crate::values::fail_and_retry::AttemptError;
use crate::values::id::JobId;
use crate::values::info::{JobInfo, JobState};
use crate::web::options::Part;
use crate::web::read::Reader;
use crate::web::route::Whole;
use crate::web::views::job::{Job, Step};
use crate::web::views::{Problem, Time};

pub(crate) fn not_found(id: JobId) -> Problem {
    let message =
        format!("there is no job {id}: it has ended, was cancelled or deleted, or never was");
    Problem { status: 404, error: "not_found", message }
}

pub(crate) fn job(reader: &Reader<'_>, id: JobId) -> Result<Job, Problem> {
    let job = reader.client().get(id)?.ok_or_else(|| not_found(id))?;
    let redactor = reader.redactor;
    let content = |part, bytes: &Vec<u8>, name: Option<&str>| {
        let download = name.map(|name| format!("jobs/{id}/{name}"));
        redactor.content(&job.kind, part, bytes, download)
    };
    let headers = redactor.headers(&job);
    let trace_id = trace_id(&headers);
    let trace_link = trace_id.as_ref().zip(reader.trace_link);
    let trace_link = trace_link.map(|(id, template)| template.replace("{trace_id}", id));
    let waits_for = reader.client().why_of(core::slice::from_ref(&job))?.pop().unwrap_or_default();
    Ok(Job {
        now: Time::new(reader.now().to_system()),
        id: id.to_string(),
        kind: job.kind.clone(),
        state: job.state.word(),
        due: Time::new(job.due),
        key: job.key.clone(),
        partition: job.partition.clone(),
        group: job.group.map(|group| group.to_string()),
        failures: job.failures,
        attempt: job.attempt,
        interruptions: job.interruptions,
        headers,
        trace_id,
        trace_link,
        payload: content(Part::Payload, &job.payload, Some("payload")),
        result: job.result.as_ref().map(|result| content(Part::Result, result, Some("result"))),
        progress: job.progress.as_ref().map(|it| content(Part::Progress, it, None)),
        error: job.error.as_ref().map(|error| redactor.error(&job.kind, error)),
        timeline: timeline(reader, &job),
        waits_for,
        claimed: job.claimed.map(Time::new),
        lease_ends: job.lease_ends.map(Time::new),
        ended: job.ended.map(Time::new),
        took_ms: job.took.map(|took| took.as_millis() as u64),
        actions: actions(job.state).to_vec(),
    })
}

/// Returns the actions that a job allows.
fn actions(state: JobState) -> &'static [&'static str] {
    match state {
        JobState::Pending => &["run_now", "reschedule", "cancel"],
        JobState::Claimed | JobState::Running => &["cancel"],
        JobState::Dead => &["retry", "delete"],
        JobState::Completed | JobState::Cancelled => &[],
    }
}

/// Returns the trace of a `traceparent` header, in its redacted form: `00-<32 digits>-<16 digits>-01`.
fn trace_id(headers: &[(String, String)]) -> Option<String> {
    let (_, parent) = headers.iter().find(|(name, _)| name == "traceparent")?;
    let mut parts = parent.split('-');
    let (version, trace_id) = (parts.next()?, parts.next()?);
    let is_hex = |text: &str| text.bytes().all(|byte| byte.is_ascii_hexdigit());
    let is_trace =
        version.len() == 2 && is_hex(version) && trace_id.len() == 32 && is_hex(trace_id);
    (is_trace && trace_id.bytes().any(|byte| byte != b'0')).then(|| trace_id.to_ascii_lowercase())
}

/// Returns what happened to a job, in the order of time, as far as the store remembers it.
fn timeline(reader: &Reader<'_>, job: &JobInfo) -> Vec<Step> {
    let step = |what, at| Step { what, at, attempt: None, node: None, error: None };
    let failure = |error: &AttemptError| {
        let node = Some(error.node.clone()).filter(|node| !node.is_empty());
        Step {
            what: if node.is_none() { "interrupted" } else { "failed" },
            at: Some(Time::new(error.at)),
            attempt: Some(error.attempt),
            node,
            error: Some(reader.redactor.error(&job.kind, &error.error)),
        }
    };
    let mut errors: Vec<&AttemptError> = job.errors.iter().collect();
    errors.sort_by_key(|error| error.attempt);
    // The due time is that of the latest attempt, and comes before its failure, also in the same millisecond.
    let earlier = errors.partition_point(|error| error.attempt < job.attempt);
    let inserted = job.inserted().map(|at| step("inserted", Some(Time::new(at))));
    let mut steps: Vec<Step> = inserted.into_iter().collect();
    steps.extend(errors[..earlier].iter().map(|error| failure(error)));
    steps.push(step("due", Some(Time::new(job.due))));
    steps.extend(errors[earlier..].iter().map(|error| failure(error)));
    let attempt = Some(job.attempt);
    match job.state {
        JobState::Running | JobState::Claimed => {
            let claimed = job.claimed.map(Time::new);
            steps.push(Step { attempt, ..step(job.state.word(), claimed) });
        }
        JobState::Completed | JobState::Dead | JobState::Cancelled => {
            let ended = job.ended.map(Time::new);
            steps.push(Step { attempt, ..step(job.state.word(), ended) });
        }
        JobState::Pending => {}
    }
    // The insert comes first, also of a job that was due before. A step without a time comes last. The end
    // comes after the failure of the same millisecond.
    steps.sort_by_key(|step| (step.what != "inserted", step.at.is_none(), step.at));
    steps
}

/// Returns the whole of a payload or a result.
pub(crate) fn whole(reader: &Reader<'_>, id: JobId, what: Whole) -> Result<Vec<u8>, Problem> {
    let job = reader.client().get(id)?.ok_or_else(|| not_found(id))?;
    let (part, bytes) = match what {
        Whole::Payload => (Part::Payload, Some(job.payload)),
        Whole::Result => (Part::Result, job.result),
    };
    let bytes = bytes.ok_or_else(|| Problem {
        status: 404,
        error: "not_found",
        message: format!("the job {id} has no result"),
    })?;
    Ok(reader.redactor.whole(&job.kind, part, bytes))
}
