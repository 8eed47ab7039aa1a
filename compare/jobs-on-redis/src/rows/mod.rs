//! The rows, a file each. Each row gets a fresh server, starts processes of a contender, and returns figures.

pub(crate) mod idle;
pub(crate) mod insert;
pub(crate) mod instant;
pub(crate) mod killed;
pub(crate) mod late;
pub(crate) mod life;
pub(crate) mod partitions;
pub(crate) mod start;

use std::time::Duration;

use harness::case::{Figures, figure};
use harness::{Fallible, queues};

use crate::contenders::Handling;
use crate::server::{Counters, Server};

pub(crate) type Row = queues::Row<Work>;
/// One measurement.
pub(crate) type Setting = queues::Setting<Work, Handling>;
pub(crate) type Measure = fn(&Setting, &mut Server) -> Fallible<Figures>;

/// How a row is measured.
pub(crate) struct Work(pub(crate) Measure);

/// How long to wait for the next run to begin.
const PATIENCE: Duration = Duration::from_secs(4);

/// How long before its due time the first job is inserted, so that a slow contender has inserted all jobs in
/// time.
fn notice(setting: &Setting) -> Duration {
    setting.seconds("notice").mul_f64(setting.contender.own.patience)
}

/// A number of jobs in whole bulks, less for a contender that would take minutes.
fn share_of_jobs(setting: &Setting) -> usize {
    let share = if setting.short { 1.0 } else { setting.contender.own.share };
    let bulk = setting.size("bulk").max(1);
    let jobs = (setting.number("jobs") * share) as usize;
    (jobs / bulk).max(1) * bulk
}

/// The work of the server for each job: the counters, divided by the number of jobs.
fn server_figures(after: Counters, before_cpu_us: f64, jobs: usize) -> Figures {
    let jobs = jobs.max(1) as f64;
    vec![
        figure("trips_per_job", after.reads / jobs),
        figure("commands_per_job", after.commands / jobs),
        figure("server_us_per_job", (after.cpu_us - before_cpu_us) / jobs),
        figure("script_ms", after.longest_script_ms),
    ]
}

/// Measures a row of a contender, on a server of its own.
pub(crate) fn measure(setting: &Setting) -> Fallible<Figures> {
    let mut server = Server::start()?;
    (setting.row.own.0)(setting, &mut server)
}
