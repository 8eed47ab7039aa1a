//! Every verb of `Events`, called on the wheel and on the truth, with the results compared.
//!
//! The truth knows between which ticks an event is due. Two facts are not promised: whether an event
//! of the present tick is still pending while that tick is processed, and which of the events that are
//! due together find room. There the truth asks the wheel, and later answers must agree.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Wake, Waker};
use std::time::Duration;

use crossbeam_channel::TryRecvError;
use tickwheel::{Event, Handle, InsertErrorKind, Wheel};

use super::truth::{TICK, Truth};
use super::world::{World, nanos};
use super::{Act, EventOp, LastWill, Room, Time};

/// The truth about one event.
pub(crate) struct KnownEvent {
    pub(crate) handle: Option<Handle>,
    /// It comes at no earlier tick.
    pub(crate) low: u64,
    /// It comes at no later tick, if there is room.
    pub(crate) high: u64,
    /// The wall-clock time it waits for, in nanoseconds after the wheel's wall clock began.
    wall: Option<i128>,
    pub(crate) state: EventState,
    is_dropped: bool,
}

/// Where an event is.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) enum EventState {
    Pending,
    Channel,
    /// Received, cancelled, taken, given up, or refused.
    Gone,
}

pub(crate) struct KnownEvents {
    pub(crate) all: Vec<KnownEvent>,
    pub(crate) room: Room,
    /// The tick at which an event was last received: waiting events have room since then.
    room_since: Option<u64>,
    last_received: u64,
    delivered: u64,
    given_up: u64,
    /// How many events the channel held before the operation.
    held: usize,
    /// The hook was called in this operation.
    is_hooked: bool,
    /// The wheel has ended: pending events stay pending, even if there is room.
    pub(crate) is_settled: bool,
}

impl KnownEvent {
    pub(crate) fn is_for_the_wall(&self) -> bool {
        self.wall.is_some()
    }
}

impl KnownEvents {
    pub(crate) fn new(room: Room) -> KnownEvents {
        KnownEvents {
            all: Vec::new(),
            room,
            room_since: None,
            last_received: 0,
            delivered: 0,
            given_up: 0,
            held: 0,
            is_hooked: false,
            is_settled: false,
        }
    }

    pub(crate) fn begin_op(&mut self, held: usize) {
        (self.held, self.is_hooked) = (held, false);
    }

    pub(crate) fn pending(&self) -> impl Iterator<Item = &KnownEvent> {
        self.all.iter().filter(|event| event.state == EventState::Pending)
    }

    fn add(&mut self, low: u64, wall: Option<i128>) -> usize {
        let state = EventState::Gone;
        let event = KnownEvent { handle: None, low, high: low, wall, state, is_dropped: false };
        self.all.push(event);
        self.all.len() - 1
    }

    fn in_channel(&self) -> usize {
        self.all.iter().filter(|event| event.state == EventState::Channel).count()
    }
}

impl Truth {
    /// The wall clock was set: events that wait for it are due at other ticks.
    pub(crate) fn let_events_follow_the_wall(&mut self) {
        for id in 0..self.events.all.len() {
            let Some(wall) = self.events.all[id].wall else { continue };
            let (tick, has_come) = (self.tick(), wall <= self.wall_now());
            let due = self.due_at(self.when_wall_reads(wall));
            let event = &mut self.events.all[id];
            if event.state != EventState::Pending {
                continue;
            }
            // An event that was due before, and still is, may have come already.
            event.low = if event.low <= tick && has_come { event.low } else { due };
            event.high = due;
        }
    }
}

/// The value of an event.
pub(crate) struct Value {
    world: World,
    id: usize,
    last_will: LastWill,
}

impl Drop for Value {
    fn drop(&mut self) {
        {
            let mut truth = self.world.truth();
            let event = &mut truth.events.all[self.id];
            let (twice, state) = (std::mem::replace(&mut event.is_dropped, true), event.state);
            truth.claim(!twice, "a value was dropped twice");
            truth.claim(state == EventState::Gone, "a value was dropped that may still come");
        }
        self.world.execute(self.last_will);
    }
}

impl Value {
    pub(crate) fn id(&self) -> usize {
        self.id
    }

    /// Called by `Full::Give` when the channel is full.
    pub(crate) fn give_up(self) {
        let (world, id) = (self.world.clone(), self.id);
        if world.truth().ended.is_none() {
            world.follow_the_clock();
        }
        let is_full = world.due.len() >= world.truth().events.room.events;
        {
            let mut truth = world.truth();
            let tick = truth.tick();
            let event = &mut truth.events.all[id];
            let is_due =
                event.state == EventState::Pending && event.low <= tick && tick <= event.high;
            event.state = EventState::Gone;
            truth.events.given_up += 1;
            truth.claim(is_due, "an event was given up that was not due");
            truth.claim(is_full, "an event was given up though there was room");
        }
        world.take_turn();
    }
}

/// The waker that is called when an event comes into an empty channel.
struct Hook {
    world: World,
    act: Act,
    calls: AtomicUsize,
}

/// The most acts of a hook. Without a limit, one that inserts events could go on for ever.
const MAX_CALLS: usize = 25;

impl Wake for Hook {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.world.truth().events.is_hooked = true;
        if self.world.truth().advancing {
            self.world.follow_the_clock();
            self.world.take_turn();
            if self.calls.fetch_add(1, Ordering::Relaxed) < MAX_CALLS {
                self.world.act_outside_jobs(self.act);
            }
        }
    }
}

impl World {
    pub(crate) fn hook(&self, act: Act) {
        let hook = Hook { world: self.clone(), act, calls: AtomicUsize::new(0) };
        self.events.on_ready(Waker::from(Arc::new(hook)));
    }

    pub(crate) fn event(&self, op: EventOp) {
        match op {
            EventOp::Insert(time, last_will) => self.insert_event(time, last_will),
            EventOp::Batch(delays) => self.insert_events(delays),
            EventOp::Cancel(which) => self.cancel_event(which),
            EventOp::Take(which) => self.take_event(which),
            EventOp::Reset(which, time) => self.reset_event(which, time),
            EventOp::Receive(count) => (0..count).for_each(|_| self.receive()),
        }
    }

    fn value(&self, time: Time, last_will: LastWill) -> Value {
        let id = {
            let mut truth = self.truth();
            let (due, wall) = (truth.due_of(time), truth.wall_of(time));
            truth.events.add(due, wall)
        };
        Value { world: self.clone(), id, last_will }
    }

    fn note_event(&self, id: usize, handle: Handle) {
        // It is the handle of no job.
        let is_job = self.scheduler.is_pending(handle) || self.scheduler.cancel(handle);
        let mut truth = self.truth();
        truth.claim(!is_job, "the handle of an event is that of a job");
        let is_in_time = truth.ended.is_none();
        truth.claim(is_in_time, "an event came in after the end");
        truth.events.all[id].handle = Some(handle);
        truth.events.all[id].state = EventState::Pending;
    }

    pub(crate) fn insert_event(&self, time: Time, last_will: LastWill) {
        let value = self.value(time, last_will);
        let id = value.id;
        match self.events.insert(self.when(time), value) {
            Ok(handle) => self.note_event(id, handle),
            Err(refused) => self.check_refused_event(refused.kind(), refused.into_inner()),
        }
    }

    fn check_refused_event<T>(&self, kind: InsertErrorKind, back: T) {
        let mut truth = self.truth();
        let ended = truth.ended.is_some() && kind == InsertErrorKind::Shutdown;
        truth.claim(ended, "an event was refused");
        drop(truth);
        self.drop_outside(back);
    }

    fn insert_events(&self, delays: [u64; 3]) {
        let values =
            delays.map(|delay| (nanos(delay), self.value(Time::After(delay), LastWill::Nothing)));
        let ids = [0, 1, 2].map(|index: usize| values[index].1.id);
        match self.events.insert_batch(values) {
            Ok(handles) => {
                self.truth().claim(handles.len() == ids.len(), "as many handles as events");
                ids.into_iter().zip(handles).for_each(|(id, handle)| self.note_event(id, handle));
            }
            Err(refused) => {
                let kind = refused.kind();
                let back = refused.into_inner();
                self.truth().claim(back.len() == ids.len(), "not all events came back");
                self.check_refused_event(kind, back);
            }
        }
    }

    /// Returns the number of an event, its handle, and whether it is pending.
    fn pick_event(&self, which: usize) -> Option<(usize, Handle, bool)> {
        self.observe_events();
        let truth = self.truth();
        let id = which.checked_rem(truth.events.all.len())?;
        let event = &truth.events.all[id];
        Some((id, event.handle?, event.state == EventState::Pending))
    }

    /// Notes that an event leaves. Called before it does, because its value may be dropped then.
    fn remove_event(&self, id: usize, expected: bool) {
        if expected {
            self.truth().events.all[id].state = EventState::Gone;
        }
    }

    pub(crate) fn cancel_event(&self, which: usize) {
        let Some((id, handle, expected)) = self.pick_event(which) else { return };
        self.remove_event(id, expected);
        let answer = self.events.cancel(handle);
        self.truth().claim(answer == expected, "the cancel of an event answered wrong");
    }

    pub(crate) fn take_event(&self, which: usize) {
        let Some((id, handle, expected)) = self.pick_event(which) else { return };
        self.remove_event(id, expected);
        let value = self.events.take(handle);
        let right = value.as_ref().map(|value| value.id) == expected.then_some(id);
        self.truth().claim(right, "the take of an event answered wrong");
        self.drop_outside(value);
    }

    pub(crate) fn reset_event(&self, which: usize, time: Time) {
        let Some((id, handle, is_pending)) = self.pick_event(which) else { return };
        let answer = self.events.reset(handle, self.when(time));
        let mut truth = self.truth();
        let expected = is_pending && truth.ended.is_none();
        truth.claim(answer == expected, "the reset of an event answered wrong");
        if expected {
            let (due, wall) = (truth.due_of(time), truth.wall_of(time));
            let event = &mut truth.events.all[id];
            (event.low, event.high, event.wall) = (due, due, wall);
        }
    }

    pub(crate) fn receive(&self) {
        self.observe_events();
        let event = match self.due.try_recv() {
            Ok(event) => event,
            Err(error) => {
                let mut truth = self.truth();
                let is_over = truth.ended.is_some() && error == TryRecvError::Disconnected;
                let is_empty = truth.events.in_channel() == 0;
                truth.claim(is_empty, "an event was lost in the channel");
                let is_right = is_over || truth.ended.is_none() && error == TryRecvError::Empty;
                truth.claim(is_right, "the channel is in another state");
                return;
            }
        };
        self.check_received(&event);
        self.drop_outside(event);
    }

    fn check_received(&self, event: &Event<Value>) {
        let deadline = (event.deadline - self.origin).as_nanos() as u64;
        let due = deadline / TICK;
        let mut truth = self.truth();
        let tick = truth.tick();
        truth.claim(deadline.is_multiple_of(TICK), "a deadline between two ticks");
        truth.claim(due <= tick, "an event came before its deadline");
        let last = truth.events.last_received;
        truth.claim(due >= last, "an event came after a later one");
        let known = &mut truth.events.all[event.value.id];
        let was_in = known.state == EventState::Channel;
        let is_same = known.handle == Some(event.handle);
        let is_due = known.low <= due && due <= known.high;
        known.state = EventState::Gone;
        truth.claim(was_in, "an event came that was not in the channel");
        truth.claim(is_same, "an event came under another handle");
        truth.claim(is_due, "an event came with another deadline");
        let in_channel = |known: &KnownEvent| known.state == EventState::Channel;
        let overtaken = truth.events.all.iter().any(|known| in_channel(known) && known.high < due);
        truth.claim(!overtaken, "an event came before one that was due earlier");
        truth.events.last_received = due;
        truth.events.room_since = Some(tick);
    }

    pub(crate) fn is_full(&self) -> bool {
        let room = self.truth().events.room;
        !room.gives && self.due.len() >= room.events
    }

    /// Asks the wheel which events are still pending, and checks that each answer is possible.
    pub(crate) fn observe_events(&self) {
        let pending: Vec<usize> = {
            let truth = self.truth();
            let is_pending = |&id: &usize| truth.events.all[id].state == EventState::Pending;
            (0..truth.events.all.len()).filter(is_pending).collect()
        };
        let is_full = self.is_full();
        for id in pending {
            let handle = self.truth().events.all[id].handle.expect("it has come in");
            let is_pending = self.events.is_pending(handle);
            let mut truth = self.truth();
            let (tick, in_between) = (truth.tick(), u64::from(truth.advancing));
            let event = &mut truth.events.all[id];
            if !is_pending {
                let has_come = event.low <= tick;
                event.state = EventState::Channel;
                truth.events.delivered += 1;
                truth.claim(has_come, "an event came before its time");
            } else if event.high < tick + 1 - in_between {
                // The wheel looks for room once a tick, and at its end.
                let has_looked = truth.ended.is_some()
                    || truth.events.room_since.is_none_or(|since| since + in_between < tick);
                let may_wait = !truth.events.room.gives && (is_full || !has_looked);
                let may_wait = may_wait || truth.events.is_settled;
                truth.claim(may_wait, "an event is late, and there was room");
            }
        }
    }

    pub(crate) fn agree_on_events(&self, wheel: &Wheel) {
        self.observe_events();
        let stats = wheel.stats();
        let mut truth = self.truth();
        let (pending, now) = (truth.events.pending().count(), truth.now);
        truth.claim(self.events.len() == pending, "another number of events is pending");
        truth.claim(stats.events_pending == pending, "another number of events is counted");
        let in_channel = truth.events.in_channel();
        truth.claim(self.due.len() == in_channel, "another number of events is in the channel");
        let room = truth.events.room.events;
        truth.claim(in_channel <= room, "more events than there is room for");
        let counts = (truth.events.delivered, truth.events.given_up);
        let counted = (stats.events_delivered, stats.events_given_up);
        truth.claim(counts == counted, "events are counted wrong");
        let is_woken = truth.events.held > 0 || in_channel == 0 || truth.events.is_hooked;
        truth.claim(is_woken, "an event came into an empty channel, and no hook was called");
        for id in 0..truth.events.all.len() {
            let event = &truth.events.all[id];
            let Some(handle) = event.handle else { continue };
            let remaining = self.events.remaining(handle);
            let expected = match event.state {
                EventState::Pending if event.high == u64::MAX => Some(Duration::MAX),
                EventState::Pending => Some(nanos((event.high * TICK).saturating_sub(now))),
                _ => None,
            };
            let is_known = event.low == event.high || expected.is_none();
            let is_right = remaining == expected || !is_known && remaining.is_some();
            truth.claim(is_right, "another time remains for an event");
        }
    }
}
