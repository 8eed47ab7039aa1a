//! What a list costs and shows, when an hour has many jobs or the payloads are large; and a change of its jobs that
//! meets a busy file.

use tickwheel_jobs::rusqlite::Connection;
use tickwheel_jobs::{BulkCounts, StoreError};

use super::support::*;

/// P81: A page holds about 1 MiB of payloads at most. It held 256 payloads of any size.
#[test]
fn page_of_large_payloads_is_short_and_the_list_is_complete() {
    let (_folder, path) = file();
    let builder = open(&path);
    let dies = |_: Push, _: &tickwheel_jobs::Run| Err(tickwheel_jobs::Fail::dead("no"));
    let (jobs, driver) = builder.handle(dies).manual().unwrap();
    let large = || Push { to: "Ada!".repeat(64 << 10) };
    jobs.insert_batch((0..40).map(|_| (SECOND, large()))).unwrap();
    let (mut pending, mut listed) = (jobs.pending(), 0);
    loop {
        let page = pending.next_page().unwrap();
        assert!(page.len() <= 5, "{} payloads of 256 KiB on a page", page.len());
        listed += page.len();
        if page.is_empty() {
            break;
        }
    }
    assert_eq!(listed, 40);
    driver.advance(HOUR);
    assert!(jobs.dead().next_page().unwrap().len() <= 5);
    assert_eq!(jobs.dead().count(), 40);
}

/// P81: A list shows each job once, in the order of due time. The positions of an hour of many jobs are read once
/// for many pages: a job that ends or moves meanwhile is not shown at its old position.
#[test]
fn list_of_a_full_hour_shows_each_job_once_while_others_move() {
    const JOBS: u64 = 9000;
    let (_folder, path) = file();
    let builder = open(&path);
    let (jobs, driver) = builder.handle(|_: Close, _| Ok(())).manual().unwrap();
    let start = driver.wall_now() + 5 * HOUR;
    // The latest first, so that all others lie in the table of later hours.
    let due = |n: u64| start + MS * u32::try_from(JOBS - n).unwrap();
    let ids = jobs.insert_batch((0..JOBS).map(|n| (due(n), close(n)))).unwrap();
    let mut list = jobs.pending();
    let mut seen: Vec<u64> = Vec::new();
    let order = |job: &tickwheel_jobs::JobInfo| job.job::<Close>().unwrap().order;
    seen.extend(list.next_page().unwrap().iter().map(order));
    assert_eq!(seen, (0..JOBS).rev().take(seen.len()).collect::<Vec<_>>());
    // Neither of them was shown yet.
    assert!(jobs.cancel(ids[10]).unwrap().is_cancelled());
    assert!(jobs.reschedule(ids[20], due(JOBS)).unwrap());
    loop {
        let page = list.next_page().unwrap();
        if page.is_empty() {
            break;
        }
        seen.extend(page.iter().map(order));
    }
    let expected = (0..JOBS).rev().filter(|n| *n != 10 && *n != 20);
    assert_eq!(seen, expected.collect::<Vec<_>>());
    assert_eq!(jobs.pending().count(), usize::try_from(JOBS).unwrap() - 1);
    assert_eq!(jobs.pending().between(due(100), due(91)).count(), 10);
    assert_eq!(jobs.pending().kind::<Push>().count(), 0);
    jobs.check().unwrap();
}

/// P20: A number in the file that no version writes is reported as damage. It was bent into the range, or ended
/// the dispatcher in builds that check for overflow.
#[test]
fn number_out_of_range_in_the_file_is_reported_as_damage() {
    let wrong = [
        "UPDATE tickwheel_meta SET value = 9223372036854775807 WHERE name = 'hour'",
        "UPDATE tickwheel_meta SET value = -9223372036854775808 WHERE name = 'hour'",
        "UPDATE tickwheel_kind SET jobs = 9223372036854775807",
        "UPDATE tickwheel_kind SET jobs = -1",
    ];
    for wrong in wrong {
        let (_folder, path) = file();
        let builder = open(&path);
        let (jobs, driver) = builder.handle(|_: Close, _| Ok(())).manual().unwrap();
        jobs.insert(HOUR, close(1)).unwrap();
        let conn = Connection::open(&path).unwrap();
        assert!(conn.execute(wrong, []).unwrap() > 0, "{wrong}");
        let page = jobs.pending().next_page();
        assert!(matches!(page, Err(StoreError::Damaged(_))), "{wrong}: {page:?}");
        driver.advance(2 * SECOND);
        assert_eq!(jobs.stats().started, 0, "{wrong}");
    }
}

/// P63: A bulk verb that fails in the middle keeps its place: the next call makes the same step again, and no job is
/// left out or counted twice.
#[test]
fn bulk_that_fails_goes_on_from_the_same_job() {
    let numbers = |counts: BulkCounts| (counts.seen, counts.changed);
    let (_folder, path) = file();
    let builder = open(&path).call_timeout(50 * MS);
    let jobs = builder.client().unwrap();
    let inserted = || jobs.insert_batch((0..600).map(|n| (HOUR, close(n)))).is_ok();
    wait_until("the jobs are stored", inserted);
    let other = Connection::open(&path).unwrap();
    let mut bulk = jobs.pending().cancel_all().unwrap();
    let mut first = None;
    wait_until("the first step is made", || {
        first = bulk.next();
        first != Some(Err(StoreError::Busy))
    });
    assert_eq!(first.unwrap().map(numbers), Ok((256, 256)));
    other.execute_batch("BEGIN IMMEDIATE").unwrap();
    for _ in 0..3 {
        assert_eq!(bulk.next(), Some(Err(StoreError::Busy)));
        assert_eq!(bulk.run(), Err(StoreError::Busy));
    }
    assert_eq!(numbers(bulk.total()), (256, 256));
    assert_eq!(jobs.count().unwrap().pending, 600 - 256);
    other.execute_batch("ROLLBACK").unwrap();
    wait_until("the other steps are made", || bulk.run() != Err(StoreError::Busy));
    assert_eq!(numbers(bulk.total()), (600, 600));
    assert_eq!((bulk.next(), bulk.next()), (None, None));
    assert_eq!(jobs.count().unwrap().pending, 0);
    jobs.check().unwrap();
}
