//! What the parent sees of the queue, while no child is there.

use std::path::Path;

use tickwheel_jobs::{Client, JobId, JobState};

use crate::deaths::child::{now_us, time};
use crate::deaths::contents;
use crate::deaths::lives::Result;
use crate::deaths::place::Place;
use crate::deaths::record::{FileEnd, Look, Tag};
use crate::place::OnServer;
use crate::server::Server;

/// Opens the queue twice, and compares. A job that is claimed has no key to itself any more.
pub(crate) fn look(server: &Server) -> Result<Look> {
    let url = server.url();
    let open = || -> Result<Client> { Ok(OnServer::open(Path::new(&url))?.client()?) };
    let mut look = contents::look(open)?;
    let client = open()?;
    // No figure counts a record that a user has damaged by hand.
    let set_aside: u64 = server.ask(&["HLEN", "tw:{jobs}:unreadable"]);
    if set_aside == 0 {
        look.violation = look.violation.or(contents::history_violation(&client)?);
    }
    for seen in &mut look.jobs {
        let claimed = client.get(seen.id)?.is_some_and(|job| job.state == JobState::Running);
        if claimed {
            seen.key = None;
        }
    }
    Ok(look)
}

/// Purges the dead and the remembered ids, and returns what is left.
pub(crate) fn end(server: &Server) -> Result<FileEnd> {
    let jobs = look(server)?.jobs;
    // As if the time of all that has ended were over.
    let over = "for _, id in ipairs(redis.call('ZRANGE', KEYS[1], 0, -1)) do
        redis.call('ZADD', KEYS[1], 'XX', 0, id)
        end return 1";
    let _: i64 = server.ask(&["EVAL", over, "1", "tw:{jobs}:ended"]);
    contents::purged(jobs, OnServer::open(Path::new(&server.url()))?, || Ok(rows(server)))
}

/// Reschedules the jobs that half done scripts have left in no set, as the manual says. Returns these jobs, and when
/// each is due. No node is there and none has left a job, so every record is of such a job. `check` alone would not do:
/// it names one violation at a time, and a count that is wrong hides the jobs behind it.
pub(crate) fn mend(server: &Server) -> Result<Vec<(Tag, u64)>> {
    let client = OnServer::open(Path::new(&server.url()))?.client()?;
    let ids: Vec<Vec<u8>> =
        redis::cmd("HKEYS").arg("tw:{jobs}:jobs").query(&mut server.connection())?;
    let mut mended = Vec::new();
    for id in ids {
        let id = JobId::from_u128(u128::from_be_bytes((&*id).try_into()?));
        let due = now_us() / 1000;
        if client.reschedule(id, time(due))? {
            let job = client.get(id)?.ok_or("a job that was filed anew is not there")?;
            mended.push((contents::seen(&job).tag, due));
        }
    }
    Ok(mended)
}

/// Returns the keys of the queue that are not to stay, and the jobs that its kinds count.
fn rows(server: &Server) -> Vec<(String, u64)> {
    let keys: Vec<String> = server.ask(&["KEYS", "tw:{jobs}:*"]);
    let stays = |key: &str| {
        let name = key.trim_start_matches("tw:{jobs}:");
        ["meta", "kinds", "counters", "nodes", "history"].contains(&name)
            || name.starts_with("sent:")
    };
    let mut rows: Vec<_> = keys.into_iter().filter(|key| !stays(key)).map(|key| (key, 1)).collect();
    let counts: Vec<i64> = server.ask(&["HVALS", "tw:{jobs}:kinds"]);
    rows.push(("kinds".to_owned(), counts.iter().map(|jobs| jobs.unsigned_abs()).sum()));
    let counters: Vec<String> = server.ask(&["HVALS", "tw:{jobs}:counters"]);
    // The times of a group of dead jobs are no number: they go with the group.
    let count = |count: &String| count.parse::<i64>().map_or(1, i64::unsigned_abs);
    rows.push(("counters".to_owned(), counters.iter().map(count).sum()));
    rows
}
