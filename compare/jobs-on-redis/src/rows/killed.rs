//! A worker is killed while handlers run. The row measures how long after its lease its jobs start on
//! another node.
//!
//! The lease is the time after a worker's last sign of life from which on any node may take its jobs.
//! The kill comes when the lease is nearly new or nearly due for renewal. The times count from the
//! kill plus a whole lease, so a time below zero means that the lease was not new at the kill.

use std::thread;
use std::time::{Duration, Instant};

use harness::Fallible;
use harness::case::{Figures, figure};

use super::{PATIENCE, Setting};
use crate::node::{self, Due, Node, PRODUCER, Role, WORKER};
use crate::server::Server;
use crate::starts::now_us;

/// The handlers of the killed worker take so long that none of them ends.
const HOLD: Duration = Duration::from_secs(600);

pub(crate) fn measure(setting: &Setting, server: &mut Server) -> Fallible<Figures> {
    let (jobs, lease) = (setting.size("jobs"), setting.seconds("lease"));
    let holding = Role { lease, hold: HOLD, ..WORKER };
    let mut victims = [Node::start(setting.contender, &server.url(), holding)?];
    let mut producer = Node::start(setting.contender, &server.url(), PRODUCER)?;
    producer.insert(0, jobs, jobs, Due::Now)?;
    node::wait(&mut victims, jobs, PATIENCE)?;
    if victims[0].started()? != jobs {
        return Err("not all of the handlers run at once".to_owned());
    }
    let mut others = [Node::start(setting.contender, &server.url(), Role { lease, ..WORKER })?];
    // The others renew their leases meanwhile. arq renews none, and would end the runs if this time
    // were the lease.
    thread::sleep(lease / 2);
    let early = others[0].starts()?.len();
    victims[0].kill();
    let killed = now_us();
    let since = Instant::now();
    while others[0].started()? < jobs && since.elapsed() < lease + setting.seconds("patience") {
        thread::sleep(Duration::from_millis(10));
    }
    let starts = node::collect(&mut others)?;
    let free = (killed + lease.as_micros() as u64) as i64 * 1000;
    let after = |place: usize| {
        let start = starts.get(place)?;
        Some((start.at - free) as f64 / 1e6)
    };
    let mut figures = vec![
        figure("lost", jobs.saturating_sub(starts.len()) as f64),
        // The first node has not lost its lease, so there is no reason for this run.
        figure("twice", early as f64),
    ];
    if let (Some(first), Some(last)) = (after(0), after(starts.len().saturating_sub(1))) {
        figures.push(figure("after_lease_first_ms", first));
        figures.push(figure("after_lease_last_ms", last));
    }
    Ok(figures)
}
