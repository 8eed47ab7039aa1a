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
use std::sync::mpsc::{Receiver, channel};
use std::thread;

/// An outlet that has room, drops the jobs, and has its threads, unless a field says something else.
#[derive(Default)]
struct Fake {
    room: Option<Arc<AtomicUsize>>,
    /// Gets the number of jobs of each hand-over.
    hand_over: Option<Box<dyn Fn(usize) + Send>>,
    retry_threads: Option<Box<dyn Fn() -> Option<Duration> + Send>>,
    refusal: Mutex<Option<ConfigError>>,
}

impl Outlet for Fake {
    fn room(&self) -> usize {
        self.room.as_ref().map_or(usize::MAX, |room| room.load(Relaxed))
    }

    fn hand_over(&self, jobs: &mut Vec<DueJob>) {
        let count = jobs.drain(..).count();
        self.hand_over.iter().for_each(|hand_over| hand_over(count));
    }

    fn retry_threads(&self) -> Option<Duration> {
        self.retry_threads.as_ref().and_then(|retry| retry())
    }

    fn take_refusal(&self) -> Option<ConfigError> {
        lock(&self.refusal).take()
    }
}

/// Returns an outlet, and a receiver of the size of each hand-over.
fn telling() -> (Fake, Receiver<usize>) {
    let (sender, due) = channel();
    let hand_over = move |count| sender.send(count).unwrap();
    (Fake { hand_over: Some(Box::new(hand_over)), ..Fake::default() }, due)
}

/// Starts a ticker. Returns a function that ends it, and the engine.
fn start(engine: &Arc<Engine>, outlet: Fake) -> impl FnOnce() + use<> {
    let (engine, mut ticker) = (Arc::clone(engine), Ticker::new(Arc::clone(engine), outlet));
    let thread = thread::spawn(move || ticker.run(|| false));
    move || {
        engine.stop();
        thread.join().unwrap();
    }
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
    let (engine, (outlet, due)) = (engine(Clock::monotonic()), telling());
    let end = start(&engine, outlet);
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
    end();
}

/// C53: The ticker runs a job in time that was inserted while the wall clock was set back between two readings.
#[test]
fn wall_clock_set_to_and_fro_between_readings_is_noticed() {
    let (engine, (outlet, due)) = (engine(Clock::monotonic()), telling());
    let end = start(&engine, outlet);
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
    end();
}

/// The outlet has no room; the source beside it delivers all the same.
#[test]
fn jobs_that_wait_for_room_do_not_delay_a_source() {
    let (engine, room) = (engine(Clock::monotonic()), Arc::new(AtomicUsize::new(0)));
    let (outlet, due) = telling();
    let source = Closures::add_to(engine.sources());
    let (delivered, deliveries) = channel();
    engine.insert(Duration::ZERO.into(), || ()).unwrap();
    let end = start(&engine, Fake { room: Some(Arc::clone(&room)), ..outlet });
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
    end();
    assert!(source.closed().is_some());
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
    let (notes, stops) = (Arc::clone(&order), Arc::clone(&engine));
    let hand_over = move |_| {
        let mut order = lock(&notes);
        order.push("jobs");
        if order.iter().filter(|&&one| one == "jobs").count() == 3 {
            stops.stop();
        }
    };
    let outlet = Fake { hand_over: Some(Box::new(hand_over)), ..Fake::default() };
    Ticker::new(Arc::clone(&engine), outlet).run(|| false);
    let order = lock(&order);
    assert!(order.windows(2).all(|two| two[0] != two[1]), "{order:?}");
}

/// C20: A try to start the pool's threads that takes an hour does not delay a job that comes due meanwhile.
#[test]
fn thread_start_that_takes_long_makes_no_job_late() {
    let engine = engine(Clock::manual());
    let (outlet, due) = telling();
    let clock = Arc::clone(engine.timebase().clock());
    let takes_an_hour = move || {
        clock.set(clock.now().plus(DAY / 24));
        Some(DAY)
    };
    engine.insert(When::after(DAY / 24), || ()).unwrap();
    let end = start(&engine, Fake { retry_threads: Some(Box::new(takes_an_hour)), ..outlet });
    assert_eq!(due.recv_timeout(MINUTE), Ok(1));
    end();
}

/// C20: The ticker tries the start of refused threads again and again.
#[test]
fn thread_start_is_tried_again_after_a_refusal() {
    let engine = engine(Clock::monotonic());
    let (sender, asked) = channel();
    let retry = move || sender.send(()).ok().map(|()| Duration::from_millis(1));
    let end = start(&engine, Fake { retry_threads: Some(Box::new(retry)), ..Fake::default() });
    for _ in 0..3 {
        assert_eq!(asked.recv_timeout(MINUTE), Ok(()));
    }
    end();
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
    let outlet = Fake { refusal: Mutex::new(Some(refusal)), ..Fake::default() };
    let mut ticker = Ticker::new(Arc::clone(&engine), outlet);
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
