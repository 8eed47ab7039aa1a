//! Tests that need what the public surface hides: forged keys, and the structure's inside.

mod examples;
mod model;
