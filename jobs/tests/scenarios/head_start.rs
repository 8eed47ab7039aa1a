//! What is promised of the head starts of kinds, for every store.

use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime};

use tickwheel_jobs::{Builder, Driver, InvalidInput, Jobs, StoreError};

use super::{Charge, DAY, LONG, MS, Mail, SECOND};
use crate::support::on_stores;

/// The starts of runs: `c` or `m`, and the number of the job.
#[derive(Clone, Default)]
struct Starts(Arc<Mutex<Vec<String>>>);

impl Starts {
    fn add(&self, kind: &str, number: u64, due: SystemTime, now: SystemTime) {
        assert!(due <= now, "{kind}{number} is early by {:?}", due.duration_since(now));
        self.0.lock().unwrap().push(format!("{kind}{number}"));
    }

    /// Returns the starts since the last call.
    fn take(&self) -> String {
        std::mem::take(&mut *self.0.lock().unwrap()).join(" ")
    }
}

/// Jobs on a manual clock. One thread runs them: the driver's.
fn manual(builder: Builder) -> (Jobs, Driver, Starts) {
    let starts = Starts::default();
    let (of_charges, of_mails) = (starts.clone(), starts.clone());
    let (jobs, driver) = builder
        .handle(move |charge: Charge, run| {
            of_charges.add("c", charge.0, run.due(), run.due() + run.late());
            Ok(())
        })
        .handle(move |mail: Mail, run| {
            of_mails.add("m", mail.0, run.due(), run.due() + run.late());
            Ok(())
        })
        .manual()
        .unwrap();
    (jobs, driver, starts)
}

/// Inserts mails and charges that become due so many seconds after `start`: each has that number. Meanwhile the queue
/// is paused.
fn insert(jobs: &Jobs, start: SystemTime, mails: &[u64], charges: &[u64]) {
    jobs.queue().pause().unwrap();
    for after in mails {
        jobs.insert(start + SECOND * *after as u32, Mail(*after)).unwrap();
    }
    for after in charges {
        jobs.insert(start + SECOND * *after as u32, Charge(*after)).unwrap();
    }
}

/// P27: Of due jobs on one thread, each starts before those of other kinds that became due later by more than the
/// difference of the head starts. None starts early. Zero removes a head start. It survives a restart, and a refused
/// one leaves the one before it.
#[test]
fn head_start_orders_the_due_jobs_of_kinds() {
    on_stores(|store| {
        for max_in_flight in [2048, 3, 2, 1] {
            let open = || store.open().max_in_flight(max_in_flight);
            let (jobs, driver, starts) = manual(open());
            let (mails, charges) = ([0, 80, 100, 120, 140], [150, 151, 190, 260]);
            let set = [
                (60, "m0 m80 c150 c151 m100 m120 c190 m140"),
                (0, "m0 m80 m100 m120 m140 c150 c151 c190"),
            ];
            for (head_start, expected) in set {
                jobs.kind::<Charge>().head_start(SECOND * head_start).unwrap();
                insert(&jobs, driver.wall_now(), &mails, &charges);
                driver.advance(200 * SECOND);
                jobs.queue().resume().unwrap();
                driver.advance(Duration::ZERO);
                assert_eq!(starts.take(), expected, "{head_start} s, {max_in_flight} in flight");
                driver.advance(59 * SECOND);
                assert_eq!(starts.take(), "", "the last charge is not due");
                driver.advance(SECOND);
                assert_eq!(starts.take(), "c260");
            }
            jobs.kind::<Mail>().head_start(11 * SECOND).unwrap();
            jobs.kind_named("charge").head_start(60 * SECOND).unwrap();
            let too_long = 11 * 365 * DAY;
            let refused = jobs.kind::<Charge>().head_start(too_long);
            assert_eq!(refused, Err(StoreError::Invalid(InvalidInput::DelayTooLong(too_long))));
            let empty = jobs.kind_named("").head_start(SECOND);
            assert!(
                matches!(empty, Err(StoreError::Invalid(InvalidInput::TooLong { bytes: 0, .. }))),
                "{empty:?}"
            );
            jobs.kind_named("nobody knows it").head_start(DAY).unwrap();
            let start = driver.wall_now();
            insert(&jobs, start, &mails, &charges);
            let (jobs, driver, starts) = match store.keeps {
                false => (jobs, driver, starts),
                true => {
                    drop((jobs, driver));
                    manual(open())
                }
            };
            // After a restart the clock of the driver begins with that of the system.
            let present = start + 200 * SECOND;
            driver.advance(present.duration_since(driver.wall_now()).unwrap());
            jobs.queue().resume().unwrap();
            driver.advance(Duration::ZERO);
            assert_eq!(starts.take(), "m0 m80 m100 c150 c151 m120 m140 c190", "by the difference");
            driver.advance(60 * SECOND);
            assert_eq!(starts.take(), "c260");
            jobs.kind::<Charge>().head_start(Duration::ZERO).unwrap();
            jobs.kind::<Mail>().head_start(Duration::ZERO).unwrap();
            jobs.check().unwrap();
        }
    });
}

/// P27: A job that is not due yet holds back no job that is due, however long its head start. So the only slot goes to
/// the job that is due.
#[test]
fn head_start_takes_no_slot_before_the_due_time() {
    on_stores(|store| {
        let (jobs, driver, starts) = manual(store.open().max_in_flight(1));
        jobs.kind::<Charge>().head_start(DAY).unwrap();
        jobs.queue().pause().unwrap();
        jobs.insert(10 * SECOND, Mail(1)).unwrap();
        jobs.insert(10 * SECOND + 30 * MS, Charge(1)).unwrap();
        driver.advance(10 * SECOND);
        jobs.queue().resume().unwrap();
        driver.advance(Duration::ZERO);
        assert_eq!(starts.take(), "m1");
        driver.advance(29 * MS);
        assert_eq!(starts.take(), "");
        driver.advance(MS);
        assert_eq!(starts.take(), "c1");
        jobs.kind::<Charge>().head_start(Duration::ZERO).unwrap();
        jobs.shutdown().unwrap();
    });
}

/// Jobs on one thread in real time. Each run waits for a message.
fn on_one_thread(builder: Builder) -> (Jobs, Receiver<String>, Sender<()>) {
    let (started, starts) = channel();
    let (go_on, may_end) = channel::<()>();
    let (of_charges, may_end) = (started.clone(), Arc::new(Mutex::new(may_end)));
    let charge_may_end = Arc::clone(&may_end);
    let jobs = builder
        .threads(1)
        .handle(move |charge: Charge, _| {
            of_charges.send(format!("c{}", charge.0))?;
            Ok(charge_may_end.lock().unwrap().recv_timeout(LONG)?)
        })
        .handle(move |mail: Mail, _| {
            started.send(format!("m{}", mail.0))?;
            Ok(may_end.lock().unwrap().recv_timeout(LONG)?)
        })
        .start()
        .unwrap();
    (jobs, starts, go_on)
}

/// Lets the runs end one after the other. Returns their order, that of the first included.
fn order(starts: &Receiver<String>, go_on: &Sender<()>, runs: usize) -> String {
    let start = |n| {
        go_on.send(()).unwrap();
        let is_last = n + 1 == runs;
        if is_last { String::new() } else { starts.recv_timeout(LONG).unwrap() }
    };
    (0..runs).map(start).collect::<Vec<_>>().join(" ").trim_end().to_owned()
}

/// P27: A charge that comes late passes the mails that wait for the thread, but not the one that was due an hour ago.
/// If the mails fill their slots, it finds the slot that is kept.
#[test]
#[expect(clippy::disallowed_methods, reason = "real time is the subject")]
fn late_job_with_a_head_start_passes_those_that_wait() {
    on_stores(|store| {
        for max_in_flight in [2048, 4] {
            let (jobs, starts, go_on) = on_one_thread(store.open().max_in_flight(max_in_flight));
            jobs.kind::<Charge>().head_start(60 * SECOND).unwrap();
            jobs.insert(Duration::ZERO, Mail(0)).unwrap();
            assert_eq!(starts.recv_timeout(LONG).unwrap(), "m0");
            jobs.insert(SystemTime::now() - 3600 * SECOND, Mail(1)).unwrap();
            for number in 2..6 {
                jobs.insert(Duration::ZERO, Mail(number)).unwrap();
            }
            jobs.insert(Duration::ZERO, Charge(1)).unwrap();
            let claimed = if store.claims_ahead { max_in_flight.min(7) } else { 1 };
            while jobs.stats().in_flight < claimed {
                std::thread::yield_now();
            }
            assert_eq!(order(&starts, &go_on, 7), "m1 c1 m2 m3 m4 m5", "{max_in_flight} in flight");
            jobs.kind::<Charge>().head_start(Duration::ZERO).unwrap();
            jobs.shutdown().unwrap();
        }
    });
}

/// P27: A head start that another process sets holds a second later, also for jobs that were claimed before and wait
/// for a thread.
#[test]
fn head_start_holds_in_every_process_within_a_second() {
    on_stores(|store| {
        if !store.keeps {
            return;
        }
        let (jobs, starts, go_on) = on_one_thread(store.open());
        jobs.insert(Duration::ZERO, Mail(0)).unwrap();
        assert_eq!(starts.recv_timeout(LONG).unwrap(), "m0");
        for number in 1..4 {
            jobs.insert(Duration::ZERO, Mail(number)).unwrap();
        }
        jobs.insert(Duration::ZERO, Charge(1)).unwrap();
        let operator = store.open().client().unwrap();
        operator.kind::<Charge>().head_start(60 * SECOND).unwrap();
        let (_nobody, silence) = channel::<()>();
        // A second, and more for a loaded machine.
        silence.recv_timeout(5000 * MS).unwrap_err();
        assert_eq!(order(&starts, &go_on, 5), "c1 m1 m2 m3");
        jobs.shutdown().unwrap();
    });
}
