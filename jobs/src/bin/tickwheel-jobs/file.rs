//! Opens an existing file.
//!
//! Ground rules:
//!
//! - `Jobs::open` makes the file and the tables of a queue if they are absent. So a connection that can
//!   only read first checks that the file has the tables of the queue.
//! - If SQLite cannot read the file, `Jobs::open` reports why.
//! - A user who may only read the file must not make files beside it: the application could not write
//!   to them.

use std::error::Error;
use std::path::{Path, PathBuf};
use std::{fs, io};

use tickwheel_jobs::rusqlite::{self, Connection, OpenFlags};
use tickwheel_jobs::{Client, Jobs};

use crate::open::{Access, Place, Queue, Sizes};

const PREFIX: &str = "tickwheel_";
const TABLES: &str = "SELECT name FROM sqlite_schema \
     WHERE type = 'table' AND (name = 'tickwheel_meta' OR name GLOB 'tickwheel_?*__meta') ORDER BY name";

/// Returns a client of an existing queue.
pub(crate) fn client(
    file: &Path,
    queue: Option<&str>,
    access: Access,
) -> Result<(Client, Place), Box<dyn Error>> {
    if let Err(error) = fs::metadata(file) {
        return Err(format!("{}: {error}", file.display()).into());
    }
    if may_only_read_alone(file) {
        let reason = "this user may only read it, and no application has it open";
        return Err(format!("{}: {reason}", file.display()).into());
    }
    let found = queues(file);
    if let Ok(queues) = &found
        && !queues.contains(&queue.map(str::to_owned))
    {
        return Err(absent(file, queue, queues).into());
    }
    let builder = match access {
        Access::Look => Jobs::open_to_look(file)?,
        Access::Change(durability) => Jobs::open(file)?.durability(durability),
    };
    let builder = match queue {
        Some(queue) => builder.queue(queue),
        None => builder,
    };
    let client = builder.client()?;
    let found = found?;
    let has_default = found.contains(&None);
    let queues = found.into_iter().flatten().collect();
    let place = Place {
        name: file.display().to_string(),
        queue: queue.map(str::to_owned),
        has_default,
        queues,
        sizes: sizes(file),
    };
    Ok((client, place))
}

/// Returns a client of each queue of a file that exists.
pub(crate) fn all_queues(file: &Path) -> Result<Vec<Queue>, Box<dyn Error>> {
    // A file that cannot be read has no list: the client of the default queue says why.
    let mut names = match fs::metadata(file).is_ok() && !may_only_read_alone(file) {
        true => queues(file).unwrap_or_default(),
        false => Vec::new(),
    };
    if names.is_empty() {
        names.push(None);
    }
    names.sort_unstable();
    let open = |name: Option<String>| {
        let (client, _) = client(file, name.as_deref(), Access::Look)?;
        Ok((name, client))
    };
    names.into_iter().map(open).collect()
}

/// Says whether this user may only read the file, and no application has it open.
fn may_only_read_alone(file: &Path) -> bool {
    may_only_read(file) && !beside(file, "-shm").exists()
}

/// Says whether this user may not write to the file. It must be called before this process has a connection to
/// the file: closing the descriptor would drop the connection's locks.
fn may_only_read(file: &Path) -> bool {
    let opened = fs::File::options().write(true).open(file);
    opened.is_err_and(|error| error.kind() == io::ErrorKind::PermissionDenied)
}

/// Returns the queues of a file: `None` is the default one.
fn queues(file: &Path) -> rusqlite::Result<Vec<Option<String>>> {
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    // The path is made absolute, since a relative one might begin with "file:".
    let path = std::path::absolute(file).unwrap_or_else(|_| file.to_owned());
    let conn = Connection::open_with_flags(path, flags)?;
    let mut statement = conn.prepare(TABLES)?;
    let tables = statement.query_map([], |row| row.get::<_, String>(0))?;
    let queue = |table: String| {
        let rest = table.strip_prefix(PREFIX);
        rest.and_then(|rest| rest.strip_suffix("__meta")).map(str::to_owned)
    };
    tables.map(|table| table.map(queue)).collect()
}

fn absent(file: &Path, queue: Option<&str>, queues: &[Option<String>]) -> String {
    let file = file.display();
    let Some(queue) = queue else {
        return format!("{file} is no store of jobs: an SQLite database without tables of jobs");
    };
    let name = |queue: &Option<String>| match queue {
        None => "the default one".to_owned(),
        Some(queue) => format!("{queue:?}"),
    };
    let queues: Vec<String> = queues.iter().map(name).collect();
    let has = if queues.is_empty() { "none".to_owned() } else { queues.join(", ") };
    format!("{file} has no queue {queue:?}; it has {has}")
}

/// Returns the size of the file, and that of its log.
fn sizes(file: &Path) -> Sizes {
    let size = |path: &Path| fs::metadata(path).map_or(0, |file| file.len());
    Sizes::File { file: size(file), log: size(&beside(file, "-wal")) }
}

/// Returns the path of a file that SQLite keeps beside the database: beside the target of symbolic links.
fn beside(file: &Path, suffix: &str) -> PathBuf {
    let file = fs::canonicalize(file).unwrap_or_else(|_| file.to_owned());
    let mut path = file.into_os_string();
    path.push(suffix);
    path.into()
}
