//! The whole life of jobs that are due at once: one process inserts them in bulks, another runs them with
//! an empty handler and ends them, at the same time.
//!
//! The first process waits while more than `ahead` jobs have not started. The clock stops when the store
//! itself says that no job is left. In a second row the queue has a limit of a rate that it never reaches.

use std::thread;
use std::time::{Duration, Instant};

use harness::Fallible;
use harness::case::{Figures, figure};

use super::{PATIENCE, Setting, server_figures};
use crate::node::{self, Due, Node, Role, WORKER};
use crate::server::Server;
use crate::starts;

/// How many bulks are inserted between two questions how many jobs have started.
const BULKS_PER_LOOK: usize = 4;

pub(crate) fn measure(setting: &Setting, server: &mut Server) -> Fallible<Figures> {
    lives(setting, server, WORKER)
}

pub(crate) fn limited(setting: &Setting, server: &mut Server) -> Fallible<Figures> {
    lives(setting, server, Role { limited: true, ..WORKER })
}

fn lives(setting: &Setting, server: &mut Server, worker: Role) -> Fallible<Figures> {
    let mut lives = Lives::begin(setting, &server.url(), worker)?;
    let before = server.counters()?.cpu_us;
    server.reset_counters()?;
    let (jobs, jobs_per_s) = lives.measure(setting)?;
    let after = server.counters()?;
    let mut figures = vec![figure("jobs", jobs as f64), figure("jobs_per_s", jobs_per_s)];
    figures.extend(server_figures(after, before, jobs));
    figures.extend(lives.faults()?);
    Ok(figures)
}

/// The two processes, and how many jobs were inserted.
pub(super) struct Lives {
    workers: [Node; 1],
    producer: Node,
    inserted: usize,
}

impl Lives {
    /// Starts the processes. The first jobs live before the clock starts.
    pub(super) fn begin(setting: &Setting, url: &str, worker: Role) -> Fallible<Lives> {
        let workers = [Node::start(setting.contender, url, worker)?];
        let producer = Node::start(setting.contender, url, Role { works: false, ..worker })?;
        let mut lives = Lives { workers, producer, inserted: 0 };
        lives.insert(setting.size("bulk"))?;
        lives.finish()?;
        Ok(lives)
    }

    /// Returns how many jobs have lived, and how many did in a second.
    pub(super) fn measure(&mut self, setting: &Setting) -> Fallible<(usize, f64)> {
        let (bulk, ahead) = (setting.size("bulk"), setting.size("ahead"));
        let length = setting.seconds("seconds");
        let (before, start) = (self.inserted, Instant::now());
        while start.elapsed() < length {
            if self.inserted - self.workers[0].started()?.min(self.inserted) > ahead {
                thread::sleep(Duration::from_millis(2));
                continue;
            }
            self.insert(bulk)?;
        }
        self.finish()?;
        let jobs = self.inserted - before;
        Ok((jobs, jobs as f64 / start.elapsed().as_secs_f64()))
    }

    /// The runs of a job that should have been one.
    pub(super) fn faults(&mut self) -> Fallible<Figures> {
        Ok(starts::faults(&node::collect(&mut self.workers)?, self.inserted))
    }

    fn insert(&mut self, bulk: usize) -> Fallible {
        let jobs = BULKS_PER_LOOK * bulk;
        self.producer.insert(self.inserted, jobs, bulk, Due::Now)?;
        self.inserted += jobs;
        Ok(())
    }

    /// Waits until all jobs have run and none is left in the store.
    fn finish(&mut self) -> Fallible {
        node::wait(&mut self.workers, self.inserted, PATIENCE)?;
        let since = Instant::now();
        loop {
            let left = self.producer.unfinished()?;
            if left == 0 {
                return Ok(());
            }
            if since.elapsed() > PATIENCE {
                return Err(format!("{left} jobs never ended"));
            }
            thread::sleep(Duration::from_millis(2));
        }
    }
}
