//! The trait of every structure that is measured: the verbs of a timer, over virtual time.
//!
//! Ground rules:
//!
//! - Time is a number of ticks. For a structure that needs instants a tick is one millisecond, and the
//!   conversion is measured too, because its users would need it.
//! - A verb costs here what it costs a program that uses the structure as its documentation says.
//!   Boxes and calls through pointers are there only if the structure demands them.
//! - A value is 8 bytes: the number of the timer.

/// A structure that holds timers.
pub(crate) trait Timers: Sized {
    /// Its name in a case and in the tables.
    const NAME: &'static str;
    /// Whether a cancel takes constant or logarithmic time and leaves nothing behind.
    const EXACT_CANCEL: bool;
    /// Whether one advance fires timers in the order of deadlines.
    const ORDERED: bool;

    /// The key that a program keeps to cancel a timer. It belongs to one timer, and is dead once that
    /// timer has fired or is cancelled.
    type Key;
    /// The item that an advance returns for one timer.
    type Due: Due;

    /// An empty structure at tick 0.
    fn new() -> Self;

    /// Inserts a timer. The deadline lies after the last tick that was advanced to.
    fn insert(&mut self, deadline: u64, value: u64) -> Self::Key;

    /// Inserts a timer that will never be cancelled.
    fn insert_forgotten(&mut self, deadline: u64, value: u64) {
        self.insert(deadline, value);
    }

    /// Cancels a timer. Returns whether it was there.
    fn cancel(&mut self, key: &mut Self::Key) -> bool;

    /// Gives a timer another deadline. Returns whether it was there. A structure without such a verb
    /// inserts the timer anew, with the given value.
    fn reset(&mut self, key: &mut Self::Key, deadline: u64, value: u64) -> bool {
        let pending = self.cancel(key);
        *key = self.insert(deadline, value);
        pending
    }

    /// Gives up the key of a timer that has fired.
    fn retire(&mut self, _key: &mut Self::Key) {}

    /// Moves the clock to tick `to`, and appends the timers that are due.
    fn advance(&mut self, to: u64, due: &mut Vec<Self::Due>);
}

/// The item of a timer that has fired.
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
