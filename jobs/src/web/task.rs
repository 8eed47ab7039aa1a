//! A request on its way to the thread that answers it, and the place of its answer.

use core::pin::Pin;
use core::task::{Context, Poll, Waker};
use std::sync::{Arc, Mutex, PoisonError};

use http::Response;
use http::request::Parts;

use super::options::caught;
use super::params::Params;
use super::response::{self, Body};
use super::route::Route;
use super::views::Problem;

/// A request for the thread.
pub(crate) struct Task {
    pub(crate) request: Arc<Parts>,
    pub(crate) route: Route,
    pub(crate) params: Params,
    pub(crate) may_change: bool,
    pub(super) reply: Reply,
}

impl Task {
    pub(crate) fn new(
        request: Arc<Parts>,
        route: Route,
        params: Params,
        may_change: bool,
        reply: Reply,
    ) -> Task {
        Task { request, route, params, may_change, reply }
    }
}

impl Drop for Task {
    fn drop(&mut self) {
        self.reply.set(|| ended("the dashboard has ended"));
    }
}

pub(super) fn ended(message: &str) -> Response<Body> {
    let message = message.to_owned();
    response::problem(&Problem { status: 503, error: "no_answer", message })
}

/// The place of an answer, which the request awaits.
#[derive(Clone, Default)]
pub(crate) struct Reply(Arc<Mutex<State>>);

#[derive(Default)]
struct State {
    answer: Option<Response<Body>>,
    is_set: bool,
    waker: Option<Waker>,
}

impl Reply {
    /// Sets the answer, if there is none yet.
    pub(super) fn set(&self, answer: impl FnOnce() -> Response<Body>) {
        let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if state.is_set {
            return;
        }
        state.is_set = true;
        state.answer = Some(answer());
        let waker = state.waker.take();
        drop(state);
        if let Some(waker) = waker {
            caught(|| waker.wake());
        }
    }

    /// Notes that the request needs no answer: it was refused.
    pub(super) fn forget(&self) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).is_set = true;
    }

    /// Says whether the request has its answer or needs none.
    pub(super) fn is_over(&self) -> bool {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).is_set
    }
}

impl Future for Reply {
    type Output = Response<Body>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Response<Body>> {
        // A waker is the program's code: it is cloned and dropped without the lock.
        let waker = context.waker().clone();
        let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        match state.answer.take() {
            Some(answer) => Poll::Ready(answer),
            None => {
                let before = state.waker.replace(waker);
                drop(state);
                drop(before);
                Poll::Pending
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use core::pin::pin;
    use std::task::Wake;

    /// A waker that looks whether the lock is free when it goes.
    struct Looks(Reply);

    impl Wake for Looks {
        fn wake(self: Arc<Self>) {}
    }

    impl Drop for Looks {
        fn drop(&mut self) {
            assert!(self.0.0.try_lock().is_ok(), "a waker is dropped under the lock");
        }
    }

    /// A waker is the program's code, so it is dropped without the lock: when another follows it, and when it has
    /// been called.
    #[test]
    fn wakers_are_dropped_without_the_lock() {
        let reply = Reply::default();
        let mut polled = pin!(reply.clone());
        for _ in 0..2 {
            let waker = Waker::from(Arc::new(Looks(reply.clone())));
            let answer = polled.as_mut().poll(&mut Context::from_waker(&waker));
            assert!(answer.is_pending());
        }
        reply.set(|| ended("it has ended"));
        assert!(polled.poll(&mut Context::from_waker(Waker::noop())).is_ready());
    }
}
