//! The verbs as futures: [`Async`], whose verbs are made from those of the handle. Each verb is written once, in a
//! `both!`.

/// The verbs of a handle as futures, which wait without blocking a thread: those of a [`Client`](crate::Client), and of
/// each handle that has an `asynchronous`. They have the same names, results and errors, and the same limit
/// ([`Builder::call_timeout`](crate::Builder::call_timeout)).
///
/// They run on any runtime, and need none. Futures share commits: 200 of them insert about twice as fast as 64 threads
/// (`docs/performance.md`). Do not call the verbs of the handle itself in an `async fn`: they block the runtime's
/// thread until the disk has written.
///
/// A future does nothing until it is polled. **If it is dropped before it has ended**, its change may have been made or
/// not, as after a lost answer. To repeat an insert safely, give the job an id ([`NewJob::id`](crate::NewJob::id)).
///
/// In the process that runs the jobs, the dispatcher's thread answers. A client of
/// [`Builder::client`](crate::Builder::client) starts a thread at its first such call. The limits of calls are timers
/// of a wheel, which adds one more thread. These threads end with the last clone of the client, or with the jobs.
///
/// ```
/// use std::time::Duration;
/// # use serde::{Deserialize, Serialize};
/// use tickwheel_jobs::{Async, Client, InsertErrorKind, Job, JobId};
///
/// # #[derive(Serialize, Deserialize)]
/// # struct CloseOrder { order: u64 }
/// # impl Job for CloseOrder { const KIND: &'static str = "close-order"; }
/// async fn ordered(jobs: &Async<Client>, order: u64) -> Result<JobId, InsertErrorKind> {
///     let hour = Duration::from_secs(3600);
///     Ok(jobs.insert(72 * hour, CloseOrder { order }).await?)
/// }
/// ```
#[derive(Clone, Debug)]
pub struct Async<H>(pub(super) H);

impl<H> Async<H> {
    /// Returns the handle, whose verbs block the thread.
    #[must_use]
    pub fn blocking(&self) -> &H {
        &self.0
    }
}

/// Writes verbs of a handle once: for a thread, which waits, and for futures.
macro_rules! both {
    ($handle:ty: $(
        $(#[$attribute:meta])*
        pub fn $verb:ident $(<$($generic:ident: $bound:path),+>)? (&self $(, $argument:ident: $of:ty)* $(,)?)
            -> $result:ty = |$it:ident, $caller:ident| $body:expr;
    )+) => {
        impl $handle { $(
            $(#[$attribute])*
            pub fn $verb $(<$($generic: $bound),+>)? (&self $(, $argument: $of)*) -> $result {
                async fn verb $(<$($generic: $bound),+>)? (
                    $it: &$handle,
                    $caller: $crate::api::request::Caller
                    $(, $argument: $of)*
                ) -> $result {
                    $body
                }
                $crate::api::request::on_thread(
                    verb(self, $crate::api::request::Caller::Thread $(, $argument)*),
                )
            }
        )+ }

        impl $crate::api::asynchronous::Async<$handle> { $(
            $(#[$attribute])*
            pub async fn $verb $(<$($generic: $bound),+>)? (&self $(, $argument: $of)*) -> $result {
                let ($it, $caller) = (&self.0, $crate::api::request::Caller::Future);
                $body
            }
        )+ }
    };
}
pub(super) use both;

/// Gives handles their `asynchronous`.
macro_rules! asynchronous {
    ($($handle:ty),+) => { $(
        impl $handle {
            /// Returns the same verbs as futures.
            #[must_use]
            pub fn asynchronous(&self) -> Async<$handle> {
                Async(self.clone())
            }
        }
    )+ };
}
pub(super) use asynchronous;
