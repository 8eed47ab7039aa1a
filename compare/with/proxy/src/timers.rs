//! What the proxy needs of a timer, from tokio and from a wheel.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::time::Duration;

use tickwheel::Scheduler;

/// Which timers the proxy uses.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Kind {
    Tokio,
    Wheel,
}

impl Kind {
    pub(crate) fn parse(name: &str) -> Option<Kind> {
        [Kind::Tokio, Kind::Wheel].into_iter().find(|kind| kind.to_string() == name)
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Kind::Tokio => "tokio",
            Kind::Wheel => "tickwheel",
        })
    }
}

pub(crate) trait Timers: Clone + Send + Sync + 'static {
    type Sleep: Future<Output = ()> + Send;

    fn sleep(&self, delay: Duration) -> Self::Sleep;

    /// Sets a sleep anew, from now on.
    fn reset(sleep: Pin<&mut Self::Sleep>, delay: Duration);

    /// Returns `None` if the time is over before the future is ready.
    fn timeout<F: Future + Send>(
        &self,
        limit: Duration,
        future: F,
    ) -> impl Future<Output = Option<F::Output>> + Send;
}

#[derive(Clone)]
pub(crate) struct Tokio;

impl Timers for Tokio {
    type Sleep = tokio::time::Sleep;

    fn sleep(&self, delay: Duration) -> Self::Sleep {
        tokio::time::sleep(delay)
    }

    fn reset(sleep: Pin<&mut Self::Sleep>, delay: Duration) {
        sleep.reset(tokio::time::Instant::now() + delay);
    }

    async fn timeout<F: Future + Send>(&self, limit: Duration, future: F) -> Option<F::Output> {
        tokio::time::timeout(limit, future).await.ok()
    }
}

impl Timers for Scheduler {
    type Sleep = tickwheel::Sleep;

    fn sleep(&self, delay: Duration) -> Self::Sleep {
        self.sleep(delay)
    }

    fn reset(sleep: Pin<&mut Self::Sleep>, delay: Duration) {
        sleep.get_mut().reset(delay);
    }

    async fn timeout<F: Future + Send>(&self, limit: Duration, future: F) -> Option<F::Output> {
        self.timeout(limit, future).await.ok()
    }
}
