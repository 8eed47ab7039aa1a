//! The rows, a file each. Every one is given a fresh server, starts processes of a contender, and
//! returns figures.

pub(crate) mod idle;
pub(crate) mod insert;
pub(crate) mod instant;
pub(crate) mod killed;
pub(crate) mod late;
pub(crate) mod life;
pub(crate) mod start;

use std::time::Duration;

use crate::Fallible;
use crate::plan::{Contender, Row};
use crate::server::{Counters, Server};
use crate::starts::{Figures, figure};

pub(crate) type Measure = fn(&Setting, &mut Server) -> Fallible<Figures>;

/// How long to wait for runs when none begins.
const PATIENCE: Duration = Duration::from_secs(4);

/// One measurement.
pub(crate) struct Setting {
    pub(crate) contender: &'static Contender,
    pub(crate) row: &'static Row,
    pub(crate) short: bool,
}

impl Setting {
    fn number(&self, name: &str) -> f64 {
        let size = self.row.sizes.iter().find(|size| size.0 == name);
        size.map_or(0.0, |size| if self.short { size.2 } else { size.1 })
    }

    fn size(&self, name: &str) -> usize {
        self.number(name) as usize
    }

    fn seconds(&self, name: &str) -> Duration {
        Duration::from_secs_f64(self.number(name))
    }

    /// How long before its time the first job is inserted, so that a slow contender is done in time.
    fn notice(&self) -> Duration {
        self.seconds("notice").mul_f64(self.contender.patience)
    }

    /// A number of jobs, less for a contender that would take minutes.
    fn share_of(&self, name: &str) -> usize {
        let share = if self.short { 1.0 } else { self.contender.share };
        let bulk = self.size("bulk").max(1);
        let jobs = (self.number(name) * share) as usize;
        (jobs / bulk).max(1) * bulk
    }
}

/// What the server did for each of so many jobs.
fn server_figures(after: Counters, before_cpu_us: f64, jobs: usize) -> Figures {
    let jobs = jobs.max(1) as f64;
    vec![
        figure("trips_per_job", after.reads / jobs),
        figure("commands_per_job", after.commands / jobs),
        figure("server_us_per_job", (after.cpu_us - before_cpu_us) / jobs),
        figure("script_ms", after.longest_script_ms),
    ]
}
