//! Suspects: claimed jobs that were interrupted before, and so may have ended their process.
//!
//! Ground rules:
//!
//! - A suspect is on trial until it has run for [`TRIAL`]. At most [`ON_TRIAL`] jobs that were
//!   interrupted once are on trial together. A job that was interrupted more often starts only while no other is
//!   on trial.
//! - The next interruption of a job may be its last, which makes it dead. Such a job is on its last trial until
//!   it has run for [`LAST_TRIAL`]. It starts once every other suspect has run that long, and no other suspect
//!   starts meanwhile. So a neighbour that ends the process within that time does not make it dead.
//! - Jobs that were never interrupted wait for no suspect: a claim passes over the suspects that must wait.

use std::time::{Duration, Instant};

use foldhash::HashSet;

use super::Machine;
use super::commit::Commit;
use crate::store::{ClaimRequest, Claimed, Fence, MOST_INTERRUPTIONS};
use crate::values::id::JobId;

/// How long a suspect delays other suspects, from its start on.
pub(super) const TRIAL: Duration = Duration::from_millis(100);
/// The same for a suspect whose next interruption is the last.
const LAST_TRIAL: Duration = Duration::from_secs(10);
/// How many jobs that were interrupted once may be on trial together.
const ON_TRIAL: usize = 32;

/// A claimed job that was interrupted before.
pub(super) struct Suspect {
    id: JobId,
    fence: Fence,
    is_last_try: bool,
}

impl Suspect {
    /// Returns the claimed job as a suspect, if it is one.
    pub(super) fn of(claimed: &Claimed) -> Option<Suspect> {
        let Claimed { id, fence, interruptions, .. } = *claimed;
        let is_last_try = interruptions + 1 >= MOST_INTERRUPTIONS;
        (interruptions > 0).then_some(Suspect { id, fence, is_last_try })
    }
}

impl Machine {
    /// Sets which suspects the request may claim.
    pub(super) fn admit_suspects(
        &mut self,
        request: ClaimRequest,
        now: Instant,
        commit: &Commit,
    ) -> ClaimRequest {
        let (mut on_trial, mut on_last_trial) = (0, false);
        let ended = if self.suspects.is_empty() { HashSet::default() } else { commit.ended() };
        let runs = &self.runs;
        self.suspects.retain(|suspect| {
            let run = runs.get(&suspect.id).filter(|run| run.fence == suspect.fence);
            // A suspect whose run this commit ends has survived it, so the same commit may claim the next
            // suspect. If nothing else is in flight, no other step may follow.
            let Some(run) = run.filter(|_| !ended.contains(&suspect.id)) else { return false };
            let age = run.age(now).unwrap_or_default();
            on_trial += usize::from(age < TRIAL);
            on_last_trial |= suspect.is_last_try && age < LAST_TRIAL;
            age < LAST_TRIAL
        });
        if on_last_trial {
            return request;
        }
        ClaimRequest {
            crashed_once: ON_TRIAL.saturating_sub(on_trial),
            poison_pill: on_trial == 0,
            last_try: self.suspects.is_empty(),
            ..request
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::dispatch::command::RunEnd;
    use crate::dispatch::machine::StepOutput;
    use crate::dispatch::machine::fixture::{claimed, settings};
    use crate::dispatch::run_state::{RunState, Slot};
    use crate::values::setting::HeadStart;
    use crate::values::time::Millis;

    const NONE: (usize, bool, bool) = (0, false, false);

    struct Trials {
        machine: Machine,
        begun: Instant,
    }

    impl Trials {
        #[expect(clippy::disallowed_methods, reason = "some instant to count from")]
        fn new() -> Trials {
            let begun = Instant::now();
            Trials { machine: Machine::new(settings(1000), Millis::ZERO), begun }
        }

        /// Claims a job that was interrupted so often before.
        fn claim(&mut self, number: u64, interruptions: u32) -> Arc<RunState> {
            let claimed = claimed(number, interruptions, number);
            let run = Arc::new(RunState::new(&claimed, Slot::Thread, None, HeadStart::NONE));
            self.machine.suspects.extend(Suspect::of(&claimed));
            self.machine.add_run(Arc::clone(&run), self.begun, &mut StepOutput::default());
            run
        }

        /// The same, and starts it at the beginning.
        fn start(&mut self, number: u64, interruptions: u32) -> Arc<RunState> {
            let run = self.claim(number, interruptions);
            assert!(run.start(Duration::ZERO, self.begun));
            run
        }

        /// Returns which suspects a claim of this step admits: of those that were interrupted once, how many;
        /// whether one of the others; and whether that one may be on its last try.
        fn admitted(&mut self, after: Duration, commit: &Commit) -> (usize, bool, bool) {
            let request = ClaimRequest::new(Millis::ZERO, 1000, 1000, Vec::new());
            let request = self.machine.admit_suspects(request, self.begun + after, commit);
            (request.crashed_once, request.poison_pill, request.last_try)
        }

        fn admitted_after(&mut self, after: Duration) -> (usize, bool, bool) {
            self.admitted(after, &Commit::default())
        }
    }

    /// A job that was interrupted before is a suspect, and is on its last try once the next interruption is the last.
    #[test]
    fn suspect_is_a_job_that_was_interrupted() {
        let tried = |interruptions| Suspect::of(&claimed(1, interruptions, 1));
        let is_last_try = |interruptions| tried(interruptions).map(|suspect| suspect.is_last_try);
        assert_eq!(is_last_try(0), None);
        assert_eq!(is_last_try(1), Some(false));
        assert_eq!(is_last_try(MOST_INTERRUPTIONS - 2), Some(false));
        assert_eq!(is_last_try(MOST_INTERRUPTIONS - 1), Some(true));
    }

    /// A suspect delays others until it has run for [`TRIAL`], and those on their last try until it has run for
    /// [`LAST_TRIAL`]. Before it starts it delays them too. A job that was never interrupted delays none.
    #[test]
    fn suspect_is_on_trial_until_it_has_run_for_a_while() {
        let ms = Duration::from_millis(1);
        let mut trials = Trials::new();
        trials.start(1, 0);
        assert_eq!(trials.admitted_after(Duration::ZERO), (ON_TRIAL, true, true));
        let first = trials.claim(2, 1);
        trials.start(3, 2);
        assert_eq!(trials.admitted_after(TRIAL - ms), (ON_TRIAL - 2, false, false));
        assert_eq!(trials.admitted_after(TRIAL), (ON_TRIAL - 1, false, false));
        assert!(first.start(Duration::ZERO, trials.begun + LAST_TRIAL));
        let since = |after| LAST_TRIAL + after;
        assert_eq!(trials.admitted_after(since(TRIAL - ms)), (ON_TRIAL - 1, false, false));
        assert_eq!(trials.admitted_after(since(TRIAL)), (ON_TRIAL, true, false));
        assert_eq!(trials.admitted_after(since(LAST_TRIAL - ms)), (ON_TRIAL, true, false));
        assert_eq!(trials.admitted_after(since(LAST_TRIAL)), (ON_TRIAL, true, true));
    }

    /// At most [`ON_TRIAL`] suspects are on trial together.
    #[test]
    fn suspects_on_trial_have_a_bound() {
        let mut trials = Trials::new();
        for number in 0..ON_TRIAL as u64 {
            assert_eq!(trials.admitted_after(Duration::ZERO).0, ON_TRIAL - number as usize);
            trials.start(number, 1);
        }
        assert_eq!(trials.admitted_after(Duration::ZERO), NONE);
        assert_eq!(trials.admitted_after(TRIAL), (ON_TRIAL, true, false));
    }

    /// No suspect starts beside one on its last trial, until that has run for [`LAST_TRIAL`].
    #[test]
    fn suspect_on_its_last_trial_is_alone() {
        let ms = Duration::from_millis(1);
        let mut trials = Trials::new();
        trials.start(1, MOST_INTERRUPTIONS - 1);
        for after in [Duration::ZERO, TRIAL, LAST_TRIAL - ms] {
            assert_eq!(trials.admitted_after(after), NONE, "{after:?}");
        }
        assert_eq!(trials.admitted_after(LAST_TRIAL), (ON_TRIAL, true, true));
    }

    /// A suspect whose run has ended, or ends with the commit, delays none. Neither does one whose claim was lost,
    /// although the job was claimed again.
    #[test]
    fn suspect_that_has_ended_is_off_trial() {
        let mut trials = Trials::new();
        let run = trials.start(1, MOST_INTERRUPTIONS - 1);
        assert_eq!(trials.admitted_after(Duration::ZERO), NONE);
        let mut given_back = Commit::default();
        given_back.release(&run);
        assert_eq!(trials.admitted(Duration::ZERO, &given_back), NONE);
        let mut finished = Commit::default();
        trials.machine.run_ended(run.id, RunEnd::Done, Millis::ZERO, &mut finished);
        assert_eq!(trials.admitted(Duration::ZERO, &finished), (ON_TRIAL, true, true));
        trials.start(3, MOST_INTERRUPTIONS - 1);
        assert_eq!(trials.admitted_after(Duration::ZERO), NONE);
        trials.machine.forget(JobId::from_u128(3));
        assert_eq!(trials.admitted_after(Duration::ZERO), (ON_TRIAL, true, true));
        trials.start(2, MOST_INTERRUPTIONS - 1);
        trials.machine.forget(JobId::from_u128(2));
        let again = Arc::new(RunState::new(&claimed(2, 0, 7), Slot::Thread, None, HeadStart::NONE));
        trials.machine.add_run(again, trials.begun, &mut StepOutput::default());
        assert_eq!(trials.admitted_after(Duration::ZERO), (ON_TRIAL, true, true));
    }
}
