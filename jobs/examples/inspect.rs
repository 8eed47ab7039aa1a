//! Two processes and one file: a worker runs the jobs, and this process inserts, lists, cancels,
//! moves and retries them through a client, while the worker runs.
//!
//! ```sh
//! cargo run --release -p tickwheel-jobs --example inspect
//! ```
//!
//! It takes a few seconds and exits with 1 if something is not as promised. The command
//! `tickwheel-jobs` does the same from a shell.
//!
//! What to know before this is copied:
//!
//! - **One process runs the jobs of a file**, and a second one is refused by name. Any number of
//!   others are clients, without a thread.
//! - **The worker notices what a client did within a second.** A client has no way to nudge it.
//! - **A job that is due within 50 ms** has the state `Claimed` for a client, because the worker has
//!   claimed it: a cancel asks it to stop then, and says so.
//! - The worker here is this program, started again with the name of the file. It ends when its
//!   standard input does, so it never outlives its parent.

#![forbid(unsafe_code)]
#![allow(clippy::disallowed_methods, reason = "this process waits for another")]

use std::error::Error;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;
use std::{env, fs, io, process, thread};

use serde::{Deserialize, Serialize};
use tickwheel_jobs::{Fail, Job, JobInfo, Jobs, OpenError};

type Result<T, E = Box<dyn Error>> = std::result::Result<T, E>;

#[derive(Serialize, Deserialize, Debug)]
struct Push {
    to: String,
}

impl Job for Push {
    const KIND: &'static str = "push";
}

const HOUR: Duration = Duration::from_secs(3600);

fn main() -> Result<()> {
    if let Some(file) = env::args_os().nth(1) {
        return work(Path::new(&file));
    }
    let folder = env::temp_dir().join(format!("tickwheel-inspect-{}", process::id()));
    fs::create_dir_all(&folder)?;
    let result = look(&folder.join("jobs.db"));
    fs::remove_dir_all(&folder)?;
    result
}

/// The worker. The address of somebody is a file beside that of the jobs.
fn work(file: &Path) -> Result<()> {
    let jobs_file = file.to_owned();
    let jobs = Jobs::open(file)?
        .handle(move |push: Push, _| {
            if !fs::exists(jobs_file.with_file_name(&push.to))? {
                return Err(Fail::dead(format!("no address of {}", push.to)));
            }
            println!("    worker: sent to {}", push.to);
            Ok(())
        })
        .start()?;
    io::copy(&mut io::stdin(), &mut io::sink())?;
    Ok(jobs.shutdown()?)
}

fn look(file: &Path) -> Result<()> {
    let client = Jobs::open(file)?.client()?;
    fs::write(file.with_file_name("ann"), "")?;
    let mut worker = Command::new(env::current_exe()?).arg(file).stdin(Stdio::piped()).spawn()?;

    println!("insert: a push to Ann now, one to Bob and one to Eve in an hour");
    let push = |to: &str| Push { to: to.to_owned() };
    let ann = client.insert(Duration::ZERO, push("ann"))?;
    let bob = client.insert(HOUR, push("bob"))?;
    let eve = client.insert(HOUR, push("eve"))?;
    until("the push to Ann has run", || Ok(client.get(ann)?.is_none()))?;
    let second = Jobs::open(file)?.handle(|_: Push, _| Ok(())).start();
    promise("a second worker is refused", matches!(second, Err(OpenError::InUse { .. })))?;
    let pending: Vec<JobInfo> = client.pending().kind::<Push>().collect();
    for job in &pending {
        println!("    {} {:?}", job.id, job.job::<Push>()?);
    }
    promise("two are pending", pending.iter().map(|job| job.id).eq([bob, eve]))?;

    println!("cancel: the push to Bob");
    promise("it will never run", client.cancel(bob)?.is_cancelled())?;

    println!("move: the push to Eve is due now, and nobody knows her address");
    promise("it was moved", client.reschedule(eve, Duration::ZERO)?)?;
    until("it is dead", || Ok(client.count()?.dead == 1))?;
    for dead in client.dead() {
        println!("    {} {:?}, failures: {}", dead.id, dead.error, dead.failures);
    }
    let dead = client.dead().next().ok_or("nothing is dead")?;
    promise("its reason is told", dead.error.as_deref() == Some("no address of eve"))?;

    println!("retry: once her address is known");
    fs::write(file.with_file_name("eve"), "")?;
    promise("it is pending again", client.retry(eve)?)?;
    until("it has run", || Ok(client.get(eve)?.is_none()))?;

    println!("the end");
    drop(worker.stdin.take());
    promise("the worker ended well", worker.wait()?.success())?;
    let left = client.count()?;
    promise("nothing is left", left.pending + left.claimed + left.dead == 0)?;
    Ok(client.check()?)
}

/// Waits until something holds, for longer than it takes on a loaded machine.
fn until(what: &str, holds: impl Fn() -> Result<bool>) -> Result<()> {
    let mut tries = 0..1000;
    while !holds()? && tries.next().is_some() {
        thread::sleep(Duration::from_millis(20));
    }
    promise(what, holds()?)
}

fn promise(what: &str, holds: bool) -> Result<()> {
    println!("    {}: {what}", if holds { "ok" } else { "BROKEN" });
    if holds { Ok(()) } else { Err(format!("a promise is broken: {what}").into()) }
}
