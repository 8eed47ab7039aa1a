//! The owner of what runs the jobs.

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
use crate::dispatch::events::is_in_hook;
use crate::dispatch::execute::is_in_handler_of;
use crate::dispatch::helper::Helper;
use crate::store::Answer;
use crate::values::error::StoreError;

/// Jobs that outlive the process, and what runs them. [`Jobs::open`] makes the builder of one.
///
/// It has every method of [`Client`]. It is `Send` and `Sync`.
///
/// # The end
///
/// [`Jobs::shutdown`] waits for the runs under way. Dropping it does not: no further run starts,
/// claims that have not started are given back, the runs under way are told
/// ([`Run::is_cancelled`](crate::Run::is_cancelled)), and their jobs run again at the next start, because their ends
/// are not recorded. Nothing is lost either way.
#[doc(alias("Queue", "Worker", "Scheduler", "Server"))]
pub struct Jobs {
    client: Client,
    thread: Mutex<Option<JoinHandle<()>>>,
    /// For how long a shutdown lets the runs be before it tells them.
    grace: Duration,
}

/// How long a shutdown waits for runs unless it is said: Kubernetes kills a program 30 seconds after it has
/// asked it to end, and what follows the jobs needs some time too.
const SHUTDOWN_LIMIT: Duration = Duration::from_secs(25);
/// How much longer a shutdown waits for a server that does not answer, or for the lock of a file.
const GRACE: Duration = Duration::from_secs(1);

impl Jobs {
    pub(crate) fn new(client: Client, thread: Option<JoinHandle<()>>, grace: Duration) -> Jobs {
        Jobs { client, thread: Mutex::new(thread), grace }
    }

    /// Returns a client of these jobs, for parts of the program that do not own them. It does not
    /// keep them running.
    #[must_use]
    pub fn client(&self) -> Client {
        self.client.clone()
    }

    /// Ends: starts no further run, tells the runs under way that the program shuts down
    /// ([`Run::cancellation`](crate::Run::cancellation)), waits for them for at most 25 seconds, gives back
    /// the claims that have not started, and closes the store with everything on stable storage. What a
    /// run ends with meanwhile counts. One that takes longer runs again at the next start.
    ///
    /// The runs are told at once, or after [`Builder::shutdown_grace`](crate::Builder::shutdown_grace). The
    /// limit lies below the 30 seconds that Kubernetes gives a program; Docker gives 10:
    /// [`Jobs::shutdown_timeout`].
    ///
    /// In async code use [`Jobs::shutdown_async`].
    ///
    /// In a handler of these jobs it does not wait for runs. In [`Builder::on_event`], and in a waker of
    /// [`Run::cancelled`](crate::Run::cancelled), it waits for nothing: the jobs end after it has returned.
    ///
    /// A handler that waits for another thread which shuts its jobs down waits for itself, until the limit
    /// is over.
    ///
    /// # Errors
    ///
    /// - [`StoreError::StillRunning`] if runs were under way at the end of that time.
    /// - [`StoreError::Busy`] if another program held the file's lock for a second longer. The ends of the
    ///   last runs are not recorded then, and their jobs run again.
    /// - [`StoreError::Unknown`] if a server has not answered the last commit a second after the end of
    ///   that time. The thread of the jobs ends by itself then.
    /// - The error of [`Event::Stopped`](crate::Event::Stopped) if the jobs had ended by themselves.
    /// - Any other error of the last commit.
    ///
    /// [`Builder::on_event`]: crate::Builder::on_event
    #[doc(alias("stop", "close", "graceful", "drain", "quit"))]
    pub fn shutdown(self) -> Result<(), StoreError> {
        self.shutdown_timeout(SHUTDOWN_LIMIT)
    }

    /// The same as [`Jobs::shutdown`], and waits for runs this long at most.
    ///
    /// # Errors
    ///
    /// As [`Jobs::shutdown`].
    pub fn shutdown_timeout(self, limit: Duration) -> Result<(), StoreError> {
        let in_handler = is_in_handler_of(&self.client.dispatcher);
        self.end(if in_handler { Duration::ZERO } else { limit })
    }

    /// The same as [`Jobs::shutdown`], as a future: on a thread of its own, so that handlers that are futures can
    /// end on the thread that awaits this. On a runtime of one thread [`Jobs::shutdown`] would wait for them in
    /// vain, until its limit is over.
    ///
    /// If the future is dropped, the shutdown goes on.
    ///
    /// # Errors
    ///
    /// As [`Jobs::shutdown`].
    #[doc(alias("stop", "close", "graceful", "drain", "quit"))]
    pub async fn shutdown_async(self) -> Result<(), StoreError> {
        self.shutdown_timeout_async(SHUTDOWN_LIMIT).await
    }

    /// The same as [`Jobs::shutdown_async`], and waits for runs this long at most.
    ///
    /// # Errors
    ///
    /// As [`Jobs::shutdown`].
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
            // On a manual clock the last step is made already, or another thread makes it now. A file is
            // always there, and nothing of others is waited for any more.
            wait(if dispatcher.shared || dispatcher.inline { GRACE } else { Duration::MAX })
        });
        let thread = {
            let mut thread = self.thread.lock().unwrap_or_else(|broken| broken.into_inner());
            thread.take()
        };
        if let Some(thread) = thread.filter(|_| ended.is_some())
            && thread.join().is_err()
        {
            return Err(StoreError::Unknown);
        }
        match ended {
            Some(CallEnd::Answered(Ok(Answer::Done))) => Ok(()),
            Some(CallEnd::Answered(other)) => Err(error_of(other)),
            // The jobs have ended by themselves.
            Some(CallEnd::Refused) => Err(dispatcher.alive.why_ended()),
            _ if dispatcher.alive.was_stopped() => Err(dispatcher.alive.why_ended()),
            _ => Err(StoreError::Unknown),
        }
    }
}

impl Jobs {
    /// Waits for no run any more, and soon for no other program either.
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
        // What the last commit met, nobody is left to be told but `on_event`.
        let _ = self.end(Duration::ZERO);
    }
}

impl fmt::Debug for Jobs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Jobs").field("stats", &self.stats()).finish_non_exhaustive()
    }
}
