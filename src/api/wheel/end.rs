//! The wheel's verbs that end it, and those that wait until it is idle.
//!
//! Ground rules:
//!
//! - The first of `close`, `shutdown` and the drop ends the wheel; later ones do nothing. They do not
//!   even stop the engine again, because jobs that come back are kept for the first one alone.
//! - No thread waits while it holds the lock of `threads`.

use std::sync::Arc;
use std::time::Duration;

use super::Wheel;
use crate::api::unfired::{Unfired, UnfiredJob};
use crate::engine::threads::{Threads, is_caller_on_any_pool};
use crate::host::in_hook::is_in_hook;
use crate::host::sync::{Ordering, lock};

impl Wheel {
    /// Waits until the wheel is idle: no job is pending, none waits for a thread of the pool, and
    /// none runs. Returns `true` then. A wheel with a repeating job, or with a timer for next week,
    /// is not idle: [`Wheel::wait_idle_timeout`] has a limit.
    ///
    /// **On a thread of the wheel's pool, and on a manual or driven wheel, this does not wait**: it returns
    /// [`Wheel::is_idle`], because the wheel may be waiting for the caller. Nor does it wait in a hook of any wheel
    /// ([`Wheel::close`] lists the hooks). (After the end of the wheel, it does not wait on a thread of any rayon
    /// pool.) A job must not wait for a thread, or for a job of another wheel, that calls this: both would wait for
    /// ever. Nor may a thread call this whose runtime drives the wheel (`Wheel::drive`): it would keep that runtime
    /// from driving.
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
    /// idle. (If the repeating jobs are in a [`Group`](crate::Group), one call cancels them first.)
    pub fn wait_idle_timeout(&self, limit: Duration) -> bool {
        let on_own_thread = match &*lock(&self.threads) {
            Some(threads) => threads.is_caller_one_of_them(),
            None => is_caller_on_any_pool(),
        };
        match on_own_thread || is_in_hook() || self.is_threadless {
            true => self.is_idle(),
            false => self.engine().wait_idle(limit),
        }
    }

    /// Stops the wheel: accepts and starts no more jobs, and waits until running jobs have ended
    /// and the wheel's threads are gone. Returns every job that never ran, and every repeating job
    /// that would run again. For a wheel in an `Arc` or a static.
    ///
    /// After this has returned, every insert is refused ([`Wheel::insert`] panics), and every other
    /// verb behaves as with a stale handle. Until then, a job that another thread inserts is refused
    /// or handed back, and a repeating job that is running can still be cancelled. A second call,
    /// from any thread, returns no jobs and does not wait.
    ///
    /// It waits as long as the running jobs take, and those tasks that jobs have spawned on the wheel's own pool.
    /// **On a thread of the wheel's pool it waits for no
    /// job and no thread of the pool**: in a job, in another task of the pool, and in an `install`.
    /// A running job may wait for a task that lies below the caller on that thread's stack, so
    /// waiting for the job could last for ever. There, running jobs go on as after a drop, and those
    /// that repeat do not come back; a job that a thread has just taken may still start.
    ///
    /// **In a hook of any wheel it does not wait either**, because another hook may be waiting for this one.
    /// The hooks are: a waker that a wheel calls (of a task, of [`Events::on_ready`](crate::Events::on_ready) and of
    /// [`LoopDriver::on_earlier`](crate::LoopDriver::on_earlier)), [`Full::Give`](crate::Full::Give), the handler of
    /// [`Builder::on_panic`](crate::Builder::on_panic) and its drop, a subscriber of `tracing`, and the drop of an
    /// event on the thread that advances or ends the wheel. Outside a hook it waits for a hook that the ticker is
    /// calling, as for a running job.
    ///
    /// If a job waits for another thread that calls `close`, by joining it or inside another pool's
    /// `install`, both wait for ever. So do two jobs that close each other's wheel.
    /// [`Wheel::shutdown_timeout`] ends after its limit.
    ///
    /// A pool that was passed to the builder goes on. The jobs of a manual or driven wheel run inside
    /// [`Driver::advance`](crate::Driver::advance) or
    /// [`LoopDriver::run_due`](crate::LoopDriver::run_due): this does not wait for a job that another thread
    /// is running there, and does not return that job if it repeats.
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

    /// As [`Wheel::close`], but waits for `limit` at most, in real time. Jobs that still run then
    /// (and a hook that the ticker is still calling) go on, as after a drop, and those that repeat
    /// do not come back. [`Unfired::still_running`] returns the number of these jobs. It includes a
    /// job that a thread has just taken when the limit passes; that job may still start.
    pub fn shutdown_timeout(&self, limit: Duration) -> Unfired {
        if self.closed.swap(true, Ordering::SeqCst) {
            return Unfired::new(Vec::new(), 0, Arc::clone(self.engine()), None);
        }
        let mut unstarted = self.engine().stop();
        let threads = lock(&self.threads).take();
        let handed_over = threads.map(|threads| threads.stop_and_join(limit));
        unstarted.extend(self.engine().collect_unstarted(handed_over.into_iter().flatten()));
        unstarted.sort_by_key(|&(_, deadline, _)| deadline);
        let timebase = self.engine().timebase();
        let (now, wall_now) = (timebase.clock().now(), timebase.clock().wall());
        let jobs = unstarted.into_iter().map(|(handle, deadline, job)| {
            let remaining = timebase.between(now, deadline);
            // "Never" is later than any time that the system can represent.
            let wall = wall_now.checked_add(remaining);
            UnfiredJob { handle, remaining, wall, job }
        });
        let jobs = jobs.collect();
        let still_running = self.engine().stats().in_flight;
        let handler = self.panic_handler.clone();
        Unfired::new(jobs, still_running, Arc::clone(self.engine()), handler)
    }
}

impl Drop for Wheel {
    fn drop(&mut self) {
        if self.closed.swap(true, Ordering::SeqCst) {
            return;
        }
        let pending = self.engine().stop();
        let threads = lock(&self.threads).take();
        let handed_over = threads.map(Threads::stop);
        let others = self.engine().collect_unstarted(handed_over.into_iter().flatten());
        let discard = |(handle, _, job)| self.engine().discard(job, handle);
        pending.into_iter().chain(others).for_each(discard);
    }
}
