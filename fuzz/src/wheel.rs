//! A manual wheel, against a list of its jobs: every verb for jobs, repeats, keys and groups.
//!
//! All times are whole milliseconds, and so is the tick. The promises are in `docs/guarantees.md`.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant, SystemTime};

use arbitrary::{Arbitrary, Result, Unstructured};
use tickwheel::{Driver, Geometry, Group, Handle, Job, Keyed, Repeat, Wheel, When};

use crate::{Delay, ms};

/// The reading of the model's wall clock at the beginning, in milliseconds.
const WALL_BEGIN: i64 = 1 << 40;

/// When a job is due, relative to the call.
#[derive(Clone, Copy, Debug)]
enum Time {
    After(Delay),
    At(i16),
    Wall(i16),
}

impl<'a> Arbitrary<'a> for Time {
    fn arbitrary(data: &mut Unstructured<'a>) -> Result<Time> {
        Ok(match data.int_in_range(0..=7)? {
            0..=4 => Time::After(data.arbitrary()?),
            5 => Time::At(data.int_in_range(-20..=235)?),
            6 => Time::Wall(data.int_in_range(-20..=235)?),
            _ => Time::Wall(data.arbitrary()?),
        })
    }
}

/// A job is named by its number, modulo the number of all jobs so far.
#[derive(Clone, Copy, Debug)]
enum Action {
    Insert(Time),
    /// A job that knows its handle.
    InsertWith(Delay),
    Batch(Time, u8),
    Repeat(Time, u8),
    InsertKey(u8, Time),
    RepeatKey(u8, u8),
    CancelKey(u8),
    InsertGroup(Time),
    RepeatGroup(u8),
    CancelGroup,
    Cancel(u8),
    CancelBatch(u8, u8),
    /// Takes a job, and runs it or drops it.
    Take(u8, bool),
    /// Takes a job, and inserts it again.
    Move(u8, Delay),
    Reset(u8, Time),
    ResetBatch(u8, u8, Time),
    SetWall(i16),
    Advance(Delay),
    AdvanceToNext,
}

impl<'a> Arbitrary<'a> for Action {
    fn arbitrary(data: &mut Unstructured<'a>) -> Result<Action> {
        Ok(match data.int_in_range(0..=31)? {
            0..=4 => Action::Insert(data.arbitrary()?),
            5 => Action::InsertWith(data.arbitrary()?),
            6 => Action::Batch(data.arbitrary()?, data.int_in_range(0..=31)?),
            7..=8 => Action::Repeat(data.arbitrary()?, data.arbitrary()?),
            9 => Action::InsertKey(data.int_in_range(0..=3)?, data.arbitrary()?),
            10 => Action::RepeatKey(data.int_in_range(0..=3)?, data.arbitrary()?),
            11 => Action::CancelKey(data.int_in_range(0..=3)?),
            12 => Action::InsertGroup(data.arbitrary()?),
            13 => Action::RepeatGroup(data.arbitrary()?),
            14 => Action::CancelGroup,
            15..=16 => Action::Cancel(data.arbitrary()?),
            17 => Action::CancelBatch(data.arbitrary()?, data.int_in_range(0..=31)?),
            18 => Action::Take(data.arbitrary()?, data.arbitrary()?),
            19 => Action::Move(data.arbitrary()?, data.arbitrary()?),
            20..=22 => Action::Reset(data.arbitrary()?, data.arbitrary()?),
            23 => {
                let (first, count) = (data.arbitrary()?, data.int_in_range(0..=31)?);
                Action::ResetBatch(first, count, data.arbitrary()?)
            }
            24 => Action::SetWall(data.int_in_range(-128..=127)?),
            25 => Action::SetWall(data.arbitrary()?),
            26..=30 => Action::Advance(data.arbitrary()?),
            _ => Action::AdvanceToNext,
        })
    }
}

/// A deadline in milliseconds.
#[derive(Clone, Copy, Debug)]
enum Deadline {
    Never,
    At(u64),
    /// When the wall clock of the model reads this.
    Wall(i64),
}

#[derive(Clone, Copy)]
struct Listed {
    handle: Handle,
    deadline: Deadline,
    /// The tick after the call that set its time. It is never due before.
    first: u64,
    period: Option<u64>,
    /// After a reset to a wall-clock time, it follows the wall clock.
    can_follow: bool,
    key: Option<u8>,
    in_group: bool,
    is_pending: bool,
}

/// The jobs that ran: the instant and the number of each.
type Log = Arc<Mutex<Vec<(Instant, usize)>>>;

struct World {
    wheel: Wheel,
    driver: Driver,
    keyed: Keyed<u8>,
    group: Group,
    jobs: Vec<Listed>,
    log: Log,
    /// The next entries that the log must have.
    expected: Vec<(u64, usize)>,
    now: u64,
    begin: Instant,
    /// By how much the wall clock was set.
    shift: i64,
    wall_begin: SystemTime,
}

pub fn run(data: &[u8]) {
    let mut data = Unstructured::new(data);
    let slots = 1 + usize::from(data.arbitrary::<u8>().unwrap_or(0) % 8);
    let mut world = World::new(Geometry::levels(&[slots, 4, 8]).expect("the sizes are valid"));
    for action in crate::actions(data) {
        world.act(action);
        world.compare();
    }
    world.end();
}

impl World {
    fn new(geometry: Geometry) -> World {
        let (wheel, driver) = Wheel::builder().geometry(geometry).manual().expect("it is valid");
        World {
            keyed: Keyed::new(&wheel),
            group: Group::new(&wheel),
            jobs: Vec::new(),
            log: Log::default(),
            expected: Vec::new(),
            now: 0,
            begin: driver.now(),
            shift: 0,
            wall_begin: driver.wall_now(),
            wheel,
            driver,
        }
    }

    /// Returns the closure of the next job, which notes its number.
    fn job(&self) -> impl FnMut() + Send + use<> {
        self.job_number(self.jobs.len())
    }

    fn job_number(&self, number: usize) -> impl FnMut() + Send + use<> {
        let (log, scheduler) = (Arc::clone(&self.log), self.wheel.scheduler());
        move || log.lock().unwrap().push((scheduler.now(), number))
    }

    fn wall_now(&self) -> i64 {
        WALL_BEGIN + self.now as i64 + self.shift
    }

    /// Returns a time, as the wheel takes it and as the list has it.
    fn time(&self, time: Time) -> (When, Deadline) {
        match time {
            Time::After(Delay(u64::MAX)) => (When::after(Duration::MAX), Deadline::Never),
            Time::After(Delay(delay)) => (When::after(ms(delay)), Deadline::At(self.now + delay)),
            Time::At(from_now) => {
                let at = self.now.saturating_add_signed(from_now.into());
                (When::at(self.begin + ms(at)), Deadline::At(at))
            }
            Time::Wall(from_now) => {
                let at = self.wall_now() + i64::from(from_now);
                let by = ms(at.abs_diff(WALL_BEGIN));
                let forward = at >= WALL_BEGIN;
                let time = if forward { self.wall_begin + by } else { self.wall_begin - by };
                (When::wall(time), Deadline::Wall(at))
            }
        }
    }

    /// Returns the reading of the monotonic clock at a deadline, as the wall clock is set now.
    fn moment(&self, deadline: Deadline) -> Option<u64> {
        match deadline {
            Deadline::Never => None,
            Deadline::At(at) => Some(at),
            Deadline::Wall(wall) => {
                Some((self.now as i64 + wall - self.wall_now()).max(0).cast_unsigned())
            }
        }
    }

    fn due(&self, job: &Listed) -> Option<u64> {
        self.moment(job.deadline).map(|at| at.max(job.first))
    }

    fn list(&mut self, handle: Handle, deadline: Deadline) -> &mut Listed {
        let can_follow = matches!(deadline, Deadline::Wall(_));
        self.jobs.push(Listed {
            handle,
            deadline,
            first: self.now + 1,
            period: None,
            can_follow,
            key: None,
            in_group: false,
            is_pending: true,
        });
        self.jobs.last_mut().expect("it was pushed above")
    }

    fn number(&self, job: u8) -> Option<usize> {
        usize::from(job).checked_rem(self.jobs.len())
    }

    /// Returns the numbers of some jobs in a row.
    fn some(&self, first: u8, count: u8) -> Vec<usize> {
        let jobs = self.jobs.len();
        (0..usize::from(count))
            .filter_map(|at| (usize::from(first) + at).checked_rem(jobs))
            .collect()
    }

    /// Notes that a job is gone. Returns whether it was there.
    fn remove(&mut self, number: usize) -> bool {
        core::mem::take(&mut self.jobs[number].is_pending)
    }

    /// Notes a new time. Returns whether the job is there.
    fn give(&mut self, number: usize, deadline: Deadline) -> bool {
        let (first, moment) = (self.now + 1, self.moment(deadline));
        let job = &mut self.jobs[number];
        if job.is_pending {
            job.first = first;
            // A job that does not follow the wall clock gets a fixed time.
            job.deadline = match deadline {
                Deadline::Wall(_) if !job.can_follow => {
                    moment.map_or(Deadline::Never, Deadline::At)
                }
                deadline => deadline,
            };
        }
        job.is_pending
    }

    /// Returns the time on the monotonic clock, from which the phase of a repeating job counts.
    fn monotonic(time: Time) -> Time {
        if let Time::Wall(from_now) = time { Time::At(from_now) } else { time }
    }

    fn time_for(&self, number: usize, time: Time) -> (When, Deadline) {
        let repeats = self.jobs[number].period.is_some();
        self.time(if repeats { World::monotonic(time) } else { time })
    }

    fn of_key(&self, key: u8) -> Option<usize> {
        self.jobs.iter().position(|job| job.is_pending && job.key == Some(key))
    }

    /// Notes that the job of a key was replaced by the job that is listed next.
    fn replace(&mut self, key: u8, replaced: Option<Job>) {
        let old = self.of_key(key);
        assert_eq!(replaced.is_some(), old.is_some_and(|old| self.remove(old)));
    }

    fn act(&mut self, action: Action) {
        match action {
            Action::Insert(time) => {
                let (when, deadline) = self.time(time);
                let handle = self.wheel.insert(when, self.job());
                self.list(handle, deadline);
            }
            Action::InsertWith(delay) => {
                let (when, deadline) = self.time(Time::After(delay));
                let mut told = None;
                let job = self.job();
                let make = |handle| {
                    told = Some(handle);
                    job
                };
                let handle = self.wheel.insert_with(when, make).expect("there is room");
                assert_eq!(told, Some(handle));
                self.list(handle, deadline).can_follow = true;
            }
            Action::Batch(time, count) => {
                let ((when, deadline), first) = (self.time(time), self.jobs.len());
                let jobs = (0..count).map(|at| (when, self.job_number(first + usize::from(at))));
                let handles = self.wheel.insert_batch(jobs.collect::<Vec<_>>());
                for handle in handles.expect("there is room") {
                    self.list(handle, deadline);
                }
            }
            Action::Repeat(time, period) => {
                let (when, deadline) = self.time(World::monotonic(time));
                let (period, mut job) = (1 + u64::from(period), self.job());
                let repeat = Repeat::every(ms(period)).starting(when);
                let job = move |_| {
                    job();
                    tickwheel::Next::Period
                };
                let handle = self.wheel.repeat(repeat, job).expect("there is room");
                self.list(handle, deadline).period = Some(period);
            }
            Action::InsertKey(key, time) => {
                let (when, deadline) = self.time(time);
                let replaced = self.keyed.insert(key, when, self.job()).expect("there is room");
                self.replace(key, replaced);
                let handle = self.keyed.handle(&key).expect("it was inserted above");
                self.list(handle, deadline).key = Some(key);
            }
            Action::RepeatKey(key, period) => {
                let period = 1 + u64::from(period);
                let replaced = self.keyed.every(key, ms(period), self.job());
                self.replace(key, replaced.expect("there is room"));
                let handle = self.keyed.handle(&key).expect("it was inserted above");
                let job = self.list(handle, Deadline::Never);
                (job.key, job.period) = (Some(key), Some(period));
                job.deadline = Deadline::At(job.first - 1 + period);
            }
            Action::CancelKey(key) => {
                let expected = self.of_key(key).is_some_and(|number| self.remove(number));
                assert_eq!(self.keyed.cancel(&key), expected);
            }
            Action::InsertGroup(time) => {
                let (when, deadline) = self.time(time);
                let handle = self.group.insert(when, self.job()).expect("there is room");
                self.list(handle, deadline).in_group = true;
            }
            Action::RepeatGroup(period) => {
                let period = 1 + u64::from(period);
                let handle = self.group.every(ms(period), self.job()).expect("there is room");
                let job = self.list(handle, Deadline::Never);
                (job.in_group, job.period) = (true, Some(period));
                job.deadline = Deadline::At(job.first - 1 + period);
            }
            Action::CancelGroup => {
                let members: Vec<_> = (0..self.jobs.len())
                    .filter(|&number| self.jobs[number].in_group && self.remove(number))
                    .collect();
                assert_eq!(self.group.cancel_all(), members.len());
            }
            Action::Cancel(job) => {
                let Some(number) = self.number(job) else { return };
                let expected = self.remove(number);
                assert_eq!(self.wheel.cancel(self.jobs[number].handle), expected);
            }
            Action::CancelBatch(first, count) => {
                let some = self.some(first, count);
                let handles: Vec<_> = some.iter().map(|&number| self.jobs[number].handle).collect();
                let expected: Vec<_> = some.into_iter().map(|number| self.remove(number)).collect();
                assert_eq!(self.wheel.cancel_batch(&handles), expected);
            }
            Action::Take(job, runs) => {
                let Some(number) = self.number(job) else { return };
                let taken = self.wheel.take(self.jobs[number].handle);
                assert_eq!(taken.is_some(), self.remove(number));
                if let (Some(job), true) = (taken, runs) {
                    job.run();
                    self.expected.push((self.now, number));
                }
            }
            Action::Move(job, delay) => self.move_again(job, delay),
            Action::Reset(job, time) => {
                let Some(number) = self.number(job) else { return };
                let (when, deadline) = self.time_for(number, time);
                let expected = self.give(number, deadline);
                assert_eq!(self.wheel.reset(self.jobs[number].handle, when), expected);
            }
            Action::ResetBatch(first, count, time) => {
                let (mut timers, mut expected) = (Vec::new(), Vec::new());
                for number in self.some(first, count) {
                    let (when, deadline) = self.time_for(number, time);
                    timers.push((self.jobs[number].handle, when));
                    expected.push(self.give(number, deadline));
                }
                assert_eq!(self.wheel.reset_batch(&timers), expected);
            }
            Action::SetWall(by) => {
                self.shift += i64::from(by);
                let wall = self.driver.wall_now();
                let step = ms(by.unsigned_abs().into());
                self.driver.set_wall(if by < 0 { wall - step } else { wall + step });
                // A job whose time the clock has passed is due at the next tick.
                self.jobs.iter_mut().for_each(|job| job.first = job.first.max(self.now + 1));
            }
            // In an endless advance, a repeating job would run without end.
            Action::Advance(Delay(delay)) => {
                let delay = delay.min(1000);
                let before = self.expected.len();
                let ran = self.driver.advance(ms(delay));
                self.advance(self.now + delay);
                assert_eq!(ran, self.expected.len() - before);
            }
            Action::AdvanceToNext => {
                let next = self.jobs.iter().filter(|job| job.is_pending);
                let next = next.filter_map(|job| self.due(job)).min();
                let expected = next.map(|next| self.begin + ms(next));
                assert_eq!(self.driver.advance_to_next(), expected);
                self.advance(next.unwrap_or(self.now));
            }
        }
    }

    /// Takes a job out and inserts it again: it leaves its key and its group, and is due after the
    /// new delay. A repeating job goes on repeating, in a new phase.
    fn move_again(&mut self, job: u8, delay: Delay) {
        let Some(number) = self.number(job) else { return };
        let taken = self.wheel.take(self.jobs[number].handle);
        assert_eq!(taken.is_some(), self.jobs[number].is_pending);
        let Some(taken) = taken else { return };
        let (when, deadline) = self.time(Time::After(delay));
        let handle = self.wheel.insert(when, taken);
        let stale = core::mem::replace(&mut self.jobs[number].handle, handle);
        assert!(!self.wheel.is_pending(stale));
        self.give(number, deadline);
        let job = &mut self.jobs[number];
        (job.key, job.in_group, job.can_follow) = (None, false, job.period.is_some());
    }

    fn advance(&mut self, to: u64) {
        loop {
            let pending = (0..self.jobs.len()).filter(|&number| self.jobs[number].is_pending);
            let dues = pending.filter_map(|number| Some((self.due(&self.jobs[number])?, number)));
            let next = dues.min().filter(|&(due, _)| due <= to);
            let Some((due, number)) = next else { break };
            self.now = due;
            self.expected.push((due, number));
            let job = &mut self.jobs[number];
            match (job.period, job.deadline) {
                (Some(period), Deadline::At(deadline)) => {
                    let mut next = deadline + period;
                    while next < due {
                        next += period;
                    }
                    (job.deadline, job.first) = (Deadline::At(next), due + 1);
                }
                _ => job.is_pending = false,
            }
        }
        self.now = to;
    }

    fn compare(&mut self) {
        let mut ran = core::mem::take(&mut *self.log.lock().unwrap());
        assert!(ran.is_sorted_by_key(|&(when, _)| when), "out of order");
        // The order of jobs that are due at one tick is not promised.
        ran.sort();
        let expected = self.expected.drain(..);
        let expected: Vec<_> = expected.map(|(at, number)| (self.begin + ms(at), number)).collect();
        assert_eq!(ran, expected);
        assert_eq!(self.driver.now(), self.begin + ms(self.now));
        let mut keys = BTreeMap::new();
        for (number, job) in self.jobs.iter().enumerate() {
            assert_eq!(self.wheel.is_pending(job.handle), job.is_pending, "job {number}");
            let left = self.wheel.remaining(job.handle);
            let expected = job.is_pending.then(|| match self.moment(job.deadline) {
                None => Duration::MAX,
                Some(at) => ms(at.max(job.first) - self.now),
            });
            assert_eq!(left, expected, "job {number}");
            if let (true, Some(key)) = (job.is_pending, job.key) {
                assert!(keys.insert(key, job.handle).is_none());
            }
        }
        let pending = |group: bool| {
            self.jobs.iter().filter(|job| job.is_pending && (job.in_group || !group)).count()
        };
        assert_eq!((self.wheel.len(), self.group.len()), (pending(false), pending(true)));
        assert_eq!(self.keyed.len(), keys.len());
        assert!((0..4).all(|key| self.keyed.handle(&key) == keys.get(&key).copied()));
        assert_eq!(self.wheel.stats().panicked, 0);
    }

    /// A shutdown hands back the pending jobs, and no job runs any more.
    fn end(self) {
        let unfired: Vec<_> = self.wheel.shutdown().map(|unfired| unfired.handle).collect();
        let pending = self.jobs.iter().filter(|job| job.is_pending);
        assert_eq!(unfired.len(), pending.clone().count());
        assert!(pending.clone().all(|job| unfired.contains(&job.handle)));
        assert_eq!(self.driver.advance(ms(1000)), 0);
        assert!(self.group.is_empty() && self.keyed.is_empty());
        assert!(self.log.lock().unwrap().is_empty());
    }
}
