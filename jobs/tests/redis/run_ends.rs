//! Time limits of runs on a server that nodes share, and the reports of runs that lose their lease.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use tickwheel_jobs::{Builder, Fail, Jobs, Outcome, Retry, Run, RunReport, StopReason};

use crate::proxy::Proxy;
use crate::server::{Server, pause, wait_until};
use crate::support::{Gate, Log, MS, Order, noting, open};

const LEASE: Duration = Duration::from_millis(1000);

/// The reports of a node.
#[derive(Clone, Default)]
struct Reports(Arc<Mutex<Vec<RunReport>>>);

impl Reports {
    fn on(&self, builder: Builder) -> Builder {
        let noted = Arc::clone(&self.0);
        builder.on_run(move |run| noted.lock().unwrap().push(run.clone()))
    }

    fn outcomes(&self) -> Vec<Option<Outcome>> {
        self.0.lock().unwrap().iter().map(|run| run.outcome).collect()
    }
}

/// A handler that goes on until it is released, and notes why it was told to stop.
fn goes_on(
    gate: &Gate,
    told: &Arc<Mutex<Option<StopReason>>>,
) -> impl Fn(Order, &Run) -> Result<(), Fail> + Send + Sync + 'static {
    let (gate, told) = (gate.clone(), Arc::clone(told));
    move |_: Order, run: &Run| {
        while !gate.is_open() {
            if let Some(why) = run.stop_reason() {
                told.lock().unwrap().get_or_insert(why);
            }
            pause(5 * MS);
        }
        Err(Fail::dead("too late"))
    }
}

/// P35: A run past its limit and grace has failed, although its lease was renewed. Its job is retried by another node,
/// and the end of the first run is refused.
#[test]
fn run_past_its_limit_runs_on_another_node_and_its_end_is_refused() {
    let server = Server::start();
    let (gate, told, log) = (Gate::default(), Arc::default(), Log::default());
    let reports = Reports::default();
    let first = reports
        .on(open(&server))
        .lease(LEASE)
        .threads(1)
        .time_limit::<Order>(100 * MS)
        .retry(Retry::fixed(Duration::from_millis(200)))
        .handle(goes_on(&gate, &told))
        .start()
        .unwrap();
    let id = first.insert(Duration::ZERO, Order(1)).unwrap();
    wait_until("it is told", || told.lock().unwrap().is_some());
    assert_eq!(*told.lock().unwrap(), Some(StopReason::TimeLimit));
    let second = noting(open(&server).lease(LEASE), &log);
    wait_until("it ran elsewhere", || log.of(1) == 1);
    // The node has one thread, and that one is held.
    assert_eq!(reports.outcomes(), [None, Some(Outcome::Retried)]);
    assert_eq!(first.stats().in_flight, 1);
    wait_until("the job is gone", || second.get(id).unwrap().is_none());
    gate.open();
    wait_until("the slot is free", || first.stats().in_flight == 0);
    assert_eq!((second.get(id).unwrap(), second.count().unwrap().dead), (None, 0));
    assert_eq!(first.stats().failed, 1);
    second.check().unwrap();
    first.shutdown().unwrap();
    second.shutdown().unwrap();
    assert_eq!(reports.outcomes().len(), 2);
    assert_eq!((log.of(1), log.highest_attempt()), (1, 2));
}

/// P51: A run that loses its lease is reported as interrupted, and its own end is not reported.
#[test]
fn run_that_loses_its_lease_is_reported_as_interrupted_once() {
    let server = Server::start();
    let proxy = Proxy::to(server.port);
    let (gate, told) = (Gate::default(), Arc::default());
    let reports = Reports::default();
    let node = reports
        .on(Jobs::redis(proxy.url()).unwrap())
        .lease(LEASE)
        .handle(goes_on(&gate, &told))
        .start()
        .unwrap();
    node.insert(Duration::ZERO, Order(1)).unwrap();
    wait_until("it started", || reports.outcomes().len() == 1);
    proxy.stall(true);
    wait_until("the end is reported", || reports.outcomes().len() == 2);
    wait_until("it is told", || told.lock().unwrap().is_some());
    assert_eq!(*told.lock().unwrap(), Some(StopReason::LeaseLost));
    gate.open();
    proxy.stall(false);
    wait_until("the job runs again", || reports.outcomes().len() > 2);
    node.shutdown().unwrap();
    let outcomes = reports.outcomes();
    assert_eq!(outcomes[..2], [None, Some(Outcome::Interrupted)]);
    let starts = outcomes.iter().filter(|outcome| outcome.is_none()).count();
    assert_eq!(outcomes.len(), 2 * starts, "{outcomes:?}");
}
