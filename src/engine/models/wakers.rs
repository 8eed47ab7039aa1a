//! Models of wakers, with the ticker that calls them and with the end of the wheel.

use std::task::{Wake, Waker};

use super::*;
use crate::engine::wakers::{Registration, Reset, Wait, WakerShard};
use crate::host::sync::Parker;

/// A thread that waits to be woken.
pub(super) struct Waits(pub(super) Parker);

impl Wake for Waits {
    fn wake(self: Arc<Self>) {
        self.0.wake();
    }
}

pub(super) fn waits() -> (Arc<Waits>, Waker) {
    let waits = Arc::new(Waits(Parker::new()));
    (Arc::clone(&waits), Waker::from(waits))
}

/// Returns an engine whose wakers were made at the beginning, and its only shard of them. No tick
/// has been processed there, and every tick before [`AN_HOUR`] has passed since.
fn with_wakers() -> (Arc<Engine>, Arc<WakerShard>) {
    let (engine, [shard, _]) = with_shards(1);
    (engine, shard)
}

/// As [`with_wakers`], with `shards` shards. Returns that of the calling thread, and another one if
/// there is one.
fn with_shards(shards: usize) -> (Arc<Engine>, [Arc<WakerShard>; 2]) {
    let engine = engine_of(shards, Clock::manual(), None);
    let own = Arc::clone(engine.own_waker_shard());
    let other = [0, 1].into_iter().find_map(|thread| own.other_for(thread));
    engine.timebase().clock().set(Moment::after(Duration::from_nanos(AN_HOUR - 1)));
    (engine, [Arc::clone(&own), other.unwrap_or(own)])
}

/// Polls until the tick has come or the wheel has ended, and only when woken.
fn wait_for(shard: &WakerShard, tick: u64, mut registered: Option<Registration>) -> Wait {
    let (waits, waker) = waits();
    loop {
        match shard.poll(&mut registered, Tick::new(tick), &waker) {
            Wait::Pending => waits.0.park(None),
            answer => return answer,
        }
    }
}

/// Registers a waker.
fn register(shard: &WakerShard, tick: u64, waker: &Waker) -> Registration {
    let mut registered = None;
    assert_eq!(shard.poll(&mut registered, Tick::new(tick), waker), Wait::Pending);
    registered.expect("the shard has room")
}

#[test]
fn a_waker_that_is_registered_while_the_ticker_advances_is_called() {
    explore(|| {
        let (engine, shard) = with_wakers();
        let ticker = ticker(&engine, usize::MAX);
        assert_eq!(wait_for(&shard, 6, None), Wait::Over);
        engine.stop();
        ticker.join().unwrap();
    });
}

#[test]
fn a_waker_that_replaces_another_while_the_ticker_advances_is_called() {
    explore(|| {
        let (engine, shard) = with_wakers();
        let (other, waker) = waits();
        let registered = register(&shard, 6, &waker);
        drop(waker);
        let ticker = ticker(&engine, usize::MAX);
        assert_eq!(wait_for(&shard, 6, Some(registered)), Wait::Over);
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
        let registered = register(&shard, 6, &waker);
        drop(waker);
        let other = Arc::clone(&engine);
        let fire = thread::spawn(move || {
            let source = other.sources().get(0).unwrap();
            assert!(source.advance(other.timebase().present(), usize::MAX));
        });
        shard.cancel(registered);
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
        assert_eq!(wait_for(&shard, AN_HOUR, None), Wait::Ended);
        stop.join().unwrap();
        assert_eq!(engine.stats().sleeping, 0);
    });
}

#[test]
fn a_waker_that_is_cancelled_at_the_end_is_gone_after_both() {
    explore(|| {
        let (engine, shard) = with_wakers();
        let (waits, waker) = waits();
        let registered = register(&shard, AN_HOUR, &waker);
        drop(waker);
        let other = Arc::clone(&engine);
        let stop = thread::spawn(move || drop(other.stop()));
        shard.cancel(registered);
        stop.join().unwrap();
        assert_eq!(Arc::strong_count(&waits), 1);
    });
}

#[test]
fn a_reset_to_earlier_wakes_a_ticker_that_sleeps_for_a_waker() {
    explore(|| {
        let (engine, shard) = with_wakers();
        let (waits, waker) = waits();
        let registered = register(&shard, AN_HOUR, &waker);
        let ticker = ticker(&engine, usize::MAX);
        assert_ne!(shard.reset(registered, Tick::new(6)), Reset::Gone);
        waits.0.park(None);
        assert!(shard.is_over(registered, Tick::new(6)));
        engine.stop();
        ticker.join().unwrap();
    });
}

#[test]
fn a_waker_that_moves_to_another_shard_while_the_ticker_advances_is_called() {
    explore(|| {
        let (engine, [shard, other]) = with_shards(2);
        let (waits, waker) = waits();
        let mut registered = register(&shard, 6, &waker);
        drop(waker);
        let ticker = ticker(&engine, usize::MAX);
        let reset = shard.reset_into(&other, &mut registered, Tick::new(7));
        waits.0.park(None);
        assert!(reset == Reset::Gone || other.is_over(registered, Tick::new(7)));
        engine.stop();
        ticker.join().unwrap();
        assert_eq!((Arc::strong_count(&waits), engine.stats().sleeping), (1, 0));
    });
}

#[test]
fn a_waker_that_moves_to_another_shard_at_the_end_is_called() {
    explore(|| {
        let (engine, [shard, other]) = with_shards(2);
        let (waits, waker) = waits();
        let mut registered = register(&shard, AN_HOUR, &waker);
        drop(waker);
        let stopped = Arc::clone(&engine);
        let stop = thread::spawn(move || drop(stopped.stop()));
        shard.reset_into(&other, &mut registered, Tick::new(AN_HOUR));
        stop.join().unwrap();
        waits.0.park(None);
        assert_eq!((Arc::strong_count(&waits), engine.stats().sleeping), (1, 0));
    });
}

/// A poll that sees that the tick has not begun takes no lock; any other does.
#[test]
fn a_waker_that_is_polled_again_while_the_ticker_advances_is_called() {
    explore(|| {
        let (engine, shard) = with_wakers();
        let (waits, waker) = waits();
        let mut registered = Some(register(&shard, 6, &waker));
        let ticker = ticker(&engine, usize::MAX);
        loop {
            match shard.poll(&mut registered, Tick::new(6), &waker) {
                Wait::Pending => waits.0.park(None),
                answer => break assert_eq!(answer, Wait::Over),
            }
        }
        engine.stop();
        ticker.join().unwrap();
        drop(waker);
        assert_eq!((Arc::strong_count(&waits), engine.stats().sleeping), (1, 0));
    });
}
