//! `tickwheel-jobs` as a contender. Both of its levels are SQLite in WAL mode: `synchronous = FULL`
//! and `NORMAL`.

use std::process::ExitCode;
use std::time::Duration;

use contender::{Contender, Due, Fallible, Level, NewJob, Payload, Setup};
use serde::{Deserialize, Serialize};
use tickwheel_jobs::{Durability, Job, Jobs};

#[derive(Serialize, Deserialize)]
#[serde(transparent)]
struct CloseOrder(Payload);

impl Job for CloseOrder {
    const KIND: &'static str = "close-order";
}

struct Ours(Opened);

enum Opened {
    Working(Jobs),
    Inserting(tickwheel_jobs::Client),
}

impl Ours {
    fn client(&self) -> &tickwheel_jobs::Client {
        match &self.0 {
            Opened::Working(jobs) => jobs,
            Opened::Inserting(client) => client,
        }
    }
}

fn durability(setup: &Setup) -> Durability {
    match setup.level {
        Level::Synced => Durability::Synced,
        Level::Written => Durability::Written,
    }
}

fn timed(job: NewJob) -> (tickwheel_jobs::tickwheel::When, CloseOrder) {
    let when = match job.due {
        Due::Now => Duration::ZERO.into(),
        due => due.system_time().into(),
    };
    (when, CloseOrder(job.payload))
}

impl Contender for Ours {
    fn open(setup: &Setup) -> Fallible<Ours> {
        let builder = Jobs::open(&setup.path)?.durability(durability(setup));
        Ok(Ours(if setup.works {
            let handler = |job: CloseOrder, _: &tickwheel_jobs::Run| {
                contender::ran(&job.0);
                Ok(())
            };
            Opened::Working(builder.handle(handler).start()?)
        } else {
            Opened::Inserting(builder.client()?)
        }))
    }

    fn insert(&self, job: NewJob) -> Fallible {
        let (when, job) = timed(job);
        self.client().insert(when, job).map_err(|error| error.to_string())?;
        Ok(())
    }

    fn insert_many(&self, jobs: Vec<NewJob>) -> Fallible {
        let jobs = jobs.into_iter().map(timed);
        self.client().insert_batch(jobs).map_err(|error| error.to_string())?;
        Ok(())
    }

    fn unfinished(&self) -> Fallible<u64> {
        let counts = self.client().count()?;
        Ok(counts.pending + counts.claimed + counts.running + counts.dead)
    }

    fn figures(&self) -> Vec<(&'static str, f64)> {
        let stats = self.client().stats();
        vec![("commits", stats.commits as f64), ("own_syncs", stats.syncs as f64)]
    }

    fn close(self) -> Fallible {
        if let Opened::Working(jobs) = self.0 {
            jobs.shutdown()?;
        }
        Ok(())
    }
}

fn main() -> ExitCode {
    contender::main::<Ours>()
}
