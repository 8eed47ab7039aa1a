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
use crate::node::{self, Due, Node, PRODUCER, Role, WORKER};
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
    let (bulk, ahead) = (setting.size("bulk"), setting.size("ahead"));
    let length = setting.seconds("seconds");
    let mut workers = [Node::start(setting.contender, server, worker)?];
    let mut producer = Node::start(setting.contender, server, PRODUCER)?;
    let mut inserted = 0;
    insert(&mut producer, &mut inserted, bulk)?;
    finish(&mut producer, &mut workers, inserted)?;
    let (warm, before) = (inserted, server.counters()?.cpu_us);
    server.reset_counters()?;
    let start = Instant::now();
    while start.elapsed() < length {
        if inserted - workers[0].started()?.min(inserted) > ahead {
            thread::sleep(Duration::from_millis(2));
            continue;
        }
        insert(&mut producer, &mut inserted, bulk)?;
    }
    finish(&mut producer, &mut workers, inserted)?;
    let elapsed = start.elapsed();
    let after = server.counters()?;
    let starts = node::collect(&mut workers)?;
    let jobs = inserted - warm;
    let mut figures = vec![
        figure("jobs", jobs as f64),
        figure("jobs_per_s", jobs as f64 / elapsed.as_secs_f64()),
    ];
    figures.extend(server_figures(after, before, jobs));
    figures.extend(starts::faults(&starts, inserted));
    Ok(figures)
}

fn insert(producer: &mut Node, inserted: &mut usize, bulk: usize) -> Fallible {
    let jobs = BULKS_PER_LOOK * bulk;
    producer.insert(*inserted, jobs, bulk, Due::Now)?;
    *inserted += jobs;
    Ok(())
}

/// Waits until a number of jobs have run and none is left in the store.
fn finish(producer: &mut Node, workers: &mut [Node], jobs: usize) -> Fallible {
    node::wait(workers, jobs, PATIENCE)?;
    let since = Instant::now();
    loop {
        let left = producer.unfinished()?;
        if left == 0 {
            return Ok(());
        }
        if since.elapsed() > PATIENCE {
            return Err(format!("{left} jobs never ended"));
        }
        thread::sleep(Duration::from_millis(2));
    }
}
