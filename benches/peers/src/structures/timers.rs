//! What every structure has to offer to be measured: the verbs of a timer, over virtual time.
//!
//! Ground rules:
//!
//! - Time is a number of ticks. A structure that wants instants gets one millisecond for a tick, and
//!   converts for itself: its users would have to.
//! - What a verb costs here is what it costs a program that uses the structure as its documentation
//!   says. Nothing is boxed, and nothing is called through a pointer that the structure does not ask for.
//! - A value is 8 bytes: the number of the timer.

/// A structure that holds timers.
pub(crate) trait Timers: Sized {
    /// What it is called in a case and in the tables.
    const NAME: &'static str;
    /// Whether a cancel takes constant or logarithmic time and leaves nothing behind.
    const EXACT_CANCEL: bool;
    /// Whether what one advance fires comes in the order of deadlines.
    const ORDERED: bool;

    /// What a program keeps to cancel a timer. It belongs to one timer, and is dead once that has
    /// fired or is cancelled.
    type Key;
    /// What an advance gives out for one timer.
    type Due: Due;

    /// An empty structure at tick 0.
    fn new() -> Self;

    /// The deadline lies after the last tick that was advanced to.
    fn insert(&mut self, deadline: u64, value: u64) -> Self::Key;

    /// Inserts a timer that will never be cancelled.
    fn insert_forgotten(&mut self, deadline: u64, value: u64) {
        self.insert(deadline, value);
    }

    /// Whether the timer was there.
    fn cancel(&mut self, key: &mut Self::Key) -> bool;

    /// Gives a timer another deadline; whether it was there. The value is that of the insert, for
    /// those that have no such verb.
    fn reset(&mut self, key: &mut Self::Key, deadline: u64, value: u64) -> bool {
        let pending = self.cancel(key);
        *key = self.insert(deadline, value);
        pending
    }

    /// Gives up the key of a timer that has fired.
    fn retire(&mut self, _key: &mut Self::Key) {}

    /// Moves the clock to tick `to` and appends what is due.
    fn advance(&mut self, to: u64, due: &mut Vec<Self::Due>);
}

/// What is given out for a timer.
pub(crate) trait Due {
    /// The value of the timer.
    fn value(&self) -> u64;
}

impl Due for u64 {
    fn value(&self) -> u64 {
        *self
    }
}

impl<K> Due for (K, u64) {
    fn value(&self) -> u64 {
        self.1
    }
}
