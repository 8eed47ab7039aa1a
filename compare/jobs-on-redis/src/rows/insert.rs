//! Inserts in bulks by one caller, one bulk after the other. No process runs the jobs.

use harness::Fallible;
use harness::case::{Figures, figure};

use super::{Setting, server_figures, share_of_jobs};
use crate::node::{Due, Node, PRODUCER};
use crate::server::Server;

pub(crate) fn measure(setting: &Setting, server: &mut Server) -> Fallible<Figures> {
    let (jobs, bulk) = (share_of_jobs(setting), setting.size("bulk"));
    let mut producer = Node::start(setting.contender, &server.url(), PRODUCER)?;
    // Loads the scripts and makes the connections.
    producer.insert(0, bulk, bulk, Due::Now)?;
    server.reset_counters()?;
    let before = server.counters()?.cpu_us;
    server.reset_counters()?;
    let elapsed = producer.insert(bulk, jobs, bulk, Due::Now)?;
    let after = server.counters()?;
    let inserted = producer.unfinished()?;
    if inserted != jobs + bulk {
        return Err(format!("{inserted} of {} jobs are there", jobs + bulk));
    }
    let mut figures = vec![
        figure("jobs", jobs as f64),
        figure("jobs_per_s", jobs as f64 / elapsed.as_secs_f64()),
    ];
    figures.extend(server_figures(after, before, jobs));
    Ok(figures)
}
