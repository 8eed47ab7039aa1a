//! The starts of a builder: jobs on threads, jobs on a manual clock, or a client.

use std::sync::{Arc, Weak};
use std::time::Duration;

use crossbeam_channel::{Receiver, bounded, unbounded};
use tickwheel::{ConfigError, Wheel};

use super::builder::Builder;
use super::client::Client;
use super::driver::Driver;
use super::jobs::Jobs;
use crate::dispatch::batches::Batches;
use crate::dispatch::channels::{Channels, Room};
use crate::dispatch::clock::Clock;
use crate::dispatch::command::Command;
use crate::dispatch::execute::Executor;
use crate::dispatch::inline::Inline;
use crate::dispatch::lone_caller::LoneCaller;
use crate::dispatch::machine::Machine;
use crate::dispatch::questions::Questions;
use crate::dispatch::run_queue::RunQueue;
use crate::dispatch::run_state::RunState;
use crate::dispatch::shared_machine::{POLL_INTERVAL, SharedMachine};
use crate::dispatch::thread::Dispatcher;
use crate::dispatch::under_way::UnderWay;
use crate::values::error::OpenError;
use crate::values::time::Millis;

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
        let returning = match parts.handlers.any_async() {
            true => Some(returning.build().map_err(refused)?),
            false => None,
        };
        let clock = parts.by_store(Clock::of_wheel(blocking.scheduler()));
        let machine = parts.start_runner(&clock)?;
        let notifications = parts.listen();
        parts.warn();
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
        let mut dispatcher = parts.dispatcher(Box::new(way), false, clock.clone());
        let alive = Arc::clone(&dispatcher.alive);
        dispatcher.questions =
            parts.questions.take().map(|open| Arc::new(Questions::new(open, Arc::clone(&alive))));
        let dispatcher = Arc::new(dispatcher);
        let nudged = Arc::clone(&dispatcher.nudged);
        let executor = Arc::new(Executor {
            handlers: parts.handlers,
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
            on_run: parts.on_run,
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
        shared.start(machine, parts.store, Arc::clone(&executor));
        let its_thread = Dispatcher {
            machine: Arc::clone(&shared),
            commands: commands_out,
            urgent: urgent_out,
            room,
            nudged,
            alive,
            clock,
            metrics: parts.metrics,
            on_event: parts.on_event,
            executor,
            notifications,
            poll_within: POLL_INTERVAL,
            shared: parts.settings.lease.is_some(),
            needs_maintenance: true,
            commits: 0,
            has_large_log: false,
            answered: 0,
            ended: Vec::new(),
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
        Ok(Jobs::new(Client::new(dispatcher), Some(thread), parts.grace))
    }

    /// Starts jobs on a manual clock, without a thread: [`Driver::advance`] moves the clock and runs the jobs
    /// that come due. For tests.
    ///
    /// # Errors
    ///
    /// As [`Builder::start`].
    #[doc(alias("test", "mock", "fake_clock"))]
    pub fn manual(self) -> Result<(Jobs, Driver), OpenError> {
        let mut parts = self.into_parts(true, true)?;
        let (wheel, driver) = Wheel::builder().manual().map_err(refused)?;
        driver.set_wall(Millis::present(driver.wall_now()).to_system());
        let clock = Clock::of_wheel(wheel.scheduler());
        let machine = parts.start_runner(&clock)?;
        let (grace, on_run) = (parts.grace, parts.on_run.clone());
        let (inline, dispatcher, handlers) = parts.inline(machine, clock.clone(), true);
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
        let jobs = Jobs::new(Client::new(dispatcher), None, grace);
        Ok((jobs, Driver::new(inline, driver, wheel, under_way)))
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
        let (_, dispatcher, _) = parts.inline(machine, clock, false);
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
