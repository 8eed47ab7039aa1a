//! The start of a builder: its choices are checked, the store is opened, and the parts become jobs on threads, jobs on
//! a manual clock, or a client. It also says how many jobs the handlers take at once: a thread each, as futures, or as
//! batches.

use std::sync::atomic::{AtomicBool, AtomicUsize};
use std::sync::{Arc, Weak};
use std::time::Duration;

use crossbeam_channel::{Receiver, bounded, unbounded};
use foldhash::HashMap;
use tickwheel::{ConfigError, Wheel};

use super::builder::{Builder, Source};
use super::client::Client;
use super::driver::Driver;
use super::jobs::Jobs;
use super::limits::checked_limits;
use crate::dispatch::call::Alive;
use crate::dispatch::caller_machine::{Inline, Line};
use crate::dispatch::clock::Clock;
use crate::dispatch::command::Command;
use crate::dispatch::dispatcher_handle::{DispatcherHandle, Futures, Way};
use crate::dispatch::dispatcher_thread::Dispatcher;
#[cfg(feature = "redis")]
use crate::dispatch::events::{Event, emit};
use crate::dispatch::execute::{Executor, UnderWay};
use crate::dispatch::handlers::{BatchSize, Handler, Handlers};
use crate::dispatch::machine::claims::Capacity;
use crate::dispatch::machine::{Machine, MachineSettings};
use crate::dispatch::metrics::{About, Metrics};
use crate::dispatch::questions::{self, Questions};
use crate::dispatch::run_queue::{Batches, RunQueue};
use crate::dispatch::run_state::{RunState, Slot};
use crate::dispatch::shared_machine::{Channels, LoneCaller, POLL_INTERVAL, Room, SharedMachine};
#[cfg(feature = "tracing")]
use crate::dispatch::spans::Traces;
#[cfg(feature = "redis")]
use crate::store::Notification;
use crate::store::memory::Memory;
#[cfg(feature = "redis")]
use crate::store::redis::Redis;
#[cfg(feature = "redis")]
use crate::store::redis::discovery::Server;
#[cfg(feature = "sqlite-unbundled")]
use crate::store::sqlite::Sqlite;
#[cfg(feature = "sqlite-unbundled")]
use crate::store::sqlite::open::Location;
use crate::store::{Hurry, Store};
use crate::values::error::OpenError;
use crate::values::info::Durability;
use crate::values::time::Millis;

/// Returns what a job takes, of each kind whose jobs do not take a thread each.
pub(super) fn slots(handlers: &Handlers) -> HashMap<Arc<str>, Slot> {
    let slot = |handler: &Handler| match handler.batch() {
        _ if handler.is_async => Some(Slot::Future),
        Some(BatchSize { wait, .. }) => Some(Slot::Batch { wait }),
        None => None,
    };
    let slots = handlers.all().filter_map(|(kind, handler)| Some((kind, slot(handler)?)));
    slots.map(|(kind, slot)| (Arc::clone(kind), slot)).collect()
}

/// Returns the time limit of each kind that has one.
pub(super) fn limits_of(
    handlers: &Handlers,
    limits: &[(&str, Duration)],
) -> Result<HashMap<Arc<str>, Duration>, OpenError> {
    for (kind, limit) in limits {
        if limit.is_zero() {
            let reason = format!("time_limit(0) of the kind {kind:?}: no run could end in time");
            return Err(OpenError::Config(reason));
        }
        if handlers.get(kind).is_none() {
            let reason = format!("time_limit: there is no handler for the kind {kind:?}");
            return Err(OpenError::Config(reason));
        }
    }
    Ok(limits.iter().map(|(kind, limit)| (Arc::from(*kind), *limit)).collect())
}

/// Returns the capacity of a pool of this many threads.
pub(super) fn capacity(threads: Option<usize>) -> Arc<Capacity> {
    Arc::new(Capacity::new(pool(threads), Clock::of_system().now().instant))
}

/// Returns the number of threads of a pool: by default as many as the machine has processors.
pub(super) fn pool(threads: Option<usize>) -> usize {
    let threads = threads.or_else(|| std::thread::available_parallelism().ok().map(usize::from));
    threads.unwrap_or(1)
}

/// How long before its due time a job is claimed from a file.
const AHEAD: Duration = Duration::from_millis(50);
const QUEUE_BYTES: usize = 48;
/// The longest lease, because an `Instant` has an end: a longer one is cut to it.
const LONGEST_LEASE: Duration = Duration::from_secs(365 * 24 * 3600);
/// How many notifications of other processes may wait for the dispatcher.
#[cfg(feature = "redis")]
const NOTIFICATIONS: usize = 16;

impl Builder {
    /// Checks that this process may claim as many jobs as a batch has.
    pub(super) fn check_batches(&self) -> Result<(), OpenError> {
        for (kind, handler) in self.handlers.all() {
            let Some(BatchSize { most, .. }) = handler.batch() else { continue };
            let (in_flight, futures) = (self.max_in_flight, self.max_async_runs);
            let reason = match most {
                0 => "no job could run".to_owned(),
                most if most > in_flight => {
                    format!("max_in_flight({in_flight}) would leave each batch smaller")
                }
                most if handler.is_async && most > futures => {
                    format!("max_async_runs({futures}) would leave each batch smaller")
                }
                _ => continue,
            };
            let reason = format!("a batch of {most} jobs of the kind {kind:?}: {reason}");
            return Err(OpenError::Config(reason));
        }
        Ok(())
    }

    /// Returns how many jobs of a kind may be claimed at once, of the kinds with a number of their own.
    pub(super) fn rooms(&self) -> HashMap<Arc<str>, usize> {
        // A batch for each thread, and one that is collected meanwhile.
        let batches = pool(self.threads).saturating_add(1);
        let room = |handler: &Handler| match handler.batch() {
            _ if handler.is_async => Some(self.max_async_runs),
            Some(size) if self.source.is_shared() => Some(size.most.saturating_mul(batches)),
            // Room for all jobs of a batch, also if they have partitions.
            Some(_) => Some(usize::MAX),
            _ => None,
        };
        let rooms = self.handlers.all().filter_map(|(kind, handler)| Some((kind, room(handler)?)));
        rooms.map(|(kind, room)| (Arc::clone(kind), room)).collect()
    }

    /// Returns how many runs can be under way at once: one for each thread or as many as a batch has, and as many
    /// futures of each kind as may be.
    pub(super) fn most_runs(&self) -> usize {
        let handlers = &self.handlers;
        let of_futures = handlers.all().filter(|(_, handler)| handler.is_async).count();
        let of_threads = handlers.all().filter(|(_, handler)| !handler.is_async);
        let on_a_thread =
            of_threads.map(|(_, handler)| handler.batch().map_or(1, |size| size.most));
        let on_threads = on_a_thread.max().unwrap_or(0).saturating_mul(pool(self.threads));
        let runs = self.max_async_runs.saturating_mul(of_futures).saturating_add(on_threads);
        runs.min(self.max_in_flight)
    }

    /// Checks every choice, and opens the store.
    pub(super) fn into_parts(mut self, runs_jobs: bool, manual: bool) -> Result<Parts, OpenError> {
        self.check_choices()?;
        self.check_batches()?;
        self.check_handlers(runs_jobs)?;
        // The keys of a server have the unnamed queue under this name.
        let is_unnamed = |queue: &mut String| queue.eq_ignore_ascii_case("jobs");
        if self.source.is_shared() {
            self.queue.take_if(is_unnamed);
        }
        #[cfg(feature = "tracing")]
        let traces = Traces::new(self.queue.as_deref(), self.trace_context.take());
        self.queue = self.queue.map(|queue| queue.to_ascii_lowercase());
        let about = About {
            queue: self.queue.clone(),
            store: self.source.name(),
            runs_jobs,
            most_runs: self.most_runs(),
        };
        let settings = self.settings(runs_jobs, manual)?;
        let on_only_thread = self.on_only_thread(manual);
        let opened = self.open_store(runs_jobs, manual)?;
        Ok(Parts {
            hurry: opened.store.hurry(),
            on_only_thread,
            settings,
            metrics: Arc::new(Metrics::of(&self.handlers.kinds(), about)),
            #[cfg(feature = "tracing")]
            traces,
            alive: Arc::default(),
            opened,
            builder: self,
        })
    }

    fn check_choices(&self) -> Result<(), OpenError> {
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
        let Some(queue) = &self.queue else { return Ok(()) };
        let known = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
        if queue.is_empty() || queue.len() > QUEUE_BYTES || !queue.bytes().all(known) {
            return wrong(&format!(
                "queue({queue:?}): a name has 1 to {QUEUE_BYTES} letters, digits and '_'"
            ));
        }
        Ok(())
    }

    fn check_handlers(&mut self, runs_jobs: bool) -> Result<(), OpenError> {
        if runs_jobs {
            self.handlers = core::mem::take(&mut self.handlers).checked()?;
        } else if !self.handlers.kinds().is_empty() {
            let reason = "a client runs no jobs, so it takes no handlers";
            return Err(OpenError::Config(reason.to_owned()));
        }
        Ok(())
    }

    /// Returns the choices as the machine needs them.
    fn settings(&self, runs_jobs: bool, manual: bool) -> Result<MachineSettings, OpenError> {
        let is_shared = self.source.is_shared();
        let lease = self.longest_claim();
        Ok(MachineSettings {
            queue: self.queue.clone().unwrap_or_default(),
            max_in_flight: self.max_in_flight,
            most_runs: self.most_runs(),
            ahead: if is_shared { Duration::ZERO } else { AHEAD },
            lease: is_shared.then_some(lease),
            // On a manual clock a wait changes nothing.
            call_timeout: if manual { Duration::ZERO } else { self.call_timeout },
            synced: self.durability == Durability::Synced,
            policies: self.handlers.policies(self.retry),
            slots: slots(&self.handlers),
            rooms: self.rooms(),
            time_limits: limits_of(&self.handlers, &self.time_limits)?,
            limit_grace: lease,
            capacity: (runs_jobs && !manual).then(|| capacity(self.threads)),
            end_waits: Arc::default(),
            progress: Arc::default(),
            threads: self.threads,
            // The driver of a manual clock runs one job at a time.
            pool: if manual { 1 } else { pool(self.threads) },
            flows: self.handlers.flows(),
            expiries: self.handlers.expiries(),
            limits: checked_limits(&self.limits)?,
            history: self.history,
        })
    }

    fn longest_claim(&self) -> Duration {
        self.lease.min(LONGEST_LEASE)
    }

    /// Returns the kinds whose handlers run on the only thread that there is.
    fn on_only_thread(&self, manual: bool) -> Vec<Arc<str>> {
        // A driver runs handlers on its own thread, however many processors there are.
        let has_one_thread = self.threads == Some(1) || !manual && pool(self.threads) == 1;
        match has_one_thread && !self.source.is_shared() {
            true => self.handlers.kinds_on_threads(),
            false => Vec::new(),
        }
    }

    #[cfg_attr(
        not(any(feature = "sqlite-unbundled", feature = "redis")),
        expect(unused_variables, reason = "memory has one connection")
    )]
    fn open_store(&mut self, runs_jobs: bool, manual: bool) -> Result<OpenedStore, OpenError> {
        match core::mem::replace(&mut self.source, Source::Memory) {
            Source::Memory if !runs_jobs => {
                Err(OpenError::Config("jobs in memory have no other clients".to_owned()))
            }
            Source::Memory => Ok(OpenedStore {
                store: Box::new(Memory::new(self.keep_dead, self.history)),
                questions: None,
                #[cfg(feature = "sqlite-unbundled")]
                file: None,
            }),
            #[cfg(feature = "redis")]
            Source::Server(server) => self.open_on_server(*server, runs_jobs, manual),
            #[cfg(feature = "sqlite-unbundled")]
            Source::File(location) => self.open_file(location, runs_jobs, manual),
        }
    }

    #[cfg(feature = "redis")]
    fn open_on_server(
        &self,
        server: Server,
        runs_jobs: bool,
        manual: bool,
    ) -> Result<OpenedStore, OpenError> {
        let (queue, lease, keep_dead) = (self.queue.clone(), self.longest_claim(), self.keep_dead);
        let server = server.with_queue(queue.as_deref()).with_lease(lease);
        let server = server.with_rights(runs_jobs, self.replicas > 0);
        let call_timeout = self.call_timeout;
        let opened = crate::store::redis::open::open(&server, call_timeout)?;
        let (again, its_queue) = (server.clone(), queue.as_deref());
        let store = Redis::new(server, opened, its_queue, lease, keep_dead, self.replicas, manual)
            .counting_history(self.history);
        let owner = store.owner();
        let ask: questions::Open = Box::new(move || {
            let opened = crate::store::redis::open::open(&again, call_timeout);
            let opened = opened.map_err(OpenError::into_store_error)?;
            let (server, queue) = (again.clone(), queue.as_deref());
            let store = Redis::new(server, opened, queue, lease, keep_dead, 0, false);
            Ok(Box::new(store.owned_by(owner)))
        });
        Ok(OpenedStore {
            store: Box::new(store),
            questions: Some(ask).filter(|_| asks_apart(runs_jobs, manual)),
            #[cfg(feature = "sqlite-unbundled")]
            file: None,
        })
    }

    #[cfg(feature = "sqlite-unbundled")]
    fn open_file(
        &self,
        mut location: Location,
        runs_jobs: bool,
        manual: bool,
    ) -> Result<OpenedStore, OpenError> {
        location.queue = self.queue.clone();
        location.call_timeout = self.call_timeout;
        location.keep_dead = self.keep_dead;
        location.history = self.history;
        // `Jobs::open` has resolved the path already; the lock lies beside the real file.
        let runner = match runs_jobs {
            true => location.lock_runner()?,
            false => None,
        };
        let conn = location.open()?;
        let again = location.clone();
        let ask: questions::Open = Box::new(move || {
            let conn = again.open_again().map_err(OpenError::into_store_error)?;
            Ok(Box::new(Sqlite::new(again.clone(), conn, false, None)))
        });
        // A virtual file allows one connection at a time.
        let is_asked = asks_apart(runs_jobs, manual) && location.vfs.is_none();
        Ok(OpenedStore {
            questions: Some(ask).filter(|_| is_asked),
            file: Some(location.clone()),
            store: Box::new(Sqlite::new(location, conn, runs_jobs, runner)),
        })
    }
}

/// Says whether questions have a connection of their own. On a manual clock and in a client, the thread of the caller
/// asks the store anyway.
#[cfg(any(feature = "sqlite-unbundled", feature = "redis"))]
fn asks_apart(runs_jobs: bool, manual: bool) -> bool {
    runs_jobs && !manual
}

/// A store, and what belongs to it.
struct OpenedStore {
    store: Box<dyn Store>,
    /// Opens the store once more, for questions.
    questions: Option<questions::Open>,
    #[cfg(feature = "sqlite-unbundled")]
    file: Option<Location>,
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
    /// The choices that the other parts do not have.
    builder: Builder,
    settings: MachineSettings,
    opened: OpenedStore,
    metrics: Arc<Metrics>,
    #[cfg(feature = "tracing")]
    traces: Traces,
    alive: Arc<Alive>,
    hurry: Hurry,
    on_only_thread: Vec<Arc<str>>,
}

impl Parts {
    /// Makes this process run the jobs.
    pub(super) fn start_runner(&mut self, clock: &Clock) -> Result<Machine, OpenError> {
        let now = clock.now().millis();
        #[cfg(feature = "redis")]
        {
            let kinds: Vec<Arc<str>> = self.settings.rooms.keys().cloned().collect();
            self.opened.store.set_kinds_with_rooms(&kinds);
        }
        self.opened
            .store
            .start_runner(&self.builder.handlers.kinds(), now)
            .map_err(OpenError::Store)?;
        crate::values::hook::at("taken over");
        let mut machine = Machine::new(self.settings.clone(), now);
        machine.read_settings(now, &mut *self.opened.store).map_err(OpenError::Store)?;
        Ok(machine)
    }

    /// Returns the clock, with the store's clock as its wall clock if the store has one.
    pub(super) fn by_store(&self, clock: Clock) -> Clock {
        #[cfg(feature = "redis")]
        let clock = clock.by_server(self.opened.store.server_time());
        clock
    }

    /// Emits the store's warning to its operator, if there is one.
    pub(super) fn warn(&self) {
        #[cfg(feature = "redis")]
        if let Some(text) = self.opened.store.warning() {
            emit(Event::Warning { text }, &self.metrics, self.builder.on_event.as_ref(), false);
        }
    }

    /// Returns the channel of the notifications of other processes. The thread that hears one makes its step, if the
    /// machine is free.
    pub(super) fn listen(&mut self, way: &LoneCaller) -> Receiver<Command> {
        #[cfg(feature = "redis")]
        if self.settings.lease.is_some() {
            let (notifications, notifications_out) = bounded(NOTIFICATIONS);
            let way = way.clone();
            self.opened.store.listen(Box::new(move |notification| {
                let command = match notification {
                    Notification::Due => Command::Wake,
                    Notification::Poll => Command::Poll,
                };
                if let Some(command) = way.notified(command) {
                    // If the channel is full, the dispatcher is about to make a step anyway.
                    drop(notifications.try_send(command));
                }
            }));
            return notifications_out;
        }
        let _ = way;
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
            patience: Duration::ZERO,
            clock,
            metrics: Arc::clone(&self.metrics),
            capture: self.builder.capture.clone(),
            #[cfg(feature = "tracing")]
            traces: self.traces.clone(),
            durability: self.builder.durability,
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
            kinds: self.builder.handlers.kinds(),
            queue: self.builder.queue.clone(),
            #[cfg(feature = "sqlite-unbundled")]
            file: self.opened.file.clone(),
        }
    }

    /// Puts the machine behind a lock. Unless the clock is manual, the callers share its steps. `patience` is the real
    /// time for which a wait goes on while a manual clock stands still.
    pub(super) fn inline(
        mut self,
        machine: Machine,
        clock: Clock,
        patience: Option<Duration>,
    ) -> (Arc<Inline>, Arc<DispatcherHandle>, Handlers) {
        let hooks = (self.builder.on_event.take(), self.builder.on_run.take());
        let store = core::mem::replace(&mut self.opened.store, Box::new(Memory::default()));
        let (metrics, is_manual) = (Arc::clone(&self.metrics), patience.is_some());
        let (its_clock, alive) = (clock.clone(), Arc::clone(&self.alive));
        let inline = Inline::new(machine, store, its_clock, metrics, hooks, !is_manual, alive);
        let inline = Arc::new(inline);
        let futures = Futures::default();
        let way: Box<dyn Way> = match is_manual {
            true => Box::new(Arc::clone(&inline)),
            false => Box::new(Line::new(Arc::clone(&inline), Arc::clone(&futures.helper))),
        };
        let patience = patience.unwrap_or_default();
        let dispatcher = self.dispatcher(way, true, clock);
        let dispatcher = DispatcherHandle { futures, is_manual, patience, ..dispatcher };
        (inline, Arc::new(dispatcher), self.builder.handlers)
    }
}

/// How many commands may wait for the dispatcher. Further callers wait for room.
const COMMANDS: usize = 4096;
/// The tick of the wheels, by which a run may start late.
const TICK: Duration = Duration::from_micros(10);

impl Builder {
    /// Starts to run the jobs. Overdue jobs run at once.
    ///
    /// # Errors
    ///
    /// If a choice is not valid, if another process runs the jobs of the file, if the store fails, or if the
    /// system refuses a thread.
    #[doc(alias("run", "work", "listen"))]
    pub fn start(self) -> Result<Jobs, OpenError> {
        let threads = self.threads;
        let mut parts = self.into_parts(true, false)?;
        let mut blocking = Wheel::builder().tick(TICK).name("tickwheel-jobs");
        if let Some(threads) = threads {
            blocking = blocking.threads(threads);
        }
        let blocking = blocking.build().map_err(refused)?;
        let returning = Wheel::builder().tick(TICK).threads(1).name("tickwheel-jobs-async");
        let returning = match parts.builder.handlers.any_async() {
            true => Some(returning.build().map_err(refused)?),
            false => None,
        };
        let clock = parts.by_store(Clock::of_wheel(blocking.scheduler()));
        let machine = parts.start_runner(&clock)?;
        let (commands, commands_out) = bounded(COMMANDS);
        let (urgent, urgent_out): (_, Receiver<Command>) = unbounded();
        let ends = urgent.clone();
        let room = Arc::<Room>::default();
        let shared = Arc::<SharedMachine>::default();
        let way = LoneCaller {
            channels: Channels { commands, urgent, room: Arc::clone(&room) },
            shared: Arc::clone(&shared),
            clock: clock.clone(),
            metrics: Arc::clone(&parts.metrics),
            alive: Arc::clone(&parts.alive),
        };
        let notifications = parts.listen(&way);
        parts.warn();
        let mut dispatcher = parts.dispatcher(Box::new(way), false, clock.clone());
        let alive = Arc::clone(&dispatcher.alive);
        dispatcher.questions = parts
            .opened
            .questions
            .take()
            .map(|open| Arc::new(Questions::new(open, Arc::clone(&alive))));
        let dispatcher = Arc::new(dispatcher);
        let nudged = Arc::clone(&dispatcher.nudged);
        let executor = Arc::new(Executor {
            handlers: parts.builder.handlers,
            clock: clock.clone(),
            metrics: Arc::clone(&parts.metrics),
            dispatcher: Arc::clone(&dispatcher),
            since: clock.now().wall,
            blocking: RunQueue::new(Some(blocking.scheduler())),
            returning: returning.as_ref().map(|wheel| RunQueue::new(Some(wheel.scheduler()))),
            batches: Batches::default(),
            capacity: parts.settings.capacity.clone(),
            #[cfg(feature = "tokio")]
            under_way: None,
            on_run: parts.builder.on_run,
            ended: Box::new(move |run, end, at| {
                let (id, fence) = (run.id, run.fence);
                drop(ends.send(Command::Ended { id, fence, end, at }));
            }),
        });
        if let Some(questions) = &dispatcher.questions {
            let executor = Arc::downgrade(&executor);
            let is_shared = parts.settings.lease.is_some();
            let own_claims = move || executor.upgrade().map(|it| it.own_claims(is_shared));
            questions.correct_by(Box::new(move || own_claims().unwrap_or_default()));
        }
        shared.start(machine, parts.opened.store, Arc::clone(&executor));
        let its_thread = Dispatcher {
            machine: Arc::clone(&shared),
            commands: commands_out,
            urgent: urgent_out,
            room,
            nudged,
            alive,
            clock,
            metrics: parts.metrics,
            on_event: parts.builder.on_event,
            executor,
            notifications,
            poll_within: POLL_INTERVAL,
            shared: parts.settings.lease.is_some(),
            needs_maintenance: true,
            commits: 0,
            has_large_log: false,
            answered: 0,
            wheels: returning.into_iter().chain([blocking]).collect(),
        };
        let thread = std::thread::Builder::new()
            .name("tickwheel-jobs".to_owned())
            .spawn(move || its_thread.run())
            .map_err(|error| {
                // The executor in it refers back to it.
                drop(shared.take());
                OpenError::Dispatcher(Arc::new(error))
            })?;
        Ok(Jobs::new(Client::new(dispatcher), Some(thread), parts.builder.shutdown_grace))
    }

    /// Starts jobs on a manual clock, without a thread: [`Driver::advance`] moves the clock and runs the jobs
    /// that come due. For tests. The errors are those of [`Builder::start`].
    #[doc(alias("test", "mock", "fake_clock"))]
    pub fn manual(self) -> Result<(Jobs, Driver), OpenError> {
        let patience = self.call_timeout;
        let mut parts = self.into_parts(true, true)?;
        let (wheel, driver) = Wheel::builder().manual().map_err(refused)?;
        driver.set_wall(Millis::present(driver.wall_now()).to_system());
        let clock = Clock::of_wheel(wheel.scheduler());
        let machine = parts.start_runner(&clock)?;
        let (grace, on_run) = (parts.builder.shutdown_grace, parts.builder.on_run.clone());
        let (inline, dispatcher, handlers) = parts.inline(machine, clock.clone(), Some(patience));
        let back: Weak<Inline> = Arc::downgrade(&inline);
        let ended = move |run: &RunState, end, at| {
            if let Some(inline) = back.upgrade() {
                inline.ended(run, end, at);
            }
        };
        let under_way: Arc<UnderWay> = Arc::default();
        inline.run_with(Arc::new(Executor {
            handlers,
            clock: clock.clone(),
            metrics: Arc::clone(&inline.metrics),
            dispatcher: Arc::clone(&dispatcher),
            since: clock.now().wall,
            blocking: RunQueue::new(None),
            returning: None,
            batches: Batches::default(),
            capacity: None,
            #[cfg(feature = "tokio")]
            under_way: Some(Arc::clone(&under_way)),
            on_run,
            ended: Box::new(ended),
        }));
        let end_waits = Arc::clone(&dispatcher.end_waits);
        let jobs = Jobs::new(Client::new(dispatcher), None, grace);
        Ok((jobs, Driver::new(inline, driver, wheel, under_way, end_waits)))
    }

    /// Returns a client, for a process that runs no jobs: it inserts, cancels and reads. It has a connection of
    /// its own to the store, and no thread at first. A thread starts when several threads call the client at
    /// once, or when a future does. It ends with the last clone.
    ///
    /// # Errors
    ///
    /// If there are handlers, if the jobs are in memory, or as [`Builder::start`].
    #[doc(alias("producer", "enqueuer"))]
    pub fn client(self) -> Result<Client, OpenError> {
        let parts = self.into_parts(false, false)?;
        let clock = parts.by_store(Clock::of_system());
        let machine = Machine::new(parts.settings.clone(), clock.now().millis());
        let (_, dispatcher, _) = parts.inline(machine, clock, None);
        Ok(Client::new(dispatcher))
    }
}

fn refused(error: ConfigError) -> OpenError {
    match error {
        ConfigError::Threads(threads) => {
            OpenError::Config(format!("threads({threads}): the pool needs between 1 and 1024"))
        }
        other => OpenError::Threads(Arc::new(other)),
    }
}
