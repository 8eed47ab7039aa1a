//! Functions of the program that run on the threads of the jobs, and what they may call there.

use std::future::Future;
use std::pin::pin;
use std::sync::{Arc, Barrier, Mutex, mpsc};
use std::task::{Context, Poll, Wake, Waker};

use tickwheel_jobs::{Builder, Client, Durability, Fail, Jobs, Retry, StoreError};

use super::support::*;
use crate::scenarios::verbs::VERBS;

/// Calls everything that waits, and says whether all of it was refused. The counters of the process wait for nothing.
pub(crate) fn every_call_is_refused(client: &Client) -> bool {
    let counters = client.process_metrics().to_string();
    every_call_that_waits_is_refused(client) && counters.contains("tickwheel_jobs_running")
}

fn every_call_that_waits_is_refused(client: &Client) -> bool {
    VERBS.iter().all(|(_, verb)| matches!(verb(client), Err(StoreError::Other(_))))
}

/// P58: In `on_event` a nudge returns at once, also if the channel to the dispatcher is full. A call that would
/// wait is refused.
#[test]
fn on_event_may_nudge_and_calls_that_wait_are_refused() {
    on_each_store(|builder| {
        let slot: Arc<Mutex<Option<Client>>> = Arc::default();
        let (refused, told) = mpsc::channel();
        let its = Arc::clone(&slot);
        let jobs = builder
            .durability(Durability::Buffered)
            .retry(Retry::never())
            .handle(|_: Close, _| Err(Fail::dead("no")))
            .on_event(move |_| {
                let Some(client) = its.lock().unwrap().clone() else { return };
                (0..5000).for_each(|_| client.nudge());
                let _ = refused.send(every_call_is_refused(&client));
            })
            .start()
            .unwrap();
        *slot.lock().unwrap() = Some(jobs.client());
        std::thread::scope(|scope| {
            for thread in 0..4 {
                let client = jobs.client();
                scope.spawn(move || {
                    for order in 0..2000 {
                        client.insert(HOUR, close(thread * 2000 + order)).unwrap();
                    }
                });
            }
            for order in 0..20 {
                jobs.insert(MS, close(order)).unwrap();
            }
        });
        for _ in 0..20 {
            assert_eq!(told.recv_timeout(LONG), Ok(true));
        }
        jobs.shutdown().unwrap();
    });
}

/// Returns a client. Each of its events calls `told` with the client.
fn client_with_events(builder: Builder, told: impl Fn(&Client) + Send + Sync + 'static) -> Client {
    let slot: Arc<Mutex<Option<Client>>> = Arc::default();
    let its = Arc::clone(&slot);
    let on_event = move |_| {
        let client = its.lock().unwrap().clone();
        client.iter().for_each(&told);
    };
    let client = builder.on_event(on_event).client().unwrap();
    *slot.lock().unwrap() = Some(client.clone());
    client
}

/// P58: A client has no thread of its own: a thread that calls it makes its steps. In `on_event` such a thread would
/// wait for itself, so a call that would wait is refused there.
#[test]
fn on_event_of_a_client_refuses_calls_that_wait() {
    let (_folder, path) = file();
    let (refused, told) = mpsc::channel();
    let builder = open(&path).call_timeout(100 * MS);
    let client = client_with_events(builder, move |client| {
        client.nudge();
        let _ = refused.send(every_call_that_waits_is_refused(client));
    });
    let other = tickwheel_jobs::rusqlite::Connection::open(&path).unwrap();
    other.execute_batch("BEGIN IMMEDIATE").unwrap();
    assert!(client.insert(HOUR, close(1)).is_err());
    assert_eq!(told.recv_timeout(LONG), Ok(true));
    other.execute_batch("ROLLBACK").unwrap();
    client.insert(HOUR, close(1)).unwrap();
}

/// P58: A nudge in `on_event` causes no further event, although the poll that it makes fails too: the file is gone.
#[test]
fn nudge_in_on_event_of_a_client_does_not_call_itself() {
    let (folder, path) = file();
    let (told, events) = mpsc::channel();
    let client = client_with_events(open(&path), move |client| {
        let _ = told.send(());
        client.nudge();
    });
    drop(folder);
    assert!(client.insert(HOUR, close(1)).is_err());
    assert!((1..=3).contains(&events.try_iter().count()));
}

/// P58: The jobs may be dropped in their own `on_event`, and in that of other jobs which drop these.
#[test]
fn on_event_may_drop_any_jobs() {
    let start =
        |slot: &Arc<Mutex<Option<Jobs>>>, both: &Arc<Barrier>, dropped: mpsc::Sender<()>| {
            let (its, both) = (Arc::clone(slot), Arc::clone(both));
            Jobs::memory()
                .retry(Retry::never())
                .handle(|_: Close, _| Err(Fail::dead("no")))
                .on_event(move |_| {
                    both.wait();
                    let jobs = its.lock().unwrap().take();
                    drop(jobs);
                    let _ = dropped.send(());
                })
                .start()
                .unwrap()
        };
    for own in [true, false] {
        let (dropped, told) = mpsc::channel();
        let slots: [Arc<Mutex<Option<Jobs>>>; 2] = [Arc::default(), Arc::default()];
        // Both are in their event at the same time.
        let both = Arc::new(Barrier::new(2));
        let jobs = [start(&slots[0], &both, dropped.clone()), start(&slots[1], &both, dropped)];
        let clients = [jobs[0].client(), jobs[1].client()];
        for (n, jobs) in jobs.into_iter().enumerate() {
            *slots[if own { n } else { 1 - n }].lock().unwrap() = Some(jobs);
        }
        for client in &clients {
            let _ = client.insert(MS, close(1));
        }
        for client in clients {
            told.recv_timeout(LONG).unwrap_or_else(|error| panic!("own: {own}: {error}"));
            wait_until("the jobs have ended", || client.count() == Err(StoreError::Closed));
        }
    }
}

/// A waker that calls what waits.
struct Calls {
    client: Client,
    refused: Mutex<mpsc::Sender<bool>>,
}

impl Wake for Calls {
    fn wake(self: Arc<Calls>) {
        self.client.nudge();
        let _ = self.refused.lock().unwrap().send(every_call_is_refused(&self.client));
    }
}

/// P58: A waker of [`Run::cancelled`](tickwheel_jobs::Run::cancelled) may call the jobs. A call that would wait is
/// refused.
#[test]
fn waker_of_a_run_may_call_the_jobs() {
    on_each_store(|builder| {
        let (started, at_start) = mpsc::channel();
        let (refused, told) = mpsc::channel();
        let refused = Mutex::new(refused);
        let jobs = builder
            .handle(move |_: Close, run| {
                let refused = Mutex::new(refused.lock().unwrap().clone());
                let waker = Waker::from(Arc::new(Calls { client: run.client(), refused }));
                let mut lost = pin!(run.cancelled());
                assert_eq!(lost.as_mut().poll(&mut Context::from_waker(&waker)), Poll::Pending);
                started.send(run.id()).unwrap();
                wait_until("the run is told", || run.is_cancelled());
                Ok(())
            })
            .start()
            .unwrap();
        jobs.insert(MS, close(1)).unwrap();
        let id = at_start.recv_timeout(LONG).unwrap();
        assert_eq!(jobs.cancel(id), Ok(tickwheel_jobs::Cancel::Running));
        assert_eq!(told.recv_timeout(LONG), Ok(true));
        jobs.shutdown().unwrap();
    });
}

/// A value of the program that calls the jobs when it is dropped.
struct CallsInDrop(Mutex<Option<Client>>, Mutex<mpsc::Sender<()>>);

impl Drop for CallsInDrop {
    fn drop(&mut self) {
        if let Some(client) = self.0.lock().unwrap().take() {
            let _ = (client.count(), client.insert(HOUR, close(1)), client.check());
            client.nudge();
        }
        let _ = self.1.lock().unwrap().send(());
    }
}

/// P58: A value that a handler or `on_event` has captured may call the jobs in its drop.
#[test]
fn captured_value_may_call_the_jobs_in_its_drop() {
    on_each_store(|builder| {
        let (dropped, told) = mpsc::channel();
        let value = || Arc::new(CallsInDrop(Mutex::new(None), Mutex::new(dropped.clone())));
        let (one, other) = (value(), value());
        let (in_handler, in_event) = (Arc::clone(&one), Arc::clone(&other));
        let jobs = builder
            .handle(move |_: Close, _| {
                let _value = &in_handler;
                Ok(())
            })
            .on_event(move |_| {
                let _value = &in_event;
            })
            .start()
            .unwrap();
        for value in [one, other] {
            *value.0.lock().unwrap() = Some(jobs.client());
        }
        jobs.shutdown().unwrap();
        for _ in 0..2 {
            told.recv_timeout(LONG).unwrap();
        }
    });
}

/// P22: A shutdown in a handler of other jobs waits for the runs of those that end.
#[test]
fn shutdown_in_a_handler_of_other_jobs_waits_for_runs() {
    let (ending, at_start, release) = held(Jobs::memory());
    ending.insert(MS, close(1)).unwrap();
    at_start.recv_timeout(LONG).unwrap();
    let client = ending.client();
    let (slot, (ended, told)) = (Mutex::new(Some(ending)), mpsc::channel());
    let other = Jobs::memory()
        .handle(move |_: Close, _| {
            let ending = slot.lock().unwrap().take();
            let _ = ended.send(ending.map(|jobs| jobs.shutdown()));
            Ok(())
        })
        .start()
        .unwrap();
    other.insert(MS, close(1)).unwrap();
    wait_until("the shutdown has begun", || client.insert(HOUR, close(2)).is_err());
    release.send(()).unwrap();
    assert_eq!(told.recv_timeout(LONG).unwrap(), Some(Ok(())));
}

/// P22: A shutdown in a handler that is a future does not wait for that handler.
#[cfg(feature = "tokio")]
#[test]
fn shutdown_in_a_handler_that_is_a_future_does_not_wait_for_it() {
    a_shutdown_in_a_handler(false);
    a_shutdown_in_a_handler(true);
}

#[cfg(feature = "tokio")]
fn a_shutdown_in_a_handler(is_awaited: bool) {
    let runtime = runtime(1);
    let slot: Arc<Mutex<Option<Jobs>>> = Arc::default();
    let (ended, told) = mpsc::channel();
    let its = Arc::clone(&slot);
    let jobs = Jobs::memory()
        .lease(LONG * 10)
        .runtime(runtime.handle().clone())
        .handle_async(move |_: Close, _| {
            let (its, ended) = (Arc::clone(&its), ended.clone());
            async move {
                let jobs = its.lock().unwrap().take();
                let _ = ended.send(match jobs {
                    Some(jobs) if is_awaited => Some(jobs.shutdown_async().await),
                    jobs => jobs.map(Jobs::shutdown),
                });
                Ok(())
            }
        })
        .start()
        .unwrap();
    let client = jobs.client();
    let mut locked = slot.lock().unwrap();
    client.insert(MS, close(1)).unwrap();
    *locked = Some(jobs);
    drop(locked);
    assert_eq!(told.recv_timeout(LONG).unwrap(), Some(Err(StoreError::StillRunning(1))));
}
