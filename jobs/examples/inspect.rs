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
//! - **A job that is due within 50 ms** counts as running for a client, because the worker has
//!   claimed it: a cancel asks it to stop then, and says so.
//! - The worker here is this program, started again with the word `worker`. It ends when its standard
//!   input does, so it never outlives its parent.

#![forbid(unsafe_code)]

use std::collections::HashSet;
use std::error::Error;
use std::io::{BufRead, BufReader, Write, stdin};
use std::path::Path;
use std::process::{Child, ChildStdin, Command, ExitCode, Stdio};
use std::sync::{Arc, Mutex, PoisonError, mpsc};
use std::time::Duration;
use std::{env, fs, process, thread};

use serde::{Deserialize, Serialize};
use tickwheel_jobs::{Client, Event, Fail, Job, Jobs, OpenError};

#[derive(Serialize, Deserialize, Debug)]
struct Push {
    to: String,
}

impl Job for Push {
    const KIND: &'static str = "push";
}

const HOUR: Duration = Duration::from_secs(3600);
/// Longer than anything here takes on a loaded machine.
const LONG: Duration = Duration::from_secs(20);

fn main() -> ExitCode {
    let result = match env::args_os().nth(1) {
        Some(word) if word == "worker" => match env::args_os().nth(2) {
            Some(file) => work(Path::new(&file)),
            None => Err("worker FILE".into()),
        },
        _ => {
            let folder = env::temp_dir().join(format!("tickwheel-inspect-{}", process::id()));
            let result = fs::create_dir_all(&folder)
                .map_err(Into::into)
                .and_then(|()| look(&folder.join("jobs.db")));
            let _ = fs::remove_dir_all(&folder);
            result
        }
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("inspect: {error}");
            ExitCode::FAILURE
        }
    }
}

/// The worker: it knows how to reach Ann, and learns of others from its standard input.
fn work(file: &Path) -> Result<(), Box<dyn Error>> {
    let known = Arc::new(Mutex::new(HashSet::from(["ann".to_owned()])));
    let addresses = Arc::clone(&known);
    let jobs = Jobs::open(file)?
        .handle(move |push: Push, _| {
            let known = addresses.lock().unwrap_or_else(PoisonError::into_inner);
            if !known.contains(&push.to) {
                return Err(Fail::dead(format!("no address of {}", push.to)));
            }
            println!("sent {}", push.to);
            Ok(())
        })
        .on_event(|event| {
            if let Event::Died { error, .. } = event {
                println!("died {error}");
            }
        })
        .start()?;
    println!("ready");
    for name in stdin().lines() {
        known.lock().unwrap_or_else(PoisonError::into_inner).insert(name?);
        println!("learnt");
    }
    Ok(jobs.shutdown()?)
}

/// The worker, as this process sees it.
struct Worker {
    child: Child,
    input: Option<ChildStdin>,
    lines: mpsc::Receiver<String>,
}

impl Worker {
    fn start(file: &Path) -> Result<Worker, Box<dyn Error>> {
        let mut command = Command::new(env::current_exe()?);
        command.arg("worker").arg(file).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn()?;
        let (input, output) = (child.stdin.take(), child.stdout.take());
        let output = output.ok_or("the worker has no output")?;
        let (sender, lines) = mpsc::channel();
        thread::spawn(move || {
            for line in BufReader::new(output).lines().map_while(Result::ok) {
                println!("    worker: {line}");
                if sender.send(line).is_err() {
                    break;
                }
            }
        });
        Ok(Worker { child, input, lines })
    }

    /// Waits until the worker says this, and nothing else.
    fn says(&self, expected: &str) -> Result<(), Box<dyn Error>> {
        let line = self.lines.recv_timeout(LONG)?;
        promise(&format!("the worker says {expected:?}"), line == expected)
    }

    fn learn(&mut self, name: &str) -> Result<(), Box<dyn Error>> {
        if let Some(input) = &mut self.input {
            writeln!(input, "{name}")?;
        }
        self.says("learnt")
    }

    fn end(mut self) -> Result<(), Box<dyn Error>> {
        drop(self.input.take());
        let ended = self.child.wait()?;
        promise("the worker ended well", ended.success())
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        // Nothing but an error leaves the input open here.
        if self.input.is_some() {
            let _ = self.child.kill();
            let _ = self.child.wait();
        }
    }
}

fn look(file: &Path) -> Result<(), Box<dyn Error>> {
    let client = Jobs::open(file)?.client()?;
    let mut worker = Worker::start(file)?;
    worker.says("ready")?;
    let second = Jobs::open(file)?.handle(|_: Push, _| Ok(())).start();
    let refused = matches!(second, Err(OpenError::InUse { .. }));
    promise("a second worker is refused", refused)?;

    println!("insert: a push to Ann now, one to Bob and one to Eve in an hour");
    let push = |to: &str| Push { to: to.to_owned() };
    client.insert(Duration::ZERO, push("ann"))?;
    let bob = client.insert(HOUR, push("bob"))?;
    let eve = client.insert(HOUR, push("eve"))?;
    worker.says("sent ann")?;
    let pending: Vec<_> = client.pending().kind::<Push>().collect();
    for job in &pending {
        println!("    {} {:?}", job.id, job.job::<Push>()?);
    }
    let listed: Vec<_> = pending.iter().map(|job| job.id).collect();
    promise("two are pending", listed == [bob, eve])?;

    println!("cancel: the push to Bob");
    promise("it will never run", client.cancel(bob)?.is_cancelled())?;

    println!("move: the push to Eve is due now, and nobody knows her address");
    promise("it was moved", client.reschedule(eve, Duration::ZERO)?)?;
    worker.says("died no address of eve")?;
    for dead in client.dead() {
        println!("    {} {:?}, failures: {}", dead.id, dead.error, dead.failures);
    }
    promise("it is dead, with its reason", dead_is(&client, "no address of eve"))?;

    println!("retry: once the worker knows the address");
    worker.learn("eve")?;
    promise("it is pending again", client.retry(eve)?)?;
    worker.says("sent eve")?;

    println!("the end");
    worker.end()?;
    let left = client.count()?;
    promise("nothing is left", (left.pending, left.running, left.dead) == (0, 0, 0))?;
    client.check()?;
    Ok(())
}

fn dead_is(client: &Client, error: &str) -> bool {
    let dead: Vec<_> = client.dead().collect();
    dead.len() == 1 && dead[0].error.as_deref() == Some(error)
}

fn promise(what: &str, holds: bool) -> Result<(), Box<dyn Error>> {
    println!("    {}: {what}", if holds { "ok" } else { "BROKEN" });
    if holds { Ok(()) } else { Err(format!("a promise is broken: {what}").into()) }
}
