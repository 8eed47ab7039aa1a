//! The whole life of jobs that are due at once, first without partitions, then shared out among many, each of which
//! runs one job at once.
//!
//! A partition is a named queue in graphile-worker, which keeps its jobs in PostgreSQL.

use harness::Fallible;
use harness::case::{Figures, figure};

use super::Setting;
use super::life::Lives;
use crate::contenders::Kind;
use crate::node::{Role, WORKER};
use crate::postgres::Postgres;
use crate::server::Server;

pub(crate) fn measure(setting: &Setting, server: &mut Server) -> Fallible<Figures> {
    let postgres = match setting.contender.own.kind {
        Kind::NodeOnPostgres => Some(Postgres::start()?),
        _ => None,
    };
    let url = postgres.as_ref().map_or_else(|| server.url(), Postgres::url);
    let mut without = Lives::begin(setting, &url, WORKER)?;
    let mut figures = vec![figure("plain_per_s", without.measure(setting)?.1)];
    drop(without);
    let partitions = setting.size("partitions");
    let mut with = Lives::begin(setting, &url, Role { partitions, ..WORKER })?;
    let (jobs, jobs_per_s) = with.measure(setting)?;
    figures.extend([figure("jobs", jobs as f64), figure("jobs_per_s", jobs_per_s)]);
    figures.extend(with.faults()?);
    Ok(figures)
}
