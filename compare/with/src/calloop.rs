//! calloop: events of a wheel in a callback of the loop, which wakes by a `ping`. The test is a
//! cache: the loop drops the entries that have not been read for too long.
//!
//! An event costs no closure and no box. A batch of events costs one write to an eventfd.

use std::sync::Arc;
use std::task::{Wake, Waker};

use calloop::LoopHandle;
use calloop::ping::{Ping, make_ping};
use tickwheel::{Event, Events, Scheduler};

/// Pings the loop.
struct LoopWaker(Ping);

impl Wake for LoopWaker {
    fn wake(self: Arc<Self>) {
        self.0.ping();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.0.ping();
    }
}

/// Returns events that `callback` gets on the thread of the loop, when their time has come.
pub fn insert_source<'l, T: Send + 'static, Data>(
    scheduler: &Scheduler,
    handle: &LoopHandle<'l, Data>,
    mut callback: impl FnMut(Event<T>, &mut Data) + 'l,
) -> calloop::Result<Events<T>> {
    let (events, due) = Events::unbounded(scheduler);
    let (ping, source) = make_ping()?;
    handle.insert_source(source, move |(), (), data| {
        // One wake-up may stand for several events, so the loop receives until the channel is empty.
        due.try_iter().for_each(|event| callback(event, data));
    })?;
    // It pings at once, since something may be there already.
    events.on_ready(Waker::from(Arc::new(LoopWaker(ping))));
    Ok(events)
}

#[cfg(test)]
mod tests {
    use super::*;
    use calloop::EventLoop;
    use std::collections::HashMap;
    use std::thread;
    use std::time::{Duration, Instant};
    use tickwheel::{Handle, Wheel};

    #[test]
    fn an_entry_that_nobody_asks_for_is_dropped_in_the_loop() {
        let wheel = Wheel::new();
        let mut event_loop = EventLoop::<HashMap<&str, Handle>>::try_new().unwrap();
        let here = thread::current().id();
        let forget = move |event: Event<&'static str>, cache: &mut HashMap<_, _>| {
            assert_eq!(thread::current().id(), here);
            assert_eq!(cache.remove(event.value), Some(event.handle));
        };
        let events = insert_source(&wheel.scheduler(), &event_loop.handle(), forget).unwrap();
        let (begin, limit) = (Instant::now(), Duration::from_millis(50));
        let mut cache = HashMap::new();
        for name in ["asked for", "forgotten"] {
            cache.insert(name, events.insert(limit, name).unwrap());
        }
        assert!(events.reset(cache["asked for"], 4 * limit));
        // Nothing but the ping wakes the loop.
        while cache.len() > 1 {
            event_loop.dispatch(None, &mut cache).unwrap();
        }
        assert!(begin.elapsed() >= limit);
        assert!(cache.contains_key("asked for"));
        while !cache.is_empty() {
            event_loop.dispatch(None, &mut cache).unwrap();
        }
        assert!(begin.elapsed() >= 4 * limit && events.is_empty());
    }
}
