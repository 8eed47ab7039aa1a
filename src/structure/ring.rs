//! A ring: the position of one level's cursor, the slot in which each tick lies, and when a slot is visited; and the
//! [`Geometry`]: the number of rings, and of slots in each. A ring holds no entries (`entries.rs` does), and reads the
//! slots only to learn when they are due.
//!
//! The slots of the innermost ring are one tick wide. A slot of any other ring is as wide as one whole cycle of the
//! ring inside it. This is [`Geometry::default`]:
//!
//! | level | slots | a slot is (ticks) | the ring covers (ticks) | at 1 ms a tick |
//! | --- | --- | --- | --- | --- |
//! | 0 | 256 | 1 | 256 | 256 ms |
//! | 1 | 256 | 256 | 65,536 | 65.5 s |
//! | 2 | 256 | 65,536 | 16,777,216 | 4.66 h |
//! | 3 | 256 | 16,777,216 | 4,294,967,296 | 49.7 days |
//!
//! A timer beyond the outermost ring waits in it with a cycle count above zero. A geometry of one level is therefore
//! the classic ring, in which every delay past the first cycle has a count.
//!
//! Ground rules:
//!
//! - A new entry lies at least one slot ahead of the cursor: an inner ring takes every entry that is due before the
//!   cursor moves on. One cycle ahead lies the cursor's own slot again. So the cursor passes a slot that is `ahead`
//!   slots ahead (1 or more) `(ahead - 1) / slots` times before the entry is due. Both formulas in the textbooks are a
//!   whole cycle late at an edge: `(ahead + cursor) / slots` when the slot wraps behind the cursor, `ahead / slots` for
//!   exact multiples.
//! - An entry keeps its cycle count as the number of the ring's cycle in which it is due, modulo 2^31. The ring counts
//!   its own cycles, and so counts down for all entries at once: passing a slot costs nothing, however often.
//! - A count is at most [`MAX_CYCLES`]. An entry that lies further ahead is marked [`FAR`], which is no cycle number:
//!   every visit reads its node.

use core::ops::Range;

use super::slots::Slots;
use crate::values::error::GeometryError;
use crate::values::time::{Span, Tick};

/// Cycle numbers are compared modulo 2^31. Half of that leaves a margin.
pub(super) const MAX_CYCLES: u32 = 1 << 30;

/// In place of a cycle number: the entry had more than [`MAX_CYCLES`] to wait when it was put
/// there.
pub(super) const FAR: u32 = 1 << 31;

const CYCLE_NUMBERS: u32 = FAR - 1;

/// The place of an entry: the slot, numbered through all rings, and the cycle in which it is due.
/// On an inner ring, whose entries have no cycle, `cycle` may be any number.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Spot {
    pub(super) slot: u32,
    pub(super) cycle: u32,
}

/// The width of a slot. Division by a power of two is a shift; which of the two is decided once.
#[derive(Clone, Copy, Debug)]
struct Width {
    ticks: u64,
    /// [`NO_SHIFT`] unless it is a power of two.
    shift: u8,
}

const NO_SHIFT: u8 = 64;

impl Width {
    fn new(ticks: u64) -> Width {
        let shift = if ticks.is_power_of_two() { ticks.trailing_zeros() as u8 } else { NO_SHIFT };
        Width { ticks, shift }
    }

    /// Returns how many whole slots fit into `ticks`.
    fn slots_in(self, ticks: u64) -> u64 {
        if self.shift == NO_SHIFT { ticks / self.ticks } else { ticks >> (self.shift & 63) }
    }
}

#[derive(Debug)]
pub(super) struct Ring {
    /// The number of its first slot.
    first: u32,
    slots: u32,
    width: Width,
    /// The number of ticks from `begin` for which an entry on this ring has a cycle count of zero.
    reach: u64,
    /// The last tick within reach.
    reaches_to: u64,
    /// The slot under the cursor, counted within the ring.
    cursor: u32,
    /// How many cycles the cursor has made, modulo 2^31.
    cycle: u32,
    /// The tick at which the slot under the cursor began.
    begin: u64,
    /// The tick at which this cycle began.
    cycle_begin: u64,
    /// `slots - 1` if `slots` and the width are powers of two: then the slot of a tick is some of
    /// its bits. Zero otherwise.
    mask: u32,
}

impl Ring {
    /// Returns a ring of `slots` slots of `width` ticks each. The first slot has number `first`.
    pub(super) fn new(first: u32, slots: u32, width: u64) -> Ring {
        let reach = width.saturating_mul(u64::from(slots) + 1);
        Ring {
            first,
            slots,
            width: Width::new(width),
            reach,
            reaches_to: reach - 1,
            cursor: 0,
            cycle: 0,
            begin: 0,
            cycle_begin: 0,
            mask: if slots.is_power_of_two() && width.is_power_of_two() { slots - 1 } else { 0 },
        }
    }

    /// Returns the numbers of its slots.
    pub(super) fn numbers(&self) -> Range<u32> {
        self.first..self.first + self.slots
    }

    pub(super) fn width(&self) -> u64 {
        self.width.ticks
    }

    /// Returns the slot under the cursor, the number of cycles made, and when the slot began.
    pub(super) fn position(&self) -> (u32, u32, Tick) {
        (self.cursor, self.cycle, Tick::new(self.begin))
    }

    /// Returns whether the cursor comes to the slot of `tick` within one cycle.
    #[inline]
    pub(super) fn reaches(&self, tick: Tick) -> bool {
        tick.get() <= self.reaches_to
    }

    /// Returns the slot of `tick`, which this ring reaches.
    #[inline(always)]
    pub(super) fn slot(&self, tick: Tick) -> u32 {
        if self.mask != 0 {
            self.first + ((tick.get() >> (self.width.shift & 63)) as u32 & self.mask)
        } else {
            self.slot_by_division(tick)
        }
    }

    #[inline(never)]
    fn slot_by_division(&self, tick: Tick) -> u32 {
        self.spot(tick).slot
    }

    /// Returns the spot of `tick`, which this ring reaches.
    #[inline]
    pub(super) fn spot(&self, tick: Tick) -> Spot {
        // Less than two cycles ahead, and so below 2^26.
        let index = self.width.slots_in(tick.get() - self.cycle_begin) as u32;
        // No branch: a slot behind the cursor is as likely as one ahead of it.
        let wraps = index >= self.slots;
        Spot {
            slot: self.first + index - if wraps { self.slots } else { 0 },
            cycle: self.cycle_after(u32::from(wraps)),
        }
    }

    /// Returns the spot of `tick`, however far it is. Only the outermost ring needs this.
    pub(super) fn spot_far(&self, tick: Tick) -> Spot {
        let ahead = self.width.slots_in(tick.get() - self.begin);
        let (cycles, index) = self.cycles_in(ahead);
        let near = u32::try_from(cycles).ok().filter(|&cycles| cycles <= MAX_CYCLES);
        Spot {
            slot: self.first + index,
            cycle: near.map_or(FAR, |cycles| self.cycle_after(cycles)),
        }
    }

    /// Returns when the slot of `tick` begins. `tick` does not lie before the slot under the
    /// cursor.
    pub(super) fn begin_of(&self, tick: Tick) -> Tick {
        let ahead = self.width.slots_in(tick.get() - self.begin);
        Tick::new(self.begin + ahead * self.width.ticks)
    }

    /// Returns the slot that the cursor comes to next.
    pub(super) fn next_slot(&self) -> u32 {
        self.first + if self.cursor + 1 == self.slots { 0 } else { self.cursor + 1 }
    }

    /// Returns the tick at which the cursor moves on, or [`Tick::MAX`] if there is none.
    pub(super) fn next_slot_begins(&self) -> Tick {
        Tick::new(self.begin.saturating_add(self.width.ticks))
    }

    /// Moves the ring's cursor to the slot of `tick`. Returns whether that is another slot.
    pub(super) fn move_to(&mut self, tick: Tick) -> bool {
        let ahead = self.width.slots_in(tick.get() - self.begin);
        if ahead == 0 {
            return false;
        }
        let (cycles, index) = self.cycles_in(ahead);
        self.cycle = self.cycle_after(cycles as u32);
        self.cursor = index;
        self.begin += ahead * self.width.ticks;
        self.cycle_begin = self.begin - u64::from(index) * self.width.ticks;
        self.reaches_to = self.begin.saturating_add(self.reach - 1);
        true
    }

    /// Moves the cursor of an innermost ring to `tick`, if that lies within the present cycle.
    /// Returns whether it does.
    #[inline]
    pub(super) fn step_to(&mut self, tick: Tick) -> bool {
        let index = tick.get() - self.cycle_begin;
        if index >= u64::from(self.slots) {
            return false;
        }
        self.cursor = index as u32;
        self.begin = tick.get();
        self.reaches_to = self.begin.saturating_add(self.reach - 1);
        true
    }

    /// Returns when the slot begins in which an entry with this cycle, which is not [`FAR`], is due.
    pub(super) fn begin_in(&self, slot: u32, cycle: u32) -> Tick {
        let index = slot - self.first;
        let wraps = index < self.cursor;
        let ahead = index + if wraps { self.slots } else { 0 } - self.cursor;
        let cycles = cycle.wrapping_sub(self.cycle_after(u32::from(wraps))) & CYCLE_NUMBERS;
        let ahead = u64::from(ahead) + u64::from(cycles) * u64::from(self.slots);
        Tick::new(self.begin + ahead * self.width.ticks)
    }

    /// Returns the cycle count of an entry that is due at `tick`: how many times the cursor comes
    /// to its slot before that.
    pub(super) fn cycles_before(&self, tick: Tick) -> u64 {
        let ahead = self.width.slots_in(tick.get() - self.begin);
        ahead.saturating_sub(1) / u64::from(self.slots)
    }

    /// Returns when an occupied slot has to be visited: when the first of its entries is due. A full
    /// slot has to be visited as soon as it begins, so that no timer waits for all of its entries.
    pub(super) fn visit_of(&self, slot: u32, slots: &Slots) -> Tick {
        let first_due = slots.first_due(slot);
        if !slots.is_full(slot) {
            return first_due;
        }
        let begin = self.begin_of(first_due);
        if begin.get() > self.begin { begin } else { first_due }
    }

    /// Returns when the slot under the cursor has to be visited, if that is before the cursor moves
    /// on.
    #[inline]
    pub(super) fn visit_under_cursor(&self, slots: &Slots) -> Option<Tick> {
        let slot = self.first + self.cursor;
        let visit = slots.has_entries(slot).then(|| slots.first_due(slot))?;
        (visit.get() - self.begin < self.width.ticks).then_some(visit)
    }

    /// Returns the earliest tick, after the cursor has moved on, at which a slot of this ring has to
    /// be visited.
    ///
    /// Looks at one occupied slot. If its entries have cycles to wait, looks at the next, and so
    /// on. Only the outermost ring has such slots.
    pub(super) fn next_visit(&self, slots: &Slots) -> Option<Tick> {
        let numbers = self.numbers();
        let after_cursor = self.first + self.cursor + 1;
        let mut earliest: Option<Tick> = None;
        for range in [after_cursor..numbers.end, numbers.start..after_cursor] {
            let mut from = range.start;
            while let Some(slot) = slots.first_occupied(from..range.end) {
                let visit = self.visit_of(slot, slots);
                earliest = Some(earliest.map_or(visit, |known| known.min(visit)));
                if self.reaches(visit) {
                    return earliest;
                }
                from = slot + 1;
            }
        }
        earliest
    }

    /// Returns the first tick after `tick` and before `end` at which a slot of an innermost ring is
    /// occupied, or `end`. All three lie in the present cycle, or at its end.
    #[inline]
    pub(super) fn next_work(&self, tick: Tick, end: Tick, slots: &Slots) -> Tick {
        let slot_of = |tick: Tick| self.first + (tick.get() - self.cycle_begin) as u32;
        match slots.first_occupied(slot_of(tick) + 1..slot_of(end)) {
            Some(slot) => Tick::new(self.cycle_begin + u64::from(slot - self.first)),
            None => end,
        }
    }

    /// Returns the number of the cycle that comes `cycles` after the present one.
    fn cycle_after(&self, cycles: u32) -> u32 {
        self.cycle.wrapping_add(cycles) & CYCLE_NUMBERS
    }

    /// Returns how many cycles end within the next `ahead` slots, and the slot that the cursor is
    /// at then.
    fn cycles_in(&self, ahead: u64) -> (u64, u32) {
        let from_start = u64::from(self.cursor) + ahead;
        let slots = u64::from(self.slots);
        if from_start < slots {
            // The usual case, and far cheaper than a division.
            return (0, from_start as u32);
        }
        (from_start / slots, (from_start % slots) as u32)
    }
}

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
    /// 86,400 slots with 64 shards ([`Builder::shards`](crate::Builder::shards)) takes 177 MB. Levels
    /// reach as far with fewer slots: `Geometry::levels(&[60, 60, 24])` has 144 for the same day, and
    /// a timer that moves from level to level does so twice at most.
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

    fn ring_at(slots: u32, width: u64, now: u64) -> Ring {
        let mut ring = Ring::new(0, slots, width);
        ring.move_to(Tick::new(now));
        ring
    }

    /// A tick lies in the slot whose begin is the last at or before the tick.
    #[test]
    fn tick_lies_in_the_slot_that_begins_last_before_it() {
        for (slots, width) in [(1, 1), (2, 3), (5, 1), (8, 4), (60, 60)] {
            for now in (0..40).chain([u64::MAX - 900]) {
                let ring = ring_at(slots, width, now);
                for delay in 1..200_u64 {
                    let tick = now + delay;
                    if tick / width == now / width {
                        continue;
                    }
                    let begin = Tick::new(tick / width * width);
                    let spot = ring.spot_far(Tick::new(tick));
                    assert_eq!(ring.begin_of(Tick::new(tick)), begin);
                    assert_eq!(ring.begin_in(spot.slot, spot.cycle), begin);
                    if ring.reaches(Tick::new(tick)) {
                        assert_eq!(ring.spot(Tick::new(tick)), spot);
                        assert_eq!(ring.slot(Tick::new(tick)), spot.slot);
                    }
                }
            }
        }
    }

    /// A ring reaches to the end of the cursor's own slot, one cycle on.
    #[test]
    fn ring_reaches_one_cycle_past_its_cursor() {
        let ring = ring_at(4, 10, 25);
        assert!(ring.reaches(Tick::new(69)), "the cursor's own slot, one cycle on");
        assert!(!ring.reaches(Tick::new(70)));
    }

    /// Entries have the right begin on both sides of the wrap of the cycle number.
    #[test]
    fn cycle_numbers_wrap_without_a_mistake() {
        // The ring's count is about to begin again at zero, and entries lie on both sides of that.
        let now = 4 * u64::from(FAR) - 2;
        let ring = ring_at(4, 1, now);
        for tick in (now + 1..now + 20).map(Tick::new) {
            let spot = ring.spot_far(tick);
            assert_eq!(ring.begin_in(spot.slot, spot.cycle), tick);
        }
    }

    /// A tick more than `MAX_CYCLES` cycles away has the cycle `FAR`.
    #[test]
    fn cycles_beyond_the_limit_are_far() {
        let ring = ring_at(60, 1, 0);
        let last = u64::from(MAX_CYCLES) * 60 + 59;
        assert_eq!(ring.spot_far(Tick::new(last)).cycle, MAX_CYCLES);
        assert_eq!(ring.spot_far(Tick::new(last + 1)).cycle, FAR);
        assert_eq!(ring.spot_far(Tick::MAX).slot, 15);
        assert_eq!(ring.cycles_before(Tick::MAX), (u64::MAX - 1) / 60);
    }

    /// C56: A geometry refuses sizes that make no sense, and its error names the level and its slots.
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
        assert_eq!(Geometry::levels(&[256; 4]), Ok(Geometry::default()));
        // `values/error.rs` lies below this module and cannot name the constant.
        let error = Geometry::ring(max + 1).unwrap_err().to_string();
        assert!(error.contains("more than 2^24 ") && max == 1 << 24, "{error}");
    }
}
