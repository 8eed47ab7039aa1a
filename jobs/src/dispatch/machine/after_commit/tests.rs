//! Tests the effects of commits, above all of failed ones: which callers get an answer, and which operations stay.

use std::time::Duration;

use super::*;
use crate::dispatch::call::{Call, CallEnd, call};
use crate::dispatch::command::{Answered, RunEnd};
use crate::dispatch::machine::MachineSettings;
use crate::dispatch::machine::commands::MOST_BUFFERED;
use crate::dispatch::machine::fixture::{KIND, Steps, at, insert, job, settings};
use crate::dispatch::spans::RunSpan;
use crate::store::{Batch, IfTaken, NewJob, Store};
use crate::values::setting::pause_setting;

const SECOND: Duration = Duration::from_secs(1);

fn begin() -> Steps {
    Steps::new(MachineSettings { call_timeout: SECOND, ..settings(8) })
}

impl Steps {
    /// Returns an insert, due in an hour, whose caller waits until then.
    fn awaited(&self, number: u64, until: Duration) -> (Command, Call<Answered>) {
        let (reply, call) = call(Some(self.begun + until));
        (Command::Call { op: Op::Insert(self.later(number)), reply: Some(reply) }, call)
    }

    fn later(&self, number: u64) -> NewJob {
        job(number, at(self.begun, 3600 * SECOND))
    }

    fn buffered(&self, number: u64) -> Command {
        insert(self.later(number))
    }

    fn flush(&self) -> (Command, Call<Answered>) {
        let (reply, call) = call(Some(self.begun + 3600 * SECOND));
        (Command::Call { op: Op::Flush, reply: Some(reply) }, call)
    }

    /// Flushes after the commands. Returns the error of the flush.
    fn flush_after(
        &mut self,
        after: Duration,
        commands: impl IntoIterator<Item = Command>,
    ) -> Option<StoreError> {
        let (flush, call) = self.flush();
        answer(self.step(after, commands.into_iter().chain([flush])));
        match call.try_answer() {
            Some(CallEnd::Answered(Ok(Answer::Done))) => None,
            Some(CallEnd::Answered(Err(failed))) => Some(failed.error),
            _ => panic!("another answer"),
        }
    }

    fn fails(&mut self, error: StoreError, unknown: bool) {
        self.store.failure = Some(ApplyError { error, unknown, again: false });
    }
}

/// Answers, as the caller of the insert gets them.
fn answer(output: StepOutput) {
    output.answers.into_iter().for_each(|(reply, answer)| reply.answer(answer));
}

fn error(call: &Call<Answered>) -> Option<(StoreError, bool)> {
    match call.try_answer() {
        None => None,
        Some(CallEnd::Answered(Err(failed))) => Some((failed.error, failed.unknown)),
        Some(_) => panic!("another end"),
    }
}

fn dropped(output: &StepOutput) -> Vec<JobId> {
    let ids = |(event, _): &(Event, RunSpan)| match event {
        Event::InsertsDropped { ids } => {
            assert!(!ids.is_empty());
            Some(ids.clone())
        }
        _ => None,
    };
    output.events.iter().filter_map(ids).flatten().collect()
}

/// P107: A claimed job that is too old never comes to a thread. The next step ends it, also after a failed commit.
#[test]
fn claimed_job_that_is_too_old_is_ended_by_the_next_step() {
    let mut steps = begin();
    let mut old = job(1, at(steps.begun, Duration::ZERO));
    old.extra.get_or_insert_default().expires = Some(old.due);
    let output = steps.step(SECOND, [insert(old)]);
    assert!(output.starts.is_empty() && steps.machine.in_flight() == 1);
    steps.fails(StoreError::Busy, false);
    steps.step(2 * SECOND, None);
    steps.store.failure = None;
    let output = steps.step(5 * SECOND, None);
    let is_told = output.events.iter().any(|(event, _)| matches!(event, Event::Expired { .. }));
    assert!(is_told && output.starts.is_empty() && output.ended.is_empty());
    assert_eq!((steps.store.finishes, steps.machine.in_flight()), (2, 0));
}

/// P28: A step that learns that another process has ended a pause makes the next step at once: its own claim left the
/// kind out.
#[test]
fn end_of_a_pause_makes_the_next_step_at_once() {
    let mut steps = begin();
    let retry = steps.machine.settings.policies[KIND];
    steps.machine.settings.policies.insert(Arc::from("other"), retry);
    let mut elsewhere = |op: Op| {
        let batch = Batch {
            number: 1,
            ops: &[op],
            claim: None,
            synced: false,
            awaited: false,
            until: None,
            now: Millis::ZERO,
        };
        steps.store.apply(&batch).map_err(|failed| failed.error).unwrap();
        steps.machine.own_work.load_schedules = true;
        let output = steps.machine.step(at(steps.begun, SECOND), &mut Vec::new(), &mut steps.store);
        (
            output.starts.len(),
            output.wake_at.is_some_and(|at_once| at_once <= at(steps.begun, SECOND).millis()),
        )
    };
    let name = pause_setting(Some(KIND));
    elsewhere(Op::PutSetting { name: name.clone(), value: Some(String::new()) });
    let due = job(1, at(steps.begun, Duration::ZERO));
    assert_eq!(elsewhere(Op::Insert(due)), (0, false));
    assert_eq!(elsewhere(Op::PutSetting { name, value: None }), (0, true));
    assert_eq!(steps.step(SECOND, None).starts.len(), 1);
}

/// If other programs have the lock until the limit of the first caller, that caller is refused. A caller with a later
/// limit waits on, and its insert is done by a later step, unless it gives up before.
#[test]
fn busy_store_refuses_only_the_callers_whose_limit_is_over() {
    for gives_up in [false, true] {
        let mut steps = begin();
        let (first, first_call) = steps.awaited(1, SECOND);
        let (second, second_call) = steps.awaited(2, 3 * SECOND);
        let (third, third_call) = steps.awaited(3, SECOND);
        steps.fails(StoreError::Busy, false);
        answer(steps.step(SECOND, vec![first, second, third]));
        assert_eq!(error(&first_call), Some((StoreError::Busy, false)));
        assert_eq!(error(&third_call), Some((StoreError::Busy, false)));
        assert_eq!(error(&second_call), None);
        steps.store.failure = None;
        steps.store.inserts.clear();
        if gives_up {
            second_call.abandon();
        }
        let output = steps.step(2 * SECOND, None);
        assert_eq!(output.answers.len(), usize::from(!gives_up));
        assert_eq!(steps.store.inserts.len(), usize::from(!gives_up));
    }
}

/// Every caller gets any other failure as its answer, with a long limit too. So it gets a failure with an unknown
/// outcome.
#[test]
fn failed_commit_is_the_answer_of_every_caller() {
    for (wrong, unknown) in
        [(StoreError::Io("no disk".to_owned()), false), (StoreError::Busy, true)]
    {
        let mut steps = begin();
        let (first, first_call) = steps.awaited(1, SECOND);
        let (second, second_call) = steps.awaited(2, 3 * SECOND);
        steps.fails(wrong.clone(), unknown);
        let output = steps.step(SECOND, vec![first, second]);
        assert_eq!(dropped(&output), []);
        answer(output);
        assert_eq!(error(&first_call), Some((wrong.clone(), unknown)));
        assert_eq!(error(&second_call), Some((wrong, unknown)));
        steps.store.failure = None;
        steps.store.inserts.clear();
        steps.step(2 * SECOND, None);
        assert!(steps.store.inserts.is_empty());
    }
}

/// An insert without a caller that waits is kept until a commit succeeds. If it may be in the store already, the next
/// attempt looks for its id, so that it is not there twice.
#[test]
fn buffered_insert_is_kept_and_is_not_done_twice() {
    for unknown in [false, true] {
        let mut steps = begin();
        let one = steps.buffered(1);
        let jobs = vec![steps.later(2), steps.later(3)];
        let batch = Command::Call { op: Op::InsertMany(jobs), reply: None };
        steps.fails(StoreError::Io("no disk".to_owned()), unknown);
        assert_eq!(dropped(&steps.step(SECOND, vec![one, batch])), []);
        steps.store.inserts.clear();
        steps.store.failure = None;
        assert_eq!(dropped(&steps.step(2 * SECOND, None)), []);
        let tried: Vec<bool> = steps.store.inserts.iter().map(|job| job.callers_id).collect();
        assert_eq!(tried, [unknown; 3]);
        steps.store.inserts.clear();
        steps.step(3 * SECOND, None);
        assert!(steps.store.inserts.is_empty());
        steps.store.check().unwrap();
    }
}

/// Inserts without a caller that waits are lost, and are named, once there are too many of them, once the jobs end,
/// and once another process runs the jobs.
#[test]
fn buffered_inserts_that_are_lost_are_named() {
    let io = || StoreError::Io("no disk".to_owned());
    let mut steps = begin();
    steps.fails(io(), false);
    let most = MOST_BUFFERED as u64;
    let commands: Vec<_> = (0..most + 2).map(|number| steps.buffered(number)).collect();
    let lost = dropped(&steps.step(SECOND, commands));
    assert_eq!(lost, [most, most + 1].map(|number| JobId::from_u128(number.into())));

    for overtaken in [false, true] {
        let mut steps = begin();
        let jobs = vec![steps.later(2), steps.later(3)];
        let batch = Command::Call { op: Op::InsertMany(jobs), reply: None };
        let mut commands = vec![steps.buffered(1), batch];
        if overtaken {
            steps.fails(StoreError::Overtaken, false);
        } else {
            steps.fails(io(), false);
            commands.insert(0, Command::Close { reply: None });
        }
        let output = steps.step(SECOND, commands);
        assert_eq!(dropped(&output), [1, 2, 3].map(JobId::from_u128));
        assert_eq!(output.stopped, overtaken.then_some(StoreError::Overtaken));
    }
}

/// P3: A flush fails if its commit has not stored an insert before it, although that insert is tried again. The next
/// flush succeeds once the insert is stored.
#[test]
fn flush_fails_while_an_insert_before_it_is_not_stored() {
    for is_refused_alone in [false, true] {
        let mut steps = begin();
        let denied = StoreError::Io("no right".to_owned());
        let insert = steps.buffered(1);
        if is_refused_alone {
            steps.store.refuses_inserts = Some(denied.clone());
        } else {
            steps.fails(denied.clone(), false);
        }
        assert_eq!(steps.flush_after(SECOND, vec![insert]), Some(denied.clone()));
        assert_eq!(steps.flush_after(2 * SECOND, None), Some(denied));
        (steps.store.refuses_inserts, steps.store.failure) = (None, None);
        assert_eq!(steps.flush_after(3 * SECOND, None), None);
        assert_eq!(steps.store.inserts.len(), 3);
    }
}

/// If the store itself refuses a flush, that is the answer, and a later flush still says what was dropped.
#[test]
fn flush_that_the_store_refuses_fails() {
    let mut steps = begin();
    let is = |answer, error| matches!(answer, Answer::Refused(other) if other == error);
    steps.machine.backlog.unstored.note_dropped(&StoreError::Full);
    let refused = Answer::Refused(StoreError::Busy);
    assert!(is(steps.machine.flushed(&Op::Flush, refused), StoreError::Busy));
    assert!(is(steps.machine.flushed(&Op::Flush, Answer::Done), StoreError::Full));
}

/// P3: The next flush after an insert that was dropped fails, in the same commit or in a later one. Those after it
/// succeed.
#[test]
fn flush_says_once_that_an_insert_was_dropped() {
    let full = Some(StoreError::Full);
    for in_same_commit in [false, true] {
        let mut steps = begin();
        let insert = steps.buffered(1);
        steps.store.refuses_inserts = full.clone();
        if in_same_commit {
            assert_eq!(steps.flush_after(SECOND, vec![insert]), full);
        } else {
            // This flush comes before the insert.
            let (flush, call) = steps.flush();
            let output = steps.step(SECOND, vec![flush, insert]);
            assert_eq!(dropped(&output), [JobId::from_u128(1)]);
            answer(output);
            assert!(matches!(call.try_answer(), Some(CallEnd::Answered(Ok(_)))));
            assert_eq!(steps.flush_after(2 * SECOND, None), full);
        }
        assert_eq!(steps.flush_after(3 * SECOND, None), None);
    }
}

/// If another process runs the jobs by now, the runs are cancelled, and each is reported as interrupted once.
#[test]
fn runs_are_told_that_another_process_has_their_claims() {
    let mut steps = begin();
    let present = at(steps.begun, Duration::ZERO);
    let output = steps.step(Duration::ZERO, [1, 2].map(|number| insert(job(number, present))));
    let runs: Vec<_> = output.starts.into_iter().map(|start| start.state).collect();
    assert!(runs[0].start(Duration::ZERO, steps.begun));
    steps.fails(StoreError::Overtaken, false);
    let (insert, _call) = steps.awaited(3, SECOND);
    let output = steps.step(SECOND, vec![insert]);
    assert!(output.finished && runs[0].is_told());
    assert!(!runs[1].start(Duration::ZERO, steps.begun));
    let ended: Vec<_> = output.ended.iter().map(|run| run.over().unwrap().outcome).collect();
    assert_eq!(ended, [Outcome::Interrupted]);
}

/// The machine forgets the key of a run with the run, unless another run has the key by then.
#[test]
fn key_of_a_run_is_forgotten_with_it() {
    let mut steps = begin();
    let present = at(steps.begun, Duration::ZERO);
    let keyed = |number| NewJob {
        key: Some(("order-1".to_owned(), IfTaken::Replace)),
        ..job(number, present)
    };
    let start = |steps: &mut Steps, number| {
        let run = steps.step(Duration::ZERO, [insert(keyed(number))]).starts.pop().unwrap().state;
        assert!(run.start(Duration::ZERO, steps.begun));
        run
    };
    let runs = [1, 2].map(|number| start(&mut steps, number));
    let holder = |steps: &Steps| steps.machine.runs.by_key.get("order-1").copied();
    assert_eq!(holder(&steps), Some(runs[1].id));
    for (run, expected) in runs.iter().zip([Some(runs[1].id), None]) {
        let end = steps.ended(run, SECOND);
        steps.step(SECOND, [end]);
        assert_eq!(holder(&steps), expected);
    }
    assert_eq!(steps.machine.in_flight(), 0);
}

/// Progress that a commit has not written is written by a later one, unless the run has set another since.
#[test]
fn progress_that_was_not_written_is_written_later() {
    for is_set_again in [false, true] {
        let mut steps = begin();
        let run = steps.start(1, Duration::ZERO);
        let progress = Arc::clone(&steps.machine.settings.progress);
        progress.set(run.id, run.fence, b"1".to_vec());
        steps.fails(StoreError::Io("no disk".to_owned()), false);
        steps.step(SECOND, None);
        if is_set_again {
            progress.set(run.id, run.fence, b"2".to_vec());
        }
        steps.store.failure = None;
        steps.step(3 * SECOND, None);
        steps.step(5 * SECOND, None);
        let latest = if is_set_again { b"2" } else { b"1" };
        assert_eq!(steps.store.progress, [b"1", latest]);
    }
}

/// P37: A call that stores progress writes the latest progress of its run, once. If its commit is not sent before its
/// limit, the call is refused, and the progress is written later.
#[test]
fn stored_progress_is_the_latest_and_stays_after_a_refusal() {
    for fails in [false, true] {
        let mut steps = begin();
        let run = steps.start(1, Duration::ZERO);
        let progress = Arc::clone(&steps.machine.settings.progress);
        progress.set(run.id, run.fence, b"1".to_vec());
        let (reply, _call) = call(Some(steps.begun + 3 * SECOND));
        progress.set(run.id, run.fence, b"2".to_vec());
        let op = Op::PutProgress { id: run.id, fence: run.fence, value: b"1".to_vec() };
        if fails {
            let error = StoreError::Io("no server".to_owned());
            steps.store.failure = Some(ApplyError { error, unknown: false, again: true });
        }
        steps.step(2 * SECOND, vec![Command::Call { op, reply: Some(reply) }]);
        let refused = steps.step(4 * SECOND, None).answers;
        assert_eq!(refused.len(), usize::from(fails));
        steps.store.failure = None;
        for n in 0..9 {
            steps.step((60 + 10 * n) * SECOND, None);
        }
        let writes = if fails { 2 } else { 1 };
        assert_eq!(steps.store.progress, vec![b"2".to_vec(); writes]);
    }
}

/// P37: A call that stores progress is given up in the step that ends its run. The step writes the progress all the
/// same: of a run that has failed, and of one that a shutdown does not await.
#[test]
fn progress_of_a_call_that_was_given_up_is_written_with_the_end_of_its_run() {
    for has_failed in [false, true] {
        let mut steps = begin();
        let run = steps.start(1, Duration::ZERO);
        let (id, fence) = (run.id, run.fence);
        steps.machine.settings.progress.set(id, fence, b"1".to_vec());
        let (reply, gone) = call(Some(steps.begun + SECOND));
        gone.abandon();
        let op = Op::PutProgress { id, fence, value: b"1".to_vec() };
        let failed = RunEnd::Undecodable("no task".to_owned());
        let last = match has_failed {
            true => Command::Ended { id, fence, end: failed, at: Millis::ZERO },
            false => Command::Abandon,
        };
        steps.step(SECOND, vec![Command::Call { op, reply: Some(reply) }, last]);
        assert_eq!(steps.store.progress, [b"1"]);
    }
}

/// P30: If the commit of an end fails, the end is written again, and its follow-ups with it.
#[test]
fn end_whose_commit_failed_is_written_again_with_its_follow_ups() {
    let mut steps = begin();
    let run = steps.start(1, Duration::ZERO);
    run.follow_ups.add(vec![steps.later(2), steps.later(3)]).unwrap();
    assert!(run.returns(steps.begun));
    steps.fails(StoreError::Io("no disk".to_owned()), false);
    let end = steps.ended(&run, Duration::ZERO);
    let output = steps.step(SECOND, [end]);
    assert_eq!((output.inserted, steps.machine.in_flight()), (Vec::new(), 1));
    steps.store.failure = None;
    let output = steps.step(3 * SECOND, None);
    assert_eq!(output.inserted, [(Arc::from(KIND), 2)]);
    assert_eq!((steps.store.finishes, steps.machine.in_flight()), (2, 0));
    steps.store.check().unwrap();
}
