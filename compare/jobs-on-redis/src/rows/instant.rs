//! Many jobs for one instant on several nodes: when the last job has started, and whether each started once.

use std::thread;
use std::time::Duration;

use harness::Fallible;
use harness::case::{Figures, figure};

use super::{PATIENCE, Setting, notice};
use crate::node::{self, Due, Node, PRODUCER};
use crate::server::Server;
use crate::starts::{self, now_us, quantile, sorted_lateness};

const SECOND_US: u64 = 1_000_000;

pub(crate) fn measure(setting: &Setting, server: &mut Server) -> Fallible<Figures> {
    let (jobs, bulk) = (setting.size("jobs"), setting.size("bulk"));
    let mut workers = Node::workers(setting.contender, server, setting.size("nodes"))?;
    let mut producer = Node::start(setting.contender, &server.url(), PRODUCER)?;
    server.reset_counters()?;
    // A whole second, which every contender can store.
    let due = (now_us() + notice(setting).as_micros() as u64).next_multiple_of(SECOND_US);
    producer.insert(0, jobs, bulk, Due::From(due, Duration::ZERO))?;
    if now_us() > due {
        return Err("the insert took too long".to_owned());
    }
    thread::sleep(Duration::from_micros(due - now_us()));
    node::wait(&mut workers, jobs, PATIENCE)?;
    let after = server.counters()?;
    let starts = node::collect(&mut workers)?;
    let late = sorted_lateness(&starts);
    let mut figures = vec![
        figure("first_ms", quantile(&late, 0.0)?),
        figure("last_ms", quantile(&late, 1.0)?),
        figure("script_ms", after.longest_script_ms),
    ];
    figures.extend(starts::faults(&starts, jobs));
    Ok(figures)
}
