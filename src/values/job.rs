//! The job: the user's closure or [`Task`] in its box, as a wheel keeps it.
//!
//! Ground rules:
//!
//! - A [`Job`] is a box. It holds the user's value, or a wrapper around it: the place in a group,
//!   the ticket of a key, the registration of a re-armable job. [`Job::downcast`] looks through
//!   every wrapper.
//! - When a [`Job`] is inserted again, [`Work::disarm`] removes its wrappers: it loses its key, its
//!   group and its registration. A job without wrappers is not boxed again.

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
        Ok(*self.0.into_task().downcast().expect("it was asked for its type"))
    }

    /// Returns a reference to the [`Task`] or the closure that this job was made of, if it is a
    /// `T`.
    #[must_use]
    pub fn downcast_ref<T: 'static>(&self) -> Option<&T> {
        self.0.task().downcast_ref()
    }

    pub(crate) fn fire(self) {
        self.0.fire();
    }

    pub(crate) fn rearmable_handle(&self) -> Option<Handle> {
        self.0.rearmable_handle()
    }

    pub(crate) fn disarm(self) -> Disarmed {
        self.0.disarm()
    }

    pub(crate) fn into_any(self) -> Box<dyn Any + Send> {
        self.0.into_any()
    }

    /// Returns the `C` that the job was made of, with its wrappers. The job may have been
    /// registered since.
    pub(crate) fn into_call<C: Call>(self) -> C {
        cast::<Job, C>(self).unwrap_or_else(|job| {
            *job.into_any().downcast().expect("the caller knows what it made a job of")
        })
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

/// Returns a job made of `call`, or `call` itself if it is a [`Job`].
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

/// Returns the value as a `B`, or unchanged if it has another type.
pub(crate) fn cast<A: 'static, B: 'static>(value: A) -> Result<B, A> {
    let mut value = Some(value);
    match (&mut value as &mut dyn Any).downcast_mut::<Option<B>>().and_then(Option::take) {
        Some(same) => Ok(same),
        None => Err(value.expect("it was not taken")),
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

/// A value that becomes a job when the wheel accepts it, and is unchanged if the wheel refuses it.
pub(crate) trait IntoJob {
    fn into_job(self) -> Job;
}

impl<W: Work> IntoJob for Box<W> {
    #[inline]
    fn into_job(self) -> Job {
        Job(self)
    }
}

impl IntoJob for Job {
    fn into_job(self) -> Job {
        self
    }
}

/// The content of a [`Job`]'s box: the user's value, or a wrapper around it.
pub(crate) trait Work: Send + 'static {
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

    fn into_task(self: Box<Self>) -> Box<dyn Any + Send>;

    /// Returns the value that the job was made of, with its wrappers, but without a registration.
    fn into_any(self: Box<Self>) -> Box<dyn Any + Send>;

    /// Returns the job without key, group and registration.
    fn disarm(self: Box<Self>) -> Disarmed;
}

/// The content of a one-shot job, called once: the user's task, or a wrapper around it. [`Work`] says what its other
/// functions return.
pub(crate) trait Call: Send + 'static {
    fn call(self);

    fn task(&self) -> &dyn Any;

    fn into_task(self) -> Box<dyn Any + Send>;

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

    fn into_task(self) -> Box<dyn Any + Send> {
        match cast::<T, Job>(self) {
            Ok(job) => job.0.into_task(),
            Err(task) => Box::new(task),
        }
    }

    fn disarm(self: Box<T>) -> Disarmed {
        if !is_job::<T>() {
            return Disarmed::OneShot(Job(self));
        }
        match cast::<T, Job>(*self) {
            Ok(job) => job.disarm(),
            Err(_) => unreachable!("`T` is `Job`"),
        }
    }
}

impl<C: Call> Work for C {
    fn run(self: Box<C>) {
        (*self).call();
    }

    fn task(&self) -> &dyn Any {
        Call::task(self)
    }

    fn into_task(self: Box<C>) -> Box<dyn Any + Send> {
        (*self).into_task()
    }

    fn into_any(self: Box<C>) -> Box<dyn Any + Send> {
        self
    }

    fn disarm(self: Box<C>) -> Disarmed {
        Call::disarm(self)
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
