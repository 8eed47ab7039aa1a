//! What the nodes say of their runs: how late, how many early, twice, or never.
//!
//! The server and all nodes are on one machine, so they read the same clock.

use std::time::{SystemTime, UNIX_EPOCH};

use harness::Fallible;
use harness::case::{Figures, figure};

/// The quantiles of lateness that are drawn.
const QUANTILES: [f64; 20] = [
    0.0, 0.01, 0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 0.98, 0.99, 0.995, 0.998,
    0.999, 0.9995, 1.0,
];

/// A run that began.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Start {
    pub(crate) number: usize,
    /// In ns since 1970.
    pub(crate) due: i64,
    pub(crate) at: i64,
}

impl Start {
    /// Reads `NUMBER DUE START`, of which the second is in µs.
    pub(crate) fn parse(line: &str) -> Option<Start> {
        let mut numbers = line.split(' ').map(|number| number.parse::<i64>().ok());
        let number = usize::try_from(numbers.next()??).ok()?;
        Some(Start { number, due: numbers.next()?? * 1000, at: numbers.next()?? })
    }

    pub(crate) fn late_ms(&self) -> f64 {
        (self.at - self.due) as f64 / 1e6
    }
}

/// What must not happen with the jobs `0..jobs`, each of which is to run once.
pub(crate) fn faults(starts: &[Start], jobs: usize) -> Figures {
    let mut runs = vec![0_usize; jobs];
    let mut strange = 0;
    for start in starts {
        match runs.get_mut(start.number) {
            Some(runs) => *runs += 1,
            None => strange += 1,
        }
    }
    let early = starts.iter().filter(|start| start.at < start.due).count();
    vec![
        figure("lost", runs.iter().filter(|runs| **runs == 0).count() as f64),
        figure("twice", runs.iter().map(|runs| runs.saturating_sub(1)).sum::<usize>() as f64),
        figure("strange", strange as f64),
        figure("early", early as f64),
    ]
}

/// How late the runs began, as quantiles.
pub(crate) fn lateness(starts: &[Start]) -> Fallible<Figures> {
    let late = sorted_lateness(starts);
    QUANTILES.iter().map(|part| Ok(figure(&format!("q{part}"), quantile(&late, *part)?))).collect()
}

pub(crate) fn sorted_lateness(starts: &[Start]) -> Vec<f64> {
    let mut late: Vec<f64> = starts.iter().map(Start::late_ms).collect();
    late.sort_by(f64::total_cmp);
    late
}

/// Returns a quantile of sorted values.
pub(crate) fn quantile(sorted: &[f64], part: f64) -> Fallible<f64> {
    let last = sorted.len().checked_sub(1).ok_or("no job ran")?;
    Ok(sorted[((last as f64) * part).round() as usize])
}

/// What the wall clock reads, in µs since 1970.
pub(crate) fn now_us() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_micros()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::{Start, faults, quantile};

    #[test]
    fn runs_are_judged() {
        let start = |number, late: i64| Start { number, due: 1000, at: 1000 + late };
        let faults = faults(&[start(0, 1), start(0, 2), start(2, -1), start(9, 0)], 3);
        let expected = [("lost", 1.0), ("twice", 1.0), ("strange", 1.0), ("early", 1.0)];
        assert!(faults.iter().map(|(name, value)| (name.as_str(), *value)).eq(expected));
    }

    #[test]
    fn lines_and_quantiles_are_read() {
        let start = Start { number: 7, due: 5000, at: 5001 };
        assert_eq!(Start::parse("7 5 5001"), Some(start));
        assert_eq!(Start::parse("7 5"), None);
        assert_eq!(quantile(&[1.0, 2.0, 3.0], 0.5), Ok(2.0));
        assert!(quantile(&[], 0.5).is_err());
    }
}
