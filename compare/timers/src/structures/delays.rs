//! How far ahead deadlines lie.

use fastrand::Rng;

/// How many ticks lie between an insert and its deadline.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Delays {
    /// Anything up to [`Delays::HORIZON`].
    Uniform,
    /// At a millisecond a tick: nine of ten up to 30 s, most others up to an hour, one of a hundred
    /// up to three days.
    Long,
    /// From an hour to three days.
    Hours,
    /// From ten hours to three days.
    Later,
}

impl Delays {
    pub(crate) const HORIZON: u64 = 60_000;
    pub(crate) const HOUR: u64 = 3_600_000;

    pub(crate) fn named(name: &str) -> Result<Delays, String> {
        match name {
            "uniform" => Ok(Delays::Uniform),
            "long" => Ok(Delays::Long),
            "hours" => Ok(Delays::Hours),
            _ => Err(format!("no delays are called `{name}`")),
        }
    }

    /// The shortest of them.
    pub(crate) fn first(self) -> u64 {
        match self {
            Delays::Uniform | Delays::Long => 1,
            Delays::Hours => Delays::HOUR,
            Delays::Later => 10 * Delays::HOUR,
        }
    }

    pub(crate) fn draw(self, random: &mut Rng) -> u64 {
        match self {
            Delays::Uniform => random.u64(1..=Delays::HORIZON),
            Delays::Long => {
                let last = match random.u64(..100) {
                    0..90 => 30_000,
                    90..99 => Delays::HOUR,
                    _ => 259_000_000,
                };
                random.u64(1..=last)
            }
            Delays::Hours | Delays::Later => random.u64(self.first()..=72 * Delays::HOUR),
        }
    }
}
