//! `tickwheel-jobs` on Redis as a contender, as it comes: one thread for each processor, 2,048 jobs
//! claimed at once.

use std::process::ExitCode;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use contender::{Contender, Fallible, NEVER_REACHED, NewJob, Payload, QUEUE, Setup};
use serde::{Deserialize, Serialize};
use tickwheel_jobs::tickwheel::When;
use tickwheel_jobs::{Client, Job, Jobs, Limit, Run};

/// The number of waiting handlers that one measurement needs at once.
const WAITING_THREADS: usize = 16;

#[derive(Serialize, Deserialize)]
#[serde(transparent)]
struct CloseOrder(Payload);

/// Among how many partitions the jobs are shared out. 0 for none.
static PARTITIONS: AtomicU64 = AtomicU64::new(0);

impl Job for CloseOrder {
    const KIND: &'static str = "close-order";

    fn partition(&self) -> Option<String> {
        let partition = self.0.number.checked_rem(PARTITIONS.load(Ordering::Relaxed))?;
        Some(format!("customer-{partition}"))
    }
}

enum Ours {
    Working(Jobs),
    Inserting(Client),
}

impl Ours {
    fn client(&self) -> &Client {
        match self {
            Ours::Working(jobs) => jobs,
            Ours::Inserting(client) => client,
        }
    }
}

fn timed(job: NewJob) -> (When, CloseOrder) {
    let when = if job.now { Duration::ZERO.into() } else { job.system_time().into() };
    (when, CloseOrder(job.payload))
}

impl Contender for Ours {
    fn open(setup: &Setup) -> Fallible<Ours> {
        PARTITIONS.store(setup.partitions, Ordering::Relaxed);
        let mut builder = Jobs::redis(&setup.url)?.queue(QUEUE).lease(setup.lease);
        if !setup.works {
            return Ok(Ours::Inserting(builder.client()?));
        }
        let hold = setup.hold;
        if !hold.is_zero() {
            builder = builder.threads(WAITING_THREADS);
        }
        if setup.limited {
            let limit = Limit::none().rate(NEVER_REACHED, Duration::from_secs(1));
            Jobs::redis(&setup.url)?.queue(QUEUE).client()?.queue().limit(limit)?;
        }
        if setup.partitions > 0 {
            let client = Jobs::redis(&setup.url)?.queue(QUEUE).client()?;
            client.kind::<CloseOrder>().limit_each(Limit::running(1))?;
        }
        let handler = move |job: CloseOrder, _: &Run| {
            contender::ran(&job.0);
            if !hold.is_zero() {
                thread::sleep(hold);
            }
            Ok(())
        };
        Ok(Ours::Working(builder.handle(handler).start()?))
    }

    fn insert_many(&mut self, jobs: Vec<NewJob>) -> Fallible {
        let jobs = jobs.into_iter().map(timed);
        self.client().insert_batch(jobs).map_err(|error| error.to_string())?;
        Ok(())
    }

    fn insert(&mut self, job: NewJob) -> Fallible {
        let (when, job) = timed(job);
        self.client().insert(when, job).map_err(|error| error.to_string())?;
        Ok(())
    }

    fn unfinished(&mut self) -> Fallible<u64> {
        let counts = self.client().count()?;
        Ok(counts.pending + counts.claimed + counts.running + counts.dead)
    }
}

fn main() -> ExitCode {
    contender::main::<Ours>()
}
