//! The cost of pending jobs: memory of the server, and commands of nodes that have nothing to do.

use std::thread;
use std::time::Duration;

use harness::Fallible;
use harness::case::{Figures, figure};

use super::{Setting, share_of_jobs};
use crate::node::{Due, Node, PRODUCER};
use crate::server::Server;
use crate::starts::now_us;

/// The jobs are due between one hour and two hours from now.
const HOUR: Duration = Duration::from_secs(3600);

pub(crate) fn measure(setting: &Setting, server: &mut Server) -> Fallible<Figures> {
    let (jobs, bulk) = (share_of_jobs(setting), setting.size("bulk"));
    let (nodes, length) = (setting.size("nodes"), setting.seconds("seconds"));
    let mut producer = Node::start(setting.contender, &server.url(), PRODUCER)?;
    let from = now_us() + HOUR.as_micros() as u64;
    // Makes the scripts and the fixed keys, before the memory is measured for the first time.
    producer.insert(0, bulk, bulk, Due::From(from, HOUR))?;
    let (bytes_before, keys_before) = server.memory()?;
    producer.insert(bulk, jobs, bulk, Due::From(from, HOUR))?;
    let (bytes, keys) = server.memory()?;
    let _workers = Node::workers(setting.contender, server, nodes)?;
    thread::sleep(setting.seconds("settle"));
    let watched = server.watch(length)?;
    let per_node_second = nodes as f64 * length.as_secs_f64();
    Ok(vec![
        figure("jobs", (jobs + bulk) as f64),
        figure("bytes_per_job", (bytes - bytes_before) / jobs as f64),
        figure("keys_per_job", (keys - keys_before) / jobs as f64),
        figure("commands_per_s", watched.sent as f64 / per_node_second),
        figure("inner_per_s", (watched.sent + watched.inner) as f64 / per_node_second),
    ])
}
