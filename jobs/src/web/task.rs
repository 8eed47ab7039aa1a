//! A request on its way to the thread that answers it, and the place of its answer.

use core::pin::Pin;
use core::task::{Context, Poll, Waker};
use std::sync::{Arc, Mutex, PoisonError};

use http::Response;
use http::request::Parts;

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
            waker.wake();
        }
    }

    /// Notes that nobody waits for the answer.
    pub(super) fn forget(&self) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).is_set = true;
    }

    /// Says whether the answer is of no use any more: it was given, or its request was dropped. The thread, the
    /// limit and the request have a clone each.
    pub(super) fn is_over(&self) -> bool {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).is_set
    }
}

impl Future for Reply {
    type Output = Response<Body>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Response<Body>> {
        let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        match state.answer.take() {
            Some(answer) => Poll::Ready(answer),
            None => {
                state.waker = Some(context.waker().clone());
                Poll::Pending
            }
        }
    }
}
