//! The worker: a process that closes orders, and what the shop does with it.

use std::io::Read;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::SystemTime;
use std::{env, io};

use crate::log::{Log, micros};
use crate::place::Place;
use crate::{CloseOrder, Result};

/// The first argument of a worker. The log, the worker's number and the place follow.
pub(crate) const FLAG: &str = "--worker";

/// Closes orders until standard input ends.
pub(crate) fn main(args: &[String]) -> Result<()> {
    let [log, number, place @ ..] = args else { return Err("a worker has a log".into()) };
    let log = Log::open(Path::new(log), number.parse()?)?;
    let close = move |close: CloseOrder, run: &tickwheel_jobs::Run| {
        log.append(close.order, run)?;
        Ok(())
    };
    let jobs = Place::from_args(place)?.builder()?.on(close).start()?;
    io::stdin().read_to_end(&mut Vec::new())?;
    jobs.shutdown()?;
    Ok(())
}

/// The workers of a shop, one after the other.
pub(crate) struct Workers<'a> {
    place: &'a Place,
    log: &'a Path,
    running: Child,
    /// When each of them was started, in microseconds since 1970.
    pub(crate) started: Vec<u64>,
    /// When each of them but the last was killed.
    pub(crate) killed: Vec<u64>,
}

impl<'a> Workers<'a> {
    pub(crate) fn start(place: &'a Place, log: &'a Path) -> Result<Workers<'a>> {
        let started = vec![micros(SystemTime::now())];
        let running = spawn(place, log, 0)?;
        Ok(Workers { place, log, running, started, killed: Vec::new() })
    }

    /// Kills the worker with SIGKILL, and starts the next one.
    pub(crate) fn kill(&mut self) -> Result<()> {
        if let Some(status) = self.running.try_wait()? {
            return Err(format!("the worker ended by itself: {status}").into());
        }
        self.running.kill()?;
        self.running.wait()?;
        self.killed.push(micros(SystemTime::now()));
        self.started.push(micros(SystemTime::now()));
        self.running = spawn(self.place, self.log, self.killed.len())?;
        Ok(())
    }

    /// Asks the worker to shut down, and waits for it.
    pub(crate) fn end(&mut self) -> Result<()> {
        drop(self.running.stdin.take());
        let status = self.running.wait()?;
        if status.success() { Ok(()) } else { Err(format!("the worker ended: {status}").into()) }
    }
}

impl Drop for Workers<'_> {
    /// Does not leave a worker behind when the shop fails.
    fn drop(&mut self) {
        let _ = self.running.kill();
        let _ = self.running.wait();
    }
}

fn spawn(place: &Place, log: &Path, number: usize) -> Result<Child> {
    let mut command = Command::new(env::current_exe()?);
    command.arg(FLAG).arg(log).arg(number.to_string()).args(place.to_args());
    Ok(command.stdin(Stdio::piped()).spawn()?)
}
