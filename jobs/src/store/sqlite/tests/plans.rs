//! Tests how SQLite carries out the statements: none but those of `check` reads a whole table of jobs or sorts one.

use std::collections::HashSet;
use std::path::Path;

use proc_macro2::{Literal, TokenStream, TokenTree};
use rusqlite::Connection;

use crate::store::sqlite::schema::{PART_INDEX, TABLES, Table};
use crate::store::sqlite::sql::Sql;
use crate::store::sqlite::tables::Tables;

/// A statement in the sources of the store.
#[derive(Clone)]
pub(super) struct Statement {
    /// With the names of the tables.
    pub(super) text: String,
    /// It reads a whole table: `check` has such statements, and a start reads the claims, their cancel requests and
    /// their progress.
    reads_all: bool,
}

/// Returns every statement in the sources of the store. Texts of several statements, which make tables, are left out;
/// so are the one that the application runs, and those of tests.
pub(super) fn statements(sql: &Sql) -> Vec<Statement> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/store/sqlite");
    let (mut found, mut all) = (Vec::new(), HashSet::new());
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_some_and(|its| its == "rs") {
            let source: TokenStream = std::fs::read_to_string(path).unwrap().parse().unwrap();
            find(source, &mut found, &mut all);
        }
    }
    let on_tables = |(name, text): (Option<String>, String)| {
        let reads_all = all.contains(&text) || name.is_some_and(|name| all.contains(&name));
        let tables = match (text.contains("{table}"), text.contains("{by_due}")) {
            (true, _) => &Table::ALL[..],
            (_, true) => &Table::BY_DUE[..],
            _ => &[Table::Job][..],
        };
        let on = |table: &Table| Statement { text: sql.complete(&text, *table), reads_all };
        tables.iter().map(on).collect::<Vec<_>>()
    };
    let verbs = ["SELECT", "INSERT", "UPDATE", "DELETE"];
    let is_one = |text: &str| {
        ["{p}", "{table}", "{by_due}"].iter().any(|table| text.contains(table))
            && !["{file}", "tickwheel_"].iter().any(|other| text.contains(other))
            && verbs.iter().any(|verb| text.starts_with(verb))
    };
    found.into_iter().filter(|(_, text)| is_one(text)).flat_map(on_tables).collect()
}

/// Finds the literals among the words of a source, each with the name of its constant if it has one. Adds the first
/// argument of each call of `whole` and of `ids` to `all`: a literal, a table with a literal, or the name of a constant.
fn find(source: TokenStream, found: &mut Vec<(Option<String>, String)>, all: &mut HashSet<String>) {
    let (mut name, mut before, mut is_const) = (None, String::new(), false);
    for word in source {
        match &word {
            TokenTree::Literal(literal) => {
                found.extend(text_of(literal).map(|text| (name.take(), text)));
            }
            TokenTree::Group(group) => {
                if ["whole", "ids"].contains(&&*before) {
                    let first = group.stream().into_iter().next();
                    all.extend(first.and_then(|first| match first {
                        TokenTree::Literal(literal) => text_of(&literal),
                        TokenTree::Group(pair) => {
                            pair.stream().into_iter().find_map(|it| match it {
                                TokenTree::Literal(literal) => text_of(&literal),
                                _ => None,
                            })
                        }
                        other => Some(other.to_string()),
                    }));
                }
                find(group.stream(), found, all);
            }
            TokenTree::Ident(ident) if is_const => name = Some(ident.to_string()),
            _ => {}
        }
        before = word.to_string();
        is_const = before == "const";
    }
}

/// Returns the text of a literal, if it is one.
fn text_of(literal: &Literal) -> Option<String> {
    let source = literal.to_string();
    let inner = source.strip_prefix('"')?.strip_suffix('"')?;
    let lines = inner.split("\\\n").enumerate();
    Some(lines.map(|(n, line)| if n > 0 { line.trim_start() } else { line }).collect())
}

/// No statement but those that read all of a table reads more rows than it returns. An index with a condition is used
/// only if the statement repeats the condition: one that did not made each end of a kept job read all of them.
#[test]
fn statements_find_their_rows_by_an_index() {
    let conn = Connection::open_in_memory().unwrap();
    let sql = Sql::new(None);
    let tables = Tables { conn: &conn, sql: &sql };
    for made in [TABLES, PART_INDEX] {
        tables.make(made).unwrap();
    }
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
        "ended_list",
        "remembered",
        "cancel_requested",
        "progress",
        "grp",
        "grp_result",
        "member",
        "callback",
    ];
    let mut explained = 0;
    assert_eq!(statements.iter().filter(|it| it.reads_all).count(), 20);
    for Statement { text, .. } in statements.into_iter().filter(|it| !it.reads_all) {
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
            assert!(!scans || one_end, "{step}: {text}");
            assert!(!step.contains("TEMP B-TREE"), "{text} sorts: {step}");
        }
    }
    assert!(explained > 60, "{explained}");
}
