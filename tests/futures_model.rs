//! Sleeps against a slow and obvious model, in random histories on a manual clock. The model, the
//! *truth*, is a list of sleeps, each with the tick at which it is over and the task that polled it
//! last.
//!
//! After every operation the test compares which task was woken and how often, which sleep is
//! elapsed, how many sleeps wait, and how many wakers are kept.
#![cfg(feature = "async")]

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

use proptest::prelude::*;
use tickwheel::{Driver, Geometry, Sleep, Wheel};

const MS: Duration = Duration::from_millis(1);
const TASKS: usize = 3;

#[derive(Clone, Debug)]
enum Action {
    Make { delay: u64 },
    MakeUntil { from_now: i64 },
    Poll { sleep: usize, task: usize },
    Reset { sleep: usize, delay: u64, elsewhere: bool },
    ResetAt { sleep: usize, from_now: i64, elsewhere: bool },
    Drop { sleep: usize },
    Advance { millis: u64 },
    AdvanceToNext,
    End,
}

fn action() -> impl Strategy<Value = Action> {
    let delay = prop_oneof![3 => 0..12_u64, 1 => 0..400_u64, 1 => Just(u64::MAX)];
    let from_now = -5..20_i64;
    let sleep = 0..12_usize;
    prop_oneof![
        4 => delay.clone().prop_map(|delay| Action::Make { delay }),
        2 => from_now.clone().prop_map(|from_now| Action::MakeUntil { from_now }),
        8 => (sleep.clone(), 0..TASKS).prop_map(|(sleep, task)| Action::Poll { sleep, task }),
        2 => (sleep.clone(), delay, any::<bool>())
            .prop_map(|(sleep, delay, elsewhere)| Action::Reset { sleep, delay, elsewhere }),
        2 => (sleep.clone(), from_now, any::<bool>())
            .prop_map(|(sleep, from_now, elsewhere)| Action::ResetAt { sleep, from_now, elsewhere }),
        2 => sleep.prop_map(|sleep| Action::Drop { sleep }),
        4 => (0..15_u64).prop_map(|millis| Action::Advance { millis }),
        1 => (0..500_u64).prop_map(|millis| Action::Advance { millis }),
        1 => Just(Action::AdvanceToNext),
    ]
}

/// Calls `act` on a thread of its own, or on this one.
fn on_a_thread(of_its_own: bool, act: impl FnOnce() + Send) {
    match of_its_own {
        true => std::thread::scope(|scope| scope.spawn(act).join().unwrap()),
        false => act(),
    }
}

struct Task(AtomicUsize);

impl Wake for Task {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

/// The truth about one sleep. Times are in milliseconds since the wheel began.
struct Truth {
    over_at: u64,
    /// The next poll asks the clock.
    by_instant: bool,
    state: State,
}

#[derive(Clone, Copy, PartialEq, Debug)]
enum State {
    Unpolled,
    Waits(usize),
    /// It has fired, and was not polled since.
    Fired,
    Over,
}

struct World {
    wheel: Option<Wheel>,
    driver: Driver,
    now: u64,
    ended: Option<u64>,
    tasks: [Arc<Task>; TASKS],
    woken: [usize; TASKS],
    sleeps: Vec<(Sleep, Truth)>,
}

impl World {
    fn new(geometry: Geometry) -> World {
        let (wheel, driver) = Wheel::builder().geometry(geometry).shards(3).manual().unwrap();
        World {
            wheel: Some(wheel),
            driver,
            now: 0,
            ended: None,
            tasks: [0; TASKS].map(|_| Arc::new(Task(AtomicUsize::new(0)))),
            woken: [0; TASKS],
            sleeps: Vec::new(),
        }
    }

    fn run(&mut self, action: Action) {
        match action {
            Action::Make { delay } => {
                let Some(wheel) = &self.wheel else { return };
                let duration = if delay == u64::MAX { Duration::MAX } else { MS * delay as u32 };
                let over_at = self.now.saturating_add(delay.max(1));
                self.add(wheel.sleep(duration), over_at, false);
            }
            Action::MakeUntil { from_now } => {
                let Some(wheel) = &self.wheel else { return };
                let over_at = self.now.saturating_add_signed(from_now);
                let instant = self.driver.now() - MS * self.now as u32 + MS * over_at as u32;
                self.add(wheel.sleep_until(instant), over_at, true);
            }
            Action::Poll { sleep, task } => self.poll(sleep, task),
            Action::Reset { sleep, delay, elsewhere } => {
                let over_at = self.now.saturating_add(delay.max(1));
                let Some((sleep, truth)) = self.sleeps.get_mut(sleep) else { return };
                let delay = if delay == u64::MAX { Duration::MAX } else { MS * delay as u32 };
                on_a_thread(elsewhere, || sleep.reset(delay));
                truth.reset(over_at, false);
            }
            Action::ResetAt { sleep, from_now, elsewhere } => {
                let over_at = self.now.saturating_add_signed(from_now);
                let instant = self.driver.now() - MS * self.now as u32 + MS * over_at as u32;
                let Some((sleep, truth)) = self.sleeps.get_mut(sleep) else { return };
                on_a_thread(elsewhere, || sleep.reset_at(instant));
                truth.reset(over_at, true);
            }
            Action::Drop { sleep } => {
                if sleep < self.sleeps.len() {
                    drop(self.sleeps.swap_remove(sleep));
                }
            }
            Action::Advance { millis } => {
                assert_eq!(self.driver.advance(MS * millis as u32), 0);
                self.advance_to(self.now + millis);
            }
            Action::AdvanceToNext => {
                let waiting = self.sleeps.iter().filter(|(_, truth)| truth.waits());
                let next = waiting.map(|(_, truth)| truth.over_at.max(self.now + 1)).min();
                let next = next.filter(|&next| next < u64::MAX / 2);
                let begin = self.driver.now() - MS * self.now as u32;
                let expected = next.map(|next| begin + MS * next as u32);
                assert_eq!(self.driver.advance_to_next(), expected);
                self.advance_to(next.unwrap_or(self.now));
            }
            Action::End => {
                self.wheel = None;
                self.ended = Some(self.now);
                for (_, truth) in &mut self.sleeps {
                    if let State::Waits(task) = truth.state {
                        self.woken[task] += 1;
                        let over = truth.over_at <= self.now;
                        truth.state = if over { State::Fired } else { State::Unpolled };
                    }
                }
            }
        }
    }

    fn add(&mut self, sleep: Sleep, over_at: u64, by_instant: bool) {
        self.sleeps.push((sleep, Truth { over_at, by_instant, state: State::Unpolled }));
    }

    fn poll(&mut self, sleep: usize, task: usize) {
        let Some((sleep, truth)) = self.sleeps.get_mut(sleep) else { return };
        let waker = Waker::from(Arc::clone(&self.tasks[task]));
        let polled = Pin::new(sleep).poll(&mut Context::from_waker(&waker));
        // On a manual clock the wheel has processed every tick up to the present, or up to its end:
        // a sleep whose tick had come by then is over, polled before or not. A sleep that was reset
        // to the past while it waited is due at the next tick. But its next poll asks the clock, as
        // long as the wheel exists.
        let processed = self.ended.unwrap_or(self.now);
        let asked = core::mem::take(&mut truth.by_instant) && truth.over_at <= processed;
        let is_over = match truth.state {
            State::Fired | State::Over => true,
            State::Unpolled => truth.over_at <= processed || asked,
            State::Waits(_) => asked,
        };
        assert_eq!(polled, if is_over { Poll::Ready(()) } else { Poll::Pending });
        truth.state = match is_over {
            true => State::Over,
            false if self.ended.is_some() => State::Unpolled,
            false => State::Waits(task),
        };
    }

    fn advance_to(&mut self, now: u64) {
        let moved = now > self.now;
        self.now = now;
        for (_, truth) in &mut self.sleeps {
            if let State::Waits(task) = truth.state {
                // A sleep that was reset to the past is due at the next tick.
                if truth.over_at <= now && moved {
                    truth.state = State::Fired;
                    self.woken[task] += 1;
                }
            }
        }
    }

    fn check(&mut self) {
        for (task, &woken) in self.tasks.iter().zip(&self.woken) {
            assert_eq!(task.0.load(Ordering::Relaxed), woken, "wakes");
        }
        for (task, number) in self.tasks.iter().zip(0..) {
            let kept = |&(_, truth): &&(Sleep, Truth)| truth.state == State::Waits(number);
            assert_eq!(Arc::strong_count(task) - 1, self.sleeps.iter().filter(kept).count());
        }
        for (sleep, truth) in &self.sleeps {
            let elapsed = matches!(truth.state, State::Fired | State::Over);
            assert_eq!(sleep.is_elapsed(), elapsed, "{:?} for {}", truth.state, truth.over_at);
        }
        if let Some(wheel) = &self.wheel {
            let waiting = self.sleeps.iter().filter(|(_, truth)| truth.waits()).count();
            assert_eq!((wheel.stats().sleeping, wheel.len()), (waiting, 0));
        }
    }
}

impl Truth {
    fn waits(&self) -> bool {
        matches!(self.state, State::Waits(_))
    }

    fn reset(&mut self, over_at: u64, by_instant: bool) {
        self.over_at = over_at;
        self.by_instant = by_instant;
        if !self.waits() {
            self.state = State::Unpolled;
        }
    }
}

fn geometry() -> impl Strategy<Value = Geometry> {
    prop_oneof![
        Just(Geometry::default()),
        Just(Geometry::ring(4).unwrap()),
        Just(Geometry::levels(&[3, 5, 2]).unwrap()),
    ]
}

/// The wheel makes its shards of wakers with the first sleep, which may be late in its life.
#[test]
fn first_sleep_late_in_a_wheels_life_agrees_with_a_list() {
    let mut world = World::new(Geometry::default());
    let reset = Action::ResetAt { sleep: 0, from_now: 0, elsewhere: false };
    let poll = Action::Poll { sleep: 0, task: 0 };
    let make = [Action::Advance { millis: 1 }, Action::Make { delay: 0 }];
    for action in make.into_iter().chain([poll, reset, Action::AdvanceToNext]) {
        world.run(action);
        world.check();
    }
}

/// A sleep that is reset to the past waits for a tick that has passed. Other sleeps that are over stay
/// over.
#[test]
fn reset_to_the_past_leaves_other_sleeps_over() {
    let mut world = World::new(Geometry::default());
    let history = [
        Action::Make { delay: 0 },
        Action::Poll { sleep: 0, task: 0 },
        Action::AdvanceToNext,
        Action::Make { delay: 0 },
        Action::Poll { sleep: 1, task: 0 },
        Action::ResetAt { sleep: 1, from_now: -1, elsewhere: false },
        Action::Advance { millis: 0 },
    ];
    for action in history {
        world.run(action);
        world.check();
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 512, ..ProptestConfig::default() })]

    /// Random histories of sleeps agree with a list of their times.
    #[test]
    fn sleeps_agree_with_a_list(
        geometry in geometry(),
        before in prop::collection::vec(action(), 1..120),
        after in prop::collection::vec(action(), 0..20),
    ) {
        let mut world = World::new(geometry);
        for action in before.into_iter().chain([Action::End]).chain(after) {
            world.run(action);
            world.check();
        }
    }
}
