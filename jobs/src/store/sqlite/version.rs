//! Makes the tables of a file, accepts them, or refuses them.

use rusqlite::Connection;

use super::open::Location;
use super::rows::store_error;
use super::schema::VERSION;
use super::sql::Sql;
use super::tables::Tables;
use crate::values::error::{OpenError, StoreError};

impl Location {
    /// Makes the tables of this queue if the file has none, and refuses those of a later version.
    pub(super) fn prepare_tables(&self, conn: &Connection) -> Result<(), OpenError> {
        let sql = Sql::new(self.queue.as_deref());
        let tables = Tables { conn, sql: &sql };
        if self.version(tables)?.is_some() {
            return Ok(());
        }
        let made = tables.execute("BEGIN IMMEDIATE", []).and_then(|_| {
            // Another process may have made them meanwhile.
            let none = tables.one(&sql.has_tables, [], |row| row.get::<_, i64>(0))? == Some(0);
            if none {
                conn.execute_batch(&sql.tables).map_err(store_error)?;
            }
            crate::values::hook::at("schema: before the commit");
            tables.execute("COMMIT", []).map(drop)
        });
        made.map_err(|error| self.refine(error))
    }

    /// Refuses a file whose tables differ from those that this version makes: SQLite trusts the text of
    /// their definitions. A file without jobs of partitions has no table of lanes, one without
    /// groups no table of groups, one without rates no table of tokens, and one without kept jobs none of those.
    fn compare_schema(&self, tables: Tables<'_>) -> Result<(), OpenError> {
        for (name, made, is_optional) in tables.sql.definitions() {
            let found = tables.one(&tables.sql.text_of, [name], |row| row.get::<_, String>(0));
            let found = found.map_err(|error| self.refine(error))?;
            if found.as_deref() != Some(made) && !(is_optional && found.is_none()) {
                return Err(self.damaged(&format!("{name} is not what version {VERSION} makes")));
            }
        }
        Ok(())
    }

    /// Returns the version of this queue's tables, or none if the file has none.
    pub(super) fn version(&self, tables: Tables<'_>) -> Result<Option<i64>, OpenError> {
        let refine = |error| self.refine(error);
        let present = tables.one(&tables.sql.has_tables, [], |row| row.get::<_, i64>(0));
        if present.map_err(refine)? == Some(0) {
            return Ok(None);
        }
        let version = tables.one(&tables.sql.version, [], |row| row.get(0)).map_err(refine)?;
        match version {
            Some(VERSION) => self.compare_schema(tables).map(|()| version),
            Some(version) if version > VERSION => {
                Err(OpenError::Newer { path: self.path.clone(), version, known: VERSION })
            }
            Some(version) if (1..VERSION).contains(&version) => {
                Err(OpenError::Older { path: self.path.clone(), version, known: VERSION })
            }
            _ => Err(self.damaged(&format!("its tables have the version {version:?}"))),
        }
    }
}

impl Sql {
    /// Returns each table and each index: its name, the text that makes it, and whether a file may be without it.
    pub(super) fn definitions(&self) -> impl Iterator<Item = (&str, &str, bool)> {
        let all = [
            (&self.tables, false),
            (&self.make_lanes, true),
            (&self.groups.make_groups, true),
            (&self.tokens.make_tokens, true),
            (&self.kept.make_kept, true),
        ];
        all.into_iter().flat_map(|(texts, is_optional)| {
            let texts = texts.split(';').map(str::trim).filter(|text| text.starts_with("CREATE"));
            texts.map(move |text| {
                (text.split_whitespace().nth(2).unwrap_or_default(), text, is_optional)
            })
        })
    }
}

impl Tables<'_> {
    /// Returns what a check of SQLite's finds in the tables of the queue, if it finds anything. The tables of an application
    /// in the same file are not checked: they may need a collation or a function that this process does not know, or have
    /// rows that break a constraint.
    pub(super) fn damage(&self, check: &str) -> Result<Option<String>, StoreError> {
        for (name, made, _) in self.sql.definitions() {
            let is_there = self.one(&self.sql.text_of, [name], |_| Ok(()))?.is_some();
            if made.starts_with("CREATE TABLE") && is_there {
                let check = format!("PRAGMA {check}('{name}')");
                let report: String =
                    self.conn.query_row(&check, [], |row| row.get(0)).map_err(store_error)?;
                if report != "ok" {
                    return Ok(Some(report));
                }
            }
        }
        Ok(None)
    }
}
