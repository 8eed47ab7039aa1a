//! The peers, each used as its documentation advises.
//!
//! - `tickwheel`: sleeps and timeouts of a scheduler, which each task has a clone of. The wheel's
//!   own thread wakes the tasks.
//! - `tickwheel-driven`: the same, but the runtime drives the wheel (`Wheel::drive`).
//! - `tokio`: its own timer, and, if built with `--cfg tokio_unstable`, the alternative one.
//! - `pingora-timeout`: rounds up to 10 ms, and keeps a dropped sleep until its time has come. A
//!   sleep that lies in a struct has to be boxed, and a reset makes a new sleep.
//! - `futures-timer` and `async-io` have no timeout, so a race of two futures is measured instead.

use std::future::{Future, ready};
use std::hint::black_box;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use ::tickwheel::{Scheduler, Sleep, Wheel};
use ::tokio::runtime::Runtime;
use ::tokio::time as tokio_time;
use async_executor::Executor;
use futures_timer::Delay;

use super::timer::Futures;

/// Driven by the runtime, if `DRIVEN`; otherwise by the wheel's own thread.
#[derive(Clone)]
pub(super) struct Ours<const DRIVEN: bool> {
    scheduler: Scheduler,
    /// The wheel lives as long as the last task.
    wheel: Arc<Wheel>,
}

impl<const DRIVEN: bool> Default for Ours<DRIVEN> {
    fn default() -> Self {
        let wheel = Wheel::new();
        Ours { scheduler: wheel.scheduler(), wheel: Arc::new(wheel) }
    }
}

impl<const DRIVEN: bool> Futures for Ours<DRIVEN> {
    const NAME: &'static str = if DRIVEN { "tickwheel-driven" } else { "tickwheel" };
    type Sleep = Sleep;

    fn on(runtime: &Runtime) -> Self {
        let ours = Ours::default();
        if DRIVEN {
            runtime.spawn(ours.wheel.drive(|until| tokio_time::sleep_until(until.into())));
        }
        ours
    }

    fn on_smol(executor: &Executor<'static>) -> Self {
        let ours = Ours::default();
        if DRIVEN {
            executor.spawn(ours.wheel.drive(async_io::Timer::at)).detach();
        }
        ours
    }

    fn sleep(&self, delay: Duration) -> Sleep {
        self.scheduler.sleep(delay)
    }

    fn sleep_until(&self, at: Instant) -> Sleep {
        self.scheduler.sleep_until(at)
    }

    fn reset(&self, sleep: Pin<&mut Sleep>, delay: Duration) {
        sleep.get_mut().reset(delay);
    }

    fn reset_at(&self, sleep: Pin<&mut Sleep>, at: Instant) {
        sleep.get_mut().reset_at(at);
    }

    fn ready(&self, delay: Duration, number: u64, cx: &mut Context<'_>) -> bool {
        let timeout = self.scheduler.timeout(delay, ready(black_box(number)));
        matches!(black_box(pin!(timeout).poll(cx)), Poll::Ready(Ok(_)))
    }

    async fn limit<T: Future + Send>(&self, delay: Duration, future: T) -> Option<T::Output> {
        self.scheduler.timeout(delay, future).await.ok()
    }
}

/// With the alternative timer, if `ALT`.
#[derive(Clone, Default)]
pub(super) struct Tokio<const ALT: bool>;

impl<const ALT: bool> Futures for Tokio<ALT> {
    const NAME: &'static str = if ALT { "tokio-alt" } else { "tokio" };
    type Sleep = tokio_time::Sleep;

    #[cfg(tokio_unstable)]
    fn runtime(workers: usize) -> ::tokio::runtime::Runtime {
        let mut builder = super::timer::builder(workers);
        let builder = if ALT { builder.enable_alt_timer() } else { &mut builder };
        builder.build().expect("the runtime starts")
    }

    fn sleep(&self, delay: Duration) -> tokio_time::Sleep {
        tokio_time::sleep(delay)
    }

    fn sleep_until(&self, at: Instant) -> tokio_time::Sleep {
        tokio_time::sleep_until(at.into())
    }

    fn reset(&self, sleep: Pin<&mut tokio_time::Sleep>, delay: Duration) {
        sleep.reset(tokio_time::Instant::now() + delay);
    }

    fn reset_at(&self, sleep: Pin<&mut tokio_time::Sleep>, at: Instant) {
        sleep.reset(at.into());
    }

    fn ready(&self, delay: Duration, number: u64, cx: &mut Context<'_>) -> bool {
        let timeout = tokio_time::timeout(delay, ready(black_box(number)));
        matches!(black_box(pin!(timeout).poll(cx)), Poll::Ready(Ok(_)))
    }

    async fn limit<T: Future + Send>(&self, delay: Duration, future: T) -> Option<T::Output> {
        tokio_time::timeout(delay, future).await.ok()
    }
}

#[derive(Clone, Default)]
pub(super) struct Pingora;

impl Futures for Pingora {
    const NAME: &'static str = "pingora-timeout";
    type Sleep = Pin<Box<dyn Future<Output = ()> + Send>>;

    fn sleep(&self, delay: Duration) -> Self::Sleep {
        Box::pin(pingora_timeout::sleep(delay))
    }

    fn sleep_until(&self, at: Instant) -> Self::Sleep {
        self.sleep(at.saturating_duration_since(Instant::now()))
    }

    fn reset(&self, mut sleep: Pin<&mut Self::Sleep>, delay: Duration) {
        sleep.set(self.sleep(delay));
    }

    fn reset_at(&self, mut sleep: Pin<&mut Self::Sleep>, at: Instant) {
        sleep.set(self.sleep_until(at));
    }

    fn ready(&self, delay: Duration, number: u64, cx: &mut Context<'_>) -> bool {
        let timeout = pingora_timeout::timeout(delay, ready(black_box(number)));
        matches!(black_box(pin!(timeout).poll(cx)), Poll::Ready(Ok(_)))
    }

    async fn limit<T: Future + Send>(&self, delay: Duration, future: T) -> Option<T::Output> {
        pingora_timeout::timeout(delay, future).await.ok()
    }

    fn once(&self, delay: Duration, cx: &mut Context<'_>) -> bool {
        pin!(pingora_timeout::sleep(delay)).poll(cx).is_pending()
    }
}

#[derive(Clone, Default)]
pub(super) struct FuturesTimer;

impl Futures for FuturesTimer {
    const NAME: &'static str = "futures-timer";
    type Sleep = Delay;

    fn sleep(&self, delay: Duration) -> Delay {
        Delay::new(delay)
    }

    fn sleep_until(&self, at: Instant) -> Delay {
        Delay::new(at.saturating_duration_since(Instant::now()))
    }

    fn reset(&self, sleep: Pin<&mut Delay>, delay: Duration) {
        sleep.get_mut().reset(delay);
    }

    fn reset_at(&self, sleep: Pin<&mut Delay>, at: Instant) {
        self.reset(sleep, at.saturating_duration_since(Instant::now()));
    }
}

#[derive(Clone, Default)]
pub(super) struct AsyncIo;

impl Futures for AsyncIo {
    const NAME: &'static str = "async-io";
    type Sleep = async_io::Timer;

    fn sleep(&self, delay: Duration) -> async_io::Timer {
        async_io::Timer::after(delay)
    }

    fn sleep_until(&self, at: Instant) -> async_io::Timer {
        async_io::Timer::at(at)
    }

    fn reset(&self, sleep: Pin<&mut async_io::Timer>, delay: Duration) {
        sleep.get_mut().set_after(delay);
    }

    fn reset_at(&self, sleep: Pin<&mut async_io::Timer>, at: Instant) {
        sleep.get_mut().set_at(at);
    }
}
