//! Values that come out of a channel.

use super::*;
use std::collections::BTreeMap;

use crossbeam_channel::{Receiver, RecvTimeoutError, TryRecvError, select};
use tickwheel::{Event, Events, Full};

fn values<T>(due: &Receiver<Event<T>>) -> Vec<T> {
    due.try_iter().map(|event| event.value).collect()
}

/// C90: An event never comes before its time, and `Event::deadline` is that time.
#[test]
fn event_comes_after_its_deadline_and_has_it() {
    on_both_clocks(MS, |wheel, time| {
        let (events, due) = Events::unbounded(&wheel.scheduler());
        let mut inserted = BTreeMap::new();
        for number in 0..50 {
            let (before, delay) = (time.now(), number % 7 * 2 * MS);
            let handle = events.insert(delay, number).unwrap();
            inserted.insert(handle, (number, before, delay, time.now()));
        }
        time.until(|| due.len() == 50);
        for event in due.try_iter() {
            let (number, before, delay, after) = inserted.remove(&event.handle).unwrap();
            assert_eq!(event.value, number);
            assert!(event.deadline >= before + delay, "{event:?}");
            // Two ticks: one for rounding up, and one because the event is due after the present tick.
            assert!(event.deadline <= after + delay + 2 * MS, "{event:?}");
            assert!(event.deadline <= time.now());
        }
        assert!(inserted.is_empty());
    });
}

/// C90: An event that is earlier than all others wakes the ticker.
#[test]
fn event_earlier_than_all_others_wakes_the_ticker() {
    let wheel = threads(1);
    let (events, due) = Events::unbounded(&wheel.scheduler());
    let hour = events.insert(HOUR, "hour").unwrap();
    for round in 0..3 {
        // The ticker sleeps by now, for an hour.
        let_pass(20 * MS);
        events.insert(MS, "insert").unwrap();
        assert_eq!(due.recv_timeout(MINUTE).map(|event| event.value), Ok("insert"), "{round}");
        let_pass(20 * MS);
        events.insert_batch([(HOUR, "late"), (MS, "batch")]).unwrap();
        assert_eq!(due.recv_timeout(MINUTE).map(|event| event.value), Ok("batch"), "{round}");
    }
    let_pass(20 * MS);
    assert!(events.reset(hour, MS));
    assert_eq!(due.recv_timeout(MINUTE).map(|event| event.value), Ok("hour"));
}

/// C101: The receiver of events works in a `select!`.
#[test]
fn channel_of_events_works_in_a_select() {
    let wheel = threads(1);
    let (events, due) = Events::unbounded(&wheel.scheduler());
    let (_sender, other) = crossbeam_channel::unbounded::<()>();
    events.insert(MS, "timeout").unwrap();
    select! {
        recv(due) -> event => assert_eq!(event.unwrap().value, "timeout"),
        recv(other) -> _ => panic!("nothing was sent"),
    }
}

/// C92: The handle of an event is no job's, and no other `Events` knows it.
#[test]
fn event_handle_is_no_handle_of_a_job() {
    let (wheel, driver) = manual();
    let (events, due) = Events::unbounded(&wheel.scheduler());
    let (others, _other) = Events::<u32>::unbounded(&wheel.scheduler());
    let event = events.insert(MS, 1).unwrap();
    let job = wheel.insert(MS, || ());
    assert!(!wheel.cancel(event) && !wheel.reset(event, HOUR) && !wheel.is_pending(event));
    assert!(!events.cancel(job) && !others.cancel(event) && !events.is_pending(job));
    assert_eq!(driver.advance(MS), 1);
    assert_eq!(values(&due), [1]);
}

/// C100: The remaining time that `drain` returns follows the wall clock.
#[test]
fn drained_event_has_the_remaining_wall_clock_time() {
    let (wheel, driver) = manual();
    let (events, _due) = Events::unbounded(&wheel.scheduler());
    let noon = driver.wall_now() + 3 * HOUR;
    let at_noon = events.insert(noon, "noon").unwrap();
    let later = events.insert(2 * HOUR, "in two hours").unwrap();
    driver.set_wall(noon - HOUR);
    assert_eq!(events.drain(), [(at_noon, HOUR, "noon"), (later, 2 * HOUR, "in two hours")]);
}

/// C92: A cancelled event never comes; `cancel` drops its value, and `take` gives it back.
#[test]
fn cancelled_event_never_comes_and_gives_its_value_up() {
    on_both_clocks(MS, |wheel, time| {
        let (events, due) = Events::unbounded(&wheel.scheduler());
        let (token, alive) = counted();
        let dropped = events.insert(HOUR, Some(token)).unwrap();
        assert!(events.cancel(dropped));
        assert_eq!(alive(), 0);
        let (token, alive) = counted();
        let taken = events.insert(HOUR, Some(token)).unwrap();
        assert!(events.take(taken).flatten().is_some());
        assert_eq!(alive(), 0);
        assert!(!events.cancel(taken) && events.take(taken).is_none());
        let came = events.insert(Duration::ZERO, None).unwrap();
        time.until(|| due.len() == 1);
        assert!(!events.cancel(came) && events.take(came).is_none());
        assert_eq!((events.len(), due.len()), (0, 1));
    });
}

/// C91: A batch of events is inserted as a whole or not at all.
#[test]
fn batch_of_events_comes_in_as_a_whole() {
    on_both_clocks(MS, |wheel, time| {
        let (events, due) = Events::unbounded(&wheel.scheduler());
        let many = (0..10_000_u32).map(|number| (number % 50 * MS, number));
        let handles = events.insert_batch(many).unwrap();
        assert_eq!(handles.len(), 10_000);
        let cancelled: u32 = events.cancel_batch(&handles[..10]).into_iter().map(u32::from).sum();
        let resets: Vec<_> = handles[10..20].iter().map(|&handle| (handle, MS)).collect();
        assert_eq!(events.reset_batch(&resets).len(), 10);
        time.until(|| events.is_empty());
        let mut came = values(&due);
        came.sort_unstable();
        came.dedup();
        assert_eq!(came.len() as u32, 10_000 - cancelled);
        drop(wheel.close());
        let refused = events.insert_batch([(MS, 1), (MS, 2)]).unwrap_err();
        assert_eq!(refused.into_inner(), [(MS, 1), (MS, 2)]);
    });
}

/// C94: While no event waits for room, the wheel does not look for room: a loop may sleep although the channel
/// is full.
#[test]
fn full_channel_is_checked_only_while_an_event_waits() {
    let leave: [fn(&Events<u32>, Handle); 4] = [
        |events, handle| assert!(events.cancel(handle)),
        |events, handle| assert!(events.take(handle).is_some()),
        |events, handle| assert!(events.reset(handle, HOUR)),
        // The reset to 2 ms moves it inwards, and then it is cancelled.
        |events, handle| {
            assert!(events.reset(handle, HOUR) && events.reset(handle, 2 * MS));
            assert!(events.cancel(handle));
        },
    ];
    for leave in leave {
        let (wheel, driver) = Wheel::builder().driven().unwrap();
        let (events, due) = Events::bounded(&wheel.scheduler(), 1, Full::Wait);
        let far = events.insert(2 * HOUR, 9).unwrap();
        events.insert(Duration::ZERO, 0).unwrap();
        let sleep = || {
            let timeout = driver.timeout().unwrap();
            let is_short = timeout < HOUR / 2;
            if is_short {
                let_pass(timeout);
                driver.run_due();
            }
            is_short
        };
        while due.is_empty() {
            assert!(sleep());
        }
        let waits = [events.insert(MS, 1).unwrap(), events.insert(3 * MS, 2).unwrap()];
        wait_for(|| waits.iter().all(|&handle| events.remaining(handle) == Some(Duration::ZERO)));
        for handle in waits {
            assert!(sleep() && sleep() && sleep(), "something waits");
            leave(&events, handle);
        }
        let turns = (0..200).take_while(|_| sleep()).count();
        assert!(turns < 100, "nothing waits for room, and the loop is woken {turns} times");
        // An event that comes due later waits for room again, and comes when there is room.
        events.reset(far, Duration::ZERO);
        wait_for(|| events.remaining(far) == Some(Duration::ZERO));
        assert!(sleep() && sleep() && sleep(), "something waits");
        assert_eq!(values(&due), [0]);
        while due.is_empty() {
            assert!(sleep());
        }
        assert_eq!(values(&due), [9]);
    }
}

/// C95: With `Full::Give`, a function gets the events that find the channel full, and they are counted.
#[test]
fn full_give_gets_the_events_without_room() {
    let (builder, panics) = reporting();
    let (wheel, driver) = builder.manual().unwrap();
    // A panic there is caught, and the events after it are still delivered.
    let full = Full::Give(Box::new(|value| panic_any(value)));
    let (events, due) = Events::bounded(&wheel.scheduler(), 1, full);
    events.insert_batch([(MS, "one"), (2 * MS, "two"), (3 * MS, "three")]).unwrap();
    driver.advance(3 * MS);
    assert_eq!((values(&due), panics.try_iter().collect()), (vec!["one"], vec!["two", "three"]));
    assert_eq!((wheel.stats().events_delivered, wheel.stats().events_given_up), (1, 2));
}

/// C93: An event that finds a full channel stays pending, can be cancelled, and comes once there is room. A room of zero
/// counts as one.
#[test]
fn event_that_finds_a_full_channel_waits() {
    on_both_clocks(MS, |wheel, time| {
        let (events, due) = Events::bounded(&wheel.scheduler(), 0, Full::Wait);
        let numbers = (0..5_u32).map(|number| ((number + 1) * MS, number));
        let handles = events.insert_batch(numbers).unwrap();
        time.until(|| due.len() == 1);
        time.pass(20 * MS);
        assert_eq!((due.len(), events.len(), events.take(handles[2])), (1, 4, Some(2)));
        for number in [0, 1, 3, 4] {
            time.until(|| !due.is_empty());
            assert_eq!(values(&due), [number]);
        }
    });
}

/// C96: The waker of `on_ready` is called for an event that comes into an empty channel only.
#[test]
fn on_ready_is_called_once_for_an_empty_channel() {
    let (wheel, driver) = manual();
    let (events, due) = Events::unbounded(&wheel.scheduler());
    let (waker, woken) = counting_waker();
    events.on_ready(waker);
    assert_eq!(woken(), 1, "something might have been there");
    events.insert_batch((0..300).map(|number| (5 * MS, number))).unwrap();
    driver.advance(4 * MS);
    assert_eq!(woken(), 0);
    driver.advance(MS);
    assert_eq!((woken(), due.len()), (1, 300));
    events.insert(MS, 1).unwrap();
    driver.advance(MS);
    assert_eq!(woken(), 0, "whoever was woken is not through yet");
    assert_eq!(values(&due).len(), 301);
    events.insert(MS, 2).unwrap();
    driver.advance(MS);
    assert_eq!(woken(), 1);
    let ((other, others), (token, alive)) = (counting_waker(), counted());
    events.on_ready(self::waker(move || {
        let _ = &token;
        other.wake_by_ref();
    }));
    drop(wheel);
    assert_eq!((woken(), others(), alive()), (0, 2, 0), "once now, once at the end");
}

/// C96: A loop that sleeps until the waker of `on_ready` is called misses no event.
#[test]
fn loop_that_sleeps_until_on_ready_misses_nothing() {
    let wheel = threads(1);
    let (events, due) = Events::bounded(&wheel.scheduler(), 7, Full::Wait);
    let count = 2000;
    let sleeper = thread::spawn(move || {
        let mut seen = 0;
        while seen < count {
            match due.try_recv() {
                Ok(_) => seen += 1,
                // If a wake were lost, this would sleep for ever.
                Err(TryRecvError::Empty) => thread::park(),
                Err(TryRecvError::Disconnected) => panic!("after {seen}"),
            }
        }
    });
    // As an eventfd wakes a loop.
    let thread = sleeper.thread().clone();
    events.on_ready(waker(move || thread.unpark()));
    for number in 0..count {
        events.insert(number % 20 * MS, number).unwrap();
    }
    wait_for(|| sleeper.is_finished());
    sleeper.join().unwrap();
}

/// C97: After the last `Events` is dropped, pending events still come, and then the channel disconnects.
#[test]
fn pending_events_come_after_the_last_events_is_dropped() {
    on_both_clocks(MS, |wheel, time| {
        let (events, due) = Events::unbounded(&wheel.scheduler());
        events.insert(20 * MS, 1).unwrap();
        events.clone().insert(5 * MS, 2).unwrap();
        drop(events);
        assert!(matches!(due.try_recv(), Err(TryRecvError::Empty) | Ok(Event { value: 2, .. })));
        time.until(|| wheel.stats().events_delivered == 2);
        assert!(due.iter().any(|event| event.value == 1), "and then it disconnects");
        assert_eq!(wheel.stats().events_pending, 0);
        // With nothing pending it disconnects at once.
        let (events, due) = Events::<()>::unbounded(&wheel.scheduler());
        drop(events);
        assert_eq!(due.try_recv(), Err(TryRecvError::Disconnected));
    });
}

/// C97: Without a receiver, pending events are dropped, and inserts return the value.
#[test]
fn events_without_a_receiver_are_dropped_and_refused() {
    on_both_clocks(MS, |wheel, time| {
        let (events, due) = Events::unbounded(&wheel.scheduler());
        let (token, alive) = counted();
        events.insert(HOUR, Arc::clone(&token)).unwrap();
        let first = events.insert(MS, Arc::clone(&token)).unwrap();
        drop(due);
        time.until(|| !events.is_pending(first));
        time.until(|| alive() == 1);
        assert!(events.is_empty());
        let refused = events.insert(MS, token).unwrap_err();
        assert_eq!(refused.kind(), InsertErrorKind::Disconnected);
        drop(refused.into_inner());
        assert_eq!(alive(), 0);
    });
}

/// C98: The channel disconnects at the end of the wheel.
#[test]
fn receiver_disconnects_at_the_end_of_its_wheel() {
    let wheel = threads(1);
    let (events, due) = Events::unbounded(&wheel.scheduler());
    let (token, alive) = counted();
    events.insert(HOUR, token).unwrap();
    let receiver = thread::spawn(move || due.recv_timeout(MINUTE));
    drop(wheel);
    assert_eq!(receiver.join().unwrap().unwrap_err(), RecvTimeoutError::Disconnected);
    assert_eq!(alive(), 1);
    drop(events);
    assert_eq!(alive(), 0);
}

/// C98: Inserts of events are refused after the end of the wheel.
#[test]
fn events_of_a_wheel_that_has_ended_are_refused() {
    let (wheel, _driver) = manual();
    let scheduler = wheel.scheduler();
    drop(wheel);
    let (events, due) = Events::unbounded(&scheduler);
    assert_eq!(events.insert(MS, 7).unwrap_err().into_inner(), 7);
    assert_eq!(due.recv().unwrap_err().to_string(), crossbeam_channel::RecvError.to_string());
}

/// A value that uses its events when it is dropped, and panics.
struct Bomb(Events<Bomb>, &'static str);

impl Drop for Bomb {
    fn drop(&mut self) {
        assert!(self.0.len() < 3);
        panic_any(self.1);
    }
}

/// C99: The drop of a value may use its `Events`, and a panic there is caught.
#[test]
fn drop_of_a_value_may_use_its_events_and_panic() {
    let (builder, panics) = reporting();
    let (wheel, driver) = builder.manual().unwrap();
    let (events, due) = Events::unbounded(&wheel.scheduler());
    let bomb = |name| Bomb(events.clone(), name);
    let cancelled = events.insert(MS, bomb("cancelled")).unwrap();
    assert!(events.cancel(cancelled));
    events.insert(MS, bomb("found no receiver")).unwrap();
    events.insert(HOUR, bomb("pending")).unwrap();
    drop(due);
    driver.advance(MS);
    let told: Vec<_> = panics.try_iter().collect();
    assert_eq!(told, ["cancelled", "found no receiver", "pending"]);
}

/// C99: The function of `Full::Give` may end the wheel when it gets a value.
#[test]
fn full_give_may_end_its_wheel() {
    let (done, ended) = channel();
    let wheel = threads(1);
    let scheduler = wheel.scheduler();
    let cell = Arc::new(Mutex::new(Some(wheel)));
    let inside = Arc::clone(&cell);
    let full = Full::Give(Box::new(move |value: u32| {
        drop(inside.lock().unwrap().take());
        done.send(value).unwrap();
    }));
    let (events, due) = Events::bounded(&scheduler, 1, full);
    events.insert_batch([(MS, 1), (2 * MS, 2), (HOUR, 3)]).unwrap();
    assert_eq!(ended.recv_timeout(MINUTE), Ok(2));
    assert_eq!(due.iter().map(|event| event.value).collect::<Vec<_>>(), [1]);
    assert_eq!(events.drain().len(), 1);
}

/// C100: Many events for wall-clock times follow a wall clock that is set.
#[test]
fn many_events_follow_the_wall_clock() {
    let (wheel, driver) = manual();
    let (events, due) = Events::unbounded(&wheel.scheduler());
    let begin = driver.wall_now();
    events.insert_batch((0..2000_u32).map(|n| (begin + HOUR + n * MS, n))).unwrap();
    driver.set_wall(begin + HOUR + 999 * MS);
    driver.advance(MS);
    let mut came = values(&due);
    came.sort_unstable();
    assert!(came.into_iter().eq(0..=1000));
    driver.set_wall(begin);
    driver.advance(HOUR + 1500 * MS);
    assert!(values(&due).into_iter().eq(1001..=1500));
}

/// C95: A full channel delays no job and no other `Events`.
#[test]
fn full_channel_delays_no_job_and_no_other_events() {
    on_both_clocks(MS, |wheel, time| {
        let (stuck, full) = Events::bounded(&wheel.scheduler(), 1, Full::Wait);
        stuck.insert_batch((0..1000).map(|number| (MS, number))).unwrap();
        time.until(|| full.len() == 1);
        let (events, due) = Events::unbounded(&wheel.scheduler());
        let ran = Arc::new(AtomicUsize::new(0));
        for number in 0..20 {
            let ran = Arc::clone(&ran);
            wheel.insert(number * MS, move || _ = ran.fetch_add(1, Ordering::SeqCst));
            events.insert(number * MS, number).unwrap();
        }
        time.until(|| due.len() == 20 && ran.load(Ordering::SeqCst) == 20);
        assert_eq!((full.len(), stuck.len()), (1, 999));
    });
}

/// C101: A stream of events is woken for each event, and ends when the channel disconnects.
#[cfg(feature = "async")]
#[test]
fn stream_of_events_is_woken_for_each_and_ends_with_the_wheel() {
    use futures::stream::{FusedStream, StreamExt};
    for workers in [1, 2] {
        let runtime = super::polled::tokio(workers);
        let wheel = threads(1);
        let (events, due) = Events::bounded(&wheel.scheduler(), 5, Full::Wait);
        let count = 1000_u32;
        events.insert_batch((0..count).map(|number| (number % 30 * MS, number))).unwrap();
        // Two tasks share the events.
        let streams = [events.stream(due.clone()), events.stream(due)];
        let tasks = streams.map(|mut stream| {
            runtime.spawn(async move {
                let mut seen = Vec::new();
                while let Some(event) = stream.next().await {
                    seen.push(event.value);
                }
                assert!(stream.is_terminated());
                seen
            })
        });
        // The streams do not keep the `Events` alive, so the channel disconnects after the last event.
        drop(events);
        let mut seen: Vec<_> =
            tasks.into_iter().flat_map(|task| runtime.block_on(task).unwrap()).collect();
        seen.sort_unstable();
        assert!(seen.into_iter().eq(0..count));
        let (events, due) = Events::<()>::unbounded(&wheel.scheduler());
        let mut stream = events.stream(due);
        let task = runtime.spawn(async move { stream.next().await.is_none() });
        drop(wheel);
        assert!(runtime.block_on(task).unwrap());
    }
}

/// C98: The due events come also if the delivery of one of them ends the wheel.
#[test]
fn due_events_come_also_if_a_delivery_ends_the_wheel() {
    for drops_events_first in [false, true] {
        let (wheel, driver) = manual();
        let scheduler = wheel.scheduler();
        let cell = Arc::new(Mutex::new((Some(wheel), None::<Events<u32>>)));
        let (inside, receivers) = (Arc::clone(&cell), Arc::new(Mutex::new(None)));
        let receiver = Arc::clone(&receivers);
        // Makes room, and drops the `Events`, so that the pending events cannot be drained.
        let full = Full::Give(Box::new(move |_| {
            let receiver: &Option<Receiver<Event<u32>>> = &receiver.lock().unwrap();
            assert!(receiver.as_ref().unwrap().try_recv().is_ok());
            let (wheel, events) = core::mem::take(&mut *inside.lock().unwrap());
            if drops_events_first {
                drop(events);
                drop(wheel);
            } else {
                drop(wheel);
                drop(events);
            }
        }));
        let (events, due) = Events::bounded(&scheduler, 1, full);
        *receivers.lock().unwrap() = Some(due.clone());
        events.insert_batch([(MS, 0), (MS, 1), (MS, 2), (HOUR, 3)]).unwrap();
        cell.lock().unwrap().1 = Some(events);
        driver.advance(MS);
        // One was received, one given up, and for the third there was room.
        assert_eq!(due.iter().count(), 1, "{drops_events_first}");
    }
}

/// A waker that ends a wheel when it is called, and panics when it is dropped.
struct EndsAndPanics(Mutex<Option<Wheel>>);

impl Wake for EndsAndPanics {
    fn wake(self: Arc<Self>) {}

    fn wake_by_ref(self: &Arc<Self>) {
        let wheel = self.0.lock().unwrap().take();
        drop(wheel);
    }
}

impl Drop for EndsAndPanics {
    fn drop(&mut self) {
        panic_any("a hook");
    }
}

/// C96: The waker of `on_ready` is dropped at the end, and one that is given later is called once.
#[test]
fn on_ready_waker_is_dropped_at_the_end_of_the_wheel() {
    let (builder, panics) = reporting();
    let (wheel, _driver) = builder.manual().unwrap();
    let (events, _due) = Events::<()>::unbounded(&wheel.scheduler());
    events.on_ready(Waker::from(Arc::new(EndsAndPanics(Mutex::new(Some(wheel))))));
    assert_eq!(panics.try_iter().count(), 1);
    // A hook that is set after the end is called once and not kept, so it may own the `Events`.
    let (keeps, called, (token, alive)) =
        (events.clone(), Arc::new(AtomicUsize::new(0)), counted());
    let calls = Arc::clone(&called);
    events.on_ready(waker(move || {
        assert!(Arc::strong_count(&token) == 1 && keeps.is_empty());
        calls.fetch_add(1, Ordering::SeqCst);
    }));
    assert_eq!((called.load(Ordering::SeqCst), alive()), (1, 0));
}

/// C94: While a channel stays full, a driver goes from timer to timer.
#[test]
fn full_channel_takes_a_driver_no_time() {
    let (wheel, driver) = Wheel::builder().tick(Duration::from_nanos(1)).manual().unwrap();
    let (events, due) = Events::bounded(&wheel.scheduler(), 1, Full::Wait);
    events.insert_batch([(MS, 1), (MS, 2), (HOUR, 3), (Duration::MAX, 4)]).unwrap();
    let receiver = due.clone();
    wheel.insert(HOUR, move || _ = receiver.recv());
    driver.advance(HOUR - MS);
    assert_eq!((due.len(), events.len()), (1, 3));
    // A job makes room: one event that waits for it comes at the next tick, and the rest stays.
    driver.advance(2 * MS);
    assert_eq!((due.len(), events.len()), (1, 2));
    assert_eq!(values(&due).len(), 1);
    driver.advance(Duration::from_nanos(1));
    assert_eq!(values(&due), [3]);
    driver.advance(Duration::MAX);
    driver.advance(Duration::MAX);
    assert_eq!((due.len(), events.len()), (0, 1));
}

/// C94: `advance_to_next` finds the timers that are due later, also while a channel stays full.
#[test]
fn full_channel_does_not_stop_advance_to_next() {
    let (wheel, driver) = Wheel::builder().tick(Duration::from_nanos(1)).manual().unwrap();
    let (events, due) = Events::bounded(&wheel.scheduler(), 1, Full::Wait);
    let begin = driver.now();
    // One fills the channel, one waits, and one is for later.
    events.insert_batch([(MS, 1), (MS, 2), (HOUR, 3)]).unwrap();
    wheel.insert(2 * HOUR, || ());
    assert_eq!(driver.advance_to_next(), Some(begin + MS));
    assert_eq!((due.len(), events.len()), (1, 2));
    assert_eq!(driver.advance_to_next(), Some(begin + HOUR));
    assert_eq!(driver.advance_to_next(), Some(begin + 2 * HOUR));
    assert_eq!(driver.advance_to_next(), None);
    // The channel has room: the event that waits for it is next.
    let first = values(&due);
    assert_eq!(driver.advance_to_next(), Some(begin + 2 * HOUR));
    assert_eq!((first.len(), values(&due).len(), events.len()), (1, 1, 1));
}

/// C100: Many events of one wall-clock time cost no more than other events.
#[test]
fn events_of_one_wall_clock_time_cost_no_more_than_others() {
    let (wheel, driver) = Wheel::builder().tick(HOUR).manual().unwrap();
    let (events, due) = Events::unbounded(&wheel.scheduler());
    let begin = driver.wall_now();
    let count = 30_000_u32;
    events.insert_batch((0..count).map(|n| (begin + n * MS, n))).unwrap();
    let later = (0..count).map(|n| (begin + HOUR + (1 + n) * MS, n));
    events.insert_batch(later).unwrap();
    let before = now();
    driver.advance(HOUR);
    assert_eq!(due.len(), count as usize);
    // If each delivery looked at all events that are due an hour later, this would take minutes.
    assert!(before.elapsed() < Duration::from_secs(20), "{:?}", before.elapsed());
}
