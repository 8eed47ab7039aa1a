//! How late scheduled jobs start: many over a short time on one node, and a steady rate on several.

use std::thread;
use std::time::{Duration, Instant};

use harness::Fallible;
use harness::case::{Figures, figure};

use super::{PATIENCE, Setting, notice};
use crate::node::{self, Due, Node, PRODUCER};
use crate::server::Server;
use crate::starts::{self, now_us};

const INSERTS_PER_SECOND: usize = 10;

/// Jobs that are all inserted before the first of them is due.
pub(crate) fn delayed(setting: &Setting, server: &mut Server) -> Fallible<Figures> {
    let (jobs, bulk) = (setting.size("jobs"), setting.size("bulk"));
    let mut workers = Node::workers(setting.contender, server, 1)?;
    let mut producer = Node::start(setting.contender, &server.url(), PRODUCER)?;
    server.reset_counters()?;
    let from = now_us() + notice(setting).as_micros() as u64;
    producer.insert(0, jobs, bulk, Due::From(from, setting.seconds("spread")))?;
    if now_us() > from {
        return Err("the insert took too long".to_owned());
    }
    thread::sleep(Duration::from_micros(from - now_us()));
    figures(&mut workers, server, jobs)
}

/// A steady rate of jobs, each inserted some time before it is due.
pub(crate) fn steady(setting: &Setting, server: &mut Server) -> Fallible<Figures> {
    let bulk = setting.size("per_second") / INSERTS_PER_SECOND;
    let bulks = (setting.number("seconds") * INSERTS_PER_SECOND as f64) as usize;
    let notice = setting.seconds("notice").as_micros() as u64;
    let mut workers = Node::workers(setting.contender, server, setting.size("nodes"))?;
    let mut producer = Node::start(setting.contender, &server.url(), PRODUCER)?;
    server.reset_counters()?;
    let interval = Duration::from_secs(1) / INSERTS_PER_SECOND as u32;
    let start = Instant::now();
    for number in 0..bulks {
        producer.insert(number * bulk, bulk, bulk, Due::From(now_us() + notice, interval))?;
        thread::sleep((interval * (number as u32 + 1)).saturating_sub(start.elapsed()));
    }
    figures(&mut workers, server, bulks * bulk)
}

fn figures(workers: &mut [Node], server: &mut Server, jobs: usize) -> Fallible<Figures> {
    node::wait(workers, jobs, PATIENCE)?;
    let after = server.counters()?;
    let starts = node::collect(workers)?;
    let mut figures = vec![
        figure("jobs", jobs as f64),
        figure("script_ms", after.longest_script_ms),
        figure("trips_per_job", after.reads / jobs as f64),
    ];
    figures.extend(starts::lateness(&starts)?);
    figures.extend(starts::faults(&starts, jobs));
    Ok(figures)
}
