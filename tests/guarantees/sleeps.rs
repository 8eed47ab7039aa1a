//! Futures that wait for a time.

use super::polled::{Polled, polled};
use super::*;
use core::future::Future;
use core::pin::Pin;
use core::task::{Context, Poll};

use futures::future::FusedFuture;
use tickwheel::Sleep;

/// C60: A sleep is never over before its delay has passed, or before its instant.
#[test]
fn sleep_is_never_early() {
    on_both_clocks(MS, |wheel, time| {
        for delay in [0, 1, 999, 1000, 1001, 7_300, 40_000].map(Duration::from_micros) {
            let begin = time.now();
            let mut after = polled(wheel.sleep(delay));
            let mut within = polled(wheel.sleep_within(delay, 3 * MS));
            let mut until = polled(wheel.sleep_until(begin + delay));
            for sleep in [&mut after, &mut within, &mut until] {
                assert!(sleep.get().deadline() >= begin + delay);
                sleep.finish(time);
                assert!(time.now() >= begin + delay, "{delay:?}");
            }
        }
    });
}

/// C61: A sleep is over at the first tick from its time on, or at a tick within its slack.
#[test]
fn sleep_is_over_at_the_first_tick_after_its_time() {
    type Make = fn(&Wheel) -> Sleep;
    let cases: [(Make, u32); 8] = [
        (|wheel| wheel.sleep(Duration::ZERO), 1),
        (|wheel| wheel.sleep(Duration::from_micros(700)), 1),
        (|wheel| wheel.sleep(Duration::from_micros(701)), 2),
        (|wheel| wheel.sleep_until(wheel.now() + 6 * MS), 7),
        (|wheel| wheel.sleep_within(5 * MS, 5 * MS), 8),
        (|wheel| wheel.sleep(300 * MS), 301),
        (|wheel| wheel.sleep(65_536 * MS), 65_537),
        (|wheel| wheel.sleep((1 << 24) * MS), (1 << 24) + 1),
    ];
    for (sleep, tick) in cases {
        let (wheel, driver) = manual();
        let begin = driver.now();
        driver.advance(Duration::from_micros(300));
        let mut sleep = polled(sleep(&wheel));
        assert!(sleep.poll().is_pending());
        driver.advance(tick * MS - Duration::from_micros(301));
        assert!(sleep.wakes() == 0 && sleep.poll().is_pending() && !sleep.get().is_elapsed());
        driver.advance(Duration::from_micros(1));
        assert_eq!((driver.now() - begin, sleep.wakes()), (tick * MS, 1));
        assert!(sleep.get().is_elapsed() && sleep.poll().is_ready());
    }
    // On the real clock the test can only show that the sleep ends.
    on_both_clocks(MS, |wheel, time| polled(wheel.sleep(3 * MS)).finish(time));
}

/// C62: A sleep until a past instant is over at the first poll, and one of no delay at the next tick.
#[test]
fn sleep_to_the_past_ends_at_once_and_a_zero_delay_next_tick() {
    on_both_clocks(MS, |wheel, time| {
        time.pass(5 * MS);
        for deadline in [time.now(), time.now() - MS, time.now() - HOUR] {
            let mut sleep = polled(wheel.sleep_until(deadline));
            assert!(!sleep.get().is_elapsed(), "nobody has looked");
            assert!(sleep.poll().is_ready() && sleep.get().is_elapsed() && sleep.wakes() == 0);
        }
        let (begin, rounds) = (time.now(), 10);
        for _ in 0..rounds {
            polled(wheel.sleep(Duration::ZERO)).finish(time);
        }
        assert!(time.ticks_between(begin, time.now()) >= rounds - 1, "one a tick");
    });
}

/// C64: A sleep that comes due while it is polled is ready in that poll, or its task is woken.
#[test]
fn sleep_due_during_its_poll_is_not_lost() {
    // Loom checks every interleaving of one sleep. This test runs many sleeps, on a complete wheel.
    let wheel = Wheel::builder().tick(Duration::from_micros(50)).shards(1).build().unwrap();
    let time = &Time::real();
    thread::scope(|scope| {
        for thread in 0..4 {
            let wheel = &wheel;
            scope.spawn(move || {
                for round in 0..500 {
                    let delay = Duration::from_micros((thread * 37 + round * 13) % 120);
                    polled(wheel.sleep(delay)).finish(time);
                }
            });
        }
    });
    assert_eq!(wheel.stats().sleeping, 0);
}

/// C65: A sleep may be polled, reset and dropped on any thread.
#[test]
fn sleep_may_be_polled_and_dropped_on_any_thread() {
    on_both_clocks(MS, |wheel, time| {
        let mut sleep = polled(wheel.sleep(20 * MS));
        let dropped = polled(wheel.sleep(HOUR));
        let _ = sleep.poll();
        thread::scope(|scope| {
            let (sleep, mut dropped) = (&mut sleep, dropped);
            scope.spawn(move || {
                assert!(dropped.poll().is_pending());
                let (time, wheel) = (time.clone(), wheel);
                drop(thread::scope(|scope| scope.spawn(move || dropped).join().unwrap()));
                sleep.finish(&time);
                assert_eq!(wheel.stats().sleeping, 0);
            });
        });
    });
}

/// C63, C66: `reset` gives a sleep another time, also before its first poll and after it was over.
#[test]
fn reset_sleep_waits_for_its_new_time() {
    on_both_clocks(MS, |wheel, time| {
        // Never polled, polled to later, polled to earlier, and after it was over.
        let far = || polled(wheel.sleep(HOUR));
        let (mut unpolled, mut later, mut earlier, mut over) =
            (far(), polled(wheel.sleep(2 * MS)), far(), polled(wheel.sleep(MS)));
        let _ = (later.poll(), earlier.poll());
        over.finish(time);
        let begin = time.now();
        for sleep in [&mut unpolled, &mut later, &mut earlier, &mut over] {
            sleep.get().reset(20 * MS);
            assert!(!sleep.get().is_terminated());
        }
        for sleep in [&mut unpolled, &mut later, &mut earlier, &mut over] {
            sleep.finish(time);
            assert!(time.now() >= begin + 20 * MS);
            assert!(sleep.get().is_terminated() && sleep.poll().is_ready(), "it stays over");
        }
        let at = time.now() + 10 * MS;
        later.get().reset_at(at);
        assert!(later.get().deadline() >= at - MS && later.get().deadline() <= at);
        later.finish(time);
        assert!(time.now() >= at);
        earlier.get().reset(Duration::MAX);
        // Its poll may have come before its wake.
        time.until(|| earlier.clones() == 0);
        let wakes = earlier.wakes();
        assert!(earlier.poll().is_pending());
        time.pass(5 * MS);
        assert_eq!((earlier.wakes(), wheel.stats().sleeping), (wakes, 1));
    });
}

/// C66: The sleep moves between shards of the wheel, since every thread here is a new one.
#[test]
fn reset_on_another_thread_keeps_the_waker() {
    on_both_clocks(MS, |wheel, time| {
        let elsewhere = |sleep: &mut Polled<Sleep>, delay: Duration| {
            thread::scope(|scope| scope.spawn(|| sleep.get().reset(delay)).join().unwrap());
        };
        for (first, then) in [(HOUR, 10 * MS), (MINUTE, 20 * MS)] {
            let mut sleeps: Vec<_> = (0..8).map(|_| polled(wheel.sleep(first))).collect();
            for sleep in &mut sleeps {
                assert!(sleep.poll().is_pending());
                elsewhere(sleep, HOUR);
            }
            assert_eq!(wheel.stats().sleeping, 8);
            let begin = time.now();
            sleeps.iter_mut().for_each(|sleep| elsewhere(sleep, then));
            for sleep in &mut sleeps {
                time.until(|| sleep.wakes() > 0);
                assert!(time.now() >= begin + then && sleep.poll().is_ready());
                assert_eq!(sleep.wakes(), 1);
                // The ticker drops a waker right after it has called it.
                time.until(|| sleep.clones() == 0);
            }
            assert_eq!(wheel.stats().sleeping, 0);
        }
    });
}

/// C66: A sleep that is reset to the past is over at the next poll, and the reset wakes its task.
#[test]
fn reset_to_the_past_is_over_at_the_next_poll() {
    on_both_clocks(MS, |wheel, time| {
        time.pass(3 * MS);
        let mut polls = polled(wheel.sleep(HOUR));
        let mut waits = polled(wheel.sleep(HOUR));
        assert!(polls.poll().is_pending() && waits.poll().is_pending());
        polls.get().reset_at(time.now());
        assert!(polls.poll().is_ready());
        waits.get().reset_at(time.now() - MS);
        time.until(|| waits.wakes() == 1);
        assert!(waits.poll().is_ready());
        // The ticker drops a waker right after it has called it.
        time.until(|| (polls.clones(), waits.clones()) == (0, 0));
    });
}

/// C67: A dropped sleep leaves no waker in the wheel.
#[test]
fn dropped_sleep_leaves_nothing_behind() {
    on_both_clocks(MS, |wheel, time| {
        let mut sleeps: Vec<_> = (0..100).map(|n| polled(wheel.sleep(n * MS))).collect();
        assert_eq!(wheel.stats().sleeping, 0, "it has no place before it is polled");
        let wakers: Vec<_> = sleeps
            .iter_mut()
            .map(|sleep| {
                let _ = sleep.poll();
                sleep.watch()
            })
            .collect();
        drop(sleeps);
        // The ticker keeps a waker that fires at this moment for a moment more.
        time.until(|| wakers.iter().all(|count| count() == 0));
        assert_eq!(wheel.stats().sleeping, 0);
    });
}

/// C67: A sleep that is forgotten wakes its task once, and leaves no waker in the wheel.
#[test]
fn forgotten_sleep_fires_once_and_leaves_nothing_behind() {
    on_both_clocks(MS, |wheel, time| {
        let task = polled(core::future::pending::<()>());
        let mut sleep = wheel.sleep(2 * MS);
        let waker = task.waker();
        let _ = Pin::new(&mut sleep).poll(&mut Context::from_waker(&waker));
        drop(waker);
        core::mem::forget(sleep);
        time.until(|| task.clones() == 0);
        assert_eq!(wheel.stats().sleeping, 0);
        time.pass(3 * MS);
        assert!(task.wakes() <= 1);
    });
}

/// C63: A sleep of `Duration::MAX` is never over, and shorter ones are exact.
#[test]
fn sleep_of_the_maximum_is_never_over() {
    on_both_clocks(MS, |wheel, time| {
        let mut sleep = polled(wheel.sleep(Duration::MAX));
        let mut within = polled(wheel.sleep_within(Duration::MAX, Duration::MAX));
        let mut nearly = polled(wheel.sleep(Duration::MAX - MS));
        let mut years = polled(wheel.sleep(10 * 365 * 24 * HOUR));
        let mut near = polled(wheel.sleep(MS));
        for sleep in [&mut sleep, &mut within, &mut nearly, &mut years] {
            assert!(sleep.poll().is_pending());
        }
        near.finish(time);
        for sleep in [&mut sleep, &mut within, &mut nearly, &mut years] {
            assert!(sleep.poll().is_pending() && sleep.wakes() == 0);
        }
        sleep.get().reset(MS);
        sleep.finish(time);
    });
    let (wheel, driver) = manual();
    let mut years = polled(wheel.sleep(10 * 365 * 24 * HOUR));
    assert!(years.poll().is_pending());
    driver.advance(10 * 365 * 24 * HOUR - MS);
    assert!(years.poll().is_pending() && years.wakes() == 0);
    driver.advance(MS);
    assert!(years.wakes() == 1 && years.poll().is_ready());
}

/// C70: `max_pending` does not count sleeps.
#[test]
fn full_wheel_still_sleeps() {
    let (wheel, driver) = Wheel::builder().max_pending(1).manual().unwrap();
    wheel.insert(HOUR, || ());
    let mut sleeps: Vec<_> = (0..10).map(|_| polled(wheel.sleep(MS))).collect();
    assert!(sleeps.iter_mut().all(|sleep| sleep.poll().is_pending()));
    assert_eq!((wheel.len(), wheel.stats().sleeping), (1, 10));
    assert_eq!(driver.advance(MS), 0, "a sleep is no job");
    assert!(sleeps.iter_mut().all(|sleep| sleep.poll().is_ready()));
    assert_eq!((wheel.stats().sleeping, wheel.stats().woken), (0, 10));
}

/// C70: A pool whose threads are blocked delays no sleep.
#[test]
fn jobs_that_block_delay_no_sleep() {
    let wheel = Wheel::builder().threads(1).max_in_flight(1).build().unwrap();
    let release = blocker(&wheel);
    wheel.insert(Duration::ZERO, || ());
    let_pass(5 * MS);
    for _ in 0..5 {
        polled(wheel.sleep(MS)).finish(&Time::real());
    }
    assert_eq!(wheel.stats().pending, 1, "this one waits for room");
    drop(release);
    wheel.wait_idle();
}

/// C70: A wheel that is used only for futures adds one thread.
#[cfg(target_os = "linux")]
#[test]
fn program_that_only_sleeps_has_one_thread_more() {
    let wheel = Wheel::builder().threads(3).name("sleepy").build().unwrap();
    for _ in 0..5 {
        polled(wheel.sleep(MS)).finish(&Time::real());
    }
    wait_for(|| threads_named("sleepy").len() == 1);
    drop(wheel);
    wait_for(|| threads_named("sleepy").is_empty());
}

/// C72: At the end of the wheel each waiting task is woken, and a sleep whose time had not come never ends.
#[test]
fn sleep_never_ends_after_its_wheel() {
    for end in ENDS {
        let (wheel, driver) = manual();
        let mut waits = polled(wheel.sleep(2 * MS));
        let mut unpolled = polled(wheel.sleep(2 * MS));
        let mut due = polled(wheel.sleep(MS));
        let mut over = polled(wheel.sleep(MS));
        assert!(waits.poll().is_pending() && due.poll().is_pending() && over.poll().is_pending());
        driver.advance(MS);
        assert!(over.poll().is_ready());
        let scheduler = wheel.scheduler();
        end(wheel);
        assert_eq!((waits.wakes(), waits.clones()), (1, 0), "it is told once, and let go");
        assert!(due.poll().is_ready() && over.poll().is_ready(), "their time had come");
        let mut late = polled(scheduler.sleep(Duration::ZERO));
        driver.advance(HOUR);
        for sleep in [&mut waits, &mut unpolled, &mut late] {
            assert!(sleep.poll().is_pending() && !sleep.get().is_elapsed());
            let waker = Waker::noop();
            let elapsed = sleep.get().poll_elapsed(&mut Context::from_waker(waker));
            let Poll::Ready(Err(gone)) = elapsed else { panic!("{elapsed:?}") };
            assert!(gone.to_string().contains("ended"), "{gone}");
            sleep.get().reset(Duration::ZERO);
            assert!(sleep.poll().is_pending() && sleep.clones() == 0);
        }
        assert_eq!(scheduler.stats().sleeping, 0);
        // On the real clock time passes after the end, and the sleep still does not end.
        let wheel = threads(1);
        let mut sleep = polled(wheel.sleep(MINUTE));
        assert!(sleep.poll().is_pending());
        end(wheel);
        assert_eq!(sleep.wakes(), 1);
        sleep.get().reset(Duration::ZERO);
        let_pass(5 * MS);
        assert!(sleep.poll().is_pending() && !sleep.get().is_elapsed());
    }
}

/// Returns whether a sleep is over by `poll`, by `is_elapsed` and by `poll_elapsed`.
fn answers(sleep: &mut Polled<Sleep>) -> (bool, bool, bool) {
    let is_ready = sleep.poll().is_ready();
    let cx = &mut Context::from_waker(Waker::noop());
    let elapsed = sleep.get().poll_elapsed(cx);
    (is_ready, sleep.get().is_elapsed(), elapsed == Poll::Ready(Ok(())))
}

/// C72: After the end of the wheel, `is_elapsed`, a poll and `poll_elapsed` agree.
#[test]
fn sleep_has_one_answer_after_the_end_of_its_wheel() {
    on_both_clocks(MS, |wheel, time| {
        time.pass(3 * MS);
        let begin = time.now();
        let (past, soon) = (begin - 2 * MS, begin + 50 * MS);
        let mut passed = polled(wheel.sleep_until(past));
        let mut polled_before = polled(wheel.sleep_until(soon));
        let mut polled_after = polled(wheel.sleep_until(soon));
        let mut polled_late = polled(wheel.sleep_until(soon));
        let mut reset = polled(wheel.sleep(HOUR));
        let _ = (polled_before.poll(), reset.poll());
        drop(wheel.close());
        if time.now() >= soon {
            // A loaded machine let the time pass.
            return;
        }
        assert_eq!(answers(&mut polled_after), (false, false, false));
        time.pass(60 * MS);
        let mut made_late = polled(wheel.sleep_until(soon));
        reset.get().reset_at(soon);
        for sleep in
            [&mut polled_before, &mut polled_after, &mut polled_late, &mut made_late, &mut reset]
        {
            assert_eq!(answers(sleep), (false, false, false), "its time came after the end");
        }
        let mut made_late = polled(wheel.sleep_until(past));
        for sleep in [&mut passed, &mut made_late] {
            assert_eq!(answers(sleep), (true, true, true), "its time had come before the end");
        }
    });
}

/// C65: A sleep is `Unpin`, `Send` and `Sync`, and has at most 64 bytes.
#[test]
fn sleep_is_small_and_may_go_anywhere() {
    fn promised<T: Send + Sync + Unpin + FusedFuture + core::fmt::Debug>() {}
    promised::<Sleep>();
    assert!(size_of::<Sleep>() <= 64, "{}", size_of::<Sleep>());
}
