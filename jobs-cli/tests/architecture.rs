//! The rules about each file, which are those of the crate of the wheel.

#[path = "../../tests/architecture/files.rs"]
mod files;
