//! Jobs on a file, and what the parent sees of it while no child is there.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use tickwheel_jobs::rusqlite::{Connection, OpenFlags};
use tickwheel_jobs::{Builder, Jobs, OpenError};

use crate::deaths::contents;
use crate::deaths::lives::Result;
use crate::deaths::place::Place;
use crate::deaths::record::{FileEnd, Look};

/// The tables that are empty in the end.
const TABLES: [&str; 11] = [
    "job",
    "moved",
    "key",
    "claim",
    "cancel_requested",
    "progress",
    "ended",
    "ended_list",
    "remembered",
    "dead_by_error",
    "schedule",
];

/// A file is always there.
pub(crate) struct File;

impl Place for File {
    fn open(at: &Path) -> std::result::Result<Builder, OpenError> {
        Jobs::open(at)
    }
}

/// Opens the file twice, and compares. Returns nothing if there is no file yet.
pub(crate) fn look(path: &Path) -> Result<Option<Look>> {
    if !path.exists() {
        return Ok(None);
    }
    let mut look = contents::look(|| Ok(Jobs::open(path)?.client()?))?;
    let history = contents::history_violation(&Jobs::open(path)?.client()?)?;
    look.violation = look.violation.or(history);
    Ok(Some(look))
}

/// Purges the dead and the remembered ids, and returns what is left.
pub(crate) fn end(path: &Path) -> Result<FileEnd> {
    let jobs = look(path)?.ok_or("there is no file")?.jobs;
    // As if the time of all that has ended were over.
    let conn = connection(path)?;
    for table in ["ended_list", "remembered"] {
        conn.execute(&format!("UPDATE tickwheel_{table} SET until = 0"), [])?;
    }
    drop(conn);
    let end = contents::purged(jobs, Jobs::open(path)?, || rows(path))?;
    let size = |path: PathBuf| fs::metadata(path).map_or(0, |file| file.len());
    let log = PathBuf::from(format!("{}-wal", path.display()));
    Ok(FileEnd { bytes: size(path.to_owned()), log_bytes: size(log), ..end })
}

fn connection(path: &Path) -> Result<Connection> {
    let conn = Connection::open_with_flags(path, OpenFlags::SQLITE_OPEN_READ_WRITE)?;
    conn.busy_timeout(Duration::from_secs(10))?;
    Ok(conn)
}

/// Returns how many rows each table has that are not to stay.
fn rows(path: &Path) -> Result<Vec<(String, u64)>> {
    let conn = connection(path)?;
    let counted = |name: &str, count: &str| -> Result<(String, u64)> {
        Ok((name.to_owned(), conn.query_row(count, [], |row| row.get::<_, u32>(0))?.into()))
    };
    let table = |name: &&str| counted(name, &format!("SELECT count(*) FROM tickwheel_{name}"));
    let mut rows = TABLES.iter().map(table).collect::<Result<Vec<_>>>()?;
    let jobs = "SELECT coalesce(sum(abs(jobs)), 0) FROM tickwheel_kind";
    rows.push(counted("kind.jobs", jobs)?);
    Ok(rows)
}
