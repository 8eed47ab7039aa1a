//! The job: the user's closure or [`Task`] in its box, as a wheel keeps it.
//!
//! Ground rules:
//!
//! - A [`Job`] is a box. It holds the user's value, or a wrapper around it: the place in a group or
//!   the ticket of a key ([`Guarded`]), the registration of a re-armable job. [`Job::downcast`]
//!   looks through every wrapper.
//! - When a [`Job`] is inserted again, [`Work::disarm`] removes its wrappers: it loses its key, its
//!   group and its registration. A job without wrappers is not boxed again.
//! - A wrapper holds its content in place, so a job with wrappers is one allocation too. That is why
//!   there are traits for contents ([`Call`], [`CallAgain`]) beside the one for the box ([`Work`]).
//! - An insert takes any [`Task`], and a [`Job`] is one. A `TypeId` tells it apart: users implement
//!   [`Task`], so it should have no hidden methods for that. The compiler knows the answer, so it
//!   costs nothing.

use core::any::{Any, TypeId};
use core::fmt;

use crate::values::handle::Handle;
use crate::values::repeat::{Next, Repeat, Run};

/// A value that a wheel can run once: every closure `FnOnce()`, a [`Job`], and types of your own,
/// which [`Job::downcast`] gives back.
///
/// ```
/// use std::time::Duration;
/// use tickwheel::{Task, Wheel};
///
/// struct CloseOrder(u64);
///
/// impl Task for CloseOrder {
///     fn run(self) {
///         println!("order {} closed, unpaid", self.0);
///     }
/// }
///
/// let wheel = Wheel::new();
/// let closes = wheel.insert(Duration::from_secs(72 * 3600), CloseOrder(1001));
/// let job = wheel.take(closes).unwrap();
/// assert_eq!(job.downcast_ref::<CloseOrder>().unwrap().0, 1001);
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not something that a wheel can run",
    label = "neither a closure `FnOnce()` that returns `()`, nor a `Task`"
)]
pub trait Task {
    /// Runs the job. The wheel calls this at most once.
    fn run(self);
}

impl<F: FnOnce()> Task for F {
    fn run(self) {
        self();
    }
}

/// A job that has not run, as [`Wheel::take`](crate::Wheel::take) and
/// [`Wheel::shutdown`](crate::Wheel::shutdown) return it. You can run it, look into it, or insert
/// it again, in the same wheel or in another. Inserted again, it has a new handle, and no longer
/// the key or the group that it had; a repeating job goes on repeating.
///
/// Dropping it drops the closure or the [`Task`] without calling it.
pub struct Job(Box<dyn Work>);

impl Job {
    /// Returns a job that runs `task`, so that jobs of different types go into one batch. This
    /// costs one allocation; the insert of the job then costs none.
    pub fn new<T: Task + Send + 'static>(task: T) -> Job {
        job_of(task)
    }

    /// Runs the job on this thread, once. A repeating job gets a [`Run`] that is on time; its
    /// answer is ignored, and it does not run again.
    ///
    /// # Panics
    ///
    /// When the job panics: the panic unwinds into the caller, and is not counted.
    pub fn run(self) {
        self.0.run();
    }

    /// Returns the [`Task`] or the closure that this job was made of, if it is a `T`.
    ///
    /// # Errors
    ///
    /// Returns the job unchanged if it was made of another type. A job that repeats is never a `T`.
    pub fn downcast<T: 'static>(self) -> Result<T, Job> {
        if !self.0.task().is::<T>() {
            return Err(self);
        }
        match self.disarm() {
            Disarmed::OneShot(job) => Ok(job.into_content()),
            Disarmed::Repeating { .. } => unreachable!("no user can name the type of its task"),
        }
    }

    /// Returns a reference to the [`Task`] or the closure that this job was made of, if it is a
    /// `T`.
    #[must_use]
    pub fn downcast_ref<T: 'static>(&self) -> Option<&T> {
        self.0.task().downcast_ref()
    }

    /// Returns a job of a wrapper, or of a value that is no [`Job`].
    #[inline]
    pub(crate) fn of<W: Work>(work: Box<W>) -> Job {
        Job(work)
    }

    /// Runs the job because it is due. A re-armable job may go back into the wheel.
    pub(crate) fn fire(self) {
        self.0.fire();
    }

    /// Returns the handle of a re-armable job, and `None` for a one-shot job.
    pub(crate) fn rearmable_handle(&self) -> Option<Handle> {
        self.0.rearmable_handle()
    }

    /// Returns the job without key, group and registration.
    pub(crate) fn disarm(self) -> Disarmed {
        self.0.disarm()
    }

    /// Returns the content of the box, which is a `W`.
    pub(crate) fn into_content<W: 'static>(self) -> W {
        let content: Box<dyn Any> = self.0;
        *content.downcast().expect("the caller knows what it made a job of")
    }

    /// Returns the `C` that the job was made of by [`job_of`].
    pub(crate) fn into_call<C: Call>(self) -> C {
        cast(self).unwrap_or_else(Job::into_content)
    }
}

impl Task for Job {
    fn run(self) {
        self.0.run();
    }
}

impl fmt::Debug for Job {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Job").finish_non_exhaustive()
    }
}

/// Returns whether `T` is [`Job`]. Costs nothing: the compiler knows.
#[inline]
pub(crate) fn is_job<T: 'static>() -> bool {
    TypeId::of::<T>() == TypeId::of::<Job>()
}

/// Returns the value as a `B`, or unchanged if it has another type.
pub(crate) fn cast<A: 'static, B: 'static>(value: A) -> Result<B, A> {
    let mut value = Some(value);
    match (&mut value as &mut dyn Any).downcast_mut::<Option<B>>().and_then(Option::take) {
        Some(same) => Ok(same),
        None => Err(value.expect("it was not taken")),
    }
}

/// Returns a job made of `call`, or `call` itself if it is a [`Job`].
#[inline]
pub(crate) fn job_of<C: Call>(call: C) -> Job {
    cast(call).unwrap_or_else(|call| Job(Box::new(call)))
}

/// Returns `call` as a job that is about to be inserted: without its wrappers if it was a job
/// before.
pub(crate) fn disarmed<C: Call>(call: C) -> Disarmed {
    match is_job::<C>() {
        true => job_of(call).disarm(),
        false => Disarmed::OneShot(job_of(call)),
    }
}

/// A job without a registration.
pub(crate) enum Disarmed {
    OneShot(Job),
    /// `handle` is the one that the job had.
    Repeating {
        handle: Handle,
        repeat: Repeat,
        job: Box<dyn CallAgain>,
    },
}

/// The content of a [`Job`]'s box: the user's value, or a wrapper around it.
pub(crate) trait Work: Any + Send {
    /// Runs the job once, for a user that took it out of the wheel.
    fn run(self: Box<Self>);

    /// Runs the job because it is due. A re-armable job may go back into the wheel.
    fn fire(self: Box<Self>) {
        self.run();
    }

    /// Returns the handle of a re-armable job, and `None` for a one-shot job.
    fn rearmable_handle(&self) -> Option<Handle> {
        None
    }

    /// Returns the value that the user inserted, without any wrapper.
    fn task(&self) -> &dyn Any;

    /// Returns the job without key, group and registration.
    fn disarm(self: Box<Self>) -> Disarmed;
}

impl<C: Call> Work for C {
    fn run(self: Box<C>) {
        (*self).call();
    }

    fn task(&self) -> &dyn Any {
        Call::task(self)
    }

    fn disarm(self: Box<C>) -> Disarmed {
        Call::disarm(self)
    }
}

/// The content of a one-shot job, called once: the user's task, or a wrapper around it.
pub(crate) trait Call: Send + 'static {
    fn call(self);

    /// Returns the value that the user inserted, without any wrapper.
    fn task(&self) -> &dyn Any;

    /// Returns the job without any wrapper.
    fn disarm(self: Box<Self>) -> Disarmed;
}

impl<T: Task + Send + 'static> Call for T {
    #[inline]
    fn call(self) {
        self.run();
    }

    fn task(&self) -> &dyn Any {
        match (self as &dyn Any).downcast_ref::<Job>() {
            Some(job) => job.0.task(),
            None => self,
        }
    }

    fn disarm(self: Box<T>) -> Disarmed {
        Disarmed::OneShot(Job(self))
    }
}

/// The content of a repeating job, called for every run: the user's closure, or a wrapper around
/// it.
pub(crate) trait CallAgain: Send + 'static {
    fn call(&mut self, run: Run) -> Next;

    /// Returns the job without any wrapper.
    fn disarm(self) -> Box<dyn CallAgain>
    where
        Self: Sized,
    {
        Box::new(self)
    }
}

impl<F: FnMut(Run) -> Next + Send + 'static> CallAgain for F {
    fn call(&mut self, run: Run) -> Next {
        self(run)
    }
}

impl CallAgain for Box<dyn CallAgain> {
    fn call(&mut self, run: Run) -> Next {
        (**self).call(run)
    }

    fn disarm(self) -> Box<dyn CallAgain> {
        self
    }
}

/// Stands for a job on a list, or on a map, and is dropped with the job.
pub(crate) trait Guard: Send + 'static {
    /// Leaves the list or the map, because a one-shot job is about to run. The result is dropped
    /// after the run.
    fn leave_before_run(self) -> impl Sized;
}

/// A job and its guard. A job that repeats keeps the guard until its last run has ended.
pub(crate) struct Guarded<G, C> {
    pub(crate) guard: G,
    pub(crate) job: C,
}

impl<G: Guard, C: Call> Call for Guarded<G, C> {
    fn call(self) {
        let _rest = self.guard.leave_before_run();
        self.job.call();
    }

    fn task(&self) -> &dyn Any {
        self.job.task()
    }

    fn disarm(self: Box<Self>) -> Disarmed {
        job_of(self.job).disarm()
    }
}

impl<G: Guard, C: CallAgain> CallAgain for Guarded<G, C> {
    fn call(&mut self, run: Run) -> Next {
        self.job.call(run)
    }

    fn disarm(self) -> Box<dyn CallAgain> {
        self.job.disarm()
    }
}
