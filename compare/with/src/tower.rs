//! tower: a layer that limits every request. `tower::timeout` asks tokio for its sleeps, and has no
//! hook; so this is a layer of its own, of the same shape.
//!
//! The time of a request begins with its call, as in tower. A request costs one reading of the
//! clock; if its answer is not there at the first poll, also two short locks and no allocation.

use std::error::Error;
use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use pin_project_lite::pin_project;
use tickwheel::{Scheduler, Sleep};
use tower_layer::Layer;
use tower_service::Service;

type BoxError = Box<dyn Error + Send + Sync>;

/// Limits every request to a time.
#[derive(Clone, Debug)]
pub struct TimeoutLayer {
    scheduler: Scheduler,
    limit: Duration,
}

impl TimeoutLayer {
    pub fn new(wheel: impl Into<Scheduler>, limit: Duration) -> TimeoutLayer {
        TimeoutLayer { scheduler: wheel.into(), limit }
    }
}

impl<S> Layer<S> for TimeoutLayer {
    type Service = Timeout<S>;

    fn layer(&self, inner: S) -> Timeout<S> {
        Timeout { inner, layer: self.clone() }
    }
}

/// A service whose requests are limited to a time.
#[derive(Clone, Debug)]
pub struct Timeout<S> {
    inner: S,
    layer: TimeoutLayer,
}

impl<S, Request> Service<Request> for Timeout<S>
where
    S: Service<Request, Error: Into<BoxError>>,
{
    type Response = S::Response;
    type Error = BoxError;
    type Future = ResponseFuture<S::Future>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        self.inner.poll_ready(cx).map_err(Into::into)
    }

    fn call(&mut self, request: Request) -> Self::Future {
        let response = self.inner.call(request);
        ResponseFuture { response, limit: self.layer.scheduler.sleep(self.layer.limit) }
    }
}

pin_project! {
    /// The answer, or the end of its time.
    #[derive(Debug)]
    pub struct ResponseFuture<F> {
        #[pin]
        response: F,
        limit: Sleep,
    }
}

impl<F, Response, E> Future for ResponseFuture<F>
where
    F: Future<Output = Result<Response, E>>,
    E: Into<BoxError>,
{
    type Output = Result<Response, BoxError>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let this = self.project();
        if let Poll::Ready(response) = this.response.poll(cx) {
            return Poll::Ready(response.map_err(Into::into));
        }
        // If the wheel has ended, this returns an error that says that.
        ready!(this.limit.poll_elapsed(cx))?;
        Poll::Ready(Err(TimedOut.into()))
    }
}

/// The time of a request was over.
#[derive(Debug)]
pub struct TimedOut;

impl fmt::Display for TimedOut {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the request took too long")
    }
}

impl Error for TimedOut {}

#[cfg(test)]
mod tests {
    use super::*;
    use std::convert::Infallible;
    use tickwheel::{Wheel, WheelGone, testing};

    /// Answers after the time that the request says.
    struct Slow(Scheduler);

    impl Service<Duration> for Slow {
        type Response = &'static str;
        type Error = Infallible;
        type Future = Pin<Box<dyn Future<Output = Result<&'static str, Infallible>>>>;

        fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
            Poll::Ready(Ok(()))
        }

        fn call(&mut self, delay: Duration) -> Self::Future {
            let answer = self.0.sleep(delay);
            Box::pin(async move {
                answer.await;
                Ok("an answer")
            })
        }
    }

    #[test]
    fn a_request_that_takes_too_long_is_refused() {
        let (wheel, driver) = Wheel::builder().manual().unwrap();
        let second = Duration::from_secs(1);
        let mut service = TimeoutLayer::new(&wheel, second).layer(Slow(wheel.scheduler()));
        assert_eq!(testing::run(&driver, service.call(second / 2)).unwrap(), "an answer");
        let begin = driver.now();
        let error = testing::run(&driver, service.call(2 * second)).unwrap_err();
        assert!(error.is::<TimedOut>() && driver.now() == begin + second, "{error}");
        // What was given up has left the wheel.
        assert_eq!(wheel.stats().sleeping, 0);
        drop(wheel);
        let error = testing::run(&driver, service.call(second)).unwrap_err();
        assert!(error.is::<WheelGone>(), "{error}");
    }
}
