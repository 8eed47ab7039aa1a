//! Lists of jobs that have ended: completed jobs share one member of `over` and one date.

use std::collections::BTreeSet;
use std::time::Duration;

use tickwheel_jobs::{Builder, CallError, Client, JobId, JobState, Jobs, Keep, NewJob, Run};

use crate::scenarios::Mail;
use crate::server::{Server, wait_until};
use crate::support::{MS, Order, bytes, open};

const HOUR: Duration = Duration::from_secs(3600);

/// Handlers of batches, so that many jobs complete together. They wait 20 ms for more jobs, so two rounds of jobs end
/// in different milliseconds. The clock is the real one: with a manual clock each run has a commit of its own.
fn builder(server: &Server) -> Builder {
    open(server).handle_batch(100, 20 * MS, |_: &[(Mail, Run)]| Ok(())).handle_batch(
        100,
        20 * MS,
        |_: &[(Order, Run)]| Ok(()),
    )
}

/// Starts jobs that keep those of the kind `Mail` which have completed.
fn keeping(server: &Server, keep: Keep) -> Jobs {
    let jobs = builder(server).start().unwrap();
    jobs.kind::<Mail>().keep_completed(keep).unwrap();
    jobs
}

/// Inserts jobs that are due at once, and waits until they have completed.
fn complete(jobs: &Jobs, many: u64) -> Vec<JobId> {
    let ids = jobs.insert_batch((0..many).map(|n| (Duration::ZERO, Mail(n)))).unwrap();
    wait_for_all(jobs);
    ids
}

fn wait_for_all(jobs: &Jobs) {
    wait_until("every job has completed", || {
        let counts = jobs.count().unwrap();
        counts.pending + counts.claimed + counts.running == 0
    });
}

/// The members of `over` that are lists of completed jobs, and how many ids each has.
fn lists(server: &Server) -> Vec<(Vec<u8>, usize)> {
    let over: Vec<Vec<u8>> = server.by_hand("ZRANGEBYLEX", "over", &[b"[1", b"(2"]);
    let ids = |list: &Vec<u8>| (list.len() - 14 - usize::from(list[1])) / 16;
    over.into_iter().map(|list| (list.clone(), ids(&list))).collect()
}

fn dates(server: &Server) -> u64 {
    server.ask(&["ZCARD", "tw:{jobs}:ended"])
}

fn counter(server: &Server, name: &str) -> i64 {
    server.ask::<Option<i64>>(&["HGET", "tw:{jobs}:counters", name]).unwrap_or(0)
}

fn kept(jobs: &Client) -> Vec<JobId> {
    jobs.ended().state(JobState::Completed).map(|job| job.id).collect()
}

/// Jobs that complete together share lists of 40 at most, and a date for each list. A job leaves its list when it is
/// deleted: the others stay, and so do their bytes and their date.
#[test]
fn jobs_that_complete_together_share_a_member_and_a_date() {
    let server = Server::start();
    let jobs = keeping(&server, Keep::last(1000));
    let mut ids = complete(&jobs, 100);
    let sizes: Vec<usize> = lists(&server).into_iter().map(|(_, ids)| ids).collect();
    assert_eq!(sizes.iter().sum::<usize>(), 100);
    assert!(sizes.iter().all(|ids| (1..=40).contains(ids)), "{sizes:?}");
    assert!(sizes.iter().any(|ids| *ids > 1), "{sizes:?}");
    assert_eq!((dates(&server), counter(&server, "kept:mail")), (sizes.len() as u64, 100));
    let mut found = kept(&jobs);
    found.sort_unstable();
    ids.sort_unstable();
    assert_eq!(found, ids);
    jobs.check().unwrap();
    let bytes = counter(&server, "kept_bytes:mail");
    assert!(jobs.delete(ids[7]).unwrap());
    assert!(!jobs.delete(ids[7]).unwrap());
    assert_eq!((kept(&jobs).len(), counter(&server, "kept:mail")), (99, 99));
    assert!((1..=2).contains(&(bytes - counter(&server, "kept_bytes:mail"))));
    jobs.check().unwrap();
    for id in &ids {
        jobs.delete(*id).unwrap();
    }
    assert_eq!((lists(&server).len(), dates(&server)), (0, 0));
    assert_eq!((counter(&server, "kept:mail"), counter(&server, "kept_bytes:mail")), (0, 0));
    jobs.check().unwrap();
}

/// A bound that cuts through a list leaves exactly as many jobs as it says.
#[test]
fn bound_cuts_through_a_list() {
    let server = Server::start();
    let jobs = keeping(&server, Keep::last(25));
    for many in [40, 7, 1, 64, 3] {
        let latest = complete(&jobs, many);
        let found = kept(&jobs);
        assert_eq!(found.len(), 25);
        // Those of this round are the latest: all that stay are among them, or they all stay.
        let number = latest.iter().filter(|id| found.contains(id)).count();
        assert_eq!(number, latest.len().min(25));
        assert_eq!(counter(&server, "kept:mail"), 25);
        jobs.check().unwrap();
    }
    jobs.kind::<Mail>().keep_completed(Keep::last(1000).bytes(9)).unwrap();
    complete(&jobs, 40);
    // The 40 jobs and those before them have more than nine bytes, so at most nine stay, each of one byte or two.
    assert!(counter(&server, "kept_bytes:mail") <= 9);
    assert!((4..=9).contains(&kept(&jobs).len()));
    jobs.check().unwrap();
}

/// Jobs whose ids a caller chose go in turn with the others: the oldest first. Their ids stay known.
#[test]
fn jobs_with_chosen_ids_go_in_turn() {
    let server = Server::start();
    let jobs = keeping(&server, Keep::last(60));
    let mut all = Vec::new();
    for n in 0..12_u64 {
        if n % 2 == 0 {
            all.extend(complete(&jobs, 9));
        } else {
            let new = NewJob::new(Mail(n))
                .at(Duration::ZERO)
                .id(JobId::from_u128(u128::from(n) << 64 | 7));
            all.push(jobs.insert_job(new).unwrap().id);
            wait_for_all(&jobs);
        }
    }
    let found = kept(&jobs);
    assert_eq!(all.len(), 60);
    assert_eq!(found.iter().collect::<BTreeSet<_>>(), all.iter().collect());
    let next = complete(&jobs, 11);
    let found = kept(&jobs);
    assert_eq!(found.len(), 60);
    assert!(next.iter().all(|id| found.contains(id)));
    // Nine of the first list, the job alone after it, and one of the list after that.
    assert!(all[..10].iter().all(|id| !found.contains(id)));
    assert_eq!(all[10..19].iter().filter(|id| found.contains(id)).count(), 8);
    let again = jobs.insert_job(NewJob::new(Mail(1)).at(Duration::ZERO).id(all[9])).unwrap();
    assert!(!again.is_new);
    jobs.check().unwrap();
}

/// The pages of several kinds have every job once, the latest first, whether it is in a list or not.
#[test]
fn pages_of_lists_of_several_kinds_are_in_order() {
    let server = Server::start();
    let jobs = keeping(&server, Keep::last(1000));
    jobs.kind::<Order>().keep_completed(Keep::last(1000)).unwrap();
    for part in 0..6_u64 {
        jobs.insert_batch((0..70).map(|n| (Duration::ZERO, Mail(70 * part + n)))).unwrap();
        jobs.insert_batch((0..50).map(|n| (Duration::ZERO, Order(n)))).unwrap();
        let id = JobId::from_u128(u128::from(part) + 9);
        jobs.insert_job(NewJob::new(Mail(1)).at(Duration::ZERO).id(id)).unwrap();
        wait_for_all(&jobs);
    }
    let found: Vec<_> = jobs.ended().collect();
    let places: Vec<_> = found.iter().map(|job| (job.ended, job.id)).collect();
    assert_eq!(places.len(), 6 * 121);
    assert!(places.windows(2).all(|two| two[0] > two[1]), "the latest first, and each once");
    let of_kind = jobs.ended().kind::<Order>().count();
    assert_eq!(of_kind, 300);
    jobs.check().unwrap();
}

/// Lists go at their date with all their jobs, however many lists there are.
#[test]
fn lists_go_at_their_date() {
    let server = Server::start();
    let jobs = keeping(&server, Keep::last(10_000).age(HOUR));
    for _ in 0..30 {
        complete(&jobs, 45);
    }
    assert_eq!(kept(&jobs).len(), 30 * 45);
    jobs.shutdown().unwrap();
    let (jobs, driver) = builder(&server).manual().unwrap();
    driver.set_wall(driver.wall_now() + HOUR + HOUR);
    for _ in 0..20 {
        driver.advance(Duration::from_secs(601));
    }
    assert_eq!((lists(&server).len(), dates(&server), kept(&jobs).len()), (0, 0, 0));
    assert_eq!((counter(&server, "kept:mail"), counter(&server, "kept_bytes:mail")), (0, 0));
    assert_eq!(server.ask::<u64>(&["HLEN", "tw:{jobs}:jobs"]), 0);
    jobs.check().unwrap();
}

/// The check finds a list without its date, a job without its list, and a list with a job that has no record.
#[test]
fn check_finds_damaged_lists() {
    let server = Server::start();
    let jobs = keeping(&server, Keep::last(1000));
    let ids = complete(&jobs, 5);
    let (list, _) = lists(&server).pop().unwrap();
    let run = |command, key, rest: &[&[u8]]| -> i64 { server.by_hand(command, key, rest) };
    let wrong = || jobs.check().unwrap_err().to_string();
    let date = b"1e15";
    run("ZREM", "ended", &[&list]);
    assert!(wrong().contains("R3"), "{}", wrong());
    run("ZADD", "ended", &[date, &list]);
    jobs.check().unwrap();
    run("ZREM", "over", &[&list]);
    assert!(wrong().contains("R7"), "{}", wrong());
    run("ZADD", "over", &[b"0", &list]);
    jobs.check().unwrap();
    run("HDEL", "jobs", &[&bytes(ids[0])]);
    assert!(wrong().contains("R9"), "{}", wrong());
    assert!(!jobs.delete(ids[0]).unwrap());
    assert_eq!(kept(&jobs).len(), ids.len() - 1);
}

/// No bound counts a job on whose end a caller waits, for a minute. Then the next end of its kind counts it.
#[test]
fn job_with_a_caller_is_counted_after_a_minute() {
    let server = Server::start();
    let (jobs, driver) = open(&server).handle(|_: Mail, _| Ok(())).manual().unwrap();
    jobs.kind::<Mail>().keep_completed(Keep::last(2)).unwrap();
    let called = jobs.call::<_, ()>(Mail(0), Duration::ZERO);
    let Err(CallError::TimedOut(called)) = called else { panic!("{called:?}") };
    let complete = |n| {
        let id = jobs.insert(MS, Mail(n)).unwrap();
        while driver.advance(MS) > 0 {}
        id
    };
    let ids = [1, 2, 3].map(complete);
    let mut found = kept(&jobs);
    assert_eq!(found, [ids[2], ids[1], called]);
    assert_eq!((counter(&server, "kept:mail"), counter(&server, "kept_bytes:mail")), (2, 2));
    jobs.check().unwrap();
    driver.advance(Duration::from_secs(61));
    let last = complete(4);
    found = kept(&jobs);
    assert_eq!(found, [last, ids[2]]);
    assert_eq!((counter(&server, "kept:mail"), counter(&server, "kept_bytes:mail")), (2, 2));
    jobs.check().unwrap();
}

/// Members that a user has written, and that are no lists, stop no call. Bytes of records that were removed by hand are
/// counted no more once their list is gone.
#[test]
fn members_that_are_no_lists_stop_no_call() {
    let server = Server::start();
    let jobs = keeping(&server, Keep::last(5));
    complete(&jobs, 5);
    let run = |command, key, rest: &[&[u8]]| -> i64 { server.by_hand(command, key, rest) };
    for member in
        [&b"1\x04mail"[..], b"1\x04mailx", b"1\x04mail and 36 more bytes, which are no ids"]
    {
        run("ZADD", "over", &[b"0", member]);
        run("ZADD", "ended", &[b"1", member]);
    }
    run("ZADD", "ended", &[b"1", b"x and 16 bytes more"]);
    assert_eq!(kept(&jobs).len(), 5);
    assert_eq!(jobs.ended().kind::<Mail>().count(), 5);
    assert!(!jobs.delete(JobId::from_u128(1)).unwrap());
    complete(&jobs, 9);
    assert_eq!(kept(&jobs).len(), 5);
    for id in kept(&jobs) {
        run("HDEL", "jobs", &[&bytes(id)]);
    }
    complete(&jobs, 5);
    assert_eq!((counter(&server, "kept:mail"), counter(&server, "kept_bytes:mail")), (5, 5));
    for id in kept(&jobs) {
        assert!(jobs.delete(id).unwrap());
    }
    assert_eq!((counter(&server, "kept:mail"), counter(&server, "kept_bytes:mail")), (0, 0));
    jobs.shutdown().unwrap();
    let (jobs, driver) = builder(&server).manual().unwrap();
    driver.set_wall(driver.wall_now() + HOUR);
    driver.advance(Duration::from_secs(601));
    assert_eq!(dates(&server), 0);
    let found = jobs.check().unwrap_err().to_string();
    assert!(found.contains("which are no ids\" in tw:{jobs}:over makes no sense"), "{found}");
    run("ZREM", "over", &[b"1\x04mail", b"1\x04mailx"]);
    run("ZREM", "over", &[b"1\x04mail and 36 more bytes, which are no ids"]);
    let _: i64 = server.ask(&["DEL", "tw:{jobs}:unreadable"]);
    jobs.check().unwrap();
}
