//! Disks in memory under SQLite: every write, truncation, deletion and sync is recorded, and may
//! fail.
//!
//! Ground rules:
//!
//! - A disk is a map from names to bytes, and the list of the changes to it. To replay a part of
//!   the list gives the disk that a crash at that moment leaves.
//! - That a file was made or deleted is on stable storage once the file or the folder is synced. As
//!   SQLite's own file system does, the first sync of a journal or a log syncs the folder too.
//! - A fault is an error code and which operations get it. An operation that fails changes nothing,
//!   but a write may be cut short, and a sync that failed is no sync.

pub(crate) mod cut;
pub(crate) mod dump;
pub(crate) mod ffi;
pub(crate) mod task;
pub(crate) mod process;

use std::collections::{BTreeMap, HashMap};
use std::ffi::c_int;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tickwheel_jobs::rusqlite::ffi::{
    SQLITE_CANTOPEN, SQLITE_FULL, SQLITE_IOERR_DELETE_NOENT, SQLITE_IOERR_FSYNC, SQLITE_IOERR_READ,
    SQLITE_IOERR_TRUNCATE, SQLITE_IOERR_WRITE, SQLITE_OPEN_CREATE, SQLITE_OPEN_MAIN_JOURNAL,
    SQLITE_OPEN_WAL,
};

/// The bytes of each file.
pub(crate) type Files = BTreeMap<String, Vec<u8>>;

/// Something that was done to a disk.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Event {
    pub(crate) file: String,
    pub(crate) what: What,
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum What {
    Create,
    Write {
        at: usize,
        bytes: Arc<[u8]>,
    },
    Truncate(usize),
    Delete,
    Sync,
    /// What was written since the last sync is read, and never reaches the disk.
    Forget,
    /// Of no file: the names of all files.
    SyncFolder,
}

/// Which operations fail, and how.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Fault {
    pub(crate) on: Operation,
    pub(crate) error: Error,
    /// How many operations of this sort succeed before the first one that fails.
    pub(crate) after: u64,
    /// How many fail.
    pub(crate) times: u64,
    /// A write that fails writes its first half.
    pub(crate) cut_short: bool,
    /// A sync that fails makes the system forget that what was written is not on the disk: no later
    /// sync writes it. That is what Linux does.
    pub(crate) forgets: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Operation {
    Read,
    /// Truncations as well.
    Write,
    Sync,
    /// All of them.
    Any,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Error {
    Full,
    Io,
}

/// A disk.
pub(crate) struct Disk {
    number: u64,
    state: Arc<Mutex<State>>,
}

#[derive(Default)]
struct State {
    files: Files,
    log: Vec<Event>,
    fault: Option<Fault>,
    operations: u64,
    failed: u64,
}

static DISKS: Mutex<Option<HashMap<u64, Arc<Mutex<State>>>>> = Mutex::new(None);

fn disks() -> MutexGuard<'static, Option<HashMap<u64, Arc<Mutex<State>>>>> {
    DISKS.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Disk {
    /// Returns a disk with these files.
    pub(crate) fn new(files: Files) -> Disk {
        Disk::with_log(files, Vec::new())
    }

    fn with_log(files: Files, log: Vec<Event>) -> Disk {
        static NEXT: AtomicU64 = AtomicU64::new(1);
        ffi::register();
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let state = Arc::new(Mutex::new(State { files, log, ..State::default() }));
        disks().get_or_insert_default().insert(number, Arc::clone(&state));
        Disk { number, state }
    }

    /// Returns a copy of this disk as it is now. Later changes to this one, as when a process ends,
    /// do not reach the copy.
    pub(crate) fn fork(&self) -> Disk {
        let state = self.lock();
        Disk::with_log(state.files.clone(), state.log.clone())
    }

    /// Returns the path of a file on this disk.
    pub(crate) fn path(&self, name: &str) -> String {
        format!("{}/{name}", self.number)
    }

    pub(crate) fn files(&self) -> Files {
        self.lock().files.clone()
    }

    pub(crate) fn log(&self) -> Vec<Event> {
        self.lock().log.clone()
    }

    /// Returns how many events the log has.
    pub(crate) fn position(&self) -> usize {
        self.lock().log.len()
    }

    /// Makes operations fail from now on, in place of those that failed before.
    pub(crate) fn fail(&self, fault: Option<Fault>) {
        let mut state = self.lock();
        state.fault = fault;
        state.operations = 0;
        state.failed = 0;
    }

    /// Returns how many operations have failed since the last [`Disk::fail`].
    pub(crate) fn failed(&self) -> u64 {
        self.lock().failed
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        if let Some(disks) = disks().as_mut() {
            disks.remove(&self.number);
        }
    }
}

impl State {
    /// Counts an operation, and returns the error of one that fails.
    fn strikes(&mut self, operation: Operation) -> Option<Fault> {
        let fault = self.fault?;
        if fault.on != Operation::Any && fault.on != operation {
            return None;
        }
        let nth = self.operations;
        self.operations += 1;
        let strikes = nth >= fault.after && nth - fault.after < fault.times;
        self.failed += u64::from(strikes);
        strikes.then_some(fault)
    }

    fn done(&mut self, file: &str, what: What) {
        apply(&mut self.files, file, &what);
        self.log.push(Event { file: file.to_owned(), what });
    }
}

/// Does to the files what an event says.
pub(crate) fn apply(files: &mut Files, file: &str, what: &What) {
    match what {
        What::Create => drop(files.entry(file.to_owned()).or_default()),
        What::Write { at, bytes } => {
            let file = files.entry(file.to_owned()).or_default();
            if file.len() < at + bytes.len() {
                file.resize(at + bytes.len(), 0);
            }
            file[*at..at + bytes.len()].copy_from_slice(bytes);
        }
        What::Truncate(size) => files.entry(file.to_owned()).or_default().resize(*size, 0),
        What::Delete => drop(files.remove(file)),
        What::Sync | What::Forget | What::SyncFolder => {}
    }
}

/// An open file.
pub(crate) struct Handle {
    disk: Arc<Mutex<State>>,
    name: String,
    /// The next sync syncs the folder too.
    syncs_folder: bool,
}

impl Handle {
    fn find(path: Option<&str>) -> Option<(Arc<Mutex<State>>, String)> {
        let (number, name) = path?.split_once('/')?;
        let disk = Arc::clone(disks().as_ref()?.get(&number.parse().ok()?)?);
        Some((disk, name.to_owned()))
    }

    fn open(path: Option<&str>, flags: c_int) -> Result<Handle, c_int> {
        // A temporary file has no name, and is on no disk.
        if path.is_none() {
            let disk = Arc::new(Mutex::new(State::default()));
            return Ok(Handle { disk, name: String::new(), syncs_folder: false });
        }
        let (disk, name) = Handle::find(path).ok_or(SQLITE_CANTOPEN)?;
        let create = flags & SQLITE_OPEN_CREATE != 0;
        let journal = flags & (SQLITE_OPEN_MAIN_JOURNAL | SQLITE_OPEN_WAL) != 0;
        let handle = Handle { disk, name, syncs_folder: create && journal };
        let mut disk = handle.lock();
        if !disk.files.contains_key(&handle.name) {
            if !create {
                return Err(SQLITE_CANTOPEN);
            }
            disk.done(&handle.name, What::Create);
        }
        drop(disk);
        Ok(handle)
    }

    fn delete(path: Option<&str>, synced: bool) -> Result<(), c_int> {
        let (disk, name) = Handle::find(path).ok_or(SQLITE_IOERR_DELETE_NOENT)?;
        let mut disk = disk.lock().unwrap_or_else(PoisonError::into_inner);
        if !disk.files.contains_key(&name) {
            return Err(SQLITE_IOERR_DELETE_NOENT);
        }
        disk.done(&name, What::Delete);
        if synced {
            disk.done("", What::SyncFolder);
        }
        Ok(())
    }

    fn exists(path: Option<&str>) -> bool {
        Handle::find(path).is_some_and(|(disk, name)| {
            disk.lock().unwrap_or_else(PoisonError::into_inner).files.contains_key(&name)
        })
    }

    fn read(&self, at: usize, to: &mut [u8]) -> Result<usize, c_int> {
        let mut disk = self.lock();
        if disk.strikes(Operation::Read).is_some() {
            return Err(SQLITE_IOERR_READ);
        }
        let file = disk.files.get(&self.name).map_or(&[][..], |file| file);
        let from = file.get(at..).unwrap_or_default();
        let read = from.len().min(to.len());
        to[..read].copy_from_slice(&from[..read]);
        Ok(read)
    }

    fn write(&self, at: usize, bytes: &[u8]) -> Result<(), c_int> {
        let mut disk = self.lock();
        let fault = disk.strikes(Operation::Write);
        let written = match fault {
            None => bytes.len(),
            Some(fault) if fault.cut_short => bytes.len() / 2,
            Some(_) => 0,
        };
        if written > 0 {
            disk.done(&self.name, What::Write { at, bytes: Arc::from(&bytes[..written]) });
        }
        match fault {
            None => Ok(()),
            Some(Fault { error: Error::Full, .. }) => Err(SQLITE_FULL),
            Some(_) => Err(SQLITE_IOERR_WRITE),
        }
    }

    fn truncate(&self, size: usize) -> Result<(), c_int> {
        let mut disk = self.lock();
        if disk.strikes(Operation::Write).is_some() {
            return Err(SQLITE_IOERR_TRUNCATE);
        }
        disk.done(&self.name, What::Truncate(size));
        Ok(())
    }

    fn sync(&mut self) -> Result<(), c_int> {
        let folder = std::mem::take(&mut self.syncs_folder);
        let mut disk = self.lock();
        if let Some(fault) = disk.strikes(Operation::Sync) {
            if fault.forgets {
                disk.done(&self.name, What::Forget);
            }
            return Err(SQLITE_IOERR_FSYNC);
        }
        disk.done(&self.name, What::Sync);
        if folder {
            disk.done("", What::SyncFolder);
        }
        Ok(())
    }

    fn size(&self) -> usize {
        self.lock().files.get(&self.name).map_or(0, Vec::len)
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.disk.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
