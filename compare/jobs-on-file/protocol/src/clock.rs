//! The wall clock of this process, which a row may set forward: three days pass in some seconds.
//!
//! Ground rules:
//!
//! - `clock_gettime` and `gettimeofday` are defined here, so the linker binds every call of this
//!   program to these: those of the standard library, of the contender, and of SQLite's C code. They
//!   call the C library's own, and add [`ahead`] to the wall clock. The monotonic clock is left alone.

use std::ffi::{CStr, c_int, c_void};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use crate::job::SECOND;

static AHEAD: AtomicI64 = AtomicI64::new(0);

/// Sets the wall clock of this process forward.
pub(crate) fn set_forward(by: Duration) {
    AHEAD.fetch_add(i64::try_from(by.as_nanos()).unwrap_or(0), Ordering::SeqCst);
}

type ClockGettime = unsafe extern "C" fn(libc::clockid_t, *mut libc::timespec) -> c_int;

fn next() -> ClockGettime {
    static NEXT: OnceLock<ClockGettime> = OnceLock::new();
    *NEXT.get_or_init(|| {
        const NAME: &CStr = c"clock_gettime";
        // SAFETY: the name is a C string, and every C library of Linux has a function of this name and
        // signature after this program in its search order.
        unsafe {
            let found: *mut c_void = libc::dlsym(libc::RTLD_NEXT, NAME.as_ptr());
            assert!(!found.is_null(), "the C library has no clock_gettime");
            std::mem::transmute::<*mut c_void, ClockGettime>(found)
        }
    })
}

// SAFETY: the signature and the meaning are those of the C library's function of this name.
#[unsafe(no_mangle)]
unsafe extern "C" fn clock_gettime(clock: libc::clockid_t, time: *mut libc::timespec) -> c_int {
    // SAFETY: the caller keeps the contract of `clock_gettime`.
    let done = unsafe { next()(clock, time) };
    let ahead = AHEAD.load(Ordering::Relaxed);
    if ahead != 0 && done == 0 && clock == libc::CLOCK_REALTIME && !time.is_null() {
        // SAFETY: the call has just written to it.
        let time = unsafe { &mut *time };
        let nanos = time.tv_nsec + ahead % SECOND;
        time.tv_sec += ahead / SECOND + nanos / SECOND;
        time.tv_nsec = nanos % SECOND;
    }
    done
}

// SAFETY: the signature and the meaning are those of the C library's function of this name.
#[unsafe(no_mangle)]
unsafe extern "C" fn gettimeofday(time: *mut libc::timeval, _zone: *mut c_void) -> c_int {
    let mut exact = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `exact` is a valid place for the answer.
    let done = unsafe { clock_gettime(libc::CLOCK_REALTIME, &mut exact) };
    if done == 0 && !time.is_null() {
        let known = libc::timeval { tv_sec: exact.tv_sec, tv_usec: exact.tv_nsec / 1000 };
        // SAFETY: the caller gives a valid place or null.
        unsafe { *time = known };
    }
    done
}
