//! Wakers against the ticker that calls them, and against the end of the wheel.

use std::task::{Wake, Waker};

use super::*;
use crate::engine::wakers::{Wait, WakerShard};
use crate::host::sync::Parker;

/// A thread that waits to be woken.
struct Waits(Parker);

impl Wake for Waits {
    fn wake(self: Arc<Self>) {
        self.0.wake();
    }
}

fn waits() -> (Arc<Waits>, Waker) {
    let waits = Arc::new(Waits(Parker::new()));
    (Arc::clone(&waits), Waker::from(waits))
}

/// An engine whose wakers were made at the beginning, and its only shard of them. No tick has been
/// processed there, and every one that is not [`AN_HOUR`] has passed since.
fn with_wakers() -> (Arc<Engine>, Arc<WakerShard>) {
    let engine = engine_on(Clock::manual(), None);
    let shard = Arc::clone(engine.own_waker_shard());
    engine.timebase().clock().set(Moment::after(Duration::from_nanos(AN_HOUR - 1)));
    (engine, shard)
}

/// Polls until the tick has come or the wheel has ended, and only when woken.
fn wait_for(shard: &WakerShard, tick: u64, mut wait: Wait) -> Wait {
    let (waits, waker) = waits();
    loop {
        wait = match wait {
            Wait::Pending(Some(key)) => shard.look(key, Tick::new(tick), &waker),
            Wait::Pending(None) => shard.register(Tick::new(tick), &waker),
            answer => return answer,
        };
        if let Wait::Pending(_) = wait {
            waits.0.park(None);
        }
    }
}

#[test]
fn a_waker_that_is_registered_while_the_ticker_advances_is_called() {
    explore(|| {
        let (engine, shard) = with_wakers();
        let ticker = ticker(&engine, usize::MAX);
        assert_eq!(wait_for(&shard, 6, Wait::Pending(None)), Wait::Over);
        engine.stop();
        ticker.join().unwrap();
    });
}

#[test]
fn a_waker_that_replaces_another_while_the_ticker_advances_is_called() {
    explore(|| {
        let (engine, shard) = with_wakers();
        let (other, waker) = waits();
        let registered = shard.register(Tick::new(6), &waker);
        drop(waker);
        let ticker = ticker(&engine, usize::MAX);
        assert_eq!(wait_for(&shard, 6, registered), Wait::Over);
        engine.stop();
        ticker.join().unwrap();
        assert_eq!(Arc::strong_count(&other), 1, "it was dropped");
    });
}

#[test]
fn a_waker_that_is_cancelled_while_it_fires_is_gone_after_both() {
    explore(|| {
        let (engine, shard) = with_wakers();
        let (waits, waker) = waits();
        let Wait::Pending(Some(key)) = shard.register(Tick::new(6), &waker) else { unreachable!() };
        drop(waker);
        let other = Arc::clone(&engine);
        let fire = thread::spawn(move || {
            let source = other.sources().get(0).unwrap();
            assert!(source.advance(other.timebase().present(), usize::MAX));
        });
        shard.cancel(key);
        fire.join().unwrap();
        assert_eq!((Arc::strong_count(&waits), engine.stats().sleeping), (1, 0));
    });
}

#[test]
fn a_waiter_is_told_that_the_wheel_ends() {
    explore(|| {
        let (engine, shard) = with_wakers();
        let other = Arc::clone(&engine);
        let stop = thread::spawn(move || drop(other.stop()));
        assert_eq!(wait_for(&shard, AN_HOUR, Wait::Pending(None)), Wait::Ended);
        stop.join().unwrap();
        assert_eq!(engine.stats().sleeping, 0);
    });
}

#[test]
fn a_waker_that_is_cancelled_at_the_end_is_gone_after_both() {
    explore(|| {
        let (engine, shard) = with_wakers();
        let (waits, waker) = waits();
        let registered = shard.register(Tick::new(AN_HOUR), &waker);
        drop(waker);
        let Wait::Pending(Some(key)) = registered else { unreachable!() };
        let other = Arc::clone(&engine);
        let stop = thread::spawn(move || drop(other.stop()));
        shard.cancel(key);
        stop.join().unwrap();
        assert_eq!(Arc::strong_count(&waits), 1);
    });
}

#[test]
fn a_reset_to_earlier_wakes_a_ticker_that_sleeps_for_a_waker() {
    explore(|| {
        let (engine, shard) = with_wakers();
        let (waits, waker) = waits();
        let Wait::Pending(Some(key)) = shard.register(Tick::new(AN_HOUR), &waker) else {
            unreachable!()
        };
        let ticker = ticker(&engine, usize::MAX);
        assert!(shard.reset(key, Tick::new(6)));
        waits.0.park(None);
        assert!(shard.is_over(key, Tick::new(6)));
        engine.stop();
        ticker.join().unwrap();
    });
}
