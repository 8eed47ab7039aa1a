//! The slow and obvious model: every job there ever was, and a binary heap of `(tick, id)`.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};

use tickwheel::{Handle, Missed};

use super::events::KnownEvents;
#[cfg(feature = "async")]
use super::sleepers::KnownSleeper;
use super::{Act, Answer, Key, LastWill, Room, Time};

/// How many nanoseconds a tick has.
pub(crate) const TICK: u64 = 1000;

/// The truth about one job.
#[derive(Clone)]
pub(crate) struct Known {
    /// `None` while its insert is under way, and for a job that has a key.
    pub(crate) handle: Option<Handle>,
    /// The tick at which it is due, while it is in the wheel.
    pub(crate) due: Option<u64>,
    /// The deadline in nanoseconds, before it is rounded up to a tick. The `Run` of a repeating job
    /// has it.
    pub(crate) deadline: u64,
    /// It was inserted for a wall-clock time, or repeats: it can follow the wall clock.
    pub(crate) rearmable: bool,
    /// The wall-clock time it waits for, in nanoseconds after the wheel's wall clock began.
    pub(crate) wall: Option<i128>,
    pub(crate) act: Act,
    pub(crate) last_will: LastWill,
    pub(crate) repeat: Option<KnownRepeat>,
    pub(crate) group: Option<usize>,
}

#[derive(Clone)]
pub(crate) struct KnownRepeat {
    pub(crate) period: Option<u64>,
    pub(crate) missed: Missed,
    pub(crate) despite_panics: bool,
    pub(crate) answers: Vec<Answer>,
    pub(crate) runs: usize,
    /// How many deadlines were dropped before the next run.
    pub(crate) dropped: u64,
    /// A run is under way, and another follows unless this one stops the job.
    pub(crate) out: bool,
    /// The job was reset during the run.
    pub(crate) moved: bool,
}

pub(crate) struct Truth {
    pub(crate) jobs: Vec<Known>,
    heap: BinaryHeap<Reverse<(u64, usize)>>,
    /// The job of each key.
    pub(crate) keys: HashMap<Key, usize>,
    pub(crate) events: KnownEvents,
    #[cfg(feature = "async")]
    pub(crate) sleepers: Vec<KnownSleeper>,
    /// In nanoseconds.
    pub(crate) now: u64,
    /// An advance is under way.
    pub(crate) advancing: bool,
    /// The nanoseconds that calls inside an advance have added to it.
    pub(crate) added: u64,
    /// The tick at which the wheel ended.
    pub(crate) ended: Option<u64>,
    /// By how many nanoseconds the wall clock was set forward in all.
    pub(crate) wall_shift: i128,
    /// The number of jobs in the wheel.
    pub(crate) pending: usize,
    /// The number of jobs that take room: those in the wheel, and a repeating job that runs.
    pub(crate) admitted: usize,
    pub(crate) bound: usize,
    pub(crate) ran: usize,
    /// A job that was taken out, and is now run by its taker.
    pub(crate) runs_outside: Option<usize>,
    /// The number of captured values that are not dropped.
    pub(crate) alive: usize,
    pub(crate) panics: u64,
    pub(crate) errors: Vec<String>,
}

impl Truth {
    pub(crate) fn new(bound: usize, room: Room) -> Truth {
        Truth {
            jobs: Vec::new(),
            heap: BinaryHeap::new(),
            keys: HashMap::new(),
            events: KnownEvents::new(room),
            #[cfg(feature = "async")]
            sleepers: Vec::new(),
            now: 0,
            advancing: false,
            added: 0,
            ended: None,
            wall_shift: 0,
            pending: 0,
            admitted: 0,
            bound,
            ran: 0,
            runs_outside: None,
            alive: 0,
            panics: 0,
            errors: Vec::new(),
        }
    }

    pub(crate) fn add(&mut self, act: Act, last_will: LastWill) -> usize {
        self.jobs.push(Known {
            handle: None,
            due: None,
            deadline: 0,
            rearmable: false,
            wall: None,
            act,
            last_will,
            repeat: None,
            group: None,
        });
        self.jobs.len() - 1
    }

    /// Returns the tick at which a job is due if it is set now for the nanosecond `deadline`:
    /// rounded up, and after the present.
    pub(crate) fn due_at(&self, deadline: u64) -> u64 {
        match deadline {
            // Far beyond everything a test advances to.
            u64::MAX => u64::MAX,
            deadline => deadline.div_ceil(TICK).max(self.now / TICK + 1),
        }
    }

    /// Returns the tick within the slack that can be halved most often, found by trying all.
    pub(crate) fn due_within(&self, delay: u64, slack: u64) -> u64 {
        let first = self.due_at(self.now.saturating_add(delay));
        let last = self.now.saturating_add(delay).saturating_add(slack) / TICK;
        (first..=last).max_by_key(|tick| tick.trailing_zeros()).unwrap_or(first)
    }

    /// Returns the tick that has begun last.
    pub(crate) fn tick(&self) -> u64 {
        self.now / TICK
    }

    pub(crate) fn wall_now(&self) -> i128 {
        i128::from(self.now) + self.wall_shift
    }

    /// Returns the nanosecond at which the wall clock will read `wall`.
    pub(crate) fn when_wall_reads(&self, wall: i128) -> u64 {
        self.now + u64::try_from(wall - self.wall_now()).unwrap_or(0)
    }

    pub(crate) fn set(&mut self, id: usize, deadline: u64) {
        self.jobs[id].deadline = deadline;
        self.set_due(id, self.due_at(deadline));
    }

    pub(crate) fn set_due(&mut self, id: usize, due: u64) {
        let was_in = self.jobs[id].due.is_some();
        let was_out = self.is_out(id);
        self.pending += usize::from(!was_in);
        self.admitted += usize::from(!was_in && !was_out);
        self.jobs[id].due = Some(due);
        if let Some(repeat) = &mut self.jobs[id].repeat {
            repeat.out = false;
        }
        self.heap.push(Reverse((due, id)));
    }

    /// Takes a job out of the wheel for good. Returns whether it was there, or would have come
    /// back.
    pub(crate) fn end(&mut self, id: usize) -> bool {
        let was_in = self.jobs[id].due.take().is_some();
        let was_out = self.is_out(id);
        self.pending -= usize::from(was_in);
        self.admitted -= usize::from(was_in || was_out);
        if let Some(repeat) = &mut self.jobs[id].repeat {
            repeat.out = false;
        }
        self.keys.retain(|_, &mut of_key| of_key != id);
        was_in || was_out
    }

    /// Ends every job, because the wheel has ended.
    pub(crate) fn end_all(&mut self) {
        for id in 0..self.jobs.len() {
            self.end(id);
        }
    }

    /// Returns the key of a job that is pending.
    pub(crate) fn key_of(&self, id: usize) -> Option<Key> {
        self.keys.iter().find(|&(_, &of_key)| of_key == id).map(|(&key, _)| key)
    }

    /// Returns the nanosecond of a deadline that is given now.
    pub(crate) fn deadline_of(&self, time: Time) -> u64 {
        match time {
            Time::After(delay) | Time::Within(delay, _) => self.now.saturating_add(delay),
            Time::At(ahead) => self.now.saturating_add_signed(ahead),
            Time::Wall(_) => self.when_wall_reads(self.wall_of(time).expect("it has one")),
        }
    }

    /// Returns the tick at which a timer is due if it is given `time` now.
    pub(crate) fn due_of(&self, time: Time) -> u64 {
        match time {
            Time::Within(delay, slack) => self.due_within(delay, slack),
            _ => self.due_at(self.deadline_of(time)),
        }
    }

    /// Returns the wall-clock time that a timer waits for if it is given `time` now.
    pub(crate) fn wall_of(&self, time: Time) -> Option<i128> {
        match time {
            Time::Wall(ahead) => Some(self.wall_now() + i128::from(ahead)),
            _ => None,
        }
    }

    /// Notes that a repeating job begins a run: it leaves the wheel and keeps its room.
    pub(crate) fn begin_run(&mut self, id: usize) {
        self.pending -= usize::from(self.jobs[id].due.take().is_some());
        if let Some(repeat) = &mut self.jobs[id].repeat {
            repeat.out = true;
            repeat.moved = false;
            repeat.runs += 1;
        }
    }

    pub(crate) fn is_out(&self, id: usize) -> bool {
        self.jobs[id].repeat.as_ref().is_some_and(|repeat| repeat.out)
    }

    /// Returns whether a cancel would succeed.
    pub(crate) fn is_pending(&self, id: usize) -> bool {
        self.jobs[id].due.is_some() || self.is_out(id)
    }

    pub(crate) fn has_room(&self, jobs: usize) -> bool {
        self.admitted + jobs <= self.bound
    }

    /// Notes that the wall clock was set: jobs that wait for it are due at other ticks.
    pub(crate) fn follow_the_wall(&mut self) {
        for id in 0..self.jobs.len() {
            if let (Some(wall), Some(_)) = (self.jobs[id].wall, self.jobs[id].due) {
                // A job that was due before, and still is, keeps its deadline.
                if wall <= self.wall_now() && self.jobs[id].deadline <= self.now {
                    continue;
                }
                self.set(id, self.when_wall_reads(wall));
            }
        }
    }

    /// Returns when a repeating job is due again by its period, and how many deadlines that drops,
    /// found by counting.
    pub(crate) fn follow(&self, id: usize) -> Option<(u64, u64)> {
        let job = &self.jobs[id];
        let repeat = job.repeat.as_ref()?;
        let period = repeat.period?;
        let (mut next, mut dropped) = (job.deadline.saturating_add(period), 0);
        while next < self.now && repeat.missed != Missed::Burst {
            next += period;
            dropped += 1;
        }
        match repeat.missed {
            Missed::Delay if dropped > 0 => Some((self.now.saturating_add(period), dropped)),
            _ => Some((next, dropped)),
        }
    }

    /// Returns the earliest tick at which a job is due.
    pub(crate) fn first(&mut self) -> Option<u64> {
        while let Some(&Reverse((due, id))) = self.heap.peek() {
            if self.jobs[id].due == Some(due) {
                return Some(due);
            }
            self.heap.pop();
        }
        None
    }

    /// Returns the number of jobs in a group.
    pub(crate) fn in_group(&self, group: usize) -> usize {
        (0..self.jobs.len())
            .filter(|&id| self.jobs[id].group == Some(group) && self.is_pending(id))
            .count()
    }

    /// Collects a failed assertion. In a job, a panic would be caught and counted as the job's.
    pub(crate) fn claim(&mut self, holds: bool, what: &str) {
        if !holds {
            self.errors.push(format!("{what}, at {}", self.now));
        }
    }
}
