//! An insert as a statement that any SQLite library can run.
//!
//! Ground rules:
//!
//! - The statement adds the job to the table `outbox`. The next transaction of this store *files* it:
//!   inserts the job and deletes the row.
//! - The statement is one text with one parameter. The rules of an insert (keys, ids, counts, hours) are
//!   written once, in Rust, and not again in SQL.
//! - The text contains the number of its file and the version of its tables. In another file, or after a
//!   migration, `made_for_this_file` is NULL, so SQLite refuses the row. Where there is no such table, it
//!   refuses the statement.
//! - A transaction files the rows of the outbox first, in the order in which they were added. A question
//!   files them too, so a job can be found as soon as the application's transaction is committed.
//! - A job that was added twice is filed once: its id is known the second time.

use std::sync::Arc;

use rusqlite::params;
use serde::{Deserialize, Serialize};

use super::connection::{Access, waiting_briefly};
use super::open::Location;
use super::schema::{Table, VERSION};
use super::sql::Sql;
use super::tables::Tables;
use super::{Sqlite, State};
use crate::store::{IfTaken, NewJob, Unreadable};
use crate::values::error::StoreError;
use crate::values::id::JobId;
use crate::values::job::Extra;
use crate::values::time::Millis;

/// The first bytes of the parameter: "TWJ1". The table accepts no others.
const MAGIC: &[u8; 4] = b"TWJ1";

/// The actions that the number beside a key may name.
const WAYS: [IfTaken; 4] =
    [IfTaken::Replace, IfTaken::ReplaceKeepingTime, IfTaken::Leave, IfTaken::Debounce];

/// How many jobs are read from the outbox at once. One may have 64 MiB.
const ROWS_AT_ONCE: usize = 16;

/// The head of the parameter, in JSON. It stands behind the magic and its own length in four bytes. The
/// payload follows it.
#[derive(Serialize, Deserialize)]
struct Head {
    id: JobId,
    kind: String,
    due: i64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    key: Option<(String, u8)>,
    callers_id: bool,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    extra: Option<Vec<u8>>,
}

/// Returns the text of the statement, with one parameter.
pub(crate) fn text(location: &Location) -> String {
    let leave = Sql::new(location.queue.as_deref()).complete(
        "INSERT INTO {p}outbox (made_for_this_file, job) VALUES (( SELECT file.value \
         FROM {p}meta AS file JOIN {p}meta AS version \
         WHERE file.name = 'file' AND file.value = {file} AND version.name = 'version' \
         AND version.value = {version}), ?1)",
        Table::Job,
    );
    let number = location.number.unwrap_or_default().to_string();
    leave.replace("{file}", &number).replace("{version}", &VERSION.to_string())
}

pub(crate) fn parameter(new: &NewJob) -> Result<Vec<u8>, StoreError> {
    let head = Head {
        id: new.id,
        kind: new.kind.to_string(),
        due: new.due.get(),
        key: new.key.as_ref().map(|(key, if_taken)| (key.clone(), *if_taken as u8)),
        callers_id: new.callers_id,
        extra: new.extra.as_ref().map(|extra| extra.to_bytes()),
    };
    let strange = |error: &dyn core::fmt::Display| StoreError::Other(error.to_string());
    let head = serde_json::to_vec(&head).map_err(|error| strange(&error))?;
    let bytes = u32::try_from(head.len()).map_err(|error| strange(&error))?;
    let mut parameter = Vec::with_capacity(MAGIC.len() + 4 + head.len() + new.payload.len());
    parameter.extend_from_slice(MAGIC);
    parameter.extend_from_slice(&bytes.to_be_bytes());
    parameter.extend_from_slice(&head);
    parameter.extend_from_slice(&new.payload);
    Ok(parameter)
}

/// Reads a parameter that [`parameter`] has written.
pub(super) fn job_of(parameter: &[u8]) -> Option<NewJob> {
    let rest = parameter.strip_prefix(MAGIC)?;
    let (bytes, rest) = rest.split_first_chunk::<4>()?;
    let (head, payload) =
        rest.split_at_checked(usize::try_from(u32::from_be_bytes(*bytes)).ok()?)?;
    let head: Head = serde_json::from_slice(head).ok()?;
    let due = Millis::clamped(head.due);
    let key = match head.key {
        Some((key, number)) => {
            Some((key, WAYS.into_iter().find(|if_taken| *if_taken as u8 == number)?))
        }
        None => None,
    };
    let extra = Extra::read(head.extra.as_deref()).ok()?;
    (due.get() == head.due).then(|| NewJob {
        id: head.id,
        kind: Arc::from(head.kind),
        due,
        key,
        callers_id: head.callers_id,
        extra,
        payload: payload.to_vec(),
    })
}

/// What a transaction found in the outbox.
#[derive(Default)]
pub(crate) struct Filed {
    /// At least one row was filed.
    pub(crate) any: bool,
    /// Rows that cannot be read. They stay in the outbox.
    pub(crate) unreadable: Vec<Unreadable>,
}

impl State {
    /// Files the rows of the outbox, if another connection has written since the last time.
    pub(crate) fn file_outbox(
        &mut self,
        tables: Tables<'_>,
        now: Millis,
    ) -> Result<Filed, StoreError> {
        let mut filed = Filed::default();
        if !self.outbox {
            return Ok(filed);
        }
        let mut after = i64::MIN;
        loop {
            let rows = left(tables, after)?;
            let Some((last, _)) = rows.last() else { break };
            after = *last;
            for (n, parameter) in rows {
                let Some(new) = job_of(&parameter) else {
                    filed.unreadable.push(unreadable(n));
                    continue;
                };
                if !tables.is_known(&self.kinds, new.id)? {
                    self.insert(tables, &new, now)?;
                }
                tables.execute("DELETE FROM {p}outbox WHERE n = ?1", [n])?;
                filed.any = true;
            }
        }
        self.outbox = false;
        Ok(filed)
    }
}

impl Sqlite {
    /// Files the rows of the outbox, so that a question finds their jobs. Waits only briefly for a transaction
    /// of another connection; if that takes longer, the question does not find them yet. An error is
    /// ignored here: the question meets it again, and reports it.
    pub(super) fn file_for_question(&mut self, now: Millis) {
        if self.connect().is_err() {
            return;
        }
        let Some(conn) = &self.conn else { return };
        let tables = Tables { conn, sql: &self.sql };
        let has_left = tables.one("SELECT EXISTS (SELECT 1 FROM {p}outbox)", [], |row| row.get(0));
        if has_left != Ok(Some(true)) || conn.is_readonly("main").unwrap_or(true) {
            return;
        }
        let _ = waiting_briefly(|| {
            self.transact(Access::Write, false, |tables, state| {
                let filed = state.file_outbox(tables, now)?;
                state.write_rest(tables, now)?;
                Ok(((), filed.any))
            })
        });
    }
}

/// Returns the number of the first row of the outbox that cannot be read, for `check`.
pub(super) fn first_unreadable(tables: Tables<'_>) -> Result<Option<i64>, StoreError> {
    let mut after = i64::MIN;
    loop {
        let rows = left(tables, after)?;
        let Some((last, _)) = rows.last() else { return Ok(None) };
        after = *last;
        if let Some((n, _)) = rows.iter().find(|(_, parameter)| job_of(parameter).is_none()) {
            return Ok(Some(*n));
        }
    }
}

fn left(tables: Tables<'_>, after: i64) -> Result<Vec<(i64, Vec<u8>)>, StoreError> {
    let range = params![after, ROWS_AT_ONCE as i64];
    tables.all("SELECT n, job FROM {p}outbox WHERE n > ?1 ORDER BY n LIMIT ?2", range, |row| {
        Ok((row.get(0)?, row.get(1)?))
    })
}

fn unreadable(n: i64) -> Unreadable {
    let error = StoreError::Damaged("it is no job that a statement has left".to_owned());
    Unreadable { what: format!("row {n} of the outbox"), error }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::{Answer, Batch, Op, Store};

    /// The parameter of a statement contains every field of a job.
    #[test]
    fn statement_parameter_keeps_every_field_of_a_job() {
        let ways = [IfTaken::Replace, IfTaken::ReplaceKeepingTime, IfTaken::Leave];
        let keys = ways.map(|if_taken| Some(("order-1001 \u{0}'\"".to_owned(), if_taken)));
        for key in keys.into_iter().chain([None]) {
            let callers_id = key.is_none();
            let payload = vec![0, 255, b'{'];
            let (id, due) = (JobId::named("close"), Millis::MAX);
            let extra = Extra { holds_key: callers_id, ..Extra::default() }.boxed();
            let kind = Arc::from("close-order");
            let new = NewJob { id, kind, due, key, callers_id, extra, payload };
            let read = job_of(&parameter(&new).unwrap()).unwrap();
            assert_eq!(format!("{new:?}"), format!("{read:?}"));
        }
    }

    /// P71: A statement has all the effects of an insert. Of several jobs with one key the last one stays (`IfTaken`).
    /// An id that the caller chose is inserted once, and remembered once its job has ended.
    #[test]
    fn statement_jobs_are_filed_in_order_by_the_rules_of_an_insert() {
        let path = std::env::temp_dir().join(format!("tickwheel-filed-{}.db", std::process::id()));
        let mut location = Location::new(path.clone(), None);
        let conn = location.open().unwrap();
        let text = text(&location);
        let mut store = Sqlite::new(location, conn, true, None);
        let now = Millis::clamped(1_790_000_000_000);
        let job = |name: &str, kind: &str, hours: i64, key: Option<IfTaken>| NewJob {
            id: JobId::named(name),
            kind: Arc::from(kind),
            due: Millis::clamped(now.get() + hours * 3_600_000),
            key: key.map(|if_taken| ("key".to_owned(), if_taken)),
            callers_id: true,
            extra: None,
            payload: name.as_bytes().to_vec(),
        };
        let shop = rusqlite::Connection::open(&path).unwrap();
        let leave = |new: &NewJob| shop.execute(&text, [parameter(new).unwrap()]).unwrap();
        let ask = |store: &mut Sqlite, op: Op| {
            let ops = &[op];
            let (synced, until) = (false, None);
            let batch = Batch { number: 0, ops, claim: None, synced, awaited: true, until, now };
            store.apply(&batch).unwrap().answers.pop().unwrap()
        };
        leave(&job("a", "close", 1, Some(IfTaken::Replace)));
        leave(&job("b", "mail", 2, Some(IfTaken::ReplaceKeepingTime)));
        leave(&job("c", "mail", 3, Some(IfTaken::Leave)));
        leave(&job("far", "mail", 72, None));
        leave(&job("near", "mail", 5, None)); // before one that is there: in the table of later hours
        leave(&job("near", "mail", 6, None));
        let answer = ask(&mut store, Op::Kinds);
        let Answer::Kinds(kinds) = answer else { panic!("{answer:?}") };
        assert_eq!(kinds, [("close".to_owned(), 0), ("mail".to_owned(), 3)]);
        let answer = ask(&mut store, Op::GetKey("key".to_owned()));
        let Answer::Info(Some(info)) = answer else { panic!("{answer:?}") };
        assert_eq!((info.id, info.due), (JobId::named("b"), job("", "", 1, None).due.to_system()));
        store.check().unwrap();
        // The id of a job that has ended is known.
        let answer = ask(&mut store, Op::Cancel(JobId::named("near")));
        assert!(matches!(answer, Answer::Cancelled(cancel) if cancel.is_cancelled()));
        leave(&job("near", "mail", 5, None));
        let answer = ask(&mut store, Op::Get(JobId::named("near")));
        assert!(matches!(answer, Answer::Info(None)), "{answer:?}");
        store.check().unwrap();
        Box::new(store).close().unwrap();
        drop(shop);
        std::fs::remove_file(&path).unwrap();
    }

    /// A parameter that was cut, or that another program wrote, is no job and causes no panic.
    #[test]
    fn statement_parameter_that_was_cut_is_no_job() {
        let kind = Arc::from("close-order");
        let (id, due) = (JobId::named("close"), Millis::ZERO);
        let new =
            NewJob { id, kind, due, key: None, callers_id: true, extra: None, payload: Vec::new() };
        let whole = parameter(&new).unwrap();
        for end in 0..whole.len() {
            assert!(job_of(&whole[..end]).is_none(), "{end}");
        }
        assert!(job_of(b"TWJ1\xff\xff\xff\xff{}").is_none());
    }
}
