//! The data that a child gets about the lives before it.

use std::collections::{BTreeMap, HashMap, HashSet};

use tickwheel_jobs::JobId;

use super::record::{Answer, Event, How, Record, Tag, Verb};

/// How many jobs of earlier lives a child gets to know.
const KNOWN: usize = 60;

/// Returns jobs that were inserted last and may be there.
pub(crate) fn known(log: &[Event]) -> Vec<(Tag, JobId)> {
    let mut ended = HashSet::new();
    let mut known = Vec::new();
    for event in log {
        if let Record::End { tag, how: How::Done, .. } = &event.record {
            ended.insert(*tag);
        }
    }
    let mut firsts = HashMap::new();
    for event in log {
        match &event.record {
            Record::Call { n, verb, .. } => match verb {
                Verb::Insert { tag, .. }
                | Verb::WithId { tag, .. }
                | Verb::Senseless { tag, .. }
                | Verb::Keyed { tag, .. } => {
                    firsts.insert(*n, *tag);
                }
                Verb::Batch { first, .. } => {
                    firsts.insert(*n, *first);
                }
                _ => {}
            },
            Record::Answer { n, answer: Answer::Ids(ids), .. } => {
                let first = firsts.get(n).copied().unwrap_or(0);
                known.extend((first..).zip(ids.iter().copied()));
            }
            _ => {}
        }
    }
    // A cancel of a job that has ended is a question too, so some of these stay.
    known.retain(|(tag, _)| !ended.contains(tag) || tag % 16 == 0);
    known.split_off(known.len().saturating_sub(KNOWN))
}

/// Returns the inserts under ids of the caller's that were not answered in a life.
pub(crate) fn unanswered(log: &[Event], life: u32) -> Vec<(Tag, u64)> {
    let mut open = BTreeMap::new();
    for event in log.iter().filter(|event| event.life == life) {
        match &event.record {
            Record::Call { n, verb: Verb::WithId { tag, due }, .. } => {
                open.insert(*n, (*tag, *due));
            }
            Record::Answer { n, .. } => drop(open.remove(n)),
            _ => {}
        }
    }
    open.into_values().collect()
}
