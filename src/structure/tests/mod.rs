//! Tests that need private parts: forged keys, and the inside of the structure.

mod examples;
mod model;

use arbitrary::{Arbitrary, Unstructured};
use proptest::collection::vec;
use proptest::prelude::*;
use std::fmt::Debug;

use crate::structure::{Geometry, Hierarchy, Key, StoppedBy, Tuning};
use crate::values::handle::Generation;
use crate::values::time::Tick;
use model::{Forgery, Inside};

const INSIDE: Inside = Inside {
    make: |geometry, has_low_thresholds| {
        let tuning = if has_low_thresholds { Tuning::TINY } else { Tuning::DEFAULT };
        Hierarchy::with_tuning(geometry, tuning)
    },
    forge: |key, forgery| match forgery {
        Forgery::Index(index) => Some(Key { index, ..key }),
        Forgery::GenerationBy(by) => {
            let generation = Generation::new(key.generation.get().wrapping_add(by))?;
            Some(Key { generation, ..key })
        }
    },
    advance_to_due: Some(|wheel, to, limit| match wheel.advance_to_due(to, limit) {
        StoppedBy::Limit => None,
        stopped_by => {
            assert_eq!(wheel.earliest_deadline(), wheel.deadlines().min());
            Some(stopped_by == StoppedBy::Due)
        }
    }),
};

/// Each action has bytes of its own, so that a history that fails shrinks action by action.
fn from_bytes<T>() -> impl Strategy<Value = T>
where
    T: for<'a> Arbitrary<'a> + Debug,
{
    let decode = |bytes: Vec<u8>| Unstructured::new(&bytes).arbitrary();
    vec(any::<u8>(), 24).prop_map(move |bytes| decode(bytes).expect("enough bytes"))
}

/// At night `PROPTEST_CASES` raises the number of cases.
fn config() -> ProptestConfig {
    let default = ProptestConfig::default();
    ProptestConfig { cases: default.cases.max(1024), ..default }
}

proptest! {
    #![proptest_config(config())]

    /// Random histories of the structure agree with a map in the order of deadlines.
    #[test]
    fn structure_agrees_with_a_map(
        setup in from_bytes(),
        actions in vec(from_bytes(), 1..60),
    ) {
        model::run(&setup, &actions, INSIDE);
    }
}
