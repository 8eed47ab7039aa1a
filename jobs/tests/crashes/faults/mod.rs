//! Disks that are full or fail, files that are damaged or not ours, readers that sit, and other names of a file.
//!
//! | file | what it holds |
//! | --- | --- |
//! | `injected.rs` | every write, sync and read of a history fails |
//! | `full_disk.rs` | a file system without room |
//! | `files.rs` | files that are refused, and stay as they are |
//! | `damage.rs` | flipped bytes and cut files |
//! | `names.rs` | links, names, and files that are removed while they are in use |
//! | `others.rs` | other connections: a reader that sits, a writer at the end |
//! | `../disk/` | disks in memory under SQLite |
//!
//! Not here: a fork, which needs unsafe code, and a clock of the system that is set.

mod damage;
mod files;
mod full_disk;
mod injected;
mod names;
mod others;
