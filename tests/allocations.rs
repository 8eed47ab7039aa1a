//! The calls that allocate nothing, checked with an allocator that counts for each thread.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use tickwheel::Wheel;

thread_local! {
    static ALLOCATIONS: Cell<usize> = const { Cell::new(0) };
}

/// Counts the allocations of each thread.
struct Counting;

// SAFETY: it forwards every call to the system's allocator.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let _ = ALLOCATIONS.try_with(|count| count.set(count.get() + 1));
        // SAFETY: the caller keeps the promises.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: the caller keeps the promises.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// A run of a repeating job allocates nothing on a manual clock, even if each run is a call of the driver:
/// the job's box and the buffer for due jobs are used again.
#[test]
fn run_of_a_repeating_job_allocates_nothing() {
    const MS: Duration = Duration::from_millis(1);
    let (wheel, driver) = Wheel::builder().manual().unwrap();
    let runs = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&runs);
    let count = move || {
        counted.fetch_add(1, Ordering::Relaxed);
    };
    wheel.every(MS, count).unwrap();
    let allocations_in = |call: &dyn Fn()| {
        let before = ALLOCATIONS.get();
        call();
        ALLOCATIONS.get() - before
    };
    // Each slot allocates its array when it is first used.
    driver.advance(2000 * MS);
    let one_call = allocations_in(&|| assert_eq!(driver.advance(1000 * MS), 1000));
    let many_calls = allocations_in(&|| {
        for _ in 0..1000 {
            assert_eq!(driver.advance(MS), 1);
        }
    });
    assert!(one_call <= 20 && many_calls <= 20, "{one_call} and {many_calls} allocations");
    assert_eq!(runs.load(Ordering::Relaxed), 4000);
}
