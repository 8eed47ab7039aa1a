//! The cause of each eviction: the client, the machine, or the wheel.
//!
//! Ground rules:
//!
//! - An eviction before the idle timeout has passed since the last heartbeat that pushed it back is
//!   always the wheel's fault. So is a reset that the wheel refused although the timer could not be
//!   due yet.
//! - On a loaded machine, a client that keeps sending may do so too late, and the server may read
//!   too late. Together they explain an eviction if the client's longest gap, and the time that the
//!   server can have taken to read, reach the idle timeout. A heartbeat that comes just after the
//!   reader has passed by is found in the next round, so that time is two of the slowest rounds.
//! - An eviction that nothing explains is the wheel's fault.

use std::time::{Duration, Instant};

use crate::clients::Sent;
use crate::server::{Seen, Served};
use crate::trial::Outcome;

#[derive(Default)]
pub(crate) struct Verdict {
    /// Evicted after they had fallen silent.
    pub(crate) silent_evicted: usize,
    /// Fell silent and were not evicted.
    pub(crate) silent_kept: usize,
    /// Evicted although neither the client nor the machine gave cause.
    pub(crate) live_evicted: usize,
    /// Evicted before their idle timeout had passed, silent or not.
    pub(crate) early: usize,
    /// Evicted because the machine was late.
    pub(crate) starved: usize,
    /// Ended by an error of a socket, and their timers cancelled.
    pub(crate) lost: usize,
    /// Timers that the shutdown handed back.
    pub(crate) unfired: usize,
    /// Timers that had neither run nor been cancelled.
    pub(crate) live: usize,
    /// How late each eviction was, in ascending order.
    pub(crate) lateness: Vec<Duration>,
}

impl Verdict {
    pub(crate) fn of(outcome: &Outcome, idle: Duration) -> Verdict {
        let lost: usize = outcome.served.iter().map(|served| served.lost).sum();
        let ended = outcome.evictions.len() + lost;
        let mut verdict = Verdict {
            lost,
            unfired: outcome.unfired,
            live: outcome.sent.len().saturating_sub(ended),
            ..Verdict::default()
        };
        let (seen, reading) = (by_id(&outcome.served), longest_reading(&outcome.served));
        let mut kept = outcome.silences.clone();
        for eviction in &outcome.evictions {
            let (id, at) = (eviction.id, eviction.at);
            let silence = kept[id].take();
            let sent = &outcome.sent[id];
            verdict.add(&Case { at, silence, seen: seen[id], sent, reading, idle });
        }
        verdict.silent_kept = kept.iter().flatten().count();
        verdict.lateness.sort_unstable();
        verdict
    }

    fn add(&mut self, case: &Case) {
        self.lateness.push(case.at.saturating_duration_since(case.seen.last + case.idle));
        self.early += usize::from(case.is_early());
        match case.cause() {
            Cause::Silence => self.silent_evicted += 1,
            Cause::Machine => self.starved += 1,
            Cause::Wheel => self.live_evicted += 1,
        }
    }

    /// Returns the requirements that did not hold.
    pub(crate) fn broken(&self) -> Vec<String> {
        let Verdict { silent_kept, live_evicted, early, unfired, live, .. } = self;
        let musts = [
            (*live_evicted == 0, format!("{live_evicted} live connections were evicted")),
            (*early == 0, format!("{early} connections were evicted early")),
            (*silent_kept == 0, format!("{silent_kept} silent connections were not evicted")),
            (unfired == live, format!("{unfired} timers were unfired, of {live} live connections")),
        ];
        musts.into_iter().filter(|(held, _)| !held).map(|(_, must)| must).collect()
    }
}

/// An eviction, and all that is known about it.
struct Case<'a> {
    at: Instant,
    /// When the client was to fall silent.
    silence: Option<Instant>,
    seen: &'a Seen,
    sent: &'a Sent,
    /// How long the server can have taken to read a heartbeat.
    reading: Duration,
    idle: Duration,
}

enum Cause {
    Silence,
    Machine,
    Wheel,
}

impl Case<'_> {
    fn cause(&self) -> Cause {
        if self.silence.is_some_and(|silence| silence <= self.at) {
            return Cause::Silence;
        }
        let explained = self.sent.longest_gap + self.reading >= self.idle;
        match explained && !self.is_early() && !self.was_refused_early() {
            true => Cause::Machine,
            false => Cause::Wheel,
        }
    }

    fn is_early(&self) -> bool {
        self.at.saturating_duration_since(self.seen.last) < self.idle
    }

    fn was_refused_early(&self) -> bool {
        self.seen.refused.is_some_and(|refused| refused < self.seen.last + self.idle)
    }
}

/// Returns the readers' records of all connections, in the order of the connections' numbers.
fn by_id(served: &[Served]) -> Vec<&Seen> {
    let mut seen: Vec<&Seen> = served.iter().flat_map(|served| &served.seen).collect();
    seen.sort_by_key(|seen| seen.id);
    seen
}

fn longest_reading(served: &[Served]) -> Duration {
    served.iter().map(|served| served.slowest_round * 2).max().unwrap_or_default()
}
