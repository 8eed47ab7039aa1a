//! The wheel's verbs for many jobs at once.

use super::Wheel;
use crate::values::error::InsertError;
use crate::values::handle::Handle;
use crate::values::job::Task;
use crate::values::when::When;

impl Wheel {
    /// Inserts many jobs at once, each with its own time. Returns their handles in the same order.
    /// The iterator is run to its end first; all delays count from the moment after that.
    ///
    /// A batch is all or nothing: without room for all of its jobs, none is inserted. It costs one
    /// reading of the clock and one lock, which is held until all jobs are inserted. For ten
    /// thousand that is 0.3 ms to 1.3 ms, and threads that share the shard wait meanwhile. Wall-clock
    /// times and jobs that repeat cost some more locks. For jobs of different types, make each a
    /// [`Job`](crate::Job).
    ///
    /// # Errors
    ///
    /// [`InsertError`] with the whole batch: the wheel or the calling thread's shard has no room
    /// for all of it ([`InsertErrorKind::Full`](crate::InsertErrorKind::Full)), or the wheel was
    /// closed.
    ///
    /// ```
    /// use std::time::Duration;
    /// use tickwheel::Wheel;
    /// let wheel = Wheel::new();
    /// let day = Duration::from_secs(24 * 3600);
    /// let pushes = (0..10_000).map(|user| (day, move || println!("good morning, user {user}")));
    /// let handles = wheel.insert_batch(pushes)?;
    /// let later: Vec<_> = handles.iter().map(|&handle| (handle, 2 * day)).collect();
    /// assert_eq!(wheel.reset_batch(&later), [true; 10_000]);
    /// assert_eq!(wheel.cancel_batch(&handles), [true; 10_000]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn insert_batch<W, F>(
        &self,
        timers: impl IntoIterator<Item = (W, F)>,
    ) -> Result<Vec<Handle>, InsertError<Vec<(W, F)>>>
    where
        W: Into<When> + Copy,
        F: Task + Send + 'static,
    {
        self.engine.insert_batch(timers.into_iter().collect())
    }

    /// Cancels many jobs at once. Returns the result of [`Wheel::cancel`] for each, in the order of
    /// the handles. Of every 64 handles, those of one shard take one lock. The jobs are dropped on
    /// the calling thread, without a lock.
    pub fn cancel_batch(&self, handles: &[Handle]) -> Vec<bool> {
        self.engine.cancel_batch(handles)
    }

    /// Gives many jobs new times; all delays count from one moment. Returns the result of
    /// [`Wheel::reset`] for each, in the order of the handles. Of every 64 handles, those of one
    /// shard take one lock.
    pub fn reset_batch<W>(&self, timers: &[(Handle, W)]) -> Vec<bool>
    where
        W: Into<When> + Copy,
    {
        self.engine.reset_batch(timers)
    }
}
