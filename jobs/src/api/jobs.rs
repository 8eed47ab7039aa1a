//! The owner of the dispatcher: it shuts the jobs down.

use core::fmt;
use core::future::poll_fn;
use core::ops::Deref;
use std::sync::Mutex;
use std::sync::atomic::Ordering;
use std::thread::JoinHandle;
use std::time::Duration;

use super::client::{Client, error_of};
use crate::dispatch::call::{Alive, CallEnd, TakenCall, call};
use crate::dispatch::command::Command;
use crate::dispatch::dispatcher_handle::{Helper, is_in_handler_of};
use crate::dispatch::events::is_in_hook;
use crate::values::error::StoreError;
use crate::values::panics::locked;

/// Owns the jobs of a store, and the threads that run them. [`Jobs::open`] returns the builder of one.
///
/// It has every method of [`Client`]. It is `Send` and `Sync`.
///
/// # Shutdown and drop
///
/// [`Jobs::shutdown`] waits for the runs under way. A drop does not: it cancels these runs
/// ([`Run::is_cancelled`](crate::Run::is_cancelled)) and does not record their ends, so their jobs run again at
/// the next start. In both cases no further run starts, claimed jobs that have not started are given back, and
/// no job is lost.
#[doc(alias("Worker", "Scheduler", "Server"))]
pub struct Jobs {
    client: Client,
    thread: Mutex<Option<JoinHandle<()>>>,
    /// How long a shutdown waits before it cancels the runs under way.
    grace: Duration,
}

/// How long a shutdown waits for runs by default. Kubernetes kills a program 30 seconds after it has asked it
/// to end, and the rest of the program needs some time after the jobs.
const SHUTDOWN_LIMIT: Duration = Duration::from_secs(25);
/// How much longer a shutdown waits for a server that does not answer, or for the lock of a file.
const GRACE: Duration = Duration::from_secs(1);

impl Jobs {
    pub(crate) fn new(client: Client, thread: Option<JoinHandle<()>>, grace: Duration) -> Jobs {
        Jobs { client, thread: Mutex::new(thread), grace }
    }

    /// Returns a client of these jobs, for parts of the program that do not own them. The client does not keep
    /// them running.
    #[must_use]
    pub fn client(&self) -> Client {
        self.client.clone()
    }

    /// Shuts the jobs down: starts no further run, cancels the runs under way
    /// ([`Run::stop_reason`](crate::Run::stop_reason)), waits for them for at most 25 seconds, gives back the
    /// claimed jobs that have not started, and closes the store with everything on stable storage. If a run
    /// ends in that time, its end counts. If it takes longer, its job runs again at the next start.
    ///
    /// The runs are cancelled at once, or after [`Builder::shutdown_grace`](crate::Builder::shutdown_grace).
    /// The limit lies below the 30 seconds that Kubernetes gives a program. Docker gives 10: use
    /// [`Jobs::shutdown_timeout`].
    ///
    /// In async code use [`Jobs::shutdown_async`].
    ///
    /// In a handler of these jobs it does not wait for runs. In [`Builder::on_event`], and in a waker of
    /// [`Run::cancelled`](crate::Run::cancelled), it waits for nothing: the jobs end after it has returned.
    ///
    /// If a handler waits for another thread that shuts its jobs down, the two wait for each other until the
    /// limit is over.
    ///
    /// # Errors
    ///
    /// - [`StoreError::StillRunning`] if runs were under way when the limit was over.
    /// - [`StoreError::Busy`] if another program held the file's lock for a second longer. The ends of the last
    ///   runs are then not recorded, and their jobs run again.
    /// - [`StoreError::Unknown`] if a server had not answered the last commit a second after the limit. The
    ///   thread of the jobs then ends by itself.
    /// - The error of [`Event::Stopped`](crate::Event::Stopped) if the jobs had stopped by themselves.
    /// - Any other error of the last commit.
    ///
    /// [`Builder::on_event`]: crate::Builder::on_event
    #[doc(alias("stop", "close", "graceful", "drain", "quit"))]
    pub fn shutdown(self) -> Result<(), StoreError> {
        self.shutdown_timeout(SHUTDOWN_LIMIT)
    }

    /// The same as [`Jobs::shutdown`], with the same errors, but waits for runs for at most `limit`.
    pub fn shutdown_timeout(self, limit: Duration) -> Result<(), StoreError> {
        let in_handler = is_in_handler_of(&self.client.dispatcher);
        self.end(if in_handler { Duration::ZERO } else { limit })
    }

    /// The same as [`Jobs::shutdown`], with the same errors, as a future. The shutdown runs on a thread of its own, so
    /// handlers that are futures can end on the thread that awaits it. On a runtime of one thread [`Jobs::shutdown`]
    /// would wait for them in vain, until its limit is over. If the future is dropped, the shutdown goes on.
    #[doc(alias("stop", "close", "graceful", "drain", "quit"))]
    pub async fn shutdown_async(self) -> Result<(), StoreError> {
        self.shutdown_timeout_async(SHUTDOWN_LIMIT).await
    }

    /// The same as [`Jobs::shutdown_async`], but waits for runs for at most `limit`.
    pub async fn shutdown_timeout_async(self, limit: Duration) -> Result<(), StoreError> {
        let in_handler = is_in_handler_of(&self.client.dispatcher);
        let limit = if in_handler { Duration::ZERO } else { limit };
        if self.client.dispatcher.inline || is_in_hook() {
            return self.end(limit);
        }
        let (reply, call) = call(None);
        Helper::default().run(Box::new(move || {
            let ended = self.end(limit);
            drop(self);
            reply.answer(ended);
        }))?;
        let alive = Alive::default();
        let ended =
            poll_fn(|context| call.poll(context.waker(), None, TakenCall::IsAwaited, &alive));
        match ended.await {
            CallEnd::Answered(ended) => ended,
            _ => Err(StoreError::Unknown),
        }
    }

    fn end(&self, limit: Duration) -> Result<(), StoreError> {
        let dispatcher = &self.client.dispatcher;
        if dispatcher.closed.swap(true, Ordering::AcqRel) {
            return Ok(());
        }
        if std::process::id() != dispatcher.pid {
            return Err(StoreError::Forked);
        }
        let (reply, call) = call(None);
        let sent = dispatcher.urge(Command::Close { reply: Some(reply) });
        if is_in_hook() {
            self.abandon();
            return if sent { Ok(()) } else { Err(StoreError::Closed) };
        }
        let wait = |limit: Duration| call.wait_for(limit, &dispatcher.alive);
        let grace = self.grace.min(limit);
        let undisturbed = if dispatcher.inline || grace.is_zero() { None } else { wait(grace) };
        let told = undisturbed.or_else(|| {
            let _ = dispatcher.urge(Command::TellRuns);
            if dispatcher.inline { call.try_answer() } else { wait(limit - grace) }
        });
        let ended = told.or_else(|| {
            self.abandon();
            // On a manual clock the last step is made already, or another thread makes it now. On a file the
            // last commit ends, because `abandon` has limited its waits for other programs.
            wait(if dispatcher.shared || dispatcher.inline { GRACE } else { Duration::MAX })
        });
        let thread = {
            let mut thread = locked(&self.thread);
            thread.take()
        };
        if let Some(thread) = thread.filter(|_| ended.is_some())
            && thread.join().is_err()
        {
            return Err(StoreError::Unknown);
        }
        match ended {
            Some(CallEnd::Answered(answer)) => answer.map(drop).map_err(error_of),
            // The jobs have stopped by themselves.
            Some(CallEnd::Refused) => Err(dispatcher.alive.why_ended()),
            _ if dispatcher.alive.was_stopped() => Err(dispatcher.alive.why_ended()),
            _ => {
                // The store does not answer, and the thread ends once it does. No call waits for that.
                dispatcher.alive.stop(StoreError::Closed);
                Err(StoreError::Unknown)
            }
        }
    }

    /// Makes the dispatcher wait for no run any more, and after [`GRACE`] for no other program.
    fn abandon(&self) {
        let dispatcher = &self.client.dispatcher;
        if let Some(time) = dispatcher.clock.now().instant.checked_add(GRACE) {
            dispatcher.hurry.by(time);
        }
        let _ = dispatcher.urge(Command::Abandon);
    }
}

impl Deref for Jobs {
    type Target = Client;

    fn deref(&self) -> &Client {
        &self.client
    }
}

impl Drop for Jobs {
    fn drop(&mut self) {
        // A drop returns no error: only `on_event` receives that of the last commit.
        let _ = self.end(Duration::ZERO);
    }
}

impl fmt::Debug for Jobs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Jobs").field("stats", &self.stats()).finish_non_exhaustive()
    }
}
