//! Inserts of each kind and in each way, whose types differ by kind.

use tickwheel_jobs::rusqlite::Transaction;
use tickwheel_jobs::tickwheel::When;
use tickwheel_jobs::{Client, InsertErrorKind, JobId, NewJob};

use crate::ops::{Plan, Task, Verb};

/// How a job is inserted.
pub(crate) enum Way<'a> {
    Plain,
    Id(JobId),
    Key(&'a str, Verb),
    In(&'a Transaction<'a>),
}

/// Why an insert was refused, and the tag of what came back.
pub(crate) type Refused = (InsertErrorKind, u64);

/// Evaluates the body with the plan as a job of the kind.
macro_rules! as_job {
    ($kind:expr, $plan:expr, $job:ident => $body:expr) => {
        match $kind {
            0 => as_job!(@ 0, $plan, $job, $body),
            1 => as_job!(@ 1, $plan, $job, $body),
            2 => as_job!(@ 2, $plan, $job, $body),
            _ => as_job!(@ 3, $plan, $job, $body),
        }
    };
    (@ $n:literal, $plan:expr, $job:ident, $body:expr) => {{
        let $job = Task::<$n>($plan);
        $body.map_err(|error| (error.kind().clone(), error.into_inner().0.tag))
    }};
}
pub(crate) use as_job;

/// Inserts a job, and does nothing else.
pub(crate) fn insert(
    client: &Client,
    way: &Way<'_>,
    kind: usize,
    when: When,
    plan: Plan,
) -> Result<JobId, Refused> {
    as_job!(kind, plan, job => match way {
        Way::Plain => client.insert(when, job),
        Way::Id(id) => {
            let inserted = client.insert_job(NewJob::new(job).at(when).id(*id));
            return inserted
                .map(|job| job.id)
                .map_err(|error| (error.kind().clone(), error.into_inner().into_job().0.tag));
        }
        Way::Key(key, Verb::Replace) => client.keyed(key).insert(when, job),
        Way::Key(key, Verb::KeepTime) => client.keyed(key).insert_keeping_time(when, job),
        Way::Key(key, Verb::IfAbsent) => client.keyed(key).insert_if_absent(when, job),
        Way::In(transaction) => client.insert_in(transaction, when, job),
    })
}

pub(crate) fn insert_batch(
    client: &Client,
    kind: usize,
    jobs: Vec<(When, Plan)>,
) -> Result<Vec<JobId>, (InsertErrorKind, usize)> {
    macro_rules! batch {
        ($n:literal) => {{
            let jobs = jobs.into_iter().map(|(when, plan)| (when, Task::<$n>(plan)));
            let inserted = client.insert_batch(jobs);
            inserted.map_err(|error| (error.kind().clone(), error.into_inner().len()))
        }};
    }
    match kind {
        0 => batch!(0),
        1 => batch!(1),
        2 => batch!(2),
        _ => batch!(3),
    }
}
