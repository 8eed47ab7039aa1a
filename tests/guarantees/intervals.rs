//! Beats of an interval.

use super::polled::polled;
use super::*;
use core::future::poll_fn;
use core::task::{Context, Poll};

use futures::stream::{FusedStream, StreamExt};
use tickwheel::{Beat, Interval, Missed, Repeat, testing};

fn poll(interval: &mut Interval) -> Poll<Option<Beat>> {
    interval.poll_tick(&mut Context::from_waker(Waker::noop()))
}

/// Waits for the next beat.
#[track_caller]
fn next(interval: &mut Interval, time: &Time) -> Beat {
    polled(interval.tick()).finish(time).expect("the wheel is there")
}

/// C76: The beats of an interval keep their phase for ever, to the nanosecond.
#[test]
fn beats_keep_their_phase() {
    on_both_clocks(MS, |wheel, time| {
        let begin = time.now();
        let period = Duration::from_micros(2_300);
        let mut interval = wheel.interval(Repeat::every(period)).unwrap();
        let first = next(&mut interval, time);
        assert!(first.deadline >= begin + period && first.missed == 0);
        let mut last = first;
        for _ in 0..10 {
            let beat = next(&mut interval, time);
            let periods = u32::try_from(beat.missed).unwrap() + 1;
            assert_eq!(beat.deadline, last.deadline + periods * period);
            assert!(time.now() >= beat.deadline + beat.late);
            last = beat;
        }
    });
}

/// C77: The policy decides about missed beats, and `Beat::missed` has the number of dropped ones.
#[test]
fn missed_beats_follow_the_policy() {
    // The millisecond that the clock reads, and the beats that are taken then: the deadline of each
    // in milliseconds, and the number of missed beats.
    type Taken = (u32, &'static [(u32, u64)]);
    let cases: [(Missed, &[Taken]); 3] = [
        (
            Missed::Skip,
            &[
                (9, &[]),
                (10, &[(10, 0)]),
                (55, &[(20, 0)]),
                (60, &[(60, 3)]),
                (100, &[(70, 0), (100, 2)]),
            ],
        ),
        (
            Missed::Burst,
            &[(45, &[(10, 0), (20, 0), (30, 0), (40, 0)]), (49, &[]), (50, &[(50, 0)])],
        ),
        (Missed::Delay, &[(45, &[(10, 0)]), (54, &[]), (55, &[(55, 3)]), (65, &[(65, 0)])]),
    ];
    for (policy, steps) in cases {
        let (wheel, driver) = manual();
        let begin = driver.now();
        let mut interval = wheel.interval(Repeat::every(10 * MS).missed(policy)).unwrap();
        for &(at, beats) in steps {
            driver.advance(begin + at * MS - driver.now());
            for &(deadline, missed) in beats {
                let deadline = begin + deadline * MS;
                let beat = Beat { deadline, late: driver.now() - deadline, missed };
                assert_eq!(poll(&mut interval), Poll::Ready(Some(beat)), "{policy:?} at {at}");
            }
            assert_eq!(poll(&mut interval), Poll::Pending, "{policy:?} at {at}");
        }
        // A deadline at the present has not been missed.
        interval.reset_at(driver.now() + 10 * MS);
        driver.advance(20 * MS);
        for late in [10, 0] {
            let Poll::Ready(Some(beat)) = poll(&mut interval) else { panic!("{late}") };
            assert_eq!((beat.late, beat.missed), (late * MS, 0));
        }
        assert_eq!(poll(&mut interval), Poll::Pending);
    }
}

/// C78: The first beat is after one period, or at the time that the caller gave.
#[test]
fn first_beat_is_at_the_given_time() {
    type Starting = fn(&Wheel, Repeat) -> Repeat;
    let firsts: [(Starting, u32); 5] = [
        (|_, every| every, 10),
        (|_, every| every.starting(3 * MS), 3),
        (|wheel, every| every.starting(wheel.now() + 4 * MS), 4),
        (|wheel, every| every.starting(wheel.wall_now() + 5 * MS), 5),
        (|_, every| every.starting(Duration::ZERO), 0),
    ];
    for (starting, first) in firsts {
        let (wheel, driver) = manual();
        driver.advance(7 * MS);
        let begin = driver.now();
        let mut interval = wheel.interval(starting(&wheel, Repeat::every(10 * MS))).unwrap();
        for beat in [first, first + 10, first + 20] {
            let taken = testing::run(&driver, interval.tick()).unwrap();
            assert_eq!((taken.deadline, driver.now()), (begin + beat * MS, begin + beat * MS));
        }
    }
    on_both_clocks(MS, |wheel, time| {
        time.pass(7 * MS);
        // A first beat whose time has passed comes at the first poll.
        let mut interval = wheel.interval(Repeat::every(HOUR).starting(time.now() - MS)).unwrap();
        assert!(poll(&mut interval).is_ready() && poll(&mut interval).is_pending());
    });
}

/// C76: Slack and jitter move beats, and not their phase.
#[test]
fn window_moves_beats_and_not_their_phase() {
    let (wheel, driver) = manual();
    let begin = driver.now();
    for repeat in [Repeat::every(10 * MS).within(5 * MS), Repeat::every(10 * MS).jitter(5 * MS)] {
        let begin = driver.now().max(begin);
        let mut interval = wheel.interval(repeat).unwrap();
        let mut moved = 0;
        for beat in 1..50 {
            let taken = testing::run(&driver, interval.tick()).unwrap();
            assert_eq!(taken.deadline, begin + beat * 10 * MS);
            assert!(taken.late <= 5 * MS && driver.now() == taken.deadline + taken.late);
            moved += u32::from(taken.late > Duration::ZERO);
        }
        assert!(moved > 10, "{moved}");
    }
}

/// C78: A beat whose tick has begun is given at the first poll, with a window and without.
#[test]
fn beat_whose_tick_has_begun_is_given_at_once() {
    on_both_clocks(MS, |wheel, time| {
        let burst = || Repeat::every(2 * MS).missed(Missed::Burst);
        for repeat in [burst(), burst().within(MS), burst().jitter(MS)] {
            let mut interval = wheel.interval(repeat).unwrap();
            time.pass(20 * MS);
            for beat in 0..9 {
                assert!(poll(&mut interval).is_ready(), "{beat} of {repeat:?}");
            }
        }
    });
}

/// C79: A task that takes beats as fast as it can lets other tasks run.
#[test]
fn interval_lets_other_tasks_run() {
    // Even with the shortest period, an interval is not ready for ever.
    let nano = Duration::from_nanos(1);
    for policy in [Missed::Skip, Missed::Burst, Missed::Delay] {
        on_both_clocks(MS, |wheel, time| {
            let mut interval = wheel.interval(Repeat::every(nano).missed(policy)).unwrap();
            time.pass(3 * MS);
            for _ in 0..3 {
                let mut tick = polled(poll_fn(|cx| interval.poll_tick(cx)));
                let beats = (0..10_000).take_while(|_| tick.poll().is_ready()).count();
                // A burst lets them run after 128 beats.
                let most = if policy == Missed::Burst { 128 } else { 9_999 };
                assert!(beats <= most, "{beats} beats of {policy:?}");
                time.until(|| tick.wakes() > 0);
            }
        });
    }
    // At the end of the clock an interval waits.
    let (wheel, driver) = manual();
    let mut interval = wheel.interval(Repeat::every(HOUR)).unwrap();
    let mut sleep = polled(wheel.sleep_until(driver.now() + HOUR));
    driver.advance(Duration::MAX);
    sleep.get().reset(Duration::MAX);
    assert!((0..10).any(|_| poll(&mut interval).is_pending()) && sleep.poll().is_pending());
    interval.reset();
    assert!(poll(&mut interval).is_pending());
}

/// C81: An interval whose beats are always taken late ends with its wheel.
#[test]
fn interval_that_is_late_ends_with_its_wheel() {
    on_both_clocks(MS, |wheel, time| {
        let every = || Repeat::every(2 * MS);
        let policies = [Missed::Skip, Missed::Burst, Missed::Delay];
        let repeats = policies.map(|policy| every().missed(policy));
        let mut intervals: Vec<_> =
            repeats.into_iter().map(|repeat| wheel.interval(repeat).unwrap()).collect();
        for interval in &mut intervals {
            next(interval, time);
        }
        drop(wheel.close());
        let end = time.now();
        for interval in &mut intervals {
            // Each beat is taken when the next one has passed.
            loop {
                time.pass(3 * MS);
                match poll(interval) {
                    Poll::Ready(Some(beat)) => assert!(beat.deadline <= end, "{interval:?}"),
                    Poll::Ready(None) => break,
                    Poll::Pending => {}
                }
            }
        }
    });
}

/// C76: `reset` and `reset_at` move the phase, and the next beat has missed nothing.
#[test]
fn reset_of_an_interval_moves_its_phase() {
    on_both_clocks(MS, |wheel, time| {
        let mut interval = wheel.interval(Repeat::every(5 * MS)).unwrap();
        time.pass(30 * MS);
        let _late = next(&mut interval, time);
        let begin = time.now();
        interval.reset();
        let beat = next(&mut interval, time);
        assert!(beat.deadline >= begin + 5 * MS && beat.missed == 0, "{beat:?}");
        let at = time.now() + 7 * MS;
        interval.reset_at(at);
        let beat = next(&mut interval, time);
        assert!(beat.deadline == at && beat.missed == 0 && time.now() >= at, "{beat:?}");
        assert!(next(&mut interval, time).deadline >= at + 5 * MS);
    });
}

/// C80: An interval needs a period that is not zero.
#[test]
fn interval_without_a_period_is_refused() {
    let (wheel, _driver) = manual();
    for repeat in [Repeat::every(Duration::ZERO), Repeat::irregular()] {
        let error = wheel.scheduler().interval(repeat).unwrap_err();
        assert!(error.to_string().contains("period"), "{error}");
    }
}

/// C80: A period of `Duration::MAX` never ends.
#[test]
fn period_of_the_maximum_is_never() {
    let (wheel, driver) = manual();
    let every = Repeat::every(Duration::MAX);
    let mut never = wheel.interval(every).unwrap();
    let mut once = wheel.interval(every.starting(MS)).unwrap();
    driver.advance(MS);
    assert!(poll(&mut never).is_pending() && poll(&mut once).is_ready());
    once.reset();
    driver.advance(HOUR);
    assert!(poll(&mut once).is_pending());
    never.reset_at(driver.now());
    assert!(poll(&mut never).is_ready() && poll(&mut never).is_pending());
}

/// C80: A poll that returns a beat registers no waker, and a dropped wait loses no beat.
#[test]
fn beat_registers_no_waker_and_survives_a_dropped_wait() {
    let (wheel, driver) = manual();
    let mut interval = wheel.interval(Repeat::every(10 * MS)).unwrap();
    {
        let mut tick = polled(interval.tick());
        assert!(tick.poll().is_pending());
        driver.advance(10 * MS);
        assert_eq!(tick.wakes(), 1);
    }
    assert!(poll(&mut interval).is_ready());
    assert_eq!(wheel.stats().sleeping, 0);
    assert!(poll(&mut interval).is_pending());
    assert_eq!(wheel.stats().sleeping, 1);
}

/// C81: An interval is a stream, which ends with its wheel.
#[test]
fn interval_is_a_stream_and_ends_with_its_wheel() {
    let (wheel, driver) = manual();
    let begin = driver.now();
    let mut interval = wheel.interval(Repeat::every(MS)).unwrap();
    let beats: Vec<Beat> = testing::run(&driver, interval.by_ref().take(3).collect());
    let deadlines = beats.iter().map(|beat| beat.deadline - begin);
    assert!(deadlines.eq([MS, 2 * MS, 3 * MS]));
    let either = async {
        futures::select! {
            beat = interval.select_next_some() => beat.deadline,
            () = wheel.sleep(HOUR) => unreachable!(),
        }
    };
    assert_eq!(testing::run(&driver, either), begin + 4 * MS);
    let mut tick = polled(interval.next());
    assert!(tick.poll().is_pending());
    drop(wheel);
    assert_eq!(tick.wakes(), 1);
    assert_eq!(tick.poll(), Poll::Ready(None));
    drop(tick);
    assert!(interval.is_terminated());
    interval.reset();
    assert_eq!(poll(&mut interval), Poll::Ready(None));
}
