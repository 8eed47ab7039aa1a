//! A process that runs tasks on a disk in memory, on a manual clock: between two calls nothing happens.

use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime};

use tickwheel_jobs::{Client, Driver, Durability, JobId, Jobs, OpenError, Run};

use super::task::{CHAIN_MS, Plan, Task, retry};
use super::{Disk, ffi};

/// The file of the jobs on each disk.
const FILE: &str = "jobs.db";

/// A run of a handler.
#[derive(Clone, Debug)]
pub(crate) struct Ran {
    pub(crate) id: JobId,
    pub(crate) task: Task,
    /// The end of the record when it started.
    pub(crate) position: usize,
    /// The job that the handler inserted, and the length of the record at the answer to the insert.
    pub(crate) inserted: Option<(JobId, usize)>,
    /// Its follow-up, which is there if and only if the end of the run is.
    pub(crate) follow_up: Option<JobId>,
}

/// A process that runs jobs on a disk.
pub(crate) struct Process {
    pub(crate) disk: Arc<Disk>,
    pub(crate) jobs: Jobs,
    pub(crate) driver: Driver,
    runs: Arc<Mutex<Vec<Ran>>>,
}

impl Process {
    /// Starts on a disk that works, at a time of the wall clock.
    pub(crate) fn start(disk: Disk, durability: Durability, now: Option<SystemTime>) -> Process {
        let process = Process::open(&Arc::new(disk), durability);
        let process = process.expect("the disk has jobs, or nothing");
        if let Some(now) = now {
            process.driver.set_wall(now);
        }
        process
    }

    pub(crate) fn open(disk: &Arc<Disk>, durability: Durability) -> Result<Process, OpenError> {
        let disk = Arc::clone(disk);
        let runs = Arc::new(Mutex::new(Vec::new()));
        let handler = {
            let (disk, runs) = (Arc::clone(&disk), Arc::clone(&runs));
            move |task: Task, run: &Run| {
                let position = disk.position();
                let inserted = (task.plan == Plan::Chain).then(|| {
                    // The commit of the insert writes it.
                    run.set_progress(&task.n).expect("a number serializes");
                    let next = Task::new(task.n + 500_000, Plan::Succeed);
                    let id = run.client().insert(Duration::from_millis(CHAIN_MS), next);
                    (id.expect("a handler may insert"), disk.position())
                });
                let follow_up = (task.plan == Plan::Then).then(|| {
                    let next = Task::new(task.n + 500_000, Plan::Succeed);
                    run.then(Duration::from_millis(CHAIN_MS), next).expect("there is room")
                });
                runs.lock().expect("no handler panics").push(Ran {
                    id: run.id(),
                    task: task.clone(),
                    position,
                    inserted,
                    follow_up,
                });
                run.set_result(&1)?;
                task.result()
            }
        };
        let builder = Jobs::open_with_vfs(disk.path(FILE), ffi::NAME)?.durability(durability);
        let (jobs, driver) = builder.handle_with(retry(), handler).manual()?;
        Ok(Process { disk, jobs, driver, runs })
    }

    /// Returns the runs since the last [`Process::take_runs`].
    pub(crate) fn runs(&self) -> Vec<Ran> {
        self.runs.lock().expect("no handler panics").clone()
    }

    /// Returns the runs since the last call of this.
    pub(crate) fn take_runs(&self) -> Vec<Ran> {
        std::mem::take(&mut self.runs.lock().expect("no handler panics"))
    }

    /// Ends the process at once. Returns a copy of the disk as it is now.
    pub(crate) fn kill(self) -> Disk {
        let left = self.disk.fork();
        drop(self.jobs);
        left
    }

    pub(crate) fn shut_down(self) -> Disk {
        let Process { disk, jobs, driver, .. } = self;
        jobs.shutdown().expect("the disk works");
        drop(driver);
        disk.fork()
    }
}

/// Opens the file of the jobs as a client, beside the process that runs them, and checks it.
pub(crate) fn client(disk: &Disk) -> Client {
    let builder = Jobs::open_with_vfs(disk.path(FILE), ffi::NAME).expect("a builder");
    let client = builder.client().expect("what a crash leaves can be opened");
    client.check().expect("what a crash leaves is in order");
    client
}
