//! Advances of the clock, and the order in which timers come due.

use super::events::KnownEvent;
use super::truth::TICK;
use super::world::{World, nanos};

impl World {
    /// Returns the reading of the wheel's clock, in nanoseconds.
    pub(crate) fn reading(&self) -> u64 {
        (self.scheduler.now() - self.origin).as_nanos() as u64
    }

    /// Reads from the clock how far an advance has come. A waker or a hook cannot know it otherwise.
    pub(crate) fn follow_the_clock(&self) {
        let reading = self.reading();
        let mut truth = self.truth();
        let before = truth.now;
        truth.claim(reading >= before, "time went back");
        truth.now = reading;
    }

    /// Checks that everything that was due at an earlier tick has come: jobs, sleepers and events. And
    /// that nothing came before its tick.
    pub(crate) fn take_turn(&self) {
        let reading = self.reading();
        {
            let mut truth = self.truth();
            let (now, tick) = (truth.now, truth.tick());
            truth.claim(reading == now, "the clock reads another time");
            let first = truth.first();
            truth.claim(first.is_none_or(|first| first >= tick), "a job was due earlier");
            #[cfg(feature = "async")]
            truth.claim_that_sleepers_were_woken(tick);
        }
        self.observe_events();
    }

    pub(crate) fn advance(&self, by: u64) {
        let before = self.begin_advance();
        let ran = self.driver.advance(nanos(by));
        let mut truth = self.truth();
        truth.advancing = false;
        let ran_truly = truth.ran - before.ran;
        truth.claim(ran == ran_truly, "an advance counted wrong");
        truth.now = before.now + by + truth.added;
        drop(truth);
        self.arrive();
    }

    /// Lets more time pass, from inside an advance.
    pub(crate) fn add_time(&self, by: u64) {
        if self.truth().advancing {
            self.truth().added += by;
            let ran = self.driver.advance(nanos(by));
            self.truth().claim(ran == 0, "an advance within an advance ran jobs");
        }
    }

    pub(crate) fn advance_to_next(&self) {
        let next = self.next_timer();
        let before = self.begin_advance();
        let answer = self.driver.advance_to_next();
        let mut truth = self.truth();
        truth.advancing = false;
        let now = (self.driver.now() - self.origin).as_nanos() as u64;
        let came_to = now - truth.added;
        match answer {
            None => {
                truth.claim(next.sure.is_none(), "no timer was found");
                truth.claim(now == before.now, "time passed without a timer");
            }
            Some(answer) => {
                truth.claim(answer == self.driver.now(), "another time than the clock reads");
                let at = |tick: Option<u64>| tick.map(|tick| (tick * TICK).max(before.now));
                let (sure, possible) = (at(next.sure), at(next.possible));
                let is_next = Some(came_to) == sure
                    || possible.is_some_and(|possible| came_to >= possible)
                        && sure.is_none_or(|sure| came_to <= sure);
                truth.claim(is_next, "an advance to another time than that of the next timer");
            }
        }
        truth.now = now;
        drop(truth);
        self.arrive();
    }

    /// Returns the tick of the next timer: the one that is sure, and an earlier one that is possible.
    fn next_timer(&self) -> NextTimer {
        let is_full = self.is_full();
        let mut truth = self.truth();
        let tick = truth.tick();
        let jobs = truth.first();
        #[cfg(feature = "async")]
        let sleepers = truth.next_sleeper();
        #[cfg(not(feature = "async"))]
        let sleepers = None;
        // An event that was due when the wall clock was set may wait for room still, or come at the next tick.
        let was_due = |event: &KnownEvent| event.is_for_the_wall() && event.low <= tick;
        let pending = truth.events.pending();
        let pending = pending.map(|event| if was_due(event) { tick } else { event.high });
        let (due, to_come): (Vec<u64>, Vec<u64>) = pending.partition(|&high| high <= tick);
        let event = to_come.into_iter().min();
        // A due event may come now, but need not come before the next tick.
        let (event, possible) = match (is_full, due.is_empty()) {
            (false, true) => (event, None),
            (false, false) => (Some(tick + 1), Some(tick)),
            (true, true) => (event, None),
            (true, false) => (event, Some(tick)),
        };
        let finite = |tick: &u64| *tick < u64::MAX;
        let sure = [jobs, sleepers, event].into_iter().flatten().filter(finite).min();
        NextTimer { sure, possible: possible.filter(finite) }
    }

    fn begin_advance(&self) -> Before {
        let mut truth = self.truth();
        truth.advancing = true;
        truth.added = 0;
        Before { now: truth.now, ran: truth.ran }
    }

    /// Checks that nothing is overdue at the end of an advance.
    fn arrive(&self) {
        self.take_turn();
        let mut truth = self.truth();
        let (first, tick) = (truth.first(), truth.tick());
        truth.claim(first.is_none_or(|first| first > tick), "a job is due and did not run");
        #[cfg(feature = "async")]
        truth.claim_that_sleepers_were_woken(tick + 1);
    }

    pub(crate) fn set_wall(&self, by: i64) {
        let wall = {
            let mut truth = self.truth();
            truth.wall_shift += i128::from(by);
            truth.follow_the_wall();
            truth.let_events_follow_the_wall();
            truth.wall_now()
        };
        self.driver.set_wall(self.time(wall));
    }
}

struct Before {
    now: u64,
    ran: usize,
}

struct NextTimer {
    sure: Option<u64>,
    possible: Option<u64>,
}
