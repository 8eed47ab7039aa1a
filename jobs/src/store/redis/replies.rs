//! What the server says: values of the right type, or an error that says what is wrong.

use redis::{ServerError, ServerErrorKind, Value};

use super::connection::Failure;
use super::records::damaged;
use crate::store::words::ApplyError;
use crate::values::error::StoreError;

/// Why there is no answer.
#[derive(Debug)]
pub(super) struct Fault {
    pub(super) error: StoreError,
    /// It may have been done.
    pub(super) sent: bool,
    /// It may be asked again.
    pub(super) again: bool,
}

/// What a script answers.
pub(super) enum Reply {
    /// Its fields; the first two are the word and the time.
    Done(Vec<Value>),
    /// The caller does not know all kinds: these are all.
    Kinds(Vec<String>),
    /// The server does not know the script.
    Unloaded,
    /// The server's memory is full.
    Full,
    Wrong(Fault),
}

impl Fault {
    pub(super) fn of_server(error: &ServerError) -> Fault {
        let text = format!("{} {}", error.code(), error.details().unwrap_or_default());
        let later = ["BUSY", "LOADING", "MASTERDOWN", "TRYAGAIN", "CLUSTERDOWN", "UNKILLABLE"];
        let read_only = error.kind() == Some(ServerErrorKind::ReadOnly);
        let again = read_only || later.contains(&error.code()) || error.code() == "NOREPLICAS";
        let error = if again { StoreError::Io(text) } else { StoreError::Other(text) };
        Fault { error, sent: false, again }
    }

    /// Returns what it means to a commit. `unknown`: a part of it may have taken effect.
    pub(super) fn into_apply_error(self, unknown: bool) -> ApplyError {
        ApplyError { error: self.error, unknown: self.sent || unknown, again: self.again }
    }
}

impl From<Failure> for Fault {
    fn from(failure: Failure) -> Fault {
        let Failure { error, sent, .. } = failure;
        Fault { error, sent, again: true }
    }
}

impl From<StoreError> for Fault {
    /// Something is there that was not written here: to ask again would not help.
    fn from(error: StoreError) -> Fault {
        Fault { error, sent: true, again: false }
    }
}

pub(super) fn reply(value: Value) -> Reply {
    match value {
        Value::Array(fields) => match fields.first().map(bytes) {
            Some(Ok(b"ok")) if fields.len() > 2 => Reply::Done(fields),
            Some(Ok(b"kinds")) if fields.len() == 3 => {
                let kinds = array(&fields[2]).and_then(|kinds| kinds.iter().map(text).collect());
                kinds.map_or_else(|error| Reply::Wrong(error.into()), Reply::Kinds)
            }
            _ => Reply::Wrong(damaged("is no answer of a script").into()),
        },
        Value::ServerError(error) if error.kind() == Some(ServerErrorKind::NoScript) => {
            Reply::Unloaded
        }
        Value::ServerError(error) => {
            let full = error.code() == "OOM"
                || error.details().is_some_and(|details| details.contains("OOM command"));
            if full { Reply::Full } else { Reply::Wrong(Fault::of_server(&error)) }
        }
        _ => Reply::Wrong(damaged("is no answer of a script").into()),
    }
}

pub(super) fn array(value: &Value) -> Result<&[Value], StoreError> {
    match value {
        Value::Array(values) => Ok(values),
        _ => Err(damaged("is no list")),
    }
}

pub(super) fn bytes(value: &Value) -> Result<&[u8], StoreError> {
    match value {
        Value::BulkString(bytes) => Ok(bytes),
        Value::SimpleString(text) => Ok(text.as_bytes()),
        _ => Err(damaged("is no string")),
    }
}

pub(super) fn text(value: &Value) -> Result<String, StoreError> {
    String::from_utf8(bytes(value)?.to_vec()).map_err(|_| damaged("is no text"))
}

pub(super) fn number(value: &Value) -> Result<i64, StoreError> {
    match value {
        Value::Int(number) => Ok(*number),
        _ => Err(damaged("is no number")),
    }
}
