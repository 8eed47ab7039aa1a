//! Retry policies: how long a job waits after each failure, and after which failure it is dead.
//!
//! Ground rules:
//!
//! - The wait is a function of the policy, of the number of failures, and of a random number that is passed in.
//!   So a test pins the shortest and the longest waits of each policy.
//! - The jitter only adds: a retry is never sooner than the policy's wait.

use std::time::Duration;

/// How often and when a job is retried after its handler failed.
///
/// The wait before the `n`-th retry of an [exponential](Retry::exponential) policy is `base * 2^(n - 1)`, at
/// most [`Retry::max_delay`], plus a random part of at most a quarter of that, so that jobs which failed
/// together are not retried together. A wait that leads past the year 9999 ends with that year.
///
/// | policy | first wait | waits in all, without and with the whole jitter |
/// | --- | --- | --- |
/// | `Retry::default()`: 1 s doubled, at most 1 h, 20 times | 1 s to 1.25 s | 9.14 h to 11.42 h |
/// | `exponential(1 s).max_delay(1 h).max_retries(12)` | 1 s to 1.25 s | 1.14 h to 1.42 h |
/// | `fixed(10 s).max_retries(3)` | 10 s | 30 s |
///
/// ```
/// use std::time::Duration;
/// use tickwheel_jobs::Retry;
/// let second = Duration::from_secs(1);
/// let policy = Retry::exponential(second).max_delay(60 * second).max_retries(10);
/// assert_eq!(policy.wait(1), Some((second, 1250 * second / 1000)));
/// assert_eq!(policy.wait(10), Some((60 * second, 75 * second)));
/// assert_eq!(policy.wait(11), None);
/// ```
#[doc(alias("backoff", "max_attempts", "attempts"))]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Retry {
    base: Duration,
    growth: Growth,
    max_delay: Duration,
    max_retries: u32,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Growth {
    Doubled,
    Constant,
}

const HOUR: Duration = Duration::from_secs(3600);

impl Retry {
    /// Returns the policy whose waits begin with `base` and double. By default each wait is at most an hour
    /// ([`Retry::max_delay`]), and there are 20 retries ([`Retry::max_retries`]).
    #[must_use]
    pub const fn exponential(base: Duration) -> Retry {
        Retry { base, growth: Growth::Doubled, max_delay: HOUR, max_retries: 20 }
    }

    /// Returns the policy whose waits are all `delay`, without jitter. By default there are 20 retries
    /// ([`Retry::max_retries`]).
    #[must_use]
    pub const fn fixed(delay: Duration) -> Retry {
        Retry { base: delay, growth: Growth::Constant, max_delay: delay, max_retries: 20 }
    }

    /// Returns the policy without retries: the first failure makes the job dead.
    #[must_use]
    pub const fn never() -> Retry {
        Retry {
            base: Duration::ZERO,
            growth: Growth::Constant,
            max_delay: Duration::ZERO,
            max_retries: 0,
        }
    }

    /// Limits each wait, before jitter.
    #[must_use]
    pub const fn max_delay(self, max_delay: Duration) -> Retry {
        Retry { max_delay, ..self }
    }

    /// Sets the number of retries. After `max_retries` retries the next failure makes the job dead: its handler
    /// has failed `max_retries + 1` times.
    #[must_use]
    pub const fn max_retries(self, max_retries: u32) -> Retry {
        Retry { max_retries, ..self }
    }

    /// Returns the shortest and the longest wait after the `failures`-th failure, counted from 1; or
    /// `None` if the job is dead then.
    #[must_use]
    pub fn wait(&self, failures: u32) -> Option<(Duration, Duration)> {
        if failures > self.max_retries {
            return None;
        }
        let shortest = match self.growth {
            Growth::Constant => self.base,
            Growth::Doubled => {
                let doublings = failures.saturating_sub(1).min(63);
                let factor = 1_u128 << doublings;
                let nanos = self.base.as_nanos().saturating_mul(factor);
                let most = self.max_delay.as_nanos();
                duration_from_nanos(nanos.min(most))
            }
        };
        let shortest = shortest.min(self.max_delay);
        let longest = match self.growth {
            Growth::Constant => shortest,
            Growth::Doubled => shortest.saturating_add(shortest / 4),
        };
        Some((shortest, longest))
    }

    /// Returns the fields of the policy: its first wait, its longest wait, its number of retries, and whether
    /// the waits double.
    pub(crate) const fn parts(&self) -> (Duration, Duration, u32, bool) {
        (self.base, self.max_delay, self.max_retries, matches!(self.growth, Growth::Doubled))
    }

    /// Returns the policy with these fields.
    #[cfg_attr(
        not(any(feature = "sqlite-unbundled", feature = "redis", test)),
        allow(dead_code, reason = "memory keeps no bytes")
    )]
    pub(crate) const fn from_parts(
        base: Duration,
        max_delay: Duration,
        max_retries: u32,
        doubles: bool,
    ) -> Retry {
        let growth = if doubles { Growth::Doubled } else { Growth::Constant };
        Retry { base, growth, max_delay, max_retries }
    }

    /// Returns the wait after the `failures`-th failure, or `None` if the job is dead then. `draw` is a random
    /// number.
    pub(crate) fn draw_wait(&self, failures: u32, draw: u64) -> Option<Duration> {
        let (shortest, longest) = self.wait(failures)?;
        let choices = u64::try_from((longest - shortest).as_millis()).unwrap_or(u64::MAX);
        let choices = choices.saturating_add(1);
        Some(shortest.saturating_add(Duration::from_millis(draw % choices)))
    }
}

impl Default for Retry {
    /// A second, doubled up to an hour, 20 retries: 21 runs in about ten hours.
    fn default() -> Retry {
        Retry::exponential(Duration::from_secs(1))
    }
}

fn duration_from_nanos(nanos: u128) -> Duration {
    let seconds = u64::try_from(nanos / 1_000_000_000).unwrap_or(u64::MAX);
    let rest = u32::try_from(nanos % 1_000_000_000).unwrap_or(0);
    Duration::new(seconds, rest)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the sum of all waits of a policy, without jitter and with all of it.
    fn window(policy: Retry) -> (Duration, Duration) {
        (1..)
            .map_while(|failures| policy.wait(failures))
            .fold((Duration::ZERO, Duration::ZERO), |(least, most), (shortest, longest)| {
                (least + shortest, most + longest)
            })
    }

    /// The waits of a policy add up to its window: 9.14 hours without jitter for the policy that is the default.
    #[test]
    fn retry_waits_add_up_to_the_window_of_their_policy() {
        let second = Duration::from_secs(1);
        // 1 + 2 + … + 2048 is 4095 seconds, and eight more waits of an hour.
        let least = Duration::from_secs(4095 + 8 * 3600);
        assert_eq!(window(Retry::default()), (least, least + least / 4));
        assert_eq!(least.as_secs(), 32_895); // 9.14 hours
        let twelve = Retry::exponential(second).max_delay(HOUR).max_retries(12);
        assert_eq!(window(twelve), (4095 * second, 4095 * second * 5 / 4));
        assert_eq!(window(Retry::fixed(10 * second).max_retries(3)), (30 * second, 30 * second));
        assert_eq!(window(Retry::never()), (Duration::ZERO, Duration::ZERO));
    }

    /// A drawn wait lies between the shortest and the longest wait, and may be either.
    #[test]
    fn retry_wait_lies_in_its_window_and_reaches_both_ends() {
        let policy = Retry::exponential(Duration::from_millis(4)).max_delay(HOUR).max_retries(3);
        let drawn = |draw| policy.draw_wait(1, draw).unwrap().as_millis();
        assert_eq!((drawn(0), drawn(1), drawn(2)), (4, 5, 4));
        assert_eq!(policy.draw_wait(4, 0), None);
    }

    /// A policy with extreme durations and counts saturates: no wait overflows.
    #[test]
    fn retry_policies_saturate_at_extremes() {
        let policy =
            Retry::exponential(Duration::MAX).max_delay(Duration::MAX).max_retries(u32::MAX);
        assert_eq!(policy.wait(u32::MAX), Some((Duration::MAX, Duration::MAX)));
        assert!(policy.draw_wait(80, 7).is_some());
        let longest = Retry::exponential(Duration::from_millis(u64::MAX) * 4);
        assert!(longest.max_delay(Duration::MAX).draw_wait(1, 7).is_some());
        assert_eq!(Retry::exponential(Duration::ZERO).draw_wait(5, 3), Some(Duration::ZERO));
    }
}
