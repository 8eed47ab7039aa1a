//! Tests kept jobs on a file: their order, their lists, and what many of them cost, in steps of SQLite's machine.

use std::time::Duration;

use rusqlite::StatementStatus;

use super::plans::statements;
use super::support::{apply, claim, completed, new_job, now, opened, selected, steps};
use crate::store::sqlite::Sqlite;
use crate::store::sqlite::callers_transaction::end_in;
use crate::store::{
    Answer, Claimed, End, Ending, Finish, JobSet, NewGroup, Op, PageRequest, Store,
};
use crate::values::fail_and_retry::AttemptErrors;
use crate::values::group::GroupId;
use crate::values::id::JobId;
use crate::values::setting::Keep;
use crate::values::time::Millis;

fn answers(store: &mut Sqlite, ops: &[Op], now: Millis) -> Vec<Answer> {
    apply(store, ops, None, now).answers
}

/// Inserts so many jobs, and claims them.
fn insert_and_claim(store: &mut Sqlite, many: usize, now: Millis) -> Vec<Claimed> {
    let jobs = (0..many).map(|_| new_job("mail", now)).collect();
    apply(store, &[Op::InsertMany(jobs)], None, now);
    claim(store, many, now)
}

/// Returns the end of a run whose kind keeps the last `last` jobs.
fn finish(job: &Claimed, last: u64) -> Finish {
    Finish { keep: Some(Keep::last(last)), ..completed(job) }
}

/// Runs so many jobs of a kind that keeps the last `last`, a batch in each millisecond.
fn complete(store: &mut Sqlite, many: u64, last: u64, from: Millis) {
    for part in 0..many.div_ceil(500) {
        let now = from.plus(Duration::from_millis(part));
        let claimed = insert_and_claim(store, 500.min(many) as usize, now);
        let ops: Vec<Op> = claimed.iter().map(|job| Op::Finish(finish(job, last))).collect();
        apply(store, &ops, None, now);
    }
}

/// Says whether a statement is about ended jobs, schedules or the counts of kinds.
fn is_about_ended(text: &str) -> bool {
    let tables = ["ended", "ended_list", "remembered", "schedule", "kind"];
    tables.iter().any(|table| text.contains(&format!("tickwheel_{table} ")))
}

/// A statement is prepared once, and not again for other values. SQLite did that for each `LIMIT ?` and for each
/// search for the oldest kept job: a job that took the place of another kept one cost three times as much.
#[test]
fn statements_about_kept_jobs_are_prepared_once() {
    let mut store = opened(&["mail"], now());
    complete(&mut store, 1_000, 110, now());
    apply(&mut store, &[Op::Purge], None, now().plus(Duration::from_millis(1)));
    apply(&mut store, &[Op::Purge], None, now().plus(Duration::from_millis(2)));
    let conn = store.conn.as_ref().unwrap();
    let mut run = 0;
    for text in statements(&store.sql).into_iter().map(|its| its.text) {
        let is_purge = is_about_ended(&text) && text.contains("until <");
        if !is_purge && !text.contains("tickwheel_ended") {
            continue;
        }
        // A file without partitions has no table of lanes.
        let Ok(statement) = conn.prepare_cached(&text) else { continue };
        let often = statement.get_status(StatementStatus::Run) > 1;
        assert!(!often || statement.get_status(StatementStatus::RePrepare) == 0, "{text}");
        run += usize::from(often);
    }
    assert!(run >= 6, "{run}");
}

/// With 30,000 kept jobs, the end of a job that removes the oldest one, a page, a count and a purge take as many
/// steps as with 1,000. SQLite uses an index on ended jobs only for a query that repeats its condition: before a fix,
/// the search for the oldest job did not, and read all of its kind.
#[test]
fn kept_jobs_cost_as_many_steps_however_many_there_are() {
    let costs = |many: u64| {
        let mut store = opened(&["mail"], now());
        complete(&mut store, many, many, now());
        steps(&store, is_about_ended);
        let later = now().plus(Duration::from_secs(1_000));
        complete(&mut store, 100, many, later);
        let ends = steps(&store, is_about_ended);
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
        let now = later.plus(Duration::from_millis(10));
        for request in [page(None, None), page(Some("mail"), Some(Ending::Completed))] {
            let answers = answers(&mut store, &request, now);
            let Answer::Page(page) = &answers[0] else { panic!("{answers:?}") };
            assert_eq!(page.jobs.len(), 100);
        }
        let pages = steps(&store, is_about_ended);
        apply(&mut store, &[Op::Counts, Op::Kinds], None, now);
        let counts = steps(&store, is_about_ended);
        apply(&mut store, &[Op::Purge], None, now);
        let purge = steps(&store, is_about_ended);
        let info = store.state.kinds[0].clone();
        assert!(store.maintain(Duration::ZERO).is_ok());
        store.check().unwrap();
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
    let list = "(SELECT n FROM tickwheel_ended_list LIMIT 1)";
    for (damage, found) in [
        ("DELETE FROM tickwheel_ended_list".to_owned(), "is listed as None"),
        ("DELETE FROM tickwheel_ended".to_owned(), "F2"),
        (
            format!(
                "INSERT INTO tickwheel_ended_list SELECT kind, ending, at, n + 1, until, jobs \
                 FROM tickwheel_ended_list WHERE n = {list}"
            ),
            "is in two lists",
        ),
        ("UPDATE tickwheel_ended SET at = at + 1".to_owned(), "is listed as Some"),
        (
            "INSERT INTO tickwheel_remembered SELECT id, at FROM tickwheel_ended".to_owned(),
            "is kept, and its id is remembered too",
        ),
        (
            "INSERT INTO tickwheel_ended_list SELECT kind, ending, at + 1, 1, until, zeroblob(21) \
             FROM tickwheel_ended_list LIMIT 1"
                .to_owned(),
            "is in a list, and is not kept",
        ),
    ] {
        let mut store = opened(&["mail"], now());
        complete(&mut store, 1, 10, now());
        store.check().unwrap();
        store.conn.as_ref().unwrap().execute_batch(&damage).unwrap();
        let violation = store.check().unwrap_err().to_string();
        assert!(violation.contains(found), "{damage}: {violation}");
    }
}

/// The jobs of two commits of one millisecond lie in different lists. The oldest go first and pages show the latest
/// first, both by the order of their ids across the lists.
#[test]
fn order_of_kept_jobs_crosses_their_lists() {
    let mut store = opened(&["mail"], now());
    let now = now();
    let mut claimed = insert_and_claim(&mut store, 200, now);
    claimed.sort_unstable_by_key(|job| job.id);
    let ids: Vec<JobId> = claimed.iter().map(|job| job.id).collect();
    for rest in [0, 1] {
        let ends = claimed.iter().skip(rest).step_by(2).map(|job| Op::Finish(finish(job, 90)));
        apply(&mut store, &ends.collect::<Vec<_>>(), None, now);
        store.check().unwrap();
    }
    let (mut shown, mut after) = (Vec::new(), None);
    loop {
        let request = PageRequest {
            set: JobSet::Ended(None),
            kind: None,
            from: Millis::ZERO,
            to: Millis::MAX,
            after,
            limit: 7,
        };
        let answers = answers(&mut store, &[Op::Page(request)], now);
        let [Answer::Page(page)] = &answers[..] else { panic!("{answers:?}") };
        shown.extend(page.jobs.iter().map(|job| job.id));
        after = page.next;
        if after.is_none() {
            break;
        }
    }
    let last: Vec<JobId> = ids[110..].iter().rev().copied().collect();
    assert_eq!(shown, last);
}

/// A caller's transaction ends a run whose insert may or may not have been committed. The id of such a job is
/// remembered when it ends. Its kind keeps it, so it is known already, and its id is not remembered besides.
#[test]
fn job_that_a_transaction_ends_and_keeps_is_remembered_once() {
    let mut store = opened(&["mail"], now());
    let now = now();
    let job = insert_and_claim(&mut store, 1, now).remove(0);
    store.state.unknown.insert(job.id);
    let file = Some(store.location.clone());
    let mut shop = rusqlite::Connection::open(&store.location.file).unwrap();
    let transaction = shop.transaction().unwrap();
    let its = (job.id, job.fence);
    end_in(&file, &transaction, its, |_| Some(finish(&job, 10)), now).unwrap();
    transaction.commit().unwrap();
    let answers = answers(&mut store, &[Op::Finish(finish(&job, 10))], now);
    assert!(matches!(answers[..], [Answer::EndedBefore]), "{answers:?}");
    store.check().unwrap();
}

/// P77: A dead job whose row cannot be read stays, is reported, and delays no other purge. Before the fix it made each
/// purge fail, so that the store forgot nothing any more.
#[test]
fn dead_job_that_cannot_be_read_delays_no_purge() {
    let mut store = opened(&["mail"], now());
    let claimed = insert_and_claim(&mut store, 3, now());
    let end = |job: &Claimed| End::Dead { errors: job.tries.errors.clone() };
    let ends = claimed.iter().map(|job| Op::Finish(Finish::of(job.id, job.fence, end(job))));
    apply(&mut store, &ends.collect::<Vec<_>>(), None, now());
    let bad = claimed[1].id;
    let damage = "UPDATE tickwheel_ended SET failures = 'x' WHERE id = ?1";
    let conn = store.conn.as_ref().unwrap();
    assert_eq!(conn.execute(damage, [bad.to_u128().to_be_bytes()]).unwrap(), 1);
    conn.execute("UPDATE tickwheel_ended_list SET until = 0", []).unwrap();
    assert_eq!(purge(&mut store), [format!("job {bad}")]);
    let left: String = selected(&store, "SELECT group_concat(hex(id)) FROM tickwheel_ended");
    assert_eq!(left, format!("{:032X}", bad.to_u128()));
    let counts = answers(&mut store, &[Op::Counts], now());
    assert!(matches!(&counts[..], [Answer::Counts(counts)] if counts.dead == 1));
}

/// Inserts a group that keeps results, with a callback and this number of members. Ends the members, and then the
/// callback. Returns their ids, that of the callback last.
fn end_group(store: &mut Sqlite, id: GroupId, members: usize, end: &End) -> Vec<JobId> {
    let mut new = NewGroup {
        id,
        members: (0..members).map(|_| new_job("mail", now())).collect(),
        callback: Some(new_job("mail", now())),
        is_sealed: true,
        waits_for_the_dead: false,
        keeps_results: true,
    };
    new.members.iter_mut().for_each(|member| member.join(id));
    apply(store, &[Op::InsertGroup(Box::new(new))], None, now());
    let mut ended = Vec::new();
    for group in [Some(id), None] {
        let mut claimed = claim(store, members, now());
        claimed.sort_unstable_by_key(|job| job.id);
        let finish = |job: &Claimed| {
            Op::Finish(Finish { group, ..Finish::of(job.id, job.fence, end.clone()) })
        };
        apply(store, &claimed.iter().map(finish).collect::<Vec<_>>(), None, now());
        ended.extend(claimed.iter().map(|job| job.id));
    }
    assert_eq!(ended.len(), members + 1);
    ended
}

fn purge(store: &mut Sqlite) -> Vec<String> {
    let now = now().plus(Duration::from_secs(1));
    let unreadable = apply(store, &[Op::Purge], None, now).unreadable;
    unreadable.into_iter().map(|unreadable| unreadable.what).collect()
}

/// P77: If the row of a group, or that of its dead callback, cannot be read, its results stay, that is reported, and no
/// other purge is delayed. Before a fix it made each purge fail.
#[test]
fn group_that_cannot_be_read_delays_no_purge() {
    let [bad, good] = [1, 2].map(GroupId::from_u128);
    let dead = End::Dead { errors: AttemptErrors::default() };
    for damaged in ["group", "ending", "failures"] {
        let mut store = opened(&["mail"], now());
        let [member, callback] = end_group(&mut store, bad, 1, &dead)[..] else { unreachable!() };
        end_group(&mut store, good, 3, &End::Completed);
        let (table, column, of, reported) = match damaged {
            "group" => {
                let reported = vec![format!("job {member}"), format!("group {bad}")];
                ("grp", "total", bad.to_u128(), reported)
            }
            "ending" => ("ended", damaged, callback.to_u128(), vec![format!("job {callback}"); 2]),
            _ => ("ended", damaged, callback.to_u128(), vec![format!("job {callback}")]),
        };
        let damage = format!("UPDATE tickwheel_{table} SET {column} = 'x' WHERE id = ?1");
        let conn = store.conn.as_ref().unwrap();
        assert_eq!(conn.execute(&damage, [of.to_be_bytes()]).unwrap(), 1);
        conn.execute("UPDATE tickwheel_ended_list SET until = 0", []).unwrap();
        assert_eq!(purge(&mut store), reported, "{damaged}");
        let left: String =
            selected(&store, "SELECT group_concat(hex(grp)) FROM tickwheel_grp_result");
        assert_eq!(left, format!("{:032X}", bad.to_u128()), "{damaged}");
    }
}

/// P110: The first commit of a purge ends the lists of the results, though it leaves some of them.
#[test]
fn list_ends_with_the_first_commit_of_a_purge() {
    let mut store = opened(&["mail"], now());
    let id = GroupId::from_u128(1);
    let members = end_group(&mut store, id, 1500, &End::Completed);
    let page = |store: &mut Sqlite| {
        answers(store, &[Op::Results(id, Some(members[255]))], now()).remove(0)
    };
    assert!(matches!(page(&mut store), Answer::Results(Some(page)) if page.len() == 256));
    assert_eq!(purge(&mut store), [""; 0]);
    assert_eq!(selected::<i64>(&store, "SELECT count(*) FROM tickwheel_grp_result"), 500);
    assert!(matches!(page(&mut store), Answer::Results(None)));
}
