//! Decodes the replies of the server: to values of the right type, or to an error; and the errors after which the same
//! commands may be sent again, there or elsewhere.

use redis::{ServerError, ServerErrorKind, Value};

use super::records::damaged;
use crate::store::ApplyError;
use crate::values::error::StoreError;

/// The errors of a server that does not have the queue, or that cannot write at the moment. A new search may
/// find another server, or the same one once it can write.
const ELSEWHERE: [&str; 8] =
    ["ASK", "CLUSTERDOWN", "LOADING", "MASTERDOWN", "MOVED", "NOREPLICAS", "READONLY", "TRYAGAIN"];
/// The errors of a server that did nothing, but can do it later.
const LATER: [&str; 2] = ["BUSY", "UNKILLABLE"];

/// Returns the code of an error. Before Redis 7, the code of a command in a script stands in the text.
fn code_of(error: &ServerError) -> &str {
    let details = error.details().unwrap_or_default();
    let is_said = |code: &&&str| {
        let at = details.find(**code);
        at.is_some_and(|at| details[..at].ends_with(": -"))
    };
    match error.code() {
        "ERR" => ELSEWHERE.iter().find(is_said).copied().unwrap_or("ERR"),
        code => code,
    }
}

/// Says whether the answer is one of the errors in [`ELSEWHERE`].
pub(super) fn is_worth_a_search(value: &Value) -> bool {
    matches!(value, Value::ServerError(error) if ELSEWHERE.contains(&code_of(error)))
}

/// Says whether the same commands may be sent again.
fn may_pass(error: &ServerError) -> bool {
    let code = code_of(error);
    ELSEWHERE.contains(&code) || LATER.contains(&code)
}

/// An error in place of an answer.
#[derive(Debug)]
pub(super) struct Fault {
    pub(super) error: StoreError,
    /// The commands may have been done.
    pub(super) sent: bool,
    /// The same commands may be sent again.
    pub(super) again: bool,
    /// The server has closed the connection, perhaps long before the commands were sent.
    pub(super) dropped: bool,
}

/// The reply to a command.
pub(super) enum ServerReply {
    /// The fields of a script's reply. The first two are the word and the time.
    Done(Vec<Value>),
    /// A script has done nothing, because the caller did not name all kinds. These are all of them.
    Kinds(Vec<Vec<u8>>),
    /// A script has claimed nothing: the caller has to call the script with lanes, or the script without lanes.
    Lanes(bool),
    /// A script has ended no claim, because one of them is counted: the caller has to call the script for counted
    /// claims.
    Places,
    /// The server does not know the script.
    Unloaded,
    /// The server's memory is full.
    Full,
    /// The number that a command returns which is no script.
    Count(i64),
    Wrong(Fault),
}

impl Fault {
    pub(super) fn of_server(error: &ServerError) -> Fault {
        let text = format!("{} {}", error.code(), error.details().unwrap_or_default());
        let again = may_pass(error);
        // The writes of a script stay if it fails later. A server that cannot write refuses the first write,
        // so it has done nothing.
        let sent = !again && text.contains("@user_script");
        let error = if again { StoreError::Io(text) } else { StoreError::Other(text) };
        Fault { sent, again, ..error.into() }
    }

    /// Returns the fault as the error of a commit. `unknown`: a part of the commit may have taken effect.
    pub(super) fn into_apply_error(self, unknown: bool) -> ApplyError {
        ApplyError { error: self.error, unknown: self.sent || unknown, again: self.again }
    }
}

impl From<StoreError> for Fault {
    /// Makes a fault of a reply that makes no sense: to send the commands again would not help.
    fn from(error: StoreError) -> Fault {
        Fault { error, sent: true, again: false, dropped: false }
    }
}

pub(super) fn reply(value: Value) -> ServerReply {
    match value {
        Value::Array(fields) => match fields.first().map(bytes) {
            Some(Ok(b"ok")) if fields.len() > 2 => ServerReply::Done(fields),
            Some(Ok(b"kinds")) if fields.len() == 3 => {
                let kind = |kind| bytes(kind).map(<[u8]>::to_vec);
                let kinds = array(&fields[2]).and_then(|kinds| kinds.iter().map(kind).collect());
                kinds.map_or_else(|error| ServerReply::Wrong(error.into()), ServerReply::Kinds)
            }
            Some(Ok(b"lanes")) => ServerReply::Lanes(true),
            Some(Ok(b"plain")) => ServerReply::Lanes(false),
            Some(Ok(b"places")) => ServerReply::Places,
            _ => ServerReply::Wrong(damaged("is no answer of a script").into()),
        },
        Value::Int(count) => ServerReply::Count(count),
        Value::ServerError(error) if error.kind() == Some(ServerErrorKind::NoScript) => {
            ServerReply::Unloaded
        }
        Value::ServerError(error) => {
            let full = error.code() == "OOM"
                || error.details().is_some_and(|details| details.contains("OOM command"));
            if full { ServerReply::Full } else { ServerReply::Wrong(Fault::of_server(&error)) }
        }
        _ => ServerReply::Wrong(damaged("is no answer of a script").into()),
    }
}

/// Returns the server's time in an answer of a script.
pub(super) fn time_of(value: &Value) -> Option<i64> {
    match value {
        Value::Array(fields) => match fields.get(1) {
            Some(Value::Int(micros)) => Some(*micros),
            _ => None,
        },
        _ => None,
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

/// Reads a score: a whole number of milliseconds.
pub(super) fn score(value: &Value) -> Result<i64, StoreError> {
    let score: f64 = text(value)?.parse().map_err(|_| damaged("is no time"))?;
    Ok(score as i64)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(text: &str) -> ServerError {
        let reply = redis::parse_redis_value(format!("-{text}\r\n").as_bytes());
        match reply.unwrap() {
            Value::ServerError(error) => error,
            other => panic!("{other:?}"),
        }
    }

    /// A batch is sent again if its error may be over later or on another server. In the second case the client
    /// searches for that server first.
    #[test]
    fn batch_is_sent_again_after_an_error_that_may_pass() {
        let again = [
            ("MOVED 3999 127.0.0.1:6381", true),
            ("ASK 3999 127.0.0.1:6381", true),
            ("TRYAGAIN Multiple keys request during rehashing of slot", true),
            ("CLUSTERDOWN Hash slot not served", true),
            (
                "READONLY You can't write against a read only replica. script: 1a, on @user_script:9.",
                true,
            ),
            (
                "ERR Error running script (call to f_1a): @user_script:9: @user_script: 9: -READONLY You \
                 can't write against a read only replica.",
                true,
            ),
            ("LOADING Redis is loading the dataset in memory", true),
            ("MASTERDOWN Link with MASTER is down", true),
            ("NOREPLICAS Not enough good replicas to write.", true),
            ("BUSY Redis is busy running a script.", false),
        ];
        for (text, is_elsewhere) in again {
            let error = said(text);
            assert!(may_pass(&error), "{text}");
            assert_eq!(is_worth_a_search(&Value::ServerError(error)), is_elsewhere, "{text}");
        }
        let for_good =
            ["ERR unknown command", "NOPERM no", "ERR a job that says READONLY", "CROSSSLOT"];
        for text in for_good {
            let error = said(text);
            assert!(!may_pass(&error), "{text}");
            assert!(!is_worth_a_search(&Value::ServerError(error)), "{text}");
        }
    }
}
