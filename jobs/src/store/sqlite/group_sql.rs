//! The statements about groups.

use super::schema::GROUPS;

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
