//! Handlers that are futures: where they run, and how many of them at once.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use tickwheel_jobs::{Builder, Fail, Jobs, Limit, OpenError, Retry, Run};

use super::support::*;

/// Runs that wait until they are released, and how many of them there are.
#[derive(Default)]
struct Gate {
    open: AtomicBool,
    running: AtomicUsize,
    most: AtomicUsize,
    ended: AtomicUsize,
}

impl Gate {
    async fn pass(&self) {
        let running = self.running.fetch_add(1, Ordering::SeqCst) + 1;
        self.most.fetch_max(running, Ordering::SeqCst);
        while !self.open.load(Ordering::SeqCst) {
            tokio::time::sleep(MS).await;
        }
        self.running.fetch_sub(1, Ordering::SeqCst);
        self.ended.fetch_add(1, Ordering::SeqCst);
    }

    fn running(&self) -> usize {
        self.running.load(Ordering::SeqCst)
    }

    fn ended(&self) -> usize {
        self.ended.load(Ordering::SeqCst)
    }
}

/// A named function, with the state of the builder.
async fn wait(_: Close, run: Run) -> Result<(), Fail> {
    run.state::<Arc<Gate>>()?.pass().await;
    Ok(())
}

fn insert(jobs: &Jobs, many: u64) {
    jobs.insert_batch((0..many).map(|order| (Duration::ZERO, close(order)))).unwrap();
}

/// P46: At most `max_async_runs` futures of a kind run at once, 64 by default. Further jobs of the kind wait, jobs
/// of other kinds do not, and each end of a run starts the next job.
#[test]
fn max_async_runs_limits_each_kind_and_delays_no_other() {
    fn holds(builder: Builder, most: usize) {
        let runtime = runtime(1);
        let (gate, pushed) = (Arc::new(Gate::default()), Arc::new(AtomicUsize::new(0)));
        let noted = Arc::clone(&pushed);
        let jobs = builder
            .runtime(runtime.handle().clone())
            .state(Arc::clone(&gate))
            .handle_async(wait)
            .handle_async_with(Retry::never(), move |_: Push, _| {
                noted.fetch_add(1, Ordering::SeqCst);
                async { Ok(()) }
            })
            .start()
            .unwrap();
        insert(&jobs, 150);
        wait_until("as many run as may", || gate.running() == most);
        let push = |to: u64| (Duration::ZERO, Push { to: to.to_string() });
        jobs.insert_batch((0..200).map(push)).unwrap();
        wait_until("the other kind has run", || pushed.load(Ordering::SeqCst) == 200);
        assert_eq!(gate.running(), most);
        gate.open.store(true, Ordering::SeqCst);
        wait_until("all have run", || gate.ended() == 150);
        assert!(gate.most.load(Ordering::SeqCst) <= most);
        jobs.check().unwrap();
        jobs.shutdown().unwrap();
    }
    on_each_store(|builder| holds(builder, 64));
    on_each_store(|builder| holds(builder.max_async_runs(3), 3));
}

/// P46: The same on a manual clock. While a kind has no room, its due jobs do not delay the clock.
#[test]
fn manual_clock_is_not_delayed_by_futures_without_room() {
    on_each_store(|builder| {
        let (runtime, gate) = (runtime(1), Arc::new(Gate::default()));
        let builder = builder.runtime(runtime.handle().clone()).max_async_runs(10);
        let (jobs, driver) = builder.state(Arc::clone(&gate)).handle_async(wait).manual().unwrap();
        insert(&jobs, 25);
        // A step a millisecond would take ten million of them.
        assert_eq!(driver.advance(3 * HOUR), 10);
        assert_eq!(driver.advance(HOUR), 0);
        gate.open.store(true, Ordering::SeqCst);
        let mut started = 10;
        wait_until("all have started", || {
            started += driver.advance(Duration::ZERO);
            started == 25
        });
        wait_until("all have run", || jobs.stats().completed == 25);
        jobs.check().unwrap();
    });
}

/// P25: A raised limit starts the jobs that it lets run in the next step, and not with the next poll, a second later.
#[test]
fn raised_limit_starts_jobs_at_once() {
    on_each_store(|builder| {
        let (runtime, gate) = (runtime(1), Arc::new(Gate::default()));
        let builder = builder.runtime(runtime.handle().clone());
        let (jobs, driver) = builder.state(Arc::clone(&gate)).handle_async(wait).manual().unwrap();
        jobs.queue().limit(Limit::running(1)).unwrap();
        insert(&jobs, 3);
        assert_eq!(driver.advance(HOUR), 1);
        jobs.queue().limit(Limit::running(2)).unwrap();
        assert_eq!(driver.advance(MS), 1);
        gate.open.store(true, Ordering::SeqCst);
        wait_until("all have run", || {
            driver.advance(MS);
            jobs.stats().completed == 3
        });
        jobs.check().unwrap();
    });
}

/// A builder without a runtime takes the one that it starts in. Outside of any runtime it refuses to start,
/// and says what to do. A limit of zero runs is refused as well.
#[test]
fn futures_run_where_the_jobs_were_started() {
    let gate = Arc::new(Gate::default());
    gate.open.store(true, Ordering::SeqCst);
    let builder = || Jobs::memory().state(Arc::clone(&gate)).handle_async(wait);
    for refused in [
        builder().start().map(drop),
        builder().manual().map(drop),
        builder().max_async_runs(0).runtime(runtime(1).handle().clone()).start().map(drop),
    ] {
        let Err(OpenError::Config(reason)) = refused else { panic!("{refused:?}") };
        assert!(reason.contains("Builder::runtime") || reason.contains("max_async_runs(0)"));
    }
    let runtime = runtime(1);
    let jobs = runtime.block_on(async { builder().start() }).unwrap();
    insert(&jobs, 1);
    wait_until("it has run", || gate.ended() == 1);
    jobs.shutdown().unwrap();
    // Handlers that block need none.
    Jobs::memory().handle(|_: Close, _| Ok(())).start().unwrap().shutdown().unwrap();
}

/// P30: A handler that is a future adds follow-ups without a wait of its thread. They are stored with its end, and not
/// if it panics.
#[test]
fn follow_ups_of_a_future_are_stored_with_its_end() {
    async fn follow(close: Close, run: Run) -> Result<(), Fail> {
        run.then(HOUR, Push { to: "then".to_owned() })?;
        tokio::task::yield_now().await;
        run.next().asynchronous().insert(HOUR, Push { to: "next".to_owned() }).await?;
        assert_ne!(close.order, 13, "as planned");
        Ok(())
    }
    on_each_store(|builder| {
        let runtime = runtime(1);
        let builder = builder.runtime(runtime.handle().clone());
        let jobs = builder.handle_async_with(Retry::never(), follow).start().unwrap();
        for order in [13, 1, 2] {
            jobs.insert(Duration::ZERO, close(order)).unwrap();
        }
        wait_until("all ended", || {
            let counts = jobs.count().unwrap();
            let in_hand = counts.running + counts.claimed;
            (counts.dead, in_hand, jobs.pending().kind::<Close>().count()) == (1, 0, 0)
        });
        let mut pushes: Vec<String> =
            jobs.pending().map(|info| info.job::<Push>().unwrap().to).collect();
        pushes.sort_unstable();
        assert_eq!(pushes, ["next", "next", "then", "then"]);
        jobs.check().unwrap();
        jobs.shutdown().unwrap();
    });
}
