//! Which handlers run on the calling thread.

use core::cell::RefCell;
use std::sync::Arc;

use super::dispatcher_handle::DispatcherHandle;

thread_local! {
    /// The jobs whose handlers run on this thread: on a manual clock, one handler may call another.
    static IN_HANDLERS: RefCell<Vec<usize>> = const { RefCell::new(Vec::new()) };
}

/// Says whether the calling thread is in a handler of these jobs, which a shutdown must not wait for.
pub(crate) fn is_in_handler_of(dispatcher: &Arc<DispatcherHandle>) -> bool {
    IN_HANDLERS.with_borrow(|handlers| handlers.contains(&identity(dispatcher)))
}

/// Says whether the calling thread is in a handler of any jobs.
pub(crate) fn is_in_handler() -> bool {
    IN_HANDLERS.with_borrow(|handlers| !handlers.is_empty())
}

/// Returns a number that identifies these jobs.
fn identity(dispatcher: &Arc<DispatcherHandle>) -> usize {
    Arc::as_ptr(dispatcher).addr()
}

/// The calling thread is in a handler until this is dropped.
pub(crate) struct InHandler;

impl InHandler {
    pub(crate) fn of(dispatcher: &Arc<DispatcherHandle>) -> InHandler {
        IN_HANDLERS.with_borrow_mut(|handlers| handlers.push(identity(dispatcher)));
        InHandler
    }
}

impl Drop for InHandler {
    fn drop(&mut self) {
        let _ = IN_HANDLERS.with_borrow_mut(Vec::pop);
    }
}
