//! The result and the progress that a handler sets, and its follow-ups.

use tickwheel_jobs::{JobId, JobInfo, Run};

use crate::calls::ok;
use crate::follow_ups::FollowUp;
use crate::oracle::{Oracle, Outcome, ensure};
use crate::world::Shared;

/// The longest result.
const MOST: usize = 64 << 10;

/// The result, the progress and the follow-ups of one run.
#[derive(Default)]
pub(crate) struct RunSets {
    pub(crate) result: Option<Vec<u8>>,
    pub(crate) follow_ups: Vec<FollowUp>,
    /// The progress that every process sees: the first one, until a later one is stored.
    shown: Option<String>,
    latest: Option<String>,
}

pub(crate) fn json(value: &str) -> Vec<u8> {
    serde_json::to_vec(value).expect("a text is JSON")
}

impl RunSets {
    /// Sets a result of so many bytes. `once`: only the first run of a job sets it.
    pub(crate) fn result(&mut self, run: &Run, bytes: usize, once: bool) -> Outcome {
        if once && run.attempt() > 1 {
            return Ok(());
        }
        let value = format!("{} {}", run.attempt(), "r".repeat(bytes));
        let set = run.set_result(&value);
        let fits = json(&value).len() <= MOST;
        ensure(set.is_ok() == fits, || format!("a result of {bytes} bytes: {set:?}"))?;
        if fits {
            self.result = Some(json(&value));
        }
        Ok(())
    }

    /// Sets a progress. The clock stands still in a handler, so every process sees the first one of a run at once. A
    /// later one is written a second later, or with the end of the run. If the run stores it, every process sees it at
    /// once.
    pub(crate) fn progress(&mut self, shared: &Shared, run: &Run, n: u64) -> Outcome {
        self.is_shown(shared, run)?;
        let value = format!("{} {n}", run.fence().get());
        let stores = n.is_multiple_of(3);
        let set = if stores { run.store_progress(&value) } else { run.set_progress(&value) };
        set.map_err(|error| format!("a progress: {error:?}"))?;
        self.latest = Some(value.clone());
        if stores || self.shown.is_none() {
            self.shown = Some(value);
            let mut state = shared.lock();
            let at = state.oracle.find(run.id()).ok_or("the oracle lost a run")?;
            state.oracle.jobs[at].progress.clone_from(&self.shown);
        }
        self.is_shown(shared, run)?;
        let Some(other) = shared.lock().other.clone() else { return Ok(()) };
        let seen = ok(other.get(run.id()))?.and_then(|info| info.progress);
        ensure(seen == self.shown.as_deref().map(json), || format!("another process sees {seen:?}"))
    }

    /// The process sees the progress of the run, or that of an earlier one.
    fn is_shown(&self, shared: &Shared, run: &Run) -> Outcome {
        let own = run.client();
        let expected = shared.lock().oracle.progress_of(run.id());
        let info = ok(own.get(run.id()))?;
        let in_list = own.running().find(|info| info.id == run.id());
        for JobInfo { progress, .. } in info.iter().chain(&in_list) {
            ensure(*progress == expected, || {
                format!("{run:?}: the progress is {progress:?}, not {expected:?}")
            })?;
        }
        ensure(info.is_some() && in_list.is_some(), || format!("{run:?} is not there"))
    }

    /// The run ends without success: its latest progress stays with the job.
    pub(crate) fn stays(&self, oracle: &mut Oracle, at: usize) {
        if self.latest.is_some() {
            oracle.jobs[at].progress.clone_from(&self.latest);
        }
    }
}

impl Oracle {
    /// Returns the progress that the store has of a job.
    pub(crate) fn progress_of(&self, id: JobId) -> Option<Vec<u8>> {
        self.jobs[self.find(id)?].progress.as_deref().map(json)
    }
}

impl Shared {
    /// Runs that have ended set progress. No list shows it, and no other run of the job has it.
    pub(crate) fn set_late_progress(&self) {
        for run in self.lock().late.clone() {
            // A value is refused only because of its length.
            let set = run.set_progress("late");
            self.note(set.map_err(|error| format!("a late progress: {error:?}")));
        }
    }
}
