//! The geometry: the number of rings, and of slots in each.
//!
//! The slots of the innermost ring are one tick wide. A slot of any other ring is as wide as one
//! whole cycle of the ring inside it. This is [`Geometry::default`]:
//!
//! | level | slots | a slot is (ticks) | the ring covers (ticks) | at 1 ms a tick |
//! | --- | --- | --- | --- | --- |
//! | 0 | 256 | 1 | 256 | 256 ms |
//! | 1 | 256 | 256 | 65,536 | 65.5 s |
//! | 2 | 256 | 65,536 | 16,777,216 | 4.66 h |
//! | 3 | 256 | 16,777,216 | 4,294,967,296 | 49.7 days |
//!
//! A timer beyond the outermost ring waits in it with a cycle count above zero. A geometry of one
//! level is therefore the classic ring, in which every delay past the first cycle has a count.

use core::time::Duration;

use crate::values::error::GeometryError;
use crate::values::time::Span;

/// The sizes of the rings of a [`Hierarchy`](crate::Hierarchy), innermost first.
///
/// Any sizes work. Powers of two turn divisions into shifts; around 256 slots a level was the best
/// compromise between cascades and cache misses (`docs/performance.md`).
///
/// ```
/// use tickwheel::{Geometry, Span};
/// assert_eq!(Geometry::default().sizes(), [256, 256, 256, 256]);
/// assert_eq!(Geometry::default().range(), Span::new(4_294_967_296));
/// let hour_of_seconds = Geometry::ring(3600)?;
/// assert_eq!(hour_of_seconds.range(), Span::new(3600));
/// let like_a_clock = Geometry::levels(&[60, 60, 24])?;
/// assert_eq!(like_a_clock.range(), Span::new(86_400));
/// # Ok::<(), tickwheel::GeometryError>(())
/// ```
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Geometry {
    sizes: Vec<usize>,
    range: Span,
}

impl Geometry {
    /// The most slots that all levels may have together: 2^24, which take half a gigabyte empty.
    /// Every shard of a [`Wheel`](crate::Wheel) has slots of its own.
    pub const MAX_SLOTS: usize = 1 << 24;

    /// One ring of `slots` slots, each a tick wide: the hashed wheel with cycle counts (scheme 6 of
    /// Varghese and Lauck, 1987).
    ///
    /// An empty slot takes 32 bytes, and **every shard of a wheel has all the slots**: a ring of
    /// 86,400 slots with 64 shards takes 177 MB. A wheel has fewer shards for long rings unless you
    /// choose their number ([`Builder::shards`](crate::Builder::shards)). Levels reach as far with
    /// fewer slots: `Geometry::levels(&[60, 60, 24])` has 144 for the same day, and a timer that
    /// moves from level to level does so twice at most.
    ///
    /// # Errors
    ///
    /// [`GeometryError`] for no slots, or more than [`Geometry::MAX_SLOTS`].
    pub fn ring(slots: usize) -> Result<Geometry, GeometryError> {
        Geometry::levels(&[slots])
    }

    /// Rings of these sizes, innermost first (scheme 7 of Varghese and Lauck, 1987; the outermost
    /// ring keeps cycle counts as in scheme 6).
    ///
    /// # Errors
    ///
    /// [`GeometryError`] for an empty list, a level without slots, more than
    /// [`Geometry::MAX_SLOTS`] together, or sizes whose product exceeds 64 bits.
    pub fn levels(sizes: &[usize]) -> Result<Geometry, GeometryError> {
        if sizes.is_empty() {
            return Err(GeometryError::NoLevels);
        }
        let (mut total, mut range) = (0_usize, 1_u64);
        for (level, &slots) in sizes.iter().enumerate() {
            if slots == 0 {
                return Err(GeometryError::NoSlots { level });
            }
            total = total.saturating_add(slots);
            if total > Geometry::MAX_SLOTS {
                return Err(GeometryError::TooManySlots { level, slots });
            }
            range = range
                .checked_mul(slots as u64)
                .ok_or(GeometryError::RangeOverflow { level, slots })?;
        }
        Ok(Geometry { sizes: sizes.to_vec(), range: Span::new(range) })
    }

    /// Returns how many slots each level has, innermost first.
    #[must_use]
    pub fn sizes(&self) -> &[usize] {
        &self.sizes
    }

    /// Returns how far ahead a timer still has a cycle count of zero: one cycle of the outermost
    /// ring.
    #[must_use]
    pub fn range(&self) -> Span {
        self.range
    }

    /// Returns [`Geometry::range`] as a time, for ticks of this length; [`Duration::MAX`] if that
    /// is too short to hold it.
    #[must_use]
    pub fn range_at(&self, tick: Duration) -> Duration {
        let nanos = u128::from(self.range.get()).saturating_mul(tick.as_nanos());
        let seconds = u64::try_from(nanos / 1_000_000_000);
        seconds.map_or(Duration::MAX, |s| Duration::new(s, (nanos % 1_000_000_000) as u32))
    }
}

impl Default for Geometry {
    /// Four levels of 256 slots: 49.7 days at a tick of a millisecond, before any cycle count.
    fn default() -> Geometry {
        Geometry { sizes: vec![256; 4], range: Span::new(1 << 32) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A geometry refuses sizes that make no sense, and its error names the level and its slots.
    #[test]
    fn sizes_that_make_no_sense_are_refused_by_name() {
        use GeometryError as E;
        let max = Geometry::MAX_SLOTS;
        assert_eq!(Geometry::levels(&[]), Err(E::NoLevels));
        assert_eq!(Geometry::ring(0), Err(E::NoSlots { level: 0 }));
        assert_eq!(Geometry::levels(&[4, 0]), Err(E::NoSlots { level: 1 }));
        for slots in [max + 1, usize::MAX] {
            assert_eq!(Geometry::ring(slots), Err(E::TooManySlots { level: 0, slots }));
        }
        assert_eq!(Geometry::levels(&[1, max]), Err(E::TooManySlots { level: 1, slots: max }));
        assert_eq!(Geometry::levels(&[256; 8]), Err(E::RangeOverflow { level: 7, slots: 256 }));
        assert!(Geometry::levels(&[256; 7]).is_ok());
    }

    /// The error for too many slots names `Geometry::MAX_SLOTS`.
    #[test]
    fn error_of_too_many_slots_names_the_limit() {
        // `values/error.rs` lies below this module and cannot name the constant.
        let error = Geometry::ring(Geometry::MAX_SLOTS + 1).unwrap_err().to_string();
        assert_eq!(1 << Geometry::MAX_SLOTS.ilog2(), Geometry::MAX_SLOTS);
        assert!(
            error.contains(&format!("more than 2^{} ", Geometry::MAX_SLOTS.ilog2())),
            "{error}"
        );
    }

    /// The default geometry is equal to four levels of 256 slots.
    #[test]
    fn default_geometry_is_four_levels_of_256() {
        assert_eq!(Geometry::levels(&[256; 4]), Ok(Geometry::default()));
    }

    /// `range_at` is slots times tick, and saturates at `Duration::MAX`.
    #[test]
    fn range_in_time_saturates() {
        let ring = Geometry::ring(3600).unwrap();
        assert_eq!(ring.range_at(Duration::from_secs(1)), Duration::from_secs(3600));
        assert_eq!(ring.range_at(Duration::from_micros(1)), Duration::from_micros(3600));
        assert_eq!(ring.range_at(Duration::MAX), Duration::MAX);
    }
}
