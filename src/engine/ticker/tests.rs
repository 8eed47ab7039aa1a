//! Tests of the ticker, with outlets and sources that record the calls they get.

use super::*;
use crate::engine::dispatch::DueJob;
use crate::engine::sources::tests::Closures;
use crate::engine::verbs::Config;
use crate::host::clock::{Clock, Limit};
use crate::host::sync::{Mutex, lock};
use crate::host::user_panics::UnwindBoundary;
use crate::structure::Geometry;
use crate::values::error::ConfigError;
use crate::values::time::{Moment, Scale, When};
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;

/// Sends how many jobs were handed over. The second field is its room.
struct Tells(Sender<usize>, Arc<AtomicUsize>);

impl Outlet for Tells {
    fn room(&self) -> usize {
        self.1.load(Relaxed)
    }

    fn hand_over(&self, jobs: &mut Vec<DueJob>) {
        self.0.send(jobs.drain(..).count()).unwrap();
    }
}

/// Starts a ticker; the receiver gets the size of each hand-over.
fn ticking() -> (Arc<Engine>, thread::JoinHandle<()>, Receiver<usize>) {
    let engine = engine(Clock::monotonic());
    let (ticker, due) = ticker(&engine, &Arc::new(AtomicUsize::new(usize::MAX)));
    (engine, ticker, due)
}

fn ticker(
    engine: &Arc<Engine>,
    room: &Arc<AtomicUsize>,
) -> (thread::JoinHandle<()>, Receiver<usize>) {
    let (sender, due) = channel();
    let mut ticker = Ticker::new(Arc::clone(engine), Tells(sender, Arc::clone(room)));
    (thread::spawn(move || ticker.run(|| false)), due)
}

fn engine(clock: Clock) -> Arc<Engine> {
    engine_with(clock, UnwindBoundary::default())
}

fn engine_with(clock: Clock, boundary: UnwindBoundary) -> Arc<Engine> {
    Arc::new(Engine::new(Config {
        scale: Scale::new(Duration::from_millis(1)).unwrap(),
        clock,
        geometry: Geometry::default(),
        shards: 2,
        max_pending: None,
        boundary,
    }))
}

const DAY: Duration = Duration::from_secs(24 * 3600);
/// Longer than anything here takes on the slowest machine.
const MINUTE: Duration = Duration::from_secs(60);

/// C53: The ticker notices a wall clock that is set forward, also if no timer is due for a day.
#[test]
fn wall_clock_set_forward_is_noticed_while_nothing_is_due() {
    let (engine, ticker, due) = ticking();
    // The ticker plans to sleep for a day, without reading the wall clock. The next insert makes it
    // read the clock.
    engine.insert(When::after(DAY), || ()).unwrap();
    assert!(due.recv_timeout(Duration::from_millis(50)).is_err());
    let clock = Arc::clone(engine.timebase().clock());
    for round in 1..=2 {
        engine.insert(When::wall(clock.wall() + 2 * DAY), || ()).unwrap();
        assert!(due.recv_timeout(Duration::from_millis(50)).is_err());
        clock.set_wall(clock.wall() + 3 * DAY);
        assert_eq!(due.recv_timeout(MINUTE), Ok(1), "round {round}");
    }
    engine.stop();
    ticker.join().unwrap();
}

/// C53: The ticker runs a job in time that was inserted while the wall clock was set back between two readings.
#[test]
fn wall_clock_set_to_and_fro_between_readings_is_noticed() {
    let (engine, ticker, due) = ticking();
    let clock = Arc::clone(engine.timebase().clock());
    engine.insert(When::wall(clock.wall() + DAY), || ()).unwrap();
    assert!(due.recv_timeout(Duration::from_millis(50)).is_err());
    // When the ticker next reads the clock, it reads the same as before. But in between a job was
    // inserted, when its time was a day away.
    let time = clock.wall() + Duration::from_millis(100);
    clock.set_wall(clock.wall() - DAY);
    engine.insert(When::wall(time), || ()).unwrap();
    clock.set_wall(clock.wall() + DAY);
    assert_eq!(due.recv_timeout(MINUTE), Ok(1));
    engine.stop();
    ticker.join().unwrap();
}

/// The outlet has no room; the source beside it delivers all the same.
#[test]
fn jobs_that_wait_for_room_do_not_delay_a_source() {
    let (engine, room) = (engine(Clock::monotonic()), Arc::new(AtomicUsize::new(0)));
    let source = Closures::add_to(engine.sources());
    let (delivered, deliveries) = channel();
    engine.insert(Duration::ZERO.into(), || ()).unwrap();
    let (ticker, due) = ticker(&engine, &room);
    for round in 0..3 {
        // By now the ticker sleeps until a job ends.
        assert!(due.recv_timeout(Duration::from_millis(20)).is_err());
        let soon = engine.timebase().present().get() + 2;
        let delivered = delivered.clone();
        source.insert(soon, move || delivered.send(round).unwrap());
        assert_eq!(deliveries.recv_timeout(MINUTE), Ok(round));
    }
    room.store(1, Relaxed);
    engine.alarm().parker().wake();
    assert_eq!(due.recv_timeout(MINUTE), Ok(1));
    engine.stop();
    ticker.join().unwrap();
    assert!(source.closed().is_some());
}

/// Notes that jobs were handed over, and stops the engine after three times.
struct Notes {
    order: Arc<Mutex<Vec<&'static str>>>,
    engine: Arc<Engine>,
}

impl Outlet for Notes {
    fn room(&self) -> usize {
        usize::MAX
    }

    fn hand_over(&self, jobs: &mut Vec<DueJob>) {
        jobs.clear();
        let mut order = lock(&self.order);
        order.push("jobs");
        if order.iter().filter(|&&one| one == "jobs").count() == 3 {
            self.engine.stop();
        }
    }
}

/// Within a tick, jobs and sources take turns, one lock's share of entries each.
#[test]
fn jobs_and_sources_take_turns_within_a_tick() {
    let (engine, order) = (engine(Clock::manual()), Arc::new(Mutex::new(Vec::new())));
    let source = Closures::add_to(engine.sources());
    for _ in 0..3 * ENTRIES_PER_LOCK {
        engine.insert(Duration::ZERO.into(), || ()).unwrap();
        let order = Arc::clone(&order);
        source.insert(1, move || {
            let mut order = lock(&order);
            if order.last() != Some(&"source") {
                order.push("source");
            }
        });
    }
    engine.timebase().clock().set(Moment::NEVER);
    let outlet = Notes { order: Arc::clone(&order), engine: Arc::clone(&engine) };
    Ticker::new(Arc::clone(&engine), outlet).run(|| false);
    let order = lock(&order);
    assert!(order.windows(2).all(|two| two[0] != two[1]), "{order:?}");
}

/// A source that is added after the engine has stopped is closed at once.
#[test]
fn source_that_is_added_after_the_stop_is_closed() {
    let engine = engine(Clock::monotonic());
    engine.stop();
    let source = Closures::add_to(engine.sources());
    assert!(source.closed().is_some());
    assert!(engine.sources().get(0).is_none());
}

/// Reports refused threads, and moves the clock by an hour for each retry. Sends how many jobs were
/// handed over.
struct Refused {
    clock: Arc<Clock>,
    due: Sender<usize>,
}

impl Outlet for Refused {
    fn room(&self) -> usize {
        usize::MAX
    }

    fn hand_over(&self, jobs: &mut Vec<DueJob>) {
        self.due.send(jobs.drain(..).count()).unwrap();
    }

    fn retry_threads(&self) -> Option<Duration> {
        self.clock.set(self.clock.now().plus(DAY / 24));
        Some(DAY)
    }
}

/// C20: A try to start the pool's threads that takes an hour does not delay a job that comes due meanwhile.
#[test]
fn thread_start_that_takes_long_makes_no_job_late() {
    let engine = engine(Clock::manual());
    let (sender, due) = channel();
    let clock = Arc::clone(engine.timebase().clock());
    engine.insert(When::after(DAY / 24), || ()).unwrap();
    let mut ticker = Ticker::new(Arc::clone(&engine), Refused { clock, due: sender });
    let ticker = thread::spawn(move || ticker.run(|| false));
    assert_eq!(due.recv_timeout(MINUTE), Ok(1));
    engine.stop();
    ticker.join().unwrap();
}

/// Reports refused threads, and sends a message for each retry.
struct Asked(Sender<()>);

impl Outlet for Asked {
    fn room(&self) -> usize {
        usize::MAX
    }

    fn hand_over(&self, _: &mut Vec<DueJob>) {}

    fn retry_threads(&self) -> Option<Duration> {
        self.0.send(()).ok().map(|()| Duration::from_millis(1))
    }
}

/// C20: The ticker tries the start of refused threads again and again.
#[test]
fn thread_start_is_tried_again_after_a_refusal() {
    let engine = engine(Clock::monotonic());
    let (sender, asked) = channel();
    let mut ticker = Ticker::new(Arc::clone(&engine), Asked(sender));
    let ticker = thread::spawn(move || ticker.run(|| false));
    for _ in 0..3 {
        assert_eq!(asked.recv_timeout(MINUTE), Ok(()));
    }
    engine.stop();
    ticker.join().unwrap();
}

/// Has no threads to run jobs on, and reports that once.
struct Refuses(Mutex<Option<ConfigError>>);

impl Outlet for Refuses {
    fn room(&self) -> usize {
        usize::MAX
    }

    fn hand_over(&self, jobs: &mut Vec<DueJob>) {
        jobs.clear();
    }

    fn take_refusal(&self) -> Option<ConfigError> {
        lock(&self.0).take()
    }
}

/// C20: A stop with a limit ends at the limit, also while the panic handler has the report of refused threads.
#[test]
fn stop_with_a_limit_does_not_wait_for_a_report_of_a_refusal() {
    let ((told, is_told), (go, goes)) = (channel(), channel());
    let (told, goes) = (Mutex::new(told), Mutex::new(goes));
    let (boundary, _handler) = UnwindBoundary::new(Some(Box::new(move |panic: Panic| {
        lock(&told).send(panic.payload.downcast::<ConfigError>().unwrap().to_string()).unwrap();
        lock(&goes).recv().unwrap();
    })));
    let engine = engine_with(Clock::monotonic(), boundary);
    let refusal = ConfigError::Ticker(std::io::Error::other("no more threads"));
    let mut ticker = Ticker::new(Arc::clone(&engine), Refuses(Mutex::new(Some(refusal))));
    let activity = Arc::clone(&ticker.activity);
    let thread = thread::spawn(move || ticker.run(|| false));
    engine.insert(Duration::ZERO.into(), || ()).unwrap();
    assert!(is_told.recv_timeout(MINUTE).unwrap().ends_with("no more threads"));
    engine.stop();
    let (sender, has_ended) = channel();
    thread::spawn(move || sender.send(activity.wait(&Limit::new(Duration::from_millis(10)))));
    assert_eq!(has_ended.recv_timeout(MINUTE), Ok(false));
    go.send(()).unwrap();
    thread.join().unwrap();
}
