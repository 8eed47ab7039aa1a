//! Jobs that outlast the program: at its end it saves the pending jobs to a file of JSON, and at its next
//! start it reloads them.
//!
//! ```sh
//! cargo run --release --example save_and_reload
//! ```
//!
//! The program takes twelve orders, which remind their customers and close. It stops after a second, as for a
//! deploy, and starts again half a second later: overdue jobs run at once, the others at their time. It
//! prints every job, and fails unless each has run exactly once. `save`, `load`, `start` and `stop` are the
//! part to copy.
//!
//! What to know before this is copied:
//!
//! - **A crash loses the jobs that were inserted since the last save**, and every reset and cancel since.
//!   Jobs that survive a crash are written at each insert: the crate `tickwheel-jobs` does that.
//! - **After a crash, jobs may run again**: the file has them until the next save. So a job checks first
//!   whether its work is still to be done.
//! - **A crash during a save leaves the old file or the new one**, and no mixture: the new one is written
//!   beside it, synced, and renamed. Two processes must not share a file: the later save wins.
//! - **Closures and jobs that repeat cannot be saved.** The program inserts them anew.
//! - **Times are those of the wall clock**, because no other clock lasts over a restart. A restart
//!   makes a job later by up to a tick.
//! - **Overdue jobs all run at the start**, in no promised order. `When::jitter` spreads them.

#![forbid(unsafe_code)]
#![allow(clippy::disallowed_methods, reason = "the first run takes a second")]

use std::error::Error;
use std::fs::{self, File};
use std::io::{self, Write};
use std::path::Path;
use std::sync::mpsc::{self, Sender};
use std::time::{Duration, SystemTime};
use std::{env, process, thread};

use serde::{Deserialize, Serialize};
use tickwheel::{Task, Wheel, When};

type Result<T, E = Box<dyn Error>> = std::result::Result<T, E>;

/// What is saved of a job. A variant that a file may hold is renamed only with a `#[serde(alias)]` for its
/// old name.
#[derive(PartialEq, Eq, PartialOrd, Ord, Debug, Serialize, Deserialize)]
enum Command {
    Close { order: u32 },
    Remind { order: u32 },
}

/// A job: its command, and a sender to the part of the program that does it, which each start makes anew.
struct OrderTask {
    command: Command,
    shop: Sender<Command>,
}

impl Task for OrderTask {
    fn run(self) {
        println!("{:?}", self.command);
        // An error means that the shop has ended. It ends after the wheel.
        let _ = self.shop.send(self.command);
    }
}

/// A job that was pending.
#[derive(Serialize, Deserialize)]
struct Saved {
    /// `None` for a job that is never due: a timer that was paused.
    due: Option<SystemTime>,
    command: Command,
}

/// Replaces the file. At every moment, also in a crash of the machine, it holds its old content or `jobs`.
fn save(file: &Path, jobs: &[Saved]) -> io::Result<()> {
    // In the same folder, because a rename to another file system is a copy.
    let unfinished = file.with_extension("new");
    let mut new = File::create(&unfinished)?;
    new.write_all(&serde_json::to_vec_pretty(jobs)?)?;
    // Before the rename: otherwise the new name may come to the disk before the content.
    new.sync_all()?;
    fs::rename(&unfinished, file)?;
    // The rename is an entry of the folder, which has a sync of its own.
    #[cfg(unix)]
    file.parent().map_or(Ok(()), |folder| File::open(folder)?.sync_all())?;
    Ok(())
}

/// Returns no jobs if there is no file yet.
fn load(file: &Path) -> Result<Vec<Saved>> {
    match fs::read(file) {
        Ok(text) => Ok(serde_json::from_slice(&text)?),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Vec::new()),
        Err(error) => Err(error.into()),
    }
}

/// Returns a wheel with the jobs of the file.
fn start(file: &Path, shop: &Sender<Command>) -> Result<Wheel> {
    let wheel = Wheel::new();
    let timers = load(file)?.into_iter().map(|Saved { due, command }| {
        let when = due.map_or(When::after(Duration::MAX), When::wall);
        (when, OrderTask { command, shop: shop.clone() })
    });
    let jobs = wheel.insert_batch(timers).map_err(|refused| refused.kind())?;
    println!("{} jobs reloaded", jobs.len());
    Ok(wheel)
}

/// Ends the wheel, and saves the pending jobs. A program does so at SIGTERM (crate `ctrlc`).
fn stop(file: &Path, wheel: &Wheel) -> Result<()> {
    // A service manager kills a program that takes longer. Jobs that outlast this are not saved.
    let jobs = wheel.shutdown_timeout(Duration::from_secs(30)).filter_map(|unfired| {
        let OrderTask { command, .. } = unfired.job.downcast().ok()?;
        Some(Saved { due: unfired.wall, command })
    });
    let jobs: Vec<Saved> = jobs.collect();
    println!("{} jobs saved to {}", jobs.len(), file.display());
    save(file, &jobs)?;
    Ok(())
}

fn main() -> Result<()> {
    const MS: Duration = Duration::from_millis(1);
    let file = env::temp_dir().join(format!("tickwheel-save-and-reload-{}.json", process::id()));
    let (shop, commands) = mpsc::channel();

    let wheel = start(&file, &shop)?;
    for order in 1..=12 {
        for (delay, command) in [(100, Command::Remind { order }), (200, Command::Close { order })]
        {
            wheel.insert(delay * order * MS, OrderTask { command, shop: shop.clone() });
        }
    }
    thread::sleep(1000 * MS);
    stop(&file, &wheel)?;
    thread::sleep(500 * MS);

    let wheel = start(&file, &shop)?;
    wheel.wait_idle();
    stop(&file, &wheel)?;
    assert!(load(&file)?.is_empty(), "nothing is left");
    fs::remove_file(&file)?;
    let mut done: Vec<Command> = commands.try_iter().collect();
    done.sort();
    let closings = (1..=12).map(|order| Command::Close { order });
    let reminders = (1..=12).map(|order| Command::Remind { order });
    assert!(done.into_iter().eq(closings.chain(reminders)), "each job ran, and none twice");
    Ok(())
}
