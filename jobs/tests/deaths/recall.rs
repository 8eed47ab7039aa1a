//! The data that a child gets about the lives before it.

use tickwheel_jobs::JobId;

use super::history::{Call, History};
use super::record::{Answer, Tag, Verb};

/// How many jobs of earlier lives a child gets to know.
const KNOWN: usize = 60;

impl Call<'_> {
    /// Returns the jobs that it has inserted.
    fn inserted(&self) -> impl Iterator<Item = (Tag, JobId)> {
        let tags = self.verb.inserts().map(|(tags, _)| tags).unwrap_or_default();
        let ids = match self.answer.as_ref().map(|answered| answered.answer) {
            Some(Answer::Ids(ids)) => &ids[..],
            _ => &[],
        };
        tags.zip(ids.iter().copied())
    }
}

/// Returns jobs that were inserted last and may be there.
pub(crate) fn known(history: &History<'_>) -> Vec<(Tag, JobId)> {
    let mut known: Vec<_> = history.calls.iter().flat_map(Call::inserted).collect();
    // A cancel of a job that has ended is a question too, so some of these stay.
    known.retain(|(tag, _)| !history.jobs[tag].is_done() || tag % 16 == 0);
    known.split_off(known.len().saturating_sub(KNOWN))
}

/// Returns the inserts under ids of the caller's that were not answered in a life.
pub(crate) fn unanswered(history: &History<'_>, life: u32) -> Vec<(Tag, u64)> {
    let calls = history.calls.iter().filter(|call| call.life == life && call.answer.is_none());
    let with_id = calls.filter_map(|call| match *call.verb {
        Verb::WithId { tag, due } => Some((tag, due)),
        _ => None,
    });
    with_id.collect()
}
