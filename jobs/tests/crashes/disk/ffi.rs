//! A virtual file system of SQLite's over disks in memory: the only unsafe code of these tests.
//!
//! Ground rules:
//!
//! - The file system is registered once, under [`NAME`], and stays. A path begins with the number of
//!   a disk (`7/jobs.db`), so thousands of disks share it.
//! - SQLite owns the memory of an [`OpenFile`]; a [`Handle`] is ours, from `open` to `close`.
//! - Nothing here decides anything: each function turns pointers into references, and asks the disk.
//! - It says of itself what SQLite's own file system says on Linux: sectors of 4,096 bytes, and a
//!   write changes no byte but those that are written. There is no shared memory, so a connection has
//!   to be exclusive.
#![allow(unsafe_code)]

use std::ffi::{CStr, c_char, c_int, c_void};
use std::ptr::{null, null_mut};
use std::slice;
use std::sync::Once;

use tickwheel_jobs::rusqlite::ffi;

use super::Handle;

/// The name of the file system.
pub(crate) const NAME: &str = "disks-in-memory";
const C_NAME: &CStr = c"disks-in-memory";

const LONGEST_PATH: c_int = 512;
const SECTOR_BYTES: c_int = 4096;

/// What SQLite calls an open file.
#[repr(C)]
struct OpenFile {
    base: ffi::sqlite3_file,
    handle: *mut Handle,
}

static METHODS: ffi::sqlite3_io_methods = ffi::sqlite3_io_methods {
    iVersion: 1,
    xClose: Some(close),
    xRead: Some(read),
    xWrite: Some(write),
    xTruncate: Some(truncate),
    xSync: Some(sync),
    xFileSize: Some(file_size),
    xLock: Some(lock),
    xUnlock: Some(lock),
    xCheckReservedLock: Some(check_reserved_lock),
    xFileControl: Some(file_control),
    xSectorSize: Some(sector_size),
    xDeviceCharacteristics: Some(device_characteristics),
    xShmMap: None,
    xShmLock: None,
    xShmBarrier: None,
    xShmUnmap: None,
    xFetch: None,
    xUnfetch: None,
};

/// Makes SQLite know the file system.
pub(crate) fn register() {
    static REGISTERED: Once = Once::new();
    // SAFETY: The structure is complete, is never freed, and every function in it keeps to SQLite's
    // interface. The functions of the default file system that it takes over look at no structure.
    REGISTERED.call_once(|| unsafe {
        let default = ffi::sqlite3_vfs_find(null());
        assert!(!default.is_null(), "SQLite has a file system of its own");
        let own = Box::new(ffi::sqlite3_vfs {
            iVersion: 2,
            szOsFile: size_of::<OpenFile>() as c_int,
            mxPathname: LONGEST_PATH,
            pNext: null_mut(),
            zName: C_NAME.as_ptr(),
            pAppData: null_mut(),
            xOpen: Some(open),
            xDelete: Some(delete),
            xAccess: Some(access),
            xFullPathname: Some(full_pathname),
            xDlOpen: None,
            xDlError: None,
            xDlSym: None,
            xDlClose: None,
            xRandomness: (*default).xRandomness,
            xSleep: (*default).xSleep,
            xCurrentTime: (*default).xCurrentTime,
            xGetLastError: None,
            xCurrentTimeInt64: (*default).xCurrentTimeInt64,
            xSetSystemCall: None,
            xGetSystemCall: None,
            xNextSystemCall: None,
        });
        let registered = ffi::sqlite3_vfs_register(Box::into_raw(own), 0);
        assert_eq!(registered, ffi::SQLITE_OK);
    });
}

/// # Safety
///
/// `path` is null, or a string that lives long enough.
unsafe fn text<'a>(path: *const c_char) -> Option<&'a str> {
    if path.is_null() {
        return None;
    }
    // SAFETY: As the caller says.
    unsafe { CStr::from_ptr(path) }.to_str().ok()
}

/// # Safety
///
/// `file` was opened by [`open`], and is not closed.
unsafe fn handle<'a>(file: *mut ffi::sqlite3_file) -> &'a mut Handle {
    // SAFETY: `open` wrote a handle there, and SQLite uses a file from one thread at a time.
    unsafe { &mut *(*file.cast::<OpenFile>()).handle }
}

fn code(result: Result<(), c_int>) -> c_int {
    result.err().unwrap_or(ffi::SQLITE_OK)
}

unsafe extern "C" fn open(
    _: *mut ffi::sqlite3_vfs,
    path: ffi::sqlite3_filename,
    file: *mut ffi::sqlite3_file,
    flags: c_int,
    out_flags: *mut c_int,
) -> c_int {
    // SAFETY: `file` has room for an `OpenFile`, `path` is null or a string, `out_flags` is null or
    // a place for a number.
    unsafe {
        (*file).pMethods = null();
        match Handle::open(text(path), flags) {
            Err(code) => code,
            Ok(handle) => {
                let handle = Box::into_raw(Box::new(handle));
                let base = ffi::sqlite3_file { pMethods: &METHODS };
                file.cast::<OpenFile>().write(OpenFile { base, handle });
                if !out_flags.is_null() {
                    *out_flags = flags;
                }
                ffi::SQLITE_OK
            }
        }
    }
}

unsafe extern "C" fn close(file: *mut ffi::sqlite3_file) -> c_int {
    // SAFETY: The handle was made by `open`, and SQLite closes a file once.
    unsafe {
        (*file).pMethods = null();
        drop(Box::from_raw((*file.cast::<OpenFile>()).handle));
    }
    ffi::SQLITE_OK
}

unsafe extern "C" fn read(
    file: *mut ffi::sqlite3_file,
    to: *mut c_void,
    bytes: c_int,
    at: ffi::sqlite3_int64,
) -> c_int {
    // SAFETY: `to` has room for that number of bytes.
    let (handle, to) =
        unsafe { (handle(file), slice::from_raw_parts_mut(to.cast::<u8>(), bytes as usize)) };
    match handle.read(at as usize, to) {
        Err(code) => code,
        Ok(read) if read < to.len() => {
            to[read..].fill(0);
            ffi::SQLITE_IOERR_SHORT_READ
        }
        Ok(_) => ffi::SQLITE_OK,
    }
}

unsafe extern "C" fn write(
    file: *mut ffi::sqlite3_file,
    from: *const c_void,
    bytes: c_int,
    at: ffi::sqlite3_int64,
) -> c_int {
    // SAFETY: `from` has that number of bytes.
    let (handle, from) =
        unsafe { (handle(file), slice::from_raw_parts(from.cast::<u8>(), bytes as usize)) };
    code(handle.write(at as usize, from))
}

unsafe extern "C" fn truncate(file: *mut ffi::sqlite3_file, size: ffi::sqlite3_int64) -> c_int {
    // SAFETY: The file is open.
    code(unsafe { handle(file) }.truncate(size as usize))
}

unsafe extern "C" fn sync(file: *mut ffi::sqlite3_file, _: c_int) -> c_int {
    // SAFETY: The file is open.
    code(unsafe { handle(file) }.sync())
}

unsafe extern "C" fn file_size(
    file: *mut ffi::sqlite3_file,
    size: *mut ffi::sqlite3_int64,
) -> c_int {
    // SAFETY: The file is open, and `size` is a place for a number.
    unsafe { *size = handle(file).size() as ffi::sqlite3_int64 };
    ffi::SQLITE_OK
}

unsafe extern "C" fn lock(_: *mut ffi::sqlite3_file, _: c_int) -> c_int {
    ffi::SQLITE_OK
}

unsafe extern "C" fn check_reserved_lock(_: *mut ffi::sqlite3_file, locked: *mut c_int) -> c_int {
    // SAFETY: `locked` is a place for a number.
    unsafe { *locked = 0 };
    ffi::SQLITE_OK
}

unsafe extern "C" fn file_control(_: *mut ffi::sqlite3_file, _: c_int, _: *mut c_void) -> c_int {
    ffi::SQLITE_NOTFOUND
}

unsafe extern "C" fn sector_size(_: *mut ffi::sqlite3_file) -> c_int {
    SECTOR_BYTES
}

unsafe extern "C" fn device_characteristics(_: *mut ffi::sqlite3_file) -> c_int {
    ffi::SQLITE_IOCAP_POWERSAFE_OVERWRITE
}

unsafe extern "C" fn delete(
    _: *mut ffi::sqlite3_vfs,
    path: *const c_char,
    sync_folder: c_int,
) -> c_int {
    // SAFETY: `path` is a string.
    code(Handle::delete(unsafe { text(path) }, sync_folder != 0))
}

unsafe extern "C" fn access(
    _: *mut ffi::sqlite3_vfs,
    path: *const c_char,
    _: c_int,
    found: *mut c_int,
) -> c_int {
    // SAFETY: `path` is a string, and `found` is a place for a number.
    unsafe { *found = c_int::from(Handle::exists(text(path))) };
    ffi::SQLITE_OK
}

unsafe extern "C" fn full_pathname(
    _: *mut ffi::sqlite3_vfs,
    path: *const c_char,
    room: c_int,
    to: *mut c_char,
) -> c_int {
    // SAFETY: `path` is a string, and `to` has so much room.
    unsafe {
        let path = CStr::from_ptr(path).to_bytes_with_nul();
        if path.len() > room as usize {
            return ffi::SQLITE_CANTOPEN;
        }
        path.as_ptr().copy_to_nonoverlapping(to.cast::<u8>(), path.len());
    }
    ffi::SQLITE_OK
}
