//! Tests the cost of kept jobs on a file that has many of them, in steps of SQLite's machine.

use std::sync::Arc;
use std::time::Duration;

use rusqlite::StatementStatus;

use super::Sqlite;
use super::open::Location;
use crate::store::{
    Answer, Batch, ClaimRequest, End, Ending, Finish, JobSet, NewJob, Op, PageRequest, Store,
};
use crate::values::id::JobId;
use crate::values::keep::Keep;
use crate::values::time::Millis;

const NOW: i64 = 1_790_000_000_000;

fn apply(store: &mut Sqlite, ops: &[Op], claim: Option<ClaimRequest>, now: Millis) -> Vec<Answer> {
    let (synced, until) = (false, None);
    let batch = Batch { number: 0, ops, claim, synced, awaited: true, until, now };
    store.apply(&batch).unwrap().answers
}

/// Runs so many jobs of a kind that keeps the last `last`, a batch in each millisecond.
fn complete(store: &mut Sqlite, many: u64, last: u64, from: i64) {
    let kind: Arc<str> = Arc::from("mail");
    for part in 0..many.div_ceil(500) {
        let now = Millis::clamped(from + part as i64);
        let job = |_| NewJob {
            id: JobId::new(),
            kind: Arc::clone(&kind),
            due: now,
            key: None,
            callers_id: false,
            extra: None,
            payload: b"{}".to_vec(),
        };
        apply(store, &[Op::InsertMany((0..500.min(many)).map(job).collect())], None, now);
        let claim = ClaimRequest::new(now, 500, 500, Vec::new());
        let batch = Batch {
            number: 0,
            ops: &[],
            claim: Some(claim),
            synced: false,
            awaited: false,
            until: None,
            now,
        };
        let claimed = store.apply(&batch).unwrap().claimed;
        let finish = |job: &crate::store::Claimed| {
            Op::Finish(Finish {
                id: job.id,
                fence: job.fence,
                end: End::Completed,
                took: 1,
                result: None,
                keep: Some(Keep::last(last)),
                wanted: false,
                run: None,
                then: None,
                group: None,
            })
        };
        apply(store, &claimed.iter().map(finish).collect::<Vec<_>>(), None, now);
    }
}

/// Returns how many steps the statements about ended jobs have taken since the last call.
fn steps(store: &Sqlite) -> i64 {
    let (conn, sql) = (store.conn.as_ref().unwrap(), &store.sql);
    let about_ended = [
        &sql.put_ended,
        &sql.ended,
        &sql.drop_ended,
        &sql.ended_page,
        &sql.ended_page_of_kind,
        &sql.over,
        &sql.kept.keep,
        &sql.kept.get,
        &sql.kept.get_if_due,
        &sql.kept.drop,
        &sql.kept.put_list,
        &sql.kept.set_list,
        &sql.kept.drop_list,
        &sql.kept.oldest_lists,
        &sql.kept.latest_lists,
        &sql.kept.lists_over,
        &sql.counts,
        &sql.kinds,
    ];
    let of = |text: &&String| {
        let statement = conn.prepare_cached(text).unwrap();
        i64::from(statement.reset_status(StatementStatus::VmStep))
    };
    about_ended.iter().map(of).sum()
}

/// A statement is prepared once, and not again for other values. SQLite did that for each `LIMIT ?` and for each
/// search for the oldest kept job: a job that took the place of another kept one cost three times as much.
#[test]
fn statements_about_kept_jobs_are_prepared_once() {
    let path = std::env::temp_dir().join(format!("tickwheel-once-{}.db", std::process::id()));
    let mut location = Location::new(path.clone(), None);
    let conn = location.open().unwrap();
    let mut store = Sqlite::new(location, conn, true, None);
    store.start_runner(&[Arc::from("mail")], Millis::clamped(NOW)).unwrap();
    complete(&mut store, 1_000, 110, NOW);
    apply(&mut store, &[Op::Purge], None, Millis::clamped(NOW + 1));
    apply(&mut store, &[Op::Purge], None, Millis::clamped(NOW + 2));
    let conn = store.conn.as_ref().unwrap();
    let kept = &store.sql.kept;
    for sql in [
        &kept.keep,
        &kept.put_list,
        &kept.oldest_lists,
        &kept.set_list,
        &kept.drop,
        &store.sql.over,
    ] {
        let statement = conn.prepare_cached(sql).unwrap();
        assert!(statement.get_status(StatementStatus::Run) > 1, "{sql}");
        assert_eq!(statement.get_status(StatementStatus::RePrepare), 0, "{sql}");
    }
    Box::new(store).close().unwrap();
    std::fs::remove_file(&path).unwrap();
}

/// With 30,000 kept jobs, the end of a job that removes the oldest one, a page, a count and a purge take as many
/// steps as with 1,000. SQLite uses an index on ended jobs only for a query that repeats its condition: before a fix,
/// the search for the oldest job did not, and read all of its kind.
#[test]
fn kept_jobs_cost_as_many_steps_however_many_there_are() {
    let costs = |many: u64| {
        let name = format!("tickwheel-kept-{many}-{}.db", std::process::id());
        let path = std::env::temp_dir().join(name);
        let mut location = Location::new(path.clone(), None);
        let conn = location.open().unwrap();
        let mut store = Sqlite::new(location, conn, true, None);
        store.start_runner(&[Arc::from("mail")], Millis::clamped(NOW)).unwrap();
        complete(&mut store, many, many, NOW);
        steps(&store);
        let later = NOW + 1_000_000;
        complete(&mut store, 100, many, later);
        let ends = steps(&store);
        let page = |kind: Option<&str>, only| {
            let request = PageRequest {
                set: JobSet::Ended(only),
                kind: kind.map(str::to_owned),
                from: Millis::ZERO,
                to: Millis::MAX,
                after: None,
                limit: 100,
            };
            [Op::Page(request)]
        };
        let now = Millis::clamped(later + 10);
        for request in [page(None, None), page(Some("mail"), Some(Ending::Completed))] {
            let answers = apply(&mut store, &request, None, now);
            let Answer::Page(page) = &answers[0] else { panic!("{answers:?}") };
            assert_eq!(page.jobs.len(), 100);
        }
        let pages = steps(&store);
        apply(&mut store, &[Op::Counts, Op::Kinds], None, now);
        let counts = steps(&store);
        apply(&mut store, &[Op::Purge], None, now);
        let purge = steps(&store);
        let info = store.state.kinds[0].clone();
        assert!(store.maintain(Duration::ZERO).is_ok());
        store.check().unwrap();
        Box::new(store).close().unwrap();
        std::fs::remove_file(&path).unwrap();
        (info.name, [ends, pages, counts, purge])
    };
    let (few, many) = (costs(1_000), costs(30_000));
    println!("steps with 1,000 kept: {few:?}, with 30,000: {many:?}");
    for (few, many) in few.1.into_iter().zip(many.1) {
        assert!(many <= few + few / 10 + 50, "{few} steps, and {many} with more kept");
    }
}

/// The check finds a kept job that is in no list, one that is in two, and a list of a job that is gone.
#[test]
fn check_compares_kept_jobs_with_their_lists() {
    let list = "(SELECT n FROM tickwheel_kept_list LIMIT 1)";
    for (damage, found) in [
        ("DELETE FROM tickwheel_kept_list".to_owned(), "is listed as None"),
        ("DELETE FROM tickwheel_kept".to_owned(), "F2"),
        (
            format!(
                "INSERT INTO tickwheel_kept_list SELECT kind, at, n + 1, until, jobs \
                 FROM tickwheel_kept_list WHERE n = {list}"
            ),
            "is in two lists",
        ),
        ("UPDATE tickwheel_kept SET at = at + 1".to_owned(), "is listed as Some"),
        (
            "INSERT INTO tickwheel_kept_list SELECT kind, at + 1, 1, until, zeroblob(21) \
             FROM tickwheel_kept_list LIMIT 1"
                .to_owned(),
            "is in a list, and is not kept",
        ),
    ] {
        let name = format!("tickwheel-lists-{}.db", std::process::id());
        let path = std::env::temp_dir().join(name);
        let mut location = Location::new(path.clone(), None);
        let conn = location.open().unwrap();
        let mut store = Sqlite::new(location, conn, true, None);
        store.start_runner(&[Arc::from("mail")], Millis::clamped(NOW)).unwrap();
        complete(&mut store, 1, 10, NOW);
        store.check().unwrap();
        store.conn.as_ref().unwrap().execute_batch(&damage).unwrap();
        let violation = store.check().unwrap_err().to_string();
        assert!(violation.contains(found), "{damage}: {violation}");
        Box::new(store).close().unwrap();
        std::fs::remove_file(&path).unwrap();
    }
}
