//! Futures with a time limit, and futures on executors.

use super::polled::{Polled, polled, tokio};
use super::*;
use core::future::{Future, pending, poll_fn, ready};
use core::pin::Pin;
use core::task::Poll;
use std::io;

use futures::FutureExt;
use tickwheel::{Elapsed, Timeout};

/// Returns whether a timeout was over, and whether its wheel was gone.
fn outcome<T>(result: Result<T, Elapsed>) -> (bool, bool) {
    (result.is_err(), result.is_err_and(|elapsed| elapsed.wheel_gone()))
}

/// C74: The time of a `timeout` counts from its first poll.
#[test]
fn timeout_counts_from_its_first_poll() {
    let (wheel, driver) = manual();
    let mut limited = polled(wheel.timeout(5 * MS, pending::<()>()));
    driver.advance(10 * MS);
    assert!(limited.poll().is_pending());
    driver.advance(4 * MS);
    assert!(limited.poll().is_pending() && limited.wakes() == 0);
    driver.advance(MS);
    assert!(limited.wakes() == 1 && limited.poll() == Poll::Ready(Err(elapsed())));
    // The clock is read when the future was not ready, and not before.
    let slow = poll_fn(|_| {
        driver.advance(MS);
        Poll::<()>::Pending
    });
    let begin = driver.now();
    let mut limited = polled(wheel.timeout(5 * MS, slow));
    while limited.poll().is_pending() {}
    assert_eq!(driver.now() - begin, 6 * MS);
    on_both_clocks(MS, |wheel, time| {
        let mut limited = polled(wheel.timeout(3 * MS, pending::<()>()));
        let begin = time.now();
        assert_eq!(outcome(limited.finish(time)), (true, false));
        assert!(time.now() >= begin + 3 * MS);
    });
}

/// Returns the error of a timeout whose time is over.
fn elapsed() -> Elapsed {
    let (wheel, driver) = manual();
    let mut limited = polled(wheel.timeout_at(driver.now(), pending::<()>()));
    let Poll::Ready(Err(elapsed)) = limited.poll() else { panic!("the time has passed") };
    elapsed
}

/// C75: A future that is ready wins over a time that has passed.
#[test]
fn ready_future_wins_over_a_time_that_has_passed() {
    on_both_clocks(MS, |wheel, time| {
        time.pass(2 * MS);
        assert_eq!(polled(wheel.timeout(Duration::ZERO, ready(7))).poll(), Poll::Ready(Ok(7)));
        let mut passed = polled(wheel.timeout_at(time.now() - MS, ready(7)));
        assert_eq!(passed.poll(), Poll::Ready(Ok(7)));
        // The future and the time are ready at the same poll.
        let mut polls = 0;
        let second = poll_fn(move |_| {
            polls += 1;
            if polls == 2 { Poll::Ready(polls) } else { Poll::Pending }
        });
        let mut limited = polled(wheel.timeout(2 * MS, second));
        assert!(limited.poll().is_pending());
        time.until(|| limited.wakes() == 1);
        assert_eq!(limited.poll(), Poll::Ready(Ok(2)));
        drop(limited);
        assert_eq!(wheel.stats().sleeping, 0);
    });
}

/// C75: A future that is always busy times out.
#[test]
fn busy_future_times_out() {
    on_both_clocks(MS, |wheel, time| {
        let busy = poll_fn(|cx| {
            cx.waker().wake_by_ref();
            Poll::<()>::Pending
        });
        let mut limited = polled(wheel.timeout(5 * MS, busy));
        let begin = time.now();
        while limited.poll().is_pending() {
            time.pass(Duration::from_micros(100));
        }
        assert!(time.now() >= begin + 5 * MS);
    });
}

/// C72: A timeout returns an error that says that its wheel is gone.
#[test]
fn timeout_fails_when_its_wheel_is_gone() {
    for end in ENDS {
        for wheel in [manual().0, threads(1)] {
            let scheduler = wheel.scheduler();
            let mut limited = polled(scheduler.timeout(HOUR, pending::<()>()));
            assert!(limited.poll().is_pending());
            end(wheel);
            assert_eq!(limited.wakes(), 1);
            let elapsed = limited.finish(&Time::real()).unwrap_err();
            assert!(elapsed.wheel_gone() && elapsed.to_string().contains("ended"), "{elapsed}");
            assert_eq!(io::Error::from(elapsed).kind(), io::ErrorKind::TimedOut);
            let mut late = polled(scheduler.timeout(HOUR, pending::<()>()));
            assert_eq!(late.poll().map(outcome), Poll::Ready((true, true)));
            let mut ready = polled(scheduler.timeout(HOUR, ready(7)));
            assert_eq!(ready.poll(), Poll::Ready(Ok(7)));
        }
    }
    let elapsed = elapsed();
    assert!(!elapsed.wheel_gone() && elapsed.to_string().contains("time was over"), "{elapsed}");
}

/// C75: A timeout gives its future back.
#[test]
fn timeout_gives_its_future_back() {
    let (wheel, driver) = manual();
    let mut limited = wheel.timeout(MS, wheel.sleep(HOUR));
    assert_eq!(limited.get_ref().deadline(), driver.now() + HOUR);
    limited.get_mut().reset(2 * HOUR);
    {
        let mut limited = polled(&mut limited);
        assert!(limited.poll().is_pending());
        assert_eq!(wheel.stats().sleeping, 2);
    }
    let mut sleep = polled(limited.into_inner());
    assert_eq!(wheel.stats().sleeping, 1);
    driver.advance(2 * HOUR);
    assert!(sleep.poll().is_ready());
}

/// Sleeps and timeouts of several lengths, and many sleeps in a row.
async fn exercise(scheduler: Scheduler) {
    for micros in [0, 1, 300, 1000, 3000] {
        let begin = now();
        let delay = Duration::from_micros(micros);
        scheduler.sleep(delay).await;
        assert!(begin.elapsed() >= delay);
        let limited = scheduler.timeout(delay, pending::<()>()).await;
        assert!(begin.elapsed() >= 2 * delay && !limited.unwrap_err().wheel_gone());
        let in_time = scheduler.timeout(MINUTE, scheduler.sleep(delay)).await;
        assert_eq!(in_time, Ok(()));
    }
    for _ in 0..200 {
        scheduler.sleep(Duration::ZERO).await;
    }
}

/// C71: Futures work on every executor, and on several threads.
#[test]
fn futures_work_on_every_executor() {
    let wheel = Wheel::builder().tick(Duration::from_micros(200)).threads(1).build().unwrap();
    for threads in [1, 3] {
        let runtime = tokio(threads);
        let tasks = (0..20).map(|_| runtime.spawn(exercise(wheel.scheduler())));
        let tasks: Vec<_> = tasks.collect();
        runtime.block_on(async {
            for task in tasks {
                task.await.unwrap();
            }
        });
    }
    let own = || polled(Box::pin(exercise(wheel.scheduler())) as Pin<Box<dyn Future<Output = ()>>>);
    let mut own: Vec<Polled<_>> = (0..5).map(|_| own()).collect();
    own.iter_mut().for_each(|task| task.finish(&Time::real()));
    futures::executor::block_on(exercise(wheel.scheduler()));
    assert_eq!(wheel.stats().sleeping, 0);
}

/// C65: A sleep in `select!` keeps its time when another branch wins.
#[test]
fn sleep_in_a_select_survives_when_another_branch_wins() {
    let wheel = threads(1);
    tokio(1).block_on(async {
        // Neither pinned nor fused, in both kinds of `select!`.
        let begin = now();
        let (mut sleep, mut long) = (wheel.sleep(30 * MS), wheel.sleep(HOUR));
        for _ in 0..3 {
            tokio::select! {
                () = &mut long => unreachable!(),
                () = wheel.sleep(MS) => {}
            }
            let mut short = wheel.sleep(MS);
            futures::select! {
                () = long => unreachable!(),
                () = short => {}
            }
        }
        let mut others = 0;
        loop {
            let mut short = wheel.sleep(MS);
            futures::select! {
                () = sleep => break,
                () = short => others += 1,
            }
        }
        assert!(begin.elapsed() >= 30 * MS && others <= 30);
        assert!(sleep.now_or_never().is_some(), "it stays over");
        // Moved from one set of futures to another.
        let mut set = futures::stream::FuturesUnordered::new();
        set.push(wheel.sleep(MS));
        set.push(long);
        futures::StreamExt::next(&mut set).await;
        assert_eq!(set.len(), 1);
    });
    assert_eq!(wheel.stats().sleeping, 0);
}

/// C69: A waker of a runtime that is gone does no harm.
#[test]
fn waker_of_a_dropped_runtime_does_no_harm() {
    for threads in [1, 2] {
        let wheel = self::threads(1);
        let runtime = tokio(threads);
        let mut kept = wheel.sleep(20 * MS);
        // The sleep outlives the runtime, and holds the waker of a task of that runtime.
        let sleep = Arc::new(Mutex::new(Some(wheel.sleep(10 * MS))));
        let (polls, scheduler) = (Arc::clone(&sleep), wheel.scheduler());
        let (was_polled, polled_once) = futures::channel::oneshot::channel();
        let task = runtime.spawn(async move {
            poll_fn(|cx| {
                let mut sleep = polls.lock().unwrap();
                let _ = Pin::new(sleep.as_mut().unwrap()).poll(cx);
                Poll::Ready(())
            })
            .await;
            was_polled.send(()).unwrap();
            scheduler.sleep(HOUR).await;
        });
        runtime.block_on(polled_once).unwrap();
        drop(runtime);
        wait_for(|| task.is_finished());
        wait_for(|| sleep.lock().unwrap().as_ref().unwrap().is_elapsed());
        futures::executor::block_on(&mut kept);
        assert_eq!((wheel.stats().sleeping, wheel.stats().panicked), (0, 0));
    }
}

/// C75: A task that owns a scheduler may await a timeout of it.
#[test]
fn task_that_owns_a_scheduler_may_await_its_timeout() {
    fn sends<T: Send>(future: T) -> T {
        future
    }
    let (wheel, runtime) = (threads(1), tokio(2));
    let scheduler = wheel.scheduler();
    let task = sends(async move {
        let limited: Timeout<'_, _> = scheduler.timeout(MS, pending::<()>());
        limited.await.is_err()
    });
    assert!(runtime.block_on(runtime.spawn(task)).unwrap());
}
