//! The tuning: thresholds that trade memory against time.
//!
//! A wheel uses [`Tuning::DEFAULT`]. Unit tests use tiny thresholds, so that a short history
//! crosses them; the structure is the same.

/// Thresholds of one [`Hierarchy`](crate::Hierarchy). No value of them makes an answer wrong.
#[derive(Clone, Copy, Debug)]
pub(super) struct Tuning {
    /// A slot with so many entries is full: it is cascaded early (`early_cascade.rs`), and visited
    /// when it begins (`Ring::visit_of`). Any other is visited when the first of its timers is due.
    pub(super) early_cascade_min: usize,
    /// A slab with room for no more nodes than this, and of no more bytes than these, is never shrunk
    /// (`shrink.rs`).
    pub(super) kept_nodes: usize,
    pub(super) kept_bytes: usize,
    /// A slab of `room` is sparse when it holds fewer than `room >> sparse_shift` nodes.
    pub(super) sparse_shift: u32,
}

impl Tuning {
    /// A cascade of fewer than 16,384 entries takes less than half a millisecond. 4096 nodes are
    /// 160 kB in a wheel, and large values make fewer as much. A sixteenth bounds the pause of a move, see `shrink.rs`.
    pub(super) const DEFAULT: Tuning = Tuning {
        early_cascade_min: 16_384,
        kept_nodes: 4096,
        kept_bytes: 160 << 10,
        sparse_shift: 4,
    };

    /// So low that a handful of timers crosses every threshold.
    #[cfg(test)]
    pub(super) const TINY: Tuning =
        Tuning { early_cascade_min: 3, kept_nodes: 2, kept_bytes: usize::MAX, sparse_shift: 1 };
}
