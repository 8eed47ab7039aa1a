//! The table `progress`: what the runs of claimed jobs have set.

use foldhash::HashSet;

use rusqlite::params;

use super::State;
use super::claim::fence_of;
use super::rows::id_bytes;
use super::tables::Tables;
use crate::store::Fence;
use crate::values::error::StoreError;
use crate::values::id::JobId;

impl State {
    /// Sets the progress of a run whose claim is held.
    pub(super) fn put_progress(
        &mut self,
        tables: Tables<'_>,
        id: JobId,
        fence: Fence,
        value: &[u8],
    ) -> Result<(), StoreError> {
        let held = self.claims.get(id);
        if held.is_some_and(|held| fence_of(self.claims.starts, held.order) == fence)
            && !self.has_ended_in(tables, id)?
        {
            tables.execute(&tables.sql.put_progress, params![id_bytes(id), value])?;
            self.progress(tables)?.insert(id);
        }
        Ok(())
    }

    /// Drops the progress of a run that has ended. Almost always no row exists: then the table is not touched.
    pub(super) fn drop_progress(
        &mut self,
        tables: Tables<'_>,
        id: JobId,
    ) -> Result<(), StoreError> {
        let progress = self.progress(tables)?;
        if !progress.is_empty() && progress.remove(&id) {
            tables.execute(&tables.sql.drop_progress, [id_bytes(id)])?;
        }
        Ok(())
    }

    /// Returns the ids in `progress`.
    fn progress(&mut self, tables: Tables<'_>) -> Result<&mut HashSet<JobId>, StoreError> {
        let progress = match self.progress.take() {
            Some(progress) => progress,
            None => tables.ids(&tables.sql.all_progress)?.into_iter().collect(),
        };
        Ok(self.progress.insert(progress))
    }
}
