//! Events alone: a list of the pending events, and a queue of the events in the channel.
//!
//! All times are whole milliseconds, and so is the tick, and no code runs inside the wheel. So this model knows
//! exactly which events come and when, and it may drop each end of the channel at any time. In `wheel/events.rs`
//! jobs, wakers and values call the wheel while events come, and there the model must ask the wheel.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Wake, Waker};
use std::time::{Duration, Instant};

use arbitrary::{Arbitrary, Result, Unstructured};
use crossbeam_channel::{Receiver, TryRecvError};
use tickwheel::{Driver, Event, Events, Full, Geometry, Handle, InsertErrorKind, Wheel, When};

use crate::bytes::{Delay, history, ms};

/// An event is named by its number, modulo the number of all events so far.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Action {
    Insert(Delay),
    InsertWall(i16),
    /// The first delay, the number of events, and the milliseconds from each to the next.
    Batch(Delay, u8, u8),
    Cancel(u8),
    Take(u8),
    Reset(u8, Delay),
    ResetWall(u8, i16),
    Receive(u8),
    SetWall(i16),
    Advance(Delay),
    Rare(Rare),
}

#[derive(Clone, Copy, Debug)]
pub(crate) enum Rare {
    DropReceiver,
    End,
    Drain,
    DropEvents,
}

impl<'a> Arbitrary<'a> for Action {
    fn arbitrary(data: &mut Unstructured<'a>) -> Result<Action> {
        Ok(match data.int_in_range(0..=31)? {
            0..=6 => Action::Insert(data.arbitrary()?),
            7..=8 => Action::InsertWall(data.int_in_range(-20..=235)?),
            9 => Action::Batch(
                data.arbitrary()?,
                data.int_in_range(0..=15)?,
                data.int_in_range(0..=7)?,
            ),
            10..=11 => Action::Cancel(data.arbitrary()?),
            12..=13 => Action::Take(data.arbitrary()?),
            14..=16 => Action::Reset(data.arbitrary()?, data.arbitrary()?),
            17 => Action::ResetWall(data.arbitrary()?, data.int_in_range(-20..=235)?),
            18..=22 => Action::Receive(data.int_in_range(0..=15)?),
            23..=24 => Action::SetWall(data.int_in_range(-128..=127)?),
            25..=30 => Action::Advance(data.arbitrary()?),
            _ => match data.int_in_range(0..=7)? {
                0 => Action::Rare(Rare::DropReceiver),
                1 => Action::Rare(Rare::End),
                2 => Action::Rare(Rare::Drain),
                3 => Action::Rare(Rare::DropEvents),
                _ => Action::Receive(15),
            },
        })
    }
}

/// A deadline in milliseconds.
#[derive(Clone, Copy)]
enum Deadline {
    Never,
    At(u64),
    /// When the wall clock has moved on by this much in all, by time and by being set.
    Wall(i64),
}

#[derive(Clone, Copy)]
struct Pending {
    number: usize,
    deadline: Deadline,
    /// The tick after the call that set its time. It never comes before.
    first: u64,
}

struct Value(usize, Arc<AtomicUsize>);

impl Drop for Value {
    fn drop(&mut self) {
        self.1.fetch_sub(1, Ordering::Relaxed);
    }
}

#[derive(Default)]
struct Wakes(AtomicUsize);

impl Wake for Wakes {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

struct World {
    wheel: Option<Wheel>,
    driver: Driver,
    events: Option<Events<Value>>,
    receiver: Option<Receiver<Event<Value>>>,
    handles: Vec<Handle>,
    pending: Vec<Pending>,
    /// The events that were pending when the receivers, or the wheel and the `Events`, were gone.
    discarded: Vec<Pending>,
    /// The events in the channel, each with the tick at which it was due.
    channel: Vec<(u64, usize)>,
    /// The events that the wheel has given up.
    given: Arc<Mutex<BTreeSet<usize>>>,
    /// How many events it must have given up.
    given_up: usize,
    room: usize,
    gives: bool,
    /// An event has found no receiver.
    is_disconnected: bool,
    alive: Arc<AtomicUsize>,
    wakes: Arc<Wakes>,
    /// Whether the channel was empty after the last action.
    was_empty: bool,
    now: u64,
    /// By how much the wall clock was set.
    shift: i64,
    begin: Instant,
}

/// The wheel and the channel of a history.
#[derive(Clone, Copy, Arbitrary, Debug)]
pub(crate) struct Setup {
    slots: u8,
    room: u8,
}

pub(crate) fn run_bytes(bytes: &[u8]) {
    let (setup, actions) = history(bytes);
    run(setup, &actions);
}

pub(crate) fn run(Setup { slots, room }: Setup, actions: &[Action]) {
    let geometry = Geometry::levels(&[1 + usize::from(slots % 8), 4, 8]);
    let builder = Wheel::builder().geometry(geometry.expect("the sizes are valid"));
    let (wheel, driver) = builder.manual().expect("it is valid");
    let given = Arc::new(Mutex::new(BTreeSet::new()));
    let (gives, keep) = (room % 2 == 1, Arc::clone(&given));
    let full = match gives {
        true => Full::Give(Box::new(move |value: Value| {
            assert!(keep.lock().unwrap().insert(value.0), "it was given up before");
        })),
        false => Full::Wait,
    };
    let room = if room < 128 { 1 + usize::from(room / 2 % 8) } else { usize::MAX };
    let (events, receiver) = Events::bounded(&wheel.scheduler(), room, full);
    let wakes = Arc::new(Wakes::default());
    events.on_ready(Waker::from(Arc::clone(&wakes)));
    let mut world = World {
        begin: driver.now(),
        wheel: Some(wheel),
        driver,
        events: Some(events),
        receiver: Some(receiver),
        handles: Vec::new(),
        pending: Vec::new(),
        discarded: Vec::new(),
        channel: Vec::new(),
        given,
        given_up: 0,
        room,
        gives,
        is_disconnected: false,
        alive: Arc::default(),
        wakes,
        was_empty: true,
        now: 0,
        shift: 0,
    };
    let last = [
        Action::Receive(u8::MAX),
        Action::Rare(Rare::End),
        Action::Receive(u8::MAX),
        Action::Rare(Rare::DropEvents),
    ];
    for &action in actions.iter().chain(&last) {
        world.act(action);
        world.compare();
    }
    drop((world.events, world.wheel, world.receiver));
    assert_eq!(world.alive.load(Ordering::Relaxed), 0, "a value is left");
}

impl World {
    fn due(&self, event: &Pending) -> Option<u64> {
        let at = match event.deadline {
            Deadline::Never => return None,
            Deadline::At(at) => at,
            Deadline::Wall(wall) => (wall - self.shift).max(0).cast_unsigned(),
        };
        Some(at.max(event.first))
    }

    fn delay(&self, Delay(delay): Delay) -> (When, Deadline) {
        let at = if delay == u64::MAX { Deadline::Never } else { Deadline::At(self.now + delay) };
        (When::after(ms(delay)), at)
    }

    fn wall(&self, from_now: i16) -> (When, Deadline) {
        let (now, by) = (self.driver.wall_now(), ms(from_now.unsigned_abs().into()));
        let time = if from_now < 0 { now - by } else { now + by };
        (When::wall(time), Deadline::Wall(self.now as i64 + self.shift + i64::from(from_now)))
    }

    fn value(&self, number: usize) -> Value {
        self.alive.fetch_add(1, Ordering::Relaxed);
        Value(number, Arc::clone(&self.alive))
    }

    /// Checks the refusal of an insert, or that there was no reason for one. Of two reasons, either
    /// is right.
    fn check_refusal(&self, refusal: Option<InsertErrorKind>) {
        let is_right = match refusal {
            None => self.wheel.is_some() && !self.is_disconnected,
            Some(InsertErrorKind::Shutdown) => self.wheel.is_none(),
            Some(kind) => kind == InsertErrorKind::Disconnected && self.is_disconnected,
        };
        assert!(is_right, "{refusal:?}");
    }

    fn list(&mut self, handle: Handle, deadline: Deadline) {
        let (number, first) = (self.handles.len(), self.now + 1);
        self.handles.push(handle);
        self.pending.push(Pending { number, deadline, first });
    }

    fn insert(&mut self, (when, deadline): (When, Deadline)) {
        let (Some(events), value) = (&self.events, self.value(self.handles.len())) else { return };
        let answer = events.insert(when, value);
        self.check_refusal(answer.as_ref().err().map(|error| error.kind()));
        if let Ok(handle) = answer {
            self.list(handle, deadline);
        }
    }

    /// Returns a handle, and the place of its event in the list of pending events, if it is there.
    fn pick(&self, event: u8) -> Option<(Handle, Option<usize>)> {
        let number = usize::from(event).checked_rem(self.handles.len())?;
        let place = self.pending.iter().position(|pending| pending.number == number);
        Some((self.handles[number], place))
    }

    fn reset(&mut self, event: u8, (when, deadline): (When, Deadline)) {
        let (Some(events), Some((handle, place))) = (&self.events, self.pick(event)) else {
            return;
        };
        let place = place.filter(|_| self.wheel.is_some());
        assert_eq!(events.reset(handle, when), place.is_some());
        if let Some(place) = place {
            let pending = &mut self.pending[place];
            (pending.deadline, pending.first) = (deadline, self.now + 1);
        }
    }

    fn act(&mut self, action: Action) {
        match action {
            Action::Insert(delay) => self.insert(self.delay(delay)),
            Action::InsertWall(from_now) => self.insert(self.wall(from_now)),
            Action::Batch(Delay(delay), count, step) => {
                let Some(events) = &self.events else { return };
                let first = self.handles.len();
                let later = |at: u8| delay.saturating_add(u64::from(at) * u64::from(step));
                let times: Vec<_> = (0..count).map(|at| self.delay(Delay(later(at)))).collect();
                let values = times.iter().enumerate();
                let values = values.map(|(at, (when, _))| (*when, self.value(first + at)));
                let answer = events.insert_batch(values);
                self.check_refusal(answer.as_ref().err().map(|error| error.kind()));
                match answer {
                    Ok(handles) => {
                        assert_eq!(handles.len(), times.len());
                        let listed = handles.into_iter().zip(times);
                        listed.for_each(|(handle, (_, deadline))| self.list(handle, deadline));
                    }
                    Err(refused) => assert_eq!(refused.into_inner().len(), times.len()),
                }
            }
            Action::Cancel(event) => {
                let (Some(events), Some((handle, place))) = (&self.events, self.pick(event)) else {
                    return;
                };
                assert_eq!(events.cancel(handle), place.is_some());
                place.map(|place| self.pending.remove(place));
            }
            Action::Take(event) => {
                let (Some(events), Some((handle, place))) = (&self.events, self.pick(event)) else {
                    return;
                };
                let taken = events.take(handle).map(|value| value.0);
                assert_eq!(taken, place.map(|place| self.pending.remove(place).number));
            }
            Action::Reset(event, delay) => self.reset(event, self.delay(delay)),
            Action::ResetWall(event, from_now) => self.reset(event, self.wall(from_now)),
            Action::Receive(count) => (0..count).for_each(|_| self.receive()),
            // Without `Events` the test cannot see the effect of the step.
            Action::SetWall(by) if by == 0 || self.events.is_none() => {}
            Action::SetWall(by) => {
                self.shift += i64::from(by);
                let (wall, step) = (self.driver.wall_now(), ms(by.unsigned_abs().into()));
                self.driver.set_wall(if by < 0 { wall - step } else { wall + step });
                let first = self.now + 1;
                let walls = self.pending.iter_mut();
                let walls = walls.filter(|event| matches!(event.deadline, Deadline::Wall(_)));
                walls.for_each(|event| event.first = event.first.max(first));
            }
            // A delay may be very long, or never: an advance is a second at most.
            Action::Advance(Delay(delay)) => {
                let delay = delay.min(1000);
                self.driver.advance(ms(delay));
                self.now += delay;
                if self.wheel.is_some() {
                    self.deliver();
                }
            }
            Action::Rare(Rare::DropReceiver) => {
                self.receiver = None;
                self.channel.clear();
            }
            Action::Rare(Rare::End) => {
                // A due event that has waited for room is sent now, if there is room.
                if let Some(wheel) = self.wheel.take() {
                    drop(wheel);
                    self.deliver();
                }
                if self.events.is_none() {
                    self.discarded.append(&mut self.pending);
                }
            }
            Action::Rare(Rare::Drain) => {
                let Some(events) = self.events.take() else { return };
                let drained = events.drain();
                assert!(drained.is_sorted_by_key(|&(_, left, _)| left));
                let numbers: BTreeSet<_> = drained.iter().map(|(.., value)| value.0).collect();
                let pending = self.pending.drain(..).map(|pending| pending.number);
                assert_eq!(numbers, pending.collect());
            }
            Action::Rare(Rare::DropEvents) => {
                self.events = None;
                if self.wheel.is_none() {
                    self.pending.clear();
                }
            }
        }
    }

    /// Moves the events that are due by now out of the list, as far as there is room. The order of
    /// events of one tick is not promised, so the test asks the wheel, as long as there are `Events`.
    fn deliver(&mut self) {
        let due = |event: &Pending| Some((self.due(event)?, *event));
        let mut dues: Vec<_> =
            self.pending.iter().filter_map(due).filter(|&(due, _)| due <= self.now).collect();
        if dues.is_empty() || self.is_disconnected {
            return;
        }
        if self.receiver.is_none() {
            self.is_disconnected = true;
            self.pending.clear();
            return;
        }
        let room = self.room.saturating_sub(self.channel.len());
        dues.sort_by_key(|&(due, event)| {
            let given = self.given.lock().unwrap().contains(&event.number);
            let is_pending = |events: &Events<Value>| events.is_pending(self.handles[event.number]);
            (due, given || self.events.as_ref().is_some_and(is_pending))
        });
        let come = dues.len().min(room);
        let leave = if self.gives { dues.len() } else { come };
        let left: BTreeSet<_> = dues[..leave].iter().map(|(_, event)| event.number).collect();
        let given: BTreeSet<_> = dues[come..leave].iter().map(|(_, event)| event.number).collect();
        assert!(given.is_subset(&self.given.lock().unwrap()));
        self.given_up += given.len();
        self.channel.extend(dues[..come].iter().map(|(due, event)| (*due, event.number)));
        self.pending.retain(|event| !left.contains(&event.number));
    }

    /// Without `Events` the test could not ask which of the events of one tick came out. If
    /// `number` came, it changes places with another.
    fn swap_into_the_channel(&mut self, number: usize) {
        let now = self.now;
        let mut others = self.pending.iter().chain(&self.discarded);
        let Some(event) = others.find(|event| event.number == number) else { return };
        let due = self.due(event).filter(|&due| due <= now);
        let other = self.channel.iter_mut().find(|(other, _)| Some(*other) == due);
        let (_, other) = other.expect("it came before its time");
        let mut others = self.pending.iter_mut().chain(&mut self.discarded);
        let event = others.find(|event| event.number == number).expect("seen above");
        core::mem::swap(&mut event.number, other);
    }

    fn receive(&mut self) {
        let Some(receiver) = &self.receiver else { return };
        let received = receiver.try_recv();
        match received {
            Ok(event) => {
                let first = self.channel.first().expect("the channel is empty").0;
                let number = event.value.0;
                if self.events.is_none() {
                    self.swap_into_the_channel(number);
                }
                let place = self.channel.iter().position(|&(_, other)| other == number);
                let (due, _) = self.channel.remove(place.expect("it is not in the channel"));
                assert_eq!(due, first, "out of order");
                assert_eq!(event.handle, self.handles[number]);
                assert_eq!(event.deadline, self.begin + ms(due));
            }
            Err(error) => {
                assert!(self.channel.is_empty());
                let is_over =
                    self.wheel.is_none() || self.events.is_none() && self.pending.is_empty();
                assert_eq!(error == TryRecvError::Disconnected, is_over);
            }
        }
    }

    fn compare(&mut self) {
        if let Some(receiver) = &self.receiver {
            assert_eq!(receiver.len(), self.channel.len());
        }
        if let Some(events) = &self.events {
            assert_eq!(events.len(), self.pending.len());
            for event in &self.pending {
                let due = self.due(event);
                let left = due.map_or(Duration::MAX, |due| ms(due.saturating_sub(self.now)));
                assert_eq!(events.remaining(self.handles[event.number]), Some(left));
            }
        }
        assert_eq!(self.given.lock().unwrap().len(), self.given_up, "given up");
        let alive = self.pending.len() + self.channel.len();
        assert_eq!(self.alive.load(Ordering::Relaxed), alive, "values");
        let woken = self.wakes.0.swap(0, Ordering::Relaxed) > 0;
        if let Some(receiver) = &self.receiver {
            // An event that comes into an empty channel wakes the loop, which then empties it.
            assert!(woken || receiver.is_empty() || !self.was_empty, "the loop was not woken");
            self.was_empty = receiver.is_empty();
        }
    }
}
