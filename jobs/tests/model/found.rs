//! What the model has found, one small history each.
