//! Redaction: the parts of jobs in the form that rows, searches, groups and downloads have.
//!
//! A part on which the program's function panics is hidden and marked. The other parts of the job and the other jobs
//! are shown.

use std::sync::Arc;

use serde::Serialize;
use serde_json::{Map, Value};

use crate::values::info::{Hex, JobInfo, respaced};
use crate::values::panics::caught;

/// How many of the digits of an id a list shows: its time and its number within the millisecond, in which the ids of a
/// process differ. A search takes them.
pub(super) const SHOWN_DIGITS: usize = 14;
/// The most characters of a payload.
const SHOWN_CHARS: usize = 4 << 10;
/// A payload above this size is not read to be formatted.
const FORMATTED_BYTES: usize = 1 << 20;

/// The text in the place of a part on which the program's function has panicked.
const FAILED: &str = "(hidden: the program's redact has panicked on this)";

/// A part of a job that [`View::redact`](super::View::redact) may change before it is shown.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[non_exhaustive]
pub enum Part {
    /// The payload. If it is not JSON, the value is a string: of the text, or of hexadecimal digits.
    Payload,
    /// All headers: an object of strings.
    Headers,
    /// The result of a completed job.
    Result,
    /// The progress of a job.
    Progress,
    /// The error of an attempt: a string. Of a group of dead jobs it is the first line.
    Error,
}

/// A payload, a result or a progress.
#[derive(Clone, Default, Debug, Serialize)]
#[non_exhaustive]
pub struct Content {
    /// At most 4,096 characters. JSON is formatted; bytes that are no text are hexadecimal digits.
    pub text: String,
    /// `json`, `text` or `bytes`.
    pub format: &'static str,
    /// Its whole size as it is stored.
    pub bytes: u64,
    /// The text is only the beginning.
    pub is_cut: bool,
}

pub(super) type Redact = dyn Fn(&str, Part, &mut Value) + Send + Sync;

/// Redacts the parts of jobs.
#[derive(Clone, Default)]
pub(crate) struct Redactor(pub(super) Option<Arc<Redact>>);

/// The formats of a content. JSON is without spaces between its parts until it is formatted.
const JSON: &str = "json";
const TEXT: &str = "text";
const BYTES: &str = "bytes";

impl Redactor {
    /// Changes a value to its redacted form. If the program's function panics, nothing of the value stays.
    fn apply(&self, kind: &str, part: Part, value: &mut Value) {
        let Some(redact) = &self.0 else { return };
        if caught(|| redact(kind, part, value)).is_none() {
            *value = Value::String(FAILED.to_owned());
        }
    }

    fn text(&self, kind: &str, part: Part, bytes: &[u8]) -> (String, &'static str) {
        if self.0.is_none()
            && let Ok(text) = str::from_utf8(bytes)
            && serde_json::from_str::<Value>(text).is_ok()
        {
            // A number keeps its digits.
            return (respaced(text, false), JSON);
        }
        let (mut value, format) = match (serde_json::from_slice(bytes), str::from_utf8(bytes)) {
            (Ok(json), _) => (json, JSON),
            (Err(_), Ok(text)) => (Value::String(text.to_owned()), TEXT),
            (Err(_), Err(_)) => (Value::String(Hex(bytes).to_string()), BYTES),
        };
        self.apply(kind, part, &mut value);
        match (value, format) {
            (Value::String(text), JSON) if text == FAILED => (text, TEXT),
            (Value::String(text), TEXT | BYTES) => (text, format),
            (json, _) => (json.to_string(), JSON),
        }
    }

    /// Returns a part as one line, for a search or a list.
    pub(crate) fn line(&self, kind: &str, part: Part, bytes: &[u8]) -> String {
        self.text(kind, part, bytes).0
    }

    pub(crate) fn whole(&self, kind: &str, part: Part, bytes: Vec<u8>) -> Vec<u8> {
        if self.0.is_none() {
            return bytes;
        }
        self.line(kind, part, &bytes).into_bytes()
    }

    pub(crate) fn content(&self, kind: &str, part: Part, bytes: &[u8]) -> Content {
        let size = bytes.len();
        let (text, format) = match (size > FORMATTED_BYTES, &self.0) {
            (false, _) => self.text(kind, part, bytes),
            (true, Some(_)) => ("(too large to be shown here)".to_owned(), TEXT),
            // The beginning is enough.
            (true, None) => match str::from_utf8(&bytes[..FORMATTED_BYTES]) {
                Ok(text) => (text.to_owned(), TEXT),
                // The beginning ends within a character.
                Err(end) if end.error_len().is_none() => {
                    (String::from_utf8_lossy(&bytes[..end.valid_up_to()]).into_owned(), TEXT)
                }
                Err(_) => (Hex(&bytes[..SHOWN_CHARS]).to_string(), BYTES),
            },
        };
        let text = if format == JSON { respaced(&text, true) } else { text };
        let (text, is_cut) = cut(&text, SHOWN_CHARS);
        Content { text, format, bytes: size as u64, is_cut }
    }

    pub(crate) fn error(&self, kind: &str, error: &str) -> String {
        let mut value = Value::String(error.to_owned());
        self.apply(kind, Part::Error, &mut value);
        plain(value)
    }

    pub(crate) fn first_line(&self, kind: &str, error: &str) -> String {
        self.error(kind, error.lines().next().unwrap_or_default())
    }

    pub(crate) fn headers(&self, job: &JobInfo) -> Vec<(String, String)> {
        let headers = job.headers.iter();
        let headers: Map<String, Value> =
            headers.map(|(name, value)| (name.clone(), Value::String(value.clone()))).collect();
        let mut value = Value::Object(headers);
        self.apply(&job.kind, Part::Headers, &mut value);
        match value {
            Value::Object(headers) => {
                headers.into_iter().map(|(name, value)| (name, plain(value))).collect()
            }
            Value::Null => Vec::new(),
            other => vec![(String::new(), plain(other))],
        }
    }

    /// Says whether a text, which is in lower case, occurs in a job. Upper and lower case are the same.
    pub(crate) fn has(&self, job: &JobInfo, text: &str) -> bool {
        // In JSON a quote, for example, has a backslash before it.
        let in_json = Value::String(text.to_owned()).to_string();
        let in_json = &in_json[1..in_json.len() - 1];
        let has = |part: &str| {
            let part = part.to_lowercase();
            part.contains(text) || in_json != text && part.contains(in_json)
        };
        let kind = &job.kind;
        let has_in = |part, bytes: &[u8]| {
            let line = self.line(kind, part, bytes);
            // The program may have written a letter as an escape, as `\u00e9` for é.
            let unescaped = || serde_json::from_str(&line).map(|it: Value| it.to_string());
            has(&line) || line.contains('\\') && unescaped().is_ok_and(|line| has(&line))
        };
        let bytes =
            |part, bytes: &Option<Vec<u8>>| bytes.as_ref().is_some_and(|bytes| has_in(part, bytes));
        (text.len() >= SHOWN_DIGITS && job.id.to_string().starts_with(text))
            || job.key.as_ref().is_some_and(|key| has(key))
            || has_in(Part::Payload, &job.payload)
            || job.error.as_ref().is_some_and(|error| has(&self.error(kind, error)))
            || self.headers(job).iter().any(|(name, value)| has(name) || has(value))
            || bytes(Part::Result, &job.result)
            || bytes(Part::Progress, &job.progress)
    }
}

/// Returns a text without its quotes, and any other value as JSON.
fn plain(value: Value) -> String {
    match value {
        Value::String(text) => text,
        other => other.to_string(),
    }
}

/// Returns at most this many characters of a text, and whether some are missing.
pub(crate) fn cut(text: &str, most: usize) -> (String, bool) {
    match text.char_indices().nth(most) {
        Some((end, _)) => (text[..end].to_owned(), true),
        None => (text.to_owned(), false),
    }
}
