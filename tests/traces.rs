//! What feature `tracing` promises: an event for a panic, for a ticker that is behind and for a waker that is slow,
//! and none for a timer.

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::future::Future;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, OnceLock, mpsc};
use std::task::{Context, Wake, Waker};
use std::thread;
use std::time::Duration;

use tickwheel::{Handle, Wheel};
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::subscriber::Interest;
use tracing::{Event, Level, Metadata, Subscriber};

const MS: Duration = Duration::from_millis(1);
const LONG: Duration = Duration::from_secs(60);
/// Longer than the delay that is traced, and than a loaded machine takes to do nothing.
const DELAY: Duration = Duration::from_millis(400);

/// An event, and the name of the thread that it came from.
#[derive(Clone, Debug)]
struct Noted {
    thread: String,
    level: Level,
    target: &'static str,
    fields: Fields,
}

#[derive(Clone, Default, Debug)]
struct Fields(BTreeMap<&'static str, String>);

impl Visit for Fields {
    fn record_str(&mut self, field: &Field, value: &str) {
        self.0.insert(field.name(), value.to_owned());
    }

    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        self.0.insert(field.name(), format!("{value:?}"));
    }
}

impl Noted {
    fn text(&self) -> &str {
        &self.fields.0["message"]
    }

    fn millis(&self, name: &str) -> u128 {
        self.fields.0[name].parse().unwrap()
    }
}

static NOTED: Mutex<Vec<Noted>> = Mutex::new(Vec::new());
/// The prefix of the names of threads whose events make the subscriber panic.
const DISTURBED: &str = "disturbed";

/// A subscriber that notes every event.
struct Notes;

fn disturb() {
    let is_disturbed = thread::current().name().unwrap_or_default().starts_with(DISTURBED);
    assert!(!is_disturbed, "the subscriber is disturbed");
}

impl Subscriber for Notes {
    /// It is asked anew for each event.
    fn register_callsite(&self, _: &'static Metadata<'static>) -> Interest {
        Interest::sometimes()
    }

    fn enabled(&self, _: &Metadata<'_>) -> bool {
        disturb();
        true
    }

    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn event(&self, event: &Event<'_>) {
        disturb();
        let thread = thread::current().name().unwrap_or_default().to_owned();
        let mut fields = Fields::default();
        event.record(&mut fields);
        let (level, target) = (*event.metadata().level(), event.metadata().target());
        NOTED.lock().unwrap().push(Noted { thread, level, target, fields });
    }

    fn enter(&self, _: &Id) {}

    fn exit(&self, _: &Id) {}
}

/// Begins to note events. Every test calls it first.
fn note() {
    static SET: OnceLock<()> = OnceLock::new();
    SET.get_or_init(|| tracing::subscriber::set_global_default(Notes).unwrap());
}

/// Returns the events of the threads of the wheel with this name.
fn events_of(name: &str) -> Vec<Noted> {
    let is_its = |event: &&Noted| event.thread.starts_with(name);
    NOTED.lock().unwrap().iter().filter(is_its).cloned().collect()
}

fn wait_until(what: &str, so: impl Fn() -> bool) {
    for _ in 0..LONG.as_millis() {
        if so() {
            return;
        }
        pause(MS);
    }
    panic!("waited in vain until {what}");
}

fn pause(time: Duration) {
    let (_sender, receiver) = mpsc::channel::<()>();
    let _ = receiver.recv_timeout(time);
}

/// Calls a closure when it is woken.
struct Calls<F>(F);

impl<F: Fn() + Send + Sync> Wake for Calls<F> {
    fn wake(self: Arc<Self>) {
        (self.0)();
    }
}

fn waker(call: impl Fn() + Send + Sync + 'static) -> Waker {
    Waker::from(Arc::new(Calls(call)))
}

/// Sleeps for a millisecond with a waker that takes this time, and may panic. It is called once.
fn wake_once(wheel: &Wheel, time: Duration, panics: bool) {
    let (called, at_call) = mpsc::channel();
    let waker = waker(move || {
        let _ = called.send(());
        pause(time);
        assert!(!panics, "the waker");
    });
    let mut sleep = Box::pin(wheel.sleep(MS));
    assert!(sleep.as_mut().poll(&mut Context::from_waker(&waker)).is_pending());
    thread::spawn(move || {
        // The waker is registered until the sleep is dropped.
        let _ = at_call.recv_timeout(LONG);
        drop(sleep);
    });
}

/// C89: A job that panics is an error with its handle and its message. So is a waker, without a handle. The handler of
/// panics is called as without the feature.
#[test]
fn panic_is_traced() {
    note();
    let (sender, panics) = mpsc::channel::<Option<Handle>>();
    let builder = Wheel::builder().threads(1).name("panic-is").on_panic(move |panic| {
        let _ = sender.send(panic.handle);
    });
    let wheel = builder.build().unwrap();
    let handle = wheel.insert(MS, || panic!("order {}", 7));
    assert_eq!(panics.recv_timeout(LONG).unwrap(), Some(handle));
    wake_once(&wheel, Duration::ZERO, true);
    assert_eq!(panics.recv_timeout(LONG).unwrap(), None);
    assert_eq!(wheel.stats().panicked, 2);
    drop(wheel);
    let events = events_of("panic-is");
    let [job, waker] = &events[..] else { panic!("{events:?}") };
    assert_eq!((job.level, job.target, job.text()), (Level::ERROR, "tickwheel", "a job panicked"));
    assert_eq!(job.fields.0["panic"], "order 7");
    assert_eq!(job.fields.0["handle"], format!("{handle:?}"));
    assert_eq!((waker.level, &*waker.fields.0["panic"]), (Level::ERROR, "the waker"));
}

/// C89: A waker that is slow is a warning, and the ticker that is behind after it is another: one, until it has caught
/// up.
#[test]
fn slow_waker_and_ticker_that_is_behind_are_traced() {
    note();
    let wheel = Wheel::builder().threads(1).name("slow-waker").build().unwrap();
    let (sender, ran) = mpsc::channel();
    for round in 1..=2 {
        wake_once(&wheel, DELAY, false);
        for n in 1..=20 {
            let sender = sender.clone();
            wheel.insert(MS * (2 + n), move || sender.send(n).unwrap());
        }
        (0..20).for_each(|_| assert!(ran.recv_timeout(LONG).is_ok()));
        // It has caught up when a job runs in time.
        wait_until("a job runs in time", || {
            let sender = sender.clone();
            wheel.insert(20 * MS, move || sender.send(0).unwrap());
            ran.recv_timeout(LONG).unwrap();
            wheel.stats().ticks_behind.get() < 50
        });
        let is_slow = |event: &Noted| event.fields.0.contains_key("took_ms");
        let events = events_of("slow-waker");
        let (slow, behind): (Vec<_>, Vec<_>) = events.into_iter().partition(is_slow);
        // A machine that stands still makes some more. An event for each of the twenty ticks would be too many.
        assert!((round..round + 10).contains(&slow.len()), "{slow:?}");
        assert!((round..round + 10).contains(&behind.len()), "{behind:?}");
        for event in &slow {
            assert_eq!((event.level, event.target), (Level::WARN, "tickwheel"));
            assert!(event.text().starts_with("a waker is slow"));
            assert!(event.millis("took_ms") >= 100);
        }
        for event in &behind {
            assert_eq!(event.text(), "the ticker is behind the clock");
            assert_eq!(event.level, Level::WARN);
            assert!(event.millis("behind_ms") >= 100);
        }
    }
}

/// C89: A loop of the user's advances the wheel when it likes, so it is never behind.
#[test]
fn loop_of_the_user_is_not_behind() {
    note();
    let run = || {
        let (wheel, driver) = Wheel::builder().driven().unwrap();
        wheel.insert(MS, || ());
        pause(DELAY);
        driver.run_due();
        assert_eq!(wheel.stats().fired, 1);
    };
    thread::Builder::new().name("users-loop".to_owned()).spawn(run).unwrap().join().unwrap();
    assert!(events_of("users-loop").is_empty());
}

/// C89: A future that is polled once and dropped while the ticker's thread is busy never drives. The thread is traced
/// then and later, as before.
#[test]
fn ticker_is_traced_after_a_future_that_did_not_drive() {
    note();
    let wheel = Wheel::builder().threads(1).name("did-not-drive").build().unwrap();
    for round in 1..=2 {
        let (called, at_call) = mpsc::channel();
        let (release, held) = mpsc::channel::<()>();
        let held = Mutex::new(held);
        // The waker blocks the thread that calls it, until `release` is dropped.
        let waker = waker(move || {
            called.send(()).unwrap();
            let _ = held.lock().unwrap().recv();
        });
        let mut sleep = Box::pin(wheel.sleep(20 * MS));
        assert!(sleep.as_mut().poll(&mut Context::from_waker(&waker)).is_pending());
        at_call.recv_timeout(LONG).unwrap();
        let mut drive = Box::pin(wheel.drive(|_| std::future::pending::<()>()));
        assert!(drive.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
        drop(drive);
        let (sender, ran) = mpsc::channel();
        wheel.insert(MS, move || sender.send(()).unwrap());
        pause(DELAY);
        drop(release);
        ran.recv_timeout(LONG).unwrap();
        let is_behind = |event: &Noted| event.fields.0.contains_key("behind_ms");
        wait_until("the delay is traced", || {
            events_of("did-not-drive").iter().filter(|event| is_behind(event)).count() >= round
        });
    }
}

/// C89: Timers in time are no events, however many there are.
#[test]
fn timers_are_not_traced() {
    note();
    let wheel = Wheel::builder().threads(1).name("quiet").build().unwrap();
    let fired = Arc::new(AtomicUsize::new(0));
    for n in 0..10_000 {
        let fired = Arc::clone(&fired);
        let handle = wheel.insert(MS * (n % 50), move || {
            fired.fetch_add(1, Ordering::Relaxed);
        });
        if n % 2 == 0 {
            let _ = wheel.cancel(handle);
        }
    }
    wait_until("they have fired", || {
        let stats = wheel.stats();
        stats.fired + stats.cancelled == 10_000
    });
    drop(wheel);
    // A machine that stands still makes a few.
    assert!(events_of("quiet").len() < 20, "{:?}", events_of("quiet"));
}

/// C89: A subscriber that panics ends neither the ticker nor a thread of the pool, and the handler of panics is called.
#[test]
fn subscriber_that_panics_harms_nothing() {
    note();
    let handled = Arc::new(AtomicBool::new(false));
    let told = Arc::clone(&handled);
    let builder = Wheel::builder().threads(1).name(DISTURBED);
    let wheel = builder.on_panic(move |_| told.store(true, Ordering::Release)).build().unwrap();
    wheel.insert(MS, || panic!("a job"));
    wait_until("the handler was called", || handled.load(Ordering::Acquire));
    wake_once(&wheel, DELAY, false);
    pause(DELAY + 50 * MS);
    let (sender, ran) = mpsc::channel();
    wheel.insert(MS, move || sender.send(()).unwrap());
    ran.recv_timeout(LONG).unwrap();
    assert!(wheel.stats().panicked >= 2, "that of the job, and that of the subscriber");
}
