//! Reads the answer of the script `info.lua` about a job.

use std::time::Duration;

use redis::Value;

use super::decode::{bytes, score};
use super::records::{id_of, read_record};
use crate::values::error::StoreError;
use crate::values::extra::Shown;
use crate::values::info::{JobInfo, JobState};
use crate::values::time::Millis;

/// The number of a fence that is less than this tells no time: no clock of a server reads the year 1970.
const LEAST_MICROS: i64 = 1_000_000_000_000;

/// Returns when the jobs with this number in their fences were claimed. Small numbers tell no time: such claims are
/// numbered from one.
fn time_of_fence(number: &Value) -> Result<Option<Millis>, StoreError> {
    let micros = score(number)?;
    Ok((micros >= LEAST_MICROS).then(|| Millis::clamped(micros / 1000)))
}

/// Reads a time in milliseconds, or an empty text.
fn time_or_none(time: &Value) -> Result<Option<Millis>, StoreError> {
    match bytes(time)? {
        b"" => Ok(None),
        _ => score(time).map(|time| Some(Millis::clamped(time))),
    }
}

/// Reads an answer. It is empty if the job does not exist, or if the script could not read its record.
pub(super) fn info(fields: &[Value]) -> Result<Option<JobInfo>, StoreError> {
    let [id, state, due, own, record, progress, claim @ ..] = fields else { return Ok(None) };
    let (claimed, lease_ends) = match claim {
        [number, lease_end] => (time_of_fence(number)?, time_or_none(lease_end)?),
        _ => (None, None),
    };
    let record = read_record(bytes(record)?)?;
    let state = match (&record.end, bytes(state)?) {
        (Some(end), _) => end.ending.state(),
        (None, b"running") => JobState::Running,
        (None, b"claimed") => JobState::Claimed,
        (None, _) => JobState::Pending,
    };
    let ended = record.end.as_ref().map(|end| end.at.to_system());
    let Shown { partition, group, headers } = Shown::read(record.extra.as_deref());
    Ok(Some(JobInfo {
        id: id_of(bytes(id)?)?,
        kind: record.kind,
        state,
        due: Millis::clamped(score(due)?).to_system(),
        failures: record.failures,
        attempt: state.attempts(record.attempts),
        interruptions: record.interruptions,
        key: record.key.filter(|_| bytes(own).is_ok_and(|own| own == b"1")),
        partition,
        group,
        error: record.errors.latest(),
        errors: record.errors.list(),
        headers,
        claimed: claimed.map(Millis::to_system),
        lease_ends: lease_ends.map(Millis::to_system),
        died: ended.filter(|_| state == JobState::Dead),
        ended,
        took: record.end.as_ref().map(|end| Duration::from_millis(end.took)),
        result: record.end.and_then(|end| end.result),
        progress: Some(bytes(progress)?.to_vec()).filter(|progress| !progress.is_empty()),
        payload: record.payload,
    }))
}
