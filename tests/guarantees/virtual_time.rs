//! The time of a manual wheel, and futures that run in it.

use super::polled::tokio;
use super::*;
use core::future::pending;

use futures::stream::StreamExt;
use tickwheel::{Events, Full, testing};

/// C84: `testing::run` delivers events that wait for room as soon as there is some.
#[test]
fn testing_run_delivers_events_that_wait_for_room() {
    let (wheel, driver) = manual();
    let (events, due) = Events::bounded(&wheel.scheduler(), 1, Full::Wait);
    for n in 0..2 {
        events.insert(MS, n).unwrap();
    }
    let (done, mut both) = futures::channel::oneshot::channel();
    // The channel is full, and one event waits, before the receiver starts.
    driver.advance(MS);
    let receiver = thread::spawn(move || {
        let received = [due.recv().unwrap().value, due.recv_timeout(MINUTE).unwrap().value];
        done.send(received).unwrap();
    });
    let mut received = testing::run(&driver, &mut both).unwrap();
    received.sort_unstable();
    assert_eq!(received, [0, 1]);
    receiver.join().unwrap();
}

/// C83: `testing::run` runs a future in virtual time, in the same order each time.
#[test]
fn testing_run_follows_the_order_of_deadlines() {
    // The same order in every run.
    let order = |seed: u64| {
        let (wheel, driver) = manual();
        let mut random = seed;
        let mut delays: Vec<u64> = (0..2_000)
            .map(|_| {
                random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                (random >> 33) % 1_000_000
            })
            .collect();
        let sleeps: futures::stream::FuturesUnordered<_> = delays
            .iter()
            .map(|&micros| {
                let sleep = wheel.sleep(Duration::from_micros(micros));
                async move {
                    sleep.await;
                    micros
                }
            })
            .collect();
        let begin = driver.now();
        let order: Vec<u64> = testing::run(&driver, sleeps.collect());
        delays.sort_unstable();
        assert_eq!(driver.now() - begin, Duration::from_millis(delays[1_999].div_ceil(1000)));
        let ticks = |micros: &[u64]| micros.iter().map(|us| us.div_ceil(1000)).collect::<Vec<_>>();
        assert!(ticks(&order) == ticks(&delays));
        order
    };
    assert!(order(7) == order(7));
    let (wheel, driver) = manual();
    // Jobs run on the way. A future that waits for no timer of the wheel waits for its thread.
    let (sender, receiver) = futures::channel::oneshot::channel();
    wheel.insert(HOUR, move || sender.send("job").unwrap());
    assert_eq!(testing::run(&driver, receiver), Ok("job"));
    let (sender, receiver) = futures::channel::oneshot::channel();
    let sends = thread::spawn(move || {
        let_pass(5 * MS);
        sender.send("thread").unwrap();
    });
    let now = driver.now();
    assert_eq!(testing::run(&driver, receiver), Ok("thread"));
    assert_eq!(driver.now(), now);
    sends.join().unwrap();
}

/// C83: Virtual time stands until the driver moves it, on any number of threads.
#[test]
fn virtual_time_holds_for_every_thread_of_a_runtime() {
    let (wheel, driver) = manual();
    let runtime = tokio(3);
    let begin = driver.now();
    let tasks: Vec<_> = (1..=50)
        .map(|n| {
            let scheduler = wheel.scheduler();
            runtime.spawn(async move {
                scheduler.sleep(n * HOUR).await;
                let limited = scheduler.timeout(n * HOUR, pending::<()>()).await;
                assert!(limited.is_err());
                scheduler.now()
            })
        })
        .collect();
    // Time stands until the driver is called, so the test waits until every task waits or has ended.
    let ended = || tasks.iter().filter(|task| task.is_finished()).count();
    while ended() < 50 {
        wait_for(|| wheel.stats().sleeping + ended() == 50);
        assert!(driver.advance_to_next().is_some() || ended() == 50);
    }
    let ends = tasks.into_iter().map(|task| runtime.block_on(task).unwrap() - begin);
    assert!(ends.eq((1..=50).map(|n| 2 * n * HOUR)));
}

/// C84: `testing::run` inside an advance of its driver panics if its future waits.
#[test]
fn testing_run_inside_an_advance_panics_if_it_must_wait() {
    let (wheel, driver) = manual();
    let (driver, scheduler) = (Arc::new(driver), wheel.scheduler());
    let inner = Arc::clone(&driver);
    let (told, tells) = channel();
    wheel.insert(MS, move || {
        // A future that does not wait may run here.
        assert_eq!(testing::run(&inner, async { 7 }), 7);
        let run = || testing::run(&inner, scheduler.sleep(HOUR));
        let panic = catch_unwind(AssertUnwindSafe(run)).unwrap_err();
        told.send(*panic.downcast::<&'static str>().unwrap()).unwrap();
    });
    let advances = thread::spawn(move || driver.advance(MS));
    let message = tells.recv_timeout(MINUTE).expect("it does not spin");
    assert!(message.contains("inside an advance"), "{message}");
    assert_eq!(advances.join().unwrap(), 1);
    // While another thread advances, a future waits for it.
    let (wheel, driver) = manual();
    let (wait, gate) = gate();
    wheel.insert(MS, wait);
    thread::scope(|scope| {
        scope.spawn(|| driver.advance(MS));
        gate.has_come();
        scope.spawn(move || {
            let_pass(5 * MS);
            drop(gate);
        });
        testing::run(&driver, wheel.sleep(HOUR));
    });
}
