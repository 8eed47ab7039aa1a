//! The warning that jobs are due, and that no process was seen lately which handles their kind.

use std::error::Error;
use std::time::{Duration, SystemTime};

use tickwheel_jobs::{Client, StoreError};

use crate::text::{now, plain, span};

/// A kind counts as overdue if its earliest pending job has been due for longer than this.
pub(crate) const OVERDUE: Duration = Duration::from_secs(2);

/// A kind that has jobs.
pub(crate) struct Kind {
    pub(crate) name: String,
    pub(crate) jobs: u64,
    /// When its earliest pending job is due.
    pub(crate) next_due: Option<SystemTime>,
    /// A process that handles the kind was seen lately.
    pub(crate) has_node: bool,
}

impl Kind {
    /// Returns for how long the kind has been overdue, if it is.
    pub(crate) fn overdue(&self, now: SystemTime) -> Option<Duration> {
        let passed = self.next_due.and_then(|due| now.duration_since(due).ok());
        passed.filter(|passed| *passed > OVERDUE)
    }
}

/// Returns the kinds that have jobs.
pub(crate) fn kinds(client: &Client) -> Result<Vec<Kind>, StoreError> {
    let (nodes, now) = (client.nodes()?, now());
    let mut kinds = Vec::new();
    for (name, jobs) in client.kinds()? {
        // Only one due time is needed: a page of one job, and not a full page of payloads.
        let mut pages = client.pending().kind_named(&name).from_one_job_on();
        let next_due = pages.next_page()?.first().map(|job| job.due);
        if jobs > 0 {
            let lately = nodes.iter().filter(|node| node.was_seen_lately(now));
            let has_node = lately.flat_map(|node| &node.kinds).any(|kind| *kind == name);
            kinds.push(Kind { name, jobs, next_due, has_node });
        }
    }
    Ok(kinds)
}

/// Warns of each kind that is overdue and has no node. Looks at the kinds only if any job is overdue.
pub(crate) fn warn(client: &Client) -> Result<(), Box<dyn Error>> {
    if client.count()?.oldest_overdue.is_some_and(|age| age > OVERDUE) {
        warn_of(&kinds(client)?);
    }
    Ok(())
}

pub(crate) fn warn_of(kinds: &[Kind]) {
    let now = now();
    for kind in kinds.iter().filter(|kind| !kind.has_node) {
        if let Some(passed) = kind.overdue(now) {
            let (name, passed) = (plain(&kind.name), span(passed));
            eprintln!(
                "tickwheel-jobs: warning: jobs of the kind {name} are overdue by {passed}, and no process \
                 that handles it was seen in the last 30 seconds"
            );
        }
    }
}
