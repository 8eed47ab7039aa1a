//! Checks a server before it is used: whether it can keep the promises.

use redis::{RedisError, Value};

use super::discovery::{Found, Server};
use super::endpoint::{ask, present, problem_of};
use super::keys::LAYOUT;
use super::rights;
use crate::values::error::{OpenError, ServerProblem};
use crate::values::server_time::ServerTime;

/// A server that can be used.
pub(crate) struct Opened {
    pub(super) found: Found,
    /// Its clock, which a client needs for its first insert, before it has called a script.
    pub(super) time: ServerTime,
    /// A warning for its operator.
    pub(super) warning: Option<String>,
}

/// How many times the server is asked for its time. The best answer counts.
const TIMES: usize = 3;
/// The oldest version: it has `ZADD GT` and `COPY`.
const OLDEST: (u32, u32) = (6, 2);

/// Connects, and refuses a server that would lose or refuse jobs.
pub(crate) fn open(server: &Server) -> Result<Opened, OpenError> {
    let mut found = server.connect(None)?;
    let Found { connection, address } = &mut found;
    let failed = |error| address.error(problem_of(&error));
    let info = ask(connection, &redis::cmd("INFO")).map_err(failed)?;
    let Value::BulkString(info) = info else {
        return Err(address.error(ServerProblem::NotRedis("it knows no INFO".to_owned())));
    };
    let info = String::from_utf8_lossy(&info).into_owned();
    let field = |name: &str| {
        let line = info.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
        line.map(str::trim)
    };
    let Some(version) = field("redis_version") else {
        return Err(address.error(ServerProblem::NotRedis("it has no version".to_owned())));
    };
    let mut parts = version.split('.').map(|part| part.parse::<u32>().unwrap_or(0));
    if (parts.next().unwrap_or(0), parts.next().unwrap_or(0)) < OLDEST {
        return Err(address.error(ServerProblem::TooOld(version.to_owned())));
    }
    if field("role") == Some("slave") {
        return Err(address.error(ServerProblem::ReadOnly));
    }
    match field("maxmemory_policy") {
        None | Some("noeviction") => {}
        Some(policy) => return Err(address.error(ServerProblem::Evicts(policy.to_owned()))),
    }
    let mut persists = true;
    // Before that, only the server is known, and not yet the queue.
    if let Some(needs) = server.needs {
        let compared = compare_layout(connection, &server.hash_tag).map_err(failed)?;
        compared.map_err(|problem| address.error(problem))?;
        let rights = needs.check(connection, &rights::prefix(&server.hash_tag));
        let rights = rights.map_err(|problem| address.error(problem))?;
        let has_name = address.login().username().is_some();
        persists = field("aof_enabled") != Some("0")
            || !rights.may_see_snapshots(has_name)
            || saves(connection);
    }
    let warning = (!persists).then(|| {
        let name = address.name();
        format!("{name} keeps nothing on disk: when it ends, every job is lost")
    });
    let time = learn_time(connection).map_err(failed)?;
    Ok(Opened { found, time, warning })
}

/// Refuses a queue whose keys another version has laid out in another way.
fn compare_layout(
    connection: &mut redis::Connection,
    hash_tag: &str,
) -> Result<Result<(), ServerProblem>, RedisError> {
    let prefix = rights::prefix(hash_tag);
    let kinds = ask(connection, redis::cmd("HLEN").arg(format!("{prefix}kinds")))?;
    let layout = ask(connection, redis::cmd("HGET").arg(format!("{prefix}meta")).arg("layout"))?;
    let found = match (kinds, layout) {
        (Value::Int(0), _) => return Ok(Ok(())),
        (_, Value::BulkString(layout)) => String::from_utf8_lossy(&layout).into_owned(),
        _ => "none".to_owned(),
    };
    let known = LAYOUT.to_string();
    Ok(if found == known { Ok(()) } else { Err(ServerProblem::Layout { found, known }) })
}

fn learn_time(connection: &mut redis::Connection) -> Result<ServerTime, RedisError> {
    let time = ServerTime::new(present());
    for _ in 0..TIMES {
        let sent = present();
        let answer = ask(connection, &redis::cmd("TIME"))?;
        let (seconds, micros): (i64, i64) = redis::from_redis_value(answer)?;
        time.learn(sent, present(), seconds * 1_000_000 + micros);
    }
    Ok(time)
}

/// Says whether the server writes snapshots. `true` if it does not tell.
fn saves(connection: &mut redis::Connection) -> bool {
    let answer = ask(connection, redis::cmd("CONFIG").arg("GET").arg("save"));
    answer.map_or(true, |answer| rights::is_set(&answer))
}
