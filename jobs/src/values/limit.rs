//! A limit: how many jobs of a scope run at once, how often they start, and how often a partition has its turn.
//!
//! Ground rules of limits:
//!
//! - A limit is a value. `store/lanes.rs` says how it works, and `stored_limits.rs` under which name it is stored.
//! - A limit of zero is refused: to run nothing, pause the scope.
//! - A store keeps a limit as JSON. A later version may add fields, and a reader ignores those that it does not know.
//!
//! Ground rules of rates, and of the tokens that are left of one:
//!
//! - A claim takes a token of each scope with a rate. A claim that is given back does not give its token back. If the
//!   job is too old, its claim takes no token, because no handler is called.
//! - The tokens of a rate lie on a line, one behind the other by `per / jobs`. The next claim may come at the next
//!   token, and earlier by the burst. This is the virtual scheduling of GCRA (ITU-T I.371), with one difference.
//! - GCRA moves the line by each delay of a claim, and a claim is nearly always some microseconds late. Here a small
//!   delay does not move it. Instead, after each `jobs` tokens, the line moves by the longest delay among them. So two
//!   claims with `jobs` claims between the first and the second are at least `per` apart: the second is not before its
//!   token, which is later than that of the first by `per` and by the delay of the first. A longer delay begins the
//!   line anew.
//! - So in any period `per`, at most `jobs + burst - 1` claims take a token. A scope that always has a due job loses at
//!   most the longest delay of each period.
//! - Programs may disagree about the rate of a scope: two versions of one, or one that is started with other numbers.
//!   Each rate has a line of its own, every claim takes a token of each line, and a claim waits for the line of its own
//!   rate alone. So each rate holds for the claims of its program, counting those of all. A line that is new begins
//!   with what is used up of the others: as many tokens, and at most a period.
//! - `store/redis/scripts/limits.lua` has the same rules, and keeps the same text.

use core::fmt;
use core::time::Duration;

use serde::{Deserialize, Serialize};

use super::invalid_input::InvalidInput;
use super::time::{Millis, in_words};

/// How many jobs may start in a period, and how many at once after a quiet time.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) struct Rate {
    pub(crate) jobs: u32,
    /// In milliseconds.
    pub(crate) per: u64,
    pub(crate) burst: u32,
}

/// The tokens of a scope with a rate: a line for each rate that its claims follow, the one of the latest claim first.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Tokens {
    lines: Vec<TokenLine>,
}

/// The tokens by one rate. Times are in microseconds.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct TokenLine {
    rate: Rate,
    /// The time of the next token.
    next: i64,
    /// How many tokens were taken since the line last moved, and the longest delay of a claim among them.
    taken: u32,
    delay: i64,
}

/// How many rates of a scope have a line at once. Versions of a program may give a scope different rates: this many.
const LINES: usize = 4;

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

impl TokenLine {
    fn new(rate: Rate, next: i64) -> TokenLine {
        TokenLine { rate, next, taken: 0, delay: 0 }
    }

    /// Takes the next token, for a claim at this time.
    fn take(&mut self, now: i64) {
        let delay = now.saturating_sub(self.next).max(0);
        if delay > self.rate.longest_delay() {
            *self = TokenLine::new(self.rate, now);
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

    /// The latest that the next token is, after any claims: then the burst is used up, and a period has no claim.
    fn latest(rate: Rate, now: i64) -> i64 {
        now.saturating_add(rate.tolerance()).saturating_add(rate.period())
    }

    /// How long the tokens that are used up of this line would take by another rate.
    fn debt(&self, rate: Rate, now: i64) -> i64 {
        let left = i128::from(self.next.saturating_sub(now).max(0)) * i128::from(rate.spacing());
        let spacing = i128::from(self.rate.spacing().max(1));
        i64::try_from((left + spacing - 1) / spacing).unwrap_or(i64::MAX)
    }

    /// The latest that the next token is after claims of this rate alone.
    fn farthest(&self, now: i64) -> i64 {
        let TokenLine { rate, .. } = self;
        let own = now.saturating_add(rate.tolerance()).saturating_add(rate.spacing());
        own.saturating_add(rate.longest_delay())
    }

    fn is_past(&self, now: i64) -> bool {
        self.next.saturating_add(self.rate.longest_delay()) < now
    }
}

impl Tokens {
    /// Returns the tokens of a scope from which no claim has taken one.
    pub(crate) fn new(rate: Rate, now: Millis) -> Tokens {
        Tokens { lines: vec![TokenLine::new(rate, micros(now))] }
    }

    /// Lets the next claims follow this rate, and notices a clock that was set back: then the next token comes after
    /// one spacing, and with several lines after a period and the burst at the latest.
    pub(crate) fn follow(&mut self, rate: Rate, now: Millis) {
        let now = micros(now);
        match self.lines.iter().position(|line| line.rate == rate) {
            Some(0) => {}
            Some(at) => self.lines[..=at].rotate_right(1),
            None => {
                let debt = self.lines.iter().map(|line| line.debt(rate, now)).max().unwrap_or(0);
                let next = now.saturating_add(debt).min(TokenLine::latest(rate, now));
                self.lines.insert(0, TokenLine::new(rate, next));
            }
        }
        // As long as the debt of another rate lasts, one other line stays: the clock was not set back.
        let has_debt = self.lines.first().is_some_and(|line| line.next > line.farthest(now));
        let mut at = 0;
        self.lines.retain(|line| {
            at += 1;
            at == 1 || at <= LINES && (!line.is_past(now) || has_debt && at == 2)
        });
        let is_alone = self.lines.len() == 1;
        for line in &mut self.lines {
            let rate = line.rate;
            let latest = TokenLine::latest(rate, now).saturating_add(rate.longest_delay());
            if line.next > if is_alone { line.farthest(now) } else { latest } {
                *line = TokenLine::new(rate, now.saturating_add(rate.spacing()));
            }
        }
    }

    /// Returns the first time at which a claim may take the next token.
    pub(crate) fn next(&self) -> Millis {
        let Some(TokenLine { next, rate, .. }) = self.lines.first() else { return Millis::ZERO };
        let next = next.saturating_sub(rate.tolerance());
        let whole = next.div_euclid(MICROS);
        Millis::clamped(if next.rem_euclid(MICROS) > 0 { whole + 1 } else { whole })
    }

    /// Takes the next token of each line, for a claim at this time.
    pub(crate) fn take(&mut self, now: Millis) {
        let now = micros(now);
        for (at, line) in self.lines.iter_mut().enumerate() {
            line.take(now);
            if at > 0 {
                line.next = line.next.min(TokenLine::latest(line.rate, now));
            }
        }
    }

    /// Says whether the scope is as if no claim had taken a token.
    pub(crate) fn is_past(&self, now: Millis) -> bool {
        self.lines.iter().all(|line| line.is_past(micros(now)))
    }

    /// Returns the text that a store keeps: six numbers for each line.
    pub(crate) fn to_text(&self) -> String {
        let text = |line: &TokenLine| {
            let TokenLine { rate: Rate { jobs, per, burst }, next, taken, delay } = line;
            format!("{next} {taken} {delay} {jobs} {per} {burst}")
        };
        self.lines.iter().map(text).collect::<Vec<_>>().join(" ")
    }

    /// Reads the text that a store has kept.
    pub(crate) fn from_text(text: &str) -> Option<Tokens> {
        let words: Vec<&str> = text.split(' ').collect();
        let line = |words: &[&str]| {
            let [next, taken, delay, jobs, per, burst] = words else { return None };
            let rate = Rate {
                jobs: jobs.parse().ok()?,
                per: per.parse().ok()?,
                burst: burst.parse().ok()?,
            };
            let (taken, delay) = (taken.parse().ok()?, delay.parse().ok()?);
            Some(TokenLine { rate, next: next.parse().ok()?, taken, delay })
        };
        Some(Tokens { lines: words.chunks(6).map(line).collect::<Option<_>>()? })
    }
}

fn micros(time: Millis) -> i64 {
    time.get().saturating_mul(MICROS)
}

/// How many jobs of a scope may run at once, how often they may start, and the weight of a partition. A scope is the
/// queue ([`Queue::limit`](crate::Queue::limit)), a flow ([`Kind::limit`](crate::Kind::limit)), each partition of a
/// kind ([`Kind::limit_each`](crate::Kind::limit_each)), or one of them
/// ([`Partition::limit`](crate::Partition::limit)).
///
/// ```
/// use tickwheel_jobs::Limit;
///
/// # use std::time::Duration;
/// let two_at_once = Limit::running(2);
/// let at_most_100_a_minute = Limit::none().rate(100, Duration::from_secs(60));
/// let both = Limit::running(2).rate(100, Duration::from_secs(60)).burst(10);
/// let thrice_the_turns = Limit::none().weight(3);
/// # drop((two_at_once, at_most_100_a_minute, both, thrice_the_turns));
/// ```
#[must_use = "a limit has an effect once it is given to a scope"]
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default, Serialize, Deserialize)]
pub struct Limit {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) running: Option<u32>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    rate: Option<u32>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    per_ms: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    burst: Option<u32>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) weight: Option<u32>,
}

/// The greatest weight.
const MOST_WEIGHT: u32 = 1000;
/// The longest period of a rate.
const LONGEST_PERIOD: Duration = Duration::from_secs(366 * 24 * 3600);
const MOST_BURST: u32 = 1_000_000;
/// How many scopes of a queue may have a limit, because each process reads all of them.
pub(crate) const MOST_SCOPES: usize = 10_000;

impl Limit {
    /// Lets at most `jobs` jobs of the scope run at once, on all machines together. A claimed job counts from its claim
    /// to its end.
    #[doc(alias("concurrency", "max_in_flight", "global_limit"))]
    pub const fn running(jobs: u32) -> Limit {
        Limit { running: Some(jobs), ..Limit::none() }
    }

    /// Limits nothing: it removes the limit of the scope.
    pub const fn none() -> Limit {
        Limit { running: None, rate: None, per_ms: None, burst: None, weight: None }
    }

    /// Lets at most `jobs` jobs of the scope start in any period of this length, on all machines together. A job starts
    /// when a process claims it. A claim that is given back, because its process ends or the job was cancelled, counts
    /// as well.
    ///
    /// The starts are spread over the period. So the first hour of `rate(60, HOUR)` has one job a minute, and not 60
    /// jobs at once: for that, see [`Limit::burst`]. After a delay some starts follow each other closely, but never
    /// more than
    /// `jobs` in a period. `rate(1, SECOND)` has a second between two starts, where `rate(60, MINUTE)` may have less.
    ///
    /// The period is rounded up to a millisecond. It is at most 366 days.
    #[doc(alias("throttle", "rate_limit", "tokens"))]
    pub const fn rate(self, jobs: u32, per: Duration) -> Limit {
        let per_ms = per.as_millis() + !per.subsec_nanos().is_multiple_of(1_000_000) as u128;
        let per_ms = if per_ms > u64::MAX as u128 { u64::MAX } else { per_ms as u64 };
        Limit { rate: Some(jobs), per_ms: Some(per_ms), ..self }
    }

    /// Lets `jobs` jobs start at once after a quiet time. With [`Limit::rate`] of n, at most n + `jobs` - 1 jobs start
    /// in any period. The default is 1, the most is 1,000,000. A burst is refused if the rate would need more than a
    /// thousand years to start as many jobs.
    pub const fn burst(self, jobs: u32) -> Limit {
        Limit { burst: Some(jobs), ..self }
    }

    /// Gives the partition `weight` turns where others have one. The default is 1, the most is 1000.
    #[doc(alias("priority", "share"))]
    pub const fn weight(self, weight: u32) -> Limit {
        Limit { weight: Some(weight), ..self }
    }

    /// Returns how many jobs may run at once, if that is limited: what [`Limit::running`] was given.
    #[must_use]
    pub const fn most_running(self) -> Option<u32> {
        self.running
    }

    /// Returns how many jobs may start in which period, if that is limited: what [`Limit::rate`] was given.
    #[must_use]
    pub fn start_rate(self) -> Option<(u32, Duration)> {
        Some((self.rate?, Duration::from_millis(self.per_ms?)))
    }

    /// Returns how many jobs may start at once, if it was set: what [`Limit::burst`] was given.
    #[must_use]
    pub const fn start_burst(self) -> Option<u32> {
        self.burst
    }

    /// Returns the weight, if it was set: what [`Limit::weight`] was given.
    #[must_use]
    pub const fn turn_weight(self) -> Option<u32> {
        self.weight
    }

    /// Says whether the limit limits nothing.
    pub(crate) fn is_none(self) -> bool {
        self == Limit::none()
    }

    /// Returns the rate, if the limit has one.
    pub(crate) fn tokens(self) -> Option<Rate> {
        let (jobs, per) = (self.rate?, self.per_ms?);
        Some(Rate { jobs, per, burst: self.burst.unwrap_or(1) })
    }

    /// Returns the limit if it is valid. `has_turns`: its scope is a partition.
    #[doc(hidden)]
    pub fn checked(self, has_turns: bool) -> Result<Limit, InvalidInput> {
        let longest = LONGEST_PERIOD.as_millis();
        match (self.running, self.rate, self.per_ms, self.burst, self.weight) {
            (Some(0), ..) | (_, Some(0), ..) => Err(InvalidInput::ZeroLimit),
            (_, Some(_), Some(per), ..) if per == 0 || u128::from(per) > longest => {
                Err(InvalidInput::RatePeriod(Duration::from_millis(per)))
            }
            (_, Some(_), None, ..) => Err(InvalidInput::RatePeriod(Duration::ZERO)),
            (_, None, _, Some(_), _) => Err(InvalidInput::BurstWithoutRate),
            (_, rate, per, Some(burst), _) if !is_burst(burst, rate, per) => {
                Err(InvalidInput::Burst(burst))
            }
            (.., Some(_)) if !has_turns => Err(InvalidInput::WeightWithoutPartition),
            (.., Some(weight)) if weight == 0 || weight > MOST_WEIGHT => {
                Err(InvalidInput::Weight(weight))
            }
            _ => Ok(self),
        }
    }

    /// Returns this limit. A number, a rate or a weight that it does not set is taken from the other limit.
    pub(crate) fn or(self, other: Limit) -> Limit {
        let Limit { rate, per_ms, burst, .. } = if self.rate.is_some() { self } else { other };
        let (running, weight) = (self.running.or(other.running), self.weight.or(other.weight));
        Limit { running, rate, per_ms, burst, weight }
    }

    /// Returns the text that a store keeps.
    #[cfg(any(feature = "redis", test))]
    pub(crate) fn to_text(self) -> String {
        serde_json::to_string(&self).unwrap_or_default()
    }

    /// Reads the text that a store has kept. A text that cannot be read is no limit.
    pub(crate) fn from_text(text: &str) -> Option<Limit> {
        let limit: Limit = serde_json::from_str(text).ok()?;
        limit.checked(true).ok().filter(|limit| !limit.is_none())
    }
}

/// The limit in words: `at most 2 run at once, at most 100 start in 1 m, 10 of them at once, weight 3`.
impl fmt::Display for Limit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let rate = self
            .start_rate()
            .map(|(jobs, per)| format!("at most {jobs} start in {}", in_words(per)));
        let parts = [
            self.running.map(|jobs| format!("at most {jobs} run at once")),
            rate,
            self.burst.map(|jobs| format!("{jobs} of them at once")),
            self.weight.map(|weight| format!("weight {weight}")),
        ];
        let parts: Vec<String> = parts.into_iter().flatten().collect();
        f.write_str(if parts.is_empty() { "no limit" } else { "" })?;
        f.write_str(&parts.join(", "))
    }
}

/// The stored limit of a scope. The text of an operator's limit has one field more than that of any other limit, so a
/// process reads it as any other.
#[doc(hidden)]
#[non_exhaustive]
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug, Serialize, Deserialize)]
pub struct StoredLimit {
    /// The limit that is in force.
    #[serde(flatten)]
    pub limit: Limit,
    /// If an operator has set the limit: the limit that comes back when it is lifted.
    #[serde(rename = "by_hand", default, skip_serializing_if = "Option::is_none")]
    pub before: Option<Limit>,
}

impl StoredLimit {
    /// Reads the text that a store has kept. A text that cannot be read is no limit.
    pub(crate) fn from_text(text: &str) -> StoredLimit {
        let Some(limit) = Limit::from_text(text) else { return StoredLimit::default() };
        serde_json::from_str(text).unwrap_or(StoredLimit { limit, before: None })
    }

    /// Returns the text that a store keeps, if it keeps one.
    pub(crate) fn to_text(self) -> Option<String> {
        let is_kept = self.before.is_some() || !self.limit.is_none();
        is_kept.then(|| serde_json::to_string(&self).unwrap_or_default())
    }

    /// Returns it with the limit that a program sets. An operator's limit stays in force, and the program's limit comes
    /// after it.
    pub(crate) fn of_program(self, limit: Limit) -> StoredLimit {
        match self.before {
            Some(_) => StoredLimit { before: Some(limit), ..self },
            None => StoredLimit { limit, before: None },
        }
    }

    /// Returns it with the limit that an operator sets.
    #[must_use]
    pub fn by_hand(self, limit: Limit) -> StoredLimit {
        StoredLimit { limit, before: Some(self.before.unwrap_or(self.limit)) }
    }

    /// Returns it without the operator's limit. If there is none, returns it without the program's limit.
    #[must_use]
    pub fn lifted(self) -> StoredLimit {
        StoredLimit { limit: self.before.unwrap_or_default(), before: None }
    }
}

/// Says whether a burst is valid. So many starts later than now, all times are numbers that a store can keep.
fn is_burst(burst: u32, rate: Option<u32>, per_ms: Option<u64>) -> bool {
    let spacing = u128::from(per_ms.unwrap_or(0)).div_ceil(u128::from(rate.unwrap_or(1).max(1)));
    let longest = 1000 * LONGEST_PERIOD.as_millis();
    (1..=MOST_BURST).contains(&burst) && spacing * u128::from(burst) <= longest
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

    /// P24: Claims that come in time are evenly spaced. A burst comes first.
    #[test]
    fn tokens_are_evenly_spaced() {
        assert_eq!(claims(rate(10, 1000, 1), 0..500), [0, 100, 200, 300, 400]);
        assert_eq!(claims(rate(10, 1000, 3), 0..300), [0, 0, 0, 100, 200]);
        assert_eq!(claims(rate(1, 1000, 1), 0..4000), [0, 1000, 2000, 3000]);
        assert_eq!(claims(rate(3, 1000, 1), 0..1100), [0, 334, 667, 1001]);
    }

    /// P24: More tokens than milliseconds come several at a time.
    #[test]
    fn rate_may_be_above_one_a_millisecond() {
        let many = claims(rate(5000, 1000, 1), 0..10_000).len();
        assert!((49_950..=50_000).contains(&many), "{many}");
        // A claim is up to a millisecond late, which is a whole period here.
        let many = claims(rate(50, 1, 1), 0..100).len();
        assert!((2450..=2501).contains(&many), "{many}");
    }

    /// P24: A new rate holds from the next claim on, also if the old one would wait for a day.
    #[test]
    fn another_rate_holds_at_once() {
        let day = rate(1, 86_400_000, 1);
        let mut tokens = Tokens::new(day, at(0));
        tokens.take(at(0));
        assert_eq!(tokens.next(), at(86_400_000));
        tokens.follow(rate(10, 1000, 1), at(50));
        assert_eq!(tokens.next(), at(150));
    }

    /// P24: After the clock was set back by an hour, the next token comes after one spacing.
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

        /// P24: In any period, at most `jobs + burst - 1` claims take a token, at any times. With a due job at all
        /// times a period loses no more than its longest delay.
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

    /// A limit is read back unchanged, also by a version that does not know all of it.
    #[test]
    fn limit_is_read_back() {
        let a_minute = Limit::none().rate(100, Duration::from_secs(60));
        assert_eq!(a_minute.burst(7).start_rate(), Some((100, Duration::from_secs(60))));
        assert_eq!(a_minute.burst(7).start_burst(), Some(7));
        for limit in [
            Limit::running(1),
            Limit::running(u32::MAX).weight(7),
            Limit::none().weight(2),
            a_minute,
            a_minute.burst(7),
        ] {
            assert_eq!(Limit::from_text(&limit.to_text()), Some(limit));
            let of_program = StoredLimit { limit, before: None };
            assert_eq!(of_program.to_text(), Some(limit.to_text()));
            for before in [None, Some(Limit::none()), Some(a_minute)] {
                let stored = StoredLimit { limit, before };
                let text = stored.to_text().unwrap();
                assert_eq!(StoredLimit::from_text(&text), stored);
                assert_eq!(Limit::from_text(&text), Some(limit));
            }
        }
        let words = "at most 5 run at once, at most 100 start in 1 m, 7 of them at once";
        let all = Limit::running(5).rate(100, Duration::from_secs(60)).burst(7);
        assert_eq!((all.to_string(), Limit::none().to_string()), (words.into(), "no limit".into()));
        let both = Limit::running(5).weight(3);
        assert_eq!((both.most_running(), both.turn_weight()), (Some(5), Some(3)));
        assert_eq!((Limit::none().most_running(), Limit::none().turn_weight()), (None, None));
        assert_eq!(Limit::from_text("{\"running\":3,\"later\":{}}"), Some(Limit::running(3)));
        for wrong in ["", "7", "{}", "{\"running\":0}", "{\"running\":-1}", "{\"weight\":1001}"] {
            assert_eq!(Limit::from_text(wrong), None, "{wrong}");
        }
    }
}
