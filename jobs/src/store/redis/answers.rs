//! The answers to the operations of a batch, from the results of its calls.

use super::calls::Call;
use super::decode::{Fault, Reply, bytes};
use super::protocol::{ResultCode, group_error};
use super::records::{damaged, id_of};
use crate::store::{Answer, Finish, Inserted, Op};
use crate::values::error::StoreError;
use crate::values::group_error::GroupError;
use crate::values::id::JobId;
use crate::values::info::Cancel;

const ID_BYTES: usize = 16;

/// The results of one operation.
#[derive(Clone, Default)]
pub(super) struct Found {
    results: Vec<ResultCode>,
    taken: Vec<Taken>,
    group_error: Option<GroupError>,
    refusal: Option<Refusal>,
}

/// A key that another job has.
#[derive(Clone)]
struct Taken {
    /// The index of the result.
    at: usize,
    by: JobId,
    key: String,
}

/// Why a call of an operation has no results.
#[derive(Clone)]
struct Refusal {
    error: StoreError,
    /// The operation may have been done all the same.
    unsure: bool,
}

impl Found {
    /// Takes at most `many` results off the answer to a call, and returns the rest of the answer.
    fn take<'a>(&mut self, mut answer: &'a [u8], many: usize) -> Result<&'a [u8], StoreError> {
        for _ in 0..many {
            let Some((&letter, mut rest)) = answer.split_first() else { break };
            let result = ResultCode::of(letter).ok_or_else(|| damaged("is no result"))?;
            if result == ResultCode::KeyTaken {
                let cut = || damaged("is cut off");
                let (length, behind) = rest.split_first_chunk().ok_or_else(cut)?;
                let length = usize::from(u16::from_be_bytes(*length));
                let (detail, behind) = behind.split_at_checked(length).ok_or_else(cut)?;
                let (id, key) = detail.split_at_checked(ID_BYTES).ok_or_else(cut)?;
                let key = String::from_utf8_lossy(key).into_owned();
                self.taken.push(Taken { at: self.results.len(), by: id_of(id)?, key });
                rest = behind;
            }
            if result == ResultCode::GroupRefused {
                let (&letter, behind) = rest.split_first().ok_or_else(|| damaged("is cut off"))?;
                self.group_error = group_error(letter);
                rest = behind;
            }
            self.results.push(result);
            answer = rest;
        }
        Ok(answer)
    }
}

/// Returns the results of each operation, from the replies to the calls.
pub(super) fn found(ops: usize, calls: &[Call], replies: Vec<Reply>) -> Vec<Found> {
    let mut found = vec![Found::default(); ops];
    let mut wanted = vec![0; ops];
    for (call, reply) in calls.iter().zip(replies) {
        let mut refusal = None;
        match reply {
            Reply::Done(fields) => {
                let mut answer = bytes(&fields[2]).unwrap_or_default();
                for part in &call.parts {
                    // A call that continues a refused call has an empty answer. The refusal stands then.
                    match found[part.op].take(answer, part.results) {
                        Ok(rest) => answer = rest,
                        Err(error) => {
                            refusal = Some(Refusal { error, unsure: true });
                            break;
                        }
                    }
                }
            }
            Reply::Full => refusal = Some(Refusal { error: StoreError::Full, unsure: false }),
            Reply::Wrong(Fault { error, sent, .. }) => {
                refusal = Some(Refusal { error, unsure: sent });
            }
            Reply::Kinds(_)
            | Reply::Lanes(_)
            | Reply::Places
            | Reply::Unloaded
            | Reply::Count(_) => {}
        }
        for part in &call.parts {
            wanted[part.op] += part.results;
            if let Some(refusal) = &refusal {
                found[part.op].refusal.get_or_insert_with(|| refusal.clone());
            }
        }
    }
    for (found, wanted) in found.iter_mut().zip(wanted) {
        if found.refusal.is_none() && found.results.len() != wanted {
            let error = damaged("is no answer to a change");
            found.refusal = Some(Refusal { error, unsure: true });
        }
    }
    found
}

/// Returns the answer that the results of an operation mean.
pub(super) fn answer(op: &Op, found: Found) -> Answer {
    let Found { results, taken, group_error, refusal } = found;
    if let Some(Refusal { error, unsure }) = refusal {
        if unsure {
            return Answer::Unsure(error);
        }
        let stored = results.len();
        return Answer::Refused(match op {
            Op::InsertMany(_) if stored > 0 => {
                StoreError::Incomplete { stored, error: Box::new(error) }
            }
            _ => error,
        });
    }
    if let Some(error) = group_error {
        return Answer::Refused(StoreError::Group(error));
    }
    let taken_by = taken.first().map(|taken| taken.by);
    match op {
        Op::Extend(claims) => {
            let lost =
                claims.iter().zip(&results).filter(|(_, result)| **result == ResultCode::ClaimLost);
            Answer::ClaimsLost(lost.map(|((id, _), _)| *id).collect())
        }
        Op::Insert(_) => Answer::Inserted(match (taken_by, &results[..]) {
            (Some(by), _) => Inserted::Taken(by),
            (None, [ResultCode::Known]) => Inserted::Known,
            _ => Inserted::New,
        }),
        Op::InsertMany(_) => {
            Answer::InsertedMany(taken.iter().map(|taken| (taken.at, taken.by)).collect())
        }
        // The first result is that of the group.
        Op::InsertGroup(_) | Op::AddToGroup(..) => Answer::InsertedMany(
            taken.iter().map(|taken| (taken.at.saturating_sub(1), taken.by)).collect(),
        ),
        Op::Retry(..) => match taken.into_iter().next() {
            Some(Taken { key, by, .. }) => Answer::Refused(StoreError::KeyTaken { key, by }),
            None => Answer::Changed(results == [ResultCode::Changed]),
        },
        Op::Cancel(_) => Answer::Cancelled(match &results[..] {
            [ResultCode::Cancelled] => Cancel::Cancelled,
            [ResultCode::Running] => Cancel::Running,
            _ => Cancel::Gone,
        }),
        Op::Each(ops) => Answer::Each(each(ops, &results, &taken)),
        Op::Finish(finish) if results.first() == Some(&ResultCode::ClaimLost) => {
            Answer::ClaimsLost(vec![finish.id])
        }
        // The first result is that of the end.
        Op::Finish(Finish { then: Some(_), .. }) => Answer::InsertedMany(
            taken.iter().map(|taken| (taken.at.saturating_sub(1), taken.by)).collect(),
        ),
        Op::Finish(_) | Op::Release { .. } | Op::Flush => Answer::Done,
        _ => Answer::Changed(results.iter().all(|result| *result == ResultCode::Changed)),
    }
}

/// Returns the answer to each operation, from its own result.
fn each(ops: &[Op], results: &[ResultCode], taken: &[Taken]) -> Vec<Answer> {
    let one = |(at, op): (usize, &Op)| {
        let results = results.get(at).copied().into_iter().collect();
        let taken = taken.iter().filter(|taken| taken.at == at).cloned().collect();
        answer(op, Found { results, taken, ..Found::default() })
    };
    ops.iter().enumerate().map(one).collect()
}
