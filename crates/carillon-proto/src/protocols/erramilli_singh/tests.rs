//! One rule each.
