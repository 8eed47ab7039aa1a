//! Tests how SQLite carries out the statements: none but those of `check` reads a whole table of jobs or sorts one.

use rusqlite::Connection;

use crate::store::sqlite::sql::Sql;

/// These read a whole table: `check` all of them, a start the claims, their cancel requests and their progress.
const READ_ALL: [&str; 18] = [
    "all_jobs",
    "all_later",
    "all_lane",
    "all_parts",
    "all_moved",
    "all_keys",
    "all_ended",
    "all_kept",
    "all_lists",
    "all_progress",
    "all_groups",
    "all_members",
    "all_callbacks",
    "all_extras",
    "all_extras_of_lane",
    "all_extras_of_dead",
    "claims",
    "cancel_requests",
];

/// Returns the name and the text of every statement, as `Debug` shows them. Texts of several statements, which make
/// tables, are left out; so is `leave`, which the application runs.
pub(super) fn statements(sql: &Sql) -> Vec<(String, String)> {
    let shown = format!("{sql:#?}");
    let statement = |line: &str| {
        let (name, text) = line.trim().split_once(": \"")?;
        let text = text.strip_suffix("\",")?;
        Some((name.to_owned(), text.replace("\\n", "\n").replace("\\'", "'")))
    };
    let is_one = |name: &str| name != "tables" && name != "leave" && !name.starts_with("make_");
    shown.lines().filter_map(statement).filter(|(name, _)| is_one(name)).collect()
}

/// No statement but those that read all of a table reads more rows than it returns. An index with a condition is used
/// only if the statement repeats the condition: one that did not made each end of a kept job read all of them.
#[test]
fn statements_find_their_rows_by_an_index() {
    let conn = Connection::open_in_memory().unwrap();
    let sql = Sql::new(None);
    conn.execute_batch(&sql.tables).unwrap();
    conn.execute_batch(&sql.make_lanes).unwrap();
    conn.execute_batch(&sql.groups.make_groups).unwrap();
    conn.execute_batch(&sql.tokens.make_tokens).unwrap();
    conn.execute_batch(&sql.kept.make_kept).unwrap();
    let statements = statements(&sql);
    assert!(statements.len() > 90, "{}", statements.len());
    let tables = [
        "job",
        "later",
        "lane",
        "moved",
        "key",
        "claim",
        "ended",
        "kept",
        "kept_list",
        "cancel_requested",
        "progress",
        "grp",
        "member",
        "callback",
    ];
    let mut explained = 0;
    for (name, text) in statements {
        if READ_ALL.contains(&&*name) {
            continue;
        }
        let mut plan = conn.prepare(&format!("EXPLAIN QUERY PLAN {text}")).unwrap();
        let steps: Vec<String> =
            plan.raw_query().mapped(|row| row.get(3)).collect::<rusqlite::Result<_>>().unwrap();
        for step in steps {
            explained += 1;
            let scans = tables.iter().any(|table| {
                let scan = format!("SCAN tickwheel_{table}");
                step == scan || step.starts_with(&format!("{scan} "))
            });
            let one_end =
                text.ends_with("LIMIT 1") || text.contains("max(") || text.contains("min(");
            assert!(!scans || one_end, "{name}: {step}: {text}");
            assert!(!step.contains("TEMP B-TREE"), "{name} sorts: {step}: {text}");
        }
    }
    assert!(explained > 60, "{explained}");
}
