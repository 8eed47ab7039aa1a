//! The tuning: thresholds that trade memory against time.
//!
//! A wheel uses [`Tuning::DEFAULT`]. Unit tests use tiny thresholds, so that a short history
//! crosses them; the structure is the same.

/// Thresholds of one [`Hierarchy`](crate::Hierarchy). They change costs, never results.
#[derive(Clone, Copy, Debug)]
pub(super) struct Tuning {
    /// A slot with this many entries, or more, is full: it is cascaded early (`early_cascade.rs`),
    /// and visited when it begins (`Ring::visit_of`). Any other slot is visited when the first of
    /// its timers is due.
    pub(super) early_cascade_min: usize,
    /// A slab with room for at most `kept_nodes` nodes, which take at most `kept_bytes` bytes, is
    /// never shrunk (`shrink.rs`).
    pub(super) kept_nodes: usize,
    pub(super) kept_bytes: usize,
    /// A slab of `room` is sparse when it holds fewer than `room >> sparse_shift` nodes.
    pub(super) sparse_shift: u32,
}

impl Tuning {
    /// A cascade of fewer than 16,384 entries takes less than half a millisecond. 4096 nodes take
    /// 160 kB in a wheel; with larger values, fewer nodes take as much. A sixteenth
    /// (`sparse_shift`) bounds the pause of a move, see `shrink.rs`.
    pub(super) const DEFAULT: Tuning = Tuning {
        early_cascade_min: 16_384,
        kept_nodes: 4096,
        kept_bytes: 160 << 10,
        sparse_shift: 4,
    };

    /// Thresholds so low that a handful of timers crosses every one.
    #[cfg(test)]
    pub(super) const TINY: Tuning =
        Tuning { early_cascade_min: 3, kept_nodes: 2, kept_bytes: usize::MAX, sparse_shift: 1 };
}
