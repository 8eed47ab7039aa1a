//! From the choices of a builder to jobs that run: on threads, on a manual clock, or a client.

use std::sync::atomic::{AtomicBool, AtomicUsize};
use std::sync::{Arc, Weak};
use std::time::Duration;

use crossbeam_channel::{Receiver, bounded, unbounded};
use tickwheel::{ConfigError, Wheel};

use super::builder::{Builder, Source};
use super::client::Client;
use super::driver::Driver;
use super::jobs::Jobs;
use crate::dispatch::clock::Clock;
use crate::dispatch::command::Command;
use crate::dispatch::events::OnEvent;
#[cfg(feature = "redis")]
use crate::dispatch::events::{Event, tell};
use crate::dispatch::execute::{Executor, Lane};
use crate::dispatch::handlers::Handlers;
use crate::dispatch::inline::Inline;
use crate::dispatch::link::Link;
use crate::dispatch::machine::{Machine, Settings};
use crate::dispatch::metrics::Metrics;
use crate::dispatch::run::RunState;
use crate::dispatch::thread::{Dispatcher, LOOK_INTERVAL};
use crate::store::memory::Memory;
#[cfg(feature = "redis")]
use crate::store::redis::Redis;
#[cfg(feature = "sqlite")]
use crate::store::sqlite::{Sqlite, open::Location};
#[cfg(feature = "redis")]
use crate::store::words::Hint;
use crate::store::words::Store;
use crate::values::error::OpenError;
use crate::values::info::Durability;
use crate::values::time::Millis;

/// How long before its time a job is claimed from a file.
const AHEAD: Duration = Duration::from_millis(50);
/// How many commands wait for the dispatcher before their callers do.
const COMMANDS: usize = 4096;
/// The tick of the wheels: how much later than at its time a run may start for the wheel's sake.
const TICK: Duration = Duration::from_micros(10);
const QUEUE_BYTES: usize = 48;
/// A lease that is longer holds for this long, because instants have an end.
const LONGEST_LEASE: Duration = Duration::from_secs(365 * 24 * 3600);
/// How many hints of other processes wait for the dispatcher.
#[cfg(feature = "redis")]
const HINTS: usize = 16;

impl Builder {
    /// Starts to run the jobs. What came due meanwhile runs now.
    ///
    /// # Errors
    ///
    /// If a choice makes no sense, if another process runs the jobs of the file, if the store fails,
    /// or if the system refuses a thread.
    pub fn start(self) -> Result<Jobs, OpenError> {
        let threads = self.threads;
        let mut parts = self.into_parts(true, false)?;
        let mut blocking = Wheel::builder().tick(TICK).name("tickwheel-jobs");
        if let Some(threads) = threads {
            blocking = blocking.threads(threads);
        }
        let blocking = blocking.build().map_err(refused)?;
        let returning = Wheel::builder().tick(TICK).threads(1).name("tickwheel-jobs-async");
        let returning = match parts.handlers.any_async() {
            true => Some(returning.build().map_err(refused)?),
            false => None,
        };
        let clock = parts.by_store(Clock::of_wheel(blocking.scheduler()));
        let machine = parts.take_over(&clock)?;
        let hints = parts.listen();
        parts.warn();
        let (commands, commands_out) = bounded(COMMANDS);
        let (ends, ends_out): (_, Receiver<Command>) = unbounded();
        let way = Box::new(move |command| commands.send(command).is_ok());
        let link = parts.link(way, false, clock.clone());
        let executor = Arc::new(Executor {
            handlers: parts.handlers,
            clock: clock.clone(),
            metrics: Arc::clone(&parts.metrics),
            link: Arc::clone(&link),
            since: clock.now().wall,
            blocking: Lane::new(Some(blocking.scheduler())),
            returning: returning.as_ref().map(|wheel| Lane::new(Some(wheel.scheduler()))),
            ended: Box::new(move |run, end, at| {
                let (id, fence) = (run.id, run.fence);
                drop(ends.send(Command::Ended { id, fence, end, at }));
            }),
        });
        let dispatcher = Dispatcher {
            machine,
            store: parts.store,
            commands: commands_out,
            ends: ends_out,
            clock,
            metrics: parts.metrics,
            on_event: parts.on_event,
            executor,
            hints,
            look_within: LOOK_INTERVAL,
            shared: parts.settings.lease.is_some(),
            untidy: true,
            answered: 0,
            wheels: returning.into_iter().chain([blocking]).collect(),
        };
        let thread = std::thread::Builder::new()
            .name("tickwheel-jobs".to_owned())
            .spawn(move || dispatcher.run())
            .map_err(|error| refused(ConfigError::Ticker(error)))?;
        Ok(Jobs::new(Client { link }, Some(thread), parts.lease))
    }

    /// Starts jobs on a manual clock, without a thread: [`Driver::advance`] moves the clock and runs
    /// what comes due. For tests.
    ///
    /// # Errors
    ///
    /// As [`Builder::start`].
    pub fn manual(self) -> Result<(Jobs, Driver), OpenError> {
        let mut parts = self.into_parts(true, true)?;
        let (wheel, driver) = Wheel::builder().manual().map_err(refused)?;
        driver.set_wall(Millis::present(driver.wall_now()).to_system());
        let clock = Clock::of_wheel(wheel.scheduler());
        let machine = parts.take_over(&clock)?;
        let lease = parts.lease;
        let (inline, link, handlers) = parts.inline(machine, clock.clone(), false);
        let back: Weak<Inline> = Arc::downgrade(&inline);
        let ended = move |run: &RunState, end, at| {
            if let Some(inline) = back.upgrade() {
                inline.ended(run, end, at);
            }
        };
        inline.run_with(Arc::new(Executor {
            handlers,
            clock: clock.clone(),
            metrics: Arc::clone(&inline.metrics),
            link: Arc::clone(&link),
            since: clock.now().wall,
            blocking: Lane::new(None),
            returning: None,
            ended: Box::new(ended),
        }));
        let jobs = Jobs::new(Client { link }, None, lease);
        Ok((jobs, Driver::new(inline, driver, wheel)))
    }

    /// Returns a client in a process that runs no jobs: it inserts, cancels and asks. It has no
    /// thread, and a connection of its own to the file.
    ///
    /// # Errors
    ///
    /// If there are handlers, if the jobs are in memory, or as [`Builder::start`].
    pub fn client(self) -> Result<Client, OpenError> {
        let parts = self.into_parts(false, false)?;
        let clock = parts.by_store(Clock::of_system());
        let machine = Machine::new(parts.settings.clone(), clock.now().millis());
        let (_, link, _) = parts.inline(machine, clock, true);
        Ok(Client { link })
    }

    /// Checks every choice, and opens the store.
    fn into_parts(self, runs_jobs: bool, manual: bool) -> Result<Parts, OpenError> {
        let wrong = |reason: &str| Err(OpenError::Config(reason.to_owned()));
        if self.lease.is_zero() {
            return wrong("lease(0): a claim needs a lease above zero");
        }
        if self.in_flight == 0 {
            return wrong("in_flight(0): no job could run");
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
        let handlers = match runs_jobs {
            true => self.handlers.checked()?,
            false if !self.handlers.kinds().is_empty() => {
                return wrong("a client runs no jobs, so it takes no handlers");
            }
            false => self.handlers,
        };
        // On a manual clock nothing would come of waiting.
        let patience = if manual { Duration::ZERO } else { self.patience };
        let is_shared = self.source.is_shared();
        let lease = self.lease.min(LONGEST_LEASE);
        let settings = Settings {
            in_flight: self.in_flight,
            ahead: if is_shared { Duration::ZERO } else { AHEAD },
            lease: is_shared.then_some(lease),
            patience,
            retention: self.retention,
            synced: self.durability == Durability::Synced,
            policies: handlers.policies(self.retry),
        };
        #[cfg(feature = "sqlite")]
        let mut file = None;
        let store: Box<dyn Store> = match self.source {
            Source::Memory if !runs_jobs => return wrong("jobs in memory have no other clients"),
            Source::Memory => Box::new(Memory::default()),
            #[cfg(feature = "redis")]
            Source::Server(server) => {
                let queue = self.queue.map(|queue| queue.to_ascii_lowercase());
                let server = server.with_queue(queue.as_deref()).with_lease(lease);
                let opened = crate::store::redis::open::open(&server)?;
                let (queue, replicas) = (queue.as_deref(), self.replicas);
                Box::new(Redis::new(server, opened, queue, lease, replicas, manual))
            }
            #[cfg(feature = "sqlite")]
            Source::File(mut location) => {
                location.queue = self.queue.map(|queue| queue.to_ascii_lowercase());
                let runner = match runs_jobs {
                    true => location.lock_runner()?,
                    false => None,
                };
                let conn = location.open()?;
                file = Some(location.clone());
                Box::new(Sqlite::new(location, conn, runs_jobs, runner))
            }
        };
        Ok(Parts {
            settings,
            store,
            handlers,
            metrics: Arc::new(Metrics::default()),
            on_event: self.on_event,
            lease,
            durability: self.durability,
            #[cfg(feature = "sqlite")]
            file,
        })
    }
}

impl Source {
    /// Says whether several processes run the jobs.
    fn is_shared(&self) -> bool {
        match self {
            Source::Memory => false,
            #[cfg(feature = "sqlite")]
            Source::File(_) => false,
            #[cfg(feature = "redis")]
            Source::Server(_) => true,
        }
    }
}

/// What a builder has checked and opened.
struct Parts {
    settings: Settings,
    store: Box<dyn Store>,
    handlers: Handlers,
    metrics: Arc<Metrics>,
    on_event: Option<OnEvent>,
    lease: Duration,
    durability: Durability,
    #[cfg(feature = "sqlite")]
    file: Option<Location>,
}

impl Parts {
    /// Makes this process the one that runs the jobs.
    fn take_over(&mut self, clock: &Clock) -> Result<Machine, OpenError> {
        let now = clock.now().millis();
        self.store.take_over(&self.handlers.kinds(), now).map_err(OpenError::Store)?;
        crate::values::hook::at("taken over");
        Ok(Machine::new(self.settings.clone(), now))
    }

    /// Goes by the clock of the store, if it has one.
    fn by_store(&self, clock: Clock) -> Clock {
        #[cfg(feature = "redis")]
        let clock = clock.by_server(self.store.server_time());
        clock
    }

    /// Tells what the operator of the store should know.
    fn warn(&self) {
        #[cfg(feature = "redis")]
        if let Some(text) = self.store.warning() {
            tell(Event::Warning { text }, &self.metrics, self.on_event.as_ref(), false);
        }
    }

    /// Returns where the hints of other processes come.
    fn listen(&mut self) -> Receiver<Command> {
        #[cfg(feature = "redis")]
        if self.settings.lease.is_some() {
            let (hints, hints_out) = bounded(HINTS);
            self.store.listen(Box::new(move |hint| {
                // If there are as many already, the dispatcher is about to see for itself.
                drop(hints.try_send(match hint {
                    Hint::Earlier => Command::Wake,
                    Hint::Look => Command::Look,
                }));
            }));
            return hints_out;
        }
        crossbeam_channel::never()
    }

    fn link(&self, commands: crate::dispatch::link::Send, inline: bool, clock: Clock) -> Arc<Link> {
        Arc::new(Link {
            commands,
            inline,
            clock,
            metrics: Arc::clone(&self.metrics),
            durability: self.durability,
            waiting: AtomicUsize::new(0),
            closed: AtomicBool::new(false),
            pid: std::process::id(),
            kinds: self.handlers.kinds(),
            #[cfg(feature = "sqlite")]
            file: self.file.clone(),
        })
    }

    /// Puts the machine behind a lock.
    fn inline(
        mut self,
        machine: Machine,
        clock: Clock,
        asks_again: bool,
    ) -> (Arc<Inline>, Arc<Link>, Handlers) {
        let on_event = self.on_event.take();
        let store = core::mem::replace(&mut self.store, Box::new(Memory::default()));
        let metrics = Arc::clone(&self.metrics);
        let inline = Inline::new(machine, store, clock.clone(), metrics, on_event, asks_again);
        let inline = Arc::new(inline);
        let way = Arc::clone(&inline);
        let way = Box::new(move |command| way.step(&mut vec![command]));
        let link = self.link(way, true, clock);
        (inline, link, self.handlers)
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
