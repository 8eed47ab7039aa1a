//! The worker: a process that closes orders, and what the shop does with it.

use std::io::Read;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, SystemTime};
use std::{env, io, thread};

use tickwheel_jobs::Jobs;

use crate::log::{Log, micros};
use crate::place::Place;
use crate::{CloseOrder, Result};

/// The first argument of a worker. The log, the number of the process and the place follow.
pub(crate) const FLAG: &str = "--worker";

/// On a server one order in this many takes longer to close, so that incidents hit some runs.
const SLOW_ORDERS: u64 = 20;
const SLOW_CLOSE: Duration = Duration::from_millis(5);

/// How often a worker tries to start while the server is away: for ten seconds.
const STARTS: usize = 100;
const START_INTERVAL: Duration = Duration::from_millis(100);

/// Closes orders until standard input ends.
pub(crate) fn main(args: &[String]) -> Result<()> {
    let [log, number, place @ ..] = args else { return Err("a worker has a log".into()) };
    let log = Log::open(Path::new(log), number.parse()?)?;
    let place = Place::from_args(place)?;
    let (log, is_shared) = (Arc::new(log), place.is_shared());
    let close = move |close: CloseOrder, run: &tickwheel_jobs::Run| {
        log.append(close.order, run)?;
        if is_shared && close.order.is_multiple_of(SLOW_ORDERS) {
            thread::sleep(SLOW_CLOSE);
        }
        Ok(())
    };
    let start = || Ok(place.builder()?.handle(close.clone()).start()?);
    let mut started: Result<Jobs> = start();
    for _ in 0..STARTS {
        // The server may be away for a moment. A file is there.
        if started.is_ok() || !is_shared {
            break;
        }
        thread::sleep(START_INTERVAL);
        started = start();
    }
    let jobs = started?;
    io::stdin().read_to_end(&mut Vec::new())?;
    jobs.shutdown()?;
    Ok(())
}

/// A process of a worker. The times are microseconds since 1970.
pub(crate) struct Process {
    /// Which worker it was, counted from 0.
    pub(crate) worker: usize,
    pub(crate) started: u64,
    pub(crate) killed: Option<u64>,
    /// When it was stopped, and when it went on.
    pub(crate) stopped: Option<(u64, u64)>,
}

/// The workers of a shop: each is one process after another.
pub(crate) struct Workers<'a> {
    place: &'a Place,
    log: &'a Path,
    /// The process of each worker, and its number.
    running: Vec<(Child, usize)>,
    /// Which worker is stopped.
    stopped: Option<usize>,
    /// All that there ever were, by their numbers.
    pub(crate) processes: Vec<Process>,
}

impl<'a> Workers<'a> {
    pub(crate) fn start(place: &'a Place, log: &'a Path, many: usize) -> Result<Workers<'a>> {
        let mut workers =
            Workers { place, log, running: Vec::new(), stopped: None, processes: Vec::new() };
        for worker in 0..many {
            let spawned = workers.spawn(worker)?;
            workers.running.push(spawned);
        }
        Ok(workers)
    }

    fn spawn(&mut self, worker: usize) -> Result<(Child, usize)> {
        let number = self.processes.len();
        let started = micros(SystemTime::now());
        let mut command = Command::new(env::current_exe()?);
        command.arg(FLAG).arg(self.log).arg(number.to_string()).args(self.place.to_args());
        let child = command.stdin(Stdio::piped()).spawn()?;
        self.processes.push(Process { worker, started, killed: None, stopped: None });
        Ok((child, number))
    }

    /// Kills a worker with SIGKILL, and starts it again: this one, or the next if this one is
    /// stopped.
    pub(crate) fn kill(&mut self, worker: usize) -> Result<()> {
        let many = self.running.len();
        let is_stopped = self.stopped == Some(worker % many);
        let worker = (worker + usize::from(is_stopped)) % many;
        let (child, number) = &mut self.running[worker];
        if let Some(status) = child.try_wait()? {
            return Err(format!("a worker ended by itself: {status}").into());
        }
        child.kill()?;
        child.wait()?;
        self.processes[*number].killed = Some(micros(SystemTime::now()));
        if self.stopped == Some(worker) {
            self.stopped = None;
        }
        self.running[worker] = self.spawn(worker)?;
        Ok(())
    }

    /// Stops a worker with SIGSTOP.
    pub(crate) fn stop(&mut self, worker: usize) -> Result<()> {
        let worker = worker % self.running.len();
        let (child, number) = &self.running[worker];
        let now = micros(SystemTime::now());
        signal::stop(child)?;
        self.processes[*number].stopped = Some((now, u64::MAX));
        self.stopped = Some(worker);
        Ok(())
    }

    /// Lets the worker that was stopped go on.
    pub(crate) fn go_on(&mut self) -> Result<()> {
        if let Some(worker) = self.stopped.take() {
            let (child, number) = &self.running[worker];
            if let Some((_, until)) = &mut self.processes[*number].stopped {
                *until = micros(SystemTime::now());
            }
            signal::go_on(child)?;
        }
        Ok(())
    }

    /// Asks the workers to shut down, and waits for them.
    pub(crate) fn end(&mut self) -> Result<()> {
        for (child, _) in &mut self.running {
            drop(child.stdin.take());
        }
        for (child, _) in &mut self.running {
            let status = child.wait()?;
            if !status.success() {
                return Err(format!("a worker ended: {status}").into());
            }
        }
        Ok(())
    }
}

impl Drop for Workers<'_> {
    /// Does not leave a worker behind when the shop fails.
    fn drop(&mut self) {
        for (child, _) in &mut self.running {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

#[cfg(unix)]
mod signal {
    use std::process::Child;

    use nix::sys::signal::{Signal, kill};
    use nix::unistd::Pid;

    use crate::Result;

    pub(super) fn stop(child: &Child) -> Result<()> {
        Ok(kill(Pid::from_raw(child.id().try_into()?), Signal::SIGSTOP)?)
    }

    pub(super) fn go_on(child: &Child) -> Result<()> {
        Ok(kill(Pid::from_raw(child.id().try_into()?), Signal::SIGCONT)?)
    }
}

#[cfg(not(unix))]
mod signal {
    use std::process::Child;

    use crate::Result;

    pub(super) fn stop(_: &Child) -> Result<()> {
        Err("a process can be stopped on Unix only: --stops 0".into())
    }

    pub(super) fn go_on(_: &Child) -> Result<()> {
        Ok(())
    }
}
