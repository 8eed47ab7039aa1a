//! Sleeps, timeouts and intervals: polled, reset and dropped, with the results compared to the truth.
//!
//! The truth knows between which ticks a task is woken. If a sleeper is polled while the wheel processes
//! the tick at which it is over, two results are right: it is over already, or its task is woken within
//! that tick or the next.

use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};
use std::task::{Context, Poll, Wake, Waker};

use tickwheel::{Beat, Elapsed, Interval, Missed, Repeat, Sleep, Wheel};

use super::truth::{TICK, Truth};
use super::world::{World, nanos};
use super::{Act, Beats, SleeperOp, on_a_thread};

pub(crate) enum Sleeper {
    Sleep(Sleep),
    Timeout(Pin<Box<dyn Future<Output = Result<(), Elapsed>> + Send>>),
    Interval(Interval),
}

/// The truth about one sleeper.
pub(crate) struct KnownSleeper {
    kind: Kind,
    /// The time at which it is over, or of the next beat, in nanoseconds.
    time: u64,
    /// The tick of `time`.
    due: u64,
    /// The time was given as an instant, so it may be over before its tick has begun.
    by_instant: bool,
    asks: Asks,
    state: State,
}

enum Kind {
    Sleep,
    Timeout { limit: Option<Limit>, ready: Arc<AtomicBool> },
    Interval { period: u64, policy: Missed, missed: u64 },
}

/// The limit of a timeout, before its first poll.
#[derive(Clone, Copy)]
enum Limit {
    After(u64),
    At(u64),
}

/// The question of the next poll to the clock. If the answer is yes, the poll is ready.
#[derive(Clone, Copy, PartialEq)]
enum Asks {
    Nothing,
    /// Whether its instant has passed.
    ForTime,
    /// Whether its tick has begun.
    ForTick,
}

enum State {
    /// It has no place in the wheel.
    Idle,
    /// This task is woken at one of these ticks.
    Waits {
        task: Weak<Task>,
        low: u64,
        high: u64,
    },
    /// Its task was woken, or a poll was ready.
    Over,
    Dropped,
}

#[derive(PartialEq, Debug)]
enum Answer {
    Pending,
    Over,
    /// The future of a timeout was ready.
    Output,
    Beat(Beat),
    /// The wheel has ended.
    Gone,
}

#[derive(Clone, Copy, PartialEq)]
enum Expected {
    Pending,
    Over,
    Either,
    Output,
    Gone,
}

/// A task that has polled a sleeper.
pub(crate) struct Task {
    world: World,
    sleeper: usize,
    act: Act,
}

impl Wake for Task {
    fn wake(self: Arc<Self>) {
        self.world.note_wake(self.sleeper, Arc::as_ptr(&self));
        if self.world.truth().ended.is_none() {
            self.world.take_turn();
            self.world.act_outside_jobs(self.act);
        }
    }
}

struct Ready(Arc<AtomicBool>);

impl Future for Ready {
    type Output = ();

    fn poll(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<()> {
        if self.0.load(Ordering::Relaxed) { Poll::Ready(()) } else { Poll::Pending }
    }
}

impl Sleeper {
    fn poll(&mut self, cx: &mut Context<'_>) -> Answer {
        match self {
            Sleeper::Sleep(sleep) => match sleep.poll_elapsed(cx) {
                Poll::Pending => Answer::Pending,
                Poll::Ready(Ok(())) => Answer::Over,
                Poll::Ready(Err(_)) => Answer::Gone,
            },
            Sleeper::Timeout(timeout) => match timeout.as_mut().poll(cx) {
                Poll::Pending => Answer::Pending,
                Poll::Ready(Ok(())) => Answer::Output,
                Poll::Ready(Err(elapsed)) if elapsed.wheel_gone() => Answer::Gone,
                Poll::Ready(Err(_)) => Answer::Over,
            },
            Sleeper::Interval(interval) => match interval.poll_tick(cx) {
                Poll::Pending => Answer::Pending,
                Poll::Ready(Some(beat)) => Answer::Beat(beat),
                Poll::Ready(None) => Answer::Gone,
            },
        }
    }
}

/// The first tick at or after an instant.
fn tick_of(time: u64) -> u64 {
    if time == u64::MAX { u64::MAX } else { time.div_ceil(TICK) }
}

impl Truth {
    /// Returns the nanosecond this far from now.
    fn at(&self, ahead: i64) -> u64 {
        self.now.saturating_add_signed(ahead)
    }

    fn add_sleeper(&mut self, kind: Kind) -> &mut KnownSleeper {
        self.sleepers.push(KnownSleeper {
            kind,
            time: u64::MAX,
            due: u64::MAX,
            by_instant: false,
            asks: Asks::Nothing,
            state: State::Idle,
        });
        self.sleepers.last_mut().expect("it was pushed")
    }

    /// Gives a sleeper a time. A task that waits goes on waiting.
    fn set_sleeper(&mut self, id: usize, time: u64, due: u64, by_instant: bool) {
        let (now, tick) = (self.now, self.tick());
        let sleeper = &mut self.sleepers[id];
        (sleeper.time, sleeper.due, sleeper.by_instant) = (time, due, by_instant);
        let has_passed = by_instant && time <= now;
        sleeper.asks = if by_instant { Asks::ForTime } else { Asks::Nothing };
        match &mut sleeper.state {
            State::Waits { low, high, .. } => {
                if !has_passed {
                    sleeper.asks = Asks::Nothing;
                }
                (*low, *high) = if due <= tick { (tick, tick + 1) } else { (due, due) };
            }
            State::Idle | State::Over => sleeper.state = State::Idle,
            State::Dropped => {}
        }
    }

    fn expect_of_sleeper(&mut self, id: usize) -> Expected {
        let (now, tick) = (self.now, self.tick());
        let begun = match &mut self.sleepers[id].kind {
            Kind::Timeout { ready, .. } if ready.load(Ordering::Relaxed) => {
                return Expected::Output;
            }
            Kind::Timeout { limit, .. } => limit.take(),
            _ => None,
        };
        match begun {
            Some(Limit::After(delay)) => {
                let time = now.saturating_add(delay);
                self.set_sleeper(id, time, self.due_at(time), false);
            }
            Some(Limit::At(time)) => self.set_sleeper(id, time, tick_of(time), true),
            None => {}
        }
        let sleeper = &self.sleepers[id];
        let has_begun = sleeper.due <= tick;
        match (&sleeper.state, self.ended) {
            (State::Over, _) => return Expected::Over,
            // After the end, the tick of the end decides, and not the clock.
            (_, Some(ended)) if sleeper.due <= ended => return Expected::Over,
            (_, Some(_)) => return Expected::Gone,
            _ => {}
        }
        let is_asked = match sleeper.asks {
            Asks::Nothing => false,
            Asks::ForTime => sleeper.time <= now,
            Asks::ForTick => has_begun,
        };
        match sleeper.state {
            _ if sleeper.due == u64::MAX => Expected::Pending,
            _ if is_asked => Expected::Over,
            _ if now < sleeper.time => Expected::Pending,
            _ if !has_begun && sleeper.by_instant => Expected::Either,
            _ if !has_begun => Expected::Pending,
            State::Waits { .. } => Expected::Either,
            _ if self.advancing => Expected::Either,
            _ => Expected::Over,
        }
    }

    fn note_answer(&mut self, id: usize, expected: Expected, answer: Answer, task: &Weak<Task>) {
        let (now, tick) = (self.now, self.tick());
        let is_right = match (expected, &answer) {
            (Expected::Either, Answer::Gone | Answer::Output) => false,
            (Expected::Either, _) => true,
            (Expected::Over, Answer::Over | Answer::Beat(_)) => true,
            (Expected::Pending, Answer::Pending) => true,
            (Expected::Output, Answer::Output) => true,
            (Expected::Gone, Answer::Gone) => true,
            _ => false,
        };
        let time = self.sleepers[id].time;
        self.claim(is_right, "a poll answered wrong");
        let sleeper = &mut self.sleepers[id];
        let due = sleeper.due;
        sleeper.asks = Asks::Nothing;
        match answer {
            Answer::Pending => {
                let (from, to) = match sleeper.state {
                    State::Waits { low, high, .. } => (low, high),
                    _ if due <= tick => (tick, tick + 1),
                    _ => (due, due),
                };
                sleeper.state = State::Waits { task: Weak::clone(task), low: from, high: to };
            }
            Answer::Over => sleeper.state = State::Over,
            Answer::Output | Answer::Gone => sleeper.state = State::Idle,
            Answer::Beat(beat) => {
                sleeper.state = State::Idle;
                self.claim(now >= time, "a beat came before its time");
                self.note_beat(id, beat);
            }
        }
    }

    fn note_beat(&mut self, id: usize, beat: Beat) {
        let now = self.now;
        let sleeper = &mut self.sleepers[id];
        let time = sleeper.time;
        let Kind::Interval { period, policy, ref mut missed } = sleeper.kind else {
            return self.claim(false, "a beat of something else");
        };
        let was_missed = *missed;
        // Counts the deadlines one by one.
        let (mut next, mut dropped) = (time.saturating_add(period), 0);
        while next < now && policy != Missed::Burst {
            next += period;
            dropped += 1;
        }
        if policy == Missed::Delay && dropped > 0 {
            next = now.saturating_add(period);
        }
        *missed = dropped;
        (sleeper.time, sleeper.due, sleeper.by_instant) = (next, tick_of(next), true);
        sleeper.asks = Asks::ForTick;
        self.claim(beat.late == nanos(now.saturating_sub(time)), "a beat is not as late");
        self.claim(beat.missed == was_missed, "other beats were missed");
    }

    /// Checks that no task waits for a tick before this one.
    pub(crate) fn claim_that_sleepers_were_woken(&mut self, tick: u64) {
        let is_overdue = |sleeper: &KnownSleeper| match sleeper.state {
            State::Waits { high, .. } => high < tick,
            _ => false,
        };
        let none = !self.sleepers.iter().any(is_overdue);
        self.claim(none, "a task was not woken");
    }

    /// Returns the tick at which the next task is woken.
    pub(crate) fn next_sleeper(&self) -> Option<u64> {
        let tick = self.tick();
        let next = |sleeper: &KnownSleeper| match sleeper.state {
            State::Waits { low, .. } => Some(low.max(tick + 1)),
            _ => None,
        };
        self.sleepers.iter().filter_map(next).min()
    }
}

impl World {
    fn note_wake(&self, id: usize, task: *const Task) {
        if self.truth().ended.is_none() {
            self.follow_the_clock();
        }
        let mut truth = self.truth();
        let (tick, ended) = (truth.tick(), truth.ended);
        let sleeper = &mut truth.sleepers[id];
        let (is_right, in_time) = match &sleeper.state {
            State::Waits { task: waits, low, high } => {
                let in_time = ended.is_some() || (*low..=*high).contains(&tick);
                (std::ptr::eq(waits.as_ptr(), task), in_time)
            }
            _ => (false, true),
        };
        let is_over = ended.is_none_or(|ended| sleeper.due <= ended);
        sleeper.state = if is_over { State::Over } else { State::Idle };
        truth.claim(is_right, "a task was woken that does not wait");
        truth.claim(in_time, "a task was woken at another tick");
    }

    fn add(&self, sleeper: Sleeper) {
        self.slots().push(Some(sleeper));
    }

    fn slots(&self) -> std::sync::MutexGuard<'_, Vec<Option<Sleeper>>> {
        self.sleepers.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    fn instant(&self, time: u64) -> std::time::Instant {
        self.origin + nanos(time)
    }

    pub(crate) fn sleeper(&self, op: SleeperOp) {
        match op {
            SleeperOp::Sleep(delay) => self.sleep_within(delay, None),
            SleeperOp::SleepWithin(delay, slack) => self.sleep_within(delay, Some(slack)),
            SleeperOp::SleepUntil(ahead) => {
                let time = self.truth().at(ahead);
                self.add(Sleeper::Sleep(self.scheduler.sleep_until(self.instant(time))));
                let mut truth = self.truth();
                truth.add_sleeper(Kind::Sleep);
                let id = truth.sleepers.len() - 1;
                truth.set_sleeper(id, time, tick_of(time), true);
            }
            SleeperOp::Timeout(delay) => self.add_timeout(Limit::After(delay)),
            SleeperOp::TimeoutAt(ahead) => {
                let time = self.truth().at(ahead);
                self.add_timeout(Limit::At(time));
            }
            SleeperOp::Interval(beats) => self.add_interval(beats),
            SleeperOp::GetReady(which) => {
                let truth = self.truth();
                let Some(id) = which.checked_rem(truth.sleepers.len()) else { return };
                if let Kind::Timeout { ready, .. } = &truth.sleepers[id].kind {
                    ready.store(true, Ordering::Relaxed);
                }
            }
            SleeperOp::Poll(which) => self.poll(which, Act::Nothing),
            SleeperOp::Reset(which, delay, elsewhere) => {
                self.reset_sleeper(which, delay, elsewhere);
            }
            SleeperOp::ResetAt(which, ahead, elsewhere) => {
                self.reset_sleeper_at(which, ahead, elsewhere);
            }
            SleeperOp::Drop(which) => self.drop_sleeper(which),
        }
    }

    fn sleep_within(&self, delay: u64, slack: Option<u64>) {
        let sleep = match slack {
            None => self.scheduler.sleep(nanos(delay)),
            Some(slack) => self.scheduler.sleep_within(nanos(delay), nanos(slack)),
        };
        self.add(Sleeper::Sleep(sleep));
        let mut truth = self.truth();
        let time = truth.now.saturating_add(delay);
        let due = match slack {
            None => truth.due_at(time),
            Some(slack) => truth.due_within(delay, slack),
        };
        truth.add_sleeper(Kind::Sleep);
        let id = truth.sleepers.len() - 1;
        truth.set_sleeper(id, time, due, false);
    }

    fn add_timeout(&self, limit: Limit) {
        let ready = Arc::new(AtomicBool::new(false));
        let (scheduler, future) = (self.scheduler.clone(), Ready(Arc::clone(&ready)));
        let instant = match limit {
            Limit::At(time) => Some(self.instant(time)),
            Limit::After(_) => None,
        };
        self.add(Sleeper::Timeout(Box::pin(async move {
            match (limit, instant) {
                (Limit::After(delay), _) => scheduler.timeout(nanos(delay), future).await,
                (_, Some(instant)) => scheduler.timeout_at(instant, future).await,
                (Limit::At(_), None) => unreachable!("it has an instant"),
            }
        })));
        self.truth().add_sleeper(Kind::Timeout { limit: Some(limit), ready });
    }

    fn add_interval(&self, Beats { period, first, missed: policy }: Beats) {
        let mut repeat = Repeat::every(nanos(period)).missed(policy);
        if let Some(first) = first {
            repeat = repeat.starting(nanos(first));
        }
        let interval = self.scheduler.interval(repeat).expect("the period is not zero");
        self.add(Sleeper::Interval(interval));
        let mut truth = self.truth();
        let time = truth.now.saturating_add(first.unwrap_or(period));
        truth.add_sleeper(Kind::Interval { period, policy, missed: 0 });
        let id = truth.sleepers.len() - 1;
        truth.set_sleeper(id, time, tick_of(time), true);
    }

    /// Takes a sleeper out of the list while it is used, so that a waker that is called then does not
    /// use it too.
    fn with_sleeper<T>(&self, which: usize, f: impl FnOnce(usize, &mut Sleeper) -> T) -> Option<T> {
        let (id, mut sleeper) = {
            let mut slots = self.slots();
            let id = which.checked_rem(slots.len())?;
            (id, slots[id].take()?)
        };
        let answer = f(id, &mut sleeper);
        self.slots()[id] = Some(sleeper);
        Some(answer)
    }

    pub(crate) fn poll(&self, which: usize, act: Act) {
        let is_done = self.with_sleeper(which, |id, sleeper| {
            let expected = self.truth().expect_of_sleeper(id);
            let task = Arc::new(Task { world: self.clone(), sleeper: id, act });
            let weak = Arc::downgrade(&task);
            let answer = sleeper.poll(&mut Context::from_waker(&Waker::from(task)));
            let is_done = matches!(sleeper, Sleeper::Timeout(_)) && answer != Answer::Pending;
            if let Answer::Beat(beat) = answer {
                let deadline = self.instant(self.truth().sleepers[id].time);
                self.truth().claim(beat.deadline == deadline, "a beat of another phase");
            }
            if let Sleeper::Sleep(sleep) = sleeper {
                let is_over = sleep.is_elapsed() == (answer == Answer::Over);
                self.truth().claim(is_over, "`is_elapsed` and a poll do not agree");
            }
            self.truth().note_answer(id, expected, answer, &weak);
            is_done.then_some(id)
        });
        if let Some(Some(id)) = is_done {
            self.drop_sleeper(id);
        }
    }

    fn drop_sleeper(&self, which: usize) {
        let sleeper = {
            let mut slots = self.slots();
            let Some(id) = which.checked_rem(slots.len()) else { return };
            let Some(sleeper) = slots[id].take() else { return };
            self.truth().sleepers[id].state = State::Dropped;
            sleeper
        };
        drop(sleeper);
    }

    fn reset_sleeper(&self, which: usize, delay: u64, elsewhere: bool) {
        self.with_sleeper(which, |id, sleeper| match sleeper {
            Sleeper::Sleep(sleep) => {
                on_a_thread(elsewhere, || sleep.reset(nanos(delay)));
                let mut truth = self.truth();
                let time = truth.now.saturating_add(delay);
                let due = truth.due_at(time);
                truth.set_sleeper(id, time, due, false);
            }
            Sleeper::Interval(interval) => {
                on_a_thread(elsewhere, || interval.reset());
                let mut truth = self.truth();
                let now = truth.now;
                let Kind::Interval { period, ref mut missed, .. } = truth.sleepers[id].kind else {
                    return;
                };
                *missed = 0;
                let time = now.saturating_add(period);
                truth.set_sleeper(id, time, tick_of(time), true);
            }
            Sleeper::Timeout(_) => {}
        });
    }

    fn reset_sleeper_at(&self, which: usize, ahead: i64, elsewhere: bool) {
        self.with_sleeper(which, |id, sleeper| {
            let time = self.truth().at(ahead);
            let at = self.instant(time);
            match sleeper {
                Sleeper::Sleep(sleep) => on_a_thread(elsewhere, || sleep.reset_at(at)),
                Sleeper::Interval(interval) => on_a_thread(elsewhere, || interval.reset_at(at)),
                Sleeper::Timeout(_) => return,
            }
            let mut truth = self.truth();
            if let Kind::Interval { missed, .. } = &mut truth.sleepers[id].kind {
                *missed = 0;
            }
            truth.set_sleeper(id, time, tick_of(time), true);
        });
    }

    pub(crate) fn agree_on_sleepers(&self, wheel: &Wheel) {
        let slots = self.slots();
        let mut truth = self.truth();
        let waits = |sleeper: &&KnownSleeper| matches!(sleeper.state, State::Waits { .. });
        let waiting = truth.sleepers.iter().filter(waits).count();
        truth.claim(wheel.stats().sleeping == waiting, "another number of sleepers waits");
        for id in 0..slots.len() {
            if let State::Waits { task, .. } = &truth.sleepers[id].state {
                let is_kept = task.strong_count() == 1;
                truth.claim(is_kept, "the waker of a task that waits is not kept once");
            }
        }
        drop((slots, truth));
        self.claim_that_sleeps_know_if_they_are_over();
    }

    fn claim_that_sleeps_know_if_they_are_over(&self) {
        for (id, sleeper) in self.slots().iter().enumerate() {
            if let Some(Sleeper::Sleep(sleep)) = sleeper {
                let mut truth = self.truth();
                let is_over = matches!(truth.sleepers[id].state, State::Over);
                truth.claim(sleep.is_elapsed() == is_over, "a sleep says wrong that it is over");
            }
        }
    }

    /// Checks that the end of the wheel woke every task that waited.
    pub(crate) fn claim_that_sleepers_were_told(&self) {
        let mut truth = self.truth();
        let waits = |sleeper: &KnownSleeper| matches!(sleeper.state, State::Waits { .. });
        let none_waits = !truth.sleepers.iter().any(waits);
        truth.claim(none_waits, "a task was not told that the wheel has ended");
        drop(truth);
        self.claim_that_sleeps_know_if_they_are_over();
    }

    /// Polls every sleeper once more, and drops it.
    pub(crate) fn end_sleepers(&self) {
        let count = self.slots().len();
        for id in 0..count {
            // Three polls: a late interval may still have beats to return, even more than three.
            (0..3).for_each(|_| self.poll(id, Act::Nothing));
        }
        let sleepers = std::mem::take(&mut *self.slots());
        drop(sleepers);
    }
}
