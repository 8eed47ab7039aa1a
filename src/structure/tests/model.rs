//! The structure against a slow and obvious model: a map in the order of deadlines.
//!
//! After every action the results agree and [`Hierarchy::check`] holds. Geometries are tiny, so
//! that cascades and wraps happen every few actions. Time begins anywhere, the end included.
//!
//! Properties:
//!
//! 1. the timers that fire are those that the map would fire: none early, late, twice, lost or
//!    invented;
//! 2. within one advance the timers come in the order of their deadlines, where one that had passed
//!    when it was given counts as the next tick after that;
//! 3. an unfinished advance has fired the earliest, and no more than its limit;
//! 4. a key works while its timer is pending, and never before, after, or elsewhere, and the key
//!    that comes out with a timer is the one that was given for it;
//! 5. `next_turn` is a lower bound for the pending deadlines, and lies ahead.
//!
//! The fuzzer includes this file too (`fuzz/src/lib.rs`). It cannot forge keys nor set the thresholds, so the module
//! above passes both in ([`Inside`]).

use std::collections::{BTreeMap, BTreeSet, HashMap};

use arbitrary::{Arbitrary, Result, Unstructured};

use super::{Geometry, Hierarchy, Key, Tick};

/// The private parts of the structure.
#[derive(Clone, Copy)]
pub(crate) struct Inside {
    /// Makes a structure. If `true`, its thresholds are so low that a short history crosses every one.
    pub(crate) make: fn(Geometry, bool) -> Hierarchy<usize>,
    /// Makes a key with another index or another generation.
    pub(crate) forge: fn(Key, Forgery) -> Option<Key>,
    /// Advances without taking timers out, and looks at no more than this many entries. Returns whether a timer is due,
    /// or `None` if the entries were too many.
    pub(crate) advance_to_due: Option<AdvanceToDue>,
}

pub(crate) type AdvanceToDue = fn(&mut Hierarchy<usize>, Tick, usize) -> Option<bool>;

#[derive(Clone, Copy, Debug)]
pub(crate) enum Forgery {
    Index(u32),
    GenerationBy(u64),
}

/// A tick, relative to the present.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Time {
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
            0..=4 => Time::In(data.int_in_range(0..=11)?),
            5 => Time::In(data.arbitrary()?),
            6..=7 => Time::Before(data.int_in_range(0..=19)?),
            8..=10 => Time::Ranges(data.int_in_range(0..=5)?, data.int_in_range(-3..=3)?),
            11..=13 => Time::Next(data.int_in_range(-1..=1)?),
            14 => Time::At(data.arbitrary()?),
            _ => Time::End(data.int_in_range(0..=3)?),
        })
    }
}

/// A timer is named by its number, modulo the number of all timers so far: pending, fired or cancelled, its
/// index used again or not.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Which {
    Given(u8),
    /// A key of another structure.
    Foreign(u8),
    Forged(u8, Forgery),
}

impl<'a> Arbitrary<'a> for Which {
    fn arbitrary(data: &mut Unstructured<'a>) -> Result<Which> {
        Ok(match data.int_in_range(0..=15)? {
            0..=12 => Which::Given(data.arbitrary()?),
            13 => Which::Foreign(data.arbitrary()?),
            14 => Which::Forged(data.arbitrary()?, Forgery::Index(data.arbitrary()?)),
            _ => Which::Forged(data.arbitrary()?, Forgery::GenerationBy(data.arbitrary()?)),
        })
    }
}

#[derive(Clone, Copy, Debug)]
pub(crate) enum Action {
    Insert(Time),
    /// The first time, the number of timers, and the ticks from each to the next.
    InsertMany(Time, u8, u8),
    Cancel(Which),
    /// Cancels the oldest pending timers, and leaves this many.
    CancelAllBut(u8),
    Reset(Which, Time),
    ResetMany(u8, Time),
    Look(Which),
    Advance(Time),
    /// Fires no more than this many timers.
    AdvanceSome(Time, u8),
    /// Takes no timer out. Looks at this many entries in one step.
    AdvanceToDue(Time, u8),
    Clear,
    Drain,
}

impl<'a> Arbitrary<'a> for Action {
    fn arbitrary(data: &mut Unstructured<'a>) -> Result<Action> {
        Ok(match data.int_in_range(0..=63)? {
            0..=20 => Action::Insert(data.arbitrary()?),
            21 => Action::InsertMany(data.arbitrary()?, data.arbitrary()?, data.arbitrary()?),
            22..=28 => Action::Cancel(data.arbitrary()?),
            29 => Action::CancelAllBut(data.arbitrary()?),
            30..=38 => Action::Reset(data.arbitrary()?, data.arbitrary()?),
            39 => Action::ResetMany(data.arbitrary()?, data.arbitrary()?),
            40..=41 => Action::Look(data.arbitrary()?),
            42..=48 => Action::Advance(data.arbitrary()?),
            49..=50 => Action::AdvanceToDue(data.arbitrary()?, data.int_in_range(1..=5)?),
            51..=59 => Action::AdvanceSome(data.arbitrary()?, data.int_in_range(0..=5)?),
            60..=61 => Action::AdvanceSome(data.arbitrary()?, data.arbitrary()?),
            62 => Action::Clear,
            _ => Action::Drain,
        })
    }
}

#[derive(Clone, Debug)]
pub(crate) struct Setup {
    sizes: Vec<usize>,
    /// Where time begins: near zero, after years at a microsecond, at the end.
    begin: u64,
    has_low_thresholds: bool,
}

impl<'a> Arbitrary<'a> for Setup {
    fn arbitrary(data: &mut Unstructured<'a>) -> Result<Setup> {
        let mut sizes = |count, most| -> Result<Vec<usize>> {
            (0..count).map(|_| data.int_in_range(1..=most)).collect()
        };
        let [one, few] = [sizes(1, 9)?, sizes(4, 5)?];
        let few = few[..data.int_in_range(2..=4)?].to_vec();
        Ok(Setup {
            sizes: match data.int_in_range(0..=7)? {
                0..=1 => one,
                2..=4 => few,
                5 => vec![2, 4, 8],
                6 => vec![70, 3],
                _ => vec![64, 64],
            },
            begin: match data.int_in_range(0..=5)? {
                0..=3 => data.int_in_range(0..=99)?,
                4 => data.arbitrary()?,
                _ => u64::MAX - data.int_in_range(0..=59)?,
            },
            has_low_thresholds: data.int_in_range(0..=3)? > 0,
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
    inside: Inside,
    range: u64,
    now: u64,
    /// Every key that an insert has returned.
    keys: Vec<Key>,
    /// The number of each.
    numbers: HashMap<Key, usize>,
    foreign: Vec<Key>,
    /// The pending timers, by number.
    pending: BTreeMap<usize, Timer>,
    /// The same in the order of ticks.
    order: BTreeSet<(u64, usize)>,
}

/// Runs one history.
pub(crate) fn run(setup: &Setup, actions: &[Action], inside: Inside) {
    let geometry = Geometry::levels(&setup.sizes).expect("the sizes are valid");
    let mut other = Hierarchy::new(geometry.clone());
    let mut world = World {
        range: geometry.range().get(),
        subject: (inside.make)(geometry, setup.has_low_thresholds),
        inside,
        now: 0,
        keys: Vec::new(),
        numbers: HashMap::new(),
        foreign: (0..8).map(|tick| other.insert(Tick::new(tick), 0)).collect(),
        pending: BTreeMap::new(),
        order: BTreeSet::new(),
    };
    world.advance(setup.begin, 0);
    assert_eq!(world.now, setup.begin);
    for &action in actions {
        world.act(action);
        world.compare();
    }
    // In the end every timer comes out, once.
    world.advance(u64::MAX, usize::MAX);
    world.compare();
    assert!(world.subject.is_empty(), "property 1: the end left timers");
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

    fn key(&self, which: Which) -> Option<Key> {
        let pick = |keys: &[Key], at: u8| Some(keys[usize::from(at).checked_rem(keys.len())?]);
        match which {
            Which::Given(at) => pick(&self.keys, at),
            Which::Foreign(at) => pick(&self.foreign, at),
            Which::Forged(at, Forgery::Index(index)) => {
                (self.inside.forge)(pick(&self.foreign, at)?, Forgery::Index(index))
            }
            Which::Forged(at, forgery) => (self.inside.forge)(pick(&self.keys, at)?, forgery),
        }
    }

    fn timer(&self, given: u64) -> Timer {
        Timer { given, due: given.max(self.now.saturating_add(1)) }
    }

    fn insert(&mut self, given: u64) {
        let (number, timer) = (self.keys.len(), self.timer(given));
        let key = self.subject.insert(Tick::new(given), number);
        assert_eq!(self.numbers.insert(key, number), None, "property 4: it was given before");
        self.keys.push(key);
        self.pending.insert(number, timer);
        self.order.insert((timer.due, number));
    }

    /// Takes a timer out of the model.
    fn remove(&mut self, number: usize) -> Option<Timer> {
        let timer = self.pending.remove(&number)?;
        self.order.remove(&(timer.due, number));
        Some(timer)
    }

    /// Returns the number of the timer that is pending under a key.
    fn pending(&self, key: Key) -> Option<usize> {
        self.numbers.get(&key).copied().filter(|number| self.pending.contains_key(number))
    }

    fn cancel(&mut self, key: Key) {
        let expected = self.pending(key);
        expected.map(|number| self.remove(number));
        assert_eq!(self.subject.cancel(key), expected, "property 4");
        assert_eq!(self.subject.cancel(key), None, "property 4");
    }

    fn reset(&mut self, key: Key, given: u64) {
        let expected = self.pending(key);
        assert_eq!(self.subject.reset(key, Tick::new(given)), expected.is_some(), "property 4");
        if let Some(number) = expected {
            self.remove(number);
            let timer = self.timer(given);
            self.pending.insert(number, timer);
            self.order.insert((timer.due, number));
        }
    }

    fn oldest(&self, count: usize) -> Vec<Key> {
        self.pending.keys().take(count).map(|&number| self.keys[number]).collect()
    }

    fn act(&mut self, action: Action) {
        match action {
            Action::Insert(time) => self.insert(self.tick(time)),
            Action::InsertMany(time, count, step) => {
                let first = self.tick(time);
                for at in 0..u64::from(count) {
                    self.insert(first.saturating_add(at * u64::from(step)));
                }
            }
            Action::Cancel(which) => {
                if let Some(key) = self.key(which) {
                    self.cancel(key);
                }
            }
            Action::CancelAllBut(left) => {
                let count = self.pending.len().saturating_sub(left.into());
                self.oldest(count).into_iter().for_each(|key| self.cancel(key));
            }
            Action::Reset(which, time) => {
                if let Some(key) = self.key(which) {
                    self.reset(key, self.tick(time));
                }
            }
            Action::ResetMany(count, time) => {
                let given = self.tick(time);
                self.oldest(count.into()).into_iter().for_each(|key| self.reset(key, given));
            }
            Action::Look(which) => {
                if let Some(key) = self.key(which) {
                    self.look(key);
                }
            }
            Action::Advance(time) => self.advance(self.tick(time), usize::MAX),
            Action::AdvanceSome(time, limit) => self.advance(self.tick(time), limit.into()),
            Action::AdvanceToDue(time, limit) => {
                self.advance_to_due(self.tick(time), limit.into());
            }
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
                assert!(drained.into_iter().eq(expected), "property 4");
                self.order.clear();
            }
        }
    }

    fn look(&mut self, key: Key) {
        let value = self.pending(key);
        let given = value.map(|number| self.pending[&number].given);
        assert_eq!(self.subject.contains(key), value.is_some(), "property 4");
        assert_eq!(self.subject.deadline(key).map(Tick::get), given, "property 4");
        assert_eq!(self.subject.location(key).is_some(), value.is_some(), "property 4");
        assert_eq!(self.subject.get(key).copied(), value, "property 4");
        assert_eq!(self.subject.get_mut(key).copied(), value, "property 4");
    }

    fn advance(&mut self, to: u64, limit: usize) {
        let mut fired = Vec::new();
        let turn = self.subject.advance(Tick::new(to), limit, &mut fired);
        assert!(fired.len() <= limit, "property 3: {} with a limit of {limit}", fired.len());
        let mut last = 0;
        for (key, number) in fired {
            assert_eq!(key, self.keys[number], "property 4");
            let timer = self.remove(number).expect("property 1: not pending, but fired");
            assert!(timer.due <= to, "property 1: timer {number} fired early");
            assert!(timer.due >= last, "property 2: timer {number} is out of order");
            last = timer.due;
        }
        let first = self.order.first().map_or(u64::MAX, |&(due, _)| due);
        assert!(last <= first, "property 3: a timer of tick {first} was passed over");
        let was_at_the_end = self.now == u64::MAX;
        if turn.finished {
            self.now = self.now.max(to);
            let is_late =
                first <= to && !self.order.is_empty() && !(was_at_the_end && to < self.now);
            assert!(!is_late, "property 1: a timer of tick {first} is late");
        } else {
            assert!(limit < usize::MAX && turn.now.get() >= self.now, "property 3");
            self.now = turn.now.get();
            // The last tick comes again and again.
            let is_last = self.now == u64::MAX;
            let is_between = self.now < to && first > self.now || is_last;
            assert!(is_between, "property 3: a timer of tick {first} is late");
        }
        assert_eq!(turn.now.get(), self.now);
    }

    /// Stops if and only if a timer is due. A caller does not ask for a tick that has passed.
    fn advance_to_due(&mut self, to: u64, limit: usize) {
        let Some(step) = self.inside.advance_to_due.filter(|_| self.now < u64::MAX - 1) else {
            return;
        };
        let to = to.clamp(self.now, u64::MAX - 1);
        let first = self.order.first().map_or(u64::MAX, |&(due, _)| due);
        let is_due = (0..10_000).find_map(|_| step(&mut self.subject, Tick::new(to), limit));
        assert_eq!(is_due, Some(first <= to), "property 3");
        self.now = self.subject.now().get();
        assert!(self.now < first.min(to + 1), "property 1: a timer of tick {first} is passed over");
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
        assert_eq!(next.is_some(), first.is_some(), "property 5");
        assert!(next <= first, "property 5: {next:?} comes after {first:?}");
        let is_ahead = next.is_none_or(|next| next > self.now || next == u64::MAX);
        assert!(is_ahead, "property 5: {next:?} is past");
    }
}
