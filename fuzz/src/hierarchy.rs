//! The structure alone, against a map in the order of deadlines. After every action `check` walks
//! the whole structure.

use std::collections::{BTreeMap, BTreeSet};

use arbitrary::{Arbitrary, Result, Unstructured};
use tickwheel::{Geometry, Hierarchy, Key, Tick};

const SIZES: [&[usize]; 8] =
    [&[1], &[7], &[2, 4, 8], &[5, 1, 3], &[1, 2, 1], &[70, 3], &[3, 3, 3, 3], &[64, 64]];

/// A tick, relative to the present.
#[derive(Clone, Copy, Debug)]
enum Time {
    In(u8),
    Before(u8),
    /// A multiple of the range of the rings, and some ticks more or less.
    Ranges(u8, i8),
    /// Relative to the next tick with work.
    Next(i8),
    At(u64),
    End(u8),
}

impl<'a> Arbitrary<'a> for Time {
    fn arbitrary(data: &mut Unstructured<'a>) -> Result<Time> {
        Ok(match data.int_in_range(0..=15)? {
            0..=6 => Time::In(data.arbitrary()?),
            7 => Time::Before(data.arbitrary()?),
            8..=10 => Time::Ranges(data.int_in_range(0..=5)?, data.int_in_range(-3..=3)?),
            11..=13 => Time::Next(data.int_in_range(-1..=1)?),
            14 => Time::At(data.arbitrary()?),
            _ => Time::End(data.int_in_range(0..=3)?),
        })
    }
}

/// A timer is named by its number, modulo the number of all timers so far.
#[derive(Clone, Copy, Debug)]
enum Action {
    Insert(Time),
    /// The first time, the number of timers, and the ticks from each to the next.
    InsertMany(Time, u8, u8),
    Cancel(u8),
    /// Cancels the oldest pending timers, and leaves this many.
    CancelAllBut(u8),
    Reset(u8, Time),
    ResetMany(u8, Time),
    Look(u8),
    Advance(Time),
    /// Looks at no more than this many entries.
    AdvanceSome(Time, u8),
    Clear,
    Drain,
}

impl<'a> Arbitrary<'a> for Action {
    fn arbitrary(data: &mut Unstructured<'a>) -> Result<Action> {
        Ok(match data.int_in_range(0..=31)? {
            0..=7 => Action::Insert(data.arbitrary()?),
            8..=9 => Action::InsertMany(data.arbitrary()?, data.arbitrary()?, data.arbitrary()?),
            10..=12 => Action::Cancel(data.arbitrary()?),
            13 => Action::CancelAllBut(data.arbitrary()?),
            14..=17 => Action::Reset(data.arbitrary()?, data.arbitrary()?),
            18 => Action::ResetMany(data.arbitrary()?, data.arbitrary()?),
            19 => Action::Look(data.arbitrary()?),
            20..=24 => Action::Advance(data.arbitrary()?),
            25..=29 => Action::AdvanceSome(data.arbitrary()?, data.arbitrary()?),
            30 => Action::Clear,
            _ => Action::Drain,
        })
    }
}

#[derive(Clone, Copy)]
struct Timer {
    /// The deadline as it was given.
    given: u64,
    /// The tick at which the timer is due.
    due: u64,
}

struct World {
    subject: Hierarchy<usize>,
    range: u64,
    now: u64,
    /// Every key that an insert has returned.
    keys: Vec<Key>,
    /// The pending timers, by number.
    pending: BTreeMap<usize, Timer>,
    /// The same in the order of ticks.
    order: BTreeSet<(u64, usize)>,
}

pub fn run(data: &[u8]) {
    let mut data = Unstructured::new(data);
    let sizes = SIZES[usize::from(data.arbitrary::<u8>().unwrap_or(0)) % SIZES.len()];
    let geometry = Geometry::levels(sizes).expect("the sizes are valid");
    let mut world = World {
        range: geometry.range().get(),
        subject: Hierarchy::new(geometry),
        now: 0,
        keys: Vec::new(),
        pending: BTreeMap::new(),
        order: BTreeSet::new(),
    };
    for action in crate::actions(data) {
        world.act(action);
        world.compare();
    }
    world.advance(u64::MAX, usize::MAX);
    world.compare();
    assert!(world.subject.is_empty());
}

impl World {
    fn tick(&self, time: Time) -> u64 {
        match time {
            Time::In(ticks) => self.now.saturating_add(ticks.into()),
            Time::Before(ticks) => self.now.saturating_sub(ticks.into()),
            Time::Ranges(count, off) => {
                let ahead = self.range.saturating_mul(count.into());
                self.now.saturating_add(ahead).saturating_add_signed(off.into())
            }
            Time::Next(off) => {
                let next = self.subject.next_turn().map_or(self.now, Tick::get);
                next.saturating_add_signed(off.into())
            }
            Time::At(tick) => tick,
            Time::End(before) => u64::MAX - u64::from(before),
        }
    }

    fn timer(&self, given: u64) -> Timer {
        Timer { given, due: given.max(self.now.saturating_add(1)) }
    }

    fn insert(&mut self, given: u64) {
        let (number, timer) = (self.keys.len(), self.timer(given));
        self.keys.push(self.subject.insert(Tick::new(given), number));
        self.pending.insert(number, timer);
        self.order.insert((timer.due, number));
    }

    /// Takes a timer out of the model.
    fn remove(&mut self, number: usize) -> Option<Timer> {
        let timer = self.pending.remove(&number)?;
        self.order.remove(&(timer.due, number));
        Some(timer)
    }

    fn cancel(&mut self, number: usize) {
        let expected = self.remove(number).map(|_| number);
        assert_eq!(self.subject.cancel(self.keys[number]), expected);
        assert_eq!(self.subject.cancel(self.keys[number]), None);
    }

    fn reset(&mut self, number: usize, given: u64) {
        let is_pending = self.remove(number).is_some();
        assert_eq!(self.subject.reset(self.keys[number], Tick::new(given)), is_pending);
        if is_pending {
            let timer = self.timer(given);
            self.pending.insert(number, timer);
            self.order.insert((timer.due, number));
        }
    }

    fn act(&mut self, action: Action) {
        let number = |timer: u8| usize::from(timer).checked_rem(self.keys.len());
        match action {
            Action::Insert(time) => self.insert(self.tick(time)),
            Action::InsertMany(time, count, step) => {
                let first = self.tick(time);
                for at in 0..u64::from(count) {
                    self.insert(first.saturating_add(at * u64::from(step)));
                }
            }
            Action::Cancel(timer) => {
                if let Some(number) = number(timer) {
                    self.cancel(number);
                }
            }
            Action::CancelAllBut(left) => {
                let count = self.pending.len().saturating_sub(left.into());
                let oldest: Vec<usize> = self.pending.keys().take(count).copied().collect();
                oldest.into_iter().for_each(|number| self.cancel(number));
            }
            Action::Reset(timer, time) => {
                if let Some(number) = number(timer) {
                    self.reset(number, self.tick(time));
                }
            }
            Action::ResetMany(count, time) => {
                let given = self.tick(time);
                let oldest: Vec<usize> = self.pending.keys().take(count.into()).copied().collect();
                oldest.into_iter().for_each(|number| self.reset(number, given));
            }
            Action::Look(timer) => {
                if let Some(number) = number(timer) {
                    self.look(number);
                }
            }
            Action::Advance(time) => self.advance(self.tick(time), usize::MAX),
            Action::AdvanceSome(time, limit) => self.advance(self.tick(time), limit.into()),
            Action::Clear => {
                self.subject.clear();
                (self.pending, self.order) = Default::default();
            }
            Action::Drain => {
                let mut drained: Vec<_> = self.subject.drain().collect();
                drained.sort_by_key(|&(.., number)| number);
                let pending = core::mem::take(&mut self.pending);
                let expected = pending
                    .iter()
                    .map(|(&number, timer)| (self.keys[number], Tick::new(timer.given), number));
                assert!(drained.into_iter().eq(expected));
                self.order.clear();
            }
        }
    }

    fn look(&mut self, number: usize) {
        let (key, timer) = (self.keys[number], self.pending.get(&number));
        let value = timer.map(|_| number);
        assert_eq!(self.subject.contains(key), timer.is_some());
        assert_eq!(self.subject.deadline(key).map(Tick::get), timer.map(|timer| timer.given));
        assert_eq!(self.subject.location(key).is_some(), timer.is_some());
        assert_eq!(self.subject.get(key).copied(), value);
        assert_eq!(self.subject.get_mut(key).copied(), value);
    }

    fn advance(&mut self, to: u64, limit: usize) {
        let mut fired = Vec::new();
        let turn = self.subject.advance(Tick::new(to), limit, &mut fired);
        assert!(fired.len() <= limit);
        let mut last = 0;
        for (key, number) in fired {
            assert_eq!(key, self.keys[number]);
            let timer = self.remove(number).expect("a timer fired that is not pending");
            assert!(timer.due <= to, "timer {number} fired early");
            assert!(timer.due >= last, "timer {number} is out of order");
            last = timer.due;
        }
        let first = self.order.first().map_or(u64::MAX, |&(due, _)| due);
        assert!(last <= first, "a timer of tick {first} was passed over");
        if turn.finished {
            self.now = self.now.max(to);
            assert!(first > to || self.order.is_empty(), "a timer of tick {first} is late");
        } else {
            assert!(limit < usize::MAX && turn.now.get() >= self.now);
            self.now = turn.now.get();
            // The last tick comes again and again.
            let is_last = self.now == u64::MAX;
            assert!(
                self.now < to && first > self.now || is_last,
                "a timer of tick {first} is late"
            );
        }
        assert_eq!(turn.now.get(), self.now);
    }

    fn compare(&self) {
        if let Err(violation) = self.subject.check() {
            panic!("{violation}");
        }
        assert_eq!(self.subject.now().get(), self.now);
        assert_eq!(self.subject.len(), self.pending.len());
        assert_eq!(self.subject.is_empty(), self.pending.is_empty());
        let next = self.subject.next_turn().map(Tick::get);
        let first = self.order.first().map(|&(due, _)| due);
        assert_eq!(next.is_some(), first.is_some());
        assert!(next <= first, "there is no work before {next:?}, but a timer is due at {first:?}");
        assert!(next.is_none_or(|next| next > self.now || next == u64::MAX));
    }
}
