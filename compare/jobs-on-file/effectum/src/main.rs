//! effectum as a contender.
//!
//! It sets `PRAGMA journal = wal`, which SQLite does not know, and `synchronous = normal`. So it runs
//! on a rollback journal: each commit waits for the disk two or three times. A power cut loses nothing,
//! except in a rare case that SQLite's documentation of `synchronous` describes. That is its level
//! `synced`.
//!
//! For `written` this program sets the file to WAL before effectum opens it, and the file stays in that
//! mode. With effectum's `synchronous = normal` a commit then does not wait for the disk, and survives
//! the end of the process.

use std::process::ExitCode;
use std::sync::Arc;
use std::time::{Duration, Instant};

use contender::{Contender, Due, Fallible, Level, NewJob, Payload, Setup, distant_job};
use effectum::{Error, Job, JobRunner, Queue, RunningJob, Worker};
use rusqlite::Connection;
use time::OffsetDateTime;
use tokio::runtime::Runtime;

const KIND: &str = "close-order";

/// How many jobs it may run at once. It fetches when fewer than half of them run.
const CONCURRENCY: u16 = 1024;

struct Effectum {
    runtime: Runtime,
    queue: Arc<Queue>,
    worker: Option<Worker>,
    counting: Connection,
}

/// [`Contender`] is shared by callers; only [`Contender::unfinished`] uses the connection.
struct Shared {
    effectum: std::sync::Mutex<Option<Effectum>>,
    queue: Arc<Queue>,
    handle: tokio::runtime::Handle,
}

async fn run(job: RunningJob, _: ()) -> Result<(), Error> {
    let payload: Payload = job.json_payload()?;
    contender::ran(&payload);
    Ok(())
}

fn built(job: NewJob) -> Result<Job, Error> {
    let builder = Job::builder(KIND).json_payload(&job.payload)?;
    Ok(match job.due {
        Due::Now => builder.build(),
        due => builder.run_at(OffsetDateTime::from(due.system_time())).build(),
    })
}

impl Contender for Shared {
    fn open(setup: &Setup) -> Fallible<Shared> {
        if setup.level == Level::Written {
            let file = Connection::open(&setup.path)?;
            let mode: String = file.query_row("PRAGMA journal_mode = WAL", [], |row| row.get(0))?;
            if mode != "wal" {
                return Err(format!("the file is in the mode {mode}").into());
            }
        }
        let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
        let queue = Arc::new(runtime.block_on(Queue::new(&setup.path))?);
        let worker = if setup.works {
            let runner = JobRunner::builder(KIND, run).build();
            let worker = Worker::builder(&queue, ())
                .jobs([runner])
                .min_concurrency(CONCURRENCY / 2)
                .max_concurrency(CONCURRENCY);
            Some(runtime.block_on(worker.build())?)
        } else {
            None
        };
        let counting = Connection::open(&setup.path)?;
        Ok(Shared {
            handle: runtime.handle().clone(),
            queue: Arc::clone(&queue),
            effectum: Some(Effectum { runtime, queue, worker, counting }).into(),
        })
    }

    fn insert(&self, job: NewJob) -> Fallible {
        self.handle.block_on(self.queue.add_job(built(job)?))?;
        Ok(())
    }

    fn insert_many(&self, jobs: Vec<NewJob>) -> Fallible {
        let jobs = jobs.into_iter().map(built).collect::<Result<Vec<Job>, Error>>()?;
        self.handle.block_on(self.queue.add_jobs(jobs))?;
        Ok(())
    }

    fn insert_by(&self, callers: usize, until: Instant) -> Fallible<u64> {
        let caller = |queue: Arc<Queue>| async move {
            let mut inserted = 0;
            while Instant::now() < until {
                queue.add_job(built(distant_job())?).await?;
                inserted += 1;
            }
            Ok::<u64, Error>(inserted)
        };
        let callers: Vec<_> =
            (0..callers).map(|_| self.handle.spawn(caller(Arc::clone(&self.queue)))).collect();
        let mut inserted = 0;
        for caller in callers {
            inserted += self.handle.block_on(caller)??;
        }
        Ok(inserted)
    }

    fn unfinished(&self) -> Fallible<u64> {
        let effectum = self.effectum.lock().expect("a caller panicked");
        let effectum = effectum.as_ref().ok_or("it is closed")?;
        let sql = "SELECT count(*) FROM active_jobs";
        Ok(effectum.counting.query_row(sql, [], |row| row.get(0))?)
    }

    fn close(self) -> Fallible {
        let Some(effectum) = self.effectum.into_inner().expect("a caller panicked") else {
            return Ok(());
        };
        let Effectum { runtime, queue, worker, counting } = effectum;
        drop(counting);
        if let Some(worker) = worker {
            runtime.block_on(worker.unregister(Some(Duration::from_secs(10))))?;
        }
        runtime.block_on(queue.close(Duration::from_secs(10)))?;
        // Its `Drop` spawns a task.
        let _in_runtime = runtime.enter();
        drop((queue, self.queue));
        Ok(())
    }
}

fn main() -> ExitCode {
    contender::main::<Shared>()
}
