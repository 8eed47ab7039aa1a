//! Transactions of the caller's: a job as a statement, and what stands in the way of a write.
use std::time::{Instant, SystemTime};

use tickwheel_jobs::rusqlite::{Connection, Error, ErrorCode, TransactionBehavior, ffi};
use tickwheel_jobs::{
    HistoryEntry, InsertErrorKind, Jobs, NewJob, OpenError, Statement, Step, StoreError,
};

use super::support::*;

fn leave(conn: &Connection, statement: &Statement) -> Result<usize, Error> {
    conn.execute(statement.sql(), [statement.parameter()])
}

/// P70: A statement that the application executes stores its job with the commit of the application's transaction,
/// or not at all. The job is there at once, is counted, runs, and can be cancelled.
#[test]
fn outbox_statement_stores_its_job_with_the_commit() {
    let (_folder, path) = file();
    let (jobs, receiver) = closing(open(&path));
    let mut shop = Connection::open(&path).unwrap();
    shop.execute_batch("CREATE TABLE orders (id INTEGER PRIMARY KEY)").unwrap();

    let never = jobs.statement((MS, close(1))).unwrap();
    let transaction = shop.transaction().unwrap();
    transaction.execute("INSERT INTO orders VALUES (1)", []).unwrap();
    assert_eq!(leave(&transaction, &never).unwrap(), 1);
    drop(transaction); // rolled back
    assert_eq!(jobs.get(never.id()).unwrap(), None);

    let later = jobs.statement((HOUR, close(2))).unwrap();
    let next = jobs.statement((2 * HOUR, close(3))).unwrap();
    let now = jobs.statement((MS, close(4))).unwrap();
    assert_eq!((later.sql(), later.id() < next.id()), (now.sql(), true));
    let transaction = shop.transaction().unwrap();
    for statement in [&later, &next, &now] {
        leave(&transaction, statement).unwrap();
    }
    assert_eq!(jobs.get(later.id()).unwrap(), None, "it is not committed");
    transaction.commit().unwrap();
    assert_eq!(jobs.get(later.id()).unwrap().unwrap().job::<Close>().unwrap(), close(2));
    // A poll finds the job, without a nudge.
    assert_eq!(receiver.recv_timeout(LONG), Ok(4));
    wait_until("the job is done", || jobs.get(now.id()).unwrap().is_none());
    assert!(jobs.cancel(next.id()).unwrap().is_cancelled());
    assert_eq!(jobs.count().unwrap().pending, 1);
    jobs.check().unwrap();
    jobs.shutdown().unwrap();
    assert!(receiver.try_recv().is_err(), "what was rolled back never ran");
}

/// P71: A statement that is executed twice stores one job. Jobs that were left while no process ran the jobs are
/// there for the next one that does.
#[test]
fn outbox_statement_that_is_run_twice_is_one_job() {
    let (_folder, path) = file();
    let statement = client(&path).statement((HOUR, close(1))).unwrap();
    let shop = Connection::open(&path).unwrap();
    leave(&shop, &statement).unwrap();
    leave(&shop, &statement).unwrap();
    let client = client(&path);
    assert_eq!(client.count().unwrap().pending, 1);
    leave(&shop, &statement).unwrap();
    assert!(client.cancel(statement.id()).unwrap().is_cancelled());
    assert_eq!(client.count().unwrap().pending, 0);
    client.check().unwrap();
}

/// P71: Of two jobs with one key the later one stays, inserted in either way.
#[test]
fn insert_in_replaces_the_outbox_job_under_its_key() {
    let (_folder, path) = file();
    let client = client(&path);
    let mut shop = Connection::open(&path).unwrap();
    let first = client.statement(NewJob::new(close(1)).at(HOUR).key("order-1")).unwrap();
    leave(&shop, &first).unwrap();
    let transaction = shop.transaction_with_behavior(TransactionBehavior::Immediate).unwrap();
    let second = NewJob::new(close(2)).at(HOUR).key("order-1");
    let second = client.insert_job_in(&transaction, second).unwrap();
    transaction.commit().unwrap();
    assert_eq!(client.count().unwrap().pending, 1);
    assert_eq!(client.get(first.id()).unwrap(), None);
    let stays = client.get(second.id).unwrap().unwrap();
    assert_eq!((stays.job::<Close>().unwrap(), stays.key.as_deref()), (close(2), Some("order-1")));

    let third = client.statement((2 * HOUR, close(3))).unwrap();
    leave(&shop, &third).unwrap();
    let transaction = shop.transaction_with_behavior(TransactionBehavior::Immediate).unwrap();
    assert!(client.cancel_in(&transaction, third.id()).unwrap().is_cancelled());
    transaction.commit().unwrap();
    client.check().unwrap();
}

/// P73: A read does not wait for the transaction of another connection because statements have left jobs.
#[test]
fn read_waits_for_no_writer_although_the_outbox_has_a_job() {
    let (_folder, path) = file();
    let client = client(&path);
    let shop = Connection::open(&path).unwrap();
    let statement = client.statement((HOUR, close(1))).unwrap();
    leave(&shop, &statement).unwrap();
    shop.execute_batch("BEGIN IMMEDIATE").unwrap();
    assert_eq!(client.get(statement.id()).unwrap(), None, "it cannot be filed now");
    shop.execute_batch("COMMIT").unwrap();
    assert!(client.get(statement.id()).unwrap().is_some());
}

/// P71: SQLite refuses a statement in a file or a queue that it was not made for, and after the tables have
/// changed.
#[test]
fn outbox_statement_is_refused_by_other_files_and_versions() {
    let folder = tempfile::tempdir().unwrap();
    let (path, other) = (folder.path().join("shop.db"), folder.path().join("other.db"));
    let statement = client(&path).statement((HOUR, close(1))).unwrap();
    let foreign = Connection::open(folder.path().join("foreign.db")).unwrap();
    let refused = leave(&foreign, &statement).unwrap_err().to_string();
    assert!(refused.contains("no such table: tickwheel_"), "{refused}");

    let others = client(&other);
    let refused = leave(&Connection::open(&other).unwrap(), &statement).unwrap_err().to_string();
    assert!(refused.contains("made_for_this_file"), "{refused}");
    assert_eq!(others.count().unwrap().pending, 0);

    let shop = Connection::open(&path).unwrap();
    shop.execute("UPDATE tickwheel_meta SET value = value + 1 WHERE name = 'version'", []).unwrap();
    let refused = leave(&shop, &statement).unwrap_err().to_string();
    assert!(refused.contains("made_for_this_file"), "{refused}");
    shop.execute("UPDATE tickwheel_meta SET value = value - 1 WHERE name = 'version'", []).unwrap();

    let mail = open(&path).queue("mail").client().unwrap();
    leave(&shop, &mail.statement((HOUR, close(2))).unwrap()).unwrap();
    assert_eq!((mail.count().unwrap().pending, client(&path).count().unwrap().pending), (1, 0));

    let refused = Jobs::memory().handle(|_: Close, _| Ok(())).manual().unwrap().0;
    let refused = refused.statement((HOUR, close(3))).unwrap_err();
    assert_eq!(refused.into_inner().into_job(), close(3));
}

/// P71: A row of the outbox that no statement has left is refused, or stays and is named. It blocks no other job.
#[test]
fn outbox_row_that_is_no_job_stays_and_blocks_no_other() {
    let (_folder, path) = file();
    let (client, shop) = (client(&path), Connection::open(&path).unwrap());
    let insert = |job: &str| {
        let sql =
            format!("INSERT INTO tickwheel_outbox (made_for_this_file, job) VALUES (1, {job})");
        shop.execute(&sql, [])
    };
    for foreign in ["'TWJ1'", "X''", "X'00'", "NULL", "1"] {
        let refused = insert(foreign).unwrap_err();
        assert_eq!(refused.sqlite_error_code(), Some(ErrorCode::ConstraintViolation), "{foreign}");
    }
    insert("X'54574a31'").unwrap();
    let statement = client.statement((HOUR, close(1))).unwrap();
    leave(&shop, &statement).unwrap();
    assert!(client.get(statement.id()).unwrap().is_some());
    let found = client.check().unwrap_err().to_string();
    assert!(found.contains("outbox"), "{found}");
    shop.execute("DELETE FROM tickwheel_outbox", []).unwrap();
    client.check().unwrap();
}

/// P72: An insert on a thread that has a transaction of its own open ends within the call timeout, and the error
/// names `insert_in`. It waited for 10 seconds on a manual clock, or for longer on a busy machine.
#[test]
#[expect(clippy::disallowed_methods, reason = "the wait is one of real time")]
fn insert_beside_an_own_open_transaction_names_insert_in() {
    let (_folder, path) = file();
    let patience = 100 * MS;
    let builder = || open(&path).call_timeout(patience).handle(|_: Close, _| Ok(()));
    let is_told = |refused: StoreError| {
        assert_eq!(refused, StoreError::Busy);
        assert!(refused.to_string().contains("insert_in"), "{refused}");
    };
    let store_error = |refused: &InsertErrorKind| match refused {
        InsertErrorKind::Store(error) => error.clone(),
        other => panic!("{other:?}"),
    };
    let started = builder().start().unwrap();
    let mut shop = Connection::open(&path).unwrap();
    let begin = TransactionBehavior::Immediate;
    let since = Instant::now();
    let transaction = shop.transaction_with_behavior(begin).unwrap();
    is_told(store_error(started.insert(HOUR, close(1)).unwrap_err().kind()));
    let id = started.insert_in(&transaction, HOUR, close(1)).unwrap();
    transaction.commit().unwrap();
    assert!(started.get(id).unwrap().is_some());
    started.shutdown().unwrap();

    let (manual, _driver) = builder().manual().unwrap();
    let transaction = shop.transaction_with_behavior(begin).unwrap();
    is_told(store_error(manual.insert(HOUR, close(2)).unwrap_err().kind()));
    drop(transaction);
    manual.insert(HOUR, close(2)).unwrap();
    assert!(since.elapsed() < 8 * SECOND, "{:?}", since.elapsed());
}

/// P72: A start waits for other connections no longer than the call timeout.
#[test]
#[expect(clippy::disallowed_methods, reason = "the wait is one of real time")]
fn start_waits_for_a_writer_no_longer_than_the_call_timeout() {
    let (_folder, path) = file();
    client(&path).insert(HOUR, close(1)).unwrap();
    let shop = Connection::open(&path).unwrap();
    shop.execute_batch("BEGIN IMMEDIATE").unwrap();
    let since = Instant::now();
    let builder = open(&path).call_timeout(100 * MS).handle(|_: Close, _| Ok(()));
    match builder.start() {
        Err(OpenError::Store(StoreError::Busy) | OpenError::InUse { .. }) => {}
        other => panic!("{:?}", other.map(|_| ())),
    }
    assert!(since.elapsed() < 8 * SECOND, "{:?}", since.elapsed());
}

/// P72: SQLite's busy error has two names here, because it has two cures. A transaction that has read before
/// another connection wrote can never write. A transaction that meets a writer may wait.
#[test]
fn transaction_that_read_first_is_told_to_begin_immediate() {
    let (_folder, path) = file();
    let client = client(&path);
    client.insert(HOUR, close(1)).unwrap();
    let mut shop = Connection::open(&path).unwrap();
    shop.busy_timeout(MS).unwrap();
    let count = "SELECT count(*) FROM tickwheel_kind";

    let transaction = shop.transaction().unwrap();
    let _: i64 = transaction.query_row(count, [], |row| row.get(0)).unwrap();
    client.insert(HOUR, close(2)).unwrap();
    let refused = client.insert_in(&transaction, HOUR, close(3)).unwrap_err();
    assert_eq!(*refused.kind(), InsertErrorKind::Store(StoreError::BusySnapshot));
    assert!(refused.to_string().contains("IMMEDIATE"), "{refused}");
    let statement = client.statement((HOUR, close(3))).unwrap();
    let refused = leave(&transaction, &statement).unwrap_err();
    let code = refused.sqlite_error().unwrap().extended_code;
    assert_eq!(code, ffi::SQLITE_BUSY_SNAPSHOT);
    drop(transaction);

    let other = Connection::open(&path).unwrap();
    other.execute_batch("BEGIN IMMEDIATE").unwrap();
    let transaction = shop.transaction().unwrap();
    let refused = client.insert_in(&transaction, HOUR, close(3)).unwrap_err();
    assert_eq!(*refused.kind(), InsertErrorKind::Store(StoreError::Busy));
    drop(transaction);
    other.execute_batch("COMMIT").unwrap();

    // A statement is a write from its beginning, so a transaction that begins with it is never refused so.
    let transaction = shop.transaction().unwrap();
    client.insert(HOUR, close(4)).unwrap();
    leave(&transaction, &statement).unwrap();
    transaction.commit().unwrap();
    assert_eq!(client.count().unwrap().pending, 4);
    client.check().unwrap();
}

/// P76: An SQLite that may lose commits is refused by name, with the cure.
#[test]
fn an_sqlite_that_may_lose_commits_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let opened = Jobs::open(folder.path().join("shop.db")).and_then(|builder| builder.client());
    if tickwheel_jobs::rusqlite::version_number() >= 3_051_003 {
        opened.unwrap();
    } else {
        let refused = opened.unwrap_err();
        assert!(matches!(refused, OpenError::OldSqlite { .. }), "{refused:?}");
        assert!(refused.to_string().contains("feature `sqlite`"), "{refused}");
        assert!(!folder.path().join("shop.db").exists());
    }
}

/// P34: The history counts the job of a statement once, also if a question is the first to find it.
#[test]
fn history_counts_the_job_of_a_statement_once() {
    let (_folder, path) = file();
    let jobs = client(&path);
    let mut shop = Connection::open(&path).unwrap();
    let statement = jobs.statement((HOUR, close(1))).unwrap();
    let transaction = shop.transaction().unwrap();
    leave(&transaction, &statement).unwrap();
    transaction.commit().unwrap();
    assert!(jobs.get(statement.id()).unwrap().is_some());
    assert!(jobs.cancel(statement.id()).unwrap().is_cancelled());
    let ever = SystemTime::UNIX_EPOCH..SystemTime::UNIX_EPOCH + 1_000_000 * HOUR;
    let history = jobs.queue().history(Step::Hour, ever).unwrap();
    let sum = |of: fn(&HistoryEntry) -> u64| history.iter().map(of).sum::<u64>();
    assert_eq!((sum(|entry| entry.inserted), sum(|entry| entry.cancelled)), (1, 1));
}
