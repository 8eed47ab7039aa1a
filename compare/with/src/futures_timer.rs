//! futures-timer: crates that depend on it have no hook for timers. The `Cargo.toml` of this crate
//! replaces it for all of them, by the forty lines in `futures-timer/`.
//!
//! Here the crate that depends on it is backon. Others are libp2p, governor and rstest.
//!
//! A delay costs one sleep on the wheel of the process: no allocation, and no helper thread.

use backon::{ConstantBuilder, FuturesTimerSleeper, Retryable};

/// Tries four times, half an hour apart, on the delays of futures-timer.
pub async fn retry<T, E, F: Future<Output = Result<T, E>>>(
    attempt: impl FnMut() -> F,
) -> Result<T, E> {
    let every = ConstantBuilder::default().with_delay(std::time::Duration::from_secs(1800));
    attempt.retry(every.with_max_times(3)).sleep(FuturesTimerSleeper).await
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;
    use tickwheel::{Wheel, global, testing};

    #[test]
    fn the_clock_of_futures_timer_can_be_moved() {
        let (wheel, driver) = Wheel::builder().manual().unwrap();
        // Nothing else in this process uses its wheel.
        global::install(wheel).expect("it is installed before its first use");
        let begin = driver.now();
        let failed = testing::run(&driver, retry(|| std::future::ready(Err::<(), _>("down"))));
        assert_eq!(failed, Err("down"));
        assert_eq!(driver.now() - begin, Duration::from_secs(3 * 1800));
        assert_eq!(global::wheel().stats().woken, 3, "on the wheel of the process");
    }
}
