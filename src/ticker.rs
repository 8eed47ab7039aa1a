//! The thread that turns the wheel: once a tick while there is work, and not at all while there is
//! none.
//!
//! Ground rules:
//!
//! - It sleeps until the next turn and is woken for an earlier one, by the protocol at the top of
//!   `alarm.rs`. With nothing pending, or nothing but "never", it sleeps without an end.
//! - It goes from one tick with work to the next, through all shards before the next tick: after a
//!   stall, everything is handed over in the order of deadlines.
//! - It holds a shard's lock for no more than [`TURN`] entries at a time.
//! - It runs no user code, and drops none: it cannot be blocked, and it cannot die of a panic.
//! - While no more jobs may be in flight, what is due stays where it is, and can be cancelled. The
//!   end of a job wakes the ticker.

use std::sync::Arc;

use crate::dispatch::{Due, Outlet};
use crate::engine::Engine;
use crate::time::Tick;

/// How many entries are looked at before a shard's lock is given back.
const TURN: usize = 256;

pub(crate) struct Ticker<O> {
    engine: Arc<Engine>,
    outlet: O,
    due: Vec<Due>,
}

impl<O: Outlet> Ticker<O> {
    pub(crate) fn new(engine: Arc<Engine>, outlet: O) -> Ticker<O> {
        Ticker { engine, outlet, due: Vec::with_capacity(TURN) }
    }

    /// Turns the wheel until the engine is stopped.
    pub(crate) fn run(mut self) {
        while !self.engine.is_stopped() {
            self.engine.alarm().awake();
            let next = self.engine.expected();
            let present = self.engine.present();
            if next > present {
                self.sleep_until(next);
                continue;
            }
            if !self.work_off(next, present) {
                // Nothing may be handed over, so nothing that is inserted could be either: no plan.
                self.engine.alarm().sleep(None);
            }
        }
    }

    fn sleep_until(&self, next: Tick) {
        let alarm = self.engine.alarm();
        alarm.plan(next);
        if self.engine.expected() < next || self.engine.is_stopped() {
            return;
        }
        let timeout = (next != Tick::MAX).then(|| self.engine.until(next));
        alarm.sleep(timeout);
    }

    /// Hands over everything that is due at `tick`, before which nothing is; whether there was room
    /// in flight for all of it.
    fn work_off(&mut self, tick: Tick, present: Tick) -> bool {
        for shard in 0..self.engine.shards() {
            loop {
                let limit = self.outlet.room().min(TURN);
                if limit == 0 {
                    return false;
                }
                let finished = self.engine.turn(shard, tick, limit, &mut self.due);
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
