//! Which calls a history has.

use proptest::prelude::*;

use super::history::{How, Step};
use crate::disk::task::Plan;

/// Every verb, and every end of a job.
pub(crate) fn every_verb() -> Vec<Step> {
    use Step::*;
    vec![
        Insert { ms: 100, plan: Plan::Succeed },
        Insert { ms: 200, plan: Plan::Fail },
        Insert { ms: 300, plan: Plan::Die },
        Insert { ms: 700, plan: Plan::Chain },
        Insert { ms: 250, plan: Plan::Then },
        InsertWithId { name: 1, ms: 900, plan: Plan::Succeed },
        InsertWithId { name: 1, ms: 900, plan: Plan::Succeed },
        Batch { jobs: 20, ms: 400 },
        Keyed { key: 1, ms: 60_000, how: How::Replace },
        Keyed { key: 1, ms: 70_000, how: How::Replace },
        Keyed { key: 1, ms: 80_000, how: How::ReplaceKeepingTime },
        Keyed { key: 1, ms: 80_000, how: How::Leave },
        Keyed { key: 2, ms: 80_000, how: How::Leave },
        CancelKey { key: 2 },
        Schedule { name: 1, ms: 300 },
        Advance { ms: 400 },
        Cancel { back: 6 },
        Reschedule { back: 7, ms: 5_000 },
        Restart,
        Insert { ms: 10, plan: Plan::Succeed },
        Kill,
        Advance { ms: 400 },
        Insert { ms: 0, plan: Plan::Succeed },
        Kill,
        Advance { ms: 200 },
        Restart,
        InsertWithId { name: 1, ms: 900, plan: Plan::Succeed },
        Advance { ms: 1_500 },
        Retry { nth: 0 },
        Advance { ms: 100 },
        Delete { nth: 0 },
        Unschedule { name: 1 },
        Flush,
        Insert { ms: 50, plan: Plan::Succeed },
        Cancel { back: 0 },
        Insert { ms: 10, plan: Plan::Fail },
        Advance { ms: 100 },
        Kill,
        Restart,
        Batch { jobs: 20, ms: 0 },
        Advance { ms: 300 },
    ]
}

/// Any call.
pub(crate) fn step() -> impl Strategy<Value = Step> {
    let ms = || (0..30_u64).prop_map(|tenths| tenths * 100);
    let plan = || {
        prop_oneof![
            4 => Just(Plan::Succeed),
            2 => Just(Plan::Fail),
            1 => Just(Plan::Die),
            1 => Just(Plan::Chain),
            2 => Just(Plan::Then),
        ]
    };
    let how = prop_oneof![Just(How::Replace), Just(How::ReplaceKeepingTime), Just(How::Leave)];
    prop_oneof![
        6 => (ms(), plan()).prop_map(|(ms, plan)| Step::Insert { ms, plan }),
        2 => (0..3_u8, ms(), plan())
            .prop_map(|(name, ms, plan)| Step::InsertWithId { name, ms, plan }),
        2 => (0..21_u8, ms()).prop_map(|(jobs, ms)| Step::Batch { jobs, ms }),
        3 => (0..2_u8, ms(), how).prop_map(|(key, ms, how)| Step::Keyed { key, ms, how }),
        1 => (0..2_u8).prop_map(|key| Step::CancelKey { key }),
        3 => (0..10_usize).prop_map(|back| Step::Cancel { back }),
        3 => (0..10_usize, ms()).prop_map(|(back, ms)| Step::Reschedule { back, ms }),
        8 => (1..16_u64).prop_map(|tenths| Step::Advance { ms: tenths * 100 }),
        1 => (0..2_u8, 3..9_u64).prop_map(|(name, tenths)| Step::Schedule { name, ms: tenths * 100 }),
        1 => (0..2_u8).prop_map(|name| Step::Unschedule { name }),
        1 => (0..4_usize).prop_map(|nth| Step::Retry { nth }),
        1 => (0..4_usize).prop_map(|nth| Step::Delete { nth }),
        1 => Just(Step::Flush),
        1 => Just(Step::Restart),
        2 => Just(Step::Kill),
    ]
}
