//! The parts of jobs: a builder checks its choices and opens the store, and `start.rs` assembles the parts.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize};
use std::time::Duration;

use crossbeam_channel::Receiver;
#[cfg(feature = "redis")]
use crossbeam_channel::bounded;

use super::builder::{Builder, Source};
use super::limits::checked_limits;
use super::slots::{capacity, limits_of, pool, slots};
use crate::dispatch::call::Alive;
use crate::dispatch::call_limits::Futures;
use crate::dispatch::clock::Clock;
use crate::dispatch::command::Command;
use crate::dispatch::dispatcher_handle::{Capture, DispatcherHandle, Way};
use crate::dispatch::events::OnEvent;
#[cfg(feature = "redis")]
use crate::dispatch::events::{Event, emit};
use crate::dispatch::handlers::Handlers;
use crate::dispatch::inline::Inline;
use crate::dispatch::line::Line;
use crate::dispatch::machine::{Machine, Settings};
use crate::dispatch::metrics::{About, Metrics};
use crate::dispatch::questions;
use crate::dispatch::reports::OnRun;
#[cfg(feature = "tracing")]
use crate::dispatch::traces::Traces;
#[cfg(feature = "redis")]
use crate::store::Notification;
use crate::store::memory::Memory;
#[cfg(feature = "redis")]
use crate::store::redis::Redis;
#[cfg(feature = "sqlite-unbundled")]
use crate::store::sqlite::{Sqlite, open::Location};
use crate::store::{Hurry, Store};
use crate::values::error::OpenError;
use crate::values::info::Durability;

/// How long before its due time a job is claimed from a file.
const AHEAD: Duration = Duration::from_millis(50);
const QUEUE_BYTES: usize = 48;
/// The longest lease, because an `Instant` has an end: a longer one is cut to it.
const LONGEST_LEASE: Duration = Duration::from_secs(365 * 24 * 3600);
/// How many notifications of other processes may wait for the dispatcher.
#[cfg(feature = "redis")]
const NOTIFICATIONS: usize = 16;

impl Builder {
    /// Checks every choice, and opens the store.
    pub(super) fn into_parts(mut self, runs_jobs: bool, manual: bool) -> Result<Parts, OpenError> {
        let wrong = |reason: &str| Err(OpenError::Config(reason.to_owned()));
        if self.lease.is_zero() {
            return wrong("lease(0): a claim needs a lease above zero");
        }
        if self.call_timeout.is_zero() {
            return wrong("call_timeout(0): no call could wait; Duration::MAX waits for ever");
        }
        if self.max_in_flight == 0 {
            return wrong("max_in_flight(0): no job could run");
        }
        if self.max_async_runs == 0 {
            return wrong("max_async_runs(0): no handler that is a future could run");
        }
        if self.replicas > 0 && !self.source.is_shared() {
            let replicas = self.replicas;
            return wrong(&format!("replicas({replicas}): only a server has replicas"));
        }
        if let Some(queue) = &self.queue {
            let known = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
            if queue.is_empty() || queue.len() > QUEUE_BYTES || !queue.bytes().all(known) {
                return Err(OpenError::Config(format!(
                    "queue({queue:?}): a name has 1 to {QUEUE_BYTES} letters, digits and '_'"
                )));
            }
        }
        // The keys of a server have the unnamed queue under this name.
        let is_unnamed = |queue: &mut String| queue.eq_ignore_ascii_case("jobs");
        if self.source.is_shared() {
            self.queue.take_if(is_unnamed);
        }
        self.check_batches()?;
        let (rooms, most_runs) = (self.rooms(), self.most_runs());
        let handlers = match runs_jobs {
            true => self.handlers.checked()?,
            false if !self.handlers.kinds().is_empty() => {
                return wrong("a client runs no jobs, so it takes no handlers");
            }
            false => self.handlers,
        };
        #[cfg(feature = "tracing")]
        let traces = Traces::new(self.queue.as_deref(), self.trace_context);
        // On a manual clock a wait changes nothing.
        let call_timeout = if manual { Duration::ZERO } else { self.call_timeout };
        #[cfg(feature = "web")]
        let queue = self.queue.as_ref().map(|queue| queue.to_ascii_lowercase());
        let is_shared = self.source.is_shared();
        let lease = self.lease.min(LONGEST_LEASE);
        let about = About {
            queue: self.queue.as_ref().map(|queue| queue.to_ascii_lowercase()),
            store: self.source.name(),
            runs_jobs,
            most_runs,
        };
        let settings = Settings {
            queue: about.queue.clone().unwrap_or_default(),
            max_in_flight: self.max_in_flight,
            most_runs,
            ahead: if is_shared { Duration::ZERO } else { AHEAD },
            lease: is_shared.then_some(lease),
            call_timeout,
            synced: self.durability == Durability::Synced,
            policies: handlers.policies(self.retry),
            slots: slots(&handlers),
            rooms,
            time_limits: limits_of(&handlers, &self.time_limits)?,
            limit_grace: lease,
            capacity: (runs_jobs && !manual).then(|| capacity(self.threads)),
            end_waits: Arc::default(),
            progress: Arc::default(),
            threads: self.threads,
            // The driver of a manual clock runs one job at a time.
            pool: if manual { 1 } else { pool(self.threads) },
            flows: handlers.flows(),
            limits: checked_limits(&self.limits)?,
            history: self.history,
        };
        // On a manual clock and in a client, the caller's thread asks the store anyway.
        #[cfg(any(feature = "sqlite-unbundled", feature = "redis"))]
        let asks_apart = runs_jobs && !manual;
        #[cfg_attr(
            not(any(feature = "sqlite-unbundled", feature = "redis")),
            expect(unused_mut, reason = "memory has one connection")
        )]
        let mut questions: Option<questions::Open> = None;
        #[cfg(feature = "sqlite-unbundled")]
        let mut file = None;
        let store: Box<dyn Store> = match self.source {
            Source::Memory if !runs_jobs => return wrong("jobs in memory have no other clients"),
            Source::Memory => Box::new(Memory::new(self.keep_dead, self.history)),
            #[cfg(feature = "redis")]
            Source::Server(server) => {
                let queue = self.queue.map(|queue| queue.to_ascii_lowercase());
                let server = server.with_queue(queue.as_deref()).with_lease(lease);
                let server = server.with_rights(runs_jobs, self.replicas > 0);
                let opened = crate::store::redis::open::open(&server, self.call_timeout)?;
                let (keep_dead, replicas) = (self.keep_dead, self.replicas);
                let store = Redis::new(
                    server.clone(),
                    opened,
                    queue.as_deref(),
                    lease,
                    keep_dead,
                    replicas,
                    manual,
                )
                .counting_history(self.history);
                let owner = store.owner();
                let (again, its_queue, call_timeout) = (server, queue, self.call_timeout);
                let ask: questions::Open = Box::new(move || {
                    let opened = crate::store::redis::open::open(&again, call_timeout);
                    let opened = opened.map_err(OpenError::into_store_error)?;
                    let (server, queue) = (again.clone(), its_queue.as_deref());
                    let store = Redis::new(server, opened, queue, lease, keep_dead, 0, false);
                    Ok(Box::new(store.owned_by(owner)))
                });
                questions = asks_apart.then_some(ask);
                Box::new(store)
            }
            #[cfg(feature = "sqlite-unbundled")]
            Source::File(mut location) => {
                location.queue = self.queue.map(|queue| queue.to_ascii_lowercase());
                location.call_timeout = self.call_timeout;
                location.keep_dead = self.keep_dead;
                location.history = self.history;
                // `Jobs::open` has resolved the path already; the lock lies beside the real file.
                let runner = match runs_jobs {
                    true => location.lock_runner()?,
                    false => None,
                };
                let conn = location.open()?;
                file = Some(location.clone());
                let again = location.clone();
                let ask: questions::Open = Box::new(move || {
                    let conn = again.open_again().map_err(OpenError::into_store_error)?;
                    Ok(Box::new(Sqlite::new(again.clone(), conn, false, None)))
                });
                // A virtual file allows one connection at a time.
                questions = Some(ask).filter(|_| asks_apart && location.vfs.is_none());
                Box::new(Sqlite::new(location, conn, runs_jobs, runner))
            }
        };
        // A driver runs handlers on its own thread, however many processors there are.
        let has_one_thread = self.threads == Some(1) || !manual && pool(self.threads) == 1;
        let on_only_thread = match has_one_thread && !is_shared {
            true => handlers.kinds_on_threads(),
            false => Vec::new(),
        };
        Ok(Parts {
            hurry: store.hurry(),
            on_only_thread,
            #[cfg(feature = "web")]
            queue,
            settings,
            store,
            metrics: Arc::new(Metrics::of(&handlers.kinds(), about)),
            handlers,
            on_event: self.on_event,
            capture: self.capture,
            #[cfg(feature = "tracing")]
            traces,
            on_run: self.on_run,
            grace: self.shutdown_grace,
            durability: self.durability,
            alive: Arc::default(),
            questions,
            #[cfg(feature = "sqlite-unbundled")]
            file,
        })
    }
}

impl Source {
    /// Returns the name of this kind of store.
    fn name(&self) -> &'static str {
        match self {
            Source::Memory => "memory",
            #[cfg(feature = "sqlite-unbundled")]
            Source::File(_) => "file",
            #[cfg(feature = "redis")]
            Source::Server(_) => "redis",
        }
    }

    /// Says whether several processes run the jobs.
    pub(super) fn is_shared(&self) -> bool {
        match self {
            Source::Memory => false,
            #[cfg(feature = "sqlite-unbundled")]
            Source::File(_) => false,
            #[cfg(feature = "redis")]
            Source::Server(_) => true,
        }
    }
}

/// The parts that a builder has checked and opened.
pub(super) struct Parts {
    pub(super) settings: Settings,
    pub(super) store: Box<dyn Store>,
    pub(super) handlers: Handlers,
    pub(super) metrics: Arc<Metrics>,
    pub(super) on_event: Option<OnEvent>,
    pub(super) capture: Option<Capture>,
    #[cfg(feature = "tracing")]
    pub(super) traces: Traces,
    pub(super) on_run: Option<OnRun>,
    /// How long a shutdown waits before it cancels the runs.
    pub(super) grace: Duration,
    pub(super) durability: Durability,
    pub(super) alive: Arc<Alive>,
    pub(super) hurry: Hurry,
    pub(super) on_only_thread: Vec<Arc<str>>,
    #[cfg(feature = "web")]
    pub(super) queue: Option<String>,
    /// Opens the store once more, for questions.
    pub(super) questions: Option<questions::Open>,
    #[cfg(feature = "sqlite-unbundled")]
    pub(super) file: Option<Location>,
}

impl Parts {
    /// Makes this process run the jobs.
    pub(super) fn start_runner(&mut self, clock: &Clock) -> Result<Machine, OpenError> {
        let now = clock.now().millis();
        #[cfg(feature = "redis")]
        {
            let kinds: Vec<Arc<str>> = self.settings.rooms.keys().cloned().collect();
            self.store.set_kinds_with_rooms(&kinds);
        }
        self.store.start_runner(&self.handlers.kinds(), now).map_err(OpenError::Store)?;
        crate::values::hook::at("taken over");
        let mut machine = Machine::new(self.settings.clone(), now);
        machine.read_settings(now, &mut *self.store).map_err(OpenError::Store)?;
        Ok(machine)
    }

    /// Returns the clock, with the store's clock as its wall clock if the store has one.
    pub(super) fn by_store(&self, clock: Clock) -> Clock {
        #[cfg(feature = "redis")]
        let clock = clock.by_server(self.store.server_time());
        clock
    }

    /// Emits the store's warning to its operator, if there is one.
    pub(super) fn warn(&self) {
        #[cfg(feature = "redis")]
        if let Some(text) = self.store.warning() {
            emit(Event::Warning { text }, &self.metrics, self.on_event.as_ref(), false);
        }
    }

    /// Returns the channel of the notifications of other processes.
    pub(super) fn listen(&mut self) -> Receiver<Command> {
        #[cfg(feature = "redis")]
        if self.settings.lease.is_some() {
            let (notifications, notifications_out) = bounded(NOTIFICATIONS);
            self.store.listen(Box::new(move |notification| {
                // If the channel is full, the dispatcher is about to make a step anyway.
                drop(notifications.try_send(match notification {
                    Notification::Due => Command::Wake,
                    Notification::Poll => Command::Poll,
                }));
            }));
            return notifications_out;
        }
        crossbeam_channel::never()
    }

    pub(super) fn dispatcher(
        &self,
        way: Box<dyn Way>,
        inline: bool,
        clock: Clock,
    ) -> DispatcherHandle {
        let call_timeout = self.settings.call_timeout;
        DispatcherHandle {
            way,
            inline,
            is_manual: false,
            clock,
            metrics: Arc::clone(&self.metrics),
            capture: self.capture.clone(),
            #[cfg(feature = "tracing")]
            traces: self.traces.clone(),
            durability: self.durability,
            // Zero on a manual clock, where a wait changes nothing.
            call_timeout: (!call_timeout.is_zero()).then_some(call_timeout),
            shared: self.settings.lease.is_some(),
            on_only_thread: self.on_only_thread.clone(),
            end_waits: Arc::clone(&self.settings.end_waits),
            progress: Arc::clone(&self.settings.progress),
            waiting: AtomicUsize::new(0),
            closed: AtomicBool::new(false),
            alive: Arc::clone(&self.alive),
            hurry: self.hurry.clone(),
            nudged: Arc::default(),
            questions: None,
            futures: Futures::default(),
            pid: std::process::id(),
            kinds: self.handlers.kinds(),
            #[cfg(feature = "web")]
            queue: self.queue.clone(),
            #[cfg(feature = "sqlite-unbundled")]
            file: self.file.clone(),
        }
    }

    /// Puts the machine behind a lock. Unless the clock is manual, the callers share its steps.
    pub(super) fn inline(
        mut self,
        machine: Machine,
        clock: Clock,
        is_manual: bool,
    ) -> (Arc<Inline>, Arc<DispatcherHandle>, Handlers) {
        let hooks = (self.on_event.take(), self.on_run.take());
        let store = core::mem::replace(&mut self.store, Box::new(Memory::default()));
        let metrics = Arc::clone(&self.metrics);
        let (its_clock, alive) = (clock.clone(), Arc::clone(&self.alive));
        let inline = Inline::new(machine, store, its_clock, metrics, hooks, !is_manual, alive);
        let inline = Arc::new(inline);
        let futures = Futures::default();
        let way: Box<dyn Way> = match is_manual {
            true => Box::new(Arc::clone(&inline)),
            false => Box::new(Line::new(Arc::clone(&inline), Arc::clone(&futures.helper))),
        };
        let dispatcher =
            DispatcherHandle { futures, is_manual, ..self.dispatcher(way, true, clock) };
        (inline, Arc::new(dispatcher), self.handlers)
    }
}
