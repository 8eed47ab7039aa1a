//! Random numbers: the generator `xorshift64*` of S. Vigna, the same in every run.

pub(super) struct Random(u64);

impl Random {
    /// A sequence of its own for each number.
    pub(super) fn new(number: usize) -> Random {
        Random((number as u64 + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15))
    }

    /// From 0 to below `end`, which is far below 2^32.
    pub(super) fn below(&mut self, end: usize) -> usize {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        let mixed = self.0.wrapping_mul(0x2545_f491_4f6c_dd1d);
        ((mixed >> 32) as usize * end) >> 32
    }
}
