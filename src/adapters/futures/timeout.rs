//! The timeout: a future with a time limit.
//!
//! Ground rules:
//!
//! - Each poll polls the inner future first, and then the limit.
//! - The sleep is made when the inner future first returns `Pending`. Before that no clock is read,
//!   and no lock is taken.
//! - It borrows the engine, so threads do not contend for a reference count.

use core::fmt;
use core::future::Future;
use core::pin::Pin;
use core::task::{Context, Poll};
use std::time::{Duration, Instant};

use pin_project_lite::pin_project;

use super::Elapsed;
use super::sleep::Sleep;
use crate::engine::verbs::Engine;
use crate::values::time::Window;

pin_project! {
    /// A future with a time limit: from [`Wheel::timeout`](crate::Wheel::timeout) and the like.
    ///
    /// It returns the output of the future, or [`Elapsed`] if the time is over first. The future is
    /// polled first, so a future that is ready wins over a time that has passed. If it is not ready,
    /// the same poll checks the time, so a future that is always busy times out.
    ///
    /// If the wheel ends before the time is over, it returns [`Elapsed`] too, and
    /// [`Elapsed::wheel_gone`] is `true`.
    #[must_use = "a timeout does nothing until it is awaited"]
    pub struct Timeout<'a, F> {
        #[pin]
        future: F,
        engine: &'a Engine,
        limit: Limit,
    }
}

enum Limit {
    /// Counts from the first poll.
    After(Duration),
    At(Instant),
    /// The future was not ready at the first poll.
    Running(Sleep),
}

impl<'a, F> Timeout<'a, F> {
    pub(super) fn after(engine: &'a Engine, delay: Duration, future: F) -> Timeout<'a, F> {
        Timeout { future, engine, limit: Limit::After(delay) }
    }

    pub(super) fn at(engine: &'a Engine, deadline: Instant, future: F) -> Timeout<'a, F> {
        Timeout { future, engine, limit: Limit::At(deadline) }
    }

    /// Returns the future.
    pub fn get_ref(&self) -> &F {
        &self.future
    }

    /// Returns the future, to change it.
    pub fn get_mut(&mut self) -> &mut F {
        &mut self.future
    }

    /// Returns the future, without its limit.
    pub fn into_inner(self) -> F {
        self.future
    }
}

impl Limit {
    /// Returns the sleep until the limit. The first call makes it.
    fn sleep(&mut self, engine: &Engine) -> &mut Sleep {
        let sleep = match *self {
            Limit::After(delay) => {
                Some(Sleep::after(engine.own_waker_shard(), delay, Window::Exact))
            }
            Limit::At(deadline) => Some(Sleep::until(engine.own_waker_shard(), deadline)),
            Limit::Running(_) => None,
        };
        if let Some(sleep) = sleep {
            *self = Limit::Running(sleep);
        }
        let Limit::Running(sleep) = self else { unreachable!("it runs since the line above") };
        sleep
    }
}

impl<F: Future> Future for Timeout<'_, F> {
    type Output = Result<F::Output, Elapsed>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Result<F::Output, Elapsed>> {
        let this = self.project();
        if let Poll::Ready(output) = this.future.poll(cx) {
            return Poll::Ready(Ok(output));
        }
        let elapsed = this.limit.sleep(this.engine).poll_elapsed(cx);
        elapsed.map(|result| Err(Elapsed { wheel_gone: result.is_err() }))
    }
}

impl<F: fmt::Debug> fmt::Debug for Timeout<'_, F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut debug = f.debug_struct("Timeout");
        debug.field("future", &self.future);
        match &self.limit {
            Limit::After(delay) => debug.field("delay", delay).finish(),
            Limit::At(deadline) => debug.field("deadline", deadline).finish(),
            Limit::Running(sleep) => debug.field("deadline", &sleep.deadline()).finish(),
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use crate::api::wheel::Wheel;
    use core::future::{Future, pending, ready};
    use core::pin::pin;
    use core::task::{Context, Poll, Waker};
    use std::time::Duration;

    /// C74: A timeout whose future is ready at once makes no waker shards in the wheel.
    #[test]
    fn timeout_of_a_ready_future_does_not_touch_the_wheel() {
        let (wheel, _driver) = Wheel::builder().manual().unwrap();
        let cx = &mut Context::from_waker(Waker::noop());
        let ready = pin!(wheel.timeout(Duration::ZERO, ready(7)));
        assert_eq!(ready.poll(cx), Poll::Ready(Ok(7)));
        assert!(!wheel.engine().has_wakers());
        assert!(pin!(wheel.timeout(Duration::ZERO, pending::<()>())).poll(cx).is_pending());
        assert!(wheel.engine().has_wakers());
    }
}
