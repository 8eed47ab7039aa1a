//! Models of inserts that wake one ticker: none relies on a wake that is yet to come.

use super::*;
use crate::engine::alarm::Alarm;

/// Returns an alarm with a plan for tick 1000, and the parker of its ticker.
fn planned() -> (Arc<Alarm>, Arc<Parker>) {
    let parker = Arc::new(Parker::new());
    let alarm = Arc::new(Alarm::new(Arc::clone(&parker)));
    alarm.plan(Tick::new(1000));
    (alarm, parker)
}

#[test]
fn an_insert_does_not_rely_on_a_wake_that_is_yet_to_come() {
    explore(|| {
        let (alarm, parker) = planned();
        let other = Arc::clone(&alarm);
        let other = thread::spawn(move || {
            other.wake_for(Tick::new(7));
            assert!(parker.is_woken(), "the earlier one may be stopped for any time");
        });
        alarm.wake_for(Tick::new(5));
        other.join().unwrap();
    });
}

#[test]
fn an_insert_does_not_rely_on_the_wake_of_an_earlier_plan() {
    explore(|| {
        let (alarm, parker) = planned();
        let other = Arc::clone(&alarm);
        let other = thread::spawn(move || other.wake_for(Tick::new(5)));
        parker.park(None);
        alarm.awake();
        alarm.plan(Tick::new(1000));
        alarm.wake_for(Tick::new(7));
        assert!(parker.is_woken());
        other.join().unwrap();
    });
}
