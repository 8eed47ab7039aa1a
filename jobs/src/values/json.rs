//! Jobs, schedules and counts as JSON and as debug text: times in RFC 3339, and payloads of JSON as JSON.
//!
//! Ground rules:
//!
//! - The names of the fields are an interface, because scripts read them: they are those of
//!   `tickwheel-jobs --json`.
//! - A payload is in one of three fields: `payload` has JSON, `payload_text` other text, `payload_hex` bytes that
//!   are no text. Text in `payload` would be taken for a JSON string.

use core::fmt;

use serde::ser::SerializeStruct;
use serde::{Serialize, Serializer};
use serde_json::value::RawValue;

use super::attempt_errors::AttemptError;
use super::info::{Counts, JobInfo, JobState, ScheduleInfo};
use super::json_text::respaced;
use super::time::Rfc3339;

/// A payload as JSON, as other text, or as bytes.
enum Payload<'a> {
    /// With the digits of its numbers, of which a value in memory has 17.
    Json(Box<RawValue>),
    Text(&'a str),
    Bytes(&'a [u8]),
}

impl Payload<'_> {
    fn of(bytes: &[u8]) -> Payload<'_> {
        let Ok(text) = str::from_utf8(bytes) else { return Payload::Bytes(bytes) };
        let is_json = serde_json::from_str::<serde_json::Value>(text).is_ok();
        let json = is_json.then(|| RawValue::from_string(respaced(text, false)).ok()).flatten();
        json.map_or(Payload::Text(text), Payload::Json)
    }
}

/// Bytes, printed as hexadecimal digits.
struct Hex<'a>(&'a [u8]);

impl fmt::Display for Hex<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for Payload<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Payload::Json(json) => fmt::Display::fmt(json, f),
            Payload::Text(text) => fmt::Debug::fmt(text, f),
            Payload::Bytes(bytes) => write!(f, "0x{}", Hex(bytes)),
        }
    }
}

impl JobState {
    /// Returns the state in a word: `pending`, `claimed`, `running`, `dead`, `completed`, `cancelled`.
    pub(crate) fn word(self) -> &'static str {
        match self {
            JobState::Pending => "pending",
            JobState::Claimed => "claimed",
            JobState::Running => "running",
            JobState::Dead => "dead",
            JobState::Completed => "completed",
            JobState::Cancelled => "cancelled",
        }
    }
}

impl fmt::Display for JobState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.word())
    }
}

impl Serialize for JobState {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.word())
    }
}

impl Serialize for JobInfo {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let payload = Payload::of(&self.payload);
        let is_json = matches!(payload, Payload::Json(_));
        let more = [!is_json, self.partition.is_some(), self.group.is_some()];
        let fields = 19 + more.into_iter().filter(|is_there| *is_there).count();
        let mut job = serializer.serialize_struct("JobInfo", fields)?;
        job.serialize_field("id", &self.id)?;
        job.serialize_field("kind", &self.kind)?;
        job.serialize_field("state", &self.state)?;
        job.serialize_field("due", &Rfc3339(self.due))?;
        job.serialize_field("failures", &self.failures)?;
        job.serialize_field("attempt", &self.attempt)?;
        job.serialize_field("interruptions", &self.interruptions)?;
        job.serialize_field("key", &self.key)?;
        if let Some(partition) = &self.partition {
            job.serialize_field("partition", partition)?;
        }
        if let Some(group) = &self.group {
            job.serialize_field("group", group)?;
        }
        job.serialize_field("error", &self.error)?;
        job.serialize_field("errors", &self.errors)?;
        job.serialize_field("headers", &self.headers)?;
        job.serialize_field("claimed", &self.claimed.map(Rfc3339))?;
        job.serialize_field("lease_ends", &self.lease_ends.map(Rfc3339))?;
        job.serialize_field("died", &self.died.map(Rfc3339))?;
        job.serialize_field("ended", &self.ended.map(Rfc3339))?;
        job.serialize_field("took_ms", &self.took.map(|took| took.as_millis() as u64))?;
        for (name, json) in [("result", &self.result), ("progress", &self.progress)] {
            let json = json.as_deref().and_then(|json| serde_json::from_slice(json).ok());
            job.serialize_field(name, &json.unwrap_or(serde_json::Value::Null))?;
        }
        match payload {
            Payload::Json(json) => job.serialize_field("payload", &json)?,
            Payload::Text(text) => {
                job.serialize_field("payload", &None::<()>)?;
                job.serialize_field("payload_text", text)?;
            }
            Payload::Bytes(bytes) => {
                job.serialize_field("payload", &None::<()>)?;
                job.serialize_field("payload_hex", &Hex(bytes).to_string())?;
            }
        }
        job.end()
    }
}

impl fmt::Debug for JobInfo {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut job = f.debug_struct("JobInfo");
        job.field("id", &self.id)
            .field("kind", &self.kind)
            .field("state", &self.state)
            .field("due", &Rfc3339(self.due))
            .field("failures", &self.failures)
            .field("attempt", &self.attempt)
            .field("interruptions", &self.interruptions)
            .field("key", &self.key);
        if let Some(partition) = &self.partition {
            job.field("partition", partition);
        }
        if let Some(group) = &self.group {
            job.field("group", group);
        }
        job.field("error", &self.error)
            .field("errors", &self.errors)
            .field("headers", &self.headers)
            .field("claimed", &self.claimed.map(Rfc3339))
            .field("lease_ends", &self.lease_ends.map(Rfc3339))
            .field("died", &self.died.map(Rfc3339))
            .field("ended", &self.ended.map(Rfc3339))
            .field("took", &self.took)
            .field("result", &self.result.as_deref().map(Payload::of))
            .field("progress", &self.progress.as_deref().map(Payload::of))
            .field("payload", &Payload::of(&self.payload))
            .finish()
    }
}

impl Serialize for AttemptError {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut error = serializer.serialize_struct("AttemptError", 4)?;
        error.serialize_field("at", &Rfc3339(self.at))?;
        error.serialize_field("attempt", &self.attempt)?;
        error.serialize_field("node", &self.node)?;
        error.serialize_field("error", &self.error)?;
        error.end()
    }
}

impl fmt::Debug for AttemptError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AttemptError")
            .field("at", &Rfc3339(self.at))
            .field("attempt", &self.attempt)
            .field("node", &self.node)
            .field("error", &self.error)
            .finish()
    }
}

impl Serialize for ScheduleInfo {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut schedule = serializer.serialize_struct("ScheduleInfo", 5)?;
        schedule.serialize_field("name", &self.name)?;
        schedule.serialize_field("kind", &self.kind)?;
        schedule.serialize_field("rule", &self.rule)?;
        schedule.serialize_field("next", &Rfc3339(self.next))?;
        schedule.serialize_field("is_paused", &self.is_paused)?;
        schedule.end()
    }
}

impl fmt::Debug for ScheduleInfo {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ScheduleInfo")
            .field("name", &self.name)
            .field("kind", &self.kind)
            .field("rule", &self.rule)
            .field("next", &Rfc3339(self.next))
            .field("is_paused", &self.is_paused)
            .finish()
    }
}

impl Serialize for Counts {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut counts = serializer.serialize_struct("Counts", 8)?;
        counts.serialize_field("pending", &self.pending)?;
        counts.serialize_field("claimed", &self.claimed)?;
        counts.serialize_field("running", &self.running)?;
        counts.serialize_field("dead", &self.dead)?;
        counts.serialize_field("schedules", &self.schedules)?;
        counts.serialize_field("overdue", &self.overdue.count)?;
        counts.serialize_field("overdue_is_exact", &self.overdue.is_exact)?;
        let oldest = self.oldest_overdue.map(|age| age.as_millis() as u64);
        counts.serialize_field("oldest_overdue_ms", &oldest)?;
        counts.end()
    }
}

#[cfg(test)]
mod tests {
    use super::super::time::{Millis, date};
    use super::*;
    use crate::values::attempt_errors::AttemptErrors;
    use crate::values::id::JobId;
    use std::time::{Duration, UNIX_EPOCH};

    /// P98: The digits of a number stay.
    #[test]
    fn numbers_of_a_payload_keep_their_digits() {
        let job = serde_json::to_string(&job(br#"{ "n": 1000000000000000000001 }"#)).unwrap();
        assert!(job.contains(r#""payload":{"n":1000000000000000000001}"#), "{job}");
    }

    fn job(payload: &[u8]) -> JobInfo {
        JobInfo {
            id: JobId::from_u128(7),
            kind: "push".to_owned(),
            state: JobState::Dead,
            due: UNIX_EPOCH + Duration::from_millis(1_795_341_600_250),
            failures: 2,
            attempt: 3,
            interruptions: 0,
            key: Some("user 7".to_owned()),
            partition: None,
            group: None,
            error: Some("down".to_owned()),
            errors: AttemptErrors::default().and(Millis::ZERO, 3, "shop/1", "down").list(),
            headers: [("tenant".to_owned(), "acme".to_owned())].into(),
            claimed: None,
            lease_ends: None,
            died: Some(UNIX_EPOCH),
            ended: Some(UNIX_EPOCH),
            took: Some(Duration::from_millis(12)),
            result: Some(b"{\"paid\":true}".to_vec()),
            progress: Some(b"[1,2]".to_vec()),
            payload: payload.to_vec(),
        }
    }

    /// A time is printed as RFC 3339 in every year, leap or not.
    #[test]
    fn times_print_as_rfc_3339() {
        let cases = [
            (0, "1970-01-01T00:00:00.000Z"),
            (951_782_400_000, "2000-02-29T00:00:00.000Z"),
            (951_868_799_999, "2000-02-29T23:59:59.999Z"),
            (951_868_800_000, "2000-03-01T00:00:00.000Z"),
            (4_107_542_400_000, "2100-03-01T00:00:00.000Z"),
            (1_795_341_600_250, "2026-11-22T10:00:00.250Z"),
            (253_402_300_799_999, "9999-12-31T23:59:59.999Z"),
        ];
        for (ms, text) in cases {
            let time = UNIX_EPOCH + Duration::from_millis(ms);
            assert_eq!(Rfc3339(time).to_string(), text);
        }
        let mut last = (1969, 12, 31);
        for day in 0..2_932_897 {
            let next = date(day);
            let (year, month, of_month) = next;
            let follows = next == (last.0, last.1, last.2 + 1)
                || (next == (last.0, last.1 + 1, 1) && last.2 >= 28)
                || (next == (last.0 + 1, 1, 1) && (last.1, last.2) == (12, 31));
            assert!(follows && of_month <= 31 && month <= 12, "{last:?} and {year}");
            last = next;
        }
        assert_eq!(last, (9999, 12, 31));
    }

    /// A job serializes to an object with the fields of `--json`. A payload of JSON stays JSON.
    #[test]
    fn job_info_serializes_with_its_payload() {
        let json = |payload: &[u8]| serde_json::to_value(job(payload)).unwrap();
        let whole = serde_json::json!({
            "id": "00000000000000000000000000000007",
            "kind": "push",
            "state": "dead",
            "due": "2026-11-22T10:00:00.250Z",
            "failures": 2,
            "attempt": 3,
            "interruptions": 0,
            "key": "user 7",
            "error": "down",
            "errors": [{
                "at": "1970-01-01T00:00:00.000Z",
                "attempt": 3,
                "node": "shop/1",
                "error": "down",
            }],
            "headers": { "tenant": "acme" },
            "claimed": null, "lease_ends": null,
            "died": "1970-01-01T00:00:00.000Z",
            "ended": "1970-01-01T00:00:00.000Z",
            "took_ms": 12,
            "result": { "paid": true },
            "progress": [1, 2],
            "payload": { "to": "ann" },
        });
        assert_eq!(json(br#"{"to":"ann"}"#), whole);
        assert_eq!(json(b"\"ann\"")["payload"], "ann");
        let text = json(b"ann");
        assert_eq!((&text["payload"], &text["payload_text"]), (&None::<()>.into(), &"ann".into()));
        let bytes = json(&[0xff, 0]);
        assert_eq!(
            (&bytes["payload"], &bytes["payload_hex"]),
            (&None::<()>.into(), &"ff00".into())
        );
    }

    /// The debug text can be read: times are not seconds since 1970, and the payload is not a list of bytes.
    #[test]
    fn job_info_debug_can_be_read() {
        let text = format!("{:?}", job(br#"{"to":"ann"}"#));
        assert!(text.contains("due: 2026-11-22T10:00:00.250Z"), "{text}");
        assert!(text.contains(r#"payload: {"to":"ann"}"#), "{text}");
        assert!(format!("{:?}", job(&[0xff])).contains("payload: 0xff"));
    }
}
