//! Jobs that are cancelled together.
//!
//! Ground rules:
//!
//! - Every job carries its membership. Whatever becomes of the job (it runs, it is cancelled by its
//!   handle, its wheel goes), the membership is dropped with it or before it starts, and takes
//!   itself off the list. Nothing else does, so a place on the list is one member's until then.
//! - The list's lock is held while a job is inserted, so a job that runs at once waits until its
//!   place is filled in. No user code runs under it: a job that is refused is given up after.

use core::fmt;
use std::sync::Arc;

use slab::Slab;

use crate::api::scheduler::Scheduler;
use crate::host::sync::{Mutex, lock};
use crate::values::error::InsertError;
use crate::values::handle::Handle;
use crate::values::job::{Call, CallAgain};
use crate::values::repeat::{Next, Repeat, Run};
use crate::values::when::When;

/// Members that an empty list keeps memory for.
const KEPT_MEMBERS: usize = 32;

/// Jobs that belong together and are cancelled in one call: a connection that closes with its ten
/// timers.
///
/// **Dropping a group cancels what is pending in it**, as [`Group::cancel_all`] does;
/// [`Group::detach`] lets it go. So a job should not own the group it is in: the group would not be
/// dropped before it. A group takes memory for its pending jobs: those that have run leave nothing
/// behind. It does not keep the wheel alive.
///
/// ```
/// use std::time::Duration;
/// use tickwheel::{Group, Next, Repeat, Wheel};
/// let (wheel, driver) = Wheel::builder().manual()?;
/// let second = Duration::from_secs(1);
/// let connection = Group::new(wheel.scheduler());
/// connection.insert(60 * second, || println!("idle"))?;
/// connection.insert(2 * second, || println!("no hello came"))?;
/// connection.repeat(Repeat::every(10 * second), |_| {
///     println!("ping");
///     Next::Period
/// })?;
/// driver.advance(5 * second);
/// assert_eq!(connection.len(), 2);
/// drop(connection); // closed by its peer
/// assert!(wheel.is_empty());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[must_use = "a group that is dropped cancels its jobs"]
pub struct Group {
    scheduler: Scheduler,
    members: Arc<Members>,
    detached: bool,
}

#[derive(Default)]
struct Members {
    /// A handle is missing only while its job is being inserted.
    list: Mutex<Slab<Option<Handle>>>,
}

impl Group {
    /// An empty group of jobs of the scheduler's wheel.
    pub fn new(scheduler: Scheduler) -> Group {
        Group { scheduler, members: Arc::default(), detached: false }
    }

    /// Runs `job` after a delay, at an instant or at a wall-clock time, as
    /// [`Wheel::insert_at`](crate::Wheel::insert_at) does, unless the group is cancelled before.
    ///
    /// # Errors
    ///
    /// [`InsertError`] with the job: the wheel is full, or gone.
    pub fn insert<F>(&self, when: impl Into<When>, job: F) -> Result<Handle, InsertError<F>>
    where
        F: FnOnce() + Send + 'static,
    {
        let when = when.into();
        self.join(job, |joined| self.scheduler.engine().insert_when(when, joined))
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
        self.join(job, |joined| self.scheduler.engine().repeat(repeat, joined))
    }

    /// Cancels every pending job of the group; how many these were. Takes as long as the group is
    /// large, however many other jobs there are. A job that runs goes on; if it repeats, that run
    /// is its last.
    ///
    /// What another thread inserts meanwhile may be among them or not.
    pub fn cancel_all(&self) -> usize {
        let handles: Vec<Handle> =
            lock(&self.members.list).iter().filter_map(|(_, handle)| *handle).collect();
        // Each of them takes itself off the list when it is dropped.
        let cancelled = self.scheduler.cancel_batch(&handles);
        cancelled.into_iter().filter(|&cancelled| cancelled).count()
    }

    /// How many jobs are in the group: pending, or about to start. A repeating job is in it until
    /// its last run has ended.
    #[must_use]
    pub fn len(&self) -> usize {
        lock(&self.members.list).len()
    }

    /// Whether no job is in the group.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Lets the jobs go their way: from here on nothing is cancelled.
    pub fn detach(mut self) {
        self.detached = true;
    }

    /// Inserts a job that is a member.
    fn join<C>(
        &self,
        call: C,
        insert: impl FnOnce(Joined<C>) -> Result<Handle, InsertError<Joined<C>>>,
    ) -> Result<Handle, InsertError<C>> {
        let mut list = lock(&self.members.list);
        let index = list.insert(None);
        let member = Member { members: Arc::clone(&self.members), index };
        let answer = insert(Joined { member, call });
        if let Ok(handle) = answer {
            list[index] = Some(handle);
        }
        drop(list);
        answer.map_err(|refused| refused.map(|joined| joined.call))
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

/// A place on the list, for as long as this lives.
struct Member {
    members: Arc<Members>,
    index: usize,
}

impl Drop for Member {
    fn drop(&mut self) {
        let mut list = lock(&self.members.list);
        list.remove(self.index);
        if list.is_empty() && list.capacity() > KEPT_MEMBERS {
            *list = Slab::new();
        }
    }
}

/// A job, and its membership.
struct Joined<C> {
    member: Member,
    call: C,
}

impl<C: Call> Call for Joined<C> {
    fn call(self) {
        // It is no longer pending.
        drop(self.member);
        self.call.call();
    }
}

impl<C: CallAgain> CallAgain for Joined<C> {
    fn call(&mut self, run: Run) -> Next {
        self.call.call(run)
    }
}
