//! `kill -9` for real, on a Redis server: three nodes share a queue. Nodes are killed at random and at named points of
//! the code, and stopped past their lease; the server is killed and started again, or a replica takes over, or users
//! lack a right for a moment. The rules of `tests/deaths` judge what they report.
//!
//! | file | what it holds |
//! | --- | --- |
//! | `../deaths/` | the child, its parent, and the rules |
//! | `parent.rs` | the nodes that share a server, and how they die |
//! | `outage.rs`, `rights.rs` | what becomes of the server, and of the users' rights |
//! | `foreign.rs` | what is written by hand |
//! | `place.rs`, `queue.rs` | where the jobs are; what the parent sees there |
//!
//! Each test has a story in which nodes die for `TICKWHEEL_REDIS_KILL_SECONDS`, 8 unless it is set.
//! `TICKWHEEL_KILL_SEED` is the seed; a test that fails prints its own.

#![cfg(unix)]
#![forbid(unsafe_code)]
#![allow(clippy::disallowed_methods)]

#[path = "../deaths/mod.rs"]
mod deaths;
mod foreign;
#[path = "../redis/installed.rs"]
mod installed;
mod outage;
mod parent;
mod place;
#[allow(dead_code, reason = "the tests of the store use the rest")]
#[path = "../redis/proxy.rs"]
mod proxy;
mod queue;
mod rights;
#[allow(dead_code, reason = "the tests of the store use the rest")]
#[path = "../redis/server.rs"]
mod server;
#[path = "../redis/slow_disk.rs"]
mod slow_disk;
#[allow(dead_code, reason = "the tests of the store use the rest")]
#[path = "../redis/stoppable_replica.rs"]
mod stoppable_replica;

use std::env;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use deaths::child::{self, Periodic, WITHOUT_OVERLAP, now_us};
use deaths::judge::{Persistence, judge};
use deaths::lives;
use deaths::record::{Answer, Record};
use outage::Outage;
use parent::Story;
use place::OnServer;

/// One story at a time: a node that gets no processor loses its leases.
static ALONE: Mutex<()> = Mutex::new(());

fn variable(name: &str) -> Option<u64> {
    env::var(name).ok()?.parse().ok()
}

fn story(persistence: Persistence, deadly: bool) {
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let options: &[&str] = match persistence {
        Persistence::Always | Persistence::Rights => {
            &["--appendonly", "yes", "--appendfsync", "always"]
        }
        Persistence::EverySecond => &["--appendonly", "yes", "--appendfsync", "everysec"],
        Persistence::None | Persistence::Replicated(_) => &["--appendonly", "no"],
    };
    let Some(server) = installed::server(options) else { return };
    let seed = variable("TICKWHEEL_KILL_SEED").unwrap_or_else(now_us);
    let seconds = variable("TICKWHEEL_REDIS_KILL_SECONDS").unwrap_or(8);
    let mut story = Story::new(server, seed);
    story.lives.deadly = deadly;
    story.outage = match persistence {
        Persistence::Always | Persistence::None => Outage::Restart,
        Persistence::EverySecond => Outage::BeforeTheWrite,
        Persistence::Replicated(_) => Outage::FailOver,
        Persistence::Rights => Outage::Rights,
    };
    match persistence {
        // Another persistence may lose what was written.
        Persistence::Always => story.foreign = Some(0),
        Persistence::Rights => story.make_users(),
        _ => {}
    }
    let repeat = |name, period_ms, missed| Periodic { name, period_ms, missed };
    story.lives.schedules = vec![repeat(1, 40, -1), repeat(2, 70, 0), repeat(3, 100, 3)];
    if matches!(persistence, Persistence::Always) {
        // With another persistence the server may forget an end, and the key with it.
        story.lives.schedules.push(repeat(WITHOUT_OVERLAP, 20, -1));
    }
    // With a look at the queue in between, while no node is there.
    let half = Duration::from_millis(seconds * 500);
    let told = story.tell(half).and_then(|()| story.tell(half)).and_then(|()| story.drain());
    let end = told.and_then(|()| story.end());
    let log = story.log();
    let persistence = match persistence {
        Persistence::Replicated(_) => Persistence::Replicated(story.lack),
        other => other,
    };
    let verdict = judge(&log, &end.as_ref().cloned().unwrap_or_default(), persistence);
    let count = |is: fn(&Record) -> bool| log.iter().filter(|event| is(&event.record)).count();
    let stored = count(|record| matches!(record, Record::Answer { answer: Answer::Ids(_), .. }));
    let starts = count(|record| matches!(record, Record::Start(_)));
    let told = count(|record| matches!(record, Record::Told { .. }));
    let by_hand = count(|record| matches!(record, Record::Foreign { .. }));
    let kills = story.lives.kills;
    let &Story { stops, restarts, unwritten, mended, .. } = &story;
    println!(
        "{persistence:?}: {kills} kills, {stops} stops past the lease, {restarts} outages of the \
         server, {unwritten} before a write; {stored} inserts, {starts} starts, {told} told to stop, \
         {by_hand} written by hand, {mended} mended; explained: {:?}",
        verdict.explained
    );
    let mut text: Vec<String> =
        verdict.violations.iter().map(|found| format!("{found:?}")).collect();
    text.extend(end.err().map(|error| error.to_string()));
    if !text.is_empty() {
        text.truncate(20);
        let path = env::temp_dir().join(format!("tickwheel-redis-kill-{seed}.log"));
        lives::write(&log, &path);
        panic!("seed {seed}, in {}:\n{}", path.display(), text.join("\n"));
    }
    // Each half ends with the death of its nodes, and waits for an outage.
    assert!(kills > 0 && restarts == 2, "{kills} kills, {restarts} restarts");
    assert!(persistence != Persistence::Always || verdict.explained.is_empty());
    // A failover must lose something that the log shows. Otherwise the story proves nothing. An outage before a write
    // may lose only renewals of leases, and the log does not show those. Another test loses inserts on a slow disk.
    let loses = matches!(persistence, Persistence::Replicated(_));
    assert!(!loses || !verdict.explained.is_empty(), "nothing was lost");
}

/// A node of these tests.
#[test]
fn life() {
    child::life::<OnServer>();
}

/// Redis P4: With `appendfsync always`, nodes and a server that are killed lose nothing, and every rule holds.
#[test]
fn sync_of_every_write_loses_nothing() {
    story(Persistence::Always, false);
}

/// The rules hold while some jobs end their process: they take no other job with them.
#[test]
fn jobs_that_end_their_process_take_no_other_with_them() {
    story(Persistence::Always, true);
}

/// With `appendfsync everysec`, what the server had not yet written explains every loss.
#[test]
fn sync_each_second_explains_the_losses() {
    story(Persistence::EverySecond, false);
}

/// Redis P6, D19: After a failover, the delay of the replica explains every loss.
#[test]
fn failover_explains_the_losses() {
    story(Persistence::Replicated(0), false);
}

/// Without persistence, a server keeps what came after its restart.
#[test]
fn restart_without_persistence_keeps_what_came_after() {
    story(Persistence::None, false);
}

/// Redis P5: A right that users lack for a moment loses no job.
#[test]
fn right_that_is_taken_for_a_moment_loses_no_job() {
    story(Persistence::Rights, false);
}
