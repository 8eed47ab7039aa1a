//! The library of `faketime`, which gives a process another wall clock.

use std::process::Command;

/// How often the wrapper is called. It fails while `/dev/shm` has a file of an earlier process with the same
/// number; each call has another number.
const TRIES: usize = 10;

/// Returns the path of the library, or `None` where `faketime` is not installed.
pub(crate) fn library() -> Option<String> {
    for _ in 0..TRIES {
        let asked = Command::new("faketime").args(["-f", "+0", "printenv", "LD_PRELOAD"]).output();
        let Ok(asked) = asked else { break };
        let library = String::from_utf8(asked.stdout).unwrap_or_default();
        if asked.status.success() && !library.trim().is_empty() {
            return Some(library.trim().to_owned());
        }
    }
    eprintln!("skipped: it needs `faketime`, which on Debian is in the package faketime");
    None
}
