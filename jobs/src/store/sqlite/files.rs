//! Files beside the store, and what waits for other connections.

use std::cell::RefCell;
use std::fs::{File, Metadata};
use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use crate::store::words::Hurry;

/// How often a transaction looks whether that of another connection has ended: 10 seconds in all.
const BUSY_TRIES: i32 = 10_000;
/// How many of these looks come soon after each other.
const BUSY_EAGER_TRIES: i32 = 1_000;
const BUSY_EAGER_WAIT: Duration = Duration::from_micros(100);
const BUSY_WAIT: Duration = Duration::from_millis(1);

/// Returns the path with a suffix: of a file that belongs to another.
pub(super) fn beside(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(suffix);
    PathBuf::from(name)
}

/// Which file a name leads to: its device, and its number there.
pub(super) type Identity = (u64, u64);

/// Returns which file it is, if it is there.
#[cfg(unix)]
pub(super) fn identity(file: io::Result<Metadata>) -> Option<Identity> {
    use std::os::unix::fs::MetadataExt;
    file.ok().map(|file| (file.dev(), file.ino()))
}

/// Returns which file it is, if it is there: here files cannot be told from each other.
#[cfg(not(unix))]
pub(super) fn identity(file: io::Result<Metadata>) -> Option<Identity> {
    file.ok().map(|_| (0, 0))
}

/// Makes the name of a new file stay.
pub(super) fn sync_folder(path: &Path) -> io::Result<()> {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    let folder = File::open(folder.unwrap_or(Path::new(".")))?;
    // Some file systems cannot sync a folder, and need not.
    match folder.sync_all() {
        Err(error) if error.kind() != io::ErrorKind::InvalidInput => Err(error),
        _ => Ok(()),
    }
}

thread_local! {
    /// When this thread stops waiting for transactions of other connections.
    static WAIT: RefCell<(Option<Instant>, Hurry)> = RefCell::default();
}

/// Runs `body`, which waits for other connections until then at most, or until it has to hurry. SQLite
/// calls the handler with nothing but a count, so the times are left beside it.
pub(super) fn waiting_until<T>(
    until: Option<Instant>,
    hurry: &Hurry,
    body: impl FnOnce() -> T,
) -> T {
    let before = WAIT.replace((until, hurry.clone()));
    let done = body();
    WAIT.set(before);
    done
}

/// Waits for a transaction of another connection: until [`waiting_until`] says, or for 10 s. SQLite's own
/// handler waits for up to 100 ms at a time. A process that inserts in a loop takes the lock many times
/// meanwhile, and would keep the one that runs the jobs from its turn for seconds.
#[expect(clippy::disallowed_methods, reason = "nobody tells the end of a foreign transaction")]
pub(super) fn wait_for_others(tries: i32) -> bool {
    let now = Instant::now();
    let is_over = WAIT.with_borrow(|(until, hurry)| {
        until.is_some_and(|until| until <= now) || hurry.is_over(now)
    });
    if is_over {
        return false;
    }
    std::thread::sleep(if tries < BUSY_EAGER_TRIES { BUSY_EAGER_WAIT } else { BUSY_WAIT });
    tries < BUSY_TRIES
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Promise: a batch waits for a foreign transaction until its callers stop waiting, and no longer.
    #[test]
    #[expect(clippy::disallowed_methods, reason = "the handler reads the clock")]
    fn a_wait_for_others_ends_at_its_time_and_not_before() {
        let now = Instant::now();
        assert!(wait_for_others(0));
        let (calm, hurry) = (Hurry::default(), Hurry::default());
        hurry.by(now);
        let later = Some(now + Duration::from_secs(3600));
        assert!(!waiting_until(Some(now), &calm, || wait_for_others(0)));
        assert!(waiting_until(later, &calm, || wait_for_others(0)));
        assert!(!waiting_until(later, &hurry, || wait_for_others(0)));
        assert!(wait_for_others(0), "the limit is the batch's alone");
    }
}
