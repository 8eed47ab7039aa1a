//! The query of `docs/recipes-tests.md` runs on a file of this version, and finds what it says it finds.

use std::fs;
use std::path::Path;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use tickwheel_jobs::rusqlite::{Connection, OpenFlags};
use tickwheel_jobs::{Job, Jobs};

#[derive(Serialize, Deserialize)]
struct Close {
    order: u64,
}

impl Job for Close {
    const KIND: &'static str = "close-order";
}

/// The query of the recipe finds the rows that the page promises.
#[test]
fn cookbook_query_finds_its_rows() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("shop.db");
    let jobs = Jobs::open(&file).unwrap().client().unwrap();
    let day = Duration::from_secs(24 * 3600);
    for days in [0, 1, 30] {
        jobs.insert(days * day, Close { order: 1000 + u64::from(days) }).unwrap();
    }
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let text = fs::read_to_string(root.join("docs/recipes-tests.md")).unwrap();
    let (_, query) = text.split_once("```sql\n").unwrap();
    let (query, rest) = query.split_once("```").unwrap();
    assert!(!rest.contains("```sql"), "a second query");
    let conn = Connection::open_with_flags(&file, OpenFlags::SQLITE_OPEN_READ_ONLY).unwrap();
    let found = conn.query_row(query, [], |row| Ok((row.get(1)?, row.get(4)?)));
    assert_eq!(found, Ok(("close-order".to_owned(), 0)));
}
