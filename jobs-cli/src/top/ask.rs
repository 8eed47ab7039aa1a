//! One reading of a queue: the rows that `top` shows, and a list or a job that its view opens.
//!
//! Ground rules:
//!
//! - The rows are those of [`tickwheel_jobs::view`], and the JSON of `top --json` has their fields. The README lists
//!   them.
//! - Text is kept as the store has it. The page and the screen replace characters when they print it.
//! - The number of questions depends on the number of kinds, up to 200, and never on the number of jobs. Running jobs
//!   are listed if there are at most [`MOST_RUNS`], and so are limits, since their jobs are counted one by one.

use serde::Serialize;
use tickwheel_jobs::view::{
    DeadGroup, GroupRow, JobFilter, JobRow, KindFilter, KindRow, LimitRow, ListState, NodeRow,
    Overview, ScheduleRow, View,
};
use tickwheel_jobs::{Client, StoreError};

use crate::open::{Place, Sizes};

pub(crate) const MOST_ROWS: usize = 100;
const MOST_RUNS: u64 = 4096;

#[derive(Clone, Default, Serialize, Debug)]
pub(crate) struct Figures {
    pub(crate) store: String,
    pub(crate) queue: Option<String>,
    #[serde(flatten)]
    pub(crate) overview: Overview,
    pub(crate) kinds: Vec<KindRow>,
    pub(crate) all_kinds: u64,
    pub(crate) nodes: Vec<NodeRow>,
    /// `None`: too many jobs run to list them.
    pub(crate) runs: Option<Vec<JobRow>>,
    pub(crate) dead_by_error: Vec<DeadGroup>,
    /// Those that come next first.
    pub(crate) next_schedules: Vec<ScheduleRow>,
    /// Those first that let no job start now. `None`: too many jobs run to count them by limit.
    pub(crate) limits: Option<Vec<LimitRow>>,
    pub(crate) groups: Vec<GroupRow>,
}

impl Figures {
    /// Returns how many runs completed and failed a second in the last minutes.
    pub(crate) fn rates(&self) -> (f64, f64) {
        let recent = &self.overview.recent;
        (recent.completed_per_second, recent.failed_per_second)
    }

    #[cfg(feature = "top")]
    pub(crate) fn dead_group(&self, name: &str) -> Option<&DeadGroup> {
        self.dead_by_error.iter().find(|group| group.group.to_string() == name)
    }
}

/// A queue, and its names.
#[derive(Clone)]
pub(crate) struct Source {
    pub(crate) view: View,
    pub(crate) store: String,
    pub(crate) queue: Option<String>,
    #[cfg_attr(not(feature = "top"), expect(dead_code, reason = "a page opens no list"))]
    pub(crate) is_file: bool,
}

impl Source {
    pub(crate) fn new(client: Client, place: &Place) -> Source {
        let is_file = matches!(place.sizes, Sizes::File { .. });
        let (store, queue) = (place.name.clone(), place.queue.clone());
        Source { view: View::new(client), store, queue, is_file }
    }

    pub(crate) fn figures(&self) -> Result<Figures, StoreError> {
        let view = &self.view;
        let overview = view.overview()?;
        let mut by_jobs = KindFilter::default();
        by_jobs.by_jobs = true;
        let kinds = view.kinds(&by_jobs, None, usize::MAX)?;
        let mut nodes = view.nodes(MOST_ROWS)?.rows;
        nodes.sort_by(|a, b| (&a.host, a.pid, a.started).cmp(&(&b.host, b.pid, b.started)));
        let mut next_schedules = view.schedules(None, usize::MAX)?.rows;
        next_schedules.sort_by_key(|schedule| (schedule.is_paused, schedule.next.first().copied()));
        next_schedules.truncate(MOST_ROWS);
        let (runs, limits) = match overview.running {
            0 => (Some(Vec::new()), Some(self.limits()?)),
            1..=MOST_RUNS => (Some(self.runs()?), Some(self.limits()?)),
            _ => (None, None),
        };
        Ok(Figures {
            store: self.store.clone(),
            queue: self.queue.clone(),
            overview,
            all_kinds: kinds.total,
            kinds: kinds.rows,
            nodes,
            runs,
            dead_by_error: view.dead(MOST_ROWS)?.groups,
            next_schedules,
            limits,
            groups: view.groups(MOST_ROWS)?.rows,
        })
    }

    /// Returns the jobs that run, those that have been due for the longest first.
    fn runs(&self) -> Result<Vec<JobRow>, StoreError> {
        Ok(self.view.jobs(&JobFilter::new(ListState::Running), None, MOST_ROWS)?.rows)
    }

    fn limits(&self) -> Result<Vec<LimitRow>, StoreError> {
        let mut limits = self.view.limits(usize::MAX)?.rows;
        limits.sort_by_key(|limit| !limit.is_reached);
        limits.truncate(MOST_ROWS);
        Ok(limits)
    }
}
