//! Sleeps, timeouts and intervals alone: a list of futures, each with the tick at which it is over and the task that
//! polled it last.
//!
//! All times are whole milliseconds, and so is the tick, and no code runs inside the wheel. So this model knows the
//! answer of every poll and the count of every task's wakes, also after the end of the wheel. In
//! `wheel/sleepers.rs` wakers call the wheel, time passes within a tick, and some polls have two right answers.

use std::cell::Cell;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll, Wake, Waker};
use std::time::Instant;

use arbitrary::{Arbitrary, Result, Unstructured};
use tickwheel::{
    Beat, Driver, Geometry, Interval, Missed, Repeat, Scheduler, Sleep, Timeout, Wheel,
};

use crate::bytes::{Delay, history, ms};

/// How many beats an interval returns before it lets other tasks run.
const BEATS_IN_A_ROW: u32 = 128;

/// The most futures at once.
const FUTURES_MAX: usize = 40;

const TASKS: u8 = 3;

/// A future is named by its place in the list, modulo its length.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Action {
    Sleep(Delay),
    SleepUntil(i16),
    Timeout(Delay),
    TimeoutAt(i16),
    Interval(u8, u8),
    /// A task polls a future.
    Poll(u8, u8),
    PollMany(u8, u8, u8),
    /// The future of a timeout is ready from here on.
    Finish(u8),
    /// From another thread, if `true`.
    Reset(u8, Delay, bool),
    ResetAt(u8, i16, bool),
    Drop(u8),
    Advance(Delay),
    AdvanceToNext,
    End,
}

impl<'a> Arbitrary<'a> for Action {
    fn arbitrary(data: &mut Unstructured<'a>) -> Result<Action> {
        let near = -20..=235;
        Ok(match data.int_in_range(0..=31)? {
            0..=3 => Action::Sleep(data.arbitrary()?),
            4 => Action::SleepUntil(data.int_in_range(near)?),
            5..=6 => Action::Timeout(data.arbitrary()?),
            7 => Action::TimeoutAt(data.int_in_range(near)?),
            8..=10 => Action::Interval(data.arbitrary()?, data.arbitrary()?),
            11..=17 => Action::Poll(data.arbitrary()?, data.int_in_range(0..=TASKS - 1)?),
            18 => {
                let task = data.int_in_range(0..=TASKS - 1)?;
                Action::PollMany(data.arbitrary()?, task, data.arbitrary()?)
            }
            19 => Action::Finish(data.arbitrary()?),
            20..=21 => Action::Reset(data.arbitrary()?, data.arbitrary()?, data.arbitrary()?),
            22..=23 => {
                let future = data.arbitrary()?;
                Action::ResetAt(future, data.int_in_range(near)?, data.arbitrary()?)
            }
            24..=25 => Action::Drop(data.arbitrary()?),
            26..=29 => Action::Advance(data.arbitrary()?),
            30 => Action::AdvanceToNext,
            _ if data.int_in_range(0..=15)? == 0 => Action::End,
            _ => Action::Advance(Delay(1)),
        })
    }
}

/// A future that is ready once its flag is set.
struct Finishes(Rc<Cell<bool>>);

impl Future for Finishes {
    type Output = ();

    fn poll(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<()> {
        if self.0.get() { Poll::Ready(()) } else { Poll::Pending }
    }
}

enum Subject<'a> {
    Sleep(Sleep),
    Timeout(Pin<Box<Timeout<'a, Finishes>>>),
    Interval(Interval),
}

#[derive(Default)]
struct Task(AtomicUsize);

impl Wake for Task {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

#[derive(Clone, Copy, PartialEq, Debug)]
enum State {
    /// It has no place in the wheel.
    Idle,
    /// This task polled it, and will be woken.
    Waits(u8),
    /// Its waker was called because its time had come.
    Fired,
    /// It has returned its result. It stays over unless it is reset.
    Over,
}

/// The truth about one future.
struct Truth {
    state: State,
    /// When it is over, or the next beat is due, in milliseconds. `u64::MAX` is never. `None` for a
    /// timeout that was not polled.
    over_at: Option<u64>,
    /// The tick after a reset while it waited: its waker is not called before.
    first: u64,
    /// The length of a timeout that was not polled.
    limit: u64,
    finished: Rc<Cell<bool>>,
    period: u64,
    missed: Missed,
    /// How many beats were dropped before the next one.
    dropped: u64,
    /// How many beats were returned since it was last pending.
    in_a_row: u32,
}

struct World<'a> {
    wheel: Option<Wheel>,
    scheduler: &'a Scheduler,
    driver: Driver,
    tasks: [Arc<Task>; TASKS as usize],
    /// How often each task must have been woken.
    woken: [usize; TASKS as usize],
    futures: Vec<(Subject<'a>, Truth)>,
    now: u64,
    /// When the wheel ended.
    ended: Option<u64>,
    begin: Instant,
}

/// Chooses the geometry of a history.
#[derive(Clone, Copy, Arbitrary, Debug)]
pub(crate) struct Setup(pub(crate) u8);

pub(crate) fn run_bytes(bytes: &[u8]) {
    let (setup, actions) = history(bytes);
    run(setup, &actions);
}

pub(crate) fn run(Setup(shape): Setup, actions: &[Action]) {
    let geometry = match shape % 11 {
        0 => Ok(Geometry::default()),
        1 => Geometry::ring(4),
        slots => Geometry::levels(&[usize::from(slots) - 1, 3, 5]),
    };
    let builder = Wheel::builder().geometry(geometry.expect("the sizes are valid")).shards(3);
    let (wheel, driver) = builder.manual().expect("it is valid");
    let scheduler = wheel.scheduler();
    let mut world = World {
        wheel: Some(wheel),
        scheduler: &scheduler,
        begin: driver.now(),
        driver,
        tasks: Default::default(),
        woken: [0; TASKS as usize],
        futures: Vec::new(),
        now: 0,
        ended: None,
    };
    for &action in actions {
        world.act(action);
        world.compare();
    }
    world.end();
    world.compare();
}

/// Calls `act` on a thread of its own, or on this one.
fn on_a_thread(of_its_own: bool, act: impl FnOnce() + Send) {
    match of_its_own {
        true => std::thread::scope(|scope| scope.spawn(act).join().unwrap()),
        false => act(),
    }
}

impl<'a> World<'a> {
    fn add(&mut self, subject: Subject<'a>, over_at: Option<u64>) -> &mut Truth {
        let truth = Truth {
            state: State::Idle,
            over_at,
            first: 0,
            limit: 0,
            finished: Rc::default(),
            period: 0,
            missed: Missed::Skip,
            dropped: 0,
            in_a_row: 0,
        };
        self.futures.push((subject, truth));
        &mut self.futures.last_mut().expect("it was pushed above").1
    }

    /// Returns an instant near the present, and its millisecond.
    fn instant(&self, from_now: i16) -> (Instant, u64) {
        let at = self.now.saturating_add_signed(from_now.into());
        (self.begin + ms(at), at)
    }

    /// Returns when a delay from now is over: at the next tick, if it is zero.
    fn after(&self, delay: u64) -> u64 {
        self.now.saturating_add(delay.max(1))
    }

    fn act(&mut self, action: Action) {
        let (now, is_full) = (self.now, self.futures.len() >= FUTURES_MAX);
        match action {
            Action::Sleep(_) | Action::SleepUntil(_) if is_full => {}
            Action::Timeout(_) | Action::TimeoutAt(_) | Action::Interval(..) if is_full => {}
            Action::Sleep(Delay(delay)) => {
                let sleep = self.scheduler.sleep(ms(delay));
                self.add(Subject::Sleep(sleep), Some(self.after(delay)));
            }
            Action::SleepUntil(from_now) => {
                let (instant, at) = self.instant(from_now);
                self.add(Subject::Sleep(self.scheduler.sleep_until(instant)), Some(at));
            }
            Action::Timeout(Delay(delay)) => {
                let finished = Rc::default();
                let timeout = self.scheduler.timeout(ms(delay), Finishes(Rc::clone(&finished)));
                let truth = self.add(Subject::Timeout(Box::pin(timeout)), None);
                (truth.limit, truth.finished) = (delay, finished);
            }
            Action::TimeoutAt(from_now) => {
                let ((instant, at), finished) = (self.instant(from_now), Rc::default());
                let timeout = self.scheduler.timeout_at(instant, Finishes(Rc::clone(&finished)));
                self.add(Subject::Timeout(Box::pin(timeout)), Some(at)).finished = finished;
            }
            Action::Interval(period, policy) => {
                let (period, policies) = (u64::from(period), [Missed::Skip, Missed::Delay]);
                let missed = *policies.get(usize::from(policy % 3)).unwrap_or(&Missed::Burst);
                let interval = self.scheduler.interval(Repeat::every(ms(period)).missed(missed));
                assert_eq!(interval.is_err(), period == 0);
                let Ok(interval) = interval else { return };
                let truth = self.add(Subject::Interval(interval), Some(now + period));
                (truth.period, truth.missed) = (period, missed);
            }
            Action::Poll(future, task) => self.poll(future, task),
            Action::PollMany(future, task, count) => {
                (0..count).for_each(|_| self.poll(future, task));
            }
            Action::Finish(future) => {
                if let Some(place) = self.place(future) {
                    self.futures[place].1.finished.set(true);
                }
            }
            Action::Reset(future, Delay(delay), elsewhere) => {
                let (Some(place), over_at) = (self.place(future), self.after(delay)) else {
                    return;
                };
                let (subject, truth) = &mut self.futures[place];
                match subject {
                    Subject::Sleep(sleep) => {
                        on_a_thread(elsewhere, || sleep.reset(ms(delay)));
                        truth.reset(over_at, now);
                    }
                    Subject::Interval(interval) => {
                        on_a_thread(elsewhere, || interval.reset());
                        truth.reset(now + truth.period, now);
                    }
                    Subject::Timeout(_) => {}
                }
            }
            Action::ResetAt(future, from_now, elsewhere) => {
                let (Some(place), (instant, at)) = (self.place(future), self.instant(from_now))
                else {
                    return;
                };
                let (subject, truth) = &mut self.futures[place];
                match subject {
                    Subject::Sleep(sleep) => on_a_thread(elsewhere, || sleep.reset_at(instant)),
                    Subject::Interval(interval) => {
                        on_a_thread(elsewhere, || interval.reset_at(instant));
                    }
                    Subject::Timeout(_) => return,
                }
                truth.reset(at, now);
            }
            Action::Drop(future) => {
                if let Some(place) = self.place(future) {
                    self.remove(place);
                }
            }
            Action::Advance(Delay(delay)) => {
                let delay = delay.min(1 << 32);
                assert_eq!(self.driver.advance(ms(delay)), 0);
                self.advance(now + delay);
            }
            Action::AdvanceToNext => {
                let waits = self.futures.iter().filter(|(_, truth)| truth.waits());
                let next = waits.filter_map(|(_, truth)| truth.due()).min();
                // Once the wheel is gone, no future waits.
                let expected = next.map(|next| self.begin + ms(next));
                assert_eq!(self.driver.advance_to_next(), expected);
                self.advance(next.unwrap_or(now));
            }
            Action::End => self.end(),
        }
    }

    fn place(&self, future: u8) -> Option<usize> {
        usize::from(future).checked_rem(self.futures.len())
    }

    fn remove(&mut self, place: usize) {
        drop(self.futures.swap_remove(place).0);
    }

    fn poll(&mut self, future: u8, task: u8) {
        let Some(place) = self.place(future) else { return };
        // Once the wheel has ended, its time stands.
        let (now, come) = (self.now, self.ended.unwrap_or(self.now));
        let (subject, truth) = &mut self.futures[place];
        if truth.state == State::Over && matches!(subject, Subject::Interval(_)) {
            return;
        }
        let waker = Waker::from(Arc::clone(&self.tasks[usize::from(task)]));
        let cx = &mut Context::from_waker(&waker);
        let over_at = truth.over_at.unwrap_or_else(|| now.saturating_add(truth.limit.max(1)));
        let has_come = over_at <= come || truth.state == State::Fired;
        let is_gone = self.ended.is_some();
        let waits = if is_gone { State::Idle } else { State::Waits(task) };
        match subject {
            Subject::Sleep(sleep) => {
                let has_come = has_come || truth.state == State::Over;
                assert_eq!(Pin::new(&mut *sleep).poll(cx).is_ready(), has_come);
                assert_eq!(sleep.is_elapsed(), has_come);
                truth.state = if has_come { State::Over } else { waits };
            }
            Subject::Timeout(timeout) => {
                let polled = timeout.as_mut().poll(cx);
                if truth.finished.get() {
                    assert_eq!(polled, Poll::Ready(Ok(())));
                } else if has_come || is_gone {
                    assert!(matches!(polled, Poll::Ready(Err(_))));
                } else {
                    assert_eq!(polled, Poll::Pending);
                    (truth.state, truth.over_at) = (State::Waits(task), Some(over_at));
                    return;
                }
                // It must not be polled again. Its future is dropped with it.
                self.remove(place);
            }
            Subject::Interval(interval) => {
                if truth.in_a_row == BEATS_IN_A_ROW {
                    assert_eq!(interval.poll_tick(cx), Poll::Pending);
                    truth.in_a_row = 0;
                    self.woken[usize::from(task)] += 1;
                    return;
                }
                let polled = interval.poll_tick(cx);
                if has_come {
                    let deadline = self.begin + ms(over_at);
                    let beat = Beat { deadline, late: ms(now - over_at), missed: truth.dropped };
                    assert_eq!(polled, Poll::Ready(Some(beat)));
                    truth.follow(over_at, now);
                } else if is_gone {
                    assert_eq!(polled, Poll::Ready(None));
                    truth.state = State::Over;
                } else {
                    assert_eq!(polled, Poll::Pending);
                    (truth.state, truth.in_a_row) = (State::Waits(task), 0);
                }
            }
        }
    }

    fn advance(&mut self, to: u64) {
        self.now = to;
        for (_, truth) in &mut self.futures {
            if let State::Waits(task) = truth.state
                && truth.due().is_some_and(|due| due <= to)
            {
                truth.state = State::Fired;
                self.woken[usize::from(task)] += 1;
            }
        }
    }

    /// Ends the wheel. Every task that waits is woken, once for each of its futures.
    fn end(&mut self) {
        if self.wheel.take().is_none() {
            return;
        }
        self.ended = Some(self.now);
        for (_, truth) in &mut self.futures {
            if let State::Waits(task) = truth.state {
                let is_over = truth.over_at.is_some_and(|over_at| over_at <= self.now);
                truth.state = if is_over { State::Fired } else { State::Idle };
                self.woken[usize::from(task)] += 1;
            }
        }
    }

    fn compare(&self) {
        for ((number, task), woken) in (0..).zip(&self.tasks).zip(self.woken) {
            assert_eq!(task.0.load(Ordering::Relaxed), woken, "wakes of task {number}");
            let waits = |(_, truth): &&(_, Truth)| truth.state == State::Waits(number);
            let kept = self.futures.iter().filter(waits).count();
            assert_eq!(Arc::strong_count(task) - 1, kept, "wakers of task {number}");
        }
        for (place, (subject, truth)) in self.futures.iter().enumerate() {
            if let Subject::Sleep(sleep) = subject {
                let is_over = matches!(truth.state, State::Fired | State::Over);
                assert_eq!(sleep.is_elapsed(), is_over, "sleep {place}");
            }
        }
        if let Some(wheel) = &self.wheel {
            let waits = self.futures.iter().filter(|(_, truth)| truth.waits());
            assert_eq!((wheel.stats().sleeping, wheel.len()), (waits.count(), 0));
        }
        assert_eq!(self.driver.now(), self.begin + ms(self.now));
    }
}

impl Truth {
    fn waits(&self) -> bool {
        matches!(self.state, State::Waits(_))
    }

    /// Returns the tick at which the waker is called, of a future that waits.
    fn due(&self) -> Option<u64> {
        self.over_at.filter(|&over_at| over_at < u64::MAX).map(|over_at| over_at.max(self.first))
    }

    fn reset(&mut self, over_at: u64, now: u64) {
        (self.over_at, self.first, self.dropped) = (Some(over_at), now + 1, 0);
        if !self.waits() {
            self.state = State::Idle;
        }
    }

    /// Finds the beat after one that was returned, deadline by deadline.
    fn follow(&mut self, deadline: u64, now: u64) {
        let (mut next, mut dropped) = (deadline + self.period, 0);
        if self.missed != Missed::Burst && next < now {
            dropped = (now - 1 - deadline) / self.period;
            next = match self.missed {
                Missed::Delay => now + self.period,
                _ => deadline + (dropped + 1) * self.period,
            };
        }
        (self.over_at, self.dropped) = (Some(next), dropped);
        (self.state, self.first) = (State::Idle, 0);
        self.in_a_row += 1;
    }
}
