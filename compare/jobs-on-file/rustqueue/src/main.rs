//! rustqueue as a contender: its library on redb, every commit `Immediate`, so all of it is `synced`.
//! Between that and its modes that keep jobs in memory there is no level `written`.
//!
//! Its own worker takes and ends one job at a time, with three commits a job, and polls every 500
//! ms. This program drives the same `QueueManager` in batches, and wakes its worker after each
//! insert, so that the queue is measured and not its worker. With many callers the inserts are
//! coalesced (`BufferedRedbStorage` with its defaults: 10 ms or 100 jobs), and with one caller they
//! are direct.

use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use contender::{Contender, Due, Fallible, Level, NewJob, Payload, Setup, distant_job, wall_ns};
use rustqueue::engine::queue::{BatchAckItem, BatchPushItem, JobOptions, QueueManager};
use rustqueue::engine::scheduler::start_scheduler;
use rustqueue::storage::{BufferedRedbConfig, BufferedRedbStorage, RedbStorage, StorageBackend};
use tokio::runtime::Runtime;
use tokio::sync::Notify;

const QUEUE: &str = "orders";
const NAME: &str = "close-order";
const PULL: u32 = 1000;
/// The interval of its own worker.
const POLL: Duration = Duration::from_millis(500);
/// The interval in the rows that measure lateness.
const EAGER_POLL: Duration = Duration::from_millis(10);
/// The default interval of its housekeeping, which finds delayed jobs.
const TICK_MS: u64 = 1000;
/// As it comes.
const STALL_MS: u64 = 30_000;

struct RustQueue {
    runtime: Runtime,
    manager: Arc<QueueManager>,
    wake: Arc<Notify>,
    stop: Arc<AtomicBool>,
    worker: Option<tokio::task::JoinHandle<()>>,
}

fn item(job: NewJob) -> Fallible<BatchPushItem> {
    let delay_ms = match job.due {
        Due::Now => None,
        // Rounded up, so that this program does not make the job early.
        Due::At(due) => Some(u64::try_from(due - wall_ns()).unwrap_or(0).div_ceil(1_000_000)),
    };
    let options = JobOptions { delay_ms, remove_on_complete: Some(true), ..JobOptions::default() };
    let data = serde_json::to_value(&job.payload)?;
    Ok(BatchPushItem { name: NAME.to_owned(), data, options: Some(options) })
}

async fn work(
    manager: Arc<QueueManager>,
    wake: Arc<Notify>,
    stop: Arc<AtomicBool>,
    poll: Duration,
) {
    while !stop.load(Ordering::Relaxed) {
        let jobs = manager.pull(QUEUE, PULL).await.unwrap_or_default();
        if jobs.is_empty() {
            let _ = tokio::time::timeout(poll, wake.notified()).await;
            continue;
        }
        let mut ended = Vec::with_capacity(jobs.len());
        for job in jobs {
            if let Ok(payload) = serde_json::from_value::<Payload>(job.data) {
                contender::ran(&payload);
            }
            ended.push(BatchAckItem { id: job.id, result: None });
        }
        if let Err(error) = manager.ack_batch(ended).await {
            eprintln!("rustqueue: {error}");
        }
    }
}

impl Contender for RustQueue {
    fn open(setup: &Setup) -> Fallible<RustQueue> {
        if setup.level != Level::Synced {
            return Err("rustqueue has no level between redb's and memory".into());
        }
        let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
        let _in_runtime = runtime.enter();
        let file: Arc<dyn StorageBackend> = Arc::new(RedbStorage::new(&setup.path)?);
        let storage: Arc<dyn StorageBackend> = if setup.size_or("callers", 1) > 1 {
            Arc::new(BufferedRedbStorage::new(file, BufferedRedbConfig::default()))
        } else {
            file
        };
        let manager = Arc::new(QueueManager::new(storage));
        let (wake, stop) = (Arc::new(Notify::new()), Arc::new(AtomicBool::new(false)));
        let mut worker = None;
        if setup.works {
            let eager =
                matches!(&*setup.row, "late" | "life-random" | "instant" | "after-kill" | "file");
            let (tick, poll) = if eager { (10, EAGER_POLL) } else { (TICK_MS, POLL) };
            let retention = Default::default();
            drop(start_scheduler(Arc::clone(&manager), tick, STALL_MS, retention));
            let work = work(Arc::clone(&manager), Arc::clone(&wake), Arc::clone(&stop), poll);
            worker = Some(runtime.spawn(work));
        }
        drop(_in_runtime);
        Ok(RustQueue { runtime, manager, wake, stop, worker })
    }

    fn insert(&self, job: NewJob) -> Fallible {
        let BatchPushItem { name, data, options } = item(job)?;
        self.runtime.block_on(self.manager.push(QUEUE, &name, data, options))?;
        self.wake.notify_one();
        Ok(())
    }

    fn insert_many(&self, jobs: Vec<NewJob>) -> Fallible {
        let items = jobs.into_iter().map(item).collect::<Fallible<Vec<_>>>()?;
        self.runtime.block_on(self.manager.push_batch(QUEUE, items))?;
        self.wake.notify_one();
        Ok(())
    }

    fn insert_by(&self, callers: usize, until: Instant) -> Fallible<u64> {
        let caller = |manager: Arc<QueueManager>| async move {
            let mut inserted = 0;
            while Instant::now() < until {
                let BatchPushItem { name, data, options } = item(distant_job())?;
                manager.push(QUEUE, &name, data, options).await?;
                inserted += 1;
            }
            Fallible::Ok(inserted)
        };
        let callers: Vec<_> =
            (0..callers).map(|_| self.runtime.spawn(caller(Arc::clone(&self.manager)))).collect();
        let mut inserted = 0;
        for caller in callers {
            inserted += self.runtime.block_on(caller)??;
        }
        Ok(inserted)
    }

    fn unfinished(&self) -> Fallible<u64> {
        let counts = self.runtime.block_on(self.manager.get_queue_stats(QUEUE))?;
        Ok(counts.waiting + counts.active + counts.delayed)
    }

    fn close(self) -> Fallible {
        self.stop.store(true, Ordering::Relaxed);
        self.wake.notify_one();
        if let Some(worker) = self.worker {
            self.runtime.block_on(worker)?;
        }
        drop(self.manager);
        self.runtime.shutdown_timeout(Duration::from_secs(5));
        Ok(())
    }
}

fn main() -> ExitCode {
    contender::main::<RustQueue>()
}
