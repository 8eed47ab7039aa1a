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

/// A wheel, and what inserts into it.
struct Inserts {
    wheel: Wheel,
    driver: Driver,
    keyed: Keyed<u32>,
    group: Group,
}

/// How many ways to insert a task there are. A job that repeats goes on repeating after an insert in one of the first.
const WAYS: usize = 11;
const WAYS_TO_REPEAT: usize = 8;

impl Inserts {
    fn new(builder: Builder) -> Inserts {
        let (wheel, driver) = builder.manual().unwrap();
        let (keyed, group) = (Keyed::new(&wheel), Group::new(&wheel));
        Inserts { wheel, driver, keyed, group }
    }

    /// Inserts a task in one of the ways, under this key if that needs one.
    fn insert(
        &self,
        way: usize,
        key: u32,
        after: Duration,
        task: impl Task + Send + 'static,
    ) -> Handle {
        let Inserts { wheel, keyed, group, .. } = self;
        match way {
            0 => return wheel.insert(after, task),
            1 => return wheel.insert(wheel.wall_now() + after, task),
            2 => return wheel.insert(When::after(after).jitter(Duration::from_nanos(1)), task),
            3 => return wheel.insert_with(after, |_| task).unwrap(),
            4 => return wheel.insert_batch([(after, task)]).unwrap()[0],
            5 => return group.insert(after, task).unwrap(),
            6 => drop(keyed.insert(key, after, task).unwrap()),
            7 => drop(keyed.insert_if_absent(key, after, task).map_err(drop)),
            8 => return wheel.insert_batch([(wheel.wall_now() + after, task)]).unwrap()[0],
            9 => return group.insert_batch([(after, task)]).unwrap()[0],
            _ => drop(keyed.insert_batch([(key, after, task)]).unwrap()),
        }
        keyed.handle(&key).unwrap()
    }

    /// How many jobs the keys and the group have.
    fn members(&self) -> usize {
        self.keyed.len() + self.group.len()
    }
}

/// C57: A `Task` comes back with the type that it had at its insert.
#[test]
fn task_comes_back_with_its_type() {
    let inserts = Inserts::new(Wheel::builder());
    let (say, said) = says();
    for (way, n) in (0..WAYS).zip(0..) {
        let insert = || inserts.insert(way, n, HOUR, say(n));
        // Taken out, looked at, and converted to its type.
        let job = inserts.wheel.take(insert()).unwrap();
        assert_eq!(number(&job), Some(n), "way {way}");
        assert!(job.downcast_ref::<u32>().is_none());
        let job = job.downcast::<String>().unwrap_err();
        assert_eq!(job.downcast::<Say>().unwrap().0, n);
        assert_eq!((inserts.members(), inserts.wheel.len()), (0, 0));
        // It still runs.
        insert();
        assert_eq!((inserts.driver.advance(HOUR + MS), said.try_recv()), (1, Ok(n)), "way {way}");
    }
    for (way, n) in (0..WAYS).zip(0..) {
        inserts.insert(way, n, HOUR, say(n));
    }
    // A closure, and a repeating job, have no type that can be named.
    inserts.wheel.insert(HOUR, || ());
    inserts.wheel.every(HOUR, || ()).unwrap();
    let Inserts { wheel, keyed, group, .. } = inserts;
    let jobs: Vec<Job> = wheel.shutdown().map(|unfired| unfired.job).collect();
    let says: Vec<Say> = jobs.into_iter().filter_map(|job| job.downcast::<Say>().ok()).collect();
    assert_eq!(says.iter().map(|say| say.0).collect::<HashSet<_>>().len(), WAYS);
    assert!(keyed.is_empty() && group.is_empty());
}

/// C58: A `Job` may be inserted again, in any wheel and by every verb.
#[test]
fn job_may_be_inserted_again() {
    let old = Inserts::new(Wheel::builder());
    let (say, said) = says();
    for (way, n) in (0..WAYS).zip(0..) {
        old.insert(way, n, HOUR, say(n));
    }
    let mut jobs: Vec<Job> = old.wheel.shutdown().map(|unfired| unfired.job).collect();
    let all = (0..WAYS as u32).collect::<HashSet<_>>();
    let new = Inserts::new(Wheel::builder());
    // Every way to insert, one after the other: each time the jobs come back as they were.
    for way in 0..WAYS {
        assert_eq!(jobs.iter().filter_map(number).collect::<HashSet<_>>(), all);
        let numbered = jobs.into_iter().zip(0..);
        let handles: Vec<Handle> = numbered.map(|(job, n)| new.insert(way, n, HOUR, job)).collect();
        assert_eq!(new.wheel.len(), WAYS);
        jobs = handles.iter().map(|&handle| new.wheel.take(handle).unwrap()).collect();
    }
    jobs.into_iter().for_each(|job| _ = new.wheel.insert(HOUR, job));
    assert_eq!(new.driver.advance(HOUR), WAYS);
    assert_eq!(said.try_iter().collect::<HashSet<_>>(), all);
    // A job that is refused comes back as it was.
    let refused = new.wheel.scheduler();
    drop(new.wheel.shutdown());
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
    let again = move |run| {
        let _ = sender.send(run);
        Next::Period
    };
    let mut job = old.take(old.repeat(repeat, again).unwrap()).unwrap();
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
    let full = Inserts::new(Wheel::builder().max_pending(1));
    let first = full.wheel.insert(MS, || ());
    let job = full.wheel.try_insert(MS, job).unwrap_err().into_inner();
    let mut job = full.wheel.insert_batch([(MS, job)]).unwrap_err().into_inner().remove(0).1;
    assert!(full.wheel.cancel(first));
    for way in 0..WAYS_TO_REPEAT {
        runs.try_iter().for_each(drop);
        let handle = full.insert(way, 1, MS, job);
        assert_eq!(full.driver.advance(MS * 12), 2, "way {way}");
        assert!(runs.try_iter().all(|run| run.handle == handle));
        job = full.wheel.take(handle).unwrap();
    }
    // If the key is taken, it comes back as it was. In a batch of keys or of a group it runs once.
    full.keyed.insert(1, HOUR, || ()).unwrap();
    let (_, job) = full.keyed.insert_if_absent(1, MS, job).unwrap_err().into_inner();
    assert!(full.keyed.cancel(&1));
    let job = full.wheel.take(full.insert(9, 1, MS, job)).unwrap();
    full.insert(10, 1, MS, job);
    assert_eq!((full.driver.advance(HOUR), full.wheel.len(), full.members()), (1, 0, 0));
}

/// C58: A job that is inserted again leaves its key and its group, and does not grow.
#[test]
fn job_that_is_inserted_again_leaves_its_key_and_group() {
    let inserts = Inserts::new(Wheel::builder().max_pending(1));
    let (say, said) = says();
    for way in 0..WAYS {
        // If each insert added a wrapper, 30,000 nested wrappers would not fit on the stack.
        let mut job = Job::new(say(7));
        for _ in 0..30_000 {
            let handle = inserts.insert(way, 1, HOUR, job);
            assert!(inserts.members() <= 1);
            job = inserts.wheel.take(handle).unwrap();
        }
        let handle = inserts.wheel.insert(HOUR, job);
        assert_eq!((inserts.members(), inserts.wheel.is_pending(handle)), (0, true));
        assert_eq!((inserts.driver.advance(HOUR), said.try_recv()), (1, Ok(7)));
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
