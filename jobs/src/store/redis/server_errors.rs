//! The errors of a server after which the same commands may be sent again, there or elsewhere.

use redis::{ServerError, Value};

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
pub(super) fn may_pass(error: &ServerError) -> bool {
    let code = code_of(error);
    ELSEWHERE.contains(&code) || LATER.contains(&code)
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
