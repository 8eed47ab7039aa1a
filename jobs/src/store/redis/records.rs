//! The formats of a job, the fence of a claim and a schedule. The scripts read and write the same formats.
//!
//! | record of a job | bytes |
//! | --- | --- |
//! | flags: 1 the caller chose the id, 2 the job has ended, 4 it has an extra, 8 it has a partition, 16 it is a member of a group, 32 its group keeps its result | 1 |
//! | failures, interruptions, attempts | 4 each |
//! | lengths of kind and key; of the errors | 1 each; 2 |
//! | kind, key, errors (`values/fail_and_retry.rs`); of a job that has ended: how (`store/ended.rs`), its due time, when it ended, how long its run took, the length of its result, the result | 1, 8, 8, 8, 4, the length |
//! | of a job with an extra (`values/job.rs`): the length of the extra; the extra | 2; the length |
//! | payload | the rest |
//!
//! | fence | bytes |
//! | --- | --- |
//! | nonce and number: the token | 8 each |
//! | due time, owner | 8 each |
//! | `k` if the job has its key, `K` if the claim is counted too, `+` if it is counted only | 1 |
//! | the record to the end of its key; of a counted claim its scope (`scripts/lanes.lua`); zeros if the record to its key is shorter than 32 bytes | the rest |
//!
//! | schedule | bytes |
//! | --- | --- |
//! | next occurrence, all choices except the rule (`Schedule::choices`) | 8 each |
//! | lengths of kind and rule; kind, rule, payload | 1 and 2; the rest |
//!
//! Every number has its highest byte first.

use std::sync::Arc;

use crate::store::{Claimed, Ending, Fence, NewJob, NewSchedule, StoredSchedule, Tries};
use crate::values::error::StoreError;
use crate::values::fail_and_retry::AttemptErrors;
use crate::values::id::JobId;
use crate::values::job::{Extra, group_of, partition_of};
use crate::values::schedule::Schedule;
use crate::values::time::Millis;

const CALLERS_ID: u8 = 1;
const ENDED: u8 = 2;
const EXTRA: u8 = 4;
const PARTITION: u8 = 8;
const GROUP: u8 = 16;
const GIVES_RESULT: u8 = 32;

/// A record that was read.
pub(super) struct Record {
    /// The job is a member of the group in its extra. One that has left its group keeps that in the extra.
    pub(super) is_member: bool,
    /// The group keeps its result.
    pub(super) gives_result: bool,
    pub(super) tries: Tries,
    pub(super) kind: String,
    pub(super) key: Option<String>,
    pub(super) extra: Option<Vec<u8>>,
    pub(super) payload: Vec<u8>,
    pub(super) end: Option<EndOf>,
}

/// How a job has ended, and when.
pub(super) struct EndOf {
    pub(super) ending: Ending,
    pub(super) at: Millis,
    pub(super) took: u64,
    pub(super) result: Option<Vec<u8>>,
}

/// Reads bytes from front to back.
struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    fn bytes(&mut self, many: usize) -> Result<&'a [u8], StoreError> {
        let (taken, rest) = self.0.split_at_checked(many).ok_or_else(|| damaged("is cut off"))?;
        self.0 = rest;
        Ok(taken)
    }

    fn number(&mut self, bytes: usize) -> Result<u64, StoreError> {
        Ok(self.bytes(bytes)?.iter().fold(0, |number, byte| number << 8 | u64::from(*byte)))
    }

    fn short(&mut self, bytes: usize) -> Result<u32, StoreError> {
        self.number(bytes).map(|number| number as u32)
    }

    /// Returns a text whose bytes may be replaced where they are not UTF-8: only people read it, or it is compared
    /// only with itself.
    fn lossy(&mut self, bytes: usize) -> Result<String, StoreError> {
        Ok(String::from_utf8_lossy(self.bytes(bytes)?).into_owned())
    }

    fn text(&mut self, bytes: usize) -> Result<String, StoreError> {
        String::from_utf8(self.bytes(bytes)?.to_vec()).map_err(|_| damaged("has no text"))
    }
}

pub(super) fn damaged(what: &str) -> StoreError {
    StoreError::Damaged(format!("a value of the server's {what}"))
}

pub(super) fn has_partition(job: &NewJob) -> bool {
    partition_of(job.extra.as_deref()).is_some()
}

pub(super) fn record(job: &NewJob) -> Vec<u8> {
    let key = job.key.as_ref().map_or("", |(key, _)| key);
    let mut record = Vec::with_capacity(17 + job.kind.len() + key.len() + job.payload.len());
    let extra = job.extra.as_ref().map(|extra| extra.to_bytes());
    let callers_id = if job.callers_id { CALLERS_ID } else { 0 };
    let partition = if has_partition(job) { PARTITION } else { 0 };
    let group = if group_of(job.extra.as_deref()).is_some() { GROUP } else { 0 };
    record.push(callers_id | partition | group | if extra.is_some() { EXTRA } else { 0 });
    record.extend([0; 12]);
    record.push(job.kind.len() as u8);
    record.push(key.len() as u8);
    record.extend([0; 2]);
    record.extend(job.kind.as_bytes());
    record.extend(key.as_bytes());
    if let Some(extra) = extra {
        record.extend((extra.len() as u16).to_be_bytes());
        record.extend(extra);
    }
    record.extend(&job.payload);
    record
}

pub(super) fn read_record(record: &[u8]) -> Result<Record, StoreError> {
    let mut reader = Reader(record);
    let flags = reader.number(1)? as u8;
    let (failures, interruptions, attempts) =
        (reader.short(4)?, reader.short(4)?, reader.short(4)?);
    let (kind, key, errors) = (reader.short(1)?, reader.short(1)?, reader.short(2)?);
    let kind = reader.text(kind as usize)?;
    let key = Some(reader.lossy(key as usize)?).filter(|key| !key.is_empty());
    let errors = AttemptErrors::from_text(reader.lossy(errors as usize)?);
    let mut end = None;
    if flags & ENDED != 0 {
        let ending = Ending::of_number(reader.number(1)? as i64);
        let ending = ending.ok_or_else(|| damaged("has ended in an unknown way"))?;
        reader.bytes(8)?;
        let (at, took) = (Millis::clamped(reader.number(8)? as i64), reader.number(8)?);
        let bytes = reader.short(4)? as usize;
        let result = Some(reader.bytes(bytes)?.to_vec()).filter(|result| !result.is_empty());
        end = Some(EndOf { ending, at, took, result });
    }
    let mut extra = None;
    if flags & EXTRA != 0 {
        let bytes = reader.short(2)? as usize;
        extra = Some(reader.bytes(bytes)?.to_vec());
    }
    let (is_member, gives_result) = (flags & GROUP != 0, flags & GIVES_RESULT != 0);
    let payload = reader.0.to_vec();
    let tries = Tries { failures, interruptions, attempts, errors };
    Ok(Record { is_member, gives_result, tries, kind, key, extra, payload, end })
}

pub(super) fn id_of(bytes: &[u8]) -> Result<JobId, StoreError> {
    let bytes = <[u8; 16]>::try_from(bytes).map_err(|_| damaged("is no id"))?;
    Ok(JobId::from_u128(u128::from_be_bytes(bytes)))
}

pub(super) fn id_bytes(id: JobId) -> [u8; 16] {
    id.to_u128().to_be_bytes()
}

/// Returns the token of a fence, which the scripts compare.
pub(super) fn token(fence: Fence) -> [u8; 16] {
    let bits = u128::from(fence.nonce()) << 64 | u128::from(fence.get());
    bits.to_be_bytes()
}

/// The claim that a fence describes.
pub(super) struct ClaimOf {
    pub(super) due: Millis,
    pub(super) kind: String,
}

pub(super) fn read_fence(fence: &[u8]) -> Result<ClaimOf, StoreError> {
    let mut reader = Reader(fence);
    reader.bytes(16)?;
    let due = Millis::clamped(reader.number(8)? as i64);
    reader.bytes(9 + 13)?;
    let kind = reader.number(1)? as usize;
    reader.bytes(3)?;
    Ok(ClaimOf { due, kind: reader.text(kind)? })
}

/// Reads when the first and the last of a group of dead jobs died.
pub(super) fn read_deaths(times: &[u8]) -> Option<[Millis; 2]> {
    let (first, last) = core::str::from_utf8(times).ok()?.split_once(' ')?;
    Some([Millis::clamped(first.parse().ok()?), Millis::clamped(last.parse().ok()?)])
}

/// Returns a claimed job, from what the script says of it. `due`: the due time in digits, and `k` if the job has its
/// key.
pub(super) fn claimed(
    kinds: &[Arc<str>],
    id: &[u8],
    due: &[u8],
    record: &[u8],
    fence: Fence,
) -> Result<Claimed, StoreError> {
    let (digits, has_key) = due.strip_suffix(b"k").map_or((due, false), |digits| (digits, true));
    let digits = str::from_utf8(digits).ok().and_then(|digits| digits.parse().ok());
    let due = Millis::clamped(digits.ok_or_else(|| damaged("is no time"))?);
    let record = read_record(record)?;
    let kind = kinds.iter().find(|kind| ***kind == *record.kind).cloned();
    let mut extra = Extra::read(record.extra.as_deref())?;
    if let Some(extra) = &mut extra {
        extra.group = extra.group.filter(|_| record.is_member);
        extra.gives_result = record.gives_result;
    }
    Ok(Claimed {
        id: id_of(id)?,
        kind: kind.unwrap_or_else(|| Arc::from(record.kind)),
        due,
        tries: record.tries,
        key: record.key.filter(|_| has_key),
        extra,
        payload: record.payload,
        fence,
    })
}

/// Returns the argument for all choices of a schedule except its rule.
pub(super) fn choices(schedule: &NewSchedule) -> [u8; 8] {
    schedule.schedule.choices().to_be_bytes()
}

pub(super) fn read_schedule(name: String, row: &[u8]) -> Result<StoredSchedule, StoreError> {
    let mut reader = Reader(row);
    let next = Millis::clamped(reader.number(8)? as i64);
    let choices = reader.number(8)? as i64;
    let (kind, rule) = (reader.number(1)? as usize, reader.number(2)? as usize);
    let (kind, rule_text) = (reader.text(kind)?, reader.text(rule)?);
    let schedule = Schedule::read(&rule_text, choices);
    Ok(StoredSchedule { name, kind, schedule, rule_text, payload: reader.0.to_vec(), next })
}
