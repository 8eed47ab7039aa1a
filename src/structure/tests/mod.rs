//! Tests that need private parts: forged keys, and the inside of the structure.

mod examples;
mod model;
