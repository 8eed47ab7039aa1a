//! The statements for the tokens of rates, and for holds.

use std::cell::Cell;

use super::schema::TOKENS;

#[derive(Clone, Debug)]
pub(super) struct TokenSql {
    /// The file has the table of tokens, as far as this connection knows: `State::begin` reads it.
    pub(super) has_table: Cell<bool>,
    pub(super) make_tokens: String,
    pub(super) table_exists: String,
    pub(super) all_tokens: String,
    pub(super) of_scope: String,
    pub(super) put: String,
    pub(super) drop: String,
    pub(super) hold: String,
    pub(super) purge_holds: String,
}

impl TokenSql {
    /// `sql`: puts the prefix of the queue into a statement.
    pub(super) fn new(sql: &impl Fn(&str) -> String) -> TokenSql {
        TokenSql {
            has_table: Cell::new(false),
            make_tokens: sql(TOKENS),
            table_exists: sql("SELECT count(*) FROM sqlite_schema WHERE name = '{p}tokens'"),
            all_tokens: sql("SELECT scope, value FROM {p}tokens"),
            of_scope: sql("SELECT value FROM {p}tokens WHERE scope = ?1"),
            put: sql("INSERT INTO {p}tokens VALUES (?1, ?2) \
                 ON CONFLICT (scope) DO UPDATE SET value = excluded.value"),
            drop: sql("DELETE FROM {p}tokens WHERE scope = ?1"),
            hold: sql("INSERT INTO {p}setting VALUES (?1, ?2) \
                 ON CONFLICT (name) DO UPDATE SET value = excluded.value \
                 WHERE CAST(value AS INTEGER) < CAST(excluded.value AS INTEGER)"),
            purge_holds: sql("DELETE FROM {p}setting \
                 WHERE name >= 'hold' AND name < 'hole' AND CAST(value AS INTEGER) < ?1"),
        }
    }
}
