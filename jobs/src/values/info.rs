//! The store's answers about jobs, and the same as JSON and as debug text: one job, counts, schedules, the result of a
//! cancel; and the result of a member of a group.
//!
//! Ground rules of the JSON:
//!
//! - The names of the fields are an interface, because scripts read them: they are those of
//!   `tickwheel-jobs --json`.
//! - A payload is in one of three fields: `payload` has JSON, `payload_text` other text, `payload_hex` bytes that
//!   are no text. Text in `payload` would be taken for a JSON string.
//! - A time is UTC, in milliseconds, to the end of the year 9999.
//! - JSON is spaced anew as text, so that numbers keep their digits: a value in memory has 17 of them.

use core::fmt;
use std::collections::BTreeMap;
use std::error::Error;
use std::time::{Duration, SystemTime};

use serde::de::DeserializeOwned;
use serde::ser::SerializeMap;
use serde::{Serialize, Serializer};
use serde_json::value::RawValue;

use super::fail_and_retry::{AttemptError, AttemptErrors, Retry};
use super::group::GroupId;
use super::id::JobId;
use super::invalid_input::InvalidInput;
use super::job::{Job, Shown};
use super::time::{Millis, Rfc3339, rfc3339, rfc3339_or_null};

/// Says which failures cannot undo a change, once the call has returned. It is for jobs in a file. On a server, the
/// persistence of the server decides. Jobs in memory end with their process.
///
/// | level | `insert` returns | a crash of the process loses | a power cut loses |
/// | --- | --- | --- | --- |
/// | `Synced` | when the job is on stable storage | nothing | nothing |
/// | `Written` | when the system has it | nothing | the latest commits |
/// | `Buffered` | at once | what was not flushed | what was not flushed |
///
/// A shutdown commits the inserts that came before it. A buffered insert that another
/// thread makes at that moment may come too late. It is lost then, and
/// [`Event::InsertsDropped`](crate::Event::InsertsDropped) names it. So is one that a store cannot take at the end.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
pub enum Durability {
    /// A call returns once its change is on stable storage. Calls that arrive during one fsync share the next
    /// one.
    #[default]
    Synced,
    /// A call returns once the operating system has its change.
    Written,
    /// An insert does not wait for the commit, unless thousands of commands wait. (In a process that runs no jobs, the
    /// thread that calls makes the commit.) [`Client::flush`](crate::Client::flush) waits for the inserts before it.
    /// Every call that has a result (a cancel, an insert with an id or a key) waits as with `Written`.
    Buffered,
}

/// The result of a cancel.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[must_use]
pub enum Cancel {
    /// The job will never start.
    Cancelled,
    /// The job may have started. Its run is cancelled ([`Run::is_cancelled`](crate::Run::is_cancelled)), and
    /// the job is not retried if the run fails.
    Running,
    /// There is nothing to cancel: the job is completed, dead, cancelled already, or never existed.
    Gone,
}

impl Cancel {
    /// Says whether the job will never start.
    #[must_use]
    pub fn is_cancelled(self) -> bool {
        self == Cancel::Cancelled
    }
}

/// The state of a job.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default, Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum JobState {
    /// It waits for its due time, for a free slot, or for a process that handles its kind.
    #[default]
    Pending,
    /// Another process has claimed it: on a file at most 50 ms before its due time; on a server once it was due,
    /// and it goes back if it has not started after a second. Only that process knows whether the handler has
    /// started, so others see neither `Pending` nor `Running`.
    Claimed,
    /// Its handler has started and not ended. Only the process that runs it sees this state.
    Running,
    /// It is not retried. It stays until it is retried by hand, deleted, or older than
    /// [`Builder::keep_dead`](crate::Builder::keep_dead).
    Dead,
    /// It has completed, and its kind keeps such jobs, or a caller waits for its end.
    Completed,
    /// It was cancelled, and a caller waits for its end.
    Cancelled,
    /// It became too old to start ([`NewJob::expires`](crate::NewJob::expires)). It is kept as a completed job is.
    Expired,
}

/// A job as it is in the store.
///
/// Its serialized form is the output of the command `tickwheel-jobs` with `--json`: `id`, `kind`, `state` (`pending`,
/// `claimed`, `running`, `dead`, `completed`, `cancelled`, `expired`), `due`, `failures`, `attempt`, `interruptions`,
/// `key`, `error`, `errors`, `headers`, `claimed`, `lease_ends`, `died`, `ended`, `took_ms`, `result`, `progress`, and
/// `payload`. Times are RFC 3339 in UTC, `2026-11-22T10:00:00.000Z`, in `{:?}` too. `payload` is the job's own JSON;
/// the members of its objects are sorted by name, and a number of more than 64 bits is rounded. If the payload is not
/// JSON, `payload` is `null`, and `payload_text` or `payload_hex` has the payload. A job with a partition has
/// `partition` too, a member of a group has `group`, a job with a retry policy of its own has `max_retries`, and a job
/// with an expiry has `expires`. A job that is claimed or runs has `node`, if the store knows it.
#[derive(Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct JobInfo {
    /// Its id.
    pub id: JobId,
    /// Its kind.
    pub kind: String,
    /// Its state.
    pub state: JobState,
    /// Its due time: it does not start before.
    #[serde(serialize_with = "rfc3339")]
    pub due: SystemTime,
    /// The number of its runs that have failed.
    pub failures: u32,
    /// The number of its attempts, the one under way included, as [`Run::attempt`](crate::Run::attempt) counts
    /// them: 0 before the first.
    pub attempt: u32,
    /// The number of its latest attempts, in a row, that ended with their process.
    pub interruptions: u32,
    /// Its key, if it has one.
    pub key: Option<String>,
    /// Its partition, if it has one: see [`Job::partition`].
    #[serde(skip_serializing_if = "Option::is_none")]
    pub partition: Option<String>,
    /// The group of which it is a member: see [`Client::group`](crate::Client::group).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub group: Option<GroupId>,
    /// Its own retry policy, if it has one: see [`NewJob::retry`](crate::NewJob::retry).
    #[serde(
        rename = "max_retries",
        serialize_with = "most",
        skip_serializing_if = "Option::is_none"
    )]
    pub retry: Option<Retry>,
    /// When it expires, if it has an expiry: see [`NewJob::expires`](crate::NewJob::expires). If that time has passed,
    /// a pending job ends when it comes to its turn.
    #[serde(serialize_with = "rfc3339_or_null", skip_serializing_if = "Option::is_none")]
    pub expires: Option<SystemTime>,
    /// The error of its last failure, if it has failed.
    pub error: Option<String>,
    /// Its last five failed attempts, the newest first.
    pub errors: Vec<AttemptError>,
    /// Its headers: see [`NewJob::header`](crate::NewJob::header).
    pub headers: BTreeMap<String, String>,
    /// When a process claimed it, if it is claimed or runs, by the clock of that process, or of the server: see
    /// [`JobState::Claimed`] for how long before its handler starts that may be.
    #[serde(serialize_with = "rfc3339_or_null")]
    pub claimed: Option<SystemTime>,
    /// When its claim ends unless its process renews it, if it is claimed or runs, and is on a server: see
    /// [`Builder::lease`](crate::Builder::lease).
    #[serde(serialize_with = "rfc3339_or_null")]
    pub lease_ends: Option<SystemTime>,
    /// The process that has claimed it, if it is claimed or runs, and the store knows the process:
    /// [`NodeInfo::name`](crate::NodeInfo::name).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub node: Option<String>,
    /// When it died, if it is dead.
    #[serde(serialize_with = "rfc3339_or_null")]
    pub died: Option<SystemTime>,
    /// When it ended, if it is dead, or if it is kept.
    #[serde(serialize_with = "rfc3339_or_null")]
    pub ended: Option<SystemTime>,
    /// How long its last run took, in whole milliseconds, if it has ended.
    #[serde(rename = "took_ms", serialize_with = "as_ms")]
    pub took: Option<Duration>,
    /// The JSON of its result, if it is kept and its run has set one: see
    /// [`Run::set_result`](crate::Run::set_result).
    #[serde(serialize_with = "json_or_null")]
    pub result: Option<Vec<u8>>,
    /// The JSON of the latest progress that its runs have set, until it has completed, has expired or is cancelled: see
    /// [`Run::set_progress`](crate::Run::set_progress).
    #[serde(serialize_with = "json_or_null")]
    pub progress: Option<Vec<u8>>,
    /// Its data, as [`Job::encode`] made it.
    #[serde(flatten, serialize_with = "payload")]
    pub payload: Vec<u8>,
}

impl JobInfo {
    /// Returns a job with these properties, which has not run and is not claimed, and whose payload is empty.
    pub(crate) fn new(
        id: JobId,
        kind: String,
        state: JobState,
        due: Millis,
        errors: &AttemptErrors,
        shown: Shown,
    ) -> JobInfo {
        let Shown { partition, group, retry, expires, headers, progress } = shown;
        JobInfo {
            id,
            kind,
            state,
            due: due.to_system(),
            failures: 0,
            attempt: 0,
            interruptions: 0,
            key: None,
            partition,
            group,
            retry,
            expires: expires.map(Millis::to_system),
            error: errors.latest(),
            errors: errors.list(),
            headers,
            claimed: None,
            lease_ends: None,
            node: None,
            died: None,
            ended: None,
            took: None,
            result: None,
            progress,
            payload: Vec::new(),
        }
    }

    /// Returns when the job was inserted, by the clock of the process that inserted it. Its id has the time. `None` if
    /// the caller chose the id, if the job is an occurrence of a schedule, or if it was due more than 49 days after its
    /// insert.
    #[must_use]
    pub fn inserted(&self) -> Option<SystemTime> {
        let inserted = self.id.inserted(&self.kind, Millis::present(self.due));
        inserted.map(Millis::to_system)
    }

    /// Returns how many bytes a list has read for it: of its payload, result, progress, errors and headers.
    pub(crate) fn bytes(&self) -> usize {
        let part = |part: &Option<Vec<u8>>| part.as_ref().map_or(0, Vec::len);
        let errors: usize = self.errors.iter().map(|error| error.error.len()).sum();
        let headers: usize =
            self.headers.iter().map(|(name, value)| name.len() + value.len()).sum();
        self.payload.len() + part(&self.result) + part(&self.progress) + errors + headers
    }

    /// Returns the job.
    ///
    /// # Errors
    ///
    /// If the job is of another kind, or its payload does not decode.
    pub fn job<J: Job>(&self) -> Result<J, InvalidInput> {
        if self.kind != J::KIND {
            let error = format!("the job is of the kind {:?}, not {:?}", self.kind, J::KIND);
            return Err(InvalidInput::Decode(error));
        }
        J::decode(&self.payload).map_err(|error| InvalidInput::Decode(error.to_string()))
    }
}

/// How many jobs there are.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize)]
#[non_exhaustive]
pub struct Counts {
    /// Jobs that wait, of every kind, those without a handler included.
    pub pending: u64,
    /// Jobs that other processes have claimed: see [`JobState::Claimed`].
    pub claimed: u64,
    /// Jobs that run in this process.
    pub running: u64,
    /// Dead jobs.
    pub dead: u64,
    /// Schedules.
    pub schedules: u64,
    /// Pending jobs whose due time has passed. They wait for a free slot, or no process handles their kind.
    pub overdue: Number,
    /// How long ago the first of them was due.
    #[serde(rename = "oldest_overdue_ms", serialize_with = "as_ms")]
    pub oldest_overdue: Option<Duration>,
}

fn as_ms<S: Serializer>(time: &Option<Duration>, serializer: S) -> Result<S::Ok, S::Error> {
    time.map(|time| time.as_millis() as u64).serialize(serializer)
}

/// How many there are, or at least how many.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
pub struct Number {
    /// The number. No store looks at more than 10,000 jobs to count them.
    pub count: u64,
    /// False: there are `count` or more.
    pub is_exact: bool,
}

impl Number {
    /// Returns a number that is exact.
    #[must_use]
    pub fn exactly(count: u64) -> Number {
        Number { count, is_exact: true }
    }

    /// Says whether `other` is not more than this number. A number that is not exact covers every other.
    #[must_use]
    pub fn covers(self, other: Number) -> bool {
        !self.is_exact || (other.is_exact && other.count <= self.count)
    }
}

impl Default for Number {
    fn default() -> Number {
        Number::exactly(0)
    }
}

impl fmt::Display for Number {
    /// Prints `7`, or `10000+`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}", self.count, if self.is_exact { "" } else { "+" })
    }
}

/// Dead jobs of one kind whose errors have the same first line.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug, serde::Serialize)]
#[non_exhaustive]
pub struct DeadByError {
    /// Their kind.
    pub kind: String,
    /// The first line of the error of their last failure.
    pub error: String,
    /// How many there are.
    pub jobs: u64,
    /// When the first of them died. It may be gone since: retried, deleted, or past
    /// [`Builder::keep_dead`](crate::Builder::keep_dead); in memory only jobs that are left count. `None`: the server
    /// does not know it.
    #[serde(serialize_with = "rfc3339_or_null")]
    pub first_died: Option<SystemTime>,
    /// When the last of them died, in the same sense.
    #[serde(serialize_with = "rfc3339_or_null")]
    pub last_died: Option<SystemTime>,
}

/// A schedule as it is in the store. Its serialized form has the fields `name`, `kind`, `rule`, `next`, a time as in
/// a [`JobInfo`], and `is_paused`.
#[derive(Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct ScheduleInfo {
    /// Its name.
    pub name: String,
    /// The kind of its jobs.
    pub kind: String,
    /// Its rule, as text: "every 60000 ms", "cron Europe/Berlin 0 7 * * mon-fri".
    pub rule: String,
    /// The due time of the next occurrence that is not a job yet. If the schedule is paused, this occurrence is made
    /// only if the schedule is resumed before its time.
    #[serde(serialize_with = "rfc3339")]
    pub next: SystemTime,
    /// It is paused: see [`Schedules::pause`](crate::Schedules::pause).
    pub is_paused: bool,
    /// It makes no occurrence before the earlier one has ended: see
    /// [`Schedule::without_overlap`](crate::Schedule::without_overlap).
    pub without_overlap: bool,
}

/// Returns JSON text without the spaces between its parts, or with a line for each part if it is `pretty`. Numbers and
/// texts stay as they are written. The text must be JSON that `serde_json` has read, so its depth has a bound.
pub(crate) fn respaced(json: &str, pretty: bool) -> String {
    let mut out = String::with_capacity(json.len());
    let (mut depth, mut in_text, mut is_escaped) = (0_usize, false, false);
    let line = |out: &mut String, depth: usize| {
        if pretty {
            out.push('\n');
            out.extend(core::iter::repeat_n("  ", depth));
        }
    };
    for c in json.chars() {
        if in_text {
            in_text = is_escaped || c != '"';
            is_escaped = !is_escaped && c == '\\';
            out.push(c);
            continue;
        }
        let is_first = out.ends_with(['{', '[']);
        match c {
            ' ' | '\t' | '\r' | '\n' => continue,
            '}' | ']' => {
                depth = depth.saturating_sub(1);
                if !is_first {
                    line(&mut out, depth);
                }
            }
            _ if is_first => line(&mut out, depth),
            _ => {}
        }
        out.push(c);
        match c {
            '"' => in_text = true,
            '{' | '[' => depth += 1,
            ',' => line(&mut out, depth),
            ':' if pretty => out.push(' '),
            _ => {}
        }
    }
    out
}

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
pub(crate) struct Hex<'a>(pub(crate) &'a [u8]);

impl fmt::Display for Hex<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

/// Writes the field or the two fields that the payload has in the JSON of a job.
fn payload<S: Serializer>(bytes: &[u8], serializer: S) -> Result<S::Ok, S::Error> {
    let payload = Payload::of(bytes);
    let json = if let Payload::Json(json) = &payload { Some(json) } else { None };
    let mut fields = serializer.serialize_map(None)?;
    fields.serialize_entry("payload", &json)?;
    match payload {
        Payload::Json(_) => {}
        Payload::Text(text) => fields.serialize_entry("payload_text", text)?,
        Payload::Bytes(bytes) => fields.serialize_entry("payload_hex", &Hex(bytes).to_string())?,
    }
    fields.end()
}

fn json_or_null<S: Serializer>(json: &Option<Vec<u8>>, serializer: S) -> Result<S::Ok, S::Error> {
    let json = json.as_deref().and_then(|json| serde_json::from_slice(json).ok());
    json.unwrap_or(serde_json::Value::Null).serialize(serializer)
}

fn most<S: Serializer>(retry: &Option<Retry>, serializer: S) -> Result<S::Ok, S::Error> {
    retry.map(|retry| retry.most()).serialize(serializer)
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
    /// Returns the number of attempts of a job in this state. `attempts` are those that have ended, as the
    /// store counts them.
    pub(crate) fn attempts(self, attempts: u32) -> u32 {
        match self {
            JobState::Pending | JobState::Dead | JobState::Cancelled | JobState::Expired => {
                attempts
            }
            JobState::Claimed | JobState::Running | JobState::Completed => {
                attempts.saturating_add(1)
            }
        }
    }

    /// Returns the word for it: `pending`, `claimed`, `running`, `dead`, `completed`, `cancelled`, `expired`.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            JobState::Pending => "pending",
            JobState::Claimed => "claimed",
            JobState::Running => "running",
            JobState::Dead => "dead",
            JobState::Completed => "completed",
            JobState::Cancelled => "cancelled",
            JobState::Expired => "expired",
        }
    }
}

impl fmt::Display for JobState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.word())
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
        if let Some(retry) = &self.retry {
            job.field("retry", retry);
        }
        if let Some(expires) = self.expires {
            job.field("expires", &Rfc3339(expires));
        }
        job.field("error", &self.error)
            .field("errors", &self.errors)
            .field("headers", &self.headers)
            .field("claimed", &self.claimed.map(Rfc3339))
            .field("lease_ends", &self.lease_ends.map(Rfc3339))
            .field("node", &self.node)
            .field("died", &self.died.map(Rfc3339))
            .field("ended", &self.ended.map(Rfc3339))
            .field("took", &self.took)
            .field("result", &self.result.as_deref().map(Payload::of))
            .field("progress", &self.progress.as_deref().map(Payload::of))
            .field("payload", &Payload::of(&self.payload))
            .finish()
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

/// How a member of a group has ended, and its result: see [`Group::keep_results`](crate::Group::keep_results).
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct MemberResult {
    /// Its id.
    pub id: JobId,
    /// Its kind.
    pub kind: String,
    /// How it has ended: completed, dead, cancelled or expired. A dead member that was deleted stays dead here, though
    /// its group counts it as cancelled.
    pub state: JobState,
    /// The JSON of its result, if its last run has completed and set one: see
    /// [`Run::set_result`](crate::Run::set_result).
    pub result: Option<Vec<u8>>,
    /// Its last five failed attempts, the newest first, if it is dead.
    pub errors: Vec<AttemptError>,
}

impl MemberResult {
    /// Returns the result as a value, if there is one.
    ///
    /// # Errors
    ///
    /// If the result does not decode as a `T`.
    pub fn read<T: DeserializeOwned>(&self) -> Result<Option<T>, Box<dyn Error + Send + Sync>> {
        let value = self.result.as_deref().map(serde_json::from_slice).transpose();
        value.map_err(|error| format!("the result of {} does not decode: {error}", self.id).into())
    }
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, UNIX_EPOCH};

    use super::super::time::{Millis, date};
    use super::*;
    use crate::values::fail_and_retry::AttemptErrors;
    use crate::values::id::JobId;

    /// P98: The digits of a number stay, spaces between the parts of JSON go or become lines, and those within a text
    /// stay.
    #[test]
    fn numbers_keep_their_digits_and_texts_their_spaces() {
        let json =
            r#" { "n" : 1000000000000000000001, "t": "a\\\" {[ , : ]}", "e": [ ], "l": [1, {}] } "#;
        let compact = r#"{"n":1000000000000000000001,"t":"a\\\" {[ , : ]}","e":[],"l":[1,{}]}"#;
        assert_eq!(respaced(json, false), compact);
        // Without such a number, it is what `serde_json` prints.
        let plain = json.replace("000000000000000000000", "");
        let value: serde_json::Value = serde_json::from_str(&plain).unwrap();
        let again = respaced(&respaced(&value.to_string(), false), true);
        assert_eq!(again, serde_json::to_string_pretty(&value).unwrap());
        let job = serde_json::to_string(&job(br#"{ "n": 1000000000000000000001 }"#)).unwrap();
        assert!(job.contains(r#""payload":{"n":1000000000000000000001}"#), "{job}");
    }

    fn job(payload: &[u8]) -> JobInfo {
        let due = Millis::clamped(1_795_341_600_250);
        let errors = AttemptErrors::default().and(Millis::ZERO, 3, "shop/1", "down");
        let headers = [("tenant".to_owned(), "acme".to_owned())].into();
        let shown = Shown { headers, ..Shown::default() };
        JobInfo {
            failures: 2,
            attempt: 3,
            key: Some("user 7".to_owned()),
            died: Some(UNIX_EPOCH),
            ended: Some(UNIX_EPOCH),
            took: Some(Duration::from_millis(12)),
            result: Some(b"{\"paid\":true}".to_vec()),
            progress: Some(b"[1,2]".to_vec()),
            payload: payload.to_vec(),
            ..JobInfo::new(
                JobId::from_u128(7),
                "push".to_owned(),
                JobState::Dead,
                due,
                &errors,
                shown,
            )
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
