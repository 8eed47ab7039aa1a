//! From what the calls of a batch bring back to the answers of its operations.
//!
//! A change answers a letter. `t`, the key is taken, is followed by its detail: two bytes say how long it
//! is; the id of the job that has the key; and the key, if the caller may not know it.

use super::calls::Call;
use super::records::{damaged, id_of};
use super::replies::{Fault, Reply, bytes};
use crate::store::words::{Answer, Inserted, Op};
use crate::values::error::StoreError;
use crate::values::id::JobId;
use crate::values::info::Cancel;

/// The letter that has a detail.
const TAKEN: u8 = b't';
/// The bytes of an id.
const ID_BYTES: usize = 16;

/// What has come back for one operation.
#[derive(Clone, Default)]
pub(super) struct Found {
    letters: Vec<u8>,
    taken: Vec<Taken>,
    refusal: Option<Refusal>,
}

/// A key that another job has.
#[derive(Clone)]
struct Taken {
    /// The place of the letter.
    at: usize,
    by: JobId,
    key: String,
}

/// Why a call of an operation has no letters.
#[derive(Clone)]
struct Refusal {
    error: StoreError,
    /// It may have been done all the same.
    unsure: bool,
}

impl Found {
    /// Takes so many letters off the answer to a call, and returns the rest. There may be fewer.
    fn take<'a>(&mut self, mut answer: &'a [u8], letters: usize) -> Result<&'a [u8], StoreError> {
        for _ in 0..letters {
            let Some((&letter, mut rest)) = answer.split_first() else { break };
            if letter == TAKEN {
                let cut = || damaged("is cut off");
                let (length, behind) = rest.split_first_chunk().ok_or_else(cut)?;
                let length = usize::from(u16::from_be_bytes(*length));
                let (detail, behind) = behind.split_at_checked(length).ok_or_else(cut)?;
                let (id, key) = detail.split_at_checked(ID_BYTES).ok_or_else(cut)?;
                let key = String::from_utf8_lossy(key).into_owned();
                self.taken.push(Taken { at: self.letters.len(), by: id_of(id)?, key });
                rest = behind;
            }
            self.letters.push(letter);
            answer = rest;
        }
        Ok(answer)
    }
}

/// Returns what has come back for each operation.
pub(super) fn found(ops: usize, calls: &[Call], replies: Vec<Reply>) -> Vec<Found> {
    let mut found = vec![Found::default(); ops];
    let mut wanted = vec![0; ops];
    for (call, reply) in calls.iter().zip(replies) {
        let mut refusal = None;
        match reply {
            Reply::Done(fields) => {
                let mut answer = bytes(&fields[2]).unwrap_or_default();
                for part in &call.parts {
                    // A part of something that was refused before is refused too.
                    match found[part.op].take(answer, part.letters) {
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
            Reply::Kinds(_) | Reply::Unloaded | Reply::Count(_) => {}
        }
        for part in &call.parts {
            wanted[part.op] += part.letters;
            if let Some(refusal) = &refusal {
                found[part.op].refusal.get_or_insert_with(|| refusal.clone());
            }
        }
    }
    for (found, wanted) in found.iter_mut().zip(wanted) {
        if found.refusal.is_none() && found.letters.len() != wanted {
            let error = damaged("is no answer to a change");
            found.refusal = Some(Refusal { error, unsure: true });
        }
    }
    found
}

/// Returns what the letters of a change mean.
pub(super) fn answer(op: &Op, found: Found) -> Answer {
    let Found { letters, taken, refusal } = found;
    if let Some(Refusal { error, unsure }) = refusal {
        if unsure {
            return Answer::Unsure(error);
        }
        let stored = letters.len();
        return Answer::Refused(match op {
            Op::InsertMany(_) if stored > 0 => {
                StoreError::Incomplete { stored, error: Box::new(error) }
            }
            _ => error,
        });
    }
    let taken_by = taken.first().map(|taken| taken.by);
    match op {
        Op::Extend(claims) => {
            let lost = claims.iter().zip(&letters).filter(|(_, letter)| **letter == b'0');
            Answer::Lost(lost.map(|((id, _), _)| *id).collect())
        }
        Op::Insert(_) => Answer::Inserted(match (taken_by, &letters[..]) {
            (Some(by), _) => Inserted::Taken(by),
            (None, b"k") => Inserted::Known,
            _ => Inserted::New,
        }),
        Op::InsertMany(_) => {
            Answer::InsertedMany(taken.iter().map(|taken| (taken.at, taken.by)).collect())
        }
        Op::Retry(..) => match taken.into_iter().next() {
            Some(Taken { key, by, .. }) => Answer::Refused(StoreError::KeyTaken { key, by }),
            None => Answer::Changed(letters == b"1"),
        },
        Op::Cancel(_) => Answer::Cancelled(match &letters[..] {
            b"c" => Cancel::Cancelled,
            b"r" => Cancel::Running,
            _ => Cancel::Gone,
        }),
        Op::Finish(finish) if letters == b"x" => Answer::Lost(vec![finish.id]),
        Op::Finish(_) | Op::Release(..) | Op::Flush => Answer::Done,
        _ => Answer::Changed(letters.iter().all(|letter| *letter == b'1')),
    }
}
