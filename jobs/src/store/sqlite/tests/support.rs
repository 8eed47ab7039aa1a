//! What the tests of the file share: a file whose process runs the jobs, the present, and operations on that file.

use std::sync::Arc;

use rusqlite::StatementStatus;

use super::plans::statements;
use crate::store::sqlite::Sqlite;
use crate::store::sqlite::open::Location;
use crate::store::{Batch, BatchOutcome, ClaimRequest, Claimed, End, Finish, NewJob, Op, Store};
use crate::values::id::JobId;
use crate::values::time::Millis;

pub(in crate::store::sqlite) fn now() -> Millis {
    Millis::clamped(1_790_000_000_000)
}

/// Makes a temporary file whose process runs jobs of these kinds.
pub(in crate::store::sqlite) fn opened(kinds: &[&str], now: Millis) -> Sqlite {
    let mut location = Location::temporary().unwrap();
    let conn = location.open().unwrap();
    let mut store = Sqlite::new(location, conn, true, None);
    let kinds: Vec<Arc<str>> = kinds.iter().map(|kind| Arc::from(*kind)).collect();
    store.start_runner(&kinds, now).unwrap();
    store
}

pub(in crate::store::sqlite) fn new_job(kind: &str, due: Millis) -> NewJob {
    let (key, extra, payload) = (None, None, b"{}".to_vec());
    NewJob { id: JobId::new(), kind: Arc::from(kind), due, key, callers_id: false, extra, payload }
}

/// Does operations and a claim in one commit.
pub(in crate::store::sqlite) fn apply(
    store: &mut Sqlite,
    ops: &[Op],
    claim: Option<ClaimRequest>,
    now: Millis,
) -> BatchOutcome {
    let (synced, awaited, until) = (false, true, None);
    store.apply(&Batch { number: 0, ops, claim, synced, awaited, until, now }).unwrap()
}

/// Claims `many` jobs that are due.
pub(in crate::store::sqlite) fn claim(
    store: &mut Sqlite,
    many: usize,
    now: Millis,
) -> Vec<Claimed> {
    apply(store, &[], Some(ClaimRequest::new(now, many, many, Vec::new())), now).claimed
}

pub(super) fn completed(job: &Claimed) -> Finish {
    Finish::of(job.id, job.fence, End::Completed)
}

/// Returns the value that a statement selects.
pub(in crate::store::sqlite) fn selected<T: rusqlite::types::FromSql>(
    store: &Sqlite,
    text: &str,
) -> T {
    store.conn.as_ref().unwrap().query_row(text, [], |row| row.get(0)).unwrap()
}

/// Returns how many steps the statements that count have taken since the last call.
pub(super) fn steps(store: &Sqlite, counts: impl Fn(&str) -> bool) -> i64 {
    let of = |text: String| {
        // A file without partitions has no table of lanes.
        let statement = store.conn.as_ref().unwrap().prepare_cached(&text).ok()?;
        Some(i64::from(statement.reset_status(StatementStatus::VmStep)))
    };
    let texts = statements(&store.sql).into_iter().map(|its| its.text);
    texts.filter(|text| counts(text)).filter_map(of).sum()
}
