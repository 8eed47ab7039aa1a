//! The jobs of the model: the acts of each when it runs and when it is dropped, and its check that
//! its time has come.

use std::panic::panic_any;
use std::thread;

use tickwheel::{Next, Run};

use super::world::{World, nanos};
use super::{Act, Answer, LastWill, Time};

/// The most runs of a job, and of a job of `every`, which cannot stop, the most runs that act. Without a limit, one
/// that repeats at every tick would fill a history. One that advances by more than its period would move the
/// target of the advance away from itself, and the advance would never end.
const MAX_RUNS: usize = 25;

/// Captured by every job.
pub(crate) struct Capture {
    world: World,
    pub(crate) id: usize,
    last_will: LastWill,
}

impl Drop for Capture {
    fn drop(&mut self) {
        self.world.truth().alive -= 1;
        self.world.execute(self.last_will);
    }
}

impl World {
    /// Returns the capture of a job that is about to be inserted.
    pub(crate) fn capture(&self, act: Act, last_will: LastWill) -> Capture {
        let mut truth = self.truth();
        truth.alive += 1;
        let id = truth.add(act, last_will);
        drop(truth);
        Capture { world: self.clone(), id, last_will }
    }

    /// Does the last will of a captured value.
    pub(crate) fn execute(&self, last_will: LastWill) {
        if thread::panicking() {
            // The test has failed already.
            return;
        }
        match last_will {
            LastWill::Nothing => (),
            LastWill::Insert(delay) => {
                self.insert(Time::After(delay), Act::Nothing, LastWill::Nothing)
            }
            LastWill::Cancel(which) => self.cancel(which),
            LastWill::CancelKey(key) => self.cancel_key(key),
            LastWill::Panic => {
                self.truth().panics += 1;
                panic_any("last will");
            }
        }
    }

    /// Does the act of a waker or a hook, which is no job.
    pub(crate) fn act_outside_jobs(&self, act: Act) {
        match act {
            Act::CancelItself | Act::ResetItself(_) => (),
            Act::Panic => {
                self.truth().panics += 1;
                panic_any("act");
            }
            _ => self.act(usize::MAX, act),
        }
    }

    fn act(&self, id: usize, act: Act) {
        match act {
            Act::Nothing | Act::Panic => (),
            Act::Insert(delay) => self.insert(Time::After(delay), Act::Nothing, LastWill::Nothing),
            Act::InsertKey(key, delay) => {
                let time = Time::After(delay);
                self.insert_key(key, time, false, Act::Nothing, LastWill::Nothing);
            }
            Act::Again(_, 0, _) => (),
            Act::Again(key, times, delay) => {
                let again = Act::Again(key, times - 1, delay);
                self.insert_key(key, Time::After(delay), false, again, LastWill::Nothing);
            }
            Act::CancelItself => self.cancel(id),
            Act::ResetItself(delay) => self.reset(id, Time::After(delay)),
            Act::Cancel(which) => self.cancel(which),
            Act::CancelGroup(group) => self.cancel_group(group),
            Act::Take(which) => self.take(which, false),
            Act::Reset(which, delay) => self.reset(which, Time::After(delay)),
            Act::Event(op) => self.event(op),
            #[cfg(feature = "async")]
            Act::Sleeper(op) => self.sleeper(op),
            Act::Advance(by) => self.add_time(by),
        }
    }
}

impl Capture {
    /// Begins a run: checks that the job is due, unless it was taken out and is run outside. Returns the
    /// act of the run, and whether it is outside.
    fn begin(&self) -> (Act, bool) {
        let act = {
            let mut truth = self.world.truth();
            if truth.runs_outside.take_if(|id| *id == self.id).is_some() {
                return (truth.jobs[self.id].act, true);
            }
            let due = truth.jobs[self.id].due;
            let first = truth.first();
            truth.claim(due.is_some(), "a job ran that was not pending");
            truth.claim(due == first, "a job ran before one that was due earlier");
            // The clock of a manual wheel reads the deadline of the job that runs.
            truth.now = truth.now.max(due.unwrap_or(0) * super::truth::TICK);
            truth.ran += 1;
            truth.jobs[self.id].act
        };
        self.world.take_turn();
        (act, false)
    }

    pub(crate) fn run(self) {
        let (act, is_outside) = self.begin();
        if !is_outside {
            let mut truth = self.world.truth();
            let key = truth.key_of(self.id);
            truth.end(self.id);
            if let Some(key) = key {
                let keyed = &self.world.keyed;
                let is_free = !keyed.contains(&key) && keyed.handle(&key).is_none();
                truth.claim(is_free, "a key is taken by its running job");
            }
        }
        self.world.act(self.id, act);
        if matches!(act, Act::Panic) {
            self.world.truth().panics += 1;
            // A second panic while this one unwinds would end the process.
            let mut this = self;
            this.last_will = LastWill::Nothing;
            panic_any("act");
        }
    }

    /// Runs a job that repeats. It gets no `Run` if it was inserted by `every`.
    pub(crate) fn run_again(&mut self, run: Option<Run>) -> Next {
        let (mut act, is_outside) = self.begin();
        if is_outside {
            self.world.act(self.id, act);
            if matches!(act, Act::Panic) {
                self.world.truth().panics += 1;
                panic_any("act");
            }
            return Next::Stop;
        }
        let (answer, panics) = {
            let mut truth = self.world.truth();
            truth.begin_run(self.id);
            let (now, deadline) = (truth.now, truth.jobs[self.id].deadline);
            let repeat = truth.jobs[self.id].repeat.clone().expect("it repeats");
            let handle = match truth.key_of(self.id) {
                Some(key) => self.world.keyed.handle(&key),
                None => truth.jobs[self.id].handle,
            };
            if let Some(run) = run {
                let begin = self.world.origin;
                truth.claim(run.deadline == begin + nanos(deadline), "another deadline");
                truth.claim(run.late == nanos(now.saturating_sub(deadline)), "not as late");
                truth.claim(run.missed == repeat.dropped, "others were missed");
                truth.claim(Some(run.handle) == handle, "another handle");
            }
            let answer = repeat.answers[(repeat.runs - 1) % repeat.answers.len()];
            // A repeating job panics in every second run.
            let panics = matches!(act, Act::Panic) && repeat.runs % 2 == 1;
            match run {
                _ if repeat.runs < MAX_RUNS => (answer, panics),
                Some(_) => (Answer::Stop, false),
                None => {
                    act = Act::Nothing;
                    (answer, false)
                }
            }
        };
        self.world.act(self.id, act);
        let next = self.note_answer(if panics { None } else { Some(answer) });
        if panics {
            self.world.truth().panics += 1;
            panic_any("act");
        }
        next
    }

    /// Notes a run's answer in the truth; `None` is a panic. Returns the `Next` that the run returns
    /// to the wheel.
    fn note_answer(&self, answer: Option<Answer>) -> Next {
        let id = self.id;
        let mut truth = self.world.truth();
        let repeat = truth.jobs[id].repeat.clone().expect("it repeats");
        let answer = match answer {
            None if repeat.despite_panics => Answer::Period,
            None => Answer::Stop,
            Some(answer) => answer,
        };
        let now = truth.now;
        let (next, deadline, wall, dropped) = match answer {
            Answer::Period => match truth.follow(id) {
                Some((next, dropped)) => (Next::Period, Some(next), None, dropped),
                None => (Next::Period, None, None, 0),
            },
            Answer::After(delay) => {
                (Next::After(nanos(delay)), Some(now.saturating_add(delay)), None, 0)
            }
            Answer::At(ahead) => {
                let at = now.saturating_add_signed(ahead);
                (Next::At(self.world.origin + nanos(at)), Some(at), None, 0)
            }
            Answer::Wall(ahead) => {
                let wall = truth.wall_now() + i128::from(ahead);
                let at = truth.when_wall_reads(wall);
                (Next::Wall(self.world.time(wall)), Some(at), Some(wall), 0)
            }
            Answer::Stop => (Next::Stop, None, None, 0),
        };
        if !repeat.out {
            // The run has cancelled its own job.
            return next;
        }
        let Some(deadline) = deadline else {
            truth.end(id);
            return next;
        };
        // A reset during the run sets the phase anew.
        let dropped = if repeat.moved { 0 } else { dropped };
        truth.jobs[id].repeat.as_mut().expect("it repeats").dropped = dropped;
        let moved_to = repeat.moved.then_some(truth.jobs[id].deadline);
        if !repeat.moved {
            truth.jobs[id].wall = wall;
        }
        truth.set(id, moved_to.unwrap_or(deadline));
        next
    }
}
