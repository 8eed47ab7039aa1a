//! The due events as a stream.

use core::fmt;
use core::pin::Pin;
use core::task::{Context, Poll};
use std::sync::Arc;

use crossbeam_channel::{Receiver, TryRecvError};
use futures_core::{FusedStream, Stream};

use super::outlet::{Event, Ready, StreamId};

/// The events that have come due, as a stream: from [`Events::stream`](crate::Events::stream).
/// Feature `async`.
///
/// It ends when the channel disconnects: the wheel has ended, or every [`Events`](crate::Events) is
/// dropped and nothing is pending. It is `Unpin`. A poll that finds an event takes no lock; a poll
/// that finds none takes a lock for a moment and registers a waker. Dropping the stream drops the
/// receiver.
///
/// An event that comes into an empty channel wakes every waiting stream of that channel, because a task that
/// is woken may leave the event to another. So each event may cost a poll of every stream: let few tasks share
/// a channel, and not thousands.
///
/// ```
/// use std::time::Duration;
/// use futures::StreamExt;
/// use tickwheel::{Events, Wheel};
///
/// # futures::executor::block_on(async {
/// let wheel = Wheel::new();
/// let (events, due) = Events::unbounded(&wheel.scheduler());
/// let mut due = events.stream(due);
/// events.insert(Duration::from_millis(5), "lamp 7 is silent").unwrap();
/// drop(events);
/// assert_eq!(due.next().await.map(|event| event.value), Some("lamp 7 is silent"));
/// assert!(due.next().await.is_none());
/// # });
/// ```
#[must_use = "a stream does nothing unless it is polled"]
pub struct EventStream<T> {
    receiver: Receiver<Event<T>>,
    ready: Arc<Ready>,
    id: StreamId,
    is_over: bool,
}

impl<T> EventStream<T> {
    pub(super) fn new(receiver: Receiver<Event<T>>, ready: Arc<Ready>) -> EventStream<T> {
        let id = ready.number_stream();
        EventStream { receiver, ready, id, is_over: false }
    }

    /// Returns the receiver, for example to read how many events wait in it.
    #[must_use]
    pub fn receiver(&self) -> &Receiver<Event<T>> {
        &self.receiver
    }

    fn look(&mut self) -> Poll<Option<Event<T>>> {
        match self.receiver.try_recv() {
            Ok(event) => Poll::Ready(Some(event)),
            Err(TryRecvError::Empty) => Poll::Pending,
            Err(TryRecvError::Disconnected) => {
                self.is_over = true;
                Poll::Ready(None)
            }
        }
    }
}

impl<T> Stream for EventStream<T> {
    type Item = Event<T>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Event<T>>> {
        if let Poll::Ready(answer) = self.look() {
            return Poll::Ready(answer);
        }
        let EventStream { ready, id, .. } = &mut *self;
        ready.register(id, cx.waker());
        // An event may have come before the waker was registered.
        self.look()
    }
}

impl<T> FusedStream for EventStream<T> {
    fn is_terminated(&self) -> bool {
        self.is_over
    }
}

impl<T> Unpin for EventStream<T> {}

impl<T> Drop for EventStream<T> {
    fn drop(&mut self) {
        self.ready.leave(&self.id);
    }
}

impl<T> fmt::Debug for EventStream<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EventStream").field("waiting", &self.receiver.len()).finish_non_exhaustive()
    }
}
