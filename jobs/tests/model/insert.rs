//! Inserts of each kind and in each way, whose types differ by kind.

use std::fmt::Debug;

use tickwheel_jobs::rusqlite::Transaction;
use tickwheel_jobs::tickwheel::When;
use tickwheel_jobs::{Client, InsertError, InsertErrorKind, JobId, NewJob};

use crate::ops::{Plan, Task, Verb, is_a_time};
use crate::oracle::{Outcome, ensure};

/// How a job is inserted.
pub(crate) enum Way<'a> {
    Plain,
    Id(JobId),
    Key(&'a str, Verb),
    In(&'a Transaction<'a>),
}

/// Why an insert was refused, and the tag of what came back.
pub(crate) type Refused = (InsertErrorKind, u64);

pub(crate) fn refused<const N: usize>(error: InsertError<Task<N>>) -> Refused {
    (error.kind().clone(), error.into_inner().0.tag)
}

pub(crate) fn refused_new<const N: usize>(error: InsertError<NewJob<Task<N>>>) -> Refused {
    (error.kind().clone(), error.into_inner().into_job().0.tag)
}

/// A job was refused because no job can have its time, and came back.
pub(crate) fn no_time<T: Debug>(got: &Result<T, Refused>, tag: u64) -> Outcome {
    let right = matches!(got, Err((InsertErrorKind::Invalid(error), its)) if is_a_time(error) && *its == tag);
    ensure(right, || format!("a time that no job has: {got:?}"))
}

/// Evaluates the body with the kind as a constant: the type of a job depends on it.
macro_rules! of_kind {
    ($kind:expr, $n:ident => $body:expr) => {
        match $kind {
            0 => {
                const $n: usize = 0;
                $body
            }
            1 => {
                const $n: usize = 1;
                $body
            }
            2 => {
                const $n: usize = 2;
                $body
            }
            _ => {
                const $n: usize = 3;
                $body
            }
        }
    };
}
pub(crate) use of_kind;

/// Inserts a job, and does nothing else.
pub(crate) fn insert(
    client: &Client,
    way: &Way<'_>,
    kind: usize,
    when: When,
    plan: Plan,
) -> Result<JobId, Refused> {
    of_kind!(kind, N => {
        let job = Task::<N>(plan);
        let inserted = match way {
            Way::Plain => client.insert(when, job),
            Way::Id(id) => {
                let inserted = client.insert_job(NewJob::new(job).at(when).id(*id));
                return inserted.map(|job| job.id).map_err(refused_new);
            }
            Way::Key(key, Verb::Replace) => client.keyed(key).insert(when, job),
            Way::Key(key, Verb::KeepTime) => client.keyed(key).insert_keeping_time(when, job),
            Way::Key(key, Verb::IfAbsent) => client.keyed(key).insert_if_absent(when, job),
            Way::In(transaction) => client.insert_in(transaction, when, job),
        };
        inserted.map_err(refused)
    })
}

pub(crate) fn insert_batch(
    client: &Client,
    kind: usize,
    jobs: Vec<(When, Plan)>,
) -> Result<Vec<JobId>, (InsertErrorKind, usize)> {
    of_kind!(kind, N => {
        let jobs = jobs.into_iter().map(|(when, plan)| (when, Task::<N>(plan)));
        let inserted = client.insert_batch(jobs);
        inserted.map_err(|error| (error.kind().clone(), error.into_inner().len()))
    })
}
