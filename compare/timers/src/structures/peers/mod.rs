//! The structures that are compared, a file for each.

mod btree;
mod delay_queue;
mod hash_wheel;
mod heap;
mod nexus_timer;
mod ring;
mod slab_wheel;
mod tickwheel;
mod tm_wheel;

pub(crate) use btree::Tree;
pub(crate) use delay_queue::Queue;
pub(crate) use hash_wheel::HashWheel;
pub(crate) use heap::Heap;
pub(crate) use nexus_timer::Nexus;
pub(crate) use ring::Ring;
pub(crate) use slab_wheel::Wheel as SlabWheel;
pub(crate) use tickwheel::use_geometry;
pub(crate) type TickWheel = ::tickwheel::Hierarchy<u64>;
pub(crate) use tm_wheel::Wheel as TmWheel;
