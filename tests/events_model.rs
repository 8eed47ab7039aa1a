//! Events against a slow and obvious model, in random histories on a manual clock. The model, the
//! *truth*, is a list of the pending events and a queue of the events in the channel.
//!
//! After every operation the test compares the events in the channel and the order of their deadlines,
//! the pending events and their remaining times, the values that were given up, and the count of drops.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Wake, Waker};
use std::time::Duration;

use crossbeam_channel::{Receiver, TryRecvError};
use proptest::prelude::*;
use tickwheel::{Driver, Event, Events, Full, Geometry, Handle, InsertErrorKind, Wheel, When};

#[derive(Clone, Debug)]
enum Action {
    Insert { delay: u64 },
    InsertWall { from_now: i64 },
    Batch { delays: Vec<u64> },
    Cancel { event: usize },
    Take { event: usize },
    Reset { event: usize, delay: u64 },
    ResetWall { event: usize, from_now: i64 },
    Receive { count: usize },
    SetWall { by: i64 },
    Advance { millis: u64 },
    DropEvents,
    DropReceiver,
    End,
    Drain,
}

fn action() -> impl Strategy<Value = Action> {
    let delay = prop_oneof![4 => 0..12_u64, 1 => 0..600_u64, 1 => Just(u64::MAX)];
    let from_now = -10..300_i64;
    let event = 0..30_usize;
    prop_oneof![
        8 => delay.clone().prop_map(|delay| Action::Insert { delay }),
        3 => from_now.clone().prop_map(|from_now| Action::InsertWall { from_now }),
        2 => prop::collection::vec(delay.clone(), 0..9).prop_map(|delays| Action::Batch { delays }),
        3 => event.clone().prop_map(|event| Action::Cancel { event }),
        2 => event.clone().prop_map(|event| Action::Take { event }),
        3 => (event.clone(), delay).prop_map(|(event, delay)| Action::Reset { event, delay }),
        2 => (event, from_now).prop_map(|(event, from_now)| Action::ResetWall { event, from_now }),
        6 => (0..5_usize).prop_map(|count| Action::Receive { count }),
        2 => (-200..200_i64).prop_map(|by| Action::SetWall { by }),
        8 => (0..15_u64).prop_map(|millis| Action::Advance { millis }),
        2 => (0..700_u64).prop_map(|millis| Action::Advance { millis }),
    ]
}

fn last_action() -> impl Strategy<Value = Action> {
    prop_oneof![
        Just(Action::DropEvents),
        Just(Action::DropReceiver),
        Just(Action::End),
        Just(Action::Drain)
    ]
}

/// A value that counts its drop.
struct Value(usize, Arc<AtomicUsize>);

impl Drop for Value {
    fn drop(&mut self) {
        self.1.fetch_add(1, Ordering::SeqCst);
    }
}

#[derive(Default)]
struct Wakes(AtomicUsize);

impl Wake for Wakes {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}

/// When an event is due, in milliseconds since the wheel began. All times of these histories are whole
/// milliseconds, and so is the tick.
#[derive(Clone, Copy)]
enum Time {
    At(u64),
    /// When the wall clock reads this many milliseconds more than at the beginning.
    Wall(i64),
    Never,
}

/// An event that is pending.
struct Pending {
    number: usize,
    time: Time,
    /// The tick after the call that set its time. It is due at no earlier one.
    first: u64,
}

/// The model.
struct Truth {
    now: u64,
    /// By how much the wall clock was set.
    shift: i64,
    pending: Vec<Pending>,
    /// The events in the channel, each with its deadline.
    channel: Vec<(Pending, u64)>,
    /// The events that were given up, each with its deadline.
    given: BTreeMap<usize, u64>,
    dropped: usize,
    room: usize,
    gives: bool,
    events: bool,
    receiver: bool,
    ended: bool,
    /// A send has found no receiver.
    noticed: bool,
    /// The events that were dropped while pending, because the receivers or the `Events` were gone.
    discarded: Vec<Pending>,
}

impl Truth {
    /// The tick at which an event is due, as the clocks are set now.
    fn due(&self, event: &Pending) -> Option<u64> {
        match event.time {
            Time::Never => None,
            Time::At(at) => Some(at.max(event.first)),
            Time::Wall(wall) => {
                let at = u64::try_from(wall - self.shift).unwrap_or(0);
                Some(at.max(event.first))
            }
        }
    }

    fn advance(&mut self, to: u64) {
        while self.now < to {
            self.now += 1;
            self.deliver();
        }
    }

    /// Sends, gives up or drops the events that are due now.
    fn deliver(&mut self) {
        if self.ended || self.noticed {
            return;
        }
        loop {
            let due = |event: &Pending| self.due(event).filter(|&due| due <= self.now);
            let dues = self.pending.iter().enumerate();
            let next = dues.filter_map(|(at, event)| Some((due(event)?, at))).min();
            let Some((due, at)) = next else { return };
            let is_full = self.channel.len() >= self.room;
            if is_full && !self.gives {
                return;
            }
            let event = self.pending.remove(at);
            if is_full {
                self.given.insert(event.number, due);
                self.dropped += 1;
            } else if !self.receiver {
                self.dropped += 1;
                self.discard();
                self.noticed = true;
                return;
            } else {
                self.channel.push((event, due));
            }
        }
    }

    /// The order of events that are due at one tick is not promised. If there was not room for all of
    /// them, the truth learns which came: `number`, and not one that may be elsewhere.
    fn swap_into_the_channel(&mut self, number: usize, may_be_elsewhere: impl Fn(usize) -> bool) {
        let others = self.pending.iter().chain(&self.discarded);
        let Some(event) = others.clone().find(|event| event.number == number) else { return };
        let due = self.due(event).expect("it never comes");
        let mut like = self.channel.iter_mut().rev();
        let like =
            like.find(|(other, deadline)| *deadline == due && may_be_elsewhere(other.number));
        let (other, _) = like.expect("it came before its time, or before one that was due sooner");
        let mut others = self.pending.iter_mut().chain(&mut self.discarded);
        let event = others.find(|event| event.number == number).expect("seen above");
        core::mem::swap(event, other);
    }

    /// The same, for an event that was given up.
    fn swap_into_the_given(&mut self, number: usize, given: &[usize]) {
        let Some(place) = self.channel.iter().position(|(other, _)| other.number == number) else {
            return;
        };
        let due = self.channel[place].1;
        let mut like = self.given.iter();
        let like = like.find(|&(other, &deadline)| deadline == due && !given.contains(other));
        let other = *like.expect("it was given up while there was room").0;
        self.given.remove(&other);
        self.given.insert(number, due);
        self.channel[place].0.number = other;
    }

    /// Drops the pending events.
    fn discard(&mut self) {
        self.dropped += self.pending.len();
        self.discarded.append(&mut self.pending);
    }

    fn refusal(&self) -> Option<InsertErrorKind> {
        match () {
            () if self.ended => Some(InsertErrorKind::Shutdown),
            () if self.noticed => Some(InsertErrorKind::Disconnected),
            () => None,
        }
    }

    fn insert(&mut self, number: usize, time: Time) {
        self.pending.push(Pending { number, time, first: self.now + 1 });
    }

    fn at(&self, delay: u64) -> Time {
        if delay == u64::MAX { Time::Never } else { Time::At(self.now + delay) }
    }

    fn wall(&self, from_now: i64) -> Time {
        Time::Wall(self.now as i64 + self.shift + from_now)
    }
}

struct World {
    truth: Truth,
    wheel: Option<Wheel>,
    driver: Driver,
    events: Option<Events<Value>>,
    due: Option<Receiver<Event<Value>>>,
    handles: Vec<Handle>,
    wakes: Arc<Wakes>,
    drops: Arc<AtomicUsize>,
    given: Arc<Mutex<Vec<usize>>>,
    begin: std::time::Instant,
}

fn delay_of(millis: u64) -> Duration {
    if millis == u64::MAX { Duration::MAX } else { Duration::from_millis(millis) }
}

impl World {
    fn new(room: usize, gives: bool, slots: usize) -> World {
        let geometry = Geometry::levels(&[slots, 4, 8]).unwrap();
        let (wheel, driver) = Wheel::builder().geometry(geometry).manual().unwrap();
        let given = Arc::new(Mutex::new(Vec::new()));
        let keep = Arc::clone(&given);
        let full = match gives {
            true => Full::Give(Box::new(move |value: Value| keep.lock().unwrap().push(value.0))),
            false => Full::Wait,
        };
        let (events, due) = Events::bounded(&wheel.scheduler(), room, full);
        let wakes = Arc::new(Wakes::default());
        events.on_ready(Waker::from(Arc::clone(&wakes)));
        let truth = Truth {
            now: 0,
            shift: 0,
            pending: Vec::new(),
            channel: Vec::new(),
            given: BTreeMap::new(),
            dropped: 0,
            room,
            gives,
            events: true,
            receiver: true,
            ended: false,
            noticed: false,
            discarded: Vec::new(),
        };
        let begin = driver.now();
        let drops = Arc::default();
        World {
            truth,
            wheel: Some(wheel),
            begin,
            driver,
            events: Some(events),
            due: Some(due),
            handles: Vec::new(),
            wakes,
            drops,
            given,
        }
    }

    fn insert(&mut self, when: When, time: Time) {
        let Some(events) = &self.events else { return };
        let number = self.handles.len();
        let answer = events.insert(when, Value(number, Arc::clone(&self.drops)));
        match (answer, self.truth.refusal()) {
            (Ok(handle), None) => {
                self.handles.push(handle);
                self.truth.insert(number, time);
            }
            (Err(error), Some(kind)) => {
                assert_eq!(error.kind(), kind);
                drop(error);
                self.truth.dropped += 1;
            }
            (answer, refusal) => panic!("{answer:?}, {refusal:?}"),
        }
    }

    fn batch(&mut self, delays: &[u64]) {
        let Some(events) = &self.events else { return };
        let first = self.handles.len();
        let values = delays
            .iter()
            .enumerate()
            .map(|(at, &delay)| (delay_of(delay), Value(first + at, Arc::clone(&self.drops))));
        match (events.insert_batch(values), self.truth.refusal()) {
            (Ok(handles), None) => {
                self.handles.extend(handles);
                for (at, &delay) in delays.iter().enumerate() {
                    self.truth.insert(first + at, self.truth.at(delay));
                }
            }
            (Err(error), Some(kind)) => {
                assert_eq!(error.kind(), kind);
                assert_eq!(error.into_inner().len(), delays.len());
                self.truth.dropped += delays.len();
            }
            (answer, refusal) => panic!("{:?}, {refusal:?}", answer.map(|handles| handles.len())),
        }
    }

    /// Returns the handle of an event, and its place in the list of pending events, if it is there.
    fn pick(&self, event: usize) -> Option<(Handle, Option<usize>)> {
        let number = event.checked_rem(self.handles.len())?;
        let place = self.truth.pending.iter().position(|pending| pending.number == number);
        Some((self.handles[number], place))
    }

    fn reset(&mut self, event: usize, when: When, time: Time) {
        let (Some(events), Some((handle, place))) = (&self.events, self.pick(event)) else {
            return;
        };
        let place = place.filter(|_| !self.truth.ended);
        assert_eq!(events.reset(handle, when), place.is_some());
        if let Some(place) = place {
            let first = self.truth.now + 1;
            let pending = &mut self.truth.pending[place];
            (pending.time, pending.first) = (time, first);
        }
    }

    fn receive(&mut self, count: usize) {
        let Some(due) = &self.due else { return };
        for _ in 0..count {
            match due.try_recv() {
                Ok(event) => {
                    let number = event.value.0;
                    self.truth.swap_into_the_channel(number, |_| true);
                    let place =
                        self.truth.channel.iter().position(|(event, _)| event.number == number);
                    let (_, deadline) = self.truth.channel.remove(place.expect("it came twice"));
                    assert_eq!(event.handle, self.handles[number]);
                    assert_eq!(event.deadline, self.begin + delay_of(deadline));
                    let earlier = self.truth.channel.iter().filter(|(_, other)| *other < deadline);
                    assert_eq!(earlier.count(), 0, "{number} came before what was due sooner");
                    drop(event);
                    self.truth.dropped += 1;
                }
                Err(error) => {
                    assert!(self.truth.channel.is_empty());
                    let gone =
                        self.truth.ended || !self.truth.events && self.truth.pending.is_empty();
                    assert_eq!(error == TryRecvError::Disconnected, gone);
                    return;
                }
            }
        }
    }

    fn act(&mut self, action: &Action) {
        match *action {
            Action::Insert { delay } => {
                self.insert(When::after(delay_of(delay)), self.truth.at(delay));
            }
            Action::InsertWall { from_now } => {
                let (when, time) = self.wall(from_now);
                self.insert(when, time);
            }
            Action::Batch { ref delays } => self.batch(delays),
            Action::Cancel { event } => {
                let (Some(events), Some((handle, place))) = (&self.events, self.pick(event)) else {
                    return;
                };
                assert_eq!(events.cancel(handle), place.is_some());
                self.truth.dropped += usize::from(place.is_some());
                place.map(|place| self.truth.pending.remove(place));
            }
            Action::Take { event } => {
                let (Some(events), Some((handle, place))) = (&self.events, self.pick(event)) else {
                    return;
                };
                let taken = events.take(handle);
                let expected = place.map(|place| self.truth.pending.remove(place).number);
                assert_eq!(taken.as_ref().map(|value| value.0), expected);
                drop(taken);
                self.truth.dropped += usize::from(expected.is_some());
            }
            Action::Reset { event, delay } => {
                self.reset(event, When::after(delay_of(delay)), self.truth.at(delay));
            }
            Action::ResetWall { event, from_now } => {
                let (when, time) = self.wall(from_now);
                self.reset(event, when, time);
            }
            Action::Receive { count } => self.receive(count),
            // Without `Events` the wall clock is not read in between: set to and fro, it was not set.
            Action::SetWall { by } if by == 0 || self.events.is_none() => {}
            Action::SetWall { by } => {
                self.truth.shift += by;
                let wall = self.driver.wall_now();
                let by = delay_of(by.unsigned_abs());
                let set = if self.is_back(action) { wall - by } else { wall + by };
                self.driver.set_wall(set);
                // An event whose time the clock has passed is due at the next tick.
                for pending in &mut self.truth.pending {
                    if let Time::Wall(_) = pending.time {
                        pending.first = pending.first.max(self.truth.now + 1);
                    }
                }
            }
            Action::Advance { millis } => {
                self.driver.advance(delay_of(millis));
                if millis == 0 {
                    self.truth.deliver();
                }
                self.truth.advance(self.truth.now + millis);
            }
            Action::DropEvents => {
                self.events = None;
                self.truth.events = false;
                if self.truth.ended {
                    self.truth.discard();
                }
            }
            Action::DropReceiver => {
                self.due = None;
                self.truth.receiver = false;
                self.truth.dropped += self.truth.channel.drain(..).count();
            }
            Action::End => {
                self.wheel = None;
                self.truth.deliver();
                self.truth.ended = true;
                if !self.truth.events {
                    self.truth.discard();
                }
            }
            Action::Drain => {
                let Some(events) = self.events.take() else { return };
                let drained = events.drain();
                assert!(drained.windows(2).all(|two| two[0].1 <= two[1].1));
                let mut numbers: Vec<_> = drained.iter().map(|(.., value)| value.0).collect();
                numbers.sort_unstable();
                let mut expected: Vec<_> =
                    self.truth.pending.drain(..).map(|pending| pending.number).collect();
                expected.sort_unstable();
                assert_eq!(numbers, expected);
                self.truth.dropped += drained.len();
                self.truth.events = false;
            }
        }
    }

    fn is_back(&self, action: &Action) -> bool {
        matches!(action, Action::SetWall { by } if *by < 0)
    }

    fn wall(&self, from_now: i64) -> (When, Time) {
        let by = delay_of(from_now.unsigned_abs());
        let wall = self.driver.wall_now();
        let time = if from_now < 0 { wall - by } else { wall + by };
        (When::wall(time), self.truth.wall(from_now))
    }

    fn compare(&mut self, before: usize) {
        let mut given = self.given.lock().unwrap().clone();
        given.iter().for_each(|&number| self.truth.swap_into_the_given(number, &given));
        if let Some(events) = &self.events {
            let is_pending = |number: usize| events.is_pending(self.handles[number]);
            let listed: Vec<_> = self.truth.pending.iter().map(|event| event.number).collect();
            for number in listed.into_iter().filter(|&number| !is_pending(number)) {
                self.truth.swap_into_the_channel(number, is_pending);
            }
        }
        let truth = &self.truth;
        if let Some(due) = &self.due {
            assert_eq!(due.len(), truth.channel.len());
        }
        if let Some(events) = &self.events {
            assert_eq!(events.len(), truth.pending.len());
            for pending in &truth.pending {
                let left = truth
                    .due(pending)
                    .map_or(Duration::MAX, |due| delay_of(due.saturating_sub(truth.now)));
                let said = events.remaining(self.handles[pending.number]);
                assert_eq!(said, Some(left), "event {}", pending.number);
            }
        }
        given.sort_unstable();
        assert!(given.iter().eq(truth.given.keys()));
        assert_eq!(self.drops.load(Ordering::SeqCst), truth.dropped);
        // A receiver that found the channel empty is woken by the next event.
        let woken = self.wakes.0.swap(0, Ordering::SeqCst) > 0;
        if before == 0 && !truth.channel.is_empty() {
            assert!(woken);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1000))]

    /// Random histories of events agree with a list.
    #[test]
    fn events_agree_with_a_list(
        room in prop_oneof![Just(usize::MAX), 1..4_usize],
        gives in any::<bool>(),
        slots in 1..5_usize,
        actions in prop::collection::vec(action(), 1..60),
        last in last_action(),
        more in prop::collection::vec(action(), 0..20),
        end in last_action(),
    ) {
        let mut world = World::new(room, gives, slots);
        let rest = [Action::Receive { count: 1000 }, Action::End, Action::DropEvents];
        let all = actions.iter().chain([&last]).chain(&more).chain([&end]).chain(&rest);
        for action in all {
            let before = world.truth.channel.len();
            world.act(action);
            world.compare(before);
        }
        world.due = None;
        prop_assert_eq!(Arc::strong_count(&world.drops), 1, "a value is left");
    }
}
