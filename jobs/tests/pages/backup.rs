use std::time::Duration;
use tickwheel_jobs::rusqlite::{Connection, OpenFlags};
use tickwheel_jobs::{Job, Jobs};

#[derive(serde::Serialize, serde::Deserialize)]
struct CloseOrder { order: u64 }
impl Job for CloseOrder { const KIND: &'static str = "close-order"; }

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let jobs = Jobs::open("shop.db")?.handle(|_: CloseOrder, _| Ok(())).start()?;
    jobs.insert(Duration::from_secs(3600), CloseOrder { order: 1001 })?;
    let reader = Connection::open_with_flags("shop.db", OpenFlags::SQLITE_OPEN_READ_ONLY)?;
    let _ = std::fs::remove_file("backup.db"); // the backup before: SQLite replaces no file
    reader.execute("VACUUM INTO 'backup.db'", [])?;
    Ok(Jobs::open("backup.db")?.client()?.check()?)
}
