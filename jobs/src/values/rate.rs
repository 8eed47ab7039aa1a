//! Rates: how often the jobs of a scope may start, and the tokens that are left of a rate.
//!
//! Ground rules:
//!
//! - A claim takes a token of each scope with a rate. A claim that is given back does not give its token back.
//! - The tokens of a rate lie on a line, one behind the other by `per / jobs`. The next claim may come at the next token,
//!   and earlier by the burst. This is the virtual scheduling of GCRA (ITU-T I.371), with one difference.
//! - GCRA moves the line by each delay of a claim, and a claim is nearly always some microseconds late. Here a small
//!   delay does not move it. Instead, after each `jobs` tokens, the line moves by the longest delay among them. So two
//!   claims with `jobs` claims between the first and the second are at least `per` apart: the second is not before its
//!   token, which is later than that of the first by `per` and by the delay of the first. A longer delay begins the line
//!   anew.
//! - So in any period `per`, at most `jobs + burst - 1` claims take a token. A scope that always has a due job loses at
//!   most the longest delay of each period.
//! - `store/redis/scripts/tokens.lua` has the same rules, and keeps the same text.

use super::time::Millis;

/// How many jobs may start in a period, and how many at once after a quiet time.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) struct Rate {
    pub(crate) jobs: u32,
    /// In milliseconds.
    pub(crate) per: u64,
    pub(crate) burst: u32,
}

/// The tokens of a scope with a rate. Times are in microseconds.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Tokens {
    rate: Rate,
    /// The time of the next token.
    next: i64,
    /// How many tokens were taken since the line last moved, and the longest delay of a claim among them.
    taken: u32,
    delay: i64,
}

/// A claim begins the line anew if its delay is longer than the period divided by this number, and longer than a
/// millisecond.
const PARTS: i64 = 32;

/// The microseconds of a millisecond.
const MICROS: i64 = 1000;

impl Rate {
    /// The time between two tokens.
    fn spacing(self) -> i64 {
        self.period().saturating_add(i64::from(self.jobs) - 1) / i64::from(self.jobs.max(1))
    }

    fn period(self) -> i64 {
        i64::try_from(self.per).unwrap_or(i64::MAX).saturating_mul(MICROS)
    }

    /// By how much a claim may come before its token.
    fn tolerance(self) -> i64 {
        self.spacing().saturating_mul(i64::from(self.burst.max(1)) - 1)
    }

    fn longest_delay(self) -> i64 {
        (self.period() / PARTS).max(MICROS)
    }
}

impl Tokens {
    /// Returns the tokens of a scope from which no claim has taken one.
    pub(crate) fn new(rate: Rate, now: Millis) -> Tokens {
        Tokens { rate, next: micros(now), taken: 0, delay: 0 }
    }

    /// Takes another rate, and notices a clock that was set back. In both cases the next token comes after one spacing
    /// at the latest.
    pub(crate) fn follow(&mut self, rate: Rate, now: Millis) {
        let now = micros(now);
        let farthest = now.saturating_add(rate.tolerance()).saturating_add(rate.spacing());
        if self.rate != rate {
            let next = self.next.min(now.saturating_add(rate.spacing()));
            *self = Tokens { rate, next, taken: 0, delay: 0 };
        } else if self.next > farthest.saturating_add(rate.longest_delay()) {
            *self = Tokens { rate, next: now.saturating_add(rate.spacing()), taken: 0, delay: 0 };
        }
    }

    /// Returns the first time at which a claim may take the next token.
    pub(crate) fn next(&self) -> Millis {
        let next = self.next.saturating_sub(self.rate.tolerance());
        let whole = next.div_euclid(MICROS);
        Millis::clamped(if next.rem_euclid(MICROS) > 0 { whole + 1 } else { whole })
    }

    /// Takes the next token, for a claim at this time.
    pub(crate) fn take(&mut self, now: Millis) {
        let delay = micros(now).saturating_sub(self.next).max(0);
        if delay > self.rate.longest_delay() {
            *self = Tokens::new(self.rate, now);
        } else {
            self.delay = self.delay.max(delay);
        }
        self.next = self.next.saturating_add(self.rate.spacing());
        self.taken += 1;
        if self.taken >= self.rate.jobs {
            self.next = self.next.saturating_add(self.delay);
            (self.taken, self.delay) = (0, 0);
        }
    }

    /// Says whether the scope is as if no claim had taken a token.
    pub(crate) fn is_past(&self, now: Millis) -> bool {
        self.next.saturating_add(self.rate.longest_delay()) < micros(now)
    }

    /// Returns the text that a store keeps.
    pub(crate) fn to_text(self) -> String {
        let Tokens { rate: Rate { jobs, per, burst }, next, taken, delay } = self;
        format!("{next} {taken} {delay} {jobs} {per} {burst}")
    }

    /// Reads the text that a store has kept.
    pub(crate) fn from_text(text: &str) -> Option<Tokens> {
        let mut words = text.split(' ');
        let (next, taken) = (words.next()?.parse().ok()?, words.next()?.parse().ok()?);
        let delay = words.next()?.parse().ok()?;
        let (jobs, per) = (words.next()?.parse().ok()?, words.next()?.parse().ok()?);
        let rate = Rate { jobs, per, burst: words.next()?.parse().ok()? };
        Some(Tokens { rate, next, taken, delay })
    }
}

fn micros(time: Millis) -> i64 {
    time.get().saturating_mul(MICROS)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const BEGINNING: i64 = 1_800_000_000_000;

    fn at(ms: i64) -> Millis {
        Millis::clamped(BEGINNING + ms)
    }

    /// Claims as early as the rate allows at times of this list, and returns the times of the claims.
    fn claims(rate: Rate, times: impl IntoIterator<Item = i64>) -> Vec<i64> {
        let (mut tokens, mut claims) = (Tokens::new(rate, at(0)), Vec::new());
        for time in times {
            tokens.follow(rate, at(time));
            while tokens.next() <= at(time) {
                tokens.take(at(time));
                claims.push(time);
            }
            tokens = Tokens::from_text(&tokens.to_text()).unwrap();
        }
        claims
    }

    fn rate(jobs: u32, per: u64, burst: u32) -> Rate {
        Rate { jobs, per, burst }
    }

    /// Claims that come in time are evenly spaced. A burst comes first.
    #[test]
    fn tokens_are_evenly_spaced() {
        assert_eq!(claims(rate(10, 1000, 1), 0..500), [0, 100, 200, 300, 400]);
        assert_eq!(claims(rate(10, 1000, 3), 0..300), [0, 0, 0, 100, 200]);
        assert_eq!(claims(rate(1, 1000, 1), 0..4000), [0, 1000, 2000, 3000]);
        assert_eq!(claims(rate(3, 1000, 1), 0..1100), [0, 334, 667, 1001]);
    }

    /// More tokens than milliseconds come several at a time.
    #[test]
    fn rate_may_be_above_one_a_millisecond() {
        let many = claims(rate(5000, 1000, 1), 0..10_000).len();
        assert!((49_950..=50_000).contains(&many), "{many}");
        // A claim is up to a millisecond late, which is a whole period here.
        let many = claims(rate(50, 1, 1), 0..100).len();
        assert!((2450..=2501).contains(&many), "{many}");
    }

    /// A new rate holds from the next claim on, also if the old one would wait for a day.
    #[test]
    fn another_rate_holds_at_once() {
        let day = rate(1, 86_400_000, 1);
        let mut tokens = Tokens::new(day, at(0));
        tokens.take(at(0));
        assert_eq!(tokens.next(), at(86_400_000));
        tokens.follow(rate(10, 1000, 1), at(50));
        assert_eq!(tokens.next(), at(150));
    }

    /// After the clock was set back by an hour, the next token comes after one spacing.
    #[test]
    fn clock_that_is_set_back_delays_no_token() {
        let rate = rate(10, 1000, 2);
        let mut tokens = Tokens::new(rate, at(3_600_000));
        tokens.take(at(3_600_000));
        tokens.follow(rate, at(0));
        assert_eq!(tokens.next(), at(0));
        tokens.take(at(0));
        assert_eq!(tokens.next(), at(100));
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..Default::default() })]

        /// P24: in any period, at most `jobs + burst - 1` claims take a token, at any times. With a due job at all times
        /// a period loses no more than its longest delay.
        #[test]
        fn no_period_has_more_claims_than_its_rate(
            (jobs, per, burst) in (1..50u32, prop::sample::select(vec![1, 10, 100, 1000, 5000u64]), 1..8u32),
            steps in prop::collection::vec(
                prop_oneof![8 => 0..30i64, 2 => 30..400i64, 1 => 400..9000i64], 1..400
            ),
        ) {
            let times: Vec<i64> =
                steps.iter().scan(0, |now, step| { *now += step; Some(*now) }).collect();
            let end = times.last().copied().unwrap_or(0);
            let its = rate(jobs, per, burst);
            let claimed = claims(its, times);
            let most = (jobs + burst - 1) as usize;
            for (n, first) in claimed.iter().enumerate() {
                let in_period = claimed[n..].iter().take_while(|time| **time < first + per as i64);
                prop_assert!(in_period.count() <= most);
            }
            let longest = steps.iter().copied().max().unwrap_or(0);
            if longest * MICROS <= its.longest_delay() {
                let tokens = end as f64 * f64::from(jobs) / (per as i64 + longest) as f64;
                prop_assert!(claimed.len() as f64 >= tokens - 1.0, "{} of {tokens}", claimed.len());
            }
        }
    }
}
