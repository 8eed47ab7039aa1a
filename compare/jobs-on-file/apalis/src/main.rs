//! apalis-sqlite as a contender.
//!
//! Its `setup` sets `synchronous = OFF` on one connection of the pool; the others keep SQLite's default,
//! `FULL`. This program runs its migrations without `setup`, puts the file into WAL mode, and opens the
//! pool with `FULL` for `synced` and `NORMAL` for `written`.
//!
//! The worker's update hook wakes it, and it also polls every 100 ms, without the second write that
//! `lock_tasks` adds. It takes 100 jobs at once, because the query that ends n jobs parses the JSON of
//! all of them n times. Inserts are its own `push_tasks`, in one transaction for a batch.
//!
//! The name of the worker has the id of its process, because for a while after a crash the name of the
//! crashed worker is refused.
//!
//! This program holds nine of the ten connections of its pool, so that one is left: SQLite has one
//! writer, and a connection that waits for it sleeps up to 100 ms at a time.

use std::process::ExitCode;
use std::str::FromStr;
use std::time::{Duration, Instant};

use apalis::prelude::*;
use apalis_sqlite::queries::push_tasks;
use apalis_sqlite::{Config, SqliteConnectOptions, SqlitePool, SqliteStorage, SqliteTask};
use contender::{Contender, Fallible, Level, NewJob, Payload, Setup, distant_job};
use futures::StreamExt;
use sqlx::Sqlite;
use sqlx::pool::PoolConnection;
use sqlx::sqlite::{SqliteJournalMode, SqliteSynchronous};
use tokio::runtime::Runtime;

const QUEUE: &str = "orders";
const BATCH: usize = 100;
const INTERVAL: Duration = Duration::from_millis(100);
/// How many connections its pool has.
const CONNECTIONS: usize = 10;

struct Apalis {
    runtime: Runtime,
    pool: SqlitePool,
    worker: Option<tokio::task::JoinHandle<()>>,
    held: Vec<PoolConnection<Sqlite>>,
}

async fn run(payload: Payload) -> Result<(), BoxDynError> {
    contender::ran(&payload);
    Ok(())
}

fn task(job: NewJob) -> Fallible<SqliteTask> {
    let builder = TaskBuilder::new(serde_json::to_vec(&job.payload)?);
    Ok(match job.due.whole_second() {
        None => builder.build(),
        Some(second) => builder.run_at_timestamp(second as u64).build(),
    })
}

async fn insert(pool: &SqlitePool, tasks: Vec<SqliteTask>) -> Fallible {
    let mut transaction = pool.begin_with("BEGIN IMMEDIATE").await?;
    push_tasks(&mut *transaction, QUEUE, &tasks).await?;
    transaction.commit().await?;
    Ok(())
}

impl Contender for Apalis {
    fn open(setup: &Setup) -> Fallible<Apalis> {
        let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
        let _in_runtime = runtime.enter();
        let url = format!("sqlite://{}?mode=rwc", setup.path.display());
        let synchronous = match setup.level {
            Level::Synced => SqliteSynchronous::Full,
            Level::Written => SqliteSynchronous::Normal,
        };
        let options = SqliteConnectOptions::from_str(&url)?
            .journal_mode(SqliteJournalMode::Wal)
            .busy_timeout(Duration::from_secs(20))
            .synchronous(synchronous);
        let (pool, listener) = SqliteStorage::connect_with_callback(&url)?;
        pool.set_connect_options(options);
        let held = runtime.block_on(async {
            SqliteStorage::migrations().run(&pool).await?;
            let mut connections = Vec::new();
            for _ in 1..CONNECTIONS {
                connections.push(pool.acquire().await?);
            }
            Fallible::Ok(connections)
        })?;
        let config = Config::default().queue(QUEUE).batch_size(BATCH).lock_tasks(false);
        let strategy = Strategy::new().stream(listener.ready_chunks(BATCH)).interval(INTERVAL);
        let worker = setup.works.then(|| {
            let storage = SqliteStorage::<Payload>::new(&pool)
                .with_config(config)
                .poll_with_strategy(strategy);
            let worker = WorkerBuilder::new(format!("worker-{}", std::process::id()))
                .backend(storage)
                .build(run);
            runtime.spawn(async move {
                if let Err(error) = worker.run().await {
                    eprintln!("apalis: {error}");
                }
            })
        });
        drop(_in_runtime);
        Ok(Apalis { runtime, pool, worker, held })
    }

    fn insert(&self, job: NewJob) -> Fallible {
        self.runtime.block_on(insert(&self.pool, vec![task(job)?]))
    }

    fn insert_many(&self, jobs: Vec<NewJob>) -> Fallible {
        let tasks = jobs.into_iter().map(task).collect::<Fallible<Vec<_>>>()?;
        self.runtime.block_on(insert(&self.pool, tasks))
    }

    fn insert_by(&self, callers: usize, until: Instant) -> Fallible<u64> {
        let caller = |pool: SqlitePool| async move {
            let mut inserted = 0;
            while Instant::now() < until {
                insert(&pool, vec![task(distant_job())?]).await?;
                inserted += 1;
            }
            Fallible::Ok(inserted)
        };
        let callers: Vec<_> =
            (0..callers).map(|_| self.runtime.spawn(caller(self.pool.clone()))).collect();
        let mut inserted = 0;
        for caller in callers {
            inserted += self.runtime.block_on(caller)??;
        }
        Ok(inserted)
    }

    fn unfinished(&self) -> Fallible<u64> {
        let sql = "SELECT count(*) FROM Jobs WHERE status NOT IN ('Done', 'Killed')";
        let count: i64 = self.runtime.block_on(sqlx::query_scalar(sql).fetch_one(&self.pool))?;
        Ok(count as u64)
    }

    fn close(self) -> Fallible {
        if let Some(worker) = self.worker {
            worker.abort();
        }
        // A connection that is dropped spawns a task.
        let in_runtime = self.runtime.enter();
        drop(self.held);
        drop(in_runtime);
        self.runtime.block_on(self.pool.close());
        self.runtime.shutdown_timeout(Duration::from_secs(5));
        Ok(())
    }
}

fn main() -> ExitCode {
    contender::main::<Apalis>()
}
