//! bullmq-official as a contender.
//!
//! Jobs go in by `add_bulk`, and are removed when they complete. A worker runs 100 at once, because
//! its jobs wait for the server, not for the processor. A delay counts from `timestamp`, so the
//! store has the exact millisecond. A worker renews its lock at half of the lock's time. A sweep,
//! which runs as often, finds lost locks; the first sweep only marks them.

use std::process::ExitCode;
use std::time::{Duration, SystemTime};

use bullmq::options::{RateLimiterOptions, RedisConnectionOptions};
use bullmq::types::RemoveOnFinish;
use bullmq::worker::CancellationToken;
use bullmq::{BulkJob, Job, JobOptions, Queue, QueueOptions, Worker, WorkerOptions};
use contender::{Contender, Fallible, NEVER_REACHED, NewJob, Payload, QUEUE, Setup};
use tokio::runtime::Runtime;

const CONCURRENCY: usize = 100;

struct Official {
    runtime: Runtime,
    queue: Queue,
    /// The worker. It runs jobs until it is dropped.
    _worker: Option<Worker>,
}

fn bulk(job: NewJob) -> BulkJob {
    let options = JobOptions::new();
    let options = match job.now {
        true => options,
        false => {
            let now = SystemTime::now();
            let delay = job.system_time().duration_since(now).unwrap_or_default();
            // Both are cut to whole milliseconds, and their sum is the due time.
            let delay = Duration::from_millis(delay.as_millis() as u64);
            options.timestamp(job.system_time() - delay).delay(delay)
        }
    };
    BulkJob::with_options("close-order", job.payload, options)
}

impl Contender for Official {
    fn open(setup: &Setup) -> Fallible<Official> {
        let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
        let connection = || RedisConnectionOptions::new().url(&setup.url);
        let done = RemoveOnFinish::Bool(true);
        let options = QueueOptions::new()
            .connection(connection())
            .default_job_options(JobOptions::new().remove_on_complete(done));
        let queue = runtime.block_on(Queue::with_options(QUEUE, options))?;
        let hold = setup.hold;
        let run = move |job: Job, _: CancellationToken| async move {
            let payload: Payload = serde_json::from_value(job.data().clone())?;
            contender::ran(&payload);
            if !hold.is_zero() {
                tokio::time::sleep(hold).await;
            }
            Ok::<_, bullmq::Error>(serde_json::Value::Null)
        };
        let options = WorkerOptions::new()
            .connection(connection())
            .concurrency(CONCURRENCY)
            .lock_duration(setup.lease)
            .stalled_interval((setup.lease / 2).max(Duration::from_millis(1)))
            .remove_on_complete(RemoveOnFinish::Bool(true));
        let options = match setup.limited {
            true => options
                .limiter(RateLimiterOptions::new(NEVER_REACHED.into(), Duration::from_secs(1))),
            false => options,
        };
        let worker = match setup.works {
            true => Some(runtime.block_on(Worker::with_options(QUEUE, run, options))?),
            false => None,
        };
        Ok(Official { runtime, queue, _worker: worker })
    }

    fn insert_many(&mut self, jobs: Vec<NewJob>) -> Fallible {
        self.runtime.block_on(self.queue.add_bulk(jobs.into_iter().map(bulk).collect()))?;
        Ok(())
    }

    fn insert(&mut self, job: NewJob) -> Fallible {
        self.runtime.block_on(async { self.queue.add("close-order", job.payload).await })?;
        Ok(())
    }

    fn unfinished(&mut self) -> Fallible<u64> {
        let counts = self.runtime.block_on(self.queue.get_job_counts())?;
        Ok(counts.waiting + counts.active + counts.delayed + counts.prioritized + counts.failed)
    }
}

fn main() -> ExitCode {
    contender::main::<Official>()
}
