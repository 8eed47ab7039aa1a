//! One file for each peer.

mod async_io;
mod hash_wheel;
mod heap;
mod ours;
mod pingora;
mod thread_pool;
mod timerwheel;
mod tokio;

pub(super) use async_io::AsyncIo;
pub(super) use hash_wheel::HashWheel;
pub(super) use heap::Heap;
pub(super) use ours::Ours;
pub(super) use pingora::Pingora;
pub(super) use thread_pool::ThreadPool;
pub(super) use timerwheel::TimerWheel;
pub(super) use tokio::Tokio;
