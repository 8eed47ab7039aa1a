//! The start of a process that runs the jobs of a file: jobs that are claimed there were interrupted.

use std::sync::Arc;

use foldhash::HashSet;

use super::State;
use super::groups::group_in;
use super::rows::{Place, kind_row};
use super::tables::Tables;
use crate::store::figures::Figure;
use crate::store::{Left, MOST_INTERRUPTIONS, killed};
use crate::values::error::StoreError;
use crate::values::id::JobId;
use crate::values::time::Millis;

impl State {
    /// Makes this process the one that runs the jobs of the file, of these kinds. Jobs that are claimed in
    /// the file were interrupted. Returns how many.
    pub(crate) fn start_runner(
        &mut self,
        tables: Tables<'_>,
        kinds: &[Arc<str>],
        now: Millis,
    ) -> Result<u64, StoreError> {
        for kind in kinds {
            tables.add_kind(kind)?;
        }
        self.kinds = tables.kinds()?;
        tables.execute(&tables.sql.add_start, [])?;
        // A file has one node: the process before is none any more.
        tables.execute(&tables.sql.drop_nodes, [])?;
        self.claims.starts = tables.starts()?;
        let cancel_requested: HashSet<JobId> = self.cancel_requested(tables)?.clone();
        // Backwards from the latest claim: of two suspects, the one claimed later is the more likely cause, so
        // the earlier one does not die.
        let (mut suspect_after, mut interrupted) = (false, 0);
        for (id, _) in tables.claims()?.into_iter().rev() {
            let Some(place) = tables.find(&self.kinds, id)? else { continue };
            let cancel_requested = cancel_requested.contains(&id);
            interrupted += 1;
            suspect_after |=
                self.interrupted(tables, place, cancel_requested, suspect_after, now)?;
        }
        tables.execute(&tables.sql.drop_claims, [])?;
        tables.execute(&tables.sql.drop_cancel_requests, [])?;
        self.cancel_requested = Some(HashSet::default());
        tables.execute(&tables.sql.drop_all_progress, [])?;
        self.progress = Some(HashSet::default());
        self.claims.handle(kinds, &self.kinds);
        self.lane_table.forget(&self.claims);
        Ok(interrupted)
    }

    /// Counts an interruption of a job that a process had claimed when it ended. `suspect_after`: a suspect was
    /// claimed after it, so this job does not die. Returns whether this job was a suspect itself.
    fn interrupted(
        &mut self,
        tables: Tables<'_>,
        place: Place,
        cancel_requested: bool,
        suspect_after: bool,
        now: Millis,
    ) -> Result<bool, StoreError> {
        let Some(mut job) = tables.job(place)? else { return Ok(false) };
        let was_suspect = job.interruptions > 0;
        if cancel_requested {
            self.delete_pending(tables, place, now)?;
            return Ok(was_suspect);
        }
        let kind = kind_row(&self.kinds, place.kind)?.clone();
        let most = if suspect_after { MOST_INTERRUPTIONS - 1 } else { MOST_INTERRUPTIONS };
        job.interruptions = job.interruptions.saturating_add(1).min(most);
        job.attempts = job.attempts.saturating_add(1);
        let dies = job.interruptions >= MOST_INTERRUPTIONS;
        self.noted.note(&kind.n, if dies { Figure::Dead } else { Figure::Interrupted });
        if dies {
            job.errors = job.errors.and(now, job.attempts, "", &killed());
            let (failed_before, group) = (job.failures > 0, group_in(job.extra.as_deref()));
            self.die(tables, &kind, place, (job, failed_before), 0, now)?;
            if let Some(group) = group {
                self.leave_group(tables, group, place.id, Left::Dead, now)?;
            }
            return Ok(was_suspect);
        }
        tables.delete_job(&kind, place)?;
        tables.put_job(&kind, &job, place.table)?;
        Ok(was_suspect)
    }
}
