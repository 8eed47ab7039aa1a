//! honker as a contender: SQLite in WAL mode with `synchronous = NORMAL`, which is `written`; for
//! `synced` this program sets `FULL` on honker's connection.
//!
//! It has no worker of its own: this program claims in batches, woken by honker's `ClaimWaker`, and
//! acknowledges in batches.

use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;

use contender::{Contender, Due, Fallible, Level, NewJob, Payload, Setup};
use honker::{Database, EnqueueOpts, Queue, QueueOpts};

const QUEUE: &str = "orders";
const WORKER: &str = "worker";
const CLAIM: i64 = 1000;
/// Wakes the worker, so that it stops.
const STOP: u64 = u64::MAX;

struct Honker {
    database: Database,
    queue: Queue,
    stop: Arc<AtomicBool>,
    worker: Option<JoinHandle<()>>,
}

fn options(due: Due) -> EnqueueOpts {
    EnqueueOpts { run_at: due.whole_second(), ..EnqueueOpts::default() }
}

fn handle(payload: &[u8]) {
    if let Ok(payload) = serde_json::from_slice::<Payload>(payload)
        && payload.number != STOP
    {
        contender::ran(&payload);
    }
}

fn work(queue: &Queue, stop: &AtomicBool) -> Fallible {
    let waker = queue.claim_waker();
    while !stop.load(Ordering::Relaxed) {
        let Some(first) = waker.next(WORKER)? else { return Ok(()) };
        handle(&first.payload);
        let mut ended = vec![first.id];
        loop {
            let jobs = queue.claim_batch(WORKER, CLAIM)?;
            if jobs.is_empty() && ended.is_empty() {
                break;
            }
            for job in jobs {
                handle(&job.payload);
                ended.push(job.id);
            }
            queue.ack_batch(&std::mem::take(&mut ended), WORKER)?;
        }
    }
    Ok(())
}

impl Contender for Honker {
    fn open(setup: &Setup) -> Fallible<Honker> {
        let database = Database::open(&setup.path)?;
        if setup.level == Level::Synced {
            database.with_conn(|conn| conn.execute_batch("PRAGMA synchronous = FULL"))?;
        }
        let queue = database.queue(QUEUE, QueueOpts::default());
        let stop = Arc::new(AtomicBool::new(false));
        let worker = setup.works.then(|| {
            let (queue, stop) = (queue.clone(), Arc::clone(&stop));
            std::thread::spawn(move || {
                if let Err(error) = work(&queue, &stop) {
                    eprintln!("honker: {error}");
                }
            })
        });
        Ok(Honker { database, queue, stop, worker })
    }

    fn insert(&self, job: NewJob) -> Fallible {
        self.queue.enqueue(&job.payload, options(job.due))?;
        Ok(())
    }

    fn insert_many(&self, jobs: Vec<NewJob>) -> Fallible {
        let transaction = self.database.transaction()?;
        for job in jobs {
            self.queue.enqueue_tx(&transaction, &job.payload, options(job.due))?;
        }
        transaction.commit()?;
        Ok(())
    }

    fn unfinished(&self) -> Fallible<u64> {
        let sql = "SELECT count(*) FROM _honker_live WHERE state IN ('pending', 'processing')";
        let count: i64 =
            self.database.with_conn(|conn| conn.query_row(sql, [], |row| row.get(0)))?;
        Ok(u64::try_from(count)?)
    }

    fn close(self) -> Fallible {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(worker) = self.worker {
            let mut last = NewJob::now(STOP);
            last.payload.number = STOP;
            self.queue.enqueue(&last.payload, EnqueueOpts::default())?;
            worker.join().map_err(|_| "the worker panicked")?;
        }
        Ok(())
    }
}

fn main() -> ExitCode {
    contender::main::<Honker>()
}
