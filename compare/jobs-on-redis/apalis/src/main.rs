//! apalis-redis as a contender.
//!
//! Jobs go in by its own `push_tasks`, a script for each bulk. The worker takes 500 at once and
//! polls every 10 ms. Two things that are not needed are off: events, and the renewal of leases
//! (its jobs are shorter than a heartbeat). Results are on, because without them it would end no
//! job. It keeps times in whole seconds, so it is given the next whole second. Jobs that are done
//! stay in the store until `vacuum` is called.

use std::process::ExitCode;
use std::sync::OnceLock;
use std::time::Duration;

use apalis::prelude::*;
use apalis_redis::queries::push_tasks;
use apalis_redis::{Config, ConnectionManager, RedisStorage, RedisTask};
use contender::{Contender, Fallible, NewJob, Payload, QUEUE, Setup};
use tokio::runtime::Runtime;

const BATCH: usize = 500;
const INTERVAL: Duration = Duration::from_millis(10);
/// The number of heartbeats after which it gives a worker up.
const HEARTBEATS: usize = 2;

struct Apalis {
    runtime: Runtime,
    connection: ConnectionManager,
    config: Config,
}

/// How long each handler takes.
static HOLD: OnceLock<Duration> = OnceLock::new();

async fn run(payload: Payload) -> Result<(), BoxDynError> {
    contender::ran(&payload);
    let hold = HOLD.get().copied().unwrap_or_default();
    if !hold.is_zero() {
        tokio::time::sleep(hold).await;
    }
    Ok(())
}

fn task(job: NewJob) -> Fallible<RedisTask> {
    let builder = TaskBuilder::new(serde_json::to_vec(&job.payload)?);
    Ok(match job.now {
        true => builder.build(),
        false => builder.run_at_timestamp(job.payload.due.div_ceil(1_000_000)).build(),
    })
}

impl Contender for Apalis {
    fn open(setup: &Setup) -> Fallible<Apalis> {
        let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
        let connection = runtime.block_on(apalis_redis::connect(setup.url.as_str()))?;
        let config = Config::default()
            .queue(QUEUE)
            .batch_size(BATCH)
            .heartbeat_interval(setup.lease / HEARTBEATS as u32)
            .missed_heartbeats(HEARTBEATS)
            .lock_tasks(false)
            .emit_events(false)
            .persist_results(true);
        let _ = HOLD.set(setup.hold);
        let storage = RedisStorage::<Payload>::new(connection.clone())
            .with_config(config.clone())
            .poll_with_interval(INTERVAL);
        if setup.works {
            let worker = WorkerBuilder::new(format!("worker-{}", std::process::id()))
                .backend(storage)
                .build(run);
            runtime.spawn(async move {
                if let Err(error) = worker.run().await {
                    eprintln!("apalis: {error}");
                }
            });
        }
        Ok(Apalis { runtime, connection, config })
    }

    fn insert_many(&mut self, jobs: Vec<NewJob>) -> Fallible {
        let tasks = jobs.into_iter().map(task).collect::<Fallible<Vec<_>>>()?;
        self.runtime.block_on(push_tasks(&mut self.connection, &self.config, &tasks))?;
        Ok(())
    }

    fn unfinished(&mut self) -> Fallible<u64> {
        let Apalis { runtime, connection, config, .. } = self;
        runtime.block_on(async {
            let workers: Vec<String> = redis::cmd("ZRANGE")
                .arg(config.workers_set())
                .arg(0)
                .arg(-1)
                .query_async(connection)
                .await?;
            let mut counts = redis::pipe();
            counts.cmd("LLEN").arg(config.active_jobs_list());
            counts.cmd("ZCARD").arg(config.scheduled_jobs_set());
            for worker in workers {
                counts.cmd("SCARD").arg(format!("{}:{worker}", config.inflight_jobs_set()));
            }
            let counts: Vec<u64> = counts.query_async(connection).await?;
            Fallible::Ok(counts.into_iter().sum())
        })
    }
}

fn main() -> ExitCode {
    contender::main::<Apalis>()
}
