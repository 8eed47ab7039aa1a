//! Every statement, with the names of the tables of a queue in it: about jobs, kept jobs, groups, and tokens of rates
//! with their holds.

use core::cell::Cell;

use super::schema::{GROUPS, KEPT, LANES, TABLES, TOKENS};

/// Every statement, with the prefix of the queue's tables in it.
#[derive(Clone, Debug)]
pub(crate) struct Sql {
    /// The file has the table of lanes, as far as this connection knows: `State::begin` reads it.
    pub(super) has_lanes: Cell<bool>,
    pub(super) groups: GroupSql,
    pub(super) kept: KeptSql,
    pub(crate) tables: String,
    pub(crate) has_tables: String,
    pub(crate) text_of: String,
    pub(crate) make_lanes: String,
    pub(crate) has_lane_table: String,
    pub(super) tokens: TokenSql,
    pub(crate) version: String,
    pub(crate) starts: String,
    pub(crate) add_start: String,
    pub(crate) flush: String,

    pub(crate) kinds: String,
    pub(crate) add_kind: String,
    pub(crate) kind_counts: String,
    pub(crate) kind_counts_and_minute: String,

    pub(crate) insert: String,
    pub(crate) job: String,
    pub(crate) job_exists: String,
    pub(crate) delete: String,
    pub(super) between: String,
    pub(super) delete_between: String,
    pub(crate) scan: String,
    pub(crate) clear_key: String,
    pub(crate) page: String,
    pub(crate) all_jobs: String,
    pub(crate) overdue: String,
    pub(crate) overdue_later: String,
    pub(crate) first_later: String,

    pub(crate) newest: String,

    pub(crate) hour: String,
    pub(crate) set_hour: String,
    pub(crate) insert_later: String,
    pub(crate) later: String,
    pub(crate) later_exists: String,
    pub(crate) delete_later: String,
    pub(crate) clear_later_key: String,
    pub(crate) later_page: String,
    pub(crate) all_later: String,
    pub(crate) first_hour: String,
    pub(crate) hour_rows: String,
    pub(crate) delete_hour_rows: String,
    pub(crate) move_unread: String,

    pub(crate) insert_lane: String,
    pub(crate) lane: String,
    pub(crate) lane_exists: String,
    pub(crate) delete_lane: String,
    pub(crate) clear_lane_key: String,
    pub(crate) lane_page: String,
    pub(crate) all_lane: String,
    pub(crate) all_parts: String,
    pub(crate) overdue_lane: String,
    pub(crate) move_to_lane: String,
    pub(crate) move_back: String,
    pub(crate) parts_of_road: String,
    pub(crate) lane_next: String,
    pub(crate) lane_after: String,

    pub(crate) moved: String,
    pub(crate) put_moved: String,
    pub(crate) drop_moved: String,
    pub(crate) all_moved: String,

    pub(crate) key: String,
    pub(crate) put_key: String,
    pub(crate) drop_key: String,
    pub(crate) all_keys: String,

    pub(crate) put_claim: String,
    pub(crate) drop_claim: String,
    pub(crate) set_claim: String,
    pub(crate) claims: String,
    pub(crate) drop_claims: String,

    pub(crate) put_cancel_request: String,
    pub(crate) cancel_requests: String,
    pub(crate) drop_cancel_request: String,
    pub(crate) drop_cancel_requests: String,

    pub(crate) put_progress: String,
    pub(crate) progress: String,
    pub(crate) all_progress: String,
    pub(crate) drop_progress: String,
    pub(crate) drop_all_progress: String,

    pub(crate) put_ended: String,
    pub(crate) put_remembered: String,
    pub(crate) ended: String,
    pub(crate) has_ended: String,
    pub(crate) drop_ended: String,
    pub(crate) ended_page: String,
    pub(crate) ended_page_of_kind: String,
    pub(crate) over: String,
    pub(crate) all_ended: String,

    pub(crate) add_dead_by_error: String,
    pub(crate) drop_dead_by_error: String,
    pub(crate) drop_empty_group: String,
    pub(crate) dead_by_error: String,

    pub(crate) put_node: String,
    pub(crate) drop_nodes: String,
    pub(crate) nodes: String,
    pub(crate) purge_nodes: String,

    pub(crate) put_setting: String,
    pub(crate) drop_setting: String,
    pub(crate) settings: String,

    pub(crate) minutes: String,
    pub(crate) set_minute: String,
    pub(crate) history: String,
    pub(crate) put_history: String,
    pub(crate) drop_history: String,

    pub(crate) put_schedule: String,
    pub(crate) schedule: String,
    pub(crate) drop_schedule: String,
    pub(crate) move_schedule: String,
    pub(crate) schedules: String,
    pub(crate) counts: String,

    pub(crate) file_number: String,
    pub(crate) leave: String,
    pub(crate) has_left: String,
    pub(crate) left: String,
    pub(crate) drop_left: String,
}

impl Sql {
    /// Returns the statements for a queue. Each queue has tables of its own. Their names, and those of their indexes, have
    /// the queue before the last `__`, and no name of a table or an index has a `__` or begins with a `_` behind the prefix.
    /// So no two queues have a name in common, however they are called.
    pub(crate) fn new(queue: Option<&str>) -> Sql {
        let prefix = match queue {
            None => "tickwheel_".to_owned(),
            Some(queue) => format!("tickwheel_{queue}__"),
        };
        let sql = |text: &str| text.replace("{p}", &prefix);
        let row = "due, id, failures, interruptions, callers_id, key, errors, payload, attempts, extra, part";
        let ended = format!("{row}, kind, at, ending, took, result");
        let more = "failures, interruptions, attempts, typeof(errors), typeof(payload)";
        let moved = |from: &str, to: &str| {
            sql(&format!(
                "INSERT OR FAIL INTO {{p}}{to} SELECT kind, due, id, failures, interruptions, attempts, \
                 callers_id, part, key, errors, extra, payload FROM {{p}}{from} \
                 WHERE kind = ?1 AND due = ?2 AND id = ?3"
            ))
        };
        Sql {
            has_lanes: Cell::new(false),
            groups: GroupSql::new(&prefix),
            kept: KeptSql::new(&sql, row),
            tables: sql(TABLES),
            has_tables: sql("SELECT count(*) FROM sqlite_schema WHERE name = '{p}meta'"),
            make_lanes: sql(LANES),
            has_lane_table: sql("SELECT count(*) FROM sqlite_schema WHERE name = '{p}job_part'"),
            tokens: TokenSql::new(&sql),
            text_of: "SELECT sql FROM sqlite_schema WHERE name = ?1".to_owned(),
            version: sql("SELECT value FROM {p}meta WHERE name = 'version'"),
            starts: sql("SELECT value FROM {p}meta WHERE name = 'starts'"),
            add_start: sql("UPDATE {p}meta SET value = value + 1 WHERE name = 'starts'"),
            flush: sql("UPDATE {p}meta SET value = value + 1 WHERE name = 'flushes'"),

            kinds: sql("SELECT n, name, jobs, retrying, dead, kept, kept_bytes FROM {p}kind \
                 ORDER BY n"),
            add_kind: sql("INSERT OR IGNORE INTO {p}kind \
                 (name, jobs, retrying, dead, kept, kept_bytes) VALUES (?1, 0, 0, 0, 0, 0)"),
            kind_counts: sql("UPDATE {p}kind SET jobs = jobs + ?2, retrying = retrying + ?3, \
                 dead = dead + ?4, kept = kept + ?5, kept_bytes = kept_bytes + ?6 WHERE n = ?1"),
            kind_counts_and_minute: sql(
                "UPDATE {p}kind SET jobs = jobs + ?2, retrying = retrying + ?3, dead = dead + ?4, \
                 kept = kept + ?5, kept_bytes = kept_bytes + ?6, minute = ?7 WHERE n = ?1",
            ),

            insert: sql(
                "INSERT INTO {p}job VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?12, ?8, ?9, ?10, \
                 ?11)",
            ),
            job: sql(&format!(
                "SELECT {row} FROM {{p}}job WHERE kind = ?1 AND due = ?2 AND id = ?3"
            )),
            job_exists: sql("SELECT 1 FROM {p}job WHERE kind = ?1 AND due = ?2 AND id = ?3"),
            delete: sql("DELETE FROM {p}job WHERE kind = ?1 AND due = ?2 AND id = ?3"),
            between: sql(&format!("SELECT due, id FROM {{p}}job WHERE {BETWEEN} ORDER BY due, id")),
            delete_between: sql(&format!("DELETE FROM {{p}}job WHERE {BETWEEN}")),
            scan: sql(&format!(
                "SELECT {row} FROM {{p}}job WHERE kind = ?1 AND (due, id) >= (?2, ?3) \
                 ORDER BY due, id"
            )),
            clear_key: sql("UPDATE {p}job SET key = NULL WHERE kind = ?1 AND due = ?2 AND id = ?3"),
            page: sql("SELECT due, id FROM {p}job WHERE kind = ?1 AND (due, id) > (?2, ?3) \
                 AND due <= ?4 ORDER BY due, id LIMIT ?5"),
            all_jobs: sql(&format!("SELECT kind, due, id, callers_id, key, {more} FROM {{p}}job")),

            overdue: sql("SELECT due, id FROM {p}job WHERE kind = ?1 AND due < ?2 \
                 ORDER BY due, id LIMIT ?3"),
            overdue_later: sql("SELECT due FROM {p}later \
                 WHERE kind = ?1 AND hour <= ?2 AND due < ?3 LIMIT ?4"),
            first_later: sql("SELECT min(due) FROM {p}later WHERE kind = ?1 \
                 AND hour = (SELECT min(hour) FROM {p}later WHERE kind = ?1)"),

            newest: sql("SELECT max(due) FROM {p}job WHERE kind = ?1"),

            hour: sql("SELECT value FROM {p}meta WHERE name = 'hour'"),
            set_hour: sql("UPDATE {p}meta SET value = ?1 WHERE name = 'hour'"),
            insert_later: sql(
                "INSERT INTO {p}later VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?13, ?9, ?10, ?11, ?12)",
            ),
            later: sql(&format!(
                "SELECT {row} FROM {{p}}later WHERE kind = ?1 AND hour = ?2 AND id = ?3"
            )),
            later_exists: sql(
                "SELECT 1 FROM {p}later WHERE kind = ?1 AND hour = ?2 AND id = ?3 AND due = ?4",
            ),
            delete_later: sql("DELETE FROM {p}later WHERE kind = ?1 AND hour = ?2 AND id = ?3"),
            clear_later_key: sql(
                "UPDATE {p}later SET key = NULL WHERE kind = ?1 AND hour = ?2 AND id = ?3",
            ),
            later_page: sql("SELECT due, id, hour FROM {p}later WHERE kind = ?1 \
                 AND hour BETWEEN ?2 AND ?3 ORDER BY hour, id"),
            all_later: sql(&format!(
                "SELECT kind, due, id, callers_id, key, {more}, hour FROM {{p}}later"
            )),
            first_hour: sql("SELECT min(hour) FROM {p}later WHERE kind = ?1"),
            hour_rows: sql(&format!(
                "SELECT {row} FROM {{p}}later WHERE kind = ?1 AND hour = ?2 ORDER BY id LIMIT ?3"
            )),
            delete_hour_rows: sql(
                "DELETE FROM {p}later WHERE kind = ?1 AND hour = ?2 AND id <= ?3",
            ),

            move_unread: sql("INSERT INTO {p}job \
                 SELECT kind, due, id, failures, interruptions, attempts, callers_id, part, key, errors, extra, payload \
                 FROM {p}later WHERE kind = ?1 AND hour = ?2 AND id = ?3"),

            insert_lane: sql(
                "INSERT INTO {p}lane VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?12, ?8, ?9, ?10, ?11)",
            ),
            lane: sql(&format!(
                "SELECT {row} FROM {{p}}lane WHERE kind = ?1 AND due = ?2 AND id = ?3"
            )),
            lane_exists: sql("SELECT 1 FROM {p}lane WHERE kind = ?1 AND due = ?2 AND id = ?3"),
            delete_lane: sql("DELETE FROM {p}lane WHERE kind = ?1 AND due = ?2 AND id = ?3"),
            clear_lane_key: sql(
                "UPDATE {p}lane SET key = NULL WHERE kind = ?1 AND due = ?2 AND id = ?3",
            ),
            lane_page: sql("SELECT due, id FROM {p}lane WHERE kind = ?1 AND (due, id) > (?2, ?3) \
                 AND due <= ?4 ORDER BY due, id LIMIT ?5"),
            all_lane: sql(&format!("SELECT kind, due, id, callers_id, key, {more} FROM {{p}}lane")),
            all_parts: sql("SELECT kind, id, part FROM {p}lane"),
            overdue_lane: sql("SELECT due, id FROM {p}lane WHERE kind = ?1 AND due < ?2 \
                 ORDER BY due, id LIMIT ?3"),
            move_to_lane: moved("job", "lane"),
            move_back: moved("lane", "job"),
            parts_of_road: sql(
                "SELECT due, id, part FROM {p}job WHERE kind = ?1 AND part IS NOT NULL \
                 ORDER BY due, id LIMIT ?2",
            ),
            lane_next: sql("SELECT due, id FROM {p}lane WHERE kind = ?1 AND part = ?2 \
                 AND (due, id) >= (?3, ?4) ORDER BY due, id"),
            lane_after: sql("SELECT part FROM {p}lane WHERE kind = ?1 AND part > ?2 \
                 ORDER BY part LIMIT 1"),

            moved: sql("SELECT kind, due FROM {p}moved WHERE id = ?1"),
            put_moved: sql("INSERT OR REPLACE INTO {p}moved VALUES (?1, ?2, ?3)"),
            drop_moved: sql("DELETE FROM {p}moved WHERE id = ?1"),
            all_moved: sql("SELECT id, kind, due FROM {p}moved"),

            key: sql("SELECT id FROM {p}key WHERE name = ?1"),
            put_key: sql("INSERT OR REPLACE INTO {p}key VALUES (?1, ?2)"),
            drop_key: sql("DELETE FROM {p}key WHERE name = ?1 AND id = ?2"),
            all_keys: sql("SELECT name, id FROM {p}key"),

            put_claim: sql("INSERT INTO {p}claim VALUES (?1, ?2)"),
            drop_claim: sql("DELETE FROM {p}claim WHERE n = ?1"),
            set_claim: sql("UPDATE {p}claim SET ids = ?2 WHERE n = ?1"),
            claims: sql("SELECT n, ids FROM {p}claim ORDER BY n"),
            drop_claims: sql("DELETE FROM {p}claim"),

            put_cancel_request: sql("INSERT OR IGNORE INTO {p}cancel_requested VALUES (?1)"),
            cancel_requests: sql("SELECT id FROM {p}cancel_requested"),
            drop_cancel_request: sql("DELETE FROM {p}cancel_requested WHERE id = ?1"),
            drop_cancel_requests: sql("DELETE FROM {p}cancel_requested"),

            put_progress: sql("INSERT OR REPLACE INTO {p}progress VALUES (?1, ?2)"),
            progress: sql("SELECT value FROM {p}progress WHERE id = ?1"),
            all_progress: sql("SELECT id FROM {p}progress"),
            drop_progress: sql("DELETE FROM {p}progress WHERE id = ?1"),
            drop_all_progress: sql("DELETE FROM {p}progress"),

            put_ended: sql(
                "INSERT INTO {p}ended (id, ending, until, at, kind, due, took, failures, \
                 interruptions, attempts, callers_id, part, key, errors, extra, result, payload) \
                 VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17)",
            ),
            put_remembered: sql(
                "INSERT INTO {p}ended (id, ending, until, at) VALUES (?1, 0, ?2, ?3)",
            ),
            ended: sql(&format!("SELECT {ended} FROM {{p}}ended WHERE id = ?1 AND ending > 0")),
            has_ended: sql("SELECT 1 FROM {p}ended WHERE id = ?1"),
            drop_ended: sql("DELETE FROM {p}ended WHERE id = ?1"),
            ended_page: sql(&format!(
                "SELECT {ended} FROM {{p}}ended WHERE ending = ?1 AND ending > 1 \
                 AND (at, id) < (?2, ?3) AND due BETWEEN ?4 AND ?5 \
                 ORDER BY at DESC, id DESC LIMIT ?6"
            )),
            ended_page_of_kind: sql(&format!(
                "SELECT {ended} FROM {{p}}ended WHERE ending = ?1 AND ending > 0 \
                 AND (at, id) < (?2, ?3) AND due BETWEEN ?4 AND ?5 AND kind = ?7 \
                 ORDER BY at DESC, id DESC LIMIT ?6"
            )),
            over: sql("SELECT id FROM {p}ended WHERE until < ?1 ORDER BY until LIMIT ?2"),
            all_ended: sql("SELECT id, ending, kind, errors, coalesce(octet_length(payload), 0) \
                 + coalesce(octet_length(result), 0) + coalesce(octet_length(errors), 0) \
                 + coalesce(octet_length(extra), 0) FROM {p}ended"),

            add_dead_by_error: sql("INSERT INTO {p}dead_by_error VALUES (?1, ?2, 1) \
                 ON CONFLICT DO UPDATE SET jobs = jobs + 1"),
            drop_dead_by_error: sql("UPDATE {p}dead_by_error SET jobs = jobs - 1 \
                 WHERE kind = ?1 AND error = ?2 RETURNING jobs"),
            drop_empty_group: sql(
                "DELETE FROM {p}dead_by_error WHERE kind = ?1 AND error = ?2 AND jobs <= 0",
            ),
            dead_by_error: sql("SELECT kind, error, jobs FROM {p}dead_by_error \
                 ORDER BY jobs DESC LIMIT ?1"),

            put_node: sql("INSERT OR REPLACE INTO {p}node VALUES (?1, ?2, ?3)"),
            drop_nodes: sql("DELETE FROM {p}node"),
            nodes: sql("SELECT seen, value FROM {p}node ORDER BY id"),
            purge_nodes: sql("DELETE FROM {p}node WHERE seen < ?1"),

            put_setting: sql("INSERT INTO {p}setting VALUES (?1, ?2) \
                 ON CONFLICT DO UPDATE SET value = ?2 WHERE value <> ?2"),
            drop_setting: sql("DELETE FROM {p}setting WHERE name = ?1"),
            settings: sql("SELECT name, value FROM {p}setting ORDER BY name"),
            minutes: sql("SELECT n, name, minute FROM {p}kind WHERE minute IS NOT NULL"),
            set_minute: sql("UPDATE {p}kind SET minute = ?2 WHERE n = ?1"),
            history: sql("SELECT value FROM {p}history WHERE key = ?1"),
            put_history: sql("INSERT INTO {p}history VALUES (?1, ?2)
                 ON CONFLICT (key) DO UPDATE SET value = excluded.value"),
            drop_history: sql("DELETE FROM {p}history WHERE key = ?1"),

            put_schedule: sql("INSERT OR REPLACE INTO {p}schedule VALUES (?1, ?2, ?3, ?4, ?5, ?6)"),
            schedule: sql("SELECT kind, rule, missed, next FROM {p}schedule WHERE name = ?1"),
            drop_schedule: sql("DELETE FROM {p}schedule WHERE name = ?1"),
            move_schedule: sql("UPDATE {p}schedule SET next = ?2 WHERE name = ?1"),
            schedules: sql(
                "SELECT name, kind, rule, missed, next, payload FROM {p}schedule ORDER BY name",
            ),
            counts: sql("SELECT count(*) FROM {p}schedule"),

            file_number: sql("SELECT value FROM {p}meta WHERE name = 'file'"),
            leave: sql("INSERT INTO {p}outbox (made_for_this_file, job) VALUES ((\
                 SELECT file.value FROM {p}meta AS file JOIN {p}meta AS version \
                 WHERE file.name = 'file' AND file.value = {file} \
                 AND version.name = 'version' AND version.value = {version}), ?1)"),
            has_left: sql("SELECT EXISTS (SELECT 1 FROM {p}outbox)"),
            left: sql("SELECT n, job FROM {p}outbox WHERE n > ?1 ORDER BY n LIMIT ?2"),
            drop_left: sql("DELETE FROM {p}outbox WHERE n = ?1"),
        }
    }
}

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

/// The statements about groups, with the prefix of the queue's tables in them.
#[derive(Clone, Debug)]
pub(crate) struct GroupSql {
    pub(super) make_groups: String,
    pub(super) has_groups: String,
    pub(super) put_group: String,
    pub(super) group: String,
    pub(super) set_group: String,
    pub(super) groups: String,
    pub(super) purge_groups: String,
    pub(super) put_member: String,
    pub(super) drop_member: String,
    pub(super) members: String,
    pub(super) put_callback: String,
    pub(super) callback: String,
    pub(super) drop_callback: String,
    pub(super) all_groups: String,
    pub(super) all_members: String,
    pub(super) all_callbacks: String,
    pub(super) all_extras: String,
    pub(super) all_extras_of_lane: String,
    pub(super) all_extras_of_dead: String,
}

impl GroupSql {
    /// Returns the statements for the tables with this prefix.
    pub(super) fn new(prefix: &str) -> GroupSql {
        let sql = |text: &str| text.replace("{p}", prefix);
        let tally =
            "id, made, ended, flags, total, completed, dead, cancelled, dead_left, callback";
        GroupSql {
            make_groups: sql(GROUPS),
            has_groups: sql("SELECT count(*) FROM sqlite_schema WHERE name = '{p}grp_ended'"),
            put_group: sql("INSERT INTO {p}grp VALUES (?1, ?2, NULL, ?3, 0, 0, 0, 0, 0, ?4)"),
            group: sql(&format!("SELECT {tally} FROM {{p}}grp WHERE id = ?1")),
            set_group: sql(
                "UPDATE {p}grp SET ended = ?2, flags = ?3, total = ?4, completed = ?5, \
                 dead = ?6, cancelled = ?7, dead_left = ?8 WHERE id = ?1",
            ),
            groups: sql(&format!(
                "SELECT {tally} FROM {{p}}grp WHERE made >= 0 ORDER BY made DESC, id DESC LIMIT ?1"
            )),
            purge_groups: sql("DELETE FROM {p}grp WHERE id IN (SELECT id FROM {p}grp \
                 WHERE ended IS NOT NULL AND dead_left = 0 AND ended < ?1 ORDER BY ended LIMIT 1000)"),
            put_member: sql("INSERT OR IGNORE INTO {p}member VALUES (?1, ?2)"),
            drop_member: sql("DELETE FROM {p}member WHERE grp = ?1 AND id = ?2"),
            members: sql(
                "SELECT id FROM {p}member WHERE grp = ?1 AND id > ?2 ORDER BY id LIMIT ?3",
            ),
            put_callback: sql("INSERT INTO {p}callback VALUES (?1, ?2, ?3)"),
            callback: sql("SELECT job FROM {p}callback WHERE grp = ?1"),
            drop_callback: sql("DELETE FROM {p}callback WHERE grp = ?1"),
            all_groups: sql(&format!("SELECT {tally} FROM {{p}}grp")),
            all_members: sql("SELECT grp, id FROM {p}member"),
            all_callbacks: sql("SELECT grp, id FROM {p}callback"),
            all_extras: sql("SELECT id, extra FROM {p}job WHERE extra IS NOT NULL \
                 UNION ALL SELECT id, extra FROM {p}later WHERE extra IS NOT NULL"),
            all_extras_of_lane: sql("SELECT id, extra FROM {p}lane WHERE extra IS NOT NULL"),
            all_extras_of_dead: sql(
                "SELECT id, extra FROM {p}ended WHERE ending = 2 AND extra IS NOT NULL",
            ),
        }
    }
}

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
