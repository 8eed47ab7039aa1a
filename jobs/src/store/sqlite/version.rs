//! Makes the tables of a file, accepts them, or refuses them.

use rusqlite::Connection;

use super::open::Location;
use super::rows::store_error;
use super::schema::VERSION;
use super::sql::Sql;
use super::tables::Tables;
use crate::values::error::OpenError;

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
    fn compare_schema<'a>(&self, tables: Tables<'a>) -> Result<(), OpenError> {
        let of = |texts: &'a str, is_optional| {
            let texts = texts.split(';').map(str::trim);
            texts.filter(|text| text.starts_with("CREATE")).map(move |text| (text, is_optional))
        };
        let all = of(&tables.sql.tables, false).chain(of(&tables.sql.make_lanes, true));
        let all = all.chain(of(&tables.sql.groups.make_groups, true));
        let all = all.chain(of(&tables.sql.tokens.make_tokens, true));
        let all = all.chain(of(&tables.sql.kept.make_kept, true));
        for (made, is_optional) in all {
            let name = made.split_whitespace().nth(2).unwrap_or_default();
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
