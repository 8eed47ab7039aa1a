//! Checks a server before it is used: whether it can keep the promises.

use std::time::Duration;

use redis::{RedisError, Value};

use super::discovery::{FoundServer, Server};
use super::endpoint::{self, present, problem_of};
use super::keys::LAYOUT;
use super::rights::{self, Ask};
use crate::values::error::{OpenError, ServerProblem};
use crate::values::server_time::ServerTime;

/// A server that can be used.
pub(crate) struct Opened {
    pub(super) found: FoundServer,
    /// Its clock, which a client needs for its first insert, before it has called a script.
    pub(super) time: ServerTime,
    /// A warning for its operator.
    pub(super) warning: Option<String>,
}

/// How many times the server is asked for its time. The best answer counts.
const TIMES: usize = 3;
/// The oldest version: it has `ZADD GT` and `COPY`.
const OLDEST: (u32, u32) = (6, 2);

/// Connects, and refuses a server that would lose or refuse jobs. It waits `call_timeout` at most. No lease is held
/// yet, so none makes a wait shorter.
///
/// The rights come first: a command that is not allowed is not sent.
pub(crate) fn open(server: &Server, call_timeout: Duration) -> Result<Opened, OpenError> {
    let patient = server.clone().with_longest_timeout();
    let until = present().checked_add(call_timeout);
    let limit = patient.limit(until);
    let mut found = patient.connect(until)?;
    let FoundServer { connection, address } = &mut found;
    let failed = |error| address.error(problem_of(&error));
    let mut ask = |cmd: &redis::Cmd| {
        limit.apply(connection)?;
        endpoint::ask(connection, cmd)
    };
    let sees_snapshots = match server.needs {
        Some(needs) => needs.check(&mut ask, &rights::prefix(&server.hash_tag)),
        // Only the server is known, and not yet the queue.
        None => rights::check_server(&mut ask).map(|()| None),
    };
    let sees_snapshots = sees_snapshots.map_err(|problem| address.error(problem))?;
    let info = ask(&redis::cmd("INFO")).map_err(failed)?;
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
    if server.needs.is_some() {
        let compared = compare_layout(&mut ask, &server.hash_tag).map_err(failed)?;
        compared.map_err(|problem| address.error(problem))?;
        // A refused command would stand in `ACL LOG`. If the server gave no answer, only a user without a name asks.
        let sees_snapshots = sees_snapshots.unwrap_or(address.login().username().is_none());
        persists = field("aof_enabled") != Some("0") || !sees_snapshots || saves(&mut ask);
    }
    let warning = (!persists).then(|| {
        let name = address.name();
        format!("{name} keeps nothing on disk: when it ends, every job is lost")
    });
    let time = learn_time(&mut ask).map_err(failed)?;
    server.limit(None).apply(connection).map_err(failed)?;
    Ok(Opened { found, time, warning })
}

/// Refuses a queue whose keys another version has laid out in another way.
fn compare_layout(
    ask: &mut Ask<'_>,
    hash_tag: &str,
) -> Result<Result<(), ServerProblem>, RedisError> {
    let prefix = rights::prefix(hash_tag);
    let kinds = ask(redis::cmd("HLEN").arg(format!("{prefix}kinds")))?;
    let layout = ask(redis::cmd("HGET").arg(format!("{prefix}meta")).arg("layout"))?;
    let found = match (kinds, layout) {
        (Value::Int(0), _) => return Ok(Ok(())),
        (_, Value::BulkString(layout)) => String::from_utf8_lossy(&layout).into_owned(),
        _ => "none".to_owned(),
    };
    let known = LAYOUT.to_string();
    Ok(if found == known { Ok(()) } else { Err(ServerProblem::Layout { found, known }) })
}

fn learn_time(ask: &mut Ask<'_>) -> Result<ServerTime, RedisError> {
    let time = ServerTime::new(present());
    for _ in 0..TIMES {
        let sent = present();
        let answer = ask(&redis::cmd("TIME"))?;
        let (seconds, micros): (i64, i64) = redis::from_redis_value(answer)?;
        time.learn(sent, present(), seconds * 1_000_000 + micros);
    }
    Ok(time)
}

/// Says whether the server writes snapshots. `true` if it does not tell.
fn saves(ask: &mut Ask<'_>) -> bool {
    let answer = ask(redis::cmd("CONFIG").arg("GET").arg("save"));
    answer.map_or(true, |answer| rights::is_set(&answer))
}

#[cfg(test)]
mod tests {
    use std::net::{Ipv4Addr, TcpListener};

    use super::*;

    /// P101: An opening waits for a silent server until its call timeout is over, and no longer. Before a fix it waited
    /// as long as one answer may take: three seconds, or an eighth of the lease.
    #[test]
    fn opening_waits_as_long_as_its_call_timeout() {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let url = format!("redis://127.0.0.1:{}/", listener.local_addr().unwrap().port());
        for (lease, call_timeout) in [(30_000, 100), (1000, 900)] {
            let server = Server::parse(&url).unwrap().with_lease(Duration::from_millis(lease));
            let call_timeout = Duration::from_millis(call_timeout);
            let began = present();
            open(&server, call_timeout).err().unwrap();
            let took = present() - began;
            let longest = Duration::from_millis(2500);
            assert!((call_timeout..longest).contains(&took), "{lease}: {took:?}");
        }
        drop(listener);
    }
}
