//! The end of a wheel, and the wait for it.
//!
//! Ground rules:
//!
//! - The first of `close`, `shutdown` and the drop ends the wheel, and the others do nothing: not
//!   even to stop what is stopped already, because jobs that come back are kept for the first
//!   alone.
//! - The lock of the threads is not held while anything is waited for.

use std::sync::Arc;
use std::time::Duration;

use super::Wheel;
use crate::api::unfired::{Unfired, UnfiredJob};
use crate::engine::threads::{Threads, is_caller_on_any_pool};
use crate::host::hooks::is_in_hook;
use crate::host::sync::{Ordering, lock};

impl Wheel {
    /// Waits until the wheel is idle: no job is pending, none waits for a thread of the pool, and
    /// none runs. Returns `true` then. A wheel with a repeating job, or with a timer for next week,
    /// is not idle: [`Wheel::wait_idle_timeout`] has a limit.
    ///
    /// **On a thread of the wheel's pool, and on a manual or driven wheel, this does not wait**: it returns
    /// what [`Wheel::is_idle`] does, because the caller may be what the wheel waits for. Nor does it
    /// wait in a hook of whatever wheel, as [`Wheel::close`] says. (After the end of the wheel, no
    /// thread of any rayon pool waits.) If a job waits for another thread that calls this, or for a job
    /// of another wheel that does, both wait for ever.
    ///
    /// ```
    /// use std::time::Duration;
    /// use tickwheel::Wheel;
    /// let wheel = Wheel::new();
    /// for page in 0..10 {
    ///     wheel.insert(Duration::from_millis(page), move || println!("page {page}"));
    /// }
    /// wheel.wait_idle();
    /// assert_eq!(wheel.stats().completed, 10);
    /// ```
    pub fn wait_idle(&self) -> bool {
        self.wait_idle_timeout(Duration::MAX)
    }

    /// As [`Wheel::wait_idle`], for `limit` at most, in real time. Returns whether the wheel is
    /// idle. (With its repeating jobs in a [`Group`](crate::Group), one call cancels them first.)
    pub fn wait_idle_timeout(&self, limit: Duration) -> bool {
        let on_own_thread = match &*lock(&self.threads) {
            Some(threads) => threads.is_caller_one_of_them(),
            None => is_caller_on_any_pool(),
        };
        match on_own_thread || is_in_hook() || self.is_threadless {
            true => self.is_idle(),
            false => self.engine.wait_idle(limit),
        }
    }

    /// Stops the wheel: takes in and starts no more jobs, and waits until running jobs have ended
    /// and the wheel's threads are gone. Returns every job that never ran, and every repeating job
    /// that would run again. For a wheel in an `Arc` or a static.
    ///
    /// When this has returned, every insert is refused ([`Wheel::insert`] panics), and every other
    /// verb does what it does with a stale handle. Until then, an insert of another thread is
    /// refused or handed back, and a repeating job that is running can still be cancelled. A second
    /// call, from whatever thread, returns nothing and waits for nothing.
    ///
    /// It waits as long as the running jobs take. **On a thread of the wheel's pool it waits for no
    /// job and no thread of the pool**: in a job, in another task of the pool, and in an `install`.
    /// A running job may wait for a task that lies below the caller on that thread's stack, so
    /// waiting for the job could last for ever. In that case running jobs go on as after a drop,
    /// and those that repeat do not come back; a job that a thread has just taken may still start.
    ///
    /// **In a hook of whatever wheel it waits for nobody** either, because another hook may wait for
    /// that one: in a waker that a wheel calls (of a task, of [`Events::on_ready`](crate::Events::on_ready) and of
    /// [`LoopDriver::on_earlier`](crate::LoopDriver::on_earlier)), in [`Full::Give`](crate::Full::Give), in the handler
    /// of [`Builder::on_panic`](crate::Builder::on_panic), and in the drop of an event on the ticker's thread.
    /// Anywhere else it waits for what the ticker calls as for a running job.
    ///
    /// If a job waits for another thread that calls `close`, by joining it or inside another pool's
    /// `install`, both wait for ever, and so do two jobs that close each other's wheel;
    /// [`Wheel::shutdown_timeout`] does not.
    ///
    /// A pool that was handed to the builder goes on. The jobs of a manual wheel run inside
    /// [`Driver::advance`](crate::Driver::advance): a job that another thread is running at that
    /// moment is not waited for, and does not come back if it repeats.
    ///
    /// ```
    /// use std::sync::LazyLock;
    /// use std::time::Duration;
    /// use tickwheel::Wheel;
    ///
    /// static WHEEL: LazyLock<Wheel> = LazyLock::new(Wheel::new);
    ///
    /// WHEEL.insert(Duration::from_secs(3600), || println!("an hour has passed"));
    /// // At the end of `main`: a static is never dropped.
    /// assert_eq!(WHEEL.close().len(), 1);
    /// ```
    pub fn close(&self) -> Unfired {
        self.shutdown_timeout(Duration::MAX)
    }

    /// Closes the wheel for good, as [`Wheel::close`] does.
    pub fn shutdown(self) -> Unfired {
        self.close()
    }

    /// As [`Wheel::close`], and waits for `limit` at most, in real time. Jobs that still run then
    /// (and a hook that the ticker still calls) go on, as after a drop, and those
    /// that repeat do not come back: [`Unfired::still_running`] tells how many jobs there are. A job
    /// that a thread has just taken when the limit passes may still start, and is among them.
    pub fn shutdown_timeout(&self, limit: Duration) -> Unfired {
        if self.closed.swap(true, Ordering::SeqCst) {
            return Unfired::new(Vec::new(), 0, Arc::clone(&self.engine), None);
        }
        let mut unstarted = self.engine.stop();
        let threads = lock(&self.threads).take();
        let handed_over = threads.map(|threads| threads.stop_and_join(limit));
        unstarted.extend(self.engine.collect_unstarted(handed_over.into_iter().flatten()));
        unstarted.sort_by_key(|&(_, deadline, _)| deadline);
        let timebase = self.engine.timebase();
        let (now, wall_now) = (timebase.clock().now(), timebase.clock().wall());
        let jobs = unstarted.into_iter().map(|(handle, deadline, job)| {
            let remaining = timebase.between(now, deadline);
            // "Never" is later than any time that the system can represent.
            let wall = wall_now.checked_add(remaining);
            UnfiredJob { handle, remaining, wall, job }
        });
        let jobs = jobs.collect();
        let still_running = self.engine.stats().in_flight;
        let handler = self.panic_handler.clone();
        Unfired::new(jobs, still_running, Arc::clone(&self.engine), handler)
    }
}

impl Drop for Wheel {
    fn drop(&mut self) {
        if self.closed.swap(true, Ordering::SeqCst) {
            return;
        }
        let pending = self.engine.stop();
        let threads = lock(&self.threads).take();
        let handed_over = threads.map(Threads::stop);
        let others = self.engine.collect_unstarted(handed_over.into_iter().flatten());
        let discard = |(handle, _, job)| self.engine.discard(job, handle);
        pending.into_iter().chain(others).for_each(discard);
    }
}
