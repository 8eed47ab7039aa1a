//! The calls that allocate nothing, and the ticker, which frees no large block: checked with an allocator that counts
//! for each thread.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use tickwheel::Wheel;

thread_local! {
    static ALLOCATIONS: Cell<usize> = const { Cell::new(0) };
    static IS_TICKER: Cell<bool> = const { Cell::new(false) };
}

/// The large blocks that tickers and other threads have freed.
static FREED_BY_TICKERS: AtomicUsize = AtomicUsize::new(0);
static FREED_BY_OTHERS: AtomicUsize = AtomicUsize::new(0);
const LARGE_BYTES: usize = 32 << 10;

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
        if layout.size() >= LARGE_BYTES {
            let by = match IS_TICKER.try_with(Cell::get) {
                Ok(true) => &FREED_BY_TICKERS,
                _ => &FREED_BY_OTHERS,
            };
            by.fetch_add(1, Ordering::Relaxed);
        }
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

/// Marks the thread that calls this waker as a ticker.
#[cfg(feature = "async")]
struct MarksTicker(std::sync::mpsc::Sender<()>);

#[cfg(feature = "async")]
impl std::task::Wake for MarksTicker {
    fn wake(self: Arc<MarksTicker>) {
        IS_TICKER.set(true);
        let _ = self.0.send(());
    }
}

/// C122: The ticker frees no large block, although the slots of many jobs become empty there: a thread of the pool
/// frees them. Before, the ticker did, and a million jobs were late by 20 ms whenever the allocator joined the blocks
/// of jobs that had run.
#[cfg(feature = "async")]
#[test]
fn ticker_frees_no_large_block() {
    use std::task::{Context, Waker};
    let wheel = Wheel::builder().threads(1).build().unwrap();
    let (marks, marked) = std::sync::mpsc::channel();
    let waker = Waker::from(Arc::new(MarksTicker(marks)));
    loop {
        let mut sleep = std::pin::pin!(wheel.sleep(Duration::from_millis(20)));
        // It is over already if this thread was not running for so long.
        if sleep.as_mut().poll(&mut Context::from_waker(&waker)).is_pending() {
            marked.recv().unwrap();
            break;
        }
    }
    let freed = |by: &AtomicUsize| by.load(Ordering::Relaxed);
    // Few slots, so that the tasks that free their arrays may wait for the pool's thread, all of them.
    let jobs = (0..200_000).map(|n| (Duration::from_millis(500 + n % 200), || ()));
    wheel.insert_batch(jobs).unwrap();
    // This thread has freed arrays that became too small.
    let before = freed(&FREED_BY_OTHERS);
    assert!(wheel.wait_idle());
    drop(wheel);
    assert!(freed(&FREED_BY_OTHERS) > before);
    assert_eq!(freed(&FREED_BY_TICKERS), 0);
}
