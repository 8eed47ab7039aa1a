//! Groups: jobs that are cancelled together.
//!
//! Ground rules:
//!
//! - Each job carries a [`Member`], which stands for it on the group's list. Nothing but the member
//!   takes it off the list.
//! - The list's lock is never held while the engine is called, so an insert that unwinds drops its
//!   member like any other. A member is on the list before its job is in the wheel; the job's handle
//!   is written there after the insert. If the job and its member are gone by then, nothing is
//!   written.
//! - An index on the list is used again. A number is used once in the life of a group, so a handle
//!   is never written for a later member at the same index.
//! - No user code runs under the list's lock.

use core::fmt;
use core::time::Duration;
use std::sync::Arc;

use slab::Slab;

use crate::adapters::attached::{Attached, Attachment};
use crate::api::scheduler::Scheduler;
use crate::engine::shard::Inserted;
use crate::engine::verbs::IgnoresRun;
use crate::host::sync::{Mutex, lock};
use crate::values::error::InsertError;
use crate::values::handle::Handle;
use crate::values::job::{Call, Disarmed, Task, disarmed, is_job};
use crate::values::repeat::{Next, Repeat, Run};
use crate::values::time::When;

/// The number of members for which an empty list keeps memory.
const KEPT_MEMBERS: usize = 32;

/// Jobs that belong together and are cancelled in one call, such as the ten timers of a connection
/// that closes.
///
/// **Dropping a group cancels its pending jobs**, as [`Group::cancel_all`] does; [`Group::detach`]
/// keeps them. A job should not own its group: the group would not be dropped before the job. A
/// group does not keep the wheel alive.
///
/// A group takes 32 bytes for each job, counted at the time when it held the most, and frees them
/// when the last job leaves. Jobs that have run leave nothing else behind.
///
/// ```
/// use std::time::Duration;
/// use tickwheel::{Group, Wheel};
/// let (wheel, driver) = Wheel::builder().manual()?;
/// let second = Duration::from_secs(1);
/// let connection = Group::new(&wheel);
/// connection.insert(60 * second, || println!("idle"))?;
/// connection.insert(2 * second, || println!("no hello came"))?;
/// connection.every(10 * second, || println!("ping"))?;
/// driver.advance(5 * second);
/// assert_eq!(connection.len(), 2);
/// drop(connection); // closed by its peer
/// assert!(wheel.is_empty());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[must_use = "a group that is dropped cancels its jobs"]
pub struct Group {
    scheduler: Scheduler,
    members: Arc<Mutex<List>>,
    detached: bool,
}

#[derive(Default)]
struct List {
    entries: Slab<MemberEntry>,
    next: u64,
}

struct MemberEntry {
    number: u64,
    /// `None` only while the job is being inserted.
    handle: Option<Handle>,
}

impl Group {
    /// Returns an empty group for jobs of this wheel.
    pub fn new(wheel: impl Into<Scheduler>) -> Group {
        Group { scheduler: wheel.into(), members: Arc::default(), detached: false }
    }

    /// Runs `job` after a delay, at an instant or at a wall-clock time, as
    /// [`Wheel::insert`](crate::Wheel::insert) does, unless the group is cancelled before. A
    /// [`Job`](crate::Job) that repeats goes on repeating.
    ///
    /// # Errors
    ///
    /// [`InsertError`] with the job: the wheel is full, or gone.
    pub fn insert<F>(&self, when: impl Into<When>, job: F) -> Result<Handle, InsertError<F>>
    where
        F: Task + Send + 'static,
    {
        let when = when.into();
        if is_job::<F>() {
            return self.join_again(when, job);
        }
        self.join(job, |member_job| self.scheduler.engine().insert(when, member_job))
    }

    /// Inserts many jobs at once, as [`Wheel::insert_batch`](crate::Wheel::insert_batch) does: all
    /// or nothing. (A [`Job`](crate::Job) that repeats runs once here.)
    ///
    /// # Errors
    ///
    /// [`InsertError`] with the whole batch: the wheel has no room for all of it, or is gone.
    pub fn insert_batch<W, F>(
        &self,
        timers: impl IntoIterator<Item = (W, F)>,
    ) -> Result<Vec<Handle>, InsertError<Vec<(W, F)>>>
    where
        W: Into<When> + Copy,
        F: Task + Send + 'static,
    {
        let engine = self.scheduler.engine();
        let join = |(when, call)| {
            let job = engine.unwrapped(call);
            (when, MemberJob { attachment: Member::new(&self.members), job })
        };
        let timers: Vec<(W, MemberJob<F>)> = timers.into_iter().map(join).collect();
        let members: Vec<(usize, u64)> =
            timers.iter().map(|(_, job)| job.attachment.place()).collect();
        let handles = engine.insert_batch(timers).map_err(|refused| {
            let back = |(when, member_job): (W, MemberJob<F>)| (when, member_job.job);
            refused.map(|timers| timers.into_iter().map(back).collect())
        })?;
        for (&place, &handle) in members.iter().zip(&handles) {
            lock(&self.members).write_down(place, handle);
        }
        Ok(handles)
    }

    /// Runs `job` once every `period`, as [`Wheel::every`](crate::Wheel::every) does, until the
    /// group is cancelled.
    ///
    /// # Errors
    ///
    /// As [`Group::repeat`].
    pub fn every<F>(&self, period: Duration, job: F) -> Result<Handle, InsertError<F>>
    where
        F: FnMut() + Send + 'static,
    {
        self.join(IgnoresRun(job), |member_job| {
            self.scheduler.engine().repeat(Repeat::every(period), member_job)
        })
        .map_err(|refused| refused.map(|job| job.0))
    }

    /// Runs `job` again and again, as [`Wheel::repeat`](crate::Wheel::repeat) does, until the group
    /// is cancelled.
    ///
    /// # Errors
    ///
    /// [`InsertError`] with the job: the period is zero, or the wheel is full, or gone.
    pub fn repeat<F>(&self, repeat: Repeat, job: F) -> Result<Handle, InsertError<F>>
    where
        F: FnMut(Run) -> Next + Send + 'static,
    {
        self.join(job, |member_job| self.scheduler.engine().repeat(repeat, member_job))
    }

    /// Returns the scheduler of the wheel: to reset or cancel a single job, and to read the clock.
    #[must_use]
    pub fn scheduler(&self) -> &Scheduler {
        &self.scheduler
    }

    /// Cancels every pending job of the group. Returns the number of jobs that it cancelled. Its cost
    /// grows with the jobs in the group, not with the other jobs of the wheel. A job that runs goes
    /// on; if it repeats, that run is its last.
    ///
    /// A job that another thread inserts at the same time may be cancelled or not. If a captured
    /// value panics when it is dropped, the other jobs are still cancelled: see
    /// [`Wheel::cancel`](crate::Wheel::cancel).
    pub fn cancel_all(&self) -> usize {
        let handles: Vec<Handle> =
            lock(&self.members).entries.iter().filter_map(|(_, entry)| entry.handle).collect();
        // Each of the jobs takes itself off the list when it is dropped.
        let cancelled = self.scheduler.cancel_batch(&handles);
        cancelled.into_iter().filter(|&cancelled| cancelled).count()
    }

    /// Returns the number of jobs in the group: those that are pending or about to start, and those that were taken out
    /// or handed back and are not dropped yet. A
    /// repeating job is in its group until its last run has ended.
    #[must_use]
    pub fn len(&self) -> usize {
        lock(&self.members).entries.len()
    }

    /// Returns `true` if no job is in the group.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Drops the group without cancelling its jobs.
    pub fn detach(mut self) {
        self.detached = true;
    }

    /// Inserts a [`Job`](crate::Job) that was taken out of a wheel: once or repeating, as it was.
    fn join_again<F: Call>(&self, when: When, job: F) -> Inserted<F> {
        let engine = self.scheduler.engine();
        let joined = match disarmed(job) {
            Disarmed::OneShot(job) => self.join(job, |member_job| engine.insert(when, member_job)),
            Disarmed::Repeating { handle, repeat, job } => {
                let again = repeat.starting(when);
                let joined = self.join(job, |member_job| engine.repeat(again, member_job));
                joined.map_err(|refused| refused.map(|job| engine.repeating(handle, repeat, job)))
            }
        };
        joined.map_err(|refused| refused.map(|job| job.into_call()))
    }

    fn join<C>(
        &self,
        job: C,
        insert: impl FnOnce(MemberJob<C>) -> Inserted<MemberJob<C>>,
    ) -> Inserted<C> {
        let member = Member::new(&self.members);
        let place = member.place();
        let inserted = insert(MemberJob { attachment: member, job });
        let handle = inserted.map_err(|refused| refused.map(|member_job| member_job.job))?;
        lock(&self.members).write_down(place, handle);
        Ok(handle)
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        if !self.detached {
            self.cancel_all();
        }
    }
}

impl fmt::Debug for Group {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Group").field("len", &self.len()).finish_non_exhaustive()
    }
}

impl List {
    /// Writes down the handle of a member's job, if the member is still there.
    fn write_down(&mut self, (index, number): (usize, u64), handle: Handle) {
        if let Some(entry) = self.entries.get_mut(index).filter(|entry| entry.number == number) {
            entry.handle = Some(handle);
        }
    }
}

/// A job's place on the list of its group.
struct Member {
    /// `None` once the member has left.
    members: Option<Arc<Mutex<List>>>,
    index: usize,
    number: u64,
}

impl Member {
    /// Enters a new member on the list, without a handle.
    fn new(members: &Arc<Mutex<List>>) -> Member {
        let mut list = lock(members);
        let number = list.next;
        list.next += 1;
        let index = list.entries.insert(MemberEntry { number, handle: None });
        Member { members: Some(Arc::clone(members)), index, number }
    }

    fn place(&self) -> (usize, u64) {
        (self.index, self.number)
    }
}

impl Attachment for Member {
    fn leave(&mut self) {
        let Some(members) = self.members.take() else { return };
        let mut list = lock(&members);
        list.entries.remove(self.index);
        if list.entries.is_empty() && list.entries.capacity() > KEPT_MEMBERS {
            list.entries = Slab::new();
        }
    }
}

impl Drop for Member {
    fn drop(&mut self) {
        self.leave();
    }
}

type MemberJob<C> = Attached<Member, C>;

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use std::panic::{AssertUnwindSafe, catch_unwind};
    use std::sync::mpsc::channel;
    use std::thread;

    use crate::api::wheel::Wheel;

    /// An insert that unwinds leaves no member in the group, and takes no lock twice.
    #[test]
    fn insert_that_unwinds_leaves_no_member() {
        let (wheel, _driver) = Wheel::builder().manual().unwrap();
        let scheduler = wheel.scheduler();
        // On a thread of its own: if the insert took a lock twice, it would wait for ever.
        let (sender, ended) = channel();
        thread::spawn(move || {
            let group = Group::new(scheduler);
            let insert = |_: MemberJob<fn()>| panic!("no room in the shard");
            let unwound = catch_unwind(AssertUnwindSafe(|| group.join((|| ()) as fn(), insert)));
            sender.send((unwound.is_err(), group.len())).unwrap();
        });
        assert_eq!(ended.recv_timeout(Duration::from_secs(60)), Ok((true, 0)));
    }

    /// An empty group keeps room for at most `KEPT_MEMBERS` members.
    #[test]
    fn group_that_is_empty_keeps_little_memory() {
        let (wheel, _driver) = Wheel::builder().manual().unwrap();
        let group = Group::new(&wheel);
        (0..1000).for_each(|_| assert!(group.insert(Duration::MAX, || ()).is_ok()));
        assert_eq!(group.cancel_all(), 1000);
        assert!(lock(&group.members).entries.capacity() <= KEPT_MEMBERS);
    }

    /// An insert whose member has left already does not store its handle for a later member.
    #[test]
    fn handle_is_not_stored_for_a_later_member() {
        let (wheel, _driver) = Wheel::builder().manual().unwrap();
        let group = Group::new(&wheel);
        let early = wheel.insert(Duration::MAX, || ());
        // The job has started, and its member has left, before the insert returns. Its index is
        // used again.
        let member_job = group.join(
            || (),
            |member_job| {
                drop(member_job);
                assert!(group.insert(Duration::MAX, || ()).is_ok());
                Ok(early)
            },
        );
        assert_eq!((member_job.ok(), group.cancel_all()), (Some(early), 1));
        assert!(wheel.is_pending(early));
    }
}
