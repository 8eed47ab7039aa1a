//! Middleware round the handlers of each form: functions, futures, and batches of both.
//!
//! The headers of a job say what each middleware and the handler do. A story has their actions: `outer` when a call
//! begins, and `/outer` when it ends, also by a panic or a drop.

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

#[cfg(feature = "tokio")]
use core::{future::poll_fn, task::Poll};

use tickwheel_jobs::{Next, StopReason};
#[cfg(feature = "tokio")]
use tickwheel_jobs::{NextAsync, OpenError};

use super::verbs::VERBS;
use super::*;

/// The events of a test, in order.
#[derive(Clone, Default)]
struct Story(Arc<Mutex<Vec<String>>>);

/// A call that goes on.
struct Call(Story, String);

impl Story {
    fn begin(&self, name: &str) -> Call {
        self.0.lock().unwrap().push(name.to_owned());
        Call(self.clone(), format!("/{name}"))
    }

    fn take(&self) -> String {
        core::mem::take(&mut *self.0.lock().unwrap()).join(" ")
    }
}

impl Drop for Call {
    fn drop(&mut self) {
        self.0.0.lock().unwrap().push(core::mem::take(&mut self.1));
    }
}

/// Returns the end of a handler, or of a middleware before its call, if a header of the job gives one.
fn before(run: &Run, name: &str) -> Option<Result<(), Fail>> {
    match run.header(name)? {
        "completes" => Some(Ok(())),
        "dies" => Some(Err(Fail::dead(format!("of {name}")))),
        "snoozes" => Some(Err(Fail::snooze(HOUR))),
        "panics" => resume_unwind(Box::new(format!("of {name}"))),
        _ => None,
    }
}

/// Returns how a middleware ends after its call has ended.
fn after(run: &Run, name: &str, ended: Result<(), Fail>) -> Result<(), Fail> {
    match run.header(name) {
        Some("forgives") => ended.or(Ok(())),
        Some("refuses") => Err(Fail::dead(format!("of {name}"))),
        Some("panics after") => resume_unwind(Box::new(format!("of {name}"))),
        _ => ended,
    }
}

fn catches(run: &Run, name: &str) -> bool {
    run.header(name) == Some("catches")
}

fn around(runs: &[Run], next: Next<'_>, name: &str, story: &Story) -> Result<(), Fail> {
    let _call = story.begin(name);
    if let Some(ended) = before(&runs[0], name) {
        return ended;
    }
    let ended = if catches(&runs[0], name) {
        catch_unwind(AssertUnwindSafe(|| next.run())).unwrap_or_else(|_| Err(Fail::dead("caught")))
    } else {
        next.run()
    };
    after(&runs[0], name, ended)
}

#[cfg(feature = "tokio")]
async fn around_async(
    runs: Vec<Run>,
    next: NextAsync,
    name: &str,
    _call: Call,
) -> Result<(), Fail> {
    if let Some(ended) = before(&runs[0], name) {
        return ended;
    }
    let ended = if catches(&runs[0], name) {
        let mut inside = Box::pin(next.run());
        let poll = |context: &mut core::task::Context<'_>| {
            catch_unwind(AssertUnwindSafe(|| inside.as_mut().poll(context)))
                .unwrap_or_else(|_| Poll::Ready(Err(Fail::dead("caught"))))
        };
        poll_fn(poll).await
    } else {
        next.run().await
    };
    after(&runs[0], name, ended)
}

/// A form of a handler.
#[derive(Clone, Copy, PartialEq, Debug)]
enum Form {
    Function,
    Batch,
    #[cfg(feature = "tokio")]
    Future,
    #[cfg(feature = "tokio")]
    BatchOfFutures,
}

const FORMS: &[Form] = &[
    Form::Function,
    Form::Batch,
    #[cfg(feature = "tokio")]
    Form::Future,
    #[cfg(feature = "tokio")]
    Form::BatchOfFutures,
];

#[cfg(feature = "tokio")]
fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_time().build().unwrap()
}

/// The runtime of the tests that do not end it.
#[cfg(feature = "tokio")]
static RUNTIME: std::sync::LazyLock<tokio::runtime::Runtime> = std::sync::LazyLock::new(runtime);

impl Form {
    fn is_batch(self) -> bool {
        match self {
            Form::Function => false,
            Form::Batch => true,
            #[cfg(feature = "tokio")]
            other => other == Form::BatchOfFutures,
        }
    }

    fn middleware(self, builder: Builder, name: &'static str, story: &Story) -> Builder {
        let story = story.clone();
        match self {
            Form::Function | Form::Batch => {
                builder.middleware(move |runs, next| around(runs, next, name, &story))
            }
            #[cfg(feature = "tokio")]
            _ => builder.middleware_async(move |runs, next| {
                around_async(runs, next, name, story.begin(name))
            }),
        }
    }

    /// Adds a handler of mails, with a middleware before it and one after it.
    fn on(self, builder: Builder, story: &Story) -> Builder {
        let (builder, noted) = (self.middleware(builder, "outer", story), story.clone());
        let ends = |run: &Run, _call: &Call| before(run, "handler").unwrap_or(Ok(()));
        let builder = match self {
            Form::Function => {
                builder.handle(move |_: Mail, run| ends(run, &noted.begin("handler")))
            }
            Form::Batch => builder.handle_batch(2, SECOND, move |mails: &[(Mail, Run)]| {
                ends(&mails[0].1, &noted.begin("handler"))
            }),
            #[cfg(feature = "tokio")]
            Form::Future => builder.handle_async(move |_: Mail, run| {
                let call = noted.begin("handler");
                async move { ends(&run, &call) }
            }),
            #[cfg(feature = "tokio")]
            Form::BatchOfFutures => {
                builder.handle_batch_async(2, SECOND, move |mails: Vec<(Mail, Run)>| {
                    let call = noted.begin("handler");
                    async move { ends(&mails[0].1, &call) }
                })
            }
        };
        #[cfg(feature = "tokio")]
        let builder = builder.runtime(RUNTIME.handle().clone());
        self.middleware(builder, "inner", story).retry(Retry::never())
    }
}

/// The headers of a job, the story of its run, and the error of the job: a completed one has none.
type Case = (&'static [(&'static str, &'static str)], &'static str, Option<&'static str>);

const ALL: &str = "outer inner handler /handler /inner /outer";
const NO_HANDLER: &str = "outer inner /inner /outer";

const CASES: &[Case] = &[
    (&[], ALL, None),
    (&[("handler", "dies")], ALL, Some("of handler")),
    (&[("handler", "panics")], ALL, Some("panicked: of handler")),
    (&[("outer", "completes"), ("handler", "dies")], "outer /outer", None),
    (&[("outer", "dies")], "outer /outer", Some("of outer")),
    (&[("outer", "panics")], "outer /outer", Some("panicked: of outer")),
    (&[("inner", "completes"), ("handler", "dies")], NO_HANDLER, None),
    (&[("inner", "panics")], NO_HANDLER, Some("panicked: of inner")),
    (&[("inner", "panics"), ("outer", "catches")], NO_HANDLER, Some("caught")),
    (&[("inner", "panics after")], ALL, Some("panicked: of inner")),
    (&[("inner", "refuses")], ALL, Some("of inner")),
    (&[("inner", "refuses"), ("outer", "forgives")], ALL, None),
    (&[("handler", "dies"), ("inner", "forgives")], ALL, None),
    (&[("handler", "panics"), ("inner", "catches")], ALL, Some("caught")),
    (&[("handler", "panics"), ("inner", "catches"), ("outer", "forgives")], ALL, None),
];

/// P108: The first middleware is the outermost, round a handler of each form, also if the builder had the handler
/// before. A run ends with the value of the outermost middleware: after the handler or without it, and after a panic of
/// the handler or of another middleware.
#[test]
fn run_ends_as_its_outermost_middleware_says() {
    on_stores(|store| {
        for form in FORMS {
            let story = Story::default();
            let (jobs, driver) = form.on(store.open(), &story).manual().unwrap();
            let many = if form.is_batch() { 2 } else { 1 };
            for case @ (acts, happens, error) in CASES {
                let headers =
                    |client: Client, (name, act): &(&str, &str)| client.with_header(*name, *act);
                let client = acts.iter().fold(jobs.client(), headers);
                let mails = (0..many).map(|mail| (Duration::ZERO, Mail(mail)));
                let ids = client.insert_batch(mails).unwrap();
                driver.advance(SECOND);
                driver.wait_idle();
                assert_eq!(story.take(), *happens, "{form:?} {case:?}");
                for id in ids {
                    let job = jobs.get(id).unwrap();
                    let its = job.map(|job| (job.state, job.error.unwrap_or_default()));
                    let right = error.map(|error| (JobState::Dead, error.to_owned()));
                    assert_eq!(its, right, "{form:?} {case:?}");
                }
            }
            // A middleware can snooze too.
            let snoozing = jobs.client().with_header("outer", "snoozes");
            let id = snoozing.insert(Duration::ZERO, Mail(3)).unwrap();
            driver.advance(2 * SECOND);
            driver.wait_idle();
            let job = jobs.get(id).unwrap().unwrap();
            assert_eq!((job.state, job.error, jobs.stats().snoozed), (JobState::Pending, None, 1));
            assert!(jobs.cancel(id).unwrap().is_cancelled());
            jobs.dead().delete_all().unwrap().run().unwrap();
            jobs.check().unwrap();
            jobs.shutdown().unwrap();
        }
    });
}

/// A job that decodes only if its number is even.
#[derive(Serialize)]
struct Even(u64);

impl<'de> Deserialize<'de> for Even {
    fn deserialize<D: serde::Deserializer<'de>>(from: D) -> Result<Even, D::Error> {
        let number = u64::deserialize(from)?;
        number
            .is_multiple_of(2)
            .then_some(Even(number))
            .ok_or_else(|| serde::de::Error::custom("odd"))
    }
}

impl Job for Even {
    const KIND: &'static str = "even";
}

/// P43, P108: A job that does not decode is dead, and no middleware gets its run. Of a batch the middleware gets the
/// other runs, which complete.
#[test]
fn middleware_gets_no_run_of_a_job_that_does_not_decode() {
    on_stores(|store| {
        for (many, most) in [(vec![2, 1], 1), (vec![2, 1, 4], 3), (vec![3, 1], 2)] {
            let got: Arc<Mutex<Vec<usize>>> = Arc::default();
            let noted = Arc::clone(&got);
            let builder = store.open().middleware(move |runs, next| {
                noted.lock().unwrap().push(runs.len());
                next.run()
            });
            let builder = match most {
                1 => builder.handle(|_: Even, _| Ok(())),
                _ => builder.handle_batch(most, SECOND, |_: &[(Even, Run)]| Ok(())),
            };
            let (jobs, driver) = builder.manual().unwrap();
            jobs.insert_batch(many.iter().map(|number| (Duration::ZERO, Even(*number)))).unwrap();
            driver.advance(2 * SECOND);
            let right: &[usize] = match most {
                1 => &[1],
                2 => &[],
                _ => &[2],
            };
            assert_eq!(*got.lock().unwrap(), right);
            let odd = many.iter().filter(|number| !number.is_multiple_of(2)).count();
            let ended = (jobs.count().unwrap().dead, jobs.stats().completed);
            assert_eq!(ended, (odd as u64, (many.len() - odd) as u64));
            jobs.dead().delete_all().unwrap().run().unwrap();
            jobs.shutdown().unwrap();
        }
    });
}

/// Waits until a job has ended, and returns it: it is dead or kept.
fn ended(jobs: &Jobs, id: JobId) -> JobInfo {
    // For a dead job the wait returns an error.
    let _ = jobs.wait(id, LONG);
    jobs.get(id).unwrap().unwrap()
}

/// The answer of each verb.
fn answers(run: &Run) -> Vec<Result<(), StoreError>> {
    VERBS.iter().map(|(_, verb)| verb(&run.client())).collect()
}

/// P108: A middleware may do everything that a handler may, before and after it: call every verb, read the shared
/// state, set the result and add follow-ups. A failure that the handler has noted counts, with any value of the
/// middleware.
#[test]
fn middleware_may_do_what_a_handler_may() {
    on_stores(|store| {
        let (told, answered) = mpsc::channel();
        let of_handler = told.clone();
        let around = move |runs: &[Run], next: Next<'_>| -> Result<(), Fail> {
            told.send(answers(&runs[0]))?;
            let ended = next.run();
            told.send(answers(&runs[0]))?;
            runs[0].then(HOUR, NewMail(*runs[0].state::<u64>()?))?;
            runs[0].set_result("of the middleware")?;
            ended
        };
        let handler = move |charge: Charge, run: &Run| -> Result<(), Fail> {
            of_handler.send(answers(run))?;
            if charge.0 == 13 {
                run.fail(Fail::dead("bad luck"));
            }
            Ok(())
        };
        let builder = store.open().state(7_u64).middleware(around).retry(Retry::never());
        let jobs = builder.handle(handler).start().unwrap();
        jobs.kind::<Charge>().keep_completed(Keep::last(2)).unwrap();
        for cents in [1, 13] {
            let id = jobs.insert(Duration::ZERO, Charge(cents)).unwrap();
            let answers: Vec<_> = (0..3).map(|_| answered.recv_timeout(LONG).unwrap()).collect();
            assert!(answers.iter().all(|of_each| of_each.iter().all(Result::is_ok)), "{answers:?}");
            let job = ended(&jobs, id);
            let (state, error, result) = match cents {
                13 => (JobState::Dead, Some("bad luck"), None),
                _ => (JobState::Completed, None, Some(&br#""of the middleware""#[..])),
            };
            let its = (job.state, job.error.as_deref(), job.result.as_deref());
            assert_eq!(its, (state, error, result));
        }
        let follow_ups: Vec<_> = jobs.pending().kind::<NewMail>().collect();
        assert_eq!(follow_ups.len(), 1, "that of the run which completed");
        assert_eq!(follow_ups[0].job::<NewMail>().unwrap(), NewMail(7));
        jobs.check().unwrap();
        jobs.shutdown().unwrap();
    });
}

/// P22, P108: A cancel and a shutdown ask a run in its middleware to stop, as in its handler, and a shutdown waits for
/// it. The run is no interruption.
#[test]
fn cancel_and_shutdown_reach_a_run_in_its_middleware() {
    on_stores(|store| {
        for why in [StopReason::Requested, StopReason::Shutdown] {
            let (told, started) = mpsc::channel();
            let around = move |runs: &[Run], next: Next<'_>| -> Result<(), Fail> {
                next.run()?;
                told.send(None)?;
                while !runs[0].is_cancelled() {
                    pause(MS);
                }
                told.send(runs[0].stop_reason())?;
                Err(Fail::interrupted())
            };
            let builder = store.open().middleware(around);
            let jobs = builder.handle(|_: Mail, _| Ok(())).start().unwrap();
            let (id, client) = (jobs.insert(Duration::ZERO, Mail(1)).unwrap(), jobs.client());
            assert_eq!(started.recv_timeout(LONG), Ok(None));
            if why == StopReason::Requested {
                assert_eq!(jobs.cancel(id).unwrap(), Cancel::Running);
                assert_eq!(started.recv_timeout(LONG), Ok(Some(why)));
                let ended = client.wait(id, LONG);
                assert!(
                    matches!(ended, Err(CallError::Gone(_) | CallError::Cancelled(_))),
                    "{ended:?}"
                );
            }
            jobs.shutdown().unwrap();
            if why == StopReason::Shutdown {
                assert_eq!(started.try_recv(), Ok(Some(why)), "the shutdown has waited");
            }
            if store.keeps {
                let jobs = store.open().client().unwrap();
                let of = |job: JobInfo| (job.state, job.attempt, job.interruptions);
                let left = jobs.get(id).unwrap().map(of);
                let right = (why == StopReason::Shutdown).then_some((JobState::Pending, 0, 0));
                assert_eq!(left, right);
                assert_eq!(jobs.cancel(id).unwrap().is_cancelled(), why == StopReason::Shutdown);
            }
        }
    });
}

/// P108: If a future is dropped, the future of each middleware is dropped too, the innermost first. A middleware that
/// waits no longer drops it, or the end of the runtime does.
#[cfg(feature = "tokio")]
#[test]
fn futures_of_middleware_are_dropped_with_that_of_the_handler() {
    on_stores(|store| {
        for by_middleware in [true, false] {
            let (runtime, story) = (runtime(), Story::default());
            let (told, started) = mpsc::channel();
            let (outer, noted, inner) = (story.clone(), story.clone(), story.clone());
            let builder = store.open().runtime(runtime.handle().clone()).retry(Retry::never());
            let builder = builder.middleware_async(move |_, next| {
                let call = outer.begin("outer");
                async move {
                    let (_call, time) = (call, if by_middleware { MS } else { HOUR });
                    let ended = tokio::time::timeout(time, next.run()).await;
                    ended.map_err(|_| Fail::dead("of outer"))?
                }
            });
            let builder = builder.middleware_async(move |runs, next| {
                around_async(runs, next, "inner", inner.begin("inner"))
            });
            let handler = move |_: Mail, _| {
                let (call, told) = (noted.begin("handler"), told.clone());
                async move {
                    let _call = call;
                    told.send(()).unwrap();
                    core::future::pending::<Result<(), Fail>>().await
                }
            };
            let jobs = builder.handle_async(handler).start().unwrap();
            let id = jobs.insert(Duration::ZERO, Mail(1)).unwrap();
            started.recv_timeout(LONG).unwrap();
            if !by_middleware {
                drop(runtime);
            }
            let job = ended(&jobs, id);
            let error = if by_middleware { "of outer" } else { "its runtime dropped it" };
            assert_eq!((job.state, job.error.as_deref()), (JobState::Dead, Some(error)));
            assert_eq!(story.take(), ALL);
            jobs.delete(id).unwrap();
            jobs.shutdown().unwrap();
        }
    });
}

/// P108: The start refuses a handler of a form without middleware, if the other form has middleware.
#[cfg(feature = "tokio")]
#[test]
fn handler_of_the_form_without_middleware_is_refused() {
    fn passes(builder: Builder) -> Builder {
        builder.middleware(|_, next| next.run())
    }
    fn passes_async(builder: Builder) -> Builder {
        builder.middleware_async(|_, next| next.run())
    }
    let of_function = || Jobs::memory().handle(|_: Mail, _| Ok(()));
    let of_future = || Jobs::memory().handle_async(async |_: Mail, _| Ok(()));
    let start = |builder: Builder| builder.runtime(RUNTIME.handle().clone()).manual().map(drop);
    for (builder, missing) in [
        (passes(of_future()), "Builder::middleware_async"),
        (passes_async(of_function()), "Builder::middleware"),
        (passes(of_function().handle_async(async |_: Charge, _| Ok(()))), "middleware_async"),
    ] {
        let Err(OpenError::Config(reason)) = start(builder) else { panic!("{missing}") };
        assert!(reason.ends_with(missing), "{reason}");
    }
    for builder in
        [passes(of_function()), passes_async(of_future()), passes(passes_async(of_future()))]
    {
        start(builder).unwrap();
    }
}

/// P108: A middleware may take longer than the time limit of its run, and the grace after it. Then `next` calls no
/// handler. The same is so if the run has lost its lease, which happens to nodes of a server on a loaded machine.
#[test]
fn middleware_that_overruns_its_run_calls_no_handler() {
    on_stores(|store| {
        let (told, ended) = mpsc::channel();
        let around = move |runs: &[Run], next: Next<'_>| -> Result<(), Fail> {
            let (run, client) = (&runs[0], runs[0].client());
            let has_failed = |job: JobInfo| job.failures == 1;
            while run.stop_reason() != Some(StopReason::LeaseLost)
                && !client.get(run.id())?.is_some_and(has_failed)
            {
                pause(MS);
            }
            told.send(next.run().map_err(|fail| fail.to_string()))?;
            Ok(())
        };
        let builder = store.open().middleware(around).retry(Retry::fixed(HOUR));
        let handler = |_: Mail, _: &Run| resume_unwind(Box::new("its run is over"));
        let builder = builder.handle(handler).time_limit::<Mail>(20 * MS);
        let jobs = builder.lease(200 * MS).start().unwrap();
        jobs.insert(Duration::ZERO, Mail(1)).unwrap();
        let inside = ended.recv_timeout(LONG).unwrap();
        assert!(inside.as_ref().is_err_and(|error| error.contains("over")), "{inside:?}");
        jobs.shutdown().unwrap();
    });
}

/// P108: A middleware may take longer than a shutdown waits for its run. The run is interrupted then, and `next` calls
/// no handler beside the next run of the job.
#[test]
fn middleware_that_outlasts_a_shutdown_calls_no_handler() {
    on_stores(|store| {
        let (begin, begun) = mpsc::channel();
        let (go_on, may_go_on) = mpsc::channel();
        let (told, ended) = mpsc::channel();
        let may_go_on = Mutex::new(may_go_on);
        let around = move |_: &[Run], next: Next<'_>| -> Result<(), Fail> {
            begin.send(())?;
            may_go_on.lock().unwrap().recv_timeout(LONG)?;
            told.send(next.run().map_err(|fail| fail.to_string()))?;
            Ok(())
        };
        let handler = |_: Mail, _: &Run| resume_unwind(Box::new("its run is over"));
        let jobs = store.open().middleware(around).handle(handler).start().unwrap();
        jobs.insert(Duration::ZERO, Mail(1)).unwrap();
        begun.recv_timeout(LONG).unwrap();
        assert!(jobs.shutdown_timeout(50 * MS).is_err(), "it runs still");
        go_on.send(()).unwrap();
        let inside = ended.recv_timeout(LONG).unwrap();
        assert!(inside.as_ref().is_err_and(|error| error.contains("over")), "{inside:?}");
    });
}

/// P108: A middleware may keep its `next` beyond its run. Then `next` calls no handler.
#[cfg(feature = "tokio")]
#[test]
fn inside_that_is_kept_beyond_its_run_is_refused() {
    on_stores(|store| {
        let kept: Arc<Mutex<Option<NextAsync>>> = Arc::default();
        let keeps = Arc::clone(&kept);
        let builder = store.open().runtime(RUNTIME.handle().clone());
        let builder = builder.middleware_async(move |_, next| {
            *keeps.lock().unwrap() = Some(next);
            async { Ok(()) }
        });
        let handler = async |_: Mail, _: Run| resume_unwind(Box::new("it has no claim"));
        let jobs = builder.handle_async(handler).start().unwrap();
        jobs.call::<_, ()>(Mail(1), LONG).unwrap();
        let next = kept.lock().unwrap().take().expect("it was kept");
        let ended = RUNTIME.block_on(next.run());
        assert!(ended.as_ref().is_err_and(|fail| fail.to_string().contains("over")), "{ended:?}");
        jobs.shutdown().unwrap();
    });
}

/// P108: A client ignores middleware. Another process runs the jobs, and has its own.
#[test]
fn client_ignores_middleware() {
    on_stores(|store| {
        if !store.keeps {
            return;
        }
        let builder = store.open().middleware(|_, _| panic!("a client runs no job"));
        #[cfg(feature = "tokio")]
        let builder = builder.middleware_async(async |_, _| panic!("a client runs no job"));
        let client = builder.client().unwrap();
        let id = client.insert(Duration::ZERO, Mail(1)).unwrap();
        let jobs = store.open().handle(|_: Mail, _| Ok(())).start().unwrap();
        assert_eq!(client.wait(id, LONG), Err(CallError::Gone(id)));
        assert_eq!(jobs.stats().completed, 1);
        jobs.shutdown().unwrap();
    });
}
