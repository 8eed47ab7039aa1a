//! The builder of a wheel, which holds its options and checks them.

use core::fmt;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use rayon::ThreadPool;

use crate::api::driver::{Driver, LoopDriver};
use crate::api::wheel::Wheel;
use crate::engine::threads::{PoolSource, Threads};
use crate::engine::verbs::{Config, Engine};
use crate::host::clock::Clock;
use crate::host::user_panics::{OnPanic, Panic, PanicHandler, UnwindBoundary};
use crate::structure::Geometry;
use crate::values::error::ConfigError;
use crate::values::time::Scale;

/// The options of a [`Wheel`]. Each has a default.
///
/// ```
/// use std::time::Duration;
/// use tickwheel::{Geometry, Wheel};
/// let wheel = Wheel::builder()
///     .tick(Duration::from_secs(1))
///     .geometry(Geometry::ring(3600)?)
///     .threads(2)
///     .max_pending(1_000_000)
///     .on_panic(|panic| eprintln!("job {:?} panicked: {:?}", panic.handle, panic.message()))
///     .name("orders")
///     .build()?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[must_use = "a builder does nothing until it builds"]
pub struct Builder {
    tick: Duration,
    geometry: Geometry,
    threads: Option<usize>,
    pool: Option<Arc<ThreadPool>>,
    shards: Option<usize>,
    max_pending: Option<usize>,
    max_in_flight: Option<usize>,
    on_panic: Option<OnPanic>,
    name: String,
}

impl Builder {
    /// The largest number of threads in a wheel's own pool.
    pub const MAX_THREADS: usize = 1024;

    /// The largest number of shards in a wheel.
    pub const MAX_SHARDS: usize = 1024;

    /// Sets the length of a tick: the granularity of deadlines. Rounding up to a tick makes a job
    /// late by at most this. The default is a millisecond; useful lengths are from a microsecond to
    /// hours. With work due at every tick, the ticker wakes once a tick.
    pub fn tick(mut self, tick: Duration) -> Builder {
        self.tick = tick;
        self
    }

    /// Sets the rings of the wheel. The default is four rings of 256 slots.
    pub fn geometry(mut self, geometry: Geometry) -> Builder {
        self.geometry = geometry;
        self
    }

    /// Sets the number of threads in the wheel's own pool, which is the number of jobs that can run
    /// at a time: from 1 to [`Builder::MAX_THREADS`]. The default is one for each processor. It is
    /// refused together with [`Builder::pool`], and on a manual or a driven wheel, whose jobs run
    /// inside [`Driver::advance`] and [`LoopDriver::run_due`].
    ///
    /// A job that sleeps, or waits for a lock or for I/O, occupies its thread meanwhile. Once every
    /// thread is occupied, each job that comes due waits for one. A job that waits inside rayon lets its
    /// thread run other tasks, but no job of its wheel: hold no lock across such a wait. So jobs that compute need a thread
    /// for each processor. Jobs that wait need as many threads as there are such waits at a time, or
    /// they only start the work elsewhere, on another pool or on an async runtime.
    /// [`Stats::start`](crate::Stats::start) tells how long jobs waited for a thread.
    ///
    /// The threads start when the first job comes due. If the system then refuses to start them,
    /// the wheel calls the handler of [`Builder::on_panic`] with a [`Panic`] whose payload is
    /// [`ConfigError::Pool`]. The jobs wait, and the wheel tries again once a second.
    pub fn threads(mut self, threads: usize) -> Builder {
        self.threads = Some(threads);
        self
    }

    /// Runs jobs on this pool instead of one of the wheel's own. The wheel runs them in tasks of
    /// the pool, at most one for each of its threads; each task lets others run after some jobs.
    /// It is refused together with [`Builder::threads`], and on a manual or a driven wheel.
    ///
    /// A task of the pool must not wait for a job of the wheel by yielding (`rayon::yield_now` in a
    /// loop): it may run on top of the very task that would run that job. Nor should a job hold a
    /// lock across a wait in rayon, because rayon runs other tasks on top of the job meanwhile.
    pub fn pool(mut self, pool: Arc<ThreadPool>) -> Builder {
        self.pool = Some(pool);
        self
    }

    /// Sets the number of shards: hierarchies, each with its own lock, over which inserting threads
    /// are spread. From 1 to [`Builder::MAX_SHARDS`]. The default is twice the number of processors,
    /// at most 64, but fewer for long rings, so that all shards together begin with no more than 2^20
    /// slots (34 MB). On a manual or a driven wheel the default is 1. An empty shard of the default
    /// geometry takes 33 KB.
    pub fn shards(mut self, shards: usize) -> Builder {
        self.shards = Some(shards);
        self
    }

    /// Sets how many jobs may be [pending](Wheel::is_pending) at a time. At the bound,
    /// [`Wheel::try_insert`] gives the job back, and [`Wheel::insert`] panics. By default there is no
    /// bound.
    pub fn max_pending(mut self, bound: usize) -> Builder {
        self.max_pending = Some(bound);
        self
    }

    /// Sets how many jobs may be in flight at a time. A job is in flight from the moment at which
    /// it is handed to the pool until it has ended: it waits for a thread there, or runs. At the
    /// bound, a job that comes due waits in the wheel instead, where it can still be cancelled and
    /// reset. No job is refused or lost. By default there is no bound. The bound has no effect on a
    /// manual or a driven wheel, which runs one job at a time.
    ///
    /// The bound is for wheels whose jobs block or compute for long. If it is the number of threads,
    /// every job can be cancelled until there is a thread for it. For short jobs, set no bound, or at
    /// least 64 for each thread: the ticker wakes when a job in flight makes room, which costs much
    /// time in a burst (docs/performance.md). [`Wheel::insert_with`] makes a single job cancellable
    /// until it starts, at no cost to others.
    pub fn max_in_flight(mut self, bound: usize) -> Builder {
        self.max_in_flight = Some(bound);
        self
    }

    /// Sets a handler that the wheel calls with every [`Panic`] that it catches: of a job, of a task that it has
    /// spawned on the wheel's own pool, of a value, an event or a key while it is dropped, of a waker, or of
    /// [`Full::Give`](crate::Full::Give). It runs on the thread of the panic. For a waker that is mostly the ticker's
    /// thread, which the handler must not block. Without a handler, panics are counted
    /// ([`Stats::panicked`](crate::Stats::panicked)), and the panic hook reports them as it does everywhere.
    ///
    /// The handler may use the wheel and end it; no verb waits there ([`Wheel::close`]). A panic of the
    /// handler is counted too, and stops there. If two values that one job captured both panic while
    /// they are dropped, Rust aborts the process.
    ///
    /// The handler is dropped with the last of these: the wheel, its [`Driver`] or [`LoopDriver`],
    /// the jobs that a shutdown handed back, and the last running job.
    pub fn on_panic(mut self, handler: impl Fn(Panic) + Send + Sync + 'static) -> Builder {
        self.on_panic = Some(Box::new(handler));
        self
    }

    /// Sets the prefix of the threads' names: `name-ticker`, `name-0`, `name-1`… Linux shows the
    /// first 15 bytes of each. The default is `tickwheel`.
    pub fn name(mut self, name: &str) -> Builder {
        name.clone_into(&mut self.name);
        self
    }

    /// Builds the wheel and starts its ticker. The threads of the pool start when the first job
    /// comes due.
    ///
    /// # Errors
    ///
    /// [`ConfigError`]: a value is out of range (the error names it), two options exclude each
    /// other, or the system refuses to start the ticker's thread.
    pub fn build(mut self) -> Result<Wheel, ConfigError> {
        let source = self.pool_source()?;
        let max_in_flight = within(self.max_in_flight, usize::MAX, ConfigError::MaxInFlight)?;
        let max_in_flight = max_in_flight.unwrap_or(usize::MAX);
        let name = self.name.clone();
        let shards = default_shards(&self.geometry);
        let (config, handler) = self.config(Clock::monotonic(), shards)?;
        let engine = Arc::new(Engine::new(config));
        let threads = Threads::start(&engine, source, max_in_flight, &name, handler.clone())?;
        Ok(Wheel::assemble(engine, Some(threads), handler))
    }

    /// Builds a wheel without threads, and the [`Driver`] that moves its clock.
    ///
    /// # Errors
    ///
    /// [`ConfigError`]: a value is out of range, even one that has no effect on a manual wheel; or
    /// [`Builder::threads`] or [`Builder::pool`] was called.
    #[doc(alias("pause", "mock", "fake_clock"))]
    pub fn manual(self) -> Result<(Wheel, Driver), ConfigError> {
        let (wheel, engine, handler) = self.without_threads(Clock::manual(), "manual")?;
        Ok((wheel, Driver::new(engine, handler)))
    }

    /// Builds a wheel that runs on the real clock and has no thread, and the [`LoopDriver`] with which a
    /// loop drives it: for a loop that computes how long it may wait. It has one shard by default.
    ///
    /// # Errors
    ///
    /// [`ConfigError`]: as [`Builder::manual`].
    #[doc(alias("poll", "event_loop", "mio"))]
    pub fn driven(self) -> Result<(Wheel, LoopDriver), ConfigError> {
        let (wheel, engine, handler) = self.without_threads(Clock::monotonic(), "driven")?;
        Ok((wheel, LoopDriver::new(engine, handler)))
    }

    fn without_threads(self, clock: Clock, name: &'static str) -> Result<Threadless, ConfigError> {
        if self.threads.is_some() {
            return Err(ConfigError::Conflict(name, "threads"));
        }
        if self.pool.is_some() {
            return Err(ConfigError::Conflict(name, "pool"));
        }
        within(self.max_in_flight, usize::MAX, ConfigError::MaxInFlight)?;
        let (config, handler) = self.config(clock, 1)?;
        let engine = Arc::new(Engine::new(config));
        let wheel = Wheel::assemble(Arc::clone(&engine), None, handler.clone());
        Ok((wheel, engine, handler))
    }

    fn pool_source(&mut self) -> Result<PoolSource, ConfigError> {
        let threads = within(self.threads, Builder::MAX_THREADS, ConfigError::Threads)?;
        Ok(match self.pool.take() {
            Some(_) if threads.is_some() => return Err(ConfigError::Conflict("pool", "threads")),
            Some(pool) => PoolSource::Shared(pool),
            None => PoolSource::Own(threads.unwrap_or_else(processors).min(Builder::MAX_THREADS)),
        })
    }

    fn config(
        self,
        clock: Clock,
        shards: usize,
    ) -> Result<(Config, Option<Arc<PanicHandler>>), ConfigError> {
        if self.name.contains('\0') {
            return Err(ConfigError::Name(self.name));
        }
        let asked = within(self.shards, Builder::MAX_SHARDS, ConfigError::Shards)?;
        let (boundary, handler) = UnwindBoundary::new(self.on_panic);
        let config = Config {
            scale: Scale::new(self.tick).ok_or(ConfigError::Tick(self.tick))?,
            clock,
            geometry: self.geometry,
            shards: asked.unwrap_or(shards),
            max_pending: within(self.max_pending, usize::MAX, ConfigError::MaxPending)?,
            boundary,
        };
        Ok((config, handler))
    }
}

/// A wheel without threads, and the parts of its [`Driver`] or [`LoopDriver`].
type Threadless = (Wheel, Arc<Engine>, Option<Arc<PanicHandler>>);

impl Default for Builder {
    fn default() -> Builder {
        Builder {
            tick: Duration::from_millis(1),
            geometry: Geometry::default(),
            threads: None,
            pool: None,
            shards: None,
            max_pending: None,
            max_in_flight: None,
            on_panic: None,
            name: "tickwheel".to_owned(),
        }
    }
}

impl fmt::Debug for Builder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Builder")
            .field("tick", &self.tick)
            .field("geometry", &self.geometry)
            .field("threads", &self.threads)
            .field("has_pool", &self.pool.is_some())
            .field("shards", &self.shards)
            .field("max_pending", &self.max_pending)
            .field("max_in_flight", &self.max_in_flight)
            .field("name", &self.name)
            .finish_non_exhaustive()
    }
}

// Here and not in `wheel/`, because that module does not name the builder.
impl Wheel {
    /// Returns a wheel with the defaults of [`Builder`]: a tick of a millisecond, and a pool with a
    /// thread for each processor.
    ///
    /// # Panics
    ///
    /// When the system refuses to start the ticker's thread, which [`Builder::build`] returns as an
    /// error.
    #[must_use]
    pub fn new() -> Wheel {
        Wheel::builder().build().unwrap_or_else(|error| panic!("{error}"))
    }

    /// Returns a builder, to set the options of a wheel.
    pub fn builder() -> Builder {
        Builder::default()
    }
}

impl Default for Wheel {
    fn default() -> Wheel {
        Wheel::new()
    }
}

/// Returns the value if it lies from 1 to `max`, or `None` if none was given.
fn within(
    value: Option<usize>,
    max: usize,
    error: fn(usize) -> ConfigError,
) -> Result<Option<usize>, ConfigError> {
    match value {
        Some(value) if value == 0 || value > max => Err(error(value)),
        value => Ok(value),
    }
}

/// The slots that all shards together may have by default: 34 MB, empty.
const DEFAULT_SLOTS_MAX: usize = 1 << 20;

fn default_shards(geometry: &Geometry) -> usize {
    let slots: usize = geometry.sizes().iter().sum();
    (processors() * 2).min(64).min(DEFAULT_SLOTS_MAX / slots).max(1)
}

fn processors() -> usize {
    thread::available_parallelism().map_or(1, usize::from)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The longer the ring, the fewer shards the wheel has by default.
    #[test]
    fn ring_that_is_long_makes_few_shards() {
        let shards = |slots| default_shards(&Geometry::ring(slots).unwrap());
        assert_eq!(shards(1), (processors() * 2).min(64));
        assert!(shards(86_400) <= 12 && shards(86_400) >= 2.min(processors()));
        assert_eq!([shards(DEFAULT_SLOTS_MAX), shards(Geometry::MAX_SLOTS)], [1, 1]);
        assert_eq!(default_shards(&Geometry::default()), (processors() * 2).min(64));
    }
}
