//! How a wheel comes to be: every choice, checked once, here.

use core::any::Any;
use core::fmt;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use rayon::ThreadPool;

use crate::api::driver::Driver;
use crate::api::wheel::Wheel;
use crate::engine::threads::{PoolSource, Threads};
use crate::engine::verbs::{Config, Engine};
use crate::host::clock::Clock;
use crate::host::unwind::{OnPanic, PanicHandler, UnwindBoundary};
use crate::structure::Geometry;
use crate::values::error::ConfigError;
use crate::values::time::Scale;

/// The choices of a [`Wheel`]. All have defaults.
///
/// ```
/// use std::time::Duration;
/// use tickwheel::{Geometry, Wheel};
/// let wheel = Wheel::builder()
///     .tick(Duration::from_secs(1))
///     .geometry(Geometry::ring(3600)?)
///     .threads(2)
///     .max_pending(1_000_000)
///     .on_panic(|_payload| eprintln!("a job panicked"))
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
    /// The most threads that a wheel's own pool may have.
    pub const MAX_THREADS: usize = 1024;

    /// The most shards that a wheel may have.
    pub const MAX_SHARDS: usize = 1024;

    fn new() -> Builder {
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

    /// How long a tick is: the granularity of deadlines, and how late a job may be handed over.
    /// One millisecond unless said; from a microsecond to hours makes sense. With work due at every
    /// tick, the ticker wakes once a tick.
    pub fn tick(mut self, tick: Duration) -> Builder {
        self.tick = tick;
        self
    }

    /// Which rings the wheel has. Four of 256 slots unless said.
    pub fn geometry(mut self, geometry: Geometry) -> Builder {
        self.geometry = geometry;
        self
    }

    /// How many threads the wheel's own pool has, and so how many jobs run at a time: one for each
    /// processor unless said. No effect with [`Builder::pool`], or on a manual wheel.
    pub fn threads(mut self, threads: usize) -> Builder {
        self.threads = Some(threads);
        self
    }

    /// Runs jobs on this pool instead of one of the wheel's own. The wheel takes part in it with at
    /// most one drainer for each thread, which lets others run after some jobs. No effect on a
    /// manual wheel.
    ///
    /// A task of the pool must not wait for a job of the wheel by yielding (`rayon::yield_now` in a
    /// loop): it may be running on top of the drainer whose turn that job is. Nor should a job hold a
    /// lock across a wait in rayon, because rayon runs other tasks on top of it meanwhile.
    pub fn pool(mut self, pool: Arc<ThreadPool>) -> Builder {
        self.pool = Some(pool);
        self
    }

    /// How many hierarchies with a lock of their own share the jobs. Threads that insert are spread
    /// over them in turn. Twice the number of processors unless said, at most 64; 1 on a manual
    /// wheel. An empty shard of the default geometry takes 33 KB.
    pub fn shards(mut self, shards: usize) -> Builder {
        self.shards = Some(shards);
        self
    }

    /// How many jobs may be pending ([`Wheel::is_pending`]: a repeating job until its last run has
    /// ended, one for a wall-clock time until it starts). At the bound, [`Wheel::try_insert`] gives
    /// the job back, and [`Wheel::insert`] panics. No bound unless said.
    pub fn max_pending(mut self, bound: usize) -> Builder {
        self.max_pending = Some(bound);
        self
    }

    /// How many jobs may have been handed to the pool and not have ended. At the bound, what is due
    /// waits in the wheel, where it can still be cancelled. No bound unless said; no effect on a
    /// manual wheel, which runs one at a time.
    pub fn max_in_flight(mut self, bound: usize) -> Builder {
        self.max_in_flight = Some(bound);
        self
    }

    /// Called with the payload of every panic that is stopped: of a job, or of a captured value
    /// while it is dropped, on the thread where that happened. Without it, panics are only counted
    /// ([`Stats::panicked`](crate::Stats::panicked)) and reported by the panic hook, as ever.
    ///
    /// Should the handler panic, that is counted too, and goes no further. Where two values that one
    /// job captured both panic while they are dropped, the language ends the process.
    ///
    /// The handler is dropped with its wheel (of a manual wheel, with its driver), when the last job
    /// that was running has ended.
    pub fn on_panic(
        mut self,
        handler: impl Fn(Box<dyn Any + Send>) + Send + Sync + 'static,
    ) -> Builder {
        self.on_panic = Some(Box::new(handler));
        self
    }

    /// What the wheel's threads are called: `name-ticker`, `name-0`, `name-1`… Linux shows the
    /// first 15 bytes. `tickwheel` unless said.
    pub fn name(mut self, name: &str) -> Builder {
        name.clone_into(&mut self.name);
        self
    }

    /// Builds the wheel and starts its threads.
    ///
    /// # Errors
    ///
    /// [`ConfigError`] for a value that makes no sense, which it names, or when the system refuses
    /// to start a thread. No thread stays behind then.
    pub fn build(mut self) -> Result<Wheel, ConfigError> {
        let source = self.pool_source()?;
        let max_in_flight = within(self.max_in_flight, usize::MAX, ConfigError::MaxInFlight)?;
        let max_in_flight = max_in_flight.unwrap_or(usize::MAX);
        let name = self.name.clone();
        let shards = (processors() * 2).min(64);
        let (config, handler) = self.config(Clock::monotonic(), shards)?;
        let engine = Arc::new(Engine::new(config));
        let threads = Threads::start(&engine, source, max_in_flight, &name, handler.clone())?;
        Ok(Wheel::assemble(engine, Some(threads), handler))
    }

    /// Builds a wheel without a thread, whose clock the [`Driver`] moves.
    ///
    /// # Errors
    ///
    /// [`ConfigError`] for a value that makes no sense, also where it has no effect here.
    pub fn manual(mut self) -> Result<(Wheel, Driver), ConfigError> {
        self.pool_source()?;
        within(self.max_in_flight, usize::MAX, ConfigError::MaxInFlight)?;
        let (config, handler) = self.config(Clock::manual(), 1)?;
        let engine = Arc::new(Engine::new(config));
        let wheel = Wheel::assemble(Arc::clone(&engine), None, handler.clone());
        Ok((wheel, Driver::new(engine, handler)))
    }

    fn pool_source(&mut self) -> Result<PoolSource, ConfigError> {
        let threads = within(self.threads, Builder::MAX_THREADS, ConfigError::Threads)?;
        Ok(match self.pool.take() {
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

impl Default for Builder {
    fn default() -> Builder {
        Builder::new()
    }
}

impl fmt::Debug for Builder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Builder")
            .field("tick", &self.tick)
            .field("geometry", &self.geometry)
            .field("name", &self.name)
            .finish_non_exhaustive()
    }
}

// Here, because a wheel does not know its builder.
impl Wheel {
    /// A wheel with a tick of a millisecond, and a pool with a thread for each processor.
    ///
    /// # Panics
    ///
    /// When the system refuses to start a thread, which [`Builder::build`] returns as an error.
    #[must_use]
    pub fn new() -> Wheel {
        Wheel::builder().build().unwrap_or_else(|error| panic!("{error}"))
    }

    /// A wheel to your measure.
    pub fn builder() -> Builder {
        Builder::new()
    }
}

impl Default for Wheel {
    fn default() -> Wheel {
        Wheel::new()
    }
}

/// Passes a value from 1 to `max`, or none.
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

fn processors() -> usize {
    thread::available_parallelism().map_or(1, usize::from)
}
