//! The thread that advances the wheel: once a tick while there is work, and not at all otherwise.
//!
//! Ground rules:
//!
//! - It sleeps until the next tick with work. An insert that is due earlier wakes it, by the
//!   protocol at the top of `alarm.rs`. With nothing pending, or nothing but "never", it sleeps
//!   without an end.
//! - It goes from one tick with work to the next, through all shards before the next tick. So after
//!   a stall, everything is handed over in the order of deadlines.
//! - It holds a shard's lock for no more than [`ENTRIES_PER_LOCK`] entries at a time; for the
//!   search for the next tick with work, at worst a look at every occupied slot of the outermost
//!   ring; and, seldom, for a move of few timers to a smaller slab (`structure/shrink.rs`:
//!   milliseconds).
//! - It runs no user code, and drops none. So nothing blocks it, and no panic ends it.
//! - While any job waits for a wall-clock time, it looks at the wall clock whenever it is awake,
//!   and wakes for that once a [`WALL_CHECK_INTERVAL`] (while `max_in_flight` is reached, only when
//!   a job ends). If the clock was set by more than [`WALL_STEP_MIN`] since any of the deadlines of
//!   these jobs was estimated, all of them are estimated anew. For that, a shard's lock is held for
//!   256 registrations at a time.
//! - While `max_in_flight` is reached, due jobs stay in the wheel, where they can be cancelled. The
//!   end of a job wakes the ticker.

use std::sync::Arc;
use std::time::Duration;

use crate::engine::dispatch::{DueJob, Outlet};
use crate::engine::shard::NextWake;
use crate::engine::verbs::Engine;
use crate::values::time::Tick;

/// How many entries are looked at before a shard's lock is released.
const ENTRIES_PER_LOCK: usize = 256;

/// How often the wall clock is looked at while a job waits for it. After the clock was set forward,
/// a job may be late by this.
const WALL_CHECK_INTERVAL: Duration = Duration::from_secs(1);

/// By how much the wall clock must have been set, or have drifted, for deadlines to be estimated
/// anew. A job may be late by this; a job that comes due too early goes back.
const WALL_STEP_MIN: Duration = Duration::from_millis(10);

pub(crate) struct Ticker<O> {
    engine: Arc<Engine>,
    outlet: O,
    due: Vec<DueJob>,
}

impl<O: Outlet> Ticker<O> {
    pub(crate) fn new(engine: Arc<Engine>, outlet: O) -> Ticker<O> {
        Ticker { engine, outlet, due: Vec::with_capacity(ENTRIES_PER_LOCK) }
    }

    /// Advances the wheel until the engine is stopped.
    pub(crate) fn run(mut self) {
        while !self.engine.is_stopped() {
            self.engine.alarm().awake();
            let next_wake = self.plan_wake();
            let present = self.engine.timebase().present();
            if next_wake.tick > present {
                self.sleep(next_wake);
                continue;
            }
            if !self.dispatch_due(next_wake.tick, present) {
                // `max_in_flight` is reached: sleep until a job ends. No plan, because an insert
                // need not wake the ticker either.
                self.engine.alarm().sleep(None);
                self.engine.note_wakeup();
            }
        }
    }

    /// Returns what there is to wait for, as the wall clock goes now.
    fn plan_wake(&self) -> NextWake {
        let next_wake = self.engine.next_wake();
        let Some(readings) = next_wake.wall else { return next_wake };
        let now = self.engine.timebase().clock().read_wall_closely();
        if readings.distance(now) <= WALL_STEP_MIN {
            return next_wake;
        }
        self.engine.follow_the_wall();
        self.engine.next_wake()
    }

    /// Sleeps until there is work, or until woken.
    fn sleep(&self, next_wake: NextWake) {
        let next = next_wake.tick;
        let alarm = self.engine.alarm();
        alarm.plan(next);
        let again = self.engine.next_wake();
        let changed = again.tick < next || again.wall.is_some() != next_wake.wall.is_some();
        if changed || self.engine.is_stopped() {
            return;
        }
        let until = || self.engine.timebase().until(next);
        alarm.sleep(match next_wake.wall.is_some() {
            true => Some(WALL_CHECK_INTERVAL.min(until())),
            false => (next != Tick::MAX).then(until),
        });
        self.engine.note_wakeup();
    }

    /// Hands over everything that is due at `tick`; every tick before it has been processed.
    /// Returns whether there was room in flight for all of it.
    fn dispatch_due(&mut self, tick: Tick, present: Tick) -> bool {
        for shard in 0..self.engine.shards() {
            loop {
                let limit = self.outlet.room().min(ENTRIES_PER_LOCK);
                if limit == 0 {
                    return false;
                }
                let finished = self.engine.advance_shard(shard, tick, limit, &mut self.due);
                if !self.due.is_empty() {
                    self.engine.set_behind(present - tick);
                    self.outlet.hand_over(&mut self.due);
                }
                if finished {
                    break;
                }
                if self.engine.is_stopped() {
                    return true;
                }
            }
        }
        true
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::engine::verbs::Config;
    use crate::host::clock::Clock;
    use crate::host::unwind::UnwindBoundary;
    use crate::structure::Geometry;
    use crate::values::time::Scale;
    use crate::values::when::When;
    use std::sync::mpsc::{Receiver, Sender, channel};
    use std::thread;

    struct Tells(Sender<usize>);

    impl Outlet for Tells {
        fn room(&self) -> usize {
            usize::MAX
        }

        fn hand_over(&self, jobs: &mut Vec<DueJob>) {
            self.0.send(jobs.drain(..).count()).unwrap();
        }
    }

    /// A ticker on an engine, and what it hands over.
    fn ticking() -> (Arc<Engine>, thread::JoinHandle<()>, Receiver<usize>) {
        let engine = Arc::new(Engine::new(Config {
            scale: Scale::new(Duration::from_millis(1)).unwrap(),
            clock: Clock::monotonic(),
            geometry: Geometry::default(),
            shards: 2,
            max_pending: None,
            boundary: UnwindBoundary::default(),
        }));
        let (sender, due) = channel();
        let ticker = Ticker::new(Arc::clone(&engine), Tells(sender));
        (engine, thread::spawn(|| ticker.run()), due)
    }

    const DAY: Duration = Duration::from_secs(24 * 3600);
    /// Longer than anything here takes on the slowest machine.
    const MINUTE: Duration = Duration::from_secs(60);

    #[test]
    fn a_wall_clock_that_is_set_forward_is_noticed_while_nothing_is_due() {
        let (engine, ticker, due) = ticking();
        // The ticker means to sleep for a day, and is not to look at the wall clock. Then it has
        // to.
        engine.insert(When::after(DAY), || ()).unwrap();
        assert!(due.recv_timeout(Duration::from_millis(50)).is_err());
        let clock = Arc::clone(engine.timebase().clock());
        for round in 1..=2 {
            engine.insert(When::wall(clock.wall() + 2 * DAY), || ()).unwrap();
            assert!(due.recv_timeout(Duration::from_millis(50)).is_err());
            clock.set_wall(clock.wall() + 3 * DAY);
            assert_eq!(due.recv_timeout(MINUTE), Ok(1), "round {round}");
        }
        engine.stop();
        ticker.join().unwrap();
    }

    #[test]
    fn a_wall_clock_that_is_set_to_and_fro_between_two_looks_is_noticed() {
        let (engine, ticker, due) = ticking();
        let clock = Arc::clone(engine.timebase().clock());
        engine.insert(When::wall(clock.wall() + DAY), || ()).unwrap();
        assert!(due.recv_timeout(Duration::from_millis(50)).is_err());
        // At the next look the clock is where it was at the last one. But a job has come in
        // meanwhile, when its time was a day away.
        let time = clock.wall() + Duration::from_millis(100);
        clock.set_wall(clock.wall() - DAY);
        engine.insert(When::wall(time), || ()).unwrap();
        clock.set_wall(clock.wall() + DAY);
        assert_eq!(due.recv_timeout(MINUTE), Ok(1));
        engine.stop();
        ticker.join().unwrap();
    }
}
