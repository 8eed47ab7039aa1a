//! The hooks: user code that a wheel calls, besides jobs. A verb that waited in one could wait for itself.

#[cfg(feature = "async")]
use super::polled::poll_with;
use super::*;
use core::any::Any;
use std::sync::Barrier;

use tickwheel::{Event, Events, Full};

/// The closure that a hook calls once. Before it is set, the hook does nothing.
type Armed = Arc<Mutex<Option<Box<dyn FnOnce() + Send>>>>;
/// A wheel that a hook may drop.
type Slot = Arc<Mutex<Option<Arc<Wheel>>>>;
/// Makes a thread of the wheel, or of its jobs, call the hook. Returns the values that must live until then.
type Trigger = Box<dyn FnOnce() -> Box<dyn Any>>;

/// The name of a hook, and a function that makes a wheel that calls it.
type Hook = (&'static str, fn(Armed) -> (Wheel, Trigger));
type Verb = (&'static str, fn(Arc<Wheel>, &Slot));

fn call(armed: &Armed) {
    let action = armed.lock().unwrap().take();
    action.into_iter().for_each(|action| action());
}

/// Returns a waker that calls the closure.
fn armed_waker(armed: &Armed) -> Waker {
    let armed = Arc::clone(armed);
    waker(move || call(&armed))
}

/// Every hook, with a wheel that calls it.
fn hooks() -> Vec<Hook> {
    vec![
        #[cfg(feature = "async")]
        ("a waker", |armed| {
            let wheel = threads(1);
            let mut sleep = wheel.sleep(HOUR);
            poll_with(&mut sleep, move || call(&armed));
            (
                wheel,
                Box::new(move || {
                    sleep.reset(MS);
                    Box::new(sleep)
                }),
            )
        }),
        ("Full::Give", |armed| {
            let wheel = threads(1);
            let give = Full::Give(Box::new(move |()| call(&armed)));
            let (events, due) = Events::bounded(&wheel.scheduler(), 1, give);
            (
                wheel,
                Box::new(move || {
                    events.insert_batch([(MS, ()), (MS, ())]).unwrap();
                    Box::new((events, due))
                }),
            )
        }),
        ("on_ready", |armed| {
            let wheel = threads(1);
            let (events, due) = Events::unbounded(&wheel.scheduler());
            events.on_ready(armed_waker(&armed));
            (
                wheel,
                Box::new(move || {
                    events.insert(MS, ()).unwrap();
                    Box::new((events, due))
                }),
            )
        }),
        ("the drop of a value", |armed| {
            let wheel = threads(1);
            let (events, due) = Events::unbounded(&wheel.scheduler());
            drop::<crossbeam_channel::Receiver<Event<_>>>(due);
            (
                wheel,
                Box::new(move || {
                    events.insert(MS, OnDrop(move || call(&armed))).ok().unwrap();
                    Box::new(())
                }),
            )
        }),
        ("on_panic", |armed| {
            let builder = Wheel::builder().threads(1).on_panic(move |_| call(&armed));
            let wheel = builder.build().unwrap();
            let scheduler = wheel.scheduler();
            (
                wheel,
                Box::new(move || {
                    scheduler.insert(MS, || panic_any("job")).unwrap();
                    Box::new(())
                }),
            )
        }),
        ("on_earlier", |armed| {
            let wheel = threads(1);
            let scheduler = wheel.scheduler();
            let (driven, driver) = Wheel::builder().driven().unwrap();
            driver.on_earlier(armed_waker(&armed));
            let _ = driver.timeout();
            (
                wheel,
                Box::new(move || {
                    let of_the_loop = driven.scheduler();
                    let job = move || drop(of_the_loop.insert(MS, || ()));
                    scheduler.insert(MS, job).unwrap();
                    Box::new((driven, driver))
                }),
            )
        }),
    ]
}

/// Every verb that may wait. None has a limit here.
const VERBS: [Verb; 5] = [
    ("close", |wheel, _| drop(wheel.close())),
    ("shutdown_timeout", |wheel, _| drop(wheel.shutdown_timeout(Duration::MAX))),
    ("wait_idle", |wheel, _| assert!(!wheel.wait_idle())),
    ("wait_idle_timeout", |wheel, _| assert!(!wheel.wait_idle_timeout(Duration::MAX))),
    ("drop", |wheel, slot| {
        drop(slot.lock().unwrap().take());
        drop(wheel);
    }),
];

/// Two wheels call a hook each, at the same time. Hook `n` calls the verb on the wheel `of[n]`.
fn meet(verb: Verb, hooks: [Hook; 2], of: [usize; 2]) {
    let arranged = hooks.map(|(_, hook)| {
        let armed = Armed::default();
        let (wheel, trigger) = hook(Arc::clone(&armed));
        // A pending job, so that no wheel is idle.
        wheel.insert(HOUR, || ());
        (armed, Slot::new(Mutex::new(Some(Arc::new(wheel)))), trigger)
    });
    let (barrier, (ended, ends)) = (Arc::new(Barrier::new(2)), channel());
    for (which, (armed, ..)) in arranged.iter().enumerate() {
        let (slot, barrier, ended) =
            (Arc::clone(&arranged[of[which]].1), Arc::clone(&barrier), ended.clone());
        let wheel = Arc::clone(slot.lock().unwrap().as_ref().unwrap());
        *armed.lock().unwrap() = Some(Box::new(move || {
            barrier.wait();
            (verb.1)(wheel, &slot);
            ended.send(()).unwrap();
        }));
    }
    let _alive = arranged.map(|(_, slot, trigger)| (slot, trigger()));
    for _ in 0..2 {
        let end = ends.recv_timeout(MINUTE);
        assert!(end.is_ok(), "{} in {} and {} ends", verb.0, hooks[0].0, hooks[1].0);
    }
}

/// C121: A verb that waits elsewhere does not wait in a hook of its own wheel: it could wait for that very
/// hook.
#[test]
fn verb_in_a_hook_of_its_own_wheel_does_not_wait() {
    for verb in VERBS {
        for hook in hooks() {
            meet(verb, [hook, hook], [0, 1]);
        }
    }
}

/// C121: Nor does it wait in a hook of another wheel: a hook of its own wheel may do the same with that one,
/// and each would wait for the other.
#[test]
fn verb_in_a_hook_of_another_wheel_does_not_wait() {
    for verb in VERBS {
        for (first, one) in hooks().into_iter().enumerate() {
            for other in hooks().into_iter().skip(first) {
                meet(verb, [one, other], [1, 0]);
            }
        }
    }
}
