//! Wheels that an async runtime drives, on the real clock.

use super::names::Compared;
use super::polled::{Polled, polled, tokio};
use super::*;
use core::future::{Future, Pending, pending};
use core::pin::Pin;
use core::task::{Context, Poll};

use tickwheel::{Drive, Keyed, Sleep};
use tokio::task::JoinHandle;
use tokio::time::{sleep_until, timeout};

/// Returns the future, with the sleep of tokio.
fn drive(wheel: &Wheel) -> impl Future<Output = ()> + Send + Unpin + use<> {
    wheel.drive(|until| sleep_until(until.into()))
}

/// Drives a wheel on a runtime of its own, until the wheel ends. Returns once the runtime drives it.
pub(crate) fn run_on_a_runtime(wheel: &Wheel) -> thread::JoinHandle<()> {
    let drive = drive(wheel);
    let thread = thread::spawn(|| tokio(1).block_on(drive));
    wait_for(|| woken_on(wheel) == thread.thread().id());
    thread
}

/// Calls a closure when a sleep of a millisecond is over. The sleep is kept until then.
fn call_soon(wheel: &Wheel, wake: impl Fn() + Clone + Send + Sync + 'static) -> Sleep {
    loop {
        let mut sleep = wheel.sleep(MS);
        let waker = waker(wake.clone());
        // Otherwise a loaded machine let the time pass before the poll.
        if Pin::new(&mut sleep).poll(&mut Context::from_waker(&waker)).is_pending() {
            return sleep;
        }
    }
}

/// Returns the thread on which the wheel calls a waker.
fn woken_on(wheel: &Wheel) -> thread::ThreadId {
    let (sender, woken) = channel();
    let _sleep = call_soon(wheel, move || sender.send(thread::current().id()).unwrap());
    woken.recv_timeout(MINUTE).unwrap()
}

/// A future that drives a wheel and is polled by hand. It sends the times until which it would sleep,
/// and sleeps for ever.
type ByHand = Polled<Drive<Box<dyn FnMut(Instant) -> Pending<()>>, Pending<()>>>;

fn by_hand(wheel: &Wheel) -> (ByHand, Receiver<Instant>) {
    let (sender, asked) = channel();
    let sleep_until = move |until| {
        sender.send(until).unwrap();
        pending()
    };
    (polled(wheel.drive(Box::new(sleep_until) as Box<_>)), asked)
}

/// Polls until the wheel's thread has given the wheel up: then no timer comes due between two polls.
fn take_over(wheel: &Wheel, drive: &mut Polled<impl Future<Output = ()>>) {
    assert!(drive.poll().is_pending());
    let begin = now();
    loop {
        assert!(begin.elapsed() < MINUTE, "the thread keeps the wheel");
        assert!(drive.poll().is_pending());
        let woken = Arc::new(AtomicBool::new(false));
        let wakes = Arc::clone(&woken);
        let _sleep = call_soon(wheel, move || wakes.store(true, Ordering::SeqCst));
        let_pass(20 * MS);
        if !woken.load(Ordering::SeqCst) {
            return assert!(drive.poll().is_pending());
        }
    }
}

/// C85: The runtime's thread wakes the tasks. After the future is dropped, the wheel's own thread does.
#[test]
fn runtime_that_drives_wakes_the_tasks_until_the_future_is_dropped() {
    let wheel = Wheel::builder().name("own-thread").build().unwrap();
    for _ in 0..3 {
        let runtime = tokio(1);
        let task = runtime.spawn(drive(&wheel));
        runtime.block_on(async {
            let here = thread::current().id();
            timeout(MINUTE, async {
                loop {
                    let (sender, mut woken) = tokio::sync::mpsc::unbounded_channel();
                    let wake = move || sender.send(thread::current().id()).unwrap();
                    let _sleep = call_soon(&wheel, wake);
                    if woken.recv().await.unwrap() == here {
                        return;
                    }
                }
            })
            .await
            .expect("the runtime takes the wheel over");
            wheel.sleep(3 * MS).await;
        });
        // The future goes with the runtime.
        drop(runtime);
        assert!(task.is_finished());
        assert_ne!(woken_on(&wheel), thread::current().id());
        futures::executor::block_on(wheel.sleep(3 * MS));
    }
}

/// C85: An insert by another thread that is due earlier than everything else wakes the runtime. Jobs run
/// on the wheel's pool.
#[test]
fn runtime_that_drives_is_woken_for_earlier_timers() {
    let wheel = Wheel::builder().threads(1).name("pool-of-driven").build().unwrap();
    for runtime in [1, 2].map(tokio) {
        runtime.block_on(async {
            let driver = tokio::spawn(drive(&wheel));
            let mut far = polled(wheel.sleep(HOUR));
            assert!(far.poll().is_pending());
            for _ in 0..20 {
                let (sender, ran) = tokio::sync::oneshot::channel();
                let scheduler = wheel.scheduler();
                let begin = now();
                let job = move || {
                    let _ = sender.send((now(), thread::current().name().map(str::to_owned)));
                };
                thread::spawn(move || scheduler.insert(5 * MS, job).unwrap());
                let (at, name) = timeout(MINUTE, ran).await.expect("it wakes").unwrap();
                assert!(at - begin >= 5 * MS, "early");
                assert_eq!(name.as_deref(), Some("pool-of-driven-0"));
            }
            driver.abort();
        });
    }
}

/// C87: The end of the wheel waits for no poll. The future is ready then, and no thread is left.
#[test]
fn future_that_drives_is_ready_when_the_wheel_ends() {
    let wheel = Wheel::builder().name("ends-driven").build().unwrap();
    let runtime = tokio(1);
    // The pool has its threads.
    wheel.insert(Duration::ZERO, || ());
    assert!(wheel.wait_idle());
    let driver = runtime.spawn(drive(&wheel));
    runtime.block_on(wheel.sleep(5 * MS));
    wheel.insert(HOUR, || ());
    assert_eq!(wheel.shutdown().len(), 1);
    #[cfg(target_os = "linux")]
    assert_eq!(threads_named("ends-driven").len(), 0);
    runtime.block_on(async { timeout(MINUTE, driver).await.expect("it is woken").unwrap() });

    let (mut late, _) = by_hand(&Wheel::new());
    assert!(late.poll().is_ready(), "the wheel had ended");
    let ended = Wheel::new();
    assert_eq!(ended.close().len(), 0);
    let (mut late, _) = by_hand(&ended);
    assert!(late.poll().is_ready() && late.poll().is_ready());
}

/// C87: A waker that the runtime calls while it drives may end the wheel.
#[test]
fn waker_may_end_the_wheel_that_its_runtime_drives() {
    for drops in [true, false] {
        let wheel = Arc::new(Mutex::new(Some(Wheel::new())));
        let lock = wheel.lock().unwrap();
        let inside = lock.as_ref().unwrap();
        let runtime = run_on_a_runtime(inside);
        let (ends, (sender, ended)) = (Arc::clone(&wheel), channel());
        let _sleep = call_soon(inside, move || {
            let wheel = ends.lock().unwrap().take().unwrap();
            match drops {
                true => drop(wheel),
                false => assert_eq!(wheel.shutdown().len(), 0),
            }
            sender.send(thread::current().id()).unwrap();
        });
        drop(lock);
        assert_eq!(ended.recv_timeout(MINUTE), Ok(runtime.thread().id()));
        runtime.join().unwrap();
    }
}

/// C86: The first future that was polled drives, and the next ones stand by. The last one that is dropped
/// leaves the wheel to its thread. The waker of the last poll is called.
#[test]
fn futures_drive_one_after_the_other_and_then_the_thread_does() {
    let wheel = Wheel::new();
    let (mut first, _) = by_hand(&wheel);
    take_over(&wheel, &mut first);
    let (mut second, asked) = by_hand(&wheel);
    assert!(second.poll().is_pending());
    let mut sleep = polled(wheel.sleep(MS));
    assert!(sleep.poll().is_pending() && first.wakes() > 0);
    let_pass(20 * MS);
    assert!(second.poll().is_pending() && asked.try_recv().is_err());
    assert_eq!(sleep.wakes(), 0, "the first drives, and nobody polls it");
    assert!(first.poll().is_pending());
    assert!(sleep.poll().is_ready());

    let before = second.wakes();
    drop(first);
    assert!(second.wakes() > before, "it is its turn");
    assert!(second.poll().is_pending());
    let mut far = polled(wheel.sleep(HOUR));
    assert!(far.poll().is_pending());
    assert!(second.poll().is_pending());
    // The third leaves the queue and changes nothing. The second has a new waker.
    let (mut third, _) = by_hand(&wheel);
    assert!(third.poll().is_pending());
    drop(third);
    let before = second.wakes();
    let (waker, woken) = counting_waker();
    assert!(second.poll_by(&waker).is_pending());
    let mut sleep = polled(wheel.sleep(MS));
    assert!(sleep.poll().is_pending());
    assert!(woken() > 0 && second.wakes() == before);
    let_pass(10 * MS);
    assert_eq!(sleep.wakes(), 0);
    drop(second);
    wait_for(|| sleep.wakes() == 1);
}

/// C85: The runtime sleeps once until the next timer, and again only if an earlier one comes.
#[test]
fn runtime_that_drives_sleeps_anew_only_for_earlier_timers() {
    let wheel = Wheel::new();
    let (mut drive, asked) = by_hand(&wheel);
    take_over(&wheel, &mut drive);
    let mut sleeps: Vec<Polled<Sleep>> = [100, 60].map(|ms| polled(wheel.sleep(ms * HOUR))).into();
    sleeps.iter_mut().for_each(|sleep| assert!(sleep.poll().is_pending()));
    assert!(drive.poll().is_pending());
    let asked = || asked.try_iter().collect::<Vec<_>>();
    assert!(!asked().is_empty());
    for _ in 0..5 {
        assert!(drive.poll().is_pending());
    }
    assert_eq!(asked(), []);
    let before = drive.wakes();
    let begin = now();
    let mut earlier = polled(wheel.sleep(MINUTE));
    assert!(earlier.poll().is_pending() && drive.wakes() > before);
    assert!(drive.poll().is_pending() && drive.poll().is_pending());
    let times = asked();
    assert_eq!(times.len(), 1);
    assert!(times[0] > begin && times[0] <= now() + MINUTE + MS);
    let before = drive.wakes();
    let mut later = polled(wheel.sleep(2 * MINUTE));
    assert!(later.poll().is_pending());
    assert_eq!(drive.wakes(), before, "a later timer needs no poll");
}

/// A sleep of a runtime, and a function that makes it, one of which panics once.
#[derive(Clone)]
struct Unkind(Arc<AtomicUsize>);

impl Unkind {
    const MAKES: usize = 1;
    const POLLS: usize = 2;
    const DROPS: usize = 3;

    fn may_panic(&self, at: usize) {
        if self.0.compare_exchange(at, 0, Ordering::SeqCst, Ordering::SeqCst).is_ok() {
            panic_any("unkind");
        }
    }
}

impl Future for Unkind {
    type Output = ();

    fn poll(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<()> {
        self.may_panic(Unkind::POLLS);
        Poll::Pending
    }
}

impl Drop for Unkind {
    fn drop(&mut self) {
        self.may_panic(Unkind::DROPS);
    }
}

/// C86: If the function or the sleep of the runtime panics, the wheel's own thread goes on. A task that catches the
/// panic may keep the future. If the task polls it again, it drives again.
#[test]
fn panic_of_the_runtimes_sleep_leaves_the_wheel_to_its_thread() {
    for fault in [Unkind::MAKES, Unkind::POLLS, Unkind::DROPS] {
        let wheel = Wheel::new();
        let faults = Arc::new(AtomicUsize::new(0));
        let unkind = Unkind(Arc::clone(&faults));
        let mut drive = polled(wheel.drive(move |_| {
            unkind.may_panic(Unkind::MAKES);
            unkind.clone()
        }));
        for _ in 0..2 {
            let mut far = polled(wheel.sleep(2 * HOUR));
            assert!(far.poll().is_pending());
            take_over(&wheel, &mut drive);
            let mut earlier = polled(wheel.sleep(HOUR));
            assert!(earlier.poll().is_pending());
            faults.store(fault, Ordering::SeqCst);
            let panicked = catch_unwind(AssertUnwindSafe(|| drive.poll()));
            assert_eq!((panicked.is_err(), faults.load(Ordering::SeqCst)), (true, 0), "{fault}");
            let mut sleep = polled(wheel.sleep(MS));
            if sleep.poll().is_pending() {
                wait_for(|| sleep.wakes() == 1);
            }
        }
        drop(drive);
        futures::executor::block_on(wheel.sleep(MS));
        assert_eq!(wheel.stats().panicked, 0);
    }
}

/// C68: A future may begin to drive while a key is compared. Its waker is called after the lock of the keys is
/// released.
#[test]
fn waker_may_use_the_key_that_is_compared_when_it_begins_to_drive() {
    let wheel = Wheel::new();
    let mut drive = polled(wheel.drive(|_| pending::<()>()));
    let keyed = Keyed::new(&wheel);
    let key = Compared::default;
    keyed.insert(key(), 2 * HOUR, || ()).unwrap();
    let asks = keyed.clone();
    let (sender, asked) = channel();
    let waker = waker(move || sender.send(asks.contains(&Compared::default())).unwrap());
    let ((compares, compared), (drives, driven)) = (channel(), channel());
    let calls = Compared::calling(move || {
        compares.send(()).unwrap();
        driven.recv_timeout(MINUTE).unwrap();
    });
    keyed.insert(calls, 2 * HOUR, || ()).unwrap();
    // On a thread of its own: if the waker took a lock that is held, it would wait for ever.
    let inserts = thread::spawn(move || keyed.insert(key(), HOUR, || ()).map(drop).is_ok());
    compared.recv_timeout(MINUTE).unwrap();
    take_over(&wheel, &mut drive);
    assert!(drive.poll_by(&waker).is_pending());
    drives.send(()).unwrap();
    assert_eq!(asked.recv_timeout(MINUTE), Ok(true));
    assert!(inserts.join().unwrap());
}

/// C87: On a manual wheel the future waits for the end of the wheel, and changes nothing.
#[test]
fn manual_wheel_is_driven_by_its_driver_alone() {
    let (wheel, driver) = manual();
    let (mut drive, asked) = by_hand(&wheel);
    assert!(drive.poll().is_pending());
    let mut sleep = polled(wheel.sleep(MS));
    assert!(sleep.poll().is_pending() && drive.poll().is_pending());
    driver.advance(MS);
    assert!(sleep.poll().is_ready());
    drop(wheel);
    assert_eq!(drive.wakes(), 1);
    assert!(drive.poll().is_ready() && asked.try_recv().is_err());
}

/// C87: A shutdown waits for a waker that a runtime calls while it drives, no longer than its limit.
#[test]
fn shutdown_waits_for_a_waker_on_a_runtime_no_longer_than_its_limit() {
    let wheel = Wheel::new();
    let runtime = run_on_a_runtime(&wheel);
    let (wait, gate) = gate();
    let wait = Arc::new(Mutex::new(wait));
    let _sleep = call_soon(&wheel, move || (wait.lock().unwrap())());
    gate.has_come();
    let begin = now();
    assert_eq!(wheel.shutdown_timeout(20 * MS).len(), 0);
    assert!(begin.elapsed() >= 20 * MS);
    drop(gate);
    runtime.join().unwrap();
}

/// C86: No timer is lost or early while the thread and futures take turns, on several threads.
#[test]
fn timers_come_due_while_the_wheel_changes_hands() {
    let wheel = Arc::new(Wheel::new());
    let runtime = tokio(2);
    let ran = Arc::new(AtomicUsize::new(0));
    runtime.block_on(async {
        let sleepers: Vec<_> = (0..8_u32)
            .map(|task| {
                let wheel = Arc::clone(&wheel);
                tokio::spawn(async move {
                    for round in 0..100 {
                        let (begin, delay) = (now(), (round * 7 + task) % 5 * MS);
                        wheel.sleep(delay).await;
                        assert!(begin.elapsed() >= delay);
                    }
                })
            })
            .collect();
        let mut drivers: Vec<JoinHandle<()>> = Vec::new();
        for round in 0..200_usize {
            let count = Arc::clone(&ran);
            wheel.insert(MS, move || {
                count.fetch_add(1, Ordering::SeqCst);
            });
            match round % 3 {
                0 => drivers.iter().for_each(JoinHandle::abort),
                _ => drivers.push(tokio::spawn(drive(&wheel))),
            }
            tokio::time::sleep(Duration::from_micros(100 * (round as u64 % 9))).await;
        }
        let end = async {
            for sleeper in sleepers {
                sleeper.await.unwrap();
            }
        };
        timeout(MINUTE, end).await.expect("no sleep is lost");
    });
    wait_for(|| ran.load(Ordering::SeqCst) == 200);
}
