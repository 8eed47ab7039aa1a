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
use crate::dispatch::execute::{Executor, Lane};
use crate::dispatch::handlers::Handlers;
use crate::dispatch::inline::Inline;
use crate::dispatch::link::Link;
use crate::dispatch::machine::{Machine, Settings};
use crate::dispatch::metrics::Metrics;
use crate::dispatch::thread::Dispatcher;
use crate::store::memory::Memory;
#[cfg(feature = "sqlite")]
use crate::store::sqlite::{Sqlite, open::Location};
use crate::store::words::Store;
use crate::values::error::OpenError;
use crate::values::info::Durability;
use crate::values::time::Millis;

/// How long before its time a job is claimed from a file.
const AHEAD: Duration = Duration::from_millis(50);
/// How many commands wait for the dispatcher before their callers do.
const COMMANDS: usize = 4096;
/// The tick of the wheels: how much later than at its time a run may start for the wheel's sake.
const TICK: Duration = Duration::from_micros(100);
const QUEUE_BYTES: usize = 48;

impl Builder {
    /// Starts to run the jobs. What came due meanwhile runs now.
    ///
    /// # Errors
    ///
    /// If a choice makes no sense, if another process runs the jobs of the file, if the store fails,
    /// or if the system refuses a thread.
    pub fn start(self) -> Result<Jobs, OpenError> {
        let threads = self.threads;
        let mut parts = self.into_parts(true)?;
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
        let clock = Clock::Wheel(blocking.scheduler());
        let machine = parts.take_over(&clock)?;
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
            ended: Box::new(move |id, end, at| drop(ends.send(Command::Ended { id, end, at }))),
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
        let mut parts = self.into_parts(true)?;
        let (wheel, driver) = Wheel::builder().manual().map_err(refused)?;
        driver.set_wall(Millis::present(driver.wall_now()).to_system());
        let clock = Clock::Wheel(wheel.scheduler());
        let machine = parts.take_over(&clock)?;
        let lease = parts.lease;
        let (inline, link, handlers) = parts.inline(machine, clock.clone());
        let back: Weak<Inline> = Arc::downgrade(&inline);
        let ended = move |id, end, at| {
            if let Some(inline) = back.upgrade() {
                inline.ended(id, end, at);
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
        let parts = self.into_parts(false)?;
        let clock = Clock::System;
        let machine = Machine::new(parts.settings.clone(), clock.now().millis());
        let (_, link, _) = parts.inline(machine, clock);
        Ok(Client { link })
    }

    /// Checks every choice, and opens the store.
    fn into_parts(self, runs_jobs: bool) -> Result<Parts, OpenError> {
        let wrong = |reason: &str| Err(OpenError::Config(reason.to_owned()));
        if self.lease.is_zero() {
            return wrong("lease(0): a claim needs a lease above zero");
        }
        if self.in_flight == 0 {
            return wrong("in_flight(0): no job could run");
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
        let settings = Settings {
            in_flight: self.in_flight,
            ahead: AHEAD,
            retention: self.retention,
            synced: self.durability == Durability::Synced,
            policies: handlers.policies(self.retry),
        };
        #[cfg(feature = "sqlite")]
        let mut file = None;
        let store: Box<dyn Store> = match self.source {
            Source::Memory if !runs_jobs => return wrong("jobs in memory have no other clients"),
            Source::Memory => Box::new(Memory::default()),
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
            lease: self.lease,
            durability: self.durability,
            #[cfg(feature = "sqlite")]
            file,
        })
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
    fn inline(mut self, machine: Machine, clock: Clock) -> (Arc<Inline>, Arc<Link>, Handlers) {
        let on_event = self.on_event.take();
        let store = core::mem::replace(&mut self.store, Box::new(Memory::default()));
        let metrics = Arc::clone(&self.metrics);
        let inline = Arc::new(Inline::new(machine, store, clock.clone(), metrics, on_event));
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
