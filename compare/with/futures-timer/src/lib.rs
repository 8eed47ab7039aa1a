//! Stands in for the crate `futures-timer`, version 3: the same type, on the wheel of the process.
//!
//! A program that has this in `[patch.crates-io]` moves the timers of every crate that it depends
//! on (libp2p, governor, backon, rstest) to one wheel: no helper thread of another timer, no
//! allocation for each delay, and a clock that a test can move ([`tickwheel::global::install`]).

#![forbid(unsafe_code)]

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use tickwheel::{Sleep, global};

/// A future that is over once a duration has passed.
#[derive(Debug)]
pub struct Delay(Sleep);

impl Delay {
    /// Returns a delay that is over once `dur` has passed since this call.
    pub fn new(dur: Duration) -> Delay {
        Delay(global::sleep(dur))
    }

    /// Sets the delay anew: it is over once `dur` has passed since this call.
    pub fn reset(&mut self, dur: Duration) {
        self.0.reset(dur);
    }
}

impl Future for Delay {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        Pin::new(&mut self.0).poll(cx)
    }
}
