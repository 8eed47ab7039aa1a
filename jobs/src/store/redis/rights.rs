//! The rights of a user on a server, checked when the jobs are opened.
//!
//! Ground rules:
//!
//! - A missing right is found before the first change, so that no script stops half done.
//! - The check comes before all other commands on the server, and sends none of those in the lists: `rights.lua` asks
//!   the server which ones it would allow. Only the right to `SCRIPT LOAD` and `EVALSHA` must be tried. A server before
//!   Redis 7 gives no answer.
//! - Every command that a script or a question sends is in one of the lists here, and in the line of
//!   `docs/redis.md` that makes a user.
//! - A client whose user may write nothing only reads.

use redis::{Cmd, RedisError, Value};

use super::decode::bytes;
use super::scripts::rights_script;
use crate::values::error::ServerProblem;

/// What a process needs rights for.
#[derive(Clone, Copy)]
pub(super) struct Needs {
    pub(super) runs_jobs: bool,
    pub(super) replicas: bool,
}

/// The commands that every process sends. `K` is a key, `C` the channel, `S` the hash of a script.
const READS: [&str; 23] = [
    "EVALSHA S 3 K Kdue:x Ksent:x",
    "TIME",
    "HEXISTS K x",
    "HGET K x",
    "HGETALL K",
    "HKEYS K",
    "HLEN K",
    "HMGET K x",
    "HSCAN K 0",
    "HVALS K",
    "SCARD K",
    "SRANDMEMBER K 1",
    "ZCARD K",
    "ZCOUNT K 0 1",
    "ZRANGE K 0 0",
    "ZRANGEBYLEX K - +",
    "ZLEXCOUNT K - +",
    "ZRANGEBYSCORE K 0 1",
    "ZREVRANGE K 0 0",
    "ZREVRANGEBYLEX K + -",
    "ZSCORE K x",
    "SCRIPT LOAD S",
    "INFO",
];
/// The commands that a process also sends if it changes something.
const WRITES: [&str; 11] = [
    "HDEL K x",
    "HINCRBY K x 1",
    "HSET K x 1",
    "HSETNX K x 1",
    "PEXPIRE K 1",
    "PUBLISH C x",
    "SADD K x",
    "SREM K x",
    "ZADD K 1 x",
    "ZINCRBY K 1 x",
    "ZREM K x",
];
/// The commands that a process also sends if it runs jobs.
const RUNS: [&str; 4] = ["PING", "SUBSCRIBE C", "UNSUBSCRIBE", "PUNSUBSCRIBE"];
/// The commands that tell what a server is.
const SERVER: [&str; 2] = ["INFO", "TIME"];
const REPLICAS: [&str; 1] = ["WAIT 1 1"];
const SNAPSHOTS: &str = "CONFIG GET save";

/// Sends a command to the server, and returns its answer.
pub(super) type Ask<'a> = dyn FnMut(&Cmd) -> Result<Value, RedisError> + 'a;

impl Needs {
    /// Checks that the user may send the needed commands, on the keys with this prefix. The error lists those
    /// that it may not send. Returns whether the user may send [`SNAPSHOTS`]. `None`: the server gave no answer.
    pub(super) fn check(
        self,
        ask: &mut Ask<'_>,
        prefix: &str,
    ) -> Result<Option<bool>, ServerProblem> {
        let optional = [(self.runs_jobs, &RUNS[..]), (self.replicas, &REPLICAS[..])];
        let others = optional.into_iter().filter(|(needed, _)| *needed);
        let others = others.flat_map(|(_, commands)| commands.iter());
        let commands: Vec<String> = READS
            .iter()
            .chain(&WRITES)
            .chain(others)
            .chain([&SNAPSHOTS])
            .map(|command| spelled(command, prefix))
            .collect();
        let letters = look(ask, &commands)?;
        let Some((sees_snapshots, letters)) = letters.split_last() else { return Ok(None) };
        let (reads, writes) = letters.split_at(READS.len().min(letters.len()));
        let writes_nothing = !writes.iter().take(WRITES.len()).any(|letter| *letter == b'1');
        let needed = match writes_nothing && !self.runs_jobs {
            true => reads,
            false => letters,
        };
        refuse_if_denied(&commands, needed)?;
        Ok(Some(*sees_snapshots == b'1'))
    }
}

/// Checks that the user may ask what the server is.
pub(super) fn check_server(ask: &mut Ask<'_>) -> Result<(), ServerProblem> {
    let commands = SERVER.map(str::to_owned);
    let letters = look(ask, &commands)?;
    refuse_if_denied(&commands, &letters)
}

/// Asks the server which of these commands it would allow. Returns a letter for each; none if the server does not tell.
fn look(ask: &mut Ask<'_>, commands: &[String]) -> Result<Vec<u8>, ServerProblem> {
    let problem_of = |error| super::endpoint::problem_of(&error);
    let (load, mut call) = rights_script();
    ask(&load).map_err(problem_of)?;
    for command in commands {
        let words: Vec<&str> = command.split(' ').collect();
        call.arg(words.len()).arg(words);
    }
    let said = ask(&call).map_err(problem_of)?;
    Ok(bytes(&said).unwrap_or_default().to_vec())
}

fn refuse_if_denied(commands: &[String], letters: &[u8]) -> Result<(), ServerProblem> {
    let denied = commands.iter().zip(letters).filter(|(_, letter)| **letter == b'0');
    let denied: Vec<&str> = denied.map(|(command, _)| &**command).collect();
    match denied.is_empty() {
        true => Ok(()),
        false => {
            let list = denied.join(", ");
            Err(ServerProblem::Denied(format!("its user has no right to {list}")))
        }
    }
}

/// Returns the command with its placeholders replaced by keys, channel and hash.
fn spelled(command: &str, prefix: &str) -> String {
    let word = |word: &str| match word {
        "K" => format!("{prefix}jobs"),
        "C" => format!("{prefix}wake"),
        "S" => "x".to_owned(),
        _ => match word.strip_prefix('K') {
            Some(rest) if rest.contains(':') => format!("{prefix}{rest}"),
            _ => word.to_owned(),
        },
    };
    command.split(' ').map(word).collect::<Vec<String>>().join(" ")
}

/// Returns the prefix of all keys of a queue.
pub(super) fn prefix(hash_tag: &str) -> String {
    format!("tw:{hash_tag}:")
}

/// Says whether the reply to `CONFIG GET` has a setting that is not empty. `true` for any other reply.
pub(super) fn is_set(answer: &Value) -> bool {
    match answer {
        Value::Array(pair) => match pair.get(1) {
            Some(Value::BulkString(setting)) => !setting.is_empty(),
            _ => true,
        },
        _ => true,
    }
}
