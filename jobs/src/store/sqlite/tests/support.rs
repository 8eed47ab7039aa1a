//! What the tests of the file share: a file whose process runs the jobs, and the present.

use std::sync::Arc;

use crate::store::Store;
use crate::store::sqlite::Sqlite;
use crate::store::sqlite::open::Location;
use crate::values::time::Millis;

pub(super) fn now() -> Millis {
    Millis::clamped(1_790_000_000_000)
}

/// Makes a temporary file whose process runs jobs of these kinds.
pub(super) fn opened(kinds: &[&str]) -> Sqlite {
    let mut location = Location::temporary().unwrap();
    let conn = location.open().unwrap();
    let mut store = Sqlite::new(location, conn, true, None);
    let kinds: Vec<Arc<str>> = kinds.iter().map(|kind| Arc::from(*kind)).collect();
    store.start_runner(&kinds, now()).unwrap();
    store
}
