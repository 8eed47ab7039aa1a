//! What the parent sees of the file, while no child is there.

use std::error::Error;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use tickwheel_jobs::Jobs;
use tickwheel_jobs::rusqlite::{Connection, OpenFlags};

use super::child::handlers;
use super::contents;
use super::record::{FileEnd, Look};

type Result<T> = std::result::Result<T, Box<dyn Error>>;

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
    let conn = Connection::open_with_flags(path, OpenFlags::SQLITE_OPEN_READ_WRITE)?;
    conn.busy_timeout(Duration::from_secs(10))?;
    conn.execute("UPDATE tickwheel_ended SET until = 0", [])?;
    if has_kept(&conn)? {
        conn.execute("UPDATE tickwheel_kept_list SET until = 0", [])?;
    }
    drop(conn);
    // The purge leaves what was remembered in the same millisecond.
    std::thread::sleep(Duration::from_millis(3));
    let purging = handlers(Jobs::open(path)?).keep_dead(Duration::ZERO).start()?;
    let limit = SystemTime::now() + Duration::from_secs(10);
    while SystemTime::now() < limit && rows(path)?.iter().any(|(_, rows)| *rows > 0) {
        std::thread::sleep(Duration::from_millis(5));
    }
    purging.shutdown()?;
    let size = |path: PathBuf| fs::metadata(path).map_or(0, |file| file.len());
    let log = PathBuf::from(format!("{}-wal", path.display()));
    let rows = rows(path)?;
    Ok(FileEnd { jobs, rows, bytes: size(path.to_owned()), log_bytes: size(log) })
}

/// Says whether a job was kept in this file.
fn has_kept(conn: &Connection) -> Result<bool> {
    let tables = "SELECT count(*) FROM sqlite_schema WHERE name = 'tickwheel_kept_list'";
    Ok(conn.query_row(tables, [], |row| row.get::<_, u32>(0))? > 0)
}

/// Returns how many rows each table has that are not to stay.
fn rows(path: &Path) -> Result<Vec<(String, u64)>> {
    let conn = Connection::open_with_flags(path, OpenFlags::SQLITE_OPEN_READ_WRITE)?;
    conn.busy_timeout(Duration::from_secs(10))?;
    let mut counted = Vec::new();
    let kept: &[&str] = if has_kept(&conn)? { &["kept", "kept_list"] } else { &[] };
    let others = [
        "job",
        "moved",
        "key",
        "claim",
        "cancel_requested",
        "progress",
        "ended",
        "dead_by_error",
        "schedule",
    ];
    for table in others.iter().chain(kept) {
        let count = format!("SELECT count(*) FROM tickwheel_{table}");
        counted.push((
            (*table).to_owned(),
            conn.query_row(&count, [], |row| row.get::<_, u32>(0))?.into(),
        ));
    }
    let jobs = "SELECT coalesce(sum(abs(jobs)), 0) FROM tickwheel_kind";
    counted.push((
        "kind.jobs".to_owned(),
        conn.query_row(jobs, [], |row| row.get::<_, u32>(0))?.into(),
    ));
    Ok(counted)
}
