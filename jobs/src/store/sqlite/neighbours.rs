//! Rows that have to go: those that are neighbours in their table go with one statement.
//!
//! Ground rules:
//!
//! - Jobs that were inserted together are claimed, end and go together. So most rows that go in one transaction are
//!   neighbours. A statement for each would look for the same place again and again.
//! - A statement deletes several rows only if the rows from the first to the last are those that have to go, and no
//!   others. So each is compared before.

use rusqlite::{Params, Row};

use super::rows::store_error;
use super::tables::Tables;
use crate::values::error::StoreError;

/// With fewer rows, the question whether they are neighbours costs more than it saves.
const FEW: usize = 4;

/// After a question that found few neighbours, this many rows are deleted one by one before the next question.
const UNASKED: usize = 8;

/// Calls `delete` for parts of these rows, which are in the order of their table, and says whether the rows of a part are
/// neighbours. `neighbours` returns how many rows are, from the first on.
pub(super) fn delete_in_parts<T>(
    mut rows: &[T],
    neighbours: impl Fn(&[T]) -> Result<usize, StoreError>,
    mut delete: impl FnMut(&[T], bool) -> Result<(), StoreError>,
) -> Result<(), StoreError> {
    while !rows.is_empty() {
        let found = if rows.len() < FEW { 0 } else { neighbours(rows)? };
        let are_neighbours = found >= FEW;
        let many = if are_neighbours { found } else { UNASKED.min(rows.len()) };
        let (part, rest) = rows.split_at(many);
        delete(part, are_neighbours)?;
        rows = rest;
    }
    Ok(())
}

impl Tables<'_> {
    /// Returns how many of the rows that a statement reads are the expected ones, from the first on. `is_expected` gets
    /// the number of the row.
    pub(super) fn expected_rows(
        &self,
        sql: &str,
        params: impl Params,
        is_expected: impl Fn(usize, &Row<'_>) -> bool,
    ) -> Result<usize, StoreError> {
        let mut statement = self.conn.prepare_cached(sql).map_err(store_error)?;
        let mut rows = statement.query(params).map_err(store_error)?;
        let mut expected = 0;
        while let Some(row) = rows.next().map_err(store_error)?
            && is_expected(expected, row)
        {
            expected += 1;
        }
        Ok(expected)
    }
}
