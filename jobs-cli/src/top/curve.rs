//! The rate of the last two minutes: how many runs ended in each second.
//!
//! Ground rules:
//!
//! - The history of a queue counts each end in the commit in which it happens. So the difference of two readings is
//!   exact.
//! - Before the first two readings there are only the averages of whole minutes. The curve shows these, and the
//!   rate of the last seconds leaves them out.

use std::collections::VecDeque;
use std::time::Duration;

use tickwheel_jobs::view::{HistoryRow, Time};

pub(crate) const SHOWN: Duration = Duration::from_secs(120);
/// The rate of the head is an average of this time.
const LATELY: Duration = Duration::from_secs(10);
/// Readings that are closer to each other say nothing about a rate.
const SHORTEST: Duration = Duration::from_millis(100);
const MINUTE: Duration = Duration::from_secs(60);

/// The readings of two minutes.
#[derive(Default)]
pub(crate) struct Curve {
    samples: VecDeque<Sample>,
    last: Option<(Time, Vec<HistoryRow>)>,
}

#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) struct Sample {
    from: Time,
    to: Time,
    pub(crate) completed: f64,
    pub(crate) failed: f64,
    is_average: bool,
}

impl Sample {
    fn of(from: Time, to: Time, completed: u64, failed: u64, is_average: bool) -> Sample {
        let seconds = to.since(from).as_secs_f64();
        #[expect(clippy::cast_precision_loss, reason = "a rate is rounded in any case")]
        let per_second = |events: u64| (events as f64 / seconds * 1000.0).round() / 1000.0;
        let (completed, failed) = (per_second(completed), per_second(failed));
        Sample { from, to, completed, failed, is_average }
    }
}

impl Curve {
    pub(crate) fn add(&mut self, time: Time, minutes: &[HistoryRow]) {
        match &self.last {
            Some((last, _)) if time >= *last && time.since(*last) < SHORTEST => return,
            // The last reading is older than the minutes of this one, or the clock was set back.
            Some((last, _)) if time < *last || time.since(*last) > MINUTE => {
                self.begin(time, minutes)
            }
            Some((last, before)) => {
                let (mut completed, mut failed) = (0, 0);
                for minute in minutes {
                    let old = before.iter().find(|old| old.begin == minute.begin);
                    let old = old.map_or((0, 0), |old| (old.completed, old.failed));
                    completed += minute.completed.saturating_sub(old.0);
                    failed += minute.failed.saturating_sub(old.1);
                }
                self.samples.push_back(Sample::of(*last, time, completed, failed, false));
            }
            None => self.begin(time, minutes),
        }
        self.samples.retain(|sample| time.since(sample.to) <= SHOWN);
        self.last = Some((time, minutes.to_vec()));
    }

    /// Begins with the averages of the minutes.
    fn begin(&mut self, time: Time, minutes: &[HistoryRow]) {
        self.samples.clear();
        for minute in minutes {
            let end = Time::from(minute.begin.to_system() + MINUTE).min(time);
            if end.since(minute.begin) >= SHORTEST {
                let sample = Sample::of(minute.begin, end, minute.completed, minute.failed, true);
                self.samples.push_back(sample);
            }
        }
    }

    /// Returns how many runs completed and failed a second in the last seconds. `None`: there was only one reading.
    pub(crate) fn lately(&self) -> Option<(f64, f64)> {
        let end = self.last.as_ref()?.0;
        let lately = self
            .samples
            .iter()
            .filter(|sample| !sample.is_average && end.since(sample.from) <= LATELY);
        let (mut seconds, mut completed, mut failed) = (0.0, 0.0, 0.0);
        for sample in lately {
            let length = sample.to.since(sample.from).as_secs_f64();
            seconds += length;
            completed += sample.completed * length;
            failed += sample.failed * length;
        }
        let round = |sum: f64| (sum / seconds * 1000.0).round() / 1000.0;
        (seconds > 0.0).then(|| (round(completed), round(failed)))
    }

    pub(crate) fn points(&self, points: usize) -> Vec<Option<Sample>> {
        let Some((end, _)) = &self.last else { return vec![None; points] };
        let of_point = |point: usize| {
            #[expect(clippy::cast_precision_loss, reason = "a screen has few columns")]
            let back = SHOWN.mul_f64((points - point) as f64 / points as f64 - 0.5 / points as f64);
            let at = Time::from(end.to_system() - back);
            self.samples.iter().find(|sample| sample.from <= at && at < sample.to).copied()
        };
        (0..points).map(of_point).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: f64) -> Time {
        Time::from(std::time::SystemTime::UNIX_EPOCH + Duration::from_secs_f64(seconds))
    }

    fn minute(begin: f64, completed: u64, failed: u64) -> HistoryRow {
        let mut minute = HistoryRow::default();
        (minute.begin, minute.completed, minute.failed) = (at(begin), completed, failed);
        minute
    }

    /// The rate between two readings is exact, also across the end of a minute.
    #[test]
    fn rate_between_readings_is_exact_across_a_minute() {
        let mut curve = Curve::default();
        curve.add(at(659.0), &[minute(540.0, 60, 0), minute(600.0, 100, 10)]);
        assert_eq!(curve.lately(), None);
        curve.add(at(661.0), &[minute(600.0, 104, 10), minute(660.0, 6, 2)]);
        assert_eq!(curve.lately(), Some((5.0, 1.0)));
        let points = curve.points(120);
        // The minute before has its average.
        assert_eq!(points[10].map(|sample| sample.completed), Some(1.0));
        assert_eq!(points[119].map(|sample| sample.completed), Some(5.0));
        // A reading that comes too soon changes nothing.
        curve.add(at(661.01), &[minute(660.0, 1000, 2)]);
        assert_eq!(curve.lately(), Some((5.0, 1.0)));
        // Nor does a second reading at the same time.
        curve.add(at(661.0), &[minute(660.0, 1000, 2)]);
        assert_eq!(curve.lately(), Some((5.0, 1.0)));
        // A long pause ends the rate. The next reading begins a new one.
        curve.add(at(1000.0), &[minute(960.0, 7, 0)]);
        assert_eq!(curve.lately(), None);
        // So does a clock that was set back.
        curve.add(at(999.0), &[minute(960.0, 7, 0)]);
        assert_eq!(curve.lately(), None);
    }
}
