//! The figures of the history: how often each event happened, and how late and how long runs were.
//!
//! `scripts/history.lua` has the same numbers and the same bytes, in any order of the figures.

use std::time::Duration;

use super::ended::End;
use crate::values::buckets::Buckets;
use crate::values::history::HistoryEntry;

const BUCKETS: usize = Buckets::BOUNDS.len() + 1;

/// The events that are counted. In [`Figures`] the buckets of lateness follow them, and then those of run time.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Figure {
    Inserted,
    Completed,
    Retried,
    Snoozed,
    Dead,
    Cancelled,
    Interrupted,
}

impl Figure {
    /// Returns the figure that counts a run which ends so.
    pub(crate) fn of(end: &End) -> Figure {
        match end {
            End::Completed => Figure::Completed,
            End::Cancelled => Figure::Cancelled,
            End::Retry { .. } => Figure::Retried,
            End::Snoozed { .. } => Figure::Snoozed,
            End::Dead { .. } => Figure::Dead,
        }
    }
}

pub(super) const EVENTS: usize = Figure::Interrupted as usize + 1;
const FIGURES: usize = EVENTS + 2 * BUCKETS;

/// In which buckets a run is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct RunBuckets {
    pub(crate) late: u8,
    pub(crate) took: u8,
}

impl RunBuckets {
    pub(crate) fn of(late: Duration, took: Duration) -> RunBuckets {
        let bucket = |duration| Buckets::bucket(duration) as u8;
        RunBuckets { late: bucket(late), took: bucket(took) }
    }
}

/// The figures of a kind and a time.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Figures(pub(super) [u64; FIGURES]);

impl Default for Figures {
    fn default() -> Figures {
        Figures([0; FIGURES])
    }
}

impl Figures {
    pub(crate) fn add(&mut self, figure: Figure) {
        self.0[figure as usize] += 1;
    }

    /// Counts a run that ended.
    pub(crate) fn add_run(&mut self, figure: Figure, run: RunBuckets) {
        self.add(figure);
        let bucket = |at: u8| usize::from(at).min(BUCKETS - 1);
        self.0[EVENTS + bucket(run.late)] += 1;
        self.0[EVENTS + BUCKETS + bucket(run.took)] += 1;
    }

    pub(crate) fn merge(&mut self, other: &Figures) {
        for (sum, by) in self.0.iter_mut().zip(other.0) {
            *sum = sum.saturating_add(by);
        }
    }

    pub(crate) fn add_to(&self, entry: &mut HistoryEntry) {
        let mut figures = self.0.into_iter();
        let events = [
            &mut entry.inserted,
            &mut entry.completed,
            &mut entry.retried,
            &mut entry.snoozed,
            &mut entry.dead,
            &mut entry.cancelled,
            &mut entry.interrupted,
        ];
        let buckets = entry.lateness.iter_mut().chain(&mut entry.run_time);
        for (sum, by) in events.into_iter().chain(buckets).zip(&mut figures) {
            *sum = sum.saturating_add(by);
        }
    }

    /// Returns the figures as bytes: for each that is not zero, its number and its value, seven bits a byte.
    pub(super) fn to_bytes(&self) -> Vec<u8> {
        let mut bytes = Vec::new();
        for (n, figure) in (0..).zip(self.0).filter(|(_, figure)| *figure > 0) {
            bytes.push(n);
            let mut rest = figure;
            while rest >= 0x80 {
                bytes.push(rest as u8 | 0x80);
                rest >>= 7;
            }
            bytes.push(rest as u8);
        }
        bytes
    }

    pub(super) fn from_bytes(mut bytes: &[u8]) -> Figures {
        let mut figures = Figures::default();
        while let [n, rest @ ..] = bytes {
            let (mut figure, mut shift, mut read) = (0_u64, 0, 0);
            for byte in rest {
                read += 1;
                figure |= u64::from(byte & 0x7f).checked_shl(shift).unwrap_or(0);
                shift += 7;
                if byte & 0x80 == 0 {
                    break;
                }
            }
            bytes = &rest[read..];
            if let Some(known) = figures.0.get_mut(usize::from(*n)) {
                *known = known.saturating_add(figure);
            }
        }
        figures
    }
}

/// The figures that a transaction adds, by kind.
#[derive(Debug)]
pub(crate) struct Noted<K> {
    /// The program wants a history.
    pub(crate) is_on: bool,
    by_kind: Vec<(K, Figures)>,
}

impl<K> Default for Noted<K> {
    fn default() -> Noted<K> {
        Noted { is_on: false, by_kind: Vec::new() }
    }
}

impl<K: PartialEq + Clone> Noted<K> {
    pub(crate) fn new(is_on: bool) -> Noted<K> {
        Noted { is_on, by_kind: Vec::new() }
    }

    /// Counts an event of a kind.
    pub(crate) fn note(&mut self, kind: &K, figure: Figure) {
        if self.is_on {
            self.of(kind).add(figure);
        }
    }

    /// Counts the end of a run of a kind.
    pub(crate) fn note_run(&mut self, kind: &K, figure: Figure, run: Option<RunBuckets>) {
        if let Some(run) = run.filter(|_| self.is_on) {
            self.of(kind).add_run(figure, run);
        }
    }

    fn of(&mut self, kind: &K) -> &mut Figures {
        let at = self.by_kind.iter().position(|(known, _)| known == kind);
        let at = at.unwrap_or_else(|| {
            self.by_kind.push((kind.clone(), Figures::default()));
            self.by_kind.len() - 1
        });
        &mut self.by_kind[at].1
    }

    /// Takes out what was noted.
    pub(crate) fn take(&mut self) -> Vec<(K, Figures)> {
        core::mem::take(&mut self.by_kind)
    }
}
