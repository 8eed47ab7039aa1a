//! Jobs that come back as their type, that are inserted again, and that know their own handle.

use super::*;
use tickwheel::{Group, Job, Keyed, Missed, Next, Repeat, Task, When};

/// A job that sends its number.
#[derive(Clone, Debug)]
struct Say(u32, Sender<u32>);

impl Task for Say {
    fn run(self) {
        self.1.send(self.0).unwrap();
    }
}

/// Returns a function that makes a task with a number, and the receiver of the numbers that ran.
fn says() -> (impl Fn(u32) -> Say, Receiver<u32>) {
    let (sender, said) = channel();
    (move |number| Say(number, sender.clone()), said)
}

fn number(job: &Job) -> Option<u32> {
    job.downcast_ref::<Say>().map(|say| say.0)
}

/// C57: A `Task` comes back with the type that it had at its insert.
#[test]
fn task_comes_back_with_its_type() {
    let (wheel, driver) = manual();
    let (keyed, group) = (Keyed::new(&wheel), Group::new(&wheel));
    let (say, said) = says();
    let ways: [&dyn Fn(u32) -> Handle; 8] = [
        &|n| wheel.insert(HOUR, say(n)),
        &|n| wheel.insert(wheel.wall_now() + HOUR, say(n)),
        &|n| wheel.insert(When::after(HOUR).jitter(MS), say(n)),
        &|n| wheel.insert_with(HOUR, |_| say(n)).unwrap(),
        &|n| wheel.insert_batch([(HOUR, say(n))]).unwrap()[0],
        &|n| wheel.insert_batch([(wheel.wall_now() + HOUR, say(n))]).unwrap()[0],
        &|n| group.insert(HOUR, say(n)).unwrap(),
        &|n| {
            keyed.insert(n, HOUR, say(n)).unwrap();
            keyed.handle(&n).unwrap()
        },
    ];
    for (way, insert) in ways.iter().enumerate() {
        let n = way as u32;
        // Taken out, looked at, and converted to its type.
        let job = wheel.take(insert(n)).unwrap();
        assert_eq!(number(&job), Some(n), "way {way}");
        assert!(job.downcast_ref::<u32>().is_none());
        let job = job.downcast::<String>().unwrap_err();
        assert_eq!(job.downcast::<Say>().unwrap().0, n);
        assert!(keyed.is_empty() && group.is_empty() && wheel.is_empty());
        // It still runs.
        insert(n);
        assert_eq!((driver.advance(HOUR + MS), said.try_recv()), (1, Ok(n)), "way {way}");
    }
    for (way, insert) in ways.iter().enumerate() {
        insert(way as u32);
    }
    let mut back: Vec<u32> =
        wheel.shutdown().map(|unfired| unfired.job.downcast::<Say>().unwrap().0).collect();
    back.sort_unstable();
    assert_eq!(back, (0..8).collect::<Vec<_>>());
    assert!(keyed.is_empty() && group.is_empty());
    // A closure, and a repeating job, have no type that can be named.
    let (wheel, _driver) = manual();
    wheel.insert(HOUR, || ());
    wheel.every(HOUR, || ()).unwrap();
    assert!(wheel.shutdown().all(|unfired| unfired.job.downcast::<Say>().is_err()));
}

/// C58: A `Job` may be inserted again, in any wheel and by every verb.
#[test]
fn job_may_be_inserted_again() {
    let (old, _) = manual();
    let (say, said) = says();
    for n in 0..4 {
        match n {
            0 => drop(old.insert(HOUR, say(n))),
            1 => drop(old.insert(old.wall_now() + HOUR, say(n))),
            2 => drop(old.insert_with(HOUR, |_| say(n)).unwrap()),
            _ => drop(Keyed::new(&old).insert("key", HOUR, say(n)).unwrap()),
        }
    }
    let jobs: Vec<Job> = old.shutdown().map(|unfired| unfired.job).collect();
    let (wheel, driver) = Wheel::builder().max_pending(8).manual().unwrap();
    let (keyed, group) = (Keyed::new(&wheel), Group::new(&wheel));
    // Every way to insert, one after the other: each time the jobs come back as they were.
    let mut ways: Vec<Box<dyn FnMut(usize, Job) -> Handle>> = vec![
        Box::new(|_, job| wheel.insert(HOUR, job)),
        Box::new(|_, job| wheel.insert(wheel.wall_now() + HOUR, job)),
        Box::new(|_, job| wheel.insert_with(HOUR, |_| job).unwrap()),
        Box::new(|_, job| wheel.insert_batch([(HOUR, job)]).unwrap()[0]),
        Box::new(|_, job| wheel.insert_batch([(wheel.wall_now() + HOUR, job)]).unwrap()[0]),
        Box::new(|_, job| group.insert(HOUR, job).unwrap()),
        Box::new(|_, job| group.insert_batch([(HOUR, job)]).unwrap()[0]),
        Box::new(|n, job| {
            keyed.insert(n, HOUR, job).unwrap();
            keyed.handle(&n).unwrap()
        }),
        Box::new(|n, job| {
            keyed.insert_batch([(n, HOUR, job)]).unwrap();
            keyed.handle(&n).unwrap()
        }),
    ];
    let mut jobs = jobs;
    for way in &mut ways {
        let mut numbers: Vec<u32> = jobs.iter().filter_map(number).collect();
        numbers.sort_unstable();
        assert_eq!(numbers, [0, 1, 2, 3]);
        let handles: Vec<Handle> =
            jobs.into_iter().enumerate().map(|(n, job)| way(n, job)).collect();
        assert_eq!(wheel.len(), 4);
        jobs = handles.iter().map(|&handle| wheel.take(handle).unwrap()).collect();
    }
    drop(ways);
    let handles = jobs.into_iter().map(|job| wheel.insert(HOUR, job)).collect::<HashSet<_>>();
    assert_eq!((handles.len(), driver.advance(HOUR)), (4, 4));
    let mut ran: Vec<u32> = said.try_iter().collect();
    ran.sort_unstable();
    assert_eq!(ran, [0, 1, 2, 3]);
    // A job that is refused comes back as it was.
    let refused = wheel.scheduler();
    drop(wheel.shutdown());
    let job = refused.insert(HOUR, Job::new(say(7))).unwrap_err().into_inner();
    let job = refused.insert_batch([(MS, job)]).unwrap_err().into_inner().remove(0).1;
    assert_eq!(job.downcast::<Say>().unwrap().0, 7);
}

/// C58: A repeating job that is inserted again goes on repeating, under a new handle and in a new phase.
#[test]
fn repeating_job_that_is_inserted_again_goes_on_repeating() {
    let (old, _) = manual();
    let (sender, runs) = channel();
    let repeat = Repeat::every(MS * 10).missed(Missed::Skip).after_panic(Next::Period);
    let handle = old
        .repeat(repeat, move |run| {
            let _ = sender.send(run);
            Next::Period
        })
        .unwrap();
    let mut job = old.take(handle).unwrap();
    // From one wheel to the next, alone and in a batch with others.
    for round in 0..3 {
        let (wheel, driver) = manual();
        let began = driver.now();
        let handle = match round {
            1 => wheel.insert_batch([(MS, Job::new(|| ())), (MS * 3, job)]).unwrap()[1],
            _ => wheel.insert(MS * 3, job),
        };
        assert_eq!(driver.advance(MS * 53), 6 + usize::from(round == 1));
        for n in 0..6 {
            let run = runs.try_recv().unwrap();
            assert_eq!((run.handle, run.deadline), (handle, began + MS * (3 + 10 * n)));
        }
        assert!(wheel.reset(handle, HOUR));
        job = wheel.shutdown().next().unwrap().job;
    }
    // It keeps its window: of the ticks 60 to 110, tick 64 can be halved most often.
    let (wheel, _driver) = manual();
    let slack = wheel.repeat(Repeat::every(HOUR).within(MS * 50), |_| Next::Period).unwrap();
    let slack = wheel.insert(MS * 60, wheel.take(slack).unwrap());
    assert_eq!(wheel.remaining(slack), Some(MS * 64));
    // A job that is refused comes back as it was, here too.
    let (full, driver) = Wheel::builder().max_pending(1).manual().unwrap();
    let first = full.insert(MS, || ());
    let job = full.try_insert(MS, job).unwrap_err().into_inner();
    let job = full.insert_batch([(MS, job)]).unwrap_err().into_inner().remove(0).1;
    assert!(full.cancel(first));
    full.insert(MS, job);
    assert_eq!(driver.advance(MS * 11), 2);
    // Under a key, in a group and with its handle, too.
    let mut job = full.shutdown().next().unwrap().job;
    let (wheel, driver) = manual();
    let (keyed, group) = (Keyed::new(&wheel), Group::new(&wheel));
    let ways: [&dyn Fn(Job) -> Handle; 5] = [
        &|job| group.insert(MS, job).unwrap(),
        &|job| {
            keyed.insert("key", MS, job).unwrap();
            keyed.handle("key").unwrap()
        },
        &|job| {
            keyed.insert_if_absent("key", MS, job).unwrap();
            keyed.handle("key").unwrap()
        },
        &|job| wheel.insert_with(MS, |_| job).unwrap(),
        &|job| wheel.insert(driver.wall_now() + MS, job),
    ];
    for insert in ways {
        runs.try_iter().for_each(drop);
        let handle = insert(job);
        assert_eq!(
            (driver.advance(MS * 11), group.len() + keyed.len() + wheel.len() > 0),
            (2, true)
        );
        assert!(runs.try_iter().all(|run| run.handle == handle));
        job = wheel.take(handle).unwrap();
    }
    // If the key is taken, it comes back as it was. In a batch of keys or of a group it runs once.
    keyed.insert("key", HOUR, || ()).unwrap();
    let (_, job) = keyed.insert_if_absent("key", MS, job).unwrap_err().into_inner();
    let mut job = wheel.take(wheel.insert(MS, job)).unwrap();
    job = wheel.take(group.insert_batch([(MS, job)]).unwrap()[0]).unwrap();
    keyed.insert_batch([("key", MS, job)]).unwrap();
    assert_eq!((driver.advance(HOUR), wheel.len(), group.len(), keyed.len()), (1, 0, 0, 0));
}

/// C58: A job that is inserted again leaves its key and its group, and does not grow.
#[test]
fn job_that_is_inserted_again_leaves_its_key_and_group() {
    let (wheel, driver) = Wheel::builder().max_pending(1).manual().unwrap();
    let (keyed, group) = (Keyed::new(&wheel), Group::new(&wheel));
    let (say, said) = says();
    let ways: [&dyn Fn(Job) -> Handle; 6] = [
        &|job| group.insert(HOUR, job).unwrap(),
        &|job| group.insert_batch([(HOUR, job)]).unwrap()[0],
        &|job| {
            keyed.insert("key", HOUR, job).unwrap();
            keyed.handle("key").unwrap()
        },
        &|job| {
            keyed.insert_batch([("key", HOUR, job)]).unwrap();
            keyed.handle("key").unwrap()
        },
        &|job| wheel.insert_with(HOUR, |_| job).unwrap(),
        &|job| wheel.insert_batch([(driver.wall_now() + HOUR, job)]).unwrap()[0],
    ];
    for insert in ways {
        // If each insert added a wrapper, 30,000 nested wrappers would not fit on the stack.
        let mut job = Job::new(say(7));
        for _ in 0..30_000 {
            let handle = insert(job);
            assert!(group.len() + keyed.len() <= 1);
            job = wheel.take(handle).unwrap();
        }
        let handle = wheel.insert(HOUR, job);
        assert_eq!((group.len(), keyed.len(), wheel.is_pending(handle)), (0, 0, true));
        assert_eq!((driver.advance(HOUR), said.try_recv()), (1, Ok(7)));
    }
}

/// C59: `insert_with` gives the job its own handle before the job is in the wheel.
#[test]
fn job_can_know_its_own_handle() {
    on_both_clocks(MS, |wheel, time| {
        let (sender, told) = channel();
        let (insert_within, at) = (MS * 2, time.now() + MS * 2);
        let handle = wheel
            .insert_with(insert_within, |handle| {
                // It counts as pending from here on.
                assert!(wheel.is_pending(handle));
                let time = time.clone();
                move || sender.send((handle, time.now())).unwrap()
            })
            .unwrap();
        time.until(|| !wheel.is_pending(handle));
        let (known, ran) = told.recv().unwrap();
        assert_eq!(known, handle);
        assert!(ran >= at);
    });
    // A job that was cancelled while it was made never runs. One that was reset then runs later.
    let (wheel, driver) = manual();
    let (token, alive) = counted();
    let make = |handle| {
        assert!(wheel.cancel(handle));
        move || drop(token)
    };
    let cancelled = wheel.insert_with(MS, make).unwrap();
    assert_eq!((alive(), wheel.is_pending(cancelled), wheel.len()), (0, false, 0));
    let put_off = |handle| {
        assert!(wheel.reset(handle, HOUR));
        || ()
    };
    wheel.insert_with(MS, put_off).unwrap();
    assert_eq!((driver.advance(MS), driver.advance(HOUR)), (0, 1));
    // A panic while it is made unwinds to the caller, and leaves nothing behind.
    let (wheel, _driver) = Wheel::builder().max_pending(1).manual().unwrap();
    let never = |_| -> fn() { panic_any("no job") };
    for _ in 0..3 {
        assert!(catch_unwind(AssertUnwindSafe(|| wheel.insert_with(MS, never))).is_err());
    }
    assert!(wheel.insert_with(MS, |_| || ()).is_ok());
    let not_called = |_| -> fn() { unreachable!("there is no room") };
    assert_eq!(wheel.insert_with(MS, not_called), Err(InsertErrorKind::Full));
    let scheduler = wheel.scheduler();
    drop(wheel);
    assert_eq!(scheduler.insert_with(MS, not_called), Err(InsertErrorKind::Shutdown));
}

/// C59: A job of `insert_with` can be cancelled until it starts.
#[test]
fn job_that_knows_its_handle_can_be_cancelled_until_it_starts() {
    let wheel = threads(1);
    let release = blocker(&wheel);
    let (token, alive) = counted();
    let job = wheel.insert_with(Duration::ZERO, |_| move || drop(token)).unwrap();
    // It has left the wheel, and waits for the only thread.
    wait_for(|| wheel.is_empty());
    assert!(wheel.is_pending(job) && wheel.take(job).is_none());
    assert!(wheel.cancel(job));
    assert!(!wheel.cancel(job) && !wheel.is_pending(job));
    drop(release);
    assert!(wheel.wait_idle());
    assert_eq!((alive(), wheel.stats().completed), (0, 2));
}

/// C55: With `max_in_flight` of the number of threads, a job can be cancelled until there is a thread for it.
#[test]
fn jobs_can_be_cancelled_until_there_is_a_thread_for_them() {
    let wheel = Wheel::builder().threads(1).max_in_flight(1).build().unwrap();
    let release = blocker(&wheel);
    let keyed = Keyed::new(&wheel);
    let (say, said) = says();
    keyed.insert("key", Duration::ZERO, say(1)).unwrap();
    wait_for(|| keyed.remaining("key") == Some(Duration::ZERO));
    let replaced = keyed.insert("key", Duration::ZERO, say(2)).unwrap().unwrap();
    assert_eq!(number(&replaced), Some(1));
    drop(release);
    assert!(wheel.wait_idle());
    assert_eq!(said.try_iter().collect::<Vec<_>>(), [2]);
}
