//! backon: waits between two attempts with the sleeps that it is given. A closure that returns a
//! sleep will do, so there is nothing to write.
//!
//! An attempt that fails costs one sleep; one that succeeds costs nothing.

use backon::{ExponentialBuilder, Retryable};
use tickwheel::Scheduler;

/// Tries five times: again after a second, after two more, after four and after eight.
pub async fn retry<T, E, F: Future<Output = Result<T, E>>>(
    scheduler: &Scheduler,
    attempt: impl FnMut() -> F,
) -> Result<T, E> {
    let timers = scheduler.clone();
    attempt
        .retry(ExponentialBuilder::default().with_max_times(4))
        .sleep(move |delay| timers.sleep(delay))
        .await
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;
    use tickwheel::{Wheel, testing};

    #[test]
    fn it_waits_between_attempts_and_the_test_does_not() {
        let (wheel, driver) = Wheel::builder().manual().unwrap();
        let (begin, mut attempts) = (driver.now(), 0);
        let scheduler = wheel.scheduler();
        let answer = testing::run(
            &driver,
            retry(&scheduler, || {
                attempts += 1;
                std::future::ready(if attempts == 4 { Ok("an answer") } else { Err("busy") })
            }),
        );
        assert_eq!(answer, Ok("an answer"));
        assert_eq!(driver.now() - begin, Duration::from_secs(1 + 2 + 4));
    }
}
