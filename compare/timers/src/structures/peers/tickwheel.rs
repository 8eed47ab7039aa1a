//! [`tickwheel::Hierarchy`], with its default geometry, or with one that a work has chosen for the
//! process.

use std::sync::OnceLock;

use tickwheel::{Geometry, Hierarchy, Key, Tick};

use crate::structures::timers::Timers;

static GEOMETRY: OnceLock<Geometry> = OnceLock::new();

/// The geometry of every hierarchy in this process. Only the first choice has an effect.
pub(crate) fn use_geometry(geometry: Geometry) {
    GEOMETRY.get_or_init(|| geometry);
}

impl Timers for Hierarchy<u64> {
    const NAME: &'static str = "tickwheel";
    const EXACT_CANCEL: bool = true;
    const ORDERED: bool = true;

    type Key = Key;
    type Due = (Key, u64);

    fn new() -> Hierarchy<u64> {
        Hierarchy::new(GEOMETRY.get().cloned().unwrap_or_default())
    }

    fn insert(&mut self, deadline: u64, value: u64) -> Key {
        Hierarchy::insert(self, Tick::new(deadline), value)
    }

    fn cancel(&mut self, key: &mut Key) -> bool {
        Hierarchy::cancel(self, *key).is_some()
    }

    fn reset(&mut self, key: &mut Key, deadline: u64, _value: u64) -> bool {
        Hierarchy::reset(self, *key, Tick::new(deadline))
    }

    fn advance(&mut self, to: u64, due: &mut Vec<(Key, u64)>) {
        let turn = Hierarchy::advance(self, Tick::new(to), usize::MAX, due);
        debug_assert!(turn.finished);
    }
}
