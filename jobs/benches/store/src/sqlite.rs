//! SQLite through rusqlite, with four schemas.

use std::path::Path;

use rusqlite::{Connection, params};

use crate::Fallible;
use crate::candidate::{Candidate, Engine, Sync};
use crate::store::Store;
use crate::workload::{Job, KIND};

const ROW: &str = "kind INTEGER NOT NULL, due INTEGER NOT NULL, id BLOB NOT NULL,
    tries INTEGER NOT NULL, interruptions INTEGER NOT NULL, key TEXT, payload BLOB NOT NULL";

/// The width of the ranges of deadlines in which S3 keeps its later jobs.
const HOUR_MS: u64 = 3600 * 1000;

pub(crate) struct Sqlite {
    connection: Connection,
    engine: Engine,
    /// S3, S4: every job that is due before is in `job`. S3: every other one is in `later`.
    horizon: u64,
    /// S4: the last deadline in `job`.
    tail: u64,
    taken: Vec<(u64, [u8; 16])>,
}

impl Sqlite {
    pub(crate) fn open(candidate: &Candidate, directory: &Path) -> Fallible<Self> {
        let connection = Connection::open(directory.join("jobs.db"))?;
        connection.set_prepared_statement_cache_capacity(32);
        let synchronous = match candidate.sync {
            Sync::Full => 2,
            Sync::Normal => 1,
            Sync::Off => 0,
        };
        // The page size and `auto_vacuum` belong to the file: they come before its first table.
        let pragmas: [(&str, i64); 6] = [
            ("page_size", candidate.page_bytes.into()),
            ("auto_vacuum", if candidate.vacuum { 2 } else { 0 }),
            ("synchronous", synchronous),
            ("cache_size", -i64::from(candidate.cache_mib) * 1024),
            ("wal_autocheckpoint", candidate.checkpoint_pages.into()),
            ("mmap_size", 0),
        ];
        for (name, value) in &pragmas[..2] {
            connection.pragma_update(None, name, value)?;
        }
        connection.pragma_update(None, "journal_mode", "WAL")?;
        for (name, value) in &pragmas[2..] {
            connection.pragma_update(None, name, value)?;
        }
        for (name, value) in pragmas {
            let read: i64 = connection.pragma_query_value(None, name, |row| row.get(0))?;
            if read != value {
                return Err(format!("{name} is {read}, not {value}").into());
            }
        }
        connection.execute_batch(&match candidate.engine {
            Engine::S2 => format!(
                "CREATE TABLE IF NOT EXISTS job ({ROW}, PRIMARY KEY (id)) WITHOUT ROWID;
                 CREATE INDEX IF NOT EXISTS job_due ON job (kind, due);"
            ),
            Engine::S3 | Engine::S4 => format!(
                "CREATE TABLE IF NOT EXISTS job ({ROW}, PRIMARY KEY (kind, due, id)) WITHOUT ROWID;
                 CREATE TABLE IF NOT EXISTS later (hour INTEGER NOT NULL, {ROW},
                     PRIMARY KEY (kind, hour, id)) WITHOUT ROWID;"
            ),
            _ => format!(
                "CREATE TABLE IF NOT EXISTS job ({ROW}, PRIMARY KEY (kind, due, id)) WITHOUT ROWID"
            ),
        })?;
        let mut store =
            Self { connection, engine: candidate.engine, horizon: 0, tail: 0, taken: Vec::new() };
        if store.has_two_trees() {
            store.tail = store.one("SELECT max(due) FROM job WHERE kind = ?1", &[])?.unwrap_or(0);
            store.horizon = store.next_hour()?.unwrap_or(0) * HOUR_MS;
        } else {
            store.horizon = i64::MAX as u64;
        }
        Ok(store)
    }

    fn has_two_trees(&self) -> bool {
        matches!(self.engine, Engine::S3 | Engine::S4)
    }

    fn one(&self, sql: &str, more: &[u64]) -> Fallible<Option<u64>> {
        let mut statement = self.connection.prepare_cached(sql)?;
        let values = std::iter::once(u64::from(KIND)).chain(more.iter().copied());
        Ok(statement.query_row(rusqlite::params_from_iter(values), |row| row.get(0))?)
    }

    /// The first hour at or after the horizon of which a tree has a job.
    fn next_hour(&self) -> Fallible<Option<u64>> {
        let later = self.one("SELECT min(hour) FROM later WHERE kind = ?1", &[])?;
        let sql = "SELECT min(due) FROM job WHERE kind = ?1 AND due >= ?2";
        let near = self.one(sql, &[self.horizon])?.map(|due| due / HOUR_MS);
        Ok(match (later, near) {
            (Some(later), Some(near)) => Some(later.min(near)),
            (later, near) => later.or(near),
        })
    }

    /// S3, S4: moves the next hour into `job`, in the order of its keys.
    fn move_an_hour(&mut self) -> Fallible<bool> {
        let Some(hour) = self.next_hour()? else { return Ok(false) };
        self.connection
            .prepare_cached(
                "INSERT INTO job SELECT kind, due, id, tries, interruptions, key, payload
                 FROM later WHERE kind = ?1 AND hour = ?2 ORDER BY due, id",
            )?
            .execute(params![KIND, hour])?;
        self.connection
            .prepare_cached("DELETE FROM later WHERE kind = ?1 AND hour = ?2")?
            .execute(params![KIND, hour])?;
        self.horizon = (hour + 1) * HOUR_MS;
        self.tail = self.tail.max(self.horizon);
        Ok(true)
    }

    fn read_earliest(&mut self, cursor: u64, count: usize) -> Fallible<()> {
        self.taken.clear();
        let mut statement = self.connection.prepare_cached(
            "SELECT due, id, tries, interruptions, key, payload FROM job
             WHERE kind = ?1 AND due >= ?2 AND due < ?3 ORDER BY due, id LIMIT ?4",
        )?;
        let mut rows = statement.query(params![KIND, cursor, self.horizon, count as i64])?;
        while let Some(row) = rows.next()? {
            let id = row.get_ref(1)?.as_blob()?.try_into()?;
            std::hint::black_box(row.get_ref(5)?.as_blob()?);
            self.taken.push((row.get(0)?, id));
        }
        Ok(())
    }

    fn begin(&self) -> Fallible<()> {
        self.connection.prepare_cached("BEGIN IMMEDIATE")?.execute([])?;
        Ok(())
    }

    fn commit(&self) -> Fallible<()> {
        self.connection.prepare_cached("COMMIT")?.execute([])?;
        Ok(())
    }
}

impl Store for Sqlite {
    fn insert(&mut self, jobs: &[Job]) -> Fallible<()> {
        self.begin()?;
        let columns = "kind, due, id, tries, interruptions, key, payload";
        let mut near = self.connection.prepare_cached(&format!(
            "INSERT INTO job ({columns}) VALUES (?1, ?2, ?3, 0, 0, NULL, ?4)"
        ))?;
        if self.has_two_trees() {
            let appends = self.engine == Engine::S4;
            let mut later = self.connection.prepare_cached(&format!(
                "INSERT INTO later (hour, {columns}) VALUES (?5, ?1, ?2, ?3, 0, 0, NULL, ?4)"
            ))?;
            for Job { due, id, payload } in jobs {
                if *due < self.horizon || appends && *due >= self.tail {
                    self.tail = self.tail.max(*due);
                    near.execute(params![KIND, due, id, payload])?;
                } else {
                    later.execute(params![KIND, due, id, payload, due / HOUR_MS])?;
                }
            }
        } else {
            for Job { due, id, payload } in jobs {
                near.execute(params![KIND, due, id, payload])?;
            }
        }
        self.commit()
    }

    fn take(&mut self, cursor: u64, count: usize) -> Fallible<u64> {
        self.begin()?;
        self.read_earliest(cursor, count)?;
        while self.has_two_trees() && self.taken.len() < count && self.move_an_hour()? {
            self.read_earliest(cursor, count)?;
        }
        let last = self.taken.last().ok_or("no job is left")?.0;
        if self.engine == Engine::S2 {
            let mut delete = self.connection.prepare_cached("DELETE FROM job WHERE id = ?1")?;
            for (_, id) in &self.taken {
                delete.execute([id])?;
            }
        } else {
            let sql = "DELETE FROM job WHERE kind = ?1 AND due = ?2 AND id = ?3";
            let mut delete = self.connection.prepare_cached(sql)?;
            for (due, id) in &self.taken {
                delete.execute(params![KIND, due, id])?;
            }
        }
        self.commit()?;
        Ok(last)
    }

    fn first(&mut self) -> Fallible<u64> {
        self.begin()?;
        self.read_earliest(0, 1)?;
        while self.has_two_trees() && self.taken.is_empty() && self.move_an_hour()? {
            self.read_earliest(0, 1)?;
        }
        self.commit()?;
        Ok(self.taken.first().ok_or("no job is left")?.0)
    }

    fn settle(&mut self) -> Fallible<()> {
        let sql = "PRAGMA wal_checkpoint(TRUNCATE)";
        let busy: i64 = self.connection.query_row(sql, [], |row| row.get(0))?;
        if busy == 0 { Ok(()) } else { Err("the checkpoint was blocked".into()) }
    }
}
