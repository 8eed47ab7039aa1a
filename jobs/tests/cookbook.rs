//! The queries of `docs/cookbook.md` run on a file of this version, and find what they say they find.

use std::fs;
use std::path::Path;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use tickwheel_jobs::rusqlite::{Connection, OpenFlags, types::Value};
use tickwheel_jobs::{Fail, Job, Jobs};

#[derive(Serialize, Deserialize)]
struct Close {
    order: u64,
}

impl Job for Close {
    const KIND: &'static str = "close-order";
}

/// The queries of the cookbook find the rows that the page promises.
#[test]
fn cookbook_queries_find_their_rows() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("shop.db");
    let (jobs, driver) = Jobs::open(&file)
        .unwrap()
        .handle(|close: Close, _| match close.order {
            0 => Err(Fail::dead("no such order")),
            _ => Ok(()),
        })
        .manual()
        .unwrap();
    let hour = Duration::from_secs(3600);
    jobs.insert(Duration::ZERO, Close { order: 0 }).unwrap();
    for days in [1, 30, 2] {
        jobs.insert(days * 24 * hour, Close { order: 1000 + u64::from(days) }).unwrap();
    }
    assert_eq!(driver.advance(Duration::from_secs(1)), 1);

    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let text = fs::read_to_string(root.join("docs/cookbook.md")).unwrap();
    let queries: Vec<&str> =
        text.split("```sql\n").skip(1).map(|rest| rest.split("```").next().unwrap()).collect();
    let conn = Connection::open_with_flags(&file, OpenFlags::SQLITE_OPEN_READ_ONLY).unwrap();
    let first_row = |query: &str| {
        let mut statement = conn.prepare(query).unwrap();
        let columns = statement.column_count();
        let row = statement.query_row([], |row| {
            (0..columns).map(|column| row.get(column)).collect::<Result<Vec<Value>, _>>()
        });
        row.unwrap_or_else(|error| panic!("{error}: {query}"))
    };
    let name = |text: &str| Value::Text(text.to_owned());
    assert_eq!(queries.len(), 3);
    let kinds = first_row(queries[0]);
    assert_eq!((&kinds[0], &kinds[1]), (&name("close-order"), &Value::Integer(3)));
    let order = first_row(queries[1]);
    assert_eq!(order[1], name("close-order"));
    let dead = first_row(queries[2]);
    assert_eq!((&dead[0], &dead[1]), (&name("close-order"), &name("no such order")));
    drop(jobs);
}
