//! From the call that inserts a job for now, in one process, to the start of its handler in another, on an
//! idle queue.

use harness::Fallible;
use harness::case::{Figures, figure};

use super::{PATIENCE, Setting};
use crate::node::{self, Node, PRODUCER};
use crate::server::Server;
use crate::starts::{self, quantile, sorted_lateness};

use std::thread;
use std::time::Duration;

/// The work at the start is over by then.
const SETTLE: Duration = Duration::from_millis(300);

pub(crate) fn measure(setting: &Setting, server: &mut Server) -> Fallible<Figures> {
    let jobs = setting.size("jobs");
    let pause = Duration::from_secs_f64(setting.number("pause_ms") / 1000.0);
    let mut workers = Node::workers(setting.contender, server, 1)?;
    let mut producer = Node::start(setting.contender, &server.url(), PRODUCER)?;
    thread::sleep(SETTLE);
    producer.insert_one_by_one(jobs, pause)?;
    node::wait(&mut workers, jobs, PATIENCE)?;
    let starts = node::collect(&mut workers)?;
    let waits = sorted_lateness(&starts);
    let mut figures = starts::faults(&starts, jobs);
    for (name, part) in [("p50", 0.5), ("p99", 0.99), ("max", 1.0)] {
        figures.push(figure(&format!("start_{name}_ms"), quantile(&waits, part)?));
    }
    Ok(figures)
}
