//! Actions from bytes. The fuzzer invents the bytes of a whole history, and proptest those of one action at a time.

use std::fmt::Debug;
use std::iter;

use arbitrary::{Arbitrary, Unstructured};

/// A model with more actions than this takes seconds for one input.
const ACTIONS_MAX: usize = 400;

/// Decodes a history: the setup, then actions up to the end of the bytes. With `TRACE` in the
/// environment it prints them, to show the history of a bug.
pub(crate) fn history<'a, S, A>(bytes: &'a [u8]) -> (S, Vec<A>)
where
    S: Arbitrary<'a> + Debug,
    A: Arbitrary<'a> + Debug,
{
    let mut data = Unstructured::new(bytes);
    let setup = data.arbitrary().expect("bytes that are missing count as zeros");
    let next = || if data.is_empty() { None } else { data.arbitrary().ok() };
    let actions: Vec<A> = iter::from_fn(next).take(ACTIONS_MAX).collect();
    if std::env::var_os("TRACE").is_some() {
        eprintln!("{setup:?}");
        actions.iter().for_each(|action| eprintln!("{action:?}"));
    }
    (setup, actions)
}
