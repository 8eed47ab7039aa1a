//! The statements for completed jobs that are kept.

use std::cell::Cell;

use super::schema::KEPT;

/// The jobs of a kind from one place in the table of jobs to another.
pub(super) const BETWEEN: &str = "kind = ?1 AND (due, id) >= (?2, ?3) AND (due, id) <= (?4, ?5)";

#[derive(Clone, Debug)]
pub(super) struct KeptSql {
    /// The file has the tables of kept jobs, as far as this connection knows: `State::begin` reads it.
    pub(super) has_tables: Cell<bool>,
    pub(super) make_kept: String,
    pub(super) tables_exist: String,
    pub(super) keep: String,
    pub(super) keep_of_lane: String,
    pub(super) keep_between: String,
    pub(super) get: String,
    pub(super) get_if_due: String,
    pub(super) has: String,
    pub(super) drop: String,
    pub(super) put_list: String,
    pub(super) set_list: String,
    pub(super) drop_list: String,
    pub(super) oldest_lists: String,
    pub(super) latest_lists: String,
    pub(super) lists_of_time: String,
    pub(super) lists_over: String,
    pub(super) all_kept: String,
    pub(super) all_lists: String,
}

impl KeptSql {
    /// `sql`: puts the prefix of the queue into a statement. `row`: the columns of a job.
    pub(super) fn new(sql: &impl Fn(&str) -> String, row: &str) -> KeptSql {
        let columns = "id, kind, at, due, took, failures, interruptions, attempts, callers_id, part, key, errors, \
                       extra, result, payload";
        // `OR FAIL`, because SQLite keeps a journal for each `INSERT .. SELECT` that it may have to undo alone.
        let keep = |table: &str, [at, took, callers_id, result]: [&str; 4], which: &str| {
            sql(&format!(
                "INSERT OR FAIL INTO {{p}}kept ({columns}) SELECT id, kind, {at}, due, {took}, failures, \
                 interruptions, attempts, {callers_id}, part, key, errors, extra, {result}, payload \
                 FROM {{p}}{table} WHERE {which}"
            ))
        };
        let (of_one, one) = (["?4", "?5", "?6", "?7"], "kind = ?1 AND due = ?2 AND id = ?3");
        let get = format!("SELECT {row}, kind, at, 1, took, result FROM {{p}}kept WHERE id = ?1");
        let bytes = "coalesce(octet_length(payload), 0) + coalesce(octet_length(result), 0) \
                     + coalesce(octet_length(errors), 0) + coalesce(octet_length(extra), 0)";
        KeptSql {
            has_tables: Cell::new(false),
            make_kept: sql(KEPT),
            tables_exist: sql("SELECT count(*) FROM sqlite_schema WHERE name = '{p}kept_until'"),
            keep: keep("job", of_one, one),
            keep_of_lane: keep("lane", of_one, one),
            keep_between: keep("job", ["?6", "?7", "?8", "?9"], BETWEEN),
            get: sql(&get),
            get_if_due: sql(&format!("{get} AND due BETWEEN ?2 AND ?3")),
            has: sql("SELECT 1 FROM {p}kept WHERE id = ?1"),
            drop: sql("DELETE FROM {p}kept WHERE id = ?1"),
            put_list: sql("INSERT INTO {p}kept_list VALUES (?1, ?2, \
                 (SELECT coalesce(max(n), 0) + 1 FROM {p}kept_list WHERE kind = ?1 AND at = ?2), ?3, ?4)"),
            set_list: sql(
                "UPDATE {p}kept_list SET jobs = ?4 WHERE kind = ?1 AND at = ?2 AND n = ?3",
            ),
            drop_list: sql("DELETE FROM {p}kept_list WHERE kind = ?1 AND at = ?2 AND n = ?3"),
            oldest_lists: sql(
                "SELECT kind, at, n, jobs FROM {p}kept_list WHERE kind = ?1 ORDER BY at, n",
            ),
            latest_lists: sql("SELECT kind, at, n, jobs FROM {p}kept_list \
                 WHERE kind = ?1 AND at <= ?2 ORDER BY at DESC, n DESC"),
            lists_of_time: sql("SELECT kind, at, n, jobs FROM {p}kept_list \
                 WHERE kind = ?1 AND at = ?2 ORDER BY n"),
            lists_over: sql(
                "SELECT kind, at, n, jobs FROM {p}kept_list WHERE until < ?1 ORDER BY until",
            ),
            all_kept: sql(&format!(
                "SELECT id, kind, at, callers_id, {bytes}, extra FROM {{p}}kept ORDER BY id"
            )),
            all_lists: sql("SELECT kind, at, n, jobs FROM {p}kept_list"),
        }
    }
}
