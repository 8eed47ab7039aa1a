//! The structure against a slow and obvious model: a `BinaryHeap` and a map.
//!
//! After every operation the results agree and [`Hierarchy::check`] holds. Geometries are tiny, so
//! that cascades and wraps happen every few operations. The thresholds are mostly tiny too, so that
//! slots cascade early and nodes move. Time begins anywhere, the end included.
//!
//! Properties:
//!
//! 1. the timers that fire are those that the heap would fire: none early, late, twice, lost or
//!    invented;
//! 2. within one advance the timers come in the order of their deadlines, where one that had passed
//!    when it was given counts as the next tick after that;
//! 3. an unfinished advance has fired the earliest, and no more than its limit;
//! 4. a key works while its timer is pending, and never before, after, or elsewhere, and the key
//!    that comes out with a timer is the one that was given for it;
//! 5. `next_turn` is a lower bound for the pending deadlines, and lies ahead.

use proptest::prelude::*;
use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};

use crate::structure::tuning::Tuning;
use crate::structure::{Geometry, Hierarchy, Key};
use crate::values::generation::Generation;
use crate::values::time::{Span, Tick};

/// A deadline, relative to the present and to the range of the geometry.
#[derive(Clone, Copy, Debug)]
enum When {
    Before(u64),
    In(u64),
    /// A number of ranges ahead, and an offset.
    Ranges(u64, i64),
    Far(u64),
    Never,
}

#[derive(Clone, Copy, Debug)]
enum Which {
    /// Any key that was ever given: pending, fired or cancelled, its index used again or not.
    Given(usize),
    Foreign(usize),
    ForgedIndex(u32),
    ForgedGeneration(usize, u64),
}

#[derive(Clone, Copy, Debug)]
enum To {
    Back(u64),
    By(u64),
    Ranges(u64, i64),
    NextTurn(i64),
    Far(u64),
    End,
}

#[derive(Clone, Copy, Debug)]
enum Op {
    Insert(When),
    Cancel(Which),
    Reset(Which, When),
    Look(Which),
    Advance(To, usize),
    Clear,
}

fn when() -> impl Strategy<Value = When> {
    prop_oneof![
        2 => (0..20_u64).prop_map(When::Before),
        6 => (0..12_u64).prop_map(When::In),
        4 => (0..5_u64, -2..=2_i64).prop_map(|(n, off)| When::Ranges(n, off)),
        2 => any::<u64>().prop_map(When::Far),
        1 => Just(When::Never),
    ]
}

fn which() -> impl Strategy<Value = Which> {
    prop_oneof![
        12 => any::<usize>().prop_map(Which::Given),
        1 => any::<usize>().prop_map(Which::Foreign),
        1 => any::<u32>().prop_map(Which::ForgedIndex),
        1 => any::<(usize, u64)>().prop_map(|(key, by)| Which::ForgedGeneration(key, by)),
    ]
}

fn to() -> impl Strategy<Value = To> {
    prop_oneof![
        1 => (0..20_u64).prop_map(To::Back),
        6 => (0..6_u64).prop_map(To::By),
        3 => (0..4_u64, -2..=2_i64).prop_map(|(n, off)| To::Ranges(n, off)),
        4 => (-1..=1_i64).prop_map(To::NextTurn),
        1 => any::<u64>().prop_map(To::Far),
        1 => Just(To::End),
    ]
}

fn limit() -> impl Strategy<Value = usize> {
    prop_oneof![2 => Just(usize::MAX), 2 => 0..6_usize]
}

fn op() -> impl Strategy<Value = Op> {
    prop_oneof![
        12 => when().prop_map(Op::Insert),
        4 => which().prop_map(Op::Cancel),
        5 => (which(), when()).prop_map(|(which, when)| Op::Reset(which, when)),
        1 => which().prop_map(Op::Look),
        8 => (to(), limit()).prop_map(|(to, limit)| Op::Advance(to, limit)),
        1 => Just(Op::Clear),
    ]
}

fn geometry() -> impl Strategy<Value = Vec<usize>> {
    prop_oneof![
        2 => prop::collection::vec(1..=9_usize, 1),
        3 => prop::collection::vec(1..=5_usize, 2..=4),
        1 => Just(vec![2, 4, 8]),
        1 => Just(vec![70, 3]),
    ]
}

/// Where time begins: near zero, after years at a microsecond, at the end.
fn begin() -> impl Strategy<Value = u64> {
    prop_oneof![4 => 0..100_u64, 1 => any::<u64>(), 1 => (0..60_u64).prop_map(|n| u64::MAX - n)]
}

/// Mostly tiny thresholds, so that a short history crosses every one of them.
fn tuning() -> impl Strategy<Value = Tuning> {
    prop_oneof![3 => Just(Tuning::TINY), 1 => Just(Tuning::DEFAULT)]
}

/// A pending timer of the model.
#[derive(Clone, Copy, Debug)]
struct Pending {
    given: Tick,
    /// The tick at which it is due. Any other tick that the heap holds for it is out of date.
    due: Tick,
    id: u32,
}

struct Model {
    real: Hierarchy<u32>,
    range: u64,
    heap: BinaryHeap<Reverse<(Tick, u32)>>,
    pending: HashMap<Key, Pending>,
    given: Vec<Key>,
    foreign: Vec<Key>,
}

impl Model {
    fn new(sizes: &[usize], begin: u64, tuning: Tuning) -> Model {
        let geometry = Geometry::levels(sizes).unwrap();
        let range = geometry.range().get();
        let mut other = Hierarchy::with_tuning(geometry.clone(), tuning);
        let mut real = Hierarchy::with_tuning(geometry, tuning);
        let turn = real.advance(Tick::new(begin), 0, &mut Vec::new());
        assert!(turn.finished && turn.now == Tick::new(begin));
        let foreign = (0..8).map(|n| other.insert(Tick::new(n), 0)).collect();
        let (heap, pending) = (BinaryHeap::new(), HashMap::new());
        Model { real, range, heap, pending, given: Vec::new(), foreign }
    }

    fn tick(&self, when: When) -> Tick {
        let now = self.real.now();
        match when {
            When::Before(by) => Tick::new(now.get().saturating_sub(by)),
            When::In(by) => now + Span::new(by),
            When::Ranges(n, off) => {
                Tick::new((now + Span::new(n * self.range)).get().saturating_add_signed(off))
            }
            When::Far(tick) => Tick::new(tick),
            When::Never => Tick::MAX,
        }
    }

    fn key(&self, which: Which) -> Option<Key> {
        let pick = |keys: &[Key], n: usize| (!keys.is_empty()).then(|| keys[n % keys.len()]);
        match which {
            Which::Given(n) => pick(&self.given, n),
            Which::Foreign(n) => pick(&self.foreign, n),
            Which::ForgedIndex(index) => pick(&self.foreign, 0).map(|key| Key { index, ..key }),
            Which::ForgedGeneration(n, by) => pick(&self.given, n).map(|key| {
                let forged = key.generation.get().wrapping_add(by);
                Key { generation: Generation::new(forged).unwrap_or(key.generation), ..key }
            }),
        }
    }

    /// Returns the tick at which a timer is due that is given this deadline now.
    fn due(&self, deadline: Tick) -> Tick {
        deadline.max(self.real.now() + Span::new(1))
    }

    fn apply(&mut self, op: Op) {
        match op {
            Op::Insert(when) => {
                let (given, id) = (self.tick(when), self.given.len() as u32);
                let due = self.due(given);
                let key = self.real.insert(given, id);
                assert!(!self.given.contains(&key), "property 4: {key:?} was given before");
                self.given.push(key);
                self.pending.insert(key, Pending { given, due, id });
                self.heap.push(Reverse((due, id)));
            }
            Op::Cancel(which) => {
                let Some(key) = self.key(which) else { return };
                let expected = self.pending.remove(&key).map(|pending| pending.id);
                assert_eq!(self.real.cancel(key), expected, "property 4");
            }
            Op::Reset(which, when) => {
                let Some(key) = self.key(which) else { return };
                let given = self.tick(when);
                let due = self.due(given);
                let expected = self.pending.get_mut(&key);
                assert_eq!(self.real.reset(key, given), expected.is_some(), "property 4");
                if let Some(pending) = expected {
                    *pending = Pending { given, due, ..*pending };
                    self.heap.push(Reverse((due, pending.id)));
                }
            }
            Op::Look(which) => {
                let Some(key) = self.key(which) else { return };
                let expected = self.pending.get(&key);
                assert_eq!(self.real.contains(key), expected.is_some(), "property 4");
                assert_eq!(self.real.deadline(key), expected.map(|pending| pending.given));
                assert_eq!(self.real.get(key), expected.map(|pending| &pending.id));
                assert_eq!(self.real.location(key).is_some(), expected.is_some());
                assert_eq!(self.real.get_mut(key).copied(), expected.map(|pending| pending.id));
            }
            Op::Advance(to, limit) => self.advance(to, limit),
            Op::Clear => {
                let mut drained: Vec<(Key, Tick, u32)> = self.real.drain().collect();
                let pending = self.pending.drain();
                let mut expected: Vec<_> =
                    pending.map(|(key, it)| (key, it.given, it.id)).collect();
                drained.sort_by_key(|&(.., id)| id);
                expected.sort_by_key(|&(.., id)| id);
                assert_eq!(drained, expected, "property 4");
            }
        }
    }

    fn advance(&mut self, to: To, limit: usize) {
        let now = self.real.now();
        let to = match to {
            To::Back(by) => Tick::new(now.get().saturating_sub(by)),
            To::By(by) => now + Span::new(by),
            To::Ranges(n, off) => self.tick(When::Ranges(n, off)),
            To::NextTurn(off) => {
                let next = self.real.next_turn().unwrap_or(now);
                Tick::new(next.get().saturating_add_signed(off))
            }
            To::Far(tick) => Tick::new(tick),
            To::End => Tick::MAX,
        };
        let mut due = Vec::new();
        let turn = self.real.advance(to, limit, &mut due);
        assert_eq!(turn.now, self.real.now());
        assert!(due.len() <= limit, "property 3: {} with a limit of {limit}", due.len());
        if turn.finished {
            assert_eq!(turn.now, now.max(to));
        } else {
            assert!(turn.now < to || to == Tick::MAX, "property 3: unfinished at {turn:?}");
            assert!(turn.now >= now, "time went back");
            assert!(due.len() < limit || limit < usize::MAX);
        }
        let mut last = Tick::new(0);
        for (key, value) in due {
            let fired = self.pending.remove(&key).expect("property 1: not pending, but fired");
            assert_eq!(value, fired.id, "property 1: the value of another timer");
            assert!(fired.due <= to, "property 1: early");
            assert!(last <= fired.due, "property 2: {:?} after {last:?}", fired.due);
            last = fired.due;
            self.heap.push(Reverse((fired.due, fired.id)));
            assert_eq!(self.earlier_than(fired), None, "property 1 and 3: not the earliest");
        }
        if turn.finished
            && let Some(first) = self.first()
        {
            assert!(first > to || now == Tick::MAX && to < now, "property 1: {first:?} is late");
        }
    }

    /// Returns the tick of the first timer that is still pending, if that is earlier than `fired`.
    fn earlier_than(&mut self, fired: Pending) -> Option<Tick> {
        self.first().filter(|&first| first < fired.due)
    }

    /// Returns the earliest tick at which a timer is due: the top of the heap, once the ticks that
    /// are out of date have gone.
    fn first(&mut self) -> Option<Tick> {
        while let Some(&Reverse((due, id))) = self.heap.peek() {
            let key = self.given[id as usize];
            if self.pending.get(&key).is_some_and(|pending| pending.due == due) {
                return Some(due);
            }
            self.heap.pop();
        }
        None
    }

    fn agree(&mut self) {
        if let Err(violation) = self.real.check() {
            panic!("{violation}");
        }
        assert_eq!(self.real.len(), self.pending.len());
        assert_eq!(self.real.is_empty(), self.pending.is_empty());
        let (first, next) = (self.first(), self.real.next_turn());
        assert_eq!(first.is_some(), next.is_some(), "property 5");
        if let (Some(first), Some(next)) = (first, next) {
            assert!(next <= first, "property 5: {next:?} comes after {first:?}");
            assert!(next > self.real.now() || next == Tick::MAX, "property 5: {next:?} is past");
        }
    }
}

/// Runs one history.
fn replay(sizes: &[usize], begin: u64, tuning: Tuning, ops: &[Op]) {
    let mut model = Model::new(sizes, begin, tuning);
    for &op in ops {
        model.apply(op);
        model.agree();
    }
    // In the end every timer comes out, once.
    model.apply(Op::Advance(To::End, usize::MAX));
    model.agree();
    assert!(model.real.is_empty(), "property 1: the end left {:?}", model.pending);
}

/// `PROPTEST_CASES` raises the number of cases.
fn config() -> ProptestConfig {
    let default = ProptestConfig::default();
    ProptestConfig { cases: default.cases.max(8192), ..default }
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn structure_agrees_with_a_heap(
        sizes in geometry(),
        begin in begin(),
        tuning in tuning(),
        ops in prop::collection::vec(op(), 1..60),
    ) {
        replay(&sizes, begin, tuning, &ops);
    }
}
