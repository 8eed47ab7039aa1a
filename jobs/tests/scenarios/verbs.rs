//! Every verb that waits for an answer, as a thread calls it and as a future does, across the end of the jobs.

use core::pin::Pin;
use std::sync::LazyLock;
use std::sync::mpsc::RecvTimeoutError;
use std::thread::{self, JoinHandle};
use std::time::SystemTime;

use tickwheel_jobs::{
    Durability, GroupId, InsertError, InsertErrorKind, Limit, Step, TestRun, Violation,
};

use tokio::runtime;

use super::*;

pub(crate) type Verb = fn(&Client) -> Result<(), StoreError>;
type Future = fn(&Client) -> Pin<Box<dyn core::future::Future<Output = Answered> + Send + '_>>;
type Answered = Result<(), StoreError>;

/// What a verb answers, if it was not refused. An answer that no schedule or no group has the name is one too.
trait Answer {
    fn told(self) -> Answered;
}

impl<T> Answer for Result<T, StoreError> {
    fn told(self) -> Answered {
        match self {
            Err(StoreError::NoSchedule(_) | StoreError::Group(_)) => Ok(()),
            other => other.map(drop),
        }
    }
}

impl<T> Answer for Result<T, InsertErrorKind> {
    fn told(self) -> Answered {
        self.map(drop).or_else(|refused| match refused {
            InsertErrorKind::Closed => Err(StoreError::Closed),
            InsertErrorKind::Unknown(_) => Err(StoreError::Unknown),
            InsertErrorKind::Store(error) => Err::<T, _>(error).told(),
            other => panic!("{other}"),
        })
    }
}

impl<T, J> Answer for Result<T, InsertError<J>> {
    fn told(self) -> Answered {
        self.map_err(|refused| refused.kind().clone()).told()
    }
}

impl Answer for Result<(), Violation> {
    fn told(self) -> Answered {
        self.map_err(|found| match found.to_string() {
            text if text.contains("shut down") => StoreError::Closed,
            text => StoreError::Other(text),
        })
    }
}

impl Answer for Result<(), Fail> {
    fn told(self) -> Answered {
        self.map_err(|failed| match failed.to_string() {
            text if text.contains("shut down") => StoreError::Closed,
            text => StoreError::Other(text),
        })
    }
}

macro_rules! verbs {
    (|$client:ident| $($of:expr => $verb:ident($($argument:expr),*);)*) => {
        /// Each verb with its name. A view has no futures.
        pub(crate) const VERBS: &[(&str, Verb)] = &[
            $((concat!(stringify!($of), ".", stringify!($verb)), |$client| {
                $of.$verb($($argument),*).told()
            }),)*
            ("overview", |client| View::new(client.clone()).overview().told()),
        ];
        const FUTURES: &[(&str, Future)] = &[
            $((concat!(stringify!($of), ".", stringify!($verb)), |$client| {
                Box::pin(async move { $of.asynchronous().$verb($($argument),*).await.told() })
            }),)*
        ];
    };
}

verbs! { |client|
    client => insert(HOUR, Mail(1));
    client => insert_copy(&ONE_JOB, HOUR);
    client => insert_batch([(HOUR, Mail(1))]);
    client.keyed("1") => insert(HOUR, Mail(1));
    client => cancel(JobId::new());
    client => cancel_batch([JobId::new()]);
    client => cancel_keys(["1", "2"]);
    client => reschedule(JobId::new(), HOUR);
    client => retry(JobId::new());
    client => get(JobId::new());
    client => count();
    client => unhandled();
    client => why_pending(JobId::new());
    client => dead_by_error(1);
    client => nodes();
    client => metrics();
    client => flush();
    client => check();
    client => schedule("night", HOUR, Mail(1));
    client.schedules() => remove("night");
    client.schedules() => pause("night");
    client.schedules() => resume("night");
    client.schedules() => list();
    client.schedules() => run_once("night", JobId::new());
    client.pending() => next_page();
    client.by_ids([JobId::new()]) => next_page();
    client.by_ids([JobId::new()]).cancel_all().unwrap() => run();
    client.kind_named("other") => head_start(HOUR);
    client.kind_named("other") => pause();
    client.kind_named("other") => hold(MS);
    client.kind_named("other").partition("acme") => pause();
    client.queue() => resume();
    client.queue() => is_paused();
    client.queue() => kinds();
    client.queue() => history(Step::Hour, ever());
    client.queue() => limit(Limit::running(9999));
    client.queue() => limits();
    client.queue() => hold(MS);
    client.group().add(HOUR, Mail(1)) => insert();
    client.group_by_id(GroupId::new()) => add(HOUR, Mail(1));
    client.group_by_id(GroupId::new()) => seal();
    client.group_by_id(GroupId::new()).results() => next_page();
    client => groups();
    TestRun::new::<Mail>(client).build() => store_progress(&70_000);
}

fn ever() -> core::ops::Range<SystemTime> {
    SystemTime::UNIX_EPOCH..SystemTime::UNIX_EPOCH + 1_000_000 * HOUR
}

/// A job that was read, by a thread that may wait. The thread that asks for it may be one of the jobs.
static ONE_JOB: LazyLock<JobInfo> = LazyLock::new(|| {
    let read = || {
        let (jobs, _driver, _) = mailing(Jobs::memory());
        jobs.insert(HOUR, Mail(1)).unwrap();
        jobs.pending().next().unwrap()
    };
    thread::spawn(read).join().unwrap()
});

/// Calls every verb again and again until it is refused. Sends the name of each that has ended.
fn callers(client: &Client, ended: &mpsc::Sender<&'static str>) -> Vec<JoinHandle<()>> {
    let caller = |(name, verb): &'static (&str, Verb)| {
        let (client, ended) = (client.clone(), ended.clone());
        thread::spawn(move || {
            let refused = loop {
                if let Err(refused) = verb(&client) {
                    break refused;
                }
            };
            assert_eq!(refused, StoreError::Closed, "{name}");
            ended.send(name).unwrap();
        })
    };
    VERBS.iter().map(caller).collect()
}

fn all_calls_end(builder: Builder, end: fn(Jobs)) {
    let jobs = builder.handle(|_: Mail, _| Ok(())).start().unwrap();
    let (sender, ended) = mpsc::channel();
    let callers = callers(&jobs.client(), &sender);
    drop(sender);
    jobs.insert(MS, Mail(2)).map(drop).unwrap_or_else(|refused| panic!("{refused}"));
    end(jobs);
    let mut missing: Vec<&str> = VERBS.iter().map(|(name, _)| *name).collect();
    loop {
        match ended.recv_timeout(LONG) {
            Ok(name) => missing.retain(|other| *other != name),
            Err(RecvTimeoutError::Disconnected) => break,
            Err(RecvTimeoutError::Timeout) => panic!("these calls never ended: {missing:?}"),
        }
    }
    callers.into_iter().for_each(|caller| caller.join().unwrap());
}

/// P22: Every call that is made while the jobs shut down or are dropped ends: with its answer, or with
/// [`StoreError::Closed`].
#[test]
fn calls_that_cross_the_end_of_the_jobs_end() {
    for _ in 0..12 {
        on_stores(|store| {
            for durability in [Durability::Written, Durability::Buffered] {
                let open = || store.open().durability(durability);
                all_calls_end(open(), |jobs| jobs.shutdown().unwrap());
                all_calls_end(open(), drop);
            }
        });
    }
}

fn all_futures_end(builder: Builder, end: fn(Jobs)) {
    let jobs = builder.handle(|_: Mail, _| Ok(())).start().unwrap();
    let mut runtime = runtime::Builder::new_multi_thread();
    let runtime = runtime.worker_threads(2).enable_time().build().unwrap();
    let caller = |(name, verb): &(&'static str, Future)| {
        let (client, verb) = (jobs.client(), *verb);
        let caller = runtime.spawn(async move {
            loop {
                if let Err(refused) = verb(&client).await {
                    return refused;
                }
            }
        });
        (*name, caller)
    };
    let callers: Vec<_> = FUTURES.iter().chain(FUTURES).map(caller).collect();
    jobs.insert(MS, Mail(2)).map(drop).unwrap();
    end(jobs);
    runtime.block_on(async {
        for (name, caller) in callers {
            let ended = tokio::time::timeout(LONG, caller).await;
            let refused = ended.unwrap_or_else(|_| panic!("{name} does not end")).unwrap();
            assert_eq!(refused, StoreError::Closed, "{name}");
        }
    });
}

/// P22, P55: The future of every call ends, also if the jobs end meanwhile.
#[test]
fn futures_end_when_the_jobs_end() {
    let ends: [fn(Jobs); 3] = [
        |jobs| jobs.shutdown().unwrap(),
        drop,
        |jobs| {
            let one_thread = runtime::Builder::new_current_thread().enable_time().build().unwrap();
            one_thread.block_on(jobs.shutdown_async()).unwrap();
        },
    ];
    for _ in 0..20 {
        on_stores(|store| ends.iter().for_each(|end| all_futures_end(store.open(), *end)));
    }
}
